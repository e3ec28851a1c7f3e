"""Further methods of RaggedTensor: rows of one length, merged axes, row_splits of another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_slice, math
from sparkflow.ops.ragged import RaggedTensor, _count, _values
from sparkflow_runtime.wire import dtypes


def from_uniform_row_length(
    values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True, name: str | None = None
) -> RaggedTensor:
    """All rows have uniform_row_length values. nrows: how many rows, which length 0 does not tell.

    Raises ValueError where the known numbers do not fit.
    """
    with get_default_graph().name_scope(name or "RaggedFromUniformRowLength"):
        values = _values(values)
        kind = dtypes.int64
        if isinstance(values, RaggedTensor):
            kind = values.row_splits.dtype.base_dtype
        length = math.cast(convert_to_tensor(uniform_row_length, dtype_hint=kind, name="uniform_row_length"), kind)
        rows = _row_count(values, length, nrows, validate)
        found = RaggedTensor(values, math.range(rows + 1) * length)
        found._uniform_row_length = length
        return found


def _row_count(values: Any, length: Tensor, nrows: Any, validate: bool) -> Tensor:
    known, count = constant_value(length), values.shape[0].value if values.shape.ndims else None
    rows = None if nrows is None else math.cast(nrows, length.dtype)
    told = None if rows is None else constant_value(rows)
    if known is not None and known < 0:
        raise ValueError(f"from_uniform_row_length: uniform_row_length must be 0 or more, got {known}")
    if rows is None and known == 0:
        return math.cast(0, length.dtype)
    if validate and known is not None and count is not None:
        fits = count % known == 0 if told is None else int(told) * int(known) == count
        if not fits:
            raise ValueError(
                f"from_uniform_row_length: {count} values do not make "
                f"{'rows' if told is None else f'{told} rows'} of {known} each"
            )
    return math.floordiv(_count(values, length.dtype), math.maximum(length, 1)) if rows is None else rows


def from_nested_value_rowids(
    flat_values: Any, nested_value_rowids: Sequence[Any], nested_nrows: Sequence[Any] | None = None,
    name: str | None = None, validate: bool = True,
) -> Any:  # fmt: skip
    """As from_value_rowids, for each of the lists, the outermost first."""
    if isinstance(nested_value_rowids, Tensor):
        raise TypeError(f"nested_value_rowids must be a list of tensors, got {nested_value_rowids}")
    counts = [None] * len(nested_value_rowids) if nested_nrows is None else list(nested_nrows)
    if len(counts) != len(nested_value_rowids):
        raise ValueError(
            f"nested_nrows must have one number for each of nested_value_rowids, "
            f"got {len(counts)} for {len(nested_value_rowids)}"
        )
    with get_default_graph().name_scope(name or "RaggedFromNestedValueRowIds"):
        found = _values(flat_values)
        for rowids, count in zip(reversed(nested_value_rowids), reversed(counts)):
            found = RaggedTensor.from_value_rowids(found, rowids, count, validate=validate)
        return found


def nested_value_rowids(self: RaggedTensor, name: str | None = None) -> tuple[Tensor, ...]:
    """For each ragged axis, the row of each of its values; the outermost first."""
    inner = nested_value_rowids(self.values) if isinstance(self.values, RaggedTensor) else ()
    return (self.value_rowids(), *inner)


def with_row_splits_dtype(self: RaggedTensor, dtype: Any) -> RaggedTensor:
    """The same rows, told by row_splits of int32 or int64."""
    kind = dtypes.as_dtype(dtype)
    if kind not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"row_splits must be of dtype int32 or int64, got {kind.name}")
    if self.row_splits.dtype.base_dtype is kind and not isinstance(self.values, RaggedTensor):
        return self
    values = with_row_splits_dtype(self.values, kind) if isinstance(self.values, RaggedTensor) else self.values
    found = RaggedTensor(values, math.cast(self.row_splits, kind))
    found._uniform_row_length = None if self.uniform_row_length is None else math.cast(self.uniform_row_length, kind)
    return found


def merge_dims(self: RaggedTensor, outer_axis: int, inner_axis: int) -> Any:
    """The axes from outer_axis to inner_axis made one, their values in the same order. The result is dense where none
    of the axes that remain is ragged. Raises ValueError where they are the wrong way round or out of range."""
    flat = self.flat_values.shape.ndims
    rank = None if flat is None else flat + self.ragged_rank
    outer, inner = (_axis(a, rank) for a in (outer_axis, inner_axis))
    if outer > inner:
        raise ValueError(f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis})")
    with get_default_graph().name_scope("RaggedMergeDims"):
        return _merged(self, outer, inner)


def _axis(axis: int, rank: int | None) -> int:
    if rank is None and axis < 0:
        raise ValueError(f"merge_dims: axis={axis} may only be negative where the rank is statically known")
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"merge_dims: axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return axis + rank if axis < 0 and rank is not None else axis


def _merged(x: Any, outer: int, inner: int) -> Any:
    if outer == inner:
        return x
    if not isinstance(x, RaggedTensor):
        sizes = array.shape(x)
        return array.reshape(x, array_join.concat([sizes[:outer], [-1], sizes[inner + 1 :]], 0))
    if outer == 0:
        return _merged(x.values, 0, inner - 1)
    if outer > 1:
        return x.with_values(_merged(x.values, outer - 1, inner - 1))
    if isinstance(x.values, RaggedTensor):
        joined = RaggedTensor(x.values.values, array_slice.gather(x.values.row_splits, x.row_splits))
    else:
        width = array.shape(x.values, out_type=x.row_splits.dtype)[1]
        joined = RaggedTensor(_merged(x.values, 0, 1), x.row_splits * width)
    return _merged(joined, 1, inner - 1)


def _refused(method: str) -> Any:
    def refuse(self: RaggedTensor) -> Any:
        raise ValueError(
            f"RaggedTensor.{method}() has no values while the graph is built; "
            f"Session.run gives a RaggedTensorValue, which has to_list()"
        )

    return refuse


METHODS: dict[str, Any] = {
    "from_uniform_row_length": staticmethod(from_uniform_row_length),
    "from_nested_value_rowids": staticmethod(from_nested_value_rowids),
    "nested_value_rowids": nested_value_rowids,
    "with_row_splits_dtype": with_row_splits_dtype,
    "merge_dims": merge_dims,
    "numpy": _refused("numpy"),
    "to_list": _refused("to_list"),
}
