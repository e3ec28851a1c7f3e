"""Gradients of linear algebra. ' is the conjugate transpose. Source: Giles 2008; Walter and Lehmann 2018 (qr)."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.shapes import fully_known
from sparkflow.grads.registry import gradient
from sparkflow.ops import (
    array,
    einsum,
    linalg,
    math,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.broadcasting import broadcast_gradient_args
from sparkflow.ops.linalg import adjoint, cross, matrix_solve, matrix_triangular_solve
from sparkflow.ops.linalg_parts import (
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
)
from sparkflow.ops.math import matmul
from sparkflow.ops.math_reduce import reduce_sum

Pair = tuple[Any, Any]


def _mul(a: Tensor, b: Tensor, flip_a: bool = False, flip_b: bool = False) -> Tensor:
    return matmul(a, b, adjoint_a=flip_a, adjoint_b=flip_b)


@gradient("MatrixInverse")
def _inverse(op: Operation, dy: Tensor) -> Tensor:
    """Y = A^-1  =>  dA = -Y' dY Y'."""
    y, flipped = op.outputs[0], op.attr("adjoint")
    if flipped:
        return -_mul(y, _mul(dy, y, flip_a=True))
    return -_mul(y, _mul(dy, y, flip_b=True), flip_a=True)


@gradient("MatrixDeterminant")
def _determinant(op: Operation, dy: Tensor) -> Tensor:
    """y = det A  =>  dA = dy y A^-1'."""
    inverse = linalg.matrix_inverse(op.inputs[0], adjoint=True)
    return _each(dy * math.conj(op.outputs[0])) * inverse


@gradient("LogMatrixDeterminant")
def _log_determinant(op: Operation, _: Tensor, dy: Tensor) -> Tensor:
    return _each(dy) * linalg.matrix_inverse(op.inputs[0], adjoint=True)


def _each(x: Tensor) -> Tensor:
    """One number a matrix."""
    return array.expand_dims(array.expand_dims(x, -1), -1)


@gradient("MatrixSolve")
def _solve(op: Operation, dx: Tensor) -> Pair:
    """A X = B  =>  dB = A'^-1 dX, dA = -dB X'."""
    a, x, flipped = op.inputs[0], op.outputs[0], op.attr("adjoint")
    db = matrix_solve(a, dx, adjoint=not flipped)
    return lambda: -_mul(x, db, flip_b=True) if flipped else -_mul(db, x, flip_b=True), db


@gradient("MatrixTriangularSolve")
def _triangular_solve(op: Operation, dx: Tensor) -> Pair:
    a, x = op.inputs[0], op.outputs[0]
    flipped, lower = op.attr("adjoint"), op.attr("lower")
    db = matrix_triangular_solve(a, dx, lower, adjoint=not flipped)

    def da() -> Tensor:
        whole = -_mul(x, db, flip_b=True) if flipped else -_mul(db, x, flip_b=True)
        return matrix_band_part(whole, -1, 0) if lower else matrix_band_part(whole, 0, -1)

    both = op.inputs[0]._shape, op.inputs[1]._shape
    if all(s is not None and len(s) == 2 for s in both):
        return da, db
    return _unbatched(op, da, lambda: db)


def _unbatched(op: Operation, da: Any, db: Any) -> Pair:
    """Summed over the leading axes that broadcasting repeated."""
    leads = [array.shape(x)[:-2] for x in op.inputs[:2]]
    axes = broadcast_gradient_args(leads[0], leads[1])

    def summed(grad: Tensor, over: Tensor, own: Tensor) -> Tensor:
        return array.reshape(reduce_sum(grad, over), array.shape(own))

    return lambda: summed(da(), axes[0], op.inputs[0]), lambda: summed(db(), axes[1], op.inputs[1])


@gradient("MatrixSolveLs")
def _solve_ls(op: Operation, dx: Tensor) -> tuple[Any, Any, Any]:
    """X = Z A'B, Z = (A'A + l)^-1 where A has at least as many rows as columns, else X = A' Z B, Z = (A A' + l)^-1."""
    a, b, l2 = op.inputs
    dims = a._shape
    if dims is None or None in dims[-2:]:
        raise ValueError(f"The gradient of matrix_solve_ls needs the sizes of the matrices, got shape {a.shape}")
    tall = int(dims[-2] or 0) >= int(dims[-1] or 0)
    shift = math.cast(l2, a.dtype)
    x = op.outputs[0]
    square = _mul(a, a, flip_a=True) if tall else _mul(a, a, flip_b=True)
    square = square + shift * linalg.eye(int(dims[-1 if tall else -2] or 0), dtype=a.dtype)
    factor = linalg.cholesky(square)
    if tall:
        h = linalg.cholesky_solve(factor, dx)
        return _mul(b - _mul(a, x), h, flip_b=True) - _mul(_mul(a, h), x, flip_b=True), _mul(a, h), None
    g, d = linalg.cholesky_solve(factor, b), linalg.cholesky_solve(factor, _mul(a, dx))
    da = _mul(g, dx, flip_b=True) - _mul(_mul(d, g, flip_b=True) + _mul(g, d, flip_b=True), a)
    return da, d, None


@gradient("Cholesky")
def _cholesky(op: Operation, dl: Tensor) -> Tensor:
    """dA = sym(L'^-1 P(L' dL) L^-1), P the lower triangle with half the diagonal."""
    factor = op.outputs[0]
    inner = _mul(factor, dl, flip_a=True)
    inner = matrix_set_diag(inner, matrix_diag_part(inner) * _half(inner))
    inner = matrix_band_part(inner, -1, 0)
    left = matrix_triangular_solve(factor, inner, adjoint=True)
    whole = adjoint(matrix_triangular_solve(factor, adjoint(left), adjoint=True))
    return (whole + adjoint(whole)) * _half(whole)


def _half(like: Tensor) -> Any:
    return math.cast(0.5, like.dtype.base_dtype)


@gradient("Qr")
def _qr(op: Operation, dq: Tensor, dr: Tensor) -> Tensor:
    """A = Q R with an invertible square R. Raises LookupError where that is not so."""
    q, r = op.outputs
    dims = r._shape
    if dims is None or None in dims[-2:] or dims[-2] != dims[-1] or op.attr("full_matrices"):
        raise LookupError(
            f"qr has a gradient for known sizes, no fewer rows than columns, reduced factors: {op.name!r}"
        )
    skew_q, skew_r = _mul(q, dq, flip_a=True), _mul(r, dr, flip_b=True)
    skew_q, skew_r = skew_q - adjoint(skew_q), skew_r - adjoint(skew_r)
    lower = matrix_band_part(skew_q + skew_r, -1, 0)
    lower = matrix_set_diag(lower, array.zeros_like(matrix_diag_part(lower)))

    def divided(x: Tensor) -> Tensor:
        """x R'^-1."""
        return adjoint(matrix_triangular_solve(r, adjoint(x), lower=False, adjoint=False))

    return _mul(q, dr + divided(lower)) + divided(dq - _mul(q, _mul(q, dq, flip_a=True)))


def _gaps(values: Tensor) -> Tensor:
    """1 / (v_j - v_i) for i != j, 0 on the diagonal and where two agree."""
    differences = array.expand_dims(values, -2) - array.expand_dims(values, -1)
    return apply_op("DivNoNan", [array.ones_like(differences), differences])


@gradient("SelfAdjointEigV2")
def _eigen(op: Operation, de: Tensor, dv: Tensor) -> Tensor:
    """dA = V (diag(de) + F o V' dV) V', F the gaps of eigenvalues, folded onto the lower triangle, which was read."""
    if op.attr("compute_v"):
        e, v = op.outputs
        inner = matrix_diag(math.cast(de, v.dtype)) + math.cast(_gaps(e), v.dtype) * _mul(v, dv, flip_a=True)
    else:
        _, v = linalg.self_adjoint_eig(op.inputs[0])
        inner = matrix_diag(math.cast(de, v.dtype))
    whole = _mul(v, _mul(inner, v, flip_b=True))
    folded = matrix_band_part(whole + adjoint(whole), -1, 0)
    return matrix_set_diag(folded, matrix_diag_part(folded) * _half(folded))


@gradient("Svd")
def _svd(op: Operation, ds: Tensor, du: Tensor, dv: Tensor) -> Tensor:
    """A = U S V' (Giles 2008, s. 3.1; Townsend 2016). Raises LookupError on complex matrices and full factors."""
    a = op.inputs[0]
    if not op.attr("compute_uv"):
        s, u, v = linalg.svd(a, compute_uv=True)
        return _mul(u, _mul(matrix_diag(math.cast(ds, a.dtype)), v, flip_b=True))
    if a.dtype.is_complex or op.attr("full_matrices"):
        raise LookupError(f"svd has a gradient for real matrices and reduced factors: {op.name!r}")
    s, u, v = op.outputs
    gaps = _gaps(math.square(s))
    inner_u, inner_v = _mul(u, du, flip_a=True), _mul(v, dv, flip_a=True)
    rows, columns = array.expand_dims(s, -1), array.expand_dims(s, -2)
    middle = gaps * (inner_u - adjoint(inner_u)) * columns + rows * (gaps * (inner_v - adjoint(inner_v)))
    whole = _mul(u, _mul(middle + matrix_diag(ds), v, flip_b=True))
    over = apply_op("DivNoNan", [array.ones_like(columns), columns])
    whole += _mul((du - _mul(u, inner_u)) * over, v, flip_b=True)
    return whole + _mul(u * over, dv - _mul(v, inner_v), flip_b=True)


# ---------------------------------------------------------------------- products and parts

gradient("Cross")(lambda op, dy: (lambda: cross(op.inputs[1], dy), lambda: cross(dy, op.inputs[0])))
gradient("Diag")(lambda op, dy: apply_op("DiagPart", [dy]))
gradient("DiagPart")(lambda op, dy: apply_op("Diag", [dy]))
gradient("MatrixDiag")(lambda op, dy: apply_op("MatrixDiagPart", [dy]))
gradient("MatrixBandPart")(lambda op, dy: (lambda: matrix_band_part(dy, *op.inputs[1:]), None, None))


@gradient("MatrixDiagPart")
def _diag_part(op: Operation, dy: Tensor) -> Tensor:
    return matrix_set_diag(array.zeros_like(op.inputs[0]), dy)


@gradient("MatrixSetDiag")
def _set_diag(op: Operation, dy: Tensor) -> Pair:
    zeros = lambda: array.zeros_like(op.inputs[1])  # noqa: E731
    return lambda: apply_op("MatrixSetDiag", [dy, zeros()]), lambda: apply_op("MatrixDiagPart", [dy])


@gradient("MatrixDiagV3")
def _diag_v3(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    part = lambda: matrix_diag_part(dy, k=op.inputs[1], align=op.attr("align"))  # noqa: E731
    return part, None, None, None, None


@gradient("MatrixDiagPartV3")
def _diag_part_v3(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    zeros = lambda: array.zeros_like(op.inputs[0])  # noqa: E731
    return lambda: matrix_set_diag(zeros(), dy, k=op.inputs[1], align=op.attr("align")), None, None


@gradient("MatrixSetDiagV3")
def _set_diag_v3(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    _, diagonal, k = op.inputs
    align = op.attr("align")
    return (
        lambda: matrix_set_diag(dy, array.zeros_like(diagonal), k=k, align=align),
        lambda: matrix_diag_part(dy, k=k, align=align),
        None,
    )


@gradient("Einsum")
def _einsum(op: Operation, dy: Tensor) -> list[Any]:
    """Each factor's: dy times the conjugates of the others, summed to its labels; labels of its own are repeated."""
    factors, result = einsum.split(op.attr("equation"))
    return [lambda i=i: _of_factor(op, dy, factors, result, i) for i in range(len(factors))]


def _of_factor(op: Operation, dy: Tensor, factors: list[str], result: str, i: int) -> Tensor:
    own, x = factors[i], op.inputs[i]
    given = [result, *(f for j, f in enumerate(factors) if j != i)]
    tensors = [dy, *(math.conj(t) for j, t in enumerate(op.inputs) if j != i)]
    if "." not in "".join(factors):
        return _to_labels(given, tensors, own, x)
    if "." not in result:
        raise LookupError(
            f"The gradient of an einsum with '...' needs it in the result too: name the axes of {op.name!r}, whose "
            f"equation is {op.attr('equation')!r}"
        )
    front = "." + own.replace(".", "")
    moved = x if own in (front, front[1:]) else einsum.node([own], front, [x])
    whole = _to_labels(given, tensors, front, moved)
    if moved._shape != whole._shape or not fully_known(moved._shape):  # axes of the ellipsis that were broadcast
        sizes = array.shape(moved)
        axes, _ = broadcast_gradient_args(sizes, array.shape(whole))
        whole = array.reshape(reduce_sum(whole, axes), sizes)
    return whole if moved is x else einsum.node([front], own, [whole])


def _to_labels(given: list[str], tensors: list[Tensor], own: str, x: Tensor) -> Tensor:
    lone = set(own) - set("".join(given))
    if lone or len(set(own)) < len(own):
        return _spread(given, tensors, own, x)
    return einsum.node(given, own, tensors)


def _spread(given: list[str], tensors: list[Tensor], own: str, x: Tensor) -> Tensor:
    """Labels that only this factor has, or has twice: ones along the lone ones, then the diagonal of the repeated."""
    sizes, behind = array.shape(x), len(own) if "." in own else 0  # labels behind an ellipsis count from the end
    once = "".join(dict.fromkeys(own))
    kept = "".join(c for c in once if c in "".join(given))
    part = einsum.node(given, kept, tensors)
    lone = [c for c in once if c not in kept]
    if lone:
        ones = array.ones([sizes[own.index(c) - behind] for c in lone], x.dtype.base_dtype)
        part = einsum.node([kept, "".join(lone)], once, [part, ones])
    else:
        part = einsum.node([kept], once, [part])
    return part if len(once) == len(own) else einsum.node([once], own, [part])
