"""Gradients of sparse ops, by their values alone."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import (
    array,
    math,
    operators,  # noqa: F401 - x + y on tensors
    sparse_math,
)
from sparkflow.ops.array_slice import gather, gather_nd
from sparkflow.ops.linalg import adjoint
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow_runtime.wire import dtypes


@gradient("SparseTensorDenseMatMul")
def _matmul(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    """Of the values: dy's row times b's column where each value lies."""
    indices, values, shape, b = op.inputs
    flip_a, flip_b = op.attr("adjoint_a"), op.attr("adjoint_b")

    def by_values() -> Tensor:
        rows, columns = indices[:, 0], indices[:, 1]
        of_dy = gather(dy, columns if flip_a else rows)
        of_b = gather(adjoint(b) if flip_b else b, rows if flip_a else columns)
        if flip_a:
            return reduce_sum(math.conj(of_dy) * of_b, 1)
        return reduce_sum(of_dy * math.conj(of_b), 1)

    def by_b() -> Tensor:
        sp = SparseTensor(indices, values, shape)
        db = sparse_math.sparse_tensor_dense_matmul(sp, dy, adjoint_a=not flip_a)
        return adjoint(db) if flip_b else db

    return None, by_values, None, by_b


@gradient("SparseToDense")
def _to_dense(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    indices = op.inputs[0]

    def by_values() -> Tensor:
        short = indices._shape is not None and len(indices._shape) < 2
        found = gather_nd(dy, array.reshape(indices, [-1, 1]) if short else indices)
        return reduce_sum(found) if op.inputs[2]._shape == () else found

    return None, None, by_values, lambda: reduce_sum(dy) - reduce_sum(by_values())


@gradient("SparseReorder")
def _reorder(op: Operation, _: Any, dy: Tensor) -> tuple[Any, ...]:
    """Back into the order of the input."""
    indices, _, shape = op.inputs

    def by_values() -> Tensor:
        count = array.shape(indices)[0]
        places = SparseTensor(indices, math.range(count), shape)
        _, order = apply_op("SparseReorder", [places.indices, places.values, places.dense_shape])
        return gather(dy, array.invert_permutation(order))

    return None, by_values, None


@gradient("SparseAdd")
def _add(op: Operation, *dys: Any) -> tuple[Any, ...]:
    ai, bi = op.inputs[0], op.inputs[3]
    da, db = apply_op("SparseAddGrad", [dys[1], ai, bi, op.outputs[0]])
    return None, da, None, None, db, None, None


gradient("SparseTensorDenseAdd")(lambda op, dy: (None, lambda: gather_nd(dy, op.inputs[0]), None, dy))


@gradient("SparseReduceSum")
def _reduce_sum(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    indices, _, shape, axes = op.inputs

    def by_values() -> Tensor:
        rank = array.size(shape)
        every = math.range(rank)
        gone = math.floormod(axes, rank)
        one = array.ones_like(gone, dtype=dtypes.int64)
        kept = apply_op("DynamicStitch", [[every, gone], [shape, one]])
        whole = array.reshape(dy, kept)
        return gather_nd(whole, indices - indices // math.cast(kept, dtypes.int64) * math.cast(kept, dtypes.int64))

    return None, by_values, None, None


@gradient("SparseSoftmax")
def _softmax(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    """y (dy - sum of y dy along the row)."""
    indices, _, shape = op.inputs
    y = op.outputs[0]
    product = SparseTensor(indices, y * dy, shape)
    sums = sparse_math.sparse_reduce_sum(product, [-1], True)
    spread = sparse_math.sparse_dense_cwise("Add", SparseTensor(indices, -dy, shape), sums)
    return None, -spread.values * y, None


@gradient("SparseSlice")
def _slice(op: Operation, *dys: Any) -> tuple[Any, ...]:
    indices, start = op.inputs[0], op.inputs[3]
    return None, lambda: apply_op("SparseSliceGrad", [dys[1], indices, start, op.outputs[0]]), None, None, None


@gradient("SparseFillEmptyRows")
def _fill_empty_rows(op: Operation, _: Any, dy: Tensor, *rest: Any) -> tuple[Any, ...]:
    values, default = apply_op("SparseFillEmptyRowsGrad", [op.outputs[3], dy])
    return None, values, None, default


def _reduced_to_dense(op: Operation, found: Tensor, dense: Tensor) -> Tensor:
    """The gradient of a dense factor: each value's at its place. Raises ValueError where the factor was broadcast."""
    scaling = op.inputs[2] // math.cast(array.shape(dense), dtypes.int64)
    scaled = op.inputs[0] // scaling
    whole = apply_op("ScatterNd", [scaled, found, math.cast(array.shape(dense), dtypes.int64)])
    whole.set_shape(dense.shape)
    return whole


@gradient("SparseDenseCwiseMul")
def _cwise_mul(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    values, dense = op.inputs[1], op.inputs[3]
    picked = _picked(op, dense)
    return None, lambda: dy * picked(), None, lambda: _reduced_to_dense(op, dy * values, dense)


@gradient("SparseDenseCwiseDiv")
def _cwise_div(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    values, dense = op.inputs[1], op.inputs[3]
    picked = _picked(op, dense)

    def by_dense() -> Tensor:
        return _reduced_to_dense(op, dy * (-values / math.square(picked())), dense)

    return None, lambda: dy / picked(), None, by_dense


def _picked(op: Operation, dense: Tensor) -> Any:
    def build() -> Tensor:
        scaling = op.inputs[2] // math.cast(array.shape(dense), dtypes.int64)
        return gather_nd(dense, op.inputs[0] // scaling)

    return build


not_differentiable(
    *("SparseAddGrad", "SparseReduceMax", "SparseReduceMaxSparse", "SparseReduceSumSparse", "SparseConcat"),
    *("SparseSplit", "SparseReshape", "SparseSparseMaximum", "SparseSparseMinimum", "SparseDenseCwiseAdd"),
    *("SparseSliceGrad", "SparseFillEmptyRowsGrad"),
)
