"""RaggedTensor: rows of different lengths. The values lie one row behind the other; row_splits say where each begins.

It is made of ordinary ops, so what is computed with it has gradients and travels like anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Graph, Tensor, get_default_graph
from sparkflow.framework.nest import register_composite
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, array_join, array_made, array_select, array_slice, math, math_reduce, segments
from sparkflow.ops.array_odds import repeat
from sparkflow.ops.ragged_padding import to_shape, unpadded
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError


class RaggedTensorValue(NamedTuple):
    """What a session gives for a RaggedTensor, and what may be fed for one: arrays, values possibly ragged again."""

    values: Any
    row_splits: Any

    @property
    def flat_values(self) -> Any:
        return self.values.flat_values if _is_value(self.values) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The row_splits of each ragged axis, the outermost first."""
        return (self.row_splits, *(self.values.nested_row_splits if _is_value(self.values) else ()))

    @property
    def ragged_rank(self) -> int:
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """(rows, None, ...): None for each ragged axis."""
        inner = self.values.shape if _is_value(self.values) else np.shape(self.values)
        return (len(self.row_splits) - 1, None, *inner[1:])

    @property
    def dtype(self) -> Any:
        return self.flat_values.dtype

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        inner = self.values.to_list() if _is_value(self.values) else np.asarray(self.values).tolist()
        ends = np.asarray(self.row_splits).tolist()
        return [inner[a:b] for a, b in pairwise(ends)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"


def _is_value(value: Any) -> bool:
    return isinstance(value, RaggedTensorValue)


class RaggedTensor:
    """values: a Tensor [n, ...] or another RaggedTensor; row_splits [rows + 1] (int32 or int64) begins with 0.

    Made by the from_ functions. ragged_rank: how many axes behind the first have rows of different lengths.
    """

    def __init__(self, values: Any, row_splits: Tensor):
        self._values, self._row_splits = values, row_splits
        self._uniform_row_length: Tensor | None = None  # where all rows are known to have one length

    # ------------------------------------------------------------------ making one

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i is values[row_splits[i] : row_splits[i + 1]]. Raises InvalidArgumentError on known splits that do not
        go up from 0 to the number of values, unless validate is False; others are not looked at."""
        with get_default_graph().name_scope(name or "RaggedFromRowSplits"):
            found = cls(_values(values), _splits(row_splits))
            if validate:
                _check_splits(constant_value(found.row_splits), found.values)
            return found

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i is the next row_lengths[i] values. As in from_row_splits, known lengths are checked."""
        with get_default_graph().name_scope(name or "RaggedFromRowLengths"):
            lengths, values = _splits(row_lengths), _values(values)
            known = constant_value(lengths) if validate else None
            if known is not None:
                _check_splits(np.cumsum([0, *known]), values)
            return cls(values, _ends(lengths))

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i begins at row_starts[i]; the last one ends with the values."""
        with get_default_graph().name_scope(name or "RaggedFromRowStarts"):
            values, starts = _values(values), _splits(row_starts)
            return cls(values, array_join.concat([starts, [_count(values, starts.dtype)]], 0))

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i ends before row_limits[i]."""
        with get_default_graph().name_scope(name or "RaggedFromRowLimits"):
            limits = _splits(row_limits)
            return cls(_values(values), array_join.concat([array.zeros([1], limits.dtype), limits], 0))

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Value i is of row value_rowids[i], which do not decrease. nrows: the last of them + 1 by default."""
        with get_default_graph().name_scope(name or "RaggedFromValueRowIds"):
            values, rowids = _values(values), _splits(value_rowids)
            rowids.shape[:1].assert_is_compatible_with(values.shape[:1])
            return cls(values, segment_ids_to_row_splits(rowids, nrows))

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """One for each of the row_splits, the outermost first."""
        with get_default_graph().name_scope(name or "RaggedFromNestedRowSplits"):
            found = _values(flat_values)
            for splits in reversed(nested_row_splits):
                found = cls.from_row_splits(found, splits)
            return found

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """As from_nested_row_splits, of lengths."""
        with get_default_graph().name_scope(name or "RaggedFromNestedRowLengths"):
            found = _values(flat_values)
            for lengths in reversed(nested_row_lengths):
                found = cls.from_row_lengths(found, lengths)
            return found

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1, name: str | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> RaggedTensor:  # fmt: skip
        """Of a Tensor [n, m, ...]: all values, the first lengths[i] of each row, or those before the last padding.

        Raises ValueError where both lengths and padding are given, or ragged_rank is below 1.
        """
        if lengths is not None and padding is not None:
            raise ValueError("from_tensor: give lengths or padding, not both")
        if ragged_rank < 1 or (ragged_rank > 1 and (lengths is not None or padding is not None)):
            raise ValueError(
                f"from_tensor: ragged_rank={ragged_rank} must be at least 1, and 1 with lengths or padding"
            )
        kind = dtypes.as_dtype(row_splits_dtype)
        with get_default_graph().name_scope(name or "RaggedFromTensor"):
            x = convert_to_tensor(tensor)
            shape = array.shape(x, out_type=kind)
            if lengths is None and padding is None:
                rows = array.reshape(x, array_join.concat([[shape[0] * shape[1]], shape[2:]], 0))
                inner = rows if ragged_rank == 1 else cls.from_tensor(rows, None, None, ragged_rank - 1, None, kind)
                return cls(inner, math.range(shape[0] + 1) * shape[1])
            counts = unpadded(x, padding, kind) if lengths is None else math.cast(lengths, kind)
            kept = array_slice.boolean_mask(x, array_made.sequence_mask(counts, shape[1]))
            return cls(kept, _ends(math.minimum(counts, shape[1])))

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: Any = dtypes.int64
    ) -> RaggedTensor:
        """Of a SparseTensor [rows, n] whose rows have no gaps."""
        if not isinstance(st_input, SparseTensor):
            raise TypeError(f"Expected SparseTensor, got {type(st_input).__name__}")
        kind = dtypes.as_dtype(row_splits_dtype)
        with get_default_graph().name_scope(name or "RaggedFromSparse"):
            rows = math.cast(st_input.indices[:, 0], kind)
            return cls.from_value_rowids(st_input.values, rows, math.cast(st_input.dense_shape[0], kind))

    # ------------------------------------------------------------------ looking at it

    values = property(lambda self: self._values)
    row_splits: Tensor = property(lambda self: self._row_splits)  # type: ignore[assignment]
    dtype: dtypes.DType = property(lambda self: self._values.dtype)  # type: ignore[assignment]
    graph: Graph = property(lambda self: self._row_splits.graph)  # type: ignore[assignment]
    flat_values: Tensor = property(lambda self: flat_values_of(self))  # type: ignore[assignment]
    uniform_row_length = property(lambda self: self._uniform_row_length)

    @property
    def ragged_rank(self) -> int:
        return 1 + (self._values.ragged_rank if isinstance(self._values, RaggedTensor) else 0)

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The outermost first."""
        inner = self._values.nested_row_splits if isinstance(self._values, RaggedTensor) else ()
        return (self._row_splits, *inner)

    @property
    def shape(self) -> TensorShape:
        """The static shape; None for the axes that are ragged."""
        count = self._row_splits.shape[0].value
        length = None if self._uniform_row_length is None else constant_value(self._uniform_row_length)
        rows = TensorShape([None if count is None else count - 1, None if length is None else int(length)])
        return rows.concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        return self.shape

    def row_starts(self, name: str | None = None) -> Tensor:
        return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Tensor:
        return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """The lengths along an axis: of each row for 1, ragged ones for axes further in."""
        if axis == 0:
            return self.nrows()
        if axis == 1:
            return self.row_limits() - self.row_starts()
        if not isinstance(self._values, RaggedTensor):
            raise ValueError(f"row_lengths: axis {axis} is not ragged, there are {self.ragged_rank} ragged axes")
        return self.with_values(self._values.row_lengths(axis - 1))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        return tuple(splits[1:] - splits[:-1] for splits in self.nested_row_splits)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        kind = self._row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        return array.shape(self._row_splits, out_type=kind)[0] - 1

    def value_rowids(self, name: str | None = None) -> Tensor:
        """For each value, its row."""
        return repeat(math.range(self.nrows()), self.row_lengths())

    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Tensor:
        """The shape of the least Tensor that holds it; or its size along an axis."""
        longest = math_reduce.reduce_max(array_join.concat([self.row_lengths(), [0]], 0))
        inner = self._values
        rest = inner.bounding_shape() if isinstance(inner, RaggedTensor) else array.shape(inner, out_type=longest.dtype)
        whole = array_join.concat([[self.nrows(), longest], rest[1:]], 0)
        whole = whole if out_type is None else math.cast(whole, out_type)
        return whole if axis is None else array_slice.gather(whole, axis)

    def consumers(self) -> list[Any]:
        return self.flat_values.consumers()

    def __repr__(self) -> str:
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    # ------------------------------------------------------------------ into something else

    def with_values(self, new_values: Any) -> RaggedTensor:
        """These values in the same rows."""
        found = RaggedTensor(_values(new_values), self._row_splits)
        found._uniform_row_length = self._uniform_row_length
        return found

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        inner = self._values
        return self.with_values(inner.with_flat_values(new_values) if isinstance(inner, RaggedTensor) else new_values)

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
        """[rows, longest, ...]: shorter rows are filled up with default_value, the type's zero by default.

        shape: sizes to cut off or to fill up to; None for an axis that is as long as it is."""
        with get_default_graph().name_scope(name or "RaggedToTensor"):
            if default_value is None:
                default_value = "" if self.dtype.base_dtype == dtypes.string else 0
            filling = convert_to_tensor(default_value, self.dtype.base_dtype)
            rows = self._values.to_tensor(filling) if isinstance(self._values, RaggedTensor) else self._values
            padded = array_join.concat([rows, array.broadcast_to(filling, _one_row(rows))], 0)
            padded = array.reshape(padded, array.shape(padded))  # whose gradient is dense, as that of TensorFlow's op
            place, inside = self._places()
            outside = array.fill(array.shape(place), _count(rows, place.dtype))
            found = array_slice.gather(padded, array_select.where(inside, place, outside))
            found.set_shape(self.shape[:2].concatenate(rows.shape[1:]))
            return found if shape is None else to_shape(found, shape, filling)

    def _places(self) -> tuple[Tensor, Tensor]:
        """[rows, longest]: where in the values each cell lies, and whether it is in its row."""
        longest = math_reduce.reduce_max(array_join.concat([self.row_lengths(), [0]], 0))
        place = array.expand_dims(self.row_starts(), 1) + array.expand_dims(math.range(longest), 0)
        return place, math.less(place, array.expand_dims(self.row_limits(), 1))

    def columns(self) -> Tensor:
        """For each value, its place in its row."""
        return math.range(_count(self._values, self._row_splits.dtype)) - array_slice.gather(
            self.row_starts(), self.value_rowids()
        )

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Its scalars where they lie. Raises UnimplementedError where flat_values has more than one axis."""
        if self.flat_values.shape.ndims != 1:
            raise UnimplementedError(f"to_sparse: flat_values must have one axis, got shape {self.flat_values.shape}")
        with get_default_graph().name_scope(name or "RaggedToSparse"):
            where = math.cast(array_join.stack(self._coordinates(), 1), dtypes.int64)
            return SparseTensor(where, self.flat_values, math.cast(self.bounding_shape(), dtypes.int64))

    def _coordinates(self) -> list[Tensor]:
        """For each scalar, its index along each axis."""
        own = [self.value_rowids(), self.columns()]
        if not isinstance(self._values, RaggedTensor):
            return own
        inner = self._values._coordinates()
        return [array_slice.gather(column, inner[0]) for column in own] + inner[1:]

    @staticmethod
    def _computed(*told: Any) -> Any:
        """What functions that are told of by `of_ragged_too` are of RaggedTensors."""
        from sparkflow.ops.ragged_dispatch import computed  # builds on this module

        return computed(*told)

    def eval(self, feed_dict: Any = None, session: Any = None) -> RaggedTensorValue:
        return self.graph.session_for(session, "eval").run(self, feed_dict)


def _values(values: Any) -> Any:
    return values if isinstance(values, RaggedTensor) else convert_to_tensor(values, name="values")


def _splits(given: Any) -> Tensor:
    x = convert_to_tensor(given, dtype_hint=dtypes.int64, name="row_splits")
    if x.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"Row splits, lengths and ids must be int32 or int64, got {x.dtype.name}")
    return x


def _check_splits(splits: Any, values: Any) -> None:
    """splits: None where they are not known."""
    if splits is None:
        return
    dims = None if isinstance(values, RaggedTensor) else values._shape
    count = dims[0] if dims else None
    wrong = not len(splits) or splits[0] != 0 or (np.diff(splits) < 0).any()
    if wrong or (count is not None and splits[-1] != count):
        raise InvalidArgumentError(
            f"Arguments do not form a valid RaggedTensor: row_splits must go up from 0 to the number of values "
            f"({'unknown' if count is None else count}), got {list(splits)}"
        )


def _ends(lengths: Tensor) -> Tensor:
    return array_join.concat([array.zeros([1], lengths.dtype), math_reduce.cumsum(lengths)], 0)


def _count(values: Any, dtype: Any) -> Tensor:
    """How many there are along the first axis."""
    return values.nrows(dtype) if isinstance(values, RaggedTensor) else array.shape(values, out_type=dtype)[0]


def _one_row(rows: Tensor) -> Tensor:
    return array_join.concat([[1], array.shape(rows)[1:]], 0)


def flat_values_of(x: Any) -> Tensor:
    return flat_values_of(x.values) if isinstance(x, RaggedTensor) else x


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """[rows + 1]: where each row begins, from the row of each value."""
    ids = _splits(segment_ids)
    ids = ids if out_type is None else math.cast(ids, out_type)
    if num_segments is None:
        num_segments = math_reduce.reduce_max(array_join.concat([ids, [-1]], 0)) + 1
    return _ends(segments.unsorted_segment_sum(array.ones_like(ids), ids, num_segments))


register_composite(
    RaggedTensor, lambda r: (*r.nested_row_splits, r.flat_values),
    lambda like, parts: RaggedTensor.from_nested_row_splits(parts[-1], parts[:-1]),
)  # fmt: skip
