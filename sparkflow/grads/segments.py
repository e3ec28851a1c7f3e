"""Gradients of reductions over segments of rows."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import (
    array,
    math,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.array_select import where
from sparkflow.ops.array_slice import gather
from sparkflow.ops.math_reduce import segment_sum, unsorted_segment_sum
from sparkflow_runtime.wire import dtypes


@gradient("SegmentMean")
def _segment_mean(op: Operation, dy: Tensor) -> Any:
    """Each row gets its segment's gradient over the number of rows in it."""
    data, ids = op.inputs

    def grad() -> Tensor:
        ones = array.fill(concat([array.shape(ids), array.fill([array.rank(data) - 1], 1)], 0), _one(dy))
        return gather(dy / segment_sum(ones, ids), ids)

    return grad, None


def _one(like: Tensor) -> Tensor:
    return convert_to_tensor(1, like.dtype.base_dtype)


@gradient("SegmentMax", "SegmentMin")
def _segment_extreme(op: Operation, dy: Tensor) -> Any:
    """Shared evenly by the rows that hold the extreme."""
    data, ids = op.inputs

    def grad() -> Tensor:
        chosen = math.cast(math.equal(data, gather(op.outputs[0], ids)), dy.dtype)
        return gather(dy / segment_sum(chosen, ids), ids) * chosen

    return grad, None


def _gathered(rows: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """(the row of each id, the first one where it is negative; where it is not negative, in the rows' shape)."""
    found = gather(rows, math.maximum(ids, array.zeros_like(ids)))
    kept = math.greater_equal(ids, array.zeros_like(ids))
    extra = array.fill(apply_op("Pack", [[array.rank(found) - array.rank(kept)]]), convert_to_tensor(1, dtypes.int32))
    kept = array.reshape(kept, concat([array.shape(kept), extra], 0))
    return found, math.logical_and(kept, array.ones_like(found, dtype=dtypes.bool_))


@gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_extreme(op: Operation, dy: Tensor) -> Any:
    data, ids, count = op.inputs

    def grad() -> Tensor:
        extreme, kept = _gathered(op.outputs[0], ids)
        chosen = math.logical_and(math.equal(data, extreme), kept)
        number = unsorted_segment_sum(math.cast(chosen, dy.dtype), ids, count)
        shared, _ = _gathered(dy / number, ids)
        return where(chosen, shared, array.zeros_like(shared))

    return grad, None, None


@gradient("UnsortedSegmentProd")
def _unsorted_prod(op: Operation, dy: Tensor) -> Any:
    """The product of the others: y / x, or where x is 0 the product of what is not, if x is the only 0."""
    data, ids, count = op.inputs

    def grad() -> Tensor:
        zero = math.equal(data, array.zeros_like(data))
        zeros = unsorted_segment_sum(math.cast(zero, dtypes.int32), ids, count)
        reach = where(math.greater(zeros, 1), array.zeros_like(dy), dy)
        others = apply_op("UnsortedSegmentProd", [where(zero, array.ones_like(data), data), ids, count])
        gathered, _ = _gathered(op.outputs[0], ids)
        without, _ = _gathered(others, ids)
        partial = where(zero, without, gathered / where(zero, array.ones_like(data), data))
        shared, kept = _gathered(reach, ids)
        return where(kept, shared * partial, array.zeros_like(partial))

    return grad, None, None


@gradient("SegmentProd")
def _segment_prod(op: Operation, dy: Tensor) -> Any:
    """As of UnsortedSegmentProd."""
    data, ids = op.inputs

    def grad() -> Tensor:
        zero = math.equal(data, array.zeros_like(data))
        zeros = segment_sum(math.cast(zero, dtypes.int32), ids)
        reach = where(math.greater(zeros, 1), array.zeros_like(dy), dy)
        rest = where(zero, array.ones_like(data), data)
        others = apply_op("SegmentProd", [rest, ids])
        partial = where(zero, gather(others, ids), gather(op.outputs[0], ids) / rest)
        return gather(reach, ids) * partial

    return grad, None


def _picked(kind: str) -> None:
    def grad(op: Operation, dy: Tensor) -> Any:
        def rows() -> Tensor:
            size = array.shape(op.inputs[0])[0]
            return apply_op(f"SparseSegment{kind}Grad", [dy, op.inputs[1], op.inputs[2], size])

        return (rows, *[None] * (len(op.inputs) - 1))

    gradient(f"SparseSegment{kind}", f"SparseSegment{kind}WithNumSegments")(grad)


for _kind in ("Sum", "Mean", "SqrtN"):
    _picked(_kind)
