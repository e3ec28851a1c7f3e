"""Gradients of factors, roots and tridiagonal systems. ' is the conjugate transpose. The logarithm has none."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array, array_join, array_slice, math, math_reduce, operators  # noqa: F401 - x + y
from sparkflow.ops.array_made import argsort
from sparkflow.ops.linalg import adjoint, eye, matrix_solve, matrix_triangular_solve
from sparkflow.ops.linalg_parts import matrix_band_part, matrix_diag_part, matrix_set_diag, matrix_transpose


@gradient("Lu")
def _lu(op: Operation, dlu: Tensor, _: Any) -> Tensor:
    """P A = L U  =>  P dA = L'^-1 (tril(L' dL, -1) + triu(dU U')) U'^-1."""
    both, order = op.outputs
    rank = order._shape
    if rank is None:
        raise ValueError(f"The gradient of lu needs the rank of its input, got {op.inputs[0]}")
    lower = matrix_set_diag(matrix_band_part(both, -1, 0), array.ones_like(matrix_diag_part(both)))
    upper = matrix_band_part(both, 0, -1)
    of_lower = dlu - matrix_band_part(dlu, 0, -1)
    inner = math.matmul(lower, of_lower, adjoint_a=True)
    inner = inner - matrix_band_part(inner, 0, -1)
    inner = inner + matrix_band_part(math.matmul(matrix_band_part(dlu, 0, -1), upper, adjoint_b=True), 0, -1)
    half = matrix_triangular_solve(lower, inner, lower=True, adjoint=True)
    found = adjoint(matrix_triangular_solve(upper, adjoint(half), lower=False))
    return array_slice.gather(found, argsort(order), axis=-2, batch_dims=len(rank) - 1)


@gradient("MatrixSquareRoot")
def _square_root(op: Operation, dy: Tensor) -> Tensor:
    """Y Y = A  =>  Y' dA + dA Y' = dY, solved as one system of n^2 unknowns."""
    y = op.outputs[0]
    whole = array.shape(y)
    n, kind = whole[-1], y.dtype.base_dtype
    turned = adjoint(y)
    one = eye(n, batch_shape=whole[:-2], dtype=kind)  # type: ignore[arg-type]
    square = array_join.concat([whole[:-2], array_join.stack([n * n, n * n])], 0)

    def crossed(a: Tensor, b: Tensor) -> Tensor:
        """Kronecker's product."""
        spread = a[..., :, None, :, None] * b[..., None, :, None, :]
        return array.reshape(spread, square)

    system = crossed(turned, one) + crossed(one, matrix_transpose(turned))
    column = array.reshape(dy, array_join.concat([whole[:-2], array_join.stack([n * n, 1])], 0))
    return array.reshape(matrix_solve(system, column), whole)


def _turned(diagonals: Tensor) -> Tensor:
    """The diagonals of the conjugate transpose."""
    above, middle, below = (math.conj(diagonals[..., i, :]) for i in range(3))
    up = array_join.concat([below[..., 1:], array.zeros_like(below[..., :1])], -1)
    down = array_join.concat([array.zeros_like(above[..., :1]), above[..., :-1]], -1)
    return array_join.stack([up, middle, down], -2)


@gradient("TridiagonalSolve")
def _tridiagonal_solve(op: Operation, dx: Tensor) -> tuple[Any, Any]:
    """A X = B  =>  dB = A'^-1 dX, dA = -dB X' on the three diagonals."""
    diagonals, x = op.inputs[0], op.outputs[0]
    attrs = {"partial_pivoting": op.attrs["partial_pivoting"]}
    db = apply_op("TridiagonalSolve", [_turned(diagonals), dx], attrs)

    def by_diagonals() -> Tensor:
        back = math.conj(x)
        nothing = array.zeros_like(back[..., :1, :])
        later = array_join.concat([back[..., 1:, :], nothing], -2)
        before = array_join.concat([nothing, back[..., :-1, :]], -2)
        return array_join.stack([-math_reduce.reduce_sum(db * part, -1) for part in (later, back, before)], -2)

    return by_diagonals, db


@gradient("TridiagonalMatMul")
def _tridiagonal_product(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    above, middle, below, x = op.inputs
    nothing_row = array.zeros_like(x[..., :1, :])
    later = array_join.concat([x[..., 1:, :], nothing_row], -2)
    before = array_join.concat([nothing_row, x[..., :-1, :]], -2)

    def on(part: Tensor) -> Any:
        return lambda: array.expand_dims(math_reduce.reduce_sum(dy * math.conj(part), -1), -2)

    def back() -> Tensor:
        whole = _turned(array_join.concat([above, middle, below], -2))
        return apply_op("TridiagonalMatMul", [*(whole[..., i : i + 1, :] for i in range(3)), dy])

    return on(later), on(x), on(before), back
