"""Values put together by the number of the row that each belongs to."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.ops import array_join, array_slice, checks, math
from sparkflow.ops.array_made import argsort
from sparkflow.ops.ragged import RaggedTensor


def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> RaggedTensor:
    """Row i has the values of data whose partition is i, in their order. data and partitions: tensors or RaggedTensors
    of the same outer shape. Raises InvalidArgumentError, when it runs, on a partition beyond num_partitions."""
    with get_default_graph().name_scope(name or "SegmentStack"):
        data = data if isinstance(data, RaggedTensor) else convert_to_tensor(data)
        parts = partitions if isinstance(partitions, RaggedTensor) else convert_to_tensor(partitions)
        return _stacked(data, parts, num_partitions)


def _stacked(data: Any, parts: Any, num_partitions: Any) -> RaggedTensor:
    rank = parts.shape.ndims
    if rank is None:
        raise ValueError("partitions must have known rank.")
    if rank == 0:
        count = math.cast(num_partitions, parts.dtype)
        return RaggedTensor.from_value_rowids(
            array_join.stack([data]), array_join.stack([parts]), count, validate=False
        )
    if rank == 1:
        parts.shape.assert_is_compatible_with(data.shape[:1])
        kind = data.row_splits.dtype if isinstance(data, RaggedTensor) else parts.dtype
        parts, count = math.cast(parts, kind), math.cast(num_partitions, kind)
        order = argsort(parts, stable=True)
        rows = array_slice.gather(parts, order)
        tests = [
            checks.assert_less(rows[-1:], count, message="partitions must be less than num_partitions"),
            checks.assert_non_negative(parts, message="partitions must be non-negative."),
        ]
        with get_default_graph().control_dependencies(tests):
            values: Any = _gathered(data, order)
            return RaggedTensor.from_value_rowids(values, math.cast(rows, kind) + 0, count, validate=False)
    data = data if isinstance(data, RaggedTensor) else RaggedTensor.from_tensor(data, ragged_rank=1)
    parts = parts if isinstance(parts, RaggedTensor) else RaggedTensor.from_tensor(parts, ragged_rank=1)
    same = checks.assert_equal(
        math.cast(data.row_splits, "int64"), math.cast(parts.row_splits, "int64"),
        message="data and partitions have incompatible ragged shapes",
    )  # fmt: skip
    with get_default_graph().control_dependencies([same]):
        return _stacked(data.values, parts.values, num_partitions)


def _gathered(data: Any, order: Any) -> Any:
    return array_slice.gather(data, order)
