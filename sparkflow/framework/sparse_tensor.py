"""SparseTensor: the values of a tensor that are not left out, where they lie, and the whole shape."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Graph, Operation, get_default_graph
from sparkflow.framework.nest import register_composite
from sparkflow.framework.shapes import TensorShape
from sparkflow_runtime.wire import dtypes


class SparseTensorValue(NamedTuple):
    """What a session gives for a SparseTensor, and what may be fed for one: three arrays."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """values [n] at indices [n, rank] (int64) of a tensor of shape dense_shape [rank] (int64).

    Most ops want the indices in row order; `tf.sparse_reorder` brings them into it. Raises ValueError where the static
    shapes of the parts contradict each other.
    """

    _sizes: shapes.Dims = None  # of a placeholder, whose dense_shape does not tell them

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        with get_default_graph().name_scope("SparseTensor"):
            self.indices = convert_to_tensor(indices, dtypes.int64, "indices")
            self.values = convert_to_tensor(values, name="values")
            self.dense_shape = convert_to_tensor(dense_shape, dtypes.int64, "dense_shape")
        where, what = self.indices.shape.with_rank(2), self.values.shape.with_rank(1)
        shapes.merge(where.dims_[:1], what.dims_)  # type: ignore[index]
        shapes.merge(where.dims_[1:], self.dense_shape.shape.with_rank(1).dims_)  # type: ignore[index]

    @classmethod
    def from_value(cls, value: Any) -> SparseTensor:
        """Itself, or the constant SparseTensor of a SparseTensorValue. Raises TypeError on anything else."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, SparseTensorValue):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {value!r}.")
        return cls(*value)

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole tensor."""
        return TensorShape(self._sizes or constant_value_as_shape(self.dense_shape))

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def dtype(self) -> dtypes.DType:
        return self.values.dtype

    @property
    def op(self) -> Operation:
        return self.values.op

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def graph(self) -> Graph:
        return self.values.graph

    def with_values(self, new_values: Any) -> SparseTensor:
        """These values at the same places."""
        return SparseTensor(self.indices, new_values, self.dense_shape)

    def consumers(self) -> Any:
        return self.values.consumers()

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Its value, run in the session (the default one)."""
        indices, values, shape = (t.eval(feed_dict, session) for t in (self.indices, self.values, self.dense_shape))
        return SparseTensorValue(indices, values, shape)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices}, values={self.values}, dense_shape={self.dense_shape})"


def rank_of(tensor: SparseTensor) -> int | None:
    """The rank, where the graph knows it."""
    for part, axis in ((tensor.dense_shape, 0), (tensor.indices, 1)):
        if part._shape is not None and part._shape[axis] is not None:
            return part._shape[axis]
    value = constant_value(tensor.dense_shape)
    return None if value is None else int(value.size)


register_composite(
    SparseTensor, lambda s: (s.indices, s.values, s.dense_shape), lambda like, parts: SparseTensor(*parts)
)
