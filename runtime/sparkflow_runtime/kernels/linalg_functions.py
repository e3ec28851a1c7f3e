"""Functions of matrices, triangular factors, tridiagonal systems; all over the last two axes.

Source: Higham 2008, chapters 6 (the square root by Denman and Beavers's products) and 11 (the logarithm).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_ROUNDS = 100


def _checked(op: str, x: Any) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(f"{op}: matrices must be square, got shape {list(x.shape)}")


def _wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


# ---------------------------------------------------------------------- square root and logarithm


def _root(xp: Any, op: str, x: Any) -> Any:
    """By M <- (2 I + M + M^-1) / 4 and X <- X (I + M^-1) / 2, scaled by determinants until it is near."""
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    m, root = x, x
    for _ in range(_ROUNDS):
        try:
            inverse = xp.linalg.inv(m)
        except np.linalg.LinAlgError:
            raise InvalidArgumentError(f"{op}: the matrix has no root that this can find (it is singular)") from None
        scale = xp.abs(xp.linalg.det(m)) ** (-1.0 / (2 * max(1, x.shape[-1])))
        far = xp.abs(m - one).max((-2, -1)) > 1e-2
        mu = xp.where(far & xp.isfinite(scale), scale, 1)[..., None, None]
        square = mu * mu
        root = 0.5 * mu * root @ (one + inverse / square)
        m = 0.5 * (one + 0.5 * (square * m + inverse / square))
        if float(xp.abs(m - one).max()) < 1e-14:
            return root
    if not bool(xp.isfinite(root).all()) or float(xp.abs(m - one).max()) > 1e-6:
        raise InvalidArgumentError(
            f"{op}: the matrix has no root that this can find (eigenvalues on the negative axis)"
        )
    return root


@kernel("MatrixSquareRoot")
def _square_root(xp: Any, x: Any) -> Any:
    _checked("MatrixSquareRoot", x)
    return _root(xp, "MatrixSquareRoot", _wide(x)).astype(x.dtype) if x.size else x.copy()


@kernel("MatrixLogarithm")
def _logarithm(xp: Any, x: Any) -> Any:
    """Roots until the matrix is near the unit matrix, then Gauss and Legendre's quadrature of the logarithm."""
    _checked("MatrixLogarithm", x)
    if not x.size:
        return x.copy()
    one, y, times = xp.eye(x.shape[-1], dtype=np.complex128), _wide(x), 0
    while float(xp.abs(y - one).sum(-2).max()) > 0.25 and times < 60:
        y, times = _root(xp, "MatrixLogarithm", y), times + 1
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x_less = y - one
    total = sum(
        (w / 2) * xp.linalg.solve(one + (t + 1) / 2 * x_less, x_less) for t, w in zip(nodes.tolist(), weights.tolist())
    )
    return (total * 2.0**times).astype(x.dtype)


# ---------------------------------------------------------------------- triangular factors


@kernel("Lu", multi=True)
def _lu(xp: Any, x: Any, *, output_idx_type: DType | None = None) -> Any:
    """Column by column, for all matrices at once, with the largest value of each column as its pivot."""
    _checked("Lu", x)
    n = x.shape[-1]
    out = x.reshape(-1, n, n).copy()
    kind = np.int32 if output_idx_type is None else output_idx_type.np
    order = xp.tile(xp.arange(n, dtype=kind), (len(out), 1))
    each = xp.arange(len(out))
    for k in range(n):
        pivot = k + xp.abs(out[:, k:, k]).argmax(1)
        for table in (out, order):
            first, second = table[:, k].copy(), table[each, pivot].copy()
            table[:, k], table[each, pivot] = second, first
        if bool((out[:, k, k] == 0).any()):
            raise InvalidArgumentError("Lu: Input is not invertible.")
        out[:, k + 1 :, k] /= out[:, k, k][:, None]
        out[:, k + 1 :, k + 1 :] -= out[:, k + 1 :, k, None] * out[:, None, k, k + 1 :]
    return out.reshape(x.shape), order.reshape(x.shape[:-1])


# ---------------------------------------------------------------------- tridiagonal systems


@kernel("TridiagonalMatMul")
def _tridiagonal_product(xp: Any, above: Any, middle: Any, below: Any, x: Any) -> Any:
    out = middle[..., 0, :, None] * x
    out[..., :-1, :] += above[..., 0, :-1, None] * x[..., 1:, :]
    out[..., 1:, :] += below[..., 0, 1:, None] * x[..., :-1, :]
    return out


@kernel("TridiagonalSolve")
def _tridiagonal_solve(
    xp: Any, diagonals: Any, rhs: Any, *, partial_pivoting: bool = True, perturb_singular: bool = False
) -> Any:
    if diagonals.ndim < 2 or diagonals.shape[-2] != 3 or diagonals.shape[:-2] + diagonals.shape[-1:] != rhs.shape[:-1]:
        raise InvalidArgumentError(
            f"TridiagonalSolve: diagonals must be [..., 3, m] for rhs [..., m, k], got {list(diagonals.shape)}, "
            f"{list(rhs.shape)}"
        )
    m = rhs.shape[-2]
    if not m or not rhs.size:
        return rhs.copy()
    rows = xp.zeros((*rhs.shape[:-2], m, 3), rhs.dtype)  # each row from its diagonal on, after the elimination
    rows[..., 0], rows[..., :-1, 1] = diagonals[..., 1, :], diagonals[..., 0, :-1]
    lower, right = diagonals[..., 2, :], rhs.copy()
    for i in range(m - 1):
        _eliminated(xp, rows, right, lower[..., i + 1], i, partial_pivoting)
    if bool((rows[..., 0] == 0).any()):
        raise InvalidArgumentError("TridiagonalSolve: The matrix is not invertible.")
    for i in range(m - 1, -1, -1):
        for step in (1, 2):
            if i + step < m:
                right[..., i, :] -= rows[..., i, step, None] * right[..., i + step, :]
        right[..., i, :] /= rows[..., i, 0, None]
    return right


def _eliminated(xp: Any, rows: Any, right: Any, below: Any, i: int, pivoting: bool) -> None:
    """Make row i + 1 free of unknown i, after the row with the larger value of both has become row i."""
    top = rows[..., i, :].copy()
    next_ = xp.stack([below, rows[..., i + 1, 0], rows[..., i + 1, 1]], -1)
    first, second = right[..., i, :].copy(), right[..., i + 1, :].copy()
    if pivoting:
        swap = (xp.abs(below) > xp.abs(top[..., 0]))[..., None]
        top, next_ = xp.where(swap, next_, top), xp.where(swap, top, next_)
        first, second = xp.where(swap, second, first), xp.where(swap, first, second)
    if bool((top[..., 0] == 0).any()):
        raise InvalidArgumentError("TridiagonalSolve: The first element of diagonal is zero.")
    factor = (next_[..., 0] / top[..., 0])[..., None]
    left = next_ - factor * top
    rows[..., i, :], rows[..., i + 1, :2] = top, left[..., 1:]
    right[..., i, :], right[..., i + 1, :] = first, second - factor * first
