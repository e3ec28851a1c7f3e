"""Arithmetic of SparseTensors: sums, products with dense matrices, reductions, softmax."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, math
from sparkflow.ops.linalg_parts import matrix_transpose
from sparkflow.ops.sparse import _parts, _sparse, is_sparse
from sparkflow_runtime.wire import dtypes


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of a sparse matrix [m, k] and a dense one [k, n], or the other way round, of their adjoints where
    asked."""
    if is_sparse(b) and not is_sparse(sp_a):  # a b = (b' a')'
        product = sparse_tensor_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return matrix_transpose(product, name or "transpose", conjugate=True)
    sp = _sparse(sp_a)
    return apply_op(
        "SparseTensorDenseMatMul",
        [sp.indices, sp.values, sp.dense_shape, convert_to_tensor(b, sp.dtype.base_dtype, "b")],
        {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b},
        name or "SparseTensorDenseMatMul",
    )


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """a + b of two SparseTensors (values of at most `threshold` are left out), or of a SparseTensor and a tensor."""
    limit = (0 if thresh is None else thresh) if threshold is None else threshold
    if not is_sparse(a) and not is_sparse(b):
        raise TypeError(f"sparse_add: at least one of a and b must be a SparseTensor, got {a!r} and {b!r}")
    if is_sparse(a) and is_sparse(b):
        a, b = _sparse(a), _sparse(b)
        limit = convert_to_tensor(limit, a.dtype.real_dtype, "thresh")
        return SparseTensor(*apply_op("SparseAdd", [*_parts(a), *_parts(b), limit]))
    sp, dense = (_sparse(a), b) if is_sparse(a) else (_sparse(b), a)
    return apply_op("SparseTensorDenseAdd", [*_parts(sp), convert_to_tensor(dense, sp.dtype.base_dtype)])


def _every(sp: SparseTensor) -> Any:
    rank = rank_of(sp)
    return math.range(array.size(sp.dense_shape)) if rank is None else list(range(rank))


def _reduced(op_type: str, sp_input: Any, axis: Any, keep: Any, old: Any) -> Any:
    sp, axes = _sparse(sp_input), (old if axis is None else axis)
    axes = _every(sp) if axes is None else axes
    axes = convert_to_tensor(axes if isinstance(axes, (list, tuple, Tensor)) else [axes], dtypes.int32)
    return apply_op(op_type, [*_parts(sp), axes], {"keep_dims": bool(keep)})


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """The sums over the axes (all of them), as a dense tensor."""
    return _reduced("SparseReduceSum", sp_input, axis, keepdims or keep_dims, reduction_axes)


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Tensor:
    """The largest of the values that are there, over the axes (all of them), 0 where there are none."""
    return _reduced("SparseReduceMax", sp_input, axis, keepdims or keep_dims, reduction_axes)


def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """As sparse_reduce_sum, as a SparseTensor."""
    return SparseTensor(*_reduced("SparseReduceSumSparse", sp_input, axis, keepdims or keep_dims, reduction_axes))


def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None, keep_dims: Any = None
) -> SparseTensor:
    """As sparse_reduce_max, as a SparseTensor."""
    return SparseTensor(*_reduced("SparseReduceMaxSparse", sp_input, axis, keepdims or keep_dims, reduction_axes))


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The softmax over the values that are there along the last axis."""
    sp = _sparse(sp_input)
    return SparseTensor(sp.indices, apply_op("SparseSoftmax", _parts(sp), name=name), sp.dense_shape)


def _extreme(kind: str, sp_a: Any, sp_b: Any, name: str | None) -> SparseTensor:
    a, b = _sparse(sp_a), _sparse(sp_b)
    with get_default_graph().name_scope(name or f"SparseSparse{kind}"):
        indices, values = apply_op(f"SparseSparse{kind}", [*_parts(a), *_parts(b)])
        return SparseTensor(indices, values, a.dense_shape)


def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger of both, a value that is left out counting as 0."""
    return _extreme("Maximum", sp_a, sp_b, name)


def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller of both, a value that is left out counting as 0."""
    return _extreme("Minimum", sp_a, sp_b, name)


def sparse_dense_cwise(kind: str, sp: SparseTensor, dense: Any, name: str | None = None) -> SparseTensor:
    """sp's values with those of a dense tensor (broadcast to its shape) at their places: kind "Mul", "Div" or "Add"."""
    value = convert_to_tensor(dense, sp.dtype.base_dtype)
    out = apply_op(f"SparseDenseCwise{kind}", [*_parts(sp), value], name=name)
    return SparseTensor(sp.indices, out, sp.dense_shape)


def _by_dense(kind: str) -> Any:
    def operator(sp: SparseTensor, dense: Any) -> SparseTensor:
        return sparse_dense_cwise(kind, sp, dense)

    return operator


for _name, _kind in (("mul", "Mul"), ("rmul", "Mul"), ("truediv", "Div")):
    setattr(SparseTensor, f"__{_name}__", _by_dense(_kind))
