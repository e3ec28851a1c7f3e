"""Functions of matrices, triangular factors, tridiagonal systems.

Source: Higham 2008 (exponential, logarithm, square root), Golub and Van Loan (the rest).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, array_select, array_slice, math, math_reduce, operators, rules  # noqa: F401
from sparkflow.ops.array_made import argsort
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.linalg import _square, eye, matrix_solve, matrix_triangular_solve, norm, svd
from sparkflow.ops.linalg_parts import matrix_band_part, matrix_diag_part, matrix_set_diag, matrix_transpose
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _lu_rule(op: Operation) -> list[Dims]:
    dims = _square(op)
    return [dims, None if dims is None else dims[:-1]]


def _tridiagonal_rule(op: Operation) -> list[Dims]:
    diagonals = rules.require_rank(op, "diagonals", op.inputs[0], 2, at_least=True)
    right = rules.require_rank(op, "rhs", op.inputs[1], 2, at_least=True)
    if diagonals is None or right is None:
        return [right]
    fits = shapes.compatible((*diagonals[:-2], diagonals[-1]), right[:-1]) and diagonals[-2] in (None, 3)
    if not fits:
        raise InvalidArgumentError(
            f"TridiagonalSolve: diagonals must be [..., 3, m] for rhs [..., m, k], got shapes {shapes.show(diagonals)} "
            f"and {shapes.show(right)}"
        )
    return [right]


def _product_rule(op: Operation) -> list[Dims]:
    right = rules.require_rank(op, "rhs", op.inputs[3], 2, at_least=True)
    for tensor, arg in zip(op.inputs[:3], op.spec.inputs, strict=False):
        own = rules.require_rank(op, arg.name, tensor, 2, at_least=True)
        if own is not None and right is not None and not shapes.compatible(own, (*right[:-2], 1, right[-2])):
            raise InvalidArgumentError(
                f"TridiagonalMatMul: {arg.name} must be [..., 1, m] for rhs [..., m, n], got shapes {shapes.show(own)} "
                f"and {shapes.show(right)}"
            )
    return [right]


op("Lu", "input: T -> lu: T, p: output_idx_type", _lu_rule, output_idx_type=dtypes.int32)
op("MatrixLogarithm", "input: T -> output: T", lambda op: [_square(op)])
op("MatrixSquareRoot", "input: T -> output: T", lambda op: [_square(op)])
op(
    "TridiagonalSolve",
    "diagonals: T, rhs: T -> output: T",
    _tridiagonal_rule,
    partial_pivoting=True,
    perturb_singular=False,
)
op("TridiagonalMatMul", "superdiag: T, maindiag: T, subdiag: T, rhs: T -> output: T", _product_rule)

# ---------------------------------------------------------------------- functions of matrices


def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """X with X @ X = input, of matrices [..., n, n] without eigenvalues on the negative axis."""
    return apply_op("MatrixSquareRoot", [input], name=name)


def matrix_logarithm(input: Any, name: str | None = None) -> Tensor:
    """X with expm(X) = input, of complex matrices without eigenvalues on the negative axis. It has no gradient."""
    return apply_op("MatrixLogarithm", [input], name=name)


_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_REACH = 5.371920351148152  # of the 1-norm, up to which the fraction is exact in float64


def matrix_exponential(input: Any, name: str | None = None) -> Tensor:
    """The sum of input^k / k! of matrices [..., n, n], by Padé's fraction of order 13 of input / 2^s, squared s
    times."""
    with get_default_graph().name_scope(name or "matrix_exponential"):
        x = convert_to_tensor(input, name="input")
        if x._shape is not None and (len(x._shape) < 2 or not shapes.compatible(x._shape[-1:], x._shape[-2:-1])):
            raise InvalidArgumentError(
                f"matrix_exponential: matrices must be square, got shape {shapes.show(x._shape)}"
            )
        kind, wide = x.dtype.base_dtype, x.dtype.real_dtype
        size = math_reduce.reduce_max(math_reduce.reduce_sum(math.abs(x), -2), -1)
        times = math.ceil(math.log(math.maximum(size / _REACH, 1.0)) / float(np.log(2.0)))
        halves = math.cast(math.pow(convert_to_tensor(0.5, wide), times), kind)
        found = _pade(x * array.expand_dims(array.expand_dims(halves, -1), -1))
        steps = math.cast(math_reduce.reduce_max(times, name="steps"), dtypes.int32)
        wanted = array.expand_dims(array.expand_dims(times, -1), -1)

        def square(i: Tensor, y: Tensor) -> Any:
            more = math.less(math.cast(i, wide), wanted)
            return i + 1, array_select.where(array.broadcast_to(more, array.shape(y)), math.matmul(y, y), y)

        shapes_in = [convert_to_tensor(0).shape, x.shape]
        _, out = while_loop(lambda i, y: math.less(i, steps), square, [0, found], shape_invariants=shapes_in)
        out.set_shape(x.shape)
        return out


def _pade(x: Tensor) -> Tensor:
    one = eye(array.shape(x)[-1], batch_shape=array.shape(x)[:-2], dtype=x.dtype.base_dtype)  # type: ignore[arg-type]
    b = [convert_to_tensor(c, x.dtype.base_dtype) for c in _PADE]
    x2 = math.matmul(x, x)
    x4 = math.matmul(x2, x2)
    x6 = math.matmul(x4, x2)
    odd = math.matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    even = math.matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    odd = math.matmul(x, odd)
    return matrix_solve(even - odd, even + odd)


# ---------------------------------------------------------------------- triangular factors


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """(lu, p): of matrices [..., n, n] the factors L (ones on its diagonal) and U in one, and the order of rows, so
    that L @ U = input[p]. Raises InvalidArgumentError when it runs on a matrix that has no inverse."""
    return apply_op("Lu", [input], {"output_idx_type": dtypes.as_dtype(output_idx_type)}, name)


def _factors(lower_upper: Tensor) -> tuple[Tensor, Tensor]:
    lower = matrix_set_diag(matrix_band_part(lower_upper, -1, 0), array.ones_like(matrix_diag_part(lower_upper)))
    return lower, matrix_band_part(lower_upper, 0, -1)


def _rows_in_order(x: Tensor, order: Tensor) -> Tensor:
    if rules.rank_of(order) is None:
        raise ValueError("lu: the rank of perm must be known")
    return array_slice.gather(x, order, axis=-2, batch_dims=(rules.rank_of(order) or 1) - 1)


def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The matrices whose lu is given."""
    with get_default_graph().name_scope(name or "lu_reconstruct"):
        lower_upper = convert_to_tensor(lower_upper, name="lower_upper")
        perm = convert_to_tensor(perm, dtypes.int32, "perm")
        lower, upper = _factors(lower_upper)
        return _rows_in_order(math.matmul(lower, upper), argsort(perm))


def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """X with A @ X = rhs, from A's lu."""
    with get_default_graph().name_scope(name or "lu_solve"):
        lower_upper = convert_to_tensor(lower_upper, name="lower_upper")
        rhs = convert_to_tensor(rhs, lower_upper.dtype.base_dtype, "rhs")
        ordered = _rows_in_order(rhs, convert_to_tensor(perm, dtypes.int32, "perm"))
        lower, upper = _factors(lower_upper)
        return matrix_triangular_solve(upper, matrix_triangular_solve(lower, ordered), lower=False)


def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The inverse of A, from its lu."""
    with get_default_graph().name_scope(name or "lu_matrix_inverse"):
        lower_upper = convert_to_tensor(lower_upper, name="lower_upper")
        whole = array.shape(lower_upper)
        one = eye(whole[-1], batch_shape=whole[:-2], dtype=lower_upper.dtype.base_dtype)  # type: ignore[arg-type]
        return lu_solve(lower_upper, perm, one)


# ---------------------------------------------------------------------- tridiagonal systems


def _diagonals(diagonals: Any, form: str) -> list[Tensor]:
    """The three diagonals, each [..., m], from the one above down."""
    if form == "compact":
        whole = convert_to_tensor(diagonals, name="diagonals")
        return [whole[..., i, :] for i in range(3)]
    if form == "sequence":
        if len(diagonals) != 3:
            raise ValueError(f"Expected diagonals to be a sequence of length 3, got {len(diagonals)}")
        above, middle, below = (convert_to_tensor(d) for d in diagonals)
        size = middle._shape[-1] if middle._shape else None
        pads = [[0, 0]] * (len(middle._shape or ()) - 1)
        if size is not None and above._shape is not None and above._shape[-1] == size - 1:
            above = array.pad(above, [*pads, [0, 1]])
        if size is not None and below._shape is not None and below._shape[-1] == size - 1:
            below = array.pad(below, [*pads, [1, 0]])
        return [above, middle, below]
    if form == "matrix":
        whole = convert_to_tensor(diagonals, name="diagonals")
        pads = [[0, 0]] * (len(whole._shape or (0, 0)) - 2)
        above, below = (matrix_diag_part(whole, k=k) for k in (1, -1))
        return [array.pad(above, [*pads, [0, 1]]), matrix_diag_part(whole), array.pad(below, [*pads, [1, 0]])]
    raise ValueError(f"Unrecognized diagonals_format: {form}")


def tridiagonal_solve(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", transpose_rhs: bool = False,
    conjugate_rhs: bool = False, name: str | None = None, partial_pivoting: bool = True, perturb_singular: bool = False,
) -> Tensor:  # fmt: skip
    """x of A @ x = rhs, A with three diagonals; rhs is [..., m] or [..., m, k].

    diagonals: [..., 3, m], the one above first (its last value and the first of the one below are not read), or with
    diagonals_format "sequence" the three, or with "matrix" all of A.
    """
    if perturb_singular:
        raise NotImplementedError(
            "tridiagonal_solve: perturb_singular is not supported, a singular matrix raises; add a small number to the "
            "diagonal instead"
        )
    with get_default_graph().name_scope(name or "tridiagonal_solve"):
        stacked = array_join.stack(_diagonals(diagonals, diagonals_format), -2)
        right = convert_to_tensor(rhs, stacked.dtype.base_dtype, "rhs")
        vector = rules.rank_of(right) == (rules.rank_of(stacked) or 0) - 1
        if vector:
            right = array.expand_dims(math.conj(right) if conjugate_rhs else right, -1)
        elif transpose_rhs:
            right = matrix_transpose(right, conjugate=conjugate_rhs)
        elif conjugate_rhs:
            right = math.conj(right)
        out = apply_op("TridiagonalSolve", [stacked, right], {"partial_pivoting": partial_pivoting})
        return array.squeeze(out, [-1]) if vector else matrix_transpose(out) if transpose_rhs else out


def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """A @ rhs, A as tridiagonal_solve takes it."""
    with get_default_graph().name_scope(name or "tridiagonal_matmul"):
        three = [array.expand_dims(d, -2) for d in _diagonals(diagonals, diagonals_format)]
        return apply_op("TridiagonalMatMul", [*three, rhs])


# ---------------------------------------------------------------------- by singular values, and products


def _tolerance(s: Tensor, rows: Any, columns: Any, dtype: Any) -> Tensor:
    longest = math.cast(math.maximum(rows, columns), dtype)
    return math_reduce.reduce_max(s, -1, True) * longest * float(np.finfo(dtype.np).eps)


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """How many singular values of [..., m, n] are above tol (the rounding error of the largest)."""
    with get_default_graph().name_scope(name or "matrix_rank"):
        a = convert_to_tensor(a, name="a")
        s = svd(a, compute_uv=False)
        whole = array.shape(a)
        limit = _tolerance(s, whole[-2], whole[-1], s.dtype.base_dtype) if tol is None else tol
        return math_reduce.reduce_sum(math.cast(math.greater(s, limit), dtypes.int32), -1)


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Moore and Penrose's inverse of real matrices [..., m, n]. Singular values up to rcond times the largest count as
    0 (10 max(m, n) eps)."""
    with get_default_graph().name_scope(name or "pinv"):
        a = convert_to_tensor(a, name="a")
        kind = a.dtype.base_dtype
        if not kind.is_floating:
            raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {kind.name}).")
        whole = array.shape(a)
        s, u, v = svd(a)
        if rcond is None:
            limit = _tolerance(s, whole[-2], whole[-1], kind) * 10.0
        else:
            limit = array.expand_dims(convert_to_tensor(rcond, kind), -1) * math_reduce.reduce_max(s, -1, True)
        kept = math.greater(s, limit)
        safe = array_select.where(kept, s, array.ones_like(s))
        inverse = math.cast(kept, kind) / safe
        return math.matmul(v * array.expand_dims(inverse, -2), u, adjoint_b=True)


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """[..., m, n] times [..., n]."""
    with get_default_graph().name_scope(name or "MatVec"):
        a = convert_to_tensor(a, name="a")
        column = array.expand_dims(convert_to_tensor(b, a.dtype.base_dtype, "b"), -1)
        return array.squeeze(math.matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a), [-1])


def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(tensor / its norm, the norm), as tf.norm takes ord and axis; axes are kept."""
    with get_default_graph().name_scope(name or "normalize"):
        tensor = convert_to_tensor(tensor)
        size = math.cast(norm(tensor, ord, axis, keepdims=True), tensor.dtype.base_dtype)
        return tensor / size, size
