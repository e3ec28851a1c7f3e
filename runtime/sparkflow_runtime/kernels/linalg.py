"""Linear algebra over the last two axes, by LAPACK through numpy (or cupy's own)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parallel import blas_alone, product
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SMALL = 256  # rows and columns up to which one thread is the faster
_BLOCK = 32  # rows of a triangle that are solved together, twice as many for a few columns
_FEW = 16


def _adjoint(xp: Any, x: Any) -> Any:
    return xp.conj(xp.swapaxes(x, -1, -2))


def _matrices(op: str, x: Any, square: bool = True) -> None:
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise InvalidArgumentError(f"{op}: Input matrix must be square, got shape {list(x.shape)}" if square else
                                   f"{op}: Input must have rank >= 2, got shape {list(x.shape)}")  # fmt: skip


def _refusing(xp: Any, op: str, text: str, compute: Callable[[], Any]) -> Any:
    try:
        if xp is np:
            return compute()
        with import_module("cupyx").errstate(linalg="raise"):
            return compute()
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(f"{op}: {text} ({error})") from None


def _narrow(found: Any) -> Any:
    return found.astype(np.float16) if found.dtype == np.float32 else found


def _small_alone(compute: Callable[..., Any]) -> Callable[..., Any]:
    """BLAS without threads of its own for small matrices: for these they are no gain, and beside another busy process
    they wait for each other by spinning (an SVD of 100 x 50: 1 ms became 56)."""

    @wraps(compute)
    def run(xp: Any, x: Any, *more: Any, **attrs: Any) -> Any:
        if x.dtype == np.float16:  # LAPACK has no such numbers
            wide = run(xp, *(v.astype(np.float32) if v.dtype == np.float16 else v for v in (x, *more)), **attrs)
            return wide.astype(np.float16) if hasattr(wide, "dtype") else tuple(_narrow(v) for v in wide)
        small = xp is np and max(x.shape[-2:], default=0) <= _SMALL
        with blas_alone() if small else nullcontext():
            return compute(xp, x, *more, **attrs)

    return run


@kernel("MatrixInverse")
@_small_alone
def _inverse(xp: Any, x: Any, *, adjoint: bool = False) -> Any:
    _matrices("MatrixInverse", x)
    found = _refusing(xp, "MatrixInverse", "Input is not invertible.", lambda: xp.linalg.inv(x))
    return _adjoint(xp, found) if adjoint else found


@kernel("MatrixSolve")
@_small_alone
def _solve(xp: Any, a: Any, b: Any, *, adjoint: bool = False) -> Any:
    _matrices("MatrixSolve", a)
    if a.shape[:-1] != b.shape[:-1]:
        raise InvalidArgumentError(f"MatrixSolve: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    a = _adjoint(xp, a) if adjoint else a
    return _refusing(xp, "MatrixSolve", "Input matrix is not invertible.", lambda: xp.linalg.solve(a, b))


@kernel("MatrixTriangularSolve")
def _triangular_solve(xp: Any, a: Any, b: Any, *, lower: bool = True, adjoint: bool = False) -> Any:
    _matrices("MatrixTriangularSolve", a)
    if b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise InvalidArgumentError(f"MatrixTriangularSolve: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    one_by_one = bool((xp.diagonal(a, 0, -2, -1) == 0).any())  # what is divided by 0 becomes infinite
    a, low = (_adjoint(xp, a), not lower) if adjoint else (a, lower)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = xp.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    if xp is not np:  # whose solve does not broadcast
        a = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
    if x.size:
        with blas_alone():  # products are shared out as elsewhere
            _solve_in_place(xp, a, x, low, 1 if one_by_one else 2 * _BLOCK if x.shape[-1] <= _FEW else _BLOCK)
    return x


def _solve_in_place(xp: Any, a: Any, x: Any, low: bool, block: int) -> None:
    """One half, then what it takes from the rows of the other half, then that half; a few rows at once."""
    n = a.shape[-1]
    if n <= block:
        _solve_few(xp, (xp.tril if low else xp.triu)(a), x)
        return
    half = -(-n // (2 * block)) * block
    first, last = slice(0, half), slice(half, n)
    one, other = (first, last) if low else (last, first)
    _solve_in_place(xp, a[..., one, one], x[..., one, :], low, block)
    x[..., other, :] -= _product(xp, a[..., other, one], x[..., one, :])
    _solve_in_place(xp, a[..., other, other], x[..., other, :], low, block)


def _solve_few(xp: Any, triangle: Any, x: Any) -> None:
    """By the inverse, corrected once by what it leaves: so it is as exact as one row after the other."""
    if triangle.shape[-1] == 1:
        x /= triangle
        return
    if x.shape[-1] <= _FEW:
        x[...] = xp.linalg.solve(triangle, x)
        return
    inverse = xp.linalg.inv(triangle)
    found = inverse @ x
    x[...] = found + inverse @ (x - triangle @ found)


def _product(xp: Any, a: Any, b: Any) -> Any:
    together = xp is np and a.ndim == b.ndim == 2 and a.dtype == b.dtype and a.dtype.char in "fd"
    return product(a, b) if together else a @ b


@kernel("MatrixSolveLs")
@_small_alone
def _solve_ls(xp: Any, a: Any, b: Any, l2: Any, *, fast: bool = True) -> Any:
    """By the normal equations where it is to be fast, else by the pseudo-inverse."""
    _matrices("MatrixSolveLs", a, square=False)
    if a.shape[:-1] != b.shape[:-1]:
        raise InvalidArgumentError(f"MatrixSolveLs: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    m, n = a.shape[-2:]
    if not fast:
        return xp.linalg.pinv(a) @ b
    flipped, shift = _adjoint(xp, a), float(l2) * xp.eye(min(m, n), dtype=a.dtype)
    text = "Input matrix was rank deficient or ill-conditioned. Try setting fast=False"

    def compute() -> Any:
        if m >= n:
            return xp.linalg.solve(flipped @ a + shift, flipped @ b)
        return flipped @ xp.linalg.solve(a @ flipped + shift, b)

    return _refusing(xp, "MatrixSolveLs", text, compute)


@kernel("Cholesky")
@_small_alone
def _cholesky(xp: Any, x: Any) -> Any:
    _matrices("Cholesky", x)
    text = "Cholesky decomposition was not successful. The input might not be valid."
    return _refusing(xp, "Cholesky", text, lambda: xp.linalg.cholesky(x))


@kernel("Qr", multi=True)
@_small_alone
def _qr(xp: Any, x: Any, *, full_matrices: bool = False) -> Any:
    _matrices("Qr", x, square=False)
    wide = x.astype(xp.float32) if x.dtype == xp.float16 else x
    q, r = xp.linalg.qr(wide, "complete" if full_matrices else "reduced")
    return q.astype(x.dtype, copy=False), r.astype(x.dtype, copy=False)


@kernel("Svd", multi=True)
@_small_alone
def _svd(xp: Any, x: Any, *, compute_uv: bool = True, full_matrices: bool = False) -> Any:
    _matrices("Svd", x, square=False)
    if not compute_uv:
        nothing = xp.zeros(0, x.dtype)
        return xp.linalg.svd(x, compute_uv=False).astype(x.dtype), nothing, nothing
    u, s, vh = xp.linalg.svd(x, full_matrices=full_matrices)
    return s.astype(x.dtype), u, _adjoint(xp, vh)


@kernel("SelfAdjointEigV2", multi=True)
@_small_alone
def _eigen(xp: Any, x: Any, *, compute_v: bool = True) -> Any:
    _matrices("SelfAdjointEigV2", x)
    if not compute_v:
        return xp.linalg.eigvalsh(x).astype(x.dtype), xp.zeros(0, x.dtype)
    values, vectors = xp.linalg.eigh(x)
    return values.astype(x.dtype), vectors


@kernel("MatrixDeterminant")
@_small_alone
def _determinant(xp: Any, x: Any) -> Any:
    _matrices("MatrixDeterminant", x)
    return xp.asarray(xp.linalg.det(x)).astype(x.dtype)


@kernel("LogMatrixDeterminant", multi=True)
@_small_alone
def _log_determinant(xp: Any, x: Any) -> Any:
    _matrices("LogMatrixDeterminant", x)
    sign, log = xp.linalg.slogdet(x)
    return xp.asarray(sign).astype(x.dtype), xp.asarray(log).astype(x.dtype)


@kernel("Cross")
def _cross(xp: Any, a: Any, b: Any) -> Any:
    if a.shape != b.shape or not a.ndim or a.shape[-1] != 3:
        raise InvalidArgumentError(f"Cross: both inputs must be of one shape [..., 3], got {a.shape} and {b.shape}")
    x, y = (tuple(xp.moveaxis(v, -1, 0)) for v in (a, b))
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return xp.stack(parts, -1)
