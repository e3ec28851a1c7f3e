"""Counts have no slope; the n-th smallest has that of the elements that are it."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math, math_reduce

not_differentiable("DenseBincount", "HistogramFixedWidth", "UnravelIndex", "LowerBound", "UpperBound")
not_differentiable("DenseCountSparseOutput", "SparseCountSparseOutput", "RaggedCountSparseOutput")


@gradient("NthElement")
def _nth_element(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """In equal parts where several elements are the n-th."""

    def grad() -> Tensor:
        holders = math.cast(math.equal(array.expand_dims(op.outputs[0], -1), op.inputs[0]), dy.dtype.base_dtype)
        count = array.expand_dims(math_reduce.reduce_sum(holders, -1), -1)
        return math.multiply(math.divide(holders, count), array.expand_dims(dy, -1))

    return grad, None
