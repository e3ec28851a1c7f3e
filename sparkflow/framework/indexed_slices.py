"""IndexedSlices: a gradient that touches some rows of a table."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, register_conversion
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.nest import register_composite
from sparkflow.framework.shapes import TensorShape


class IndexedSlices:
    """Rows `values` at `indices` of a tensor of shape `dense_shape`; indices may repeat, and then rows add up."""

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None):
        self.values, self.indices, self.dense_shape = values, indices, dense_shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def op(self) -> Operation:
        return self.values.op

    @property
    def shape(self) -> TensorShape:
        """The static shape of the dense tensor."""
        return TensorShape(None if self.dense_shape is None else constant_value_as_shape(self.dense_shape))

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def device(self) -> str:
        return self.values.device

    @property
    def graph(self) -> Graph:
        return self.values.graph

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices}, values={self.values})"


def _densify(value: IndexedSlices, dtype: Any, name: str | None, as_ref: bool) -> Tensor:
    """Sum the rows into a dense tensor (UnsortedSegmentSum)."""
    if value.dense_shape is None:
        raise ValueError(f"Cannot make a dense tensor of {value}: its dense_shape is not known")
    rows = value.dense_shape[0]
    return apply_op("UnsortedSegmentSum", [value.values, value.indices, rows], name=name)


register_conversion(IndexedSlices, _densify)
register_composite(
    IndexedSlices, lambda s: (s.values, s.indices, s.dense_shape), lambda like, parts: IndexedSlices(*parts)
)
