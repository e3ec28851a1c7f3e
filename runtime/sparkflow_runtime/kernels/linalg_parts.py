"""Diagonals and bands of matrices. Diagonal k of [m, n] begins at row max(-k, 0), column max(k, 0)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, one_int
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _nothing(x: Any) -> Any:
    return b"" if x.dtype.kind == "O" else x.dtype.type(0)


def _span(op: str, k: Any, m: int, n: int) -> tuple[int, int]:
    """(lowest, highest) diagonal, inside matrices [m, n]."""
    found = host(k).ravel().tolist()
    low, high = found[0], found[-1]
    inside = all(-m < d < n or d == 0 for d in (low, high))
    if len(found) > 2 or low > high or not inside:
        raise InvalidArgumentError(f"{op}: k must be one or two rising diagonals of matrices [{m}, {n}], got {found}")
    return low, high


def _length(k: int, m: int, n: int) -> int:
    return min(m + min(k, 0), n - max(k, 0))


def _places(xp: Any, k: int, m: int, n: int) -> tuple[Any, Any]:
    along = xp.arange(_length(k, m, n))
    return along + max(-k, 0), along + max(k, 0)


def _offset(k: int, length: int, longest: int, align: str) -> int:
    """Where a shorter diagonal begins in its row of the band: `align` says it for upper and lower ones."""
    upper, lower = align.split("_")
    side = upper if k >= 0 else lower
    return longest - length if side == "RIGHT" else 0


def _diagonals(xp: Any, x: Any, low: int, high: int, padding: Any, align: str) -> Any:
    m, n = x.shape[-2:]
    if low == high:
        rows, columns = _places(xp, low, m, n)
        return x[..., rows, columns]
    longest = max(_length(k, m, n) for k in range(low, high + 1))
    out = xp.full((*x.shape[:-2], high - low + 1, longest), padding, x.dtype)
    for k in range(low, high + 1):
        rows, columns = _places(xp, k, m, n)
        at = _offset(k, len(rows), longest, align)
        out[..., high - k, at : at + len(rows)] = x[..., rows, columns]
    return out


def _put(xp: Any, out: Any, diagonals: Any, low: int, high: int, align: str) -> Any:
    m, n = out.shape[-2:]
    for k in range(low, high + 1):
        rows, columns = _places(xp, k, m, n)
        if low == high:
            out[..., rows, columns] = diagonals[..., : len(rows)]
            continue
        at = _offset(k, len(rows), diagonals.shape[-1], align)
        out[..., rows, columns] = diagonals[..., high - k, at : at + len(rows)]
    return out


@kernel("MatrixDiagPart")
def _matrix_diag_part(xp: Any, x: Any) -> Any:
    if x.ndim < 2:
        raise InvalidArgumentError(f"MatrixDiagPart: input must be at least 2-dim, received shape: {list(x.shape)}")
    return _diagonals(xp, x, 0, 0, None, "")


@kernel("MatrixDiagPartV3")
def _matrix_diag_part_v3(xp: Any, x: Any, k: Any, padding: Any, *, align: str = "RIGHT_LEFT") -> Any:
    if x.ndim < 2:
        raise InvalidArgumentError(f"MatrixDiagPartV3: input must be at least 2-dim, received shape: {list(x.shape)}")
    low, high = _span("MatrixDiagPartV3", k, *x.shape[-2:])
    return _diagonals(xp, x, low, high, padding, align)


@kernel("MatrixDiag")
def _matrix_diag(xp: Any, x: Any) -> Any:
    if not x.ndim:
        raise InvalidArgumentError("MatrixDiag: input must be at least 1-dim, received shape: []")
    return _put(xp, xp.full((*x.shape, x.shape[-1]), _nothing(x), x.dtype), x, 0, 0, "")


@kernel("MatrixDiagV3")
def _matrix_diag_v3(
    xp: Any, x: Any, k: Any, num_rows: Any, num_cols: Any, padding: Any, *, align: str = "RIGHT_LEFT"
) -> Any:
    found = host(k).ravel().tolist()
    low, high = found[0], found[-1]
    if low > high or not x.ndim or (low != high and (x.ndim < 2 or x.shape[-2] != high - low + 1)):
        raise InvalidArgumentError(f"MatrixDiagV3: diagonals {list(x.shape)} do not fit k {found}")
    length, batch = x.shape[-1], x.shape[:-1] if low == high else x.shape[:-2]
    rows, columns = one_int(num_rows), one_int(num_cols)
    least = length - min(high, 0), length + max(low, 0)
    if rows < 0 and columns < 0:
        rows = columns = max(least)
    rows, columns = (least[0] if rows < 0 else rows), (least[1] if columns < 0 else columns)
    if rows < least[0] or columns < least[1] or ((rows, columns)[0] != least[0] and columns != least[1]):
        raise InvalidArgumentError(
            f"MatrixDiagV3: [{rows}, {columns}] is no size for diagonals {list(x.shape)}, k {found}"
        )
    return _put(xp, xp.full((*batch, rows, columns), padding, x.dtype), x, low, high, align)


@kernel("MatrixSetDiag")
def _matrix_set_diag(xp: Any, x: Any, diagonal: Any) -> Any:
    if x.ndim < 2 or diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise InvalidArgumentError(f"MatrixSetDiag: {list(diagonal.shape)} are no diagonals of {list(x.shape)}")
    return _put(xp, x.copy(), diagonal, 0, 0, "")


@kernel("MatrixSetDiagV3")
def _matrix_set_diag_v3(xp: Any, x: Any, diagonal: Any, k: Any, *, align: str = "RIGHT_LEFT") -> Any:
    if x.ndim < 2:
        raise InvalidArgumentError(f"MatrixSetDiagV3: input must be at least 2-dim, received shape: {list(x.shape)}")
    low, high = _span("MatrixSetDiagV3", k, *x.shape[-2:])
    longest = max((_length(d, *x.shape[-2:]) for d in range(low, high + 1)), default=0)
    wanted = (*x.shape[:-2], *(() if low == high else (high - low + 1,)), longest)
    if diagonal.shape != wanted:
        raise InvalidArgumentError(
            f"MatrixSetDiagV3: diagonal must have shape {list(wanted)}, got {list(diagonal.shape)}"
        )
    return _put(xp, x.copy(), diagonal, low, high, align)


_REMEMBERED = 1 << 18  # elements


@lru_cache(32)
def _kept(m: int, n: int, lower: int, upper: int) -> Any:
    """Which elements of an m x n matrix lie in the band."""
    above = np.arange(n)[None, :] - np.arange(m)[:, None]
    return ((lower < 0) | (-above <= lower)) & ((upper < 0) | (above <= upper))


@kernel("MatrixBandPart")
def _band(xp: Any, x: Any, num_lower: Any, num_upper: Any) -> Any:
    lower, upper = one_int(num_lower), one_int(num_upper)
    if x.ndim < 2:
        raise InvalidArgumentError(f"MatrixBandPart: input must be at least 2-dim, received shape: {list(x.shape)}")
    m, n = x.shape[-2:]
    if not -1 <= lower <= m or not -1 <= upper <= n:
        raise InvalidArgumentError(
            f"num_lower must be in [-1, {m}] and num_upper in [-1, {n}], got {lower} and {upper}"
        )
    kept = _kept(m, n, lower, upper) if m * n <= _REMEMBERED else _kept.__wrapped__(m, n, lower, upper)
    return xp.where(xp.asarray(kept), x, _nothing(x))


@kernel("Diag")
def _diag(xp: Any, x: Any) -> Any:
    if not x.ndim:
        raise InvalidArgumentError("Diag: input must be at least rank 1, got a scalar")
    out = xp.full((x.size, x.size), _nothing(x), x.dtype)
    out[xp.arange(x.size), xp.arange(x.size)] = x.ravel()
    return out.reshape(*x.shape, *x.shape)


@kernel("DiagPart")
def _diag_part(xp: Any, x: Any) -> Any:
    half = x.shape[: x.ndim // 2]
    if not x.ndim or x.shape != half + half:
        raise InvalidArgumentError(f"DiagPart: the halves of the shape must agree, got {list(x.shape)}")
    size = int(np.prod(half))
    return x.reshape(size, size)[xp.arange(size), xp.arange(size)].reshape(half)
