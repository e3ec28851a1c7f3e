"""Linear algebra over the last two axes, by LAPACK through numpy (or cupy's own)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parallel import blas_alone
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SMALL = 256  # rows and columns up to which one thread is the faster
_BLOCK = 64  # rows of a triangle that are solved together


def _adjoint(xp: Any, x: Any) -> Any:
    return xp.conj(xp.swapaxes(x, -1, -2))


def _matrices(op: str, x: Any, square: bool = True) -> None:
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise InvalidArgumentError(f"{op}: Input matrix must be square, got shape {list(x.shape)}" if square else
                                   f"{op}: Input must have rank >= 2, got shape {list(x.shape)}")  # fmt: skip


def _refusing(op: str, text: str, compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(f"{op}: {text} ({error})") from None


def _small_alone(compute: Callable[..., Any]) -> Callable[..., Any]:
    """BLAS without threads of its own for small matrices: for these they are no gain, and beside another busy process
    they wait for each other by spinning (an SVD of 100 x 50: 1 ms became 56)."""

    @wraps(compute)
    def run(xp: Any, x: Any, *more: Any, **attrs: Any) -> Any:
        small = xp is np and max(x.shape[-2:], default=0) <= _SMALL
        with blas_alone() if small else nullcontext():
            return compute(xp, x, *more, **attrs)

    return run


@kernel("MatrixInverse")
@_small_alone
def _inverse(xp: Any, x: Any, *, adjoint: bool = False) -> Any:
    _matrices("MatrixInverse", x)
    found = _refusing("MatrixInverse", "Input is not invertible.", lambda: xp.linalg.inv(x))
    return _adjoint(xp, found) if adjoint else found


@kernel("MatrixSolve")
@_small_alone
def _solve(xp: Any, a: Any, b: Any, *, adjoint: bool = False) -> Any:
    _matrices("MatrixSolve", a)
    if a.shape[:-1] != b.shape[:-1]:
        raise InvalidArgumentError(f"MatrixSolve: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    return _refusing(
        "MatrixSolve", "Input matrix is not invertible.", lambda: xp.linalg.solve(_adjoint(xp, a) if adjoint else a, b)
    )


@kernel("MatrixTriangularSolve")
@_small_alone
def _triangular_solve(xp: Any, a: Any, b: Any, *, lower: bool = True, adjoint: bool = False) -> Any:
    """Block after block: the small triangle on the diagonal, then what it takes from the rows still to come."""
    _matrices("MatrixTriangularSolve", a)
    if b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise InvalidArgumentError(f"MatrixTriangularSolve: shapes {list(a.shape)} and {list(b.shape)} do not fit")
    block = 1 if bool((xp.diagonal(a, 0, -2, -1) == 0).any()) else _BLOCK  # what is divided by 0 becomes infinite
    a, low = (_adjoint(xp, a), not lower) if adjoint else (a, lower)
    n, batch = a.shape[-1], np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = xp.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    starts = range(0, n, block)
    for start in starts if low else reversed(starts):
        here = slice(start, min(start + block, n))
        rest = slice(here.stop, n) if low else slice(0, start)
        triangle = (xp.tril if low else xp.triu)(a[..., here, here])
        own = x[..., here, :]
        x[..., here, :] = own / triangle if block == 1 else xp.linalg.solve(triangle, own)
        x[..., rest, :] -= a[..., rest, here] @ x[..., here, :]
    return x


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

    return _refusing("MatrixSolveLs", text, compute)


@kernel("Cholesky")
@_small_alone
def _cholesky(xp: Any, x: Any) -> Any:
    _matrices("Cholesky", x)
    text = "Cholesky decomposition was not successful. The input might not be valid."
    return _refusing("Cholesky", text, lambda: xp.linalg.cholesky(x))


@kernel("Qr", multi=True)
@_small_alone
def _qr(xp: Any, x: Any, *, full_matrices: bool = False) -> Any:
    _matrices("Qr", x, square=False)
    return xp.linalg.qr(x, "complete" if full_matrices else "reduced")


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
