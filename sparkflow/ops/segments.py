"""Reductions over segments of rows, which ids mark: sorted, in any order, or of rows that indices pick first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, math, rules
from sparkflow.ops.math_reduce import _sorted_rule, _unsorted_rule, unsorted_segment_sum
from sparkflow_runtime.wire import dtypes

for _kind in ("Mean", "Prod", "Max", "Min"):
    op(f"Segment{_kind}", "data: T, segment_ids: Tindices -> output: T", _sorted_rule)
for _kind in ("Prod", "Max", "Min"):
    op(
        f"UnsortedSegment{_kind}",
        "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
        _unsorted_rule,
        Tnumsegments=dtypes.int32,
    )


def _picked_rule(op: Operation) -> list[Dims]:
    data, indices = op.inputs[0]._shape, rules.require_rank(op, "indices", op.inputs[1], 1)
    shapes.merge(indices, rules.require_rank(op, "segment_ids", op.inputs[2], 1))
    count = constant_value(op.inputs[3]) if len(op.inputs) > 3 else None
    return [None if data is None else (None if count is None else int(count), *data[1:])]


def _picked_grad_rule(op: Operation) -> list[Dims]:
    grad, size = op.inputs[0]._shape, constant_value(op.inputs[3])
    return [None if grad is None else (None if size is None else int(size), *grad[1:])]


_PICKED = "data: T, indices: Tidx, segment_ids: Tsegmentids"
_TYPES: dict[str, Any] = {"Tidx": dtypes.int32, "Tsegmentids": dtypes.int32}
for _kind in ("Sum", "Mean", "SqrtN"):
    op(f"SparseSegment{_kind}", f"{_PICKED} -> output: T", _picked_rule, sparse_gradient=False, **_TYPES)
    op(
        f"SparseSegment{_kind}WithNumSegments",
        f"{_PICKED}, num_segments: Tnumsegments -> output: T",
        _picked_rule,
        sparse_gradient=False,
        Tnumsegments=dtypes.int32,
        **_TYPES,
    )
    op(
        f"SparseSegment{_kind}Grad",
        "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",
        _picked_grad_rule,
        **_TYPES,
    )


def _sorted(op_type: str, what: str) -> Callable[..., Tensor]:
    def build(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [data, segment_ids], name=name)

    build.__name__ = build.__qualname__ = f"segment_{op_type[7:].lower()}"
    build.__doc__ = f"The {what} of data's rows that bear the same id; the ids must not decrease."
    return build


segment_mean = _sorted("SegmentMean", "mean")
segment_prod = _sorted("SegmentProd", "product")
segment_max = _sorted("SegmentMax", "largest values")
segment_min = _sorted("SegmentMin", "smallest values")


def _unsorted(op_type: str, what: str) -> Callable[..., Tensor]:
    def build(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [data, segment_ids, num_segments], name=name)

    build.__name__ = build.__qualname__ = f"unsorted_segment_{op_type[15:].lower()}"
    build.__doc__ = (
        f"[num_segments, ...]: the {what} of data's rows of each id, in any order; negative ids are dropped."
    )
    return build


unsorted_segment_prod = _unsorted("UnsortedSegmentProd", "product")
unsorted_segment_max = _unsorted("UnsortedSegmentMax", "largest values (the type's lowest where there are none)")
unsorted_segment_min = _unsorted("UnsortedSegmentMin", "smallest values (the type's highest where there are none)")


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """[num_segments, ...]: the mean of data's rows of each id; 0 where there are none."""
    with get_default_graph().name_scope(name or "UnsortedSegmentMean"):
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        return math.divide(unsorted_segment_sum(data, ids, num_segments), _counts(data, ids, num_segments))


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """[num_segments, ...]: the sum of data's rows of each id over the square root of their number."""
    with get_default_graph().name_scope(name or "UnsortedSegmentSqrtN"):
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total = unsorted_segment_sum(data, ids, num_segments)
        return math.divide(total, math.sqrt(_counts(data, ids, num_segments)))


def _counts(data: Tensor, ids: Tensor, num_segments: Any) -> Tensor:
    """How many rows each segment has, at least 1, ready to divide by."""
    ones = array.ones_like(array.reshape(ids, [-1]), dtype=data.dtype.base_dtype)
    found = math.maximum(unsorted_segment_sum(ones, array.reshape(ids, [-1]), num_segments), 1)
    extra = array.fill([math.subtract(array.rank(data), array.rank(ids))], 1)
    return array.reshape(found, apply_op("ConcatV2", [[array.shape(found), extra], 0]))


def _picked(kind: str, what: str) -> Callable[..., Tensor]:
    def build(data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None) -> Tensor:
        if num_segments is None:
            return apply_op(f"SparseSegment{kind}", [data, indices, segment_ids], name=name)
        inputs = [data, indices, segment_ids, num_segments]
        return apply_op(f"SparseSegment{kind}WithNumSegments", inputs, name=name)

    build.__name__ = build.__qualname__ = f"sparse_segment_{'sqrt_n' if kind == 'SqrtN' else kind.lower()}"
    build.__doc__ = f"The {what} of the rows of data that `indices` picks, by segment; the ids must not decrease."
    return build


sparse_segment_sum = _picked("Sum", "sum")
sparse_segment_mean = _picked("Mean", "mean")
sparse_segment_sqrt_n = _picked("SqrtN", "sum over the square root of the number")
