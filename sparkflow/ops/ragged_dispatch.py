"""What functions of tensors are of RaggedTensors: of their values, unless `_HANDLERS` has another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_select, array_slice, checks, math, strings
from sparkflow.ops.ragged import RaggedTensor, _count, flat_values_of
from sparkflow.ops.ragged_broadcast import beside_flat_values
from sparkflow.ops.ragged_functions import concat_any, gather, map_flat_values
from sparkflow.ops.ragged_methods import from_uniform_row_length
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import UnimplementedError


def computed(
    label: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], operands: int
) -> Any:
    """function(*args, **kwargs), some of whose arguments are RaggedTensors; label: the function's name.

    operands: how many of args are broadcast to one another.
    """
    handler = _HANDLERS.get(label)
    if handler is not None:
        return handler(*args, **kwargs)
    if operands > 1:
        like = next(v for v in (*args, *kwargs.values()) if isinstance(v, RaggedTensor))
        beside = (v if isinstance(v, RaggedTensor) else beside_flat_values(v, like) for v in args[:operands])
        args = [*beside, *args[operands:]]
    return map_flat_values(function, *args, **kwargs)


# ---------------------------------------------------------------------- axes


def _rank(x: Any) -> int:
    flat = flat_values_of(x).shape.ndims
    if flat is None:
        raise ValueError(f"The rank of a RaggedTensor's values must be known here, got {x}")
    return flat + (x.ragged_rank if isinstance(x, RaggedTensor) else 0)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """As tf.expand_dims: before the rows, before what is in each row, or further in."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("expand_dims takes one of axis and (its old name) dim")
    if not isinstance(input, RaggedTensor):
        return array.expand_dims(input, axis)
    axis = int(axis) + (_rank(input) + 1 if axis < 0 else 0)
    with get_default_graph().name_scope(name or "RaggedExpandDims"):
        if axis == 0:
            return from_uniform_row_length(input, input.nrows(), 1)
        if axis == 1:
            return from_uniform_row_length(input, 1, input.nrows())
        return input.with_values(expand_dims(input.values, axis - 1))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Without the axes of `axis`, each of size 1, which is looked at when it runs."""
    axes = squeeze_dims if axis is None else axis
    if axes is None:
        raise ValueError("squeeze: of a RaggedTensor, say which axes: axis=...")
    rank = _rank(input)
    found = input
    with get_default_graph().name_scope(name or "RaggedSqueeze"):
        for one in sorted({int(a) % rank for a in (axes if isinstance(axes, (list, tuple)) else [axes])}, reverse=True):
            found = _squeezed(found, one)
        return found


def _squeezed(x: Any, axis: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return array.squeeze(x, [axis])
    if axis > 1:
        return x.with_values(_squeezed(x.values, axis - 1))
    sizes = x.nrows() if axis == 0 else x.row_lengths()
    with get_default_graph().control_dependencies(
        [checks.assert_equal(sizes, array.ones_like(sizes), message=f"squeeze: axis {axis} must be of size 1")]
    ):
        return map_flat_values(array.identity, x.values)


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Side by side along a new axis."""
    values = [v if isinstance(v, RaggedTensor) else RaggedTensor.from_tensor(v) for v in values]
    axis = axis if axis >= 0 else axis + _rank(values[0]) + 1
    with get_default_graph().name_scope(name or "RaggedStack"):
        return concat_any([expand_dims(v, axis) for v in values], axis)


def tile(input: RaggedTensor, multiples: Any, name: str | None = None) -> Any:
    """Repeated multiples[i] times along axis i. The numbers must be known statically."""
    times: Any = constant_value(multiples) if isinstance(multiples, Tensor) else np.asarray(multiples)
    if times is None or len(times) != _rank(input) or (times < 1).any():
        raise UnimplementedError(f"tile: a RaggedTensor takes known multiples of 1 and more, one an axis: {multiples}")
    found: Any = input
    with get_default_graph().name_scope(name or "RaggedTile"):
        for axis, count in enumerate(times.tolist()):
            found = concat_any([found] * count, axis) if count > 1 else found
        return found


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """The other way round along each of the axes."""
    rank = _rank(tensor)
    found: Any = tensor
    with get_default_graph().name_scope(name or "RaggedReverse"):
        for one in sorted({int(a) % rank for a in axis}):
            found = _reversed(found, one)
        return found


def _reversed(x: Any, axis: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return array.reverse(x, [axis])
    if axis > 1:
        return x.with_values(_reversed(x.values, axis - 1))
    if axis == 0:
        return gather(x, math.range(x.nrows() - 1, -1, -1))
    ends = array_slice.gather(x.row_starts() + x.row_limits() - 1, x.value_rowids())
    return x.with_values(gather(x.values, ends - math.range(_count(x.values, ends.dtype))))


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str | None = None
) -> list[Any]:
    """Parts along the axis of rows, or along one that is not ragged. Raises ValueError on an axis that is."""
    if not isinstance(value, RaggedTensor):
        return array_join.split(value, num_or_size_splits, axis, num)
    axis = int(axis) + (_rank(value) if axis < 0 else 0)
    if 0 < axis <= value.ragged_rank:
        raise ValueError(f"split: axis {axis} is ragged: along it the rows of {value} have no one size")
    with get_default_graph().name_scope(name or "RaggedSplit"):
        if axis > 0:
            parts = split(value.values, num_or_size_splits, axis - 1, num)
            return [value.with_values(part) for part in parts]
        numbers = array_join.split(math.range(value.nrows()), num_or_size_splits, 0, num)
        return [gather(value, part) for part in numbers]


# ---------------------------------------------------------------------- the rest


def size(input: RaggedTensor, name: str | None = None, out_type: Any = None) -> Tensor:
    return array.size(input.flat_values, name, dtypes.int32 if out_type is None else out_type)


def rank(input: RaggedTensor, name: str | None = None) -> Tensor:
    with get_default_graph().name_scope(name or "RaggedRank"):
        return array.rank(input.flat_values) + input.ragged_rank


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """The places [n, rank] (int64) of what is true; or x or y, all three with the same rows."""
    if (x is None) != (y is None):
        raise ValueError("where takes both x and y, or neither")
    with get_default_graph().name_scope(name or "RaggedWhere"):
        if x is not None:
            return map_flat_values(array_select.where_v2, condition, x, y)
        places = math.cast(array_join.stack(condition._coordinates(), 1), dtypes.int64)
        return array_slice.boolean_mask(places, math.cast(condition.flat_values, dtypes.bool_))


def reduce_join(
    inputs: RaggedTensor, axis: Any = None, keep_dims: bool | None = None, separator: str = "",
    name: str | None = None, reduction_indices: Any = None, keepdims: bool | None = None,
) -> Any:  # fmt: skip
    """The strings of each row along the innermost axis, joined."""
    axis, own = reduction_indices if axis is None else axis, _rank(inputs)
    axis = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
    if not isinstance(axis, int) or axis % own != own - 1 or inputs.ragged_rank != own - 1:
        raise UnimplementedError(f"reduce_join: of a RaggedTensor, axis can be -1, its last one, alone; got {axis}")
    found: Any
    if isinstance(inputs.values, RaggedTensor):
        found = inputs.with_values(reduce_join(inputs.values, -1, None, separator, name))
    else:
        found = strings.unsorted_segment_join(inputs.values, inputs.value_rowids(), inputs.nrows(), separator, name)
    return expand_dims(found, own - 1) if keep_dims or keepdims else found


_HANDLERS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (expand_dims, squeeze, stack, tile, reverse, size, rank, where, reduce_join, split)
}
_HANDLERS["where_v2"] = where
