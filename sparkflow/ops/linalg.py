"""Linear algebra over the last two axes: solving, decomposing, determinants, products by index names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, array_select, array_slice, math, math_reduce, rules
from sparkflow.ops.linalg_parts import matrix_diag, matrix_diag_part, matrix_set_diag, matrix_transpose
from sparkflow.ops.math_special import real
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _matrices(op: Operation, i: int = 0) -> Any:
    return rules.require_rank(op, op.spec.inputs[i].name, op.inputs[i], 2, at_least=True)


def _square(op: Operation, i: int = 0) -> Any:
    """Raises InvalidArgumentError unless the last two sizes agree."""
    dims = _matrices(op, i)
    if dims is None:
        return None
    (size,) = shapes.merge(dims[-2:-1], dims[-1:]) or (None,)
    return (*dims[:-2], size, size)


def _solve_rule(op: Operation) -> list[Dims]:
    a, b = _square(op) if op.type != "MatrixSolveLs" else _matrices(op), _matrices(op, 1)
    if a is None or b is None:
        return [None]
    shapes.merge(a[-2:-1], b[-2:-1])
    batch = shapes.merge(a[:-2], b[:-2]) if op.type != "MatrixTriangularSolve" else shapes.broadcast(a[:-2], b[:-2])
    return [(*(batch or ()), a[-1], b[-1])]


def _qr_rule(op: Operation) -> list[Dims]:
    dims = _matrices(op)
    if dims is None:
        return [None, None]
    *batch, m, n = dims
    if op.attrs["full_matrices"]:
        return [(*batch, m, m), (*batch, m, n)]
    k = None if m is None or n is None else min(m, n)
    return [(*batch, m, k), (*batch, k, n)]


def _svd_rule(op: Operation) -> list[Dims]:
    dims = _matrices(op)
    if dims is None:
        return [None, None, None]
    *batch, m, n = dims
    k = None if m is None or n is None else min(m, n)
    if not op.attrs["compute_uv"]:
        return [(*batch, k), (0,), (0,)]
    full = op.attrs["full_matrices"]
    return [(*batch, k), (*batch, m, m if full else k), (*batch, n, n if full else k)]


def _eigen_rule(op: Operation) -> list[Dims]:
    dims = _square(op)
    return [None if dims is None else dims[:-1], (0,) if not op.attrs["compute_v"] else dims]


def _of_each(op: Operation) -> list[Dims]:
    dims = _square(op)
    return [None if dims is None else dims[:-2]] * len(op.outputs)


op("MatrixInverse", "input: T -> output: T", lambda op: [_square(op)], adjoint=False)
op("MatrixSolve", "matrix: T, rhs: T -> output: T", _solve_rule, adjoint=False)
op("MatrixTriangularSolve", "matrix: T, rhs: T -> output: T", _solve_rule, lower=True, adjoint=False)
op("MatrixSolveLs", "matrix: T, rhs: T, l2_regularizer: float64 -> output: T", _solve_rule, fast=True)
op("Cholesky", "input: T -> output: T", lambda op: [_square(op)])
op("Qr", "input: T -> q: T, r: T", _qr_rule, full_matrices=False)
op("Svd", "input: T -> s: T, u: T, v: T", _svd_rule, compute_uv=True, full_matrices=False)
op("SelfAdjointEigV2", "input: T -> e: T, v: T", _eigen_rule, compute_v=True)
op("MatrixDeterminant", "input: T -> output: T", _of_each)
op("LogMatrixDeterminant", "input: T -> sign: T, log_abs_determinant: T", _of_each)


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverses of matrices [..., n, n], or with adjoint those of their conjugate transposes.

    Raises InvalidArgumentError when it runs on a matrix that has none.
    """
    return apply_op("MatrixInverse", [input], {"adjoint": adjoint}, name)


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """x of matrix @ x = rhs, [..., n, n] and [..., n, k]; with adjoint of the conjugate transposes."""
    return apply_op("MatrixSolve", [matrix, rhs], {"adjoint": adjoint}, name)


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """As matrix_solve, reading the lower (or upper) triangle of matrix alone; leading axes broadcast."""
    return apply_op("MatrixTriangularSolve", [matrix, rhs], {"lower": lower, "adjoint": adjoint}, name)


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """x [..., n, k] that makes |matrix @ x - rhs|^2 + l2_regularizer |x|^2 least, of matrix [..., m, n]; the least x
    where there are several. fast=False: by orthogonal decomposition, without the regularizer."""
    return apply_op("MatrixSolveLs", [matrix, rhs, l2_regularizer], {"fast": fast}, name or "matrix_solve_ls")


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Lower triangular L with L L^H = input, of positive definite matrices; its lower triangle alone is read."""
    return apply_op("Cholesky", [input], name=name)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """x of A @ x = rhs from A's Cholesky factor."""
    with get_default_graph().name_scope(name or "cholesky_solve"):
        half = matrix_triangular_solve(chol, rhs, lower=True)
        return matrix_triangular_solve(chol, half, lower=True, adjoint=True)


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(q, r): orthonormal columns and an upper triangle, q @ r = input [..., m, n]; q is [..., m, min(m, n)]."""
    return apply_op("Qr", [input], {"full_matrices": full_matrices}, name)


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """(s, u, v) with u @ diag(s) @ v^H = tensor and s falling; or s alone."""
    s, u, v = apply_op("Svd", [tensor], {"compute_uv": compute_uv, "full_matrices": full_matrices}, name or "svd")
    return (s, u, v) if compute_uv else s


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(e, v): rising eigenvalues [..., n] and eigenvectors (columns) of self-adjoint matrices, of which the lower
    triangles are read."""
    return apply_op("SelfAdjointEigV2", [tensor], {"compute_v": True}, name or "self_adjoint_eig")


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """The eigenvalues alone."""
    return apply_op("SelfAdjointEigV2", [tensor], {"compute_v": False}, name or "self_adjoint_eigvals")[0]


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinants of matrices [..., n, n]."""
    return apply_op("MatrixDeterminant", [input], name=name)


def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(sign, log |determinant|)."""
    return apply_op("LogMatrixDeterminant", [input], name=name)


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of positive definite matrices."""
    with get_default_graph().name_scope(name or "logdet"):
        diagonal = real(matrix_diag_part(cholesky(matrix)))
        return math.multiply(math_reduce.reduce_sum(math.log(diagonal), -1), 2.0)


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of the last two axes."""
    with get_default_graph().name_scope(name or "adjoint"):
        return matrix_transpose(matrix, conjugate=True)


# ---------------------------------------------------------------------- products


def _cross_rule(op: Operation) -> list[Dims]:
    dims = rules.merged(op)[0]
    if dims is not None and (not dims or dims[-1] not in (None, 3)):
        raise InvalidArgumentError(f"Cross: the last size must be 3, got shape {shapes.show(dims)}")
    return [dims]


op("Cross", "a: T, b: T -> product: T", _cross_rule)


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The cross product along the last axis, of size 3."""
    return apply_op("Cross", [a, b], name=name)


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over pairs of axes: the last `axes` of a with the first of b, or lists of axes of each, which
    a tensor may say. The shape is known as far as the ranks and the axes are.

    Raises ValueError on axes that do not fit.
    """
    with get_default_graph().name_scope(name or "Tensordot") as scope:
        a, b = math._pair(a, b)
        if isinstance(axes, Tensor) and (told := constant_value(axes)) is not None:
            axes = told.tolist()
        rank_a, rank_b = rules.rank_of(a), rules.rank_of(b)
        if isinstance(axes, Tensor) or rank_a is None or rank_b is None:
            first, second, sizes = _matrices_of_any_rank(a, b, axes)
            return array.reshape(math.matmul(first, second), sizes, name=scope)
        of_a, of_b = _contracted(axes, rank_a, rank_b)
        first, free_a, known_a = _as_matrix(a, of_a, False)
        second, free_b, known_b = _as_matrix(b, of_b, True)
        product = math.matmul(first, second)
        free = [math.cast(sizes, array.type_of_sizes(a, b)) for sizes in (free_a, free_b)]
        out = array.reshape(product, apply_op("ConcatV2", [free, 0]), name=scope)
        out.set_shape((*known_a, *known_b))
        return out


def _contracted(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if _is_count(axes):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(f"'axes' must be at least 0 and at most the ranks {rank_a} and {rank_b}, got {axes}")
        return list(range(rank_a - axes, rank_a)), list(range(axes))
    of_a, of_b = _pair_of_axes(axes)
    return [i % rank_a for i in of_a], [i % rank_b for i in of_b]


def _is_count(axes: Any) -> bool:
    return isinstance(axes, (int, np.integer))


def _pair_of_axes(axes: Any) -> tuple[list[int], list[int]]:
    if len(axes) != 2:
        raise ValueError(f"'axes' must be an integer or have length 2, got {axes!r}")
    of_a, of_b = ([int(x)] if not hasattr(x, "__len__") else [int(i) for i in x] for x in axes)
    if len(of_a) != len(of_b):
        raise ValueError(f"tensordot: different number of contraction axes, {of_a} and {of_b}")
    return of_a, of_b


def _as_matrix(x: Tensor, summed: list[int], summed_first: bool) -> tuple[Tensor, Any, Any]:
    """(x as a matrix with the summed axes on one side, the sizes of the others, what is known of them)."""
    dims = x._shape or ()
    free = [i for i in range(len(dims)) if i not in summed]
    order = summed + free if summed_first else free + summed
    moved = x if order == list(range(len(dims))) else array.transpose(x, order)
    known = [dims[i] for i in free]
    inner = [dims[i] for i in summed]
    if None not in (*known, *inner):
        sizes: Any = convert_to_tensor([int(d) for d in known if d is not None], array.type_of_sizes(x))
        rows, columns = shapes.product(known), shapes.product(inner)
        return array.reshape(moved, [columns, rows] if summed_first else [rows, columns]), sizes, known
    rows_of, columns_of = (convert_to_tensor(axes, dtypes.int32) for axes in (free, summed))
    matrix, sizes = _reshaped(x, moved, rows_of, columns_of, summed_first)
    return matrix, sizes, known


def _reshaped(x: Tensor, moved: Tensor, free: Tensor, summed: Tensor, summed_first: bool) -> tuple[Tensor, Tensor]:
    """(what x is after its axes have moved, as a matrix; the sizes of the free ones)."""
    whole = array.shape(x)
    sizes = array_slice.gather(whole, free)
    height, width = (math_reduce.reduce_prod(size) for size in (sizes, array_slice.gather(whole, summed)))
    return array.reshape(moved, [width, height] if summed_first else [height, width]), sizes


def _matrices_of_any_rank(a: Tensor, b: Tensor, axes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both as matrices whose product it is, and the shape of the result."""
    ranks = [array.rank(x) for x in (a, b)]
    if _is_count(axes):
        if axes < 0:
            raise ValueError(f"'axes' must be at least 0, got {axes}")
        summed = [math.range(ranks[0] - axes, ranks[0]), math.range(axes)]
    elif isinstance(axes, Tensor):
        either = math.cast(axes, dtypes.int32)
        if rules.rank_of(axes) == 0:
            summed = [math.range(ranks[0] - either, ranks[0]), math.range(either)]
        else:
            summed = [either[0], either[1]]
    else:
        summed = [convert_to_tensor(one, dtypes.int32) for one in _pair_of_axes(axes)]
    found = []
    for x, whole, some, summed_first in zip((a, b), ranks, summed, (False, True)):
        some = math.floormod(array.reshape(some, [-1]), whole)  # a negative one counts from the end
        free = array_select.setdiff1d(math.range(whole), some)[0]
        moved = array.transpose(x, array_join.concat([some, free] if summed_first else [free, some], 0))
        found.append(_reshaped(x, moved, free, some, summed_first))
    (first, free_a), (second, free_b) = found
    return first, second, array_join.concat([free_a, free_b], 0)


# ---------------------------------------------------------------------- norms and the unit matrix


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of vectors along one axis, of matrices along two, of all values without axis.

    ord: "euclidean" (of matrices Frobenius's "fro"), 1, 2, inf, or any p of vectors. Raises ValueError on another one.
    """
    keep = bool(keepdims if keep_dims is None else keep_dims)
    matrices = isinstance(axis, (tuple, list)) and len(axis) == 2
    known = ("fro", "euclidean", 1, 2, float("inf")) if matrices else ("euclidean", 1, 2, float("inf"))
    if ord not in known and (matrices or isinstance(ord, str) or ord <= 0):
        raise ValueError(f"'ord' must be a supported {'matrix' if matrices else 'vector'} norm in {known}, got {ord}")
    with get_default_graph().name_scope(name or "norm"):
        tensor = convert_to_tensor(tensor)
        if matrices and ord in (1, float("inf")):
            return _matrix_norm(math.abs(tensor), ord == 1, list(axis), keep)
        if matrices and ord == 2:
            return _largest_singular(tensor, list(axis), keep)
        return _vector_norm(tensor, ord, axis, keep)


def _matrix_norm(size: Tensor, columns: bool, axis: list[int], keep: bool) -> Tensor:
    """The largest sum of a column, or of a row."""
    summed, over = (axis[0], axis[1]) if columns else (axis[1], axis[0])
    total = math_reduce.reduce_max(math_reduce.reduce_sum(size, summed, True), over, True)
    return total if keep else array.squeeze(total, axis)


def _largest_singular(tensor: Tensor, axis: list[int], keep: bool) -> Tensor:
    rank = rules.rank_of(tensor)
    if rank is None:
        raise ValueError("norm: the rank must be known for ord 2 of matrices")
    at = [a % rank for a in axis]
    moved = array.transpose(tensor, [i for i in range(rank) if i not in at] + at)
    found = math_reduce.reduce_max(svd(moved, compute_uv=False), -1, keep)
    if not keep:
        return found
    for a in sorted(at):
        found = array.expand_dims(found, a) if a != rank - 1 else found
    return found


def _vector_norm(tensor: Tensor, ord: Any, axis: Any, keep: bool) -> Tensor:
    if ord in ("fro", "euclidean", 2):
        squares = math.multiply(tensor, math.conj(tensor)) if tensor.dtype.is_complex else math.square(tensor)
        return math.sqrt(real(math_reduce.reduce_sum(squares, axis, keep)))
    size = math.abs(tensor)
    if ord == 1:
        return math_reduce.reduce_sum(size, axis, keep)
    if ord == float("inf"):
        return math_reduce.reduce_max(size, axis, keep)
    return math.pow(math_reduce.reduce_sum(math.pow(size, float(ord)), axis, keep), 1.0 / ord)


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Sequence[int] | None = None, dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Ones on the main diagonal of [*batch_shape, num_rows, num_columns], zeros elsewhere."""
    with get_default_graph().name_scope(name or "eye"):
        columns = num_rows if num_columns is None else num_columns
        want = dtypes.as_dtype(dtype)
        rows_, columns_ = (convert_to_tensor(n, dtypes.int32) for n in (num_rows, columns))
        short = math.minimum(rows_, columns_)
        batch = convert_to_tensor([] if batch_shape is None else batch_shape, dtypes.int32)
        diagonal = array.ones(apply_op("ConcatV2", [[batch, array.reshape(short, [1])], 0]), want)
        if num_columns is None:
            out = matrix_diag(diagonal)
        else:
            whole = apply_op("ConcatV2", [[batch, apply_op("Pack", [[rows_, columns_]])], 0])
            out = matrix_set_diag(array.zeros(whole, want), diagonal)
        sizes = [constant_value(n) for n in (rows_, columns_)]
        known = constant_value(batch)
        if known is not None:
            out.set_shape((*(int(b) for b in known), *(None if s is None else int(s) for s in sizes)))
        return out


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sums of the main diagonals of the last two axes."""
    with get_default_graph().name_scope(name or "Trace"):
        return math_reduce.reduce_sum(matrix_diag_part(x), -1)
