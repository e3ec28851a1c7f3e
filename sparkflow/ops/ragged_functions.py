"""What is computed with RaggedTensors: making constants, indexing, joining, reducing, and functions of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_slice, checks, math, math_reduce, segments
from sparkflow.ops.array_odds import repeat
from sparkflow.ops.ragged import RaggedTensor, RaggedTensorValue, _count, _ends, flat_values_of
from sparkflow.ops.ragged_broadcast import beside_flat_values
from sparkflow.ops.ragged_methods import METHODS
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import UnimplementedError

# ---------------------------------------------------------------------- making them


def constant(
    pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Any = None, name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:  # fmt: skip
    """The RaggedTensor of nested lists. ragged_rank: how many axes are ragged, all behind the first by default.

    inner_shape: of the values, of which pylist's innermost lists are made. Raises ValueError where the nesting differs.
    """
    flat, splits = _nested(pylist, ragged_rank, inner_shape)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    empty = np.zeros(0, np.float32 if kind is None else kind.np)
    with get_default_graph().name_scope(name or "RaggedConstant"):
        values = convert_to_tensor(flat if flat else empty, kind)
        if inner_shape is not None:
            values = array.reshape(values, [-1, *inner_shape])
        where = dtypes.as_dtype(row_splits_dtype)
        return RaggedTensor.from_nested_row_splits(values, [convert_to_tensor(s, where) for s in splits])


def constant_value(
    pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:  # fmt: skip
    """The RaggedTensorValue of nested lists, to be fed."""
    flat, splits = _nested(pylist, ragged_rank, inner_shape)
    found: Any = np.array(flat, None if dtype is None else dtypes.as_dtype(dtype).np)
    if inner_shape is not None:
        found = found.reshape(-1, *inner_shape)
    for one in reversed(splits):
        found = RaggedTensorValue(found, np.array(one, dtypes.as_dtype(row_splits_dtype).np))
    return found


def _nested(pylist: Any, ragged_rank: int | None, inner_shape: Any) -> tuple[list[Any], list[list[int]]]:
    """The values, and the row_splits of each ragged axis, the outermost first."""
    level = list(pylist) if _is_list(pylist) else None
    if level is None:
        raise ValueError(f"ragged.constant: expected nested lists, got {pylist!r}")
    rank = _depth(level) - 1 - (0 if inner_shape is None else len(inner_shape)) if ragged_rank is None else ragged_rank
    splits = []
    for _ in range(rank):
        if not all(_is_list(row) for row in level):
            raise ValueError(f"ragged.constant: all items at one depth must be lists or none: {pylist!r}")
        splits.append(np.cumsum([0, *map(len, level)]).tolist())
        level = [item for row in level for item in row]
    if any(_is_list(v) for v in level) and ragged_rank is None and inner_shape is None:
        raise ValueError(f"ragged.constant: all items at one depth must be lists or none: {pylist!r}")
    return level, splits


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if _is_list(value) else 0


def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """A RaggedTensor to be fed with a RaggedTensorValue; value_shape: of one value, [] if it is a number."""
    with get_default_graph().name_scope(name or "RaggedPlaceholder"):
        shape = None if value_shape is None else [None, *value_shape]
        flat = array.placeholder(dtype, shape, "flat_values")
        splits = [array.placeholder(dtypes.int64, [None], f"row_splits_{i}") for i in range(ragged_rank)]
        return RaggedTensor.from_nested_row_splits(flat, splits)


def ragged_range(
    starts: Any, limits: Any = None, deltas: Any = 1, dtype: Any = None, name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:  # fmt: skip
    """Rows start, start + delta, ... below limit (above it for a delta below 0); of one argument, from 0 to it."""
    if limits is None:
        starts, limits = 0, starts
    kind = dtypes.as_dtype(dtype) if dtype is not None else convert_to_tensor(limits).dtype.base_dtype
    with get_default_graph().name_scope(name or "RaggedRange"):
        first, last, step = (math.cast(convert_to_tensor(x), kind) for x in (starts, limits, deltas))
        whole = first + last + step  # for its shape
        rows = array.reshape(whole, [-1])
        first, last, step = (array.broadcast_to(x, array.shape(rows)) for x in (first, last, step))
        where = dtypes.as_dtype(row_splits_dtype)
        span = math.cast(last - first, dtypes.float64) / math.cast(step, dtypes.float64)
        counts = math.cast(math.maximum(math.ceil(span), 0.0), where)
        empty = RaggedTensor(repeat(first, counts), _ends(counts))
        values = empty.values + repeat(step, counts) * math.cast(empty.columns(), kind)
        return empty.with_values(values)


# ---------------------------------------------------------------------- functions of their values


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """op with the flat values of each RaggedTensor in its place; what it gives, in their rows.

    The RaggedTensors must have the same row_splits, which is checked when it runs. Without any, op of the arguments.
    """
    found = [r for r in nest.flatten([list(args), kwargs]) if isinstance(r, RaggedTensor)]
    if not found:
        return op(*args, **kwargs)
    like = max(found, key=lambda r: r.ragged_rank)
    with get_default_graph().control_dependencies(_same_rows(found)):
        flat = nest.map_structure(flat_values_of, [list(args), kwargs])
        out = op(*flat[0], **flat[1])
    return like.with_flat_values(out)


def _same_rows(found: Sequence[RaggedTensor]) -> list[Any]:
    first, wanted = found[0], []
    for other in found[1:]:
        if other.ragged_rank != first.ragged_rank:
            raise ValueError(f"All ragged inputs must have the same ragged_rank, got {first} and {other}")
        pairs = zip(first.nested_row_splits, other.nested_row_splits)
        text = "Inputs must have the same row splits"
        wanted += [checks.assert_equal(a, b, message=text) for a, b in pairs if a is not b]
    return wanted


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: RaggedTensor, *others: Any) -> Any:
        def compute(x: Any, *rest: Any) -> Any:
            return getattr(convert_to_tensor(x), name)(*rest)

        beside = (o if isinstance(o, RaggedTensor) else beside_flat_values(o, self) for o in others)
        return map_flat_values(compute, self, *beside)

    return apply


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "radd", "rsub", "rmul", "rtruediv", "rpow"),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert", "and", "or", "xor"),
):
    setattr(RaggedTensor, f"__{_name}__", _operator(f"__{_name}__"))


# ---------------------------------------------------------------------- rows


def gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """The rows of params at indices; either may be ragged."""
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(gather(params, indices.flat_values, name))
    if not isinstance(params, RaggedTensor):
        return array_slice.gather(params, indices, name=name)
    indices = convert_to_tensor(indices)
    if indices.shape.ndims != 1:
        raise UnimplementedError(f"gather: of a RaggedTensor the indices must have one axis, got shape {indices.shape}")
    with get_default_graph().name_scope(name or "RaggedGather"):
        starts, lengths = (array_slice.gather(x, indices) for x in (params.row_starts(), params.row_lengths()))
        return _rows_at(params.values, starts, lengths)


def _rows_at(values: Any, starts: Tensor, lengths: Tensor) -> RaggedTensor:
    """Row i: lengths[i] values from starts[i] on."""
    frame = RaggedTensor(repeat(starts, lengths), _ends(lengths))
    return frame.with_values(gather(values, frame.values + frame.columns()))


def concat(values: Sequence[Any], axis: int, name: str = "RaggedConcat") -> Any:
    """RaggedTensors (and Tensors, taken as ragged) one after the other: rows for axis 0, values within rows for 1."""
    ragged = max((v for v in values if isinstance(v, RaggedTensor)), key=lambda r: r.ragged_rank)
    kind = ragged.row_splits.dtype
    rank = ragged.ragged_rank
    parts = [_as_ragged(v, rank, kind) for v in values]
    if axis < 0:
        axis += rank + (ragged.flat_values.shape.ndims or 1)
    with get_default_graph().name_scope(name):
        if axis == 0:
            return _stacked_rows(parts)
        if axis > 1:
            return parts[0].with_values(concat_any([p.values for p in parts], axis - 1))
        count, rows = len(parts), parts[0].nrows()
        order = array.reshape(array.transpose(array.reshape(math.range(rows * count), [count, -1])), [-1])
        mixed = gather(_stacked_rows(parts), order)
        return RaggedTensor(mixed.values, mixed.row_splits[::count])


def _as_ragged(value: Any, rank: int, kind: Any) -> RaggedTensor:
    if isinstance(value, RaggedTensor):
        return value
    return RaggedTensor.from_tensor(value, ragged_rank=rank, row_splits_dtype=kind)


def concat_any(values: Sequence[Any], axis: int) -> Any:
    if any(isinstance(v, RaggedTensor) for v in values):
        return concat(values, axis)
    return array_join.concat(list(values), axis)


def _stacked_rows(parts: Sequence[RaggedTensor]) -> RaggedTensor:
    lengths = array_join.concat([p.row_lengths() for p in parts], 0)
    return RaggedTensor(concat_any([p.values for p in parts], 0), _ends(lengths))


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> RaggedTensor:
    """Each of the values is a row of a RaggedTensor. Raises UnimplementedError for another axis than 0."""
    if axis != 0:
        raise UnimplementedError(f"ragged.stack: axis={axis} is not supported, only 0")
    with get_default_graph().name_scope(name or "RaggedStack"):
        rows = [v if isinstance(v, RaggedTensor) else convert_to_tensor(v) for v in values]
        if any(isinstance(r, RaggedTensor) for r in rows):
            counts = array_join.stack([_count(r, dtypes.int64) for r in rows])
            return RaggedTensor(concat(rows, 0), _ends(counts))
        if any(r.shape.ndims != 1 for r in rows):
            rows = [RaggedTensor.from_tensor(r) for r in rows]
            return stack(rows, axis)
        counts = array_join.stack([_count(r, dtypes.int64) for r in rows])
        return RaggedTensor(array_join.concat(rows, 0), _ends(counts))


def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """The rows, or with a mask as ragged as data the values, where mask is true."""
    with get_default_graph().name_scope(name or "RaggedMask"):
        if not isinstance(mask, RaggedTensor):
            mask = convert_to_tensor(mask, dtypes.bool_)
            if not isinstance(data, RaggedTensor):
                if mask.shape.ndims == 1:
                    return array_slice.boolean_mask(data, mask)
                data = RaggedTensor.from_tensor(data)
            if mask.shape.ndims == 1:
                return gather(data, array_slice.boolean_mask(math.range(data.nrows()), mask))
            mask = RaggedTensor.from_tensor(mask)
        if not isinstance(data, RaggedTensor):
            data = RaggedTensor.from_tensor(data)
        kept = segments.unsorted_segment_sum(
            math.cast(flat_values_of(mask.values), data.row_splits.dtype), mask.value_rowids(), mask.nrows()
        )
        with get_default_graph().control_dependencies(_same_rows([RaggedTensor(mask.values, data.row_splits), mask])):
            values = array_slice.boolean_mask(data.values, mask.values)
        return RaggedTensor(values, _ends(kept))


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """For each value, its row."""
    ends = convert_to_tensor(splits, dtype_hint=dtypes.int64)
    ends = ends if out_type is None else math.cast(ends, out_type)
    return repeat(math.range(array.shape(ends, out_type=ends.dtype)[0] - 1), ends[1:] - ends[:-1])


# ---------------------------------------------------------------------- indexing


def _getitem(self: RaggedTensor, key: Any) -> Any:
    """rt[i], rt[a:b:c], rt[i, j], rt[rows, a:b] and rt[rows, a:b, ...]."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(k is None or k is Ellipsis for k in keys):
        raise UnimplementedError(f"RaggedTensor: index {key!r} is not supported; give rows, and then inner axes")
    first, further = keys[0], keys[1:]
    if not isinstance(first, slice):
        place = convert_to_tensor(first, dtype_hint=dtypes.int64)
        place = math.cast(place, self.row_splits.dtype)
        row = _between(self.values, self.row_starts()[place], self.row_limits()[place])
        return row[further] if further else row
    rows = self if first == slice(None) else gather(self, math.range(self.nrows())[first])
    if further and further[0] != slice(None):
        rows = _inner(rows, further[0])
    return rows.with_values(rows.values[(slice(None), *further[1:])]) if len(further) > 1 else rows


def _between(values: Any, start: Tensor, end: Tensor) -> Any:
    if isinstance(values, RaggedTensor):
        return gather(values, math.range(start, end))
    return values[start:end]


def _inner(rows: RaggedTensor, key: Any) -> Any:
    """A slice of each row. Raises ValueError on a number: a row may not have so many values."""
    starts, limits = rows.row_starts(), rows.row_limits()
    if not isinstance(key, slice):
        raise ValueError(f"Cannot index into an inner ragged dimension, got {key!r}; a slice of it can be taken")
    if key.step not in (None, 1):
        raise UnimplementedError(f"RaggedTensor: a step of {key.step} within rows is not supported")
    first = starts if key.start is None else _bounded(key.start, starts, limits)
    last = limits if key.stop is None else _bounded(key.stop, starts, limits)
    return _rows_at(rows.values, first, math.maximum(last - first, 0))


def _bounded(place: int, starts: Tensor, limits: Tensor) -> Tensor:
    return math.minimum(starts + place, limits) if place >= 0 else math.maximum(limits + place, starts)


# ---------------------------------------------------------------------- reducing


def _mean(data: Any, ids: Any, count: Any) -> Tensor:
    total = segments.unsorted_segment_sum(data, ids, count)
    ones = segments.unsorted_segment_sum(array.ones_like(data), ids, count)
    return math.divide(total, ones)


def _any(data: Any, ids: Any, count: Any) -> Tensor:
    return math.greater(segments.unsorted_segment_sum(math.cast(data, dtypes.int32), ids, count), 0)


def _all(data: Any, ids: Any, count: Any) -> Tensor:
    return math.logical_not(_any(math.logical_not(data), ids, count))


_BY_ROW: dict[str, Callable[..., Any]] = {
    "Sum": segments.unsorted_segment_sum, "Prod": segments.unsorted_segment_prod, "Mean": _mean, "Any": _any,
    "All": _all, "Max": segments.unsorted_segment_max, "Min": segments.unsorted_segment_min,
}  # fmt: skip


def _reduced(self: RaggedTensor, op_type: str, axis: Any, keepdims: Any, name: str | None) -> Any:
    """What tf.reduce_* are of a RaggedTensor: along all axes, the first one, or one of those within rows."""
    if axis is None:
        if keepdims:
            raise UnimplementedError("reducing a RaggedTensor: with keepdims=True, say which axes: axis=...")
        return math_reduce.reduction(op_type, self.flat_values, None, None, name, (None, None))
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    rank = self.ragged_rank + (self.flat_values.shape.ndims or 1)
    axes = sorted({int(a) % rank for a in axes}, reverse=True)
    found: Any = self
    for one in axes:  # the inner ones first
        found = _along(found, op_type, one)
    for one in reversed(axes) if keepdims else ():
        found = array.expand_dims(found, one)
    return found


def _along(x: Any, op_type: str, axis: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return math_reduce.reduction(op_type, x, axis, None, None, (None, None))
    if axis > 1:
        return x.with_values(_along(x.values, op_type, axis - 1))
    if isinstance(x.values, RaggedTensor):
        raise UnimplementedError(f"reducing a RaggedTensor: axis {axis} has ragged axes inside; reduce those first")
    if axis == 1:
        return _BY_ROW[op_type](x.values, x.value_rowids(), x.nrows())
    return _BY_ROW[op_type](x.values, x.columns(), x.bounding_shape(1))


for _name, _function in {
    **METHODS,
    "__getitem__": _getitem,
    "_reduced": _reduced,
    "_gathered": gather,
    "_concatenated": staticmethod(concat),
}.items():  # the first, and how tf.reduce_*, tf.gather and tf.concat compute with it
    setattr(RaggedTensor, _name, _function)
