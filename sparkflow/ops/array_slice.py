"""Parts of tensors by position: slices, gathers, scatters, masks; and x[...]."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, constant, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.python_values import beyond_int32
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- slices


def _slice_rule(op: Operation) -> list[Dims]:
    dims, begin, size = op.inputs[0]._shape, constant_value(op.inputs[1]), constant_value(op.inputs[2])
    if size is None:  # but perhaps for some axes
        told = constant_value_as_shape(op.inputs[2])
        return [told if told is not None else None if dims is None else (None,) * len(dims)]
    if dims is None:
        dims = (None,) * len(size)
    if len(size) != len(dims):
        raise InvalidArgumentError(f"Slice: size {size.tolist()} must have one entry an axis of {shapes.show(dims)}")
    starts = [None] * len(dims) if begin is None else begin.tolist()
    return [tuple(_slice_size(op, d, b, s) for d, b, s in zip(dims, starts, size.tolist()))]


def _slice_size(op: Operation, dim: int | None, begin: int | None, size: int) -> int | None:
    if begin is not None and dim is not None and begin + max(size, 0) > dim:
        raise InvalidArgumentError(f"Slice: begin {begin} and size {size} reach past the size {dim}")
    if size >= 0:
        return size
    return None if dim is None or begin is None else dim - begin


def _strided_rule(op: Operation) -> list[Dims]:
    """Each entry takes one axis, but for new axes (none) and the ellipsis (as many as are left)."""
    dims, begin, end, strides = op.inputs[0]._shape, *(constant_value(t) for t in op.inputs[1:])
    count = (op.inputs[1]._shape or (None,))[0]
    if dims is None or count is None:
        return [None]
    masks = {m: op.attrs[f"{m}_mask"] for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if masks["ellipsis"] & (masks["ellipsis"] - 1):
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
    taken = sum(1 for i in range(count) if not (masks["ellipsis"] | masks["new_axis"]) >> i & 1)
    if taken > len(dims):
        raise InvalidArgumentError(f"StridedSlice: index over {taken} axes of a tensor of shape {shapes.show(dims)}")
    out: list[int | None] = []
    axis = 0
    for i in range(count):
        if masks["ellipsis"] >> i & 1:
            left = len(dims) - taken
            out, axis = out + list(dims[axis : axis + left]), axis + left
        elif masks["new_axis"] >> i & 1:
            out.append(1)
        else:
            first = None if begin is None else int(begin[i])
            if masks["shrink_axis"] >> i & 1:
                _check_index(first, dims[axis], axis)
                if strides is not None and strides[i] <= 0:
                    raise InvalidArgumentError(f"StridedSlice: an index takes a positive stride, got {strides[i]}")
            else:
                bounds = (first, None if end is None else int(end[i]), None if strides is None else int(strides[i]))
                out.append(_strided_size(dims[axis], bounds, masks["begin"] >> i & 1, masks["end"] >> i & 1))
            axis += 1
    return [(*out, *dims[axis:])]


def _check_index(index: int | None, size: int | None, axis: int) -> None:
    if index is not None and size is not None and not -size <= index < size:
        raise InvalidArgumentError(f"StridedSlice: index {index} of axis {axis} is outside its size {size}")


def _strided_size(size: int | None, bounds: tuple[int | None, ...], no_begin: int, no_end: int) -> int | None:
    first, last, step = bounds
    if step == 0:
        raise InvalidArgumentError("StridedSlice: a stride must not be 0")
    unknown = step is None or (first is None and not no_begin) or (last is None and not no_end)
    if unknown or size is None:
        return None
    return len(range(*slice(None if no_begin else first, None if no_end else last, step).indices(size)))


_MASKS: dict[str, Any] = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
)
op("Slice", "input: T, begin: Index, size: Index -> output: T", _slice_rule)
op("StridedSlice", "input: T, begin: Index, end: Index, strides: Index -> output: T", _strided_rule, **_MASKS)
op(
    "StridedSliceGrad",
    "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T",
    lambda op: [constant_value_as_shape(op.inputs[0])],
    **_MASKS,
)


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """size[i] elements from begin[i] on along each axis; a size of -1 takes all that are left."""
    return apply_op("Slice", [input_, begin, size], _wide(begin, size), name)


def _wide(*places: Any) -> dict[str, Any]:
    """The attribute of places that only int64 holds, in whichever argument such a one is."""
    return {"Index": dtypes.int64} if beyond_int32(places) else {}


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """input_[begin:end:strides] over its first axes; bit i of a mask changes what entry i means, as numpy's
    indexing."""
    wide = _wide(begin, end, strides)
    begin = convert_to_tensor(begin, wide.get("Index"), name="begin")
    strides = np.ones(begin._shape, begin.dtype.np) if strides is None else strides
    masks = wide | dict(zip(_MASKS, (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)))
    return apply_op("StridedSlice", [input_, begin, end, strides], masks, name or "strided_slice")


def getitem(self: Any, key: Any) -> Tensor:
    """x[key]: ints, slices, None, ..., and scalar tensors among them; or a boolean mask. Of a variable, `x[key].assign`
    changes that part of it."""
    tensor = convert_to_tensor(self)
    if isinstance(key, bool) or (isinstance(key, (Tensor, np.ndarray)) and key.dtype == np.bool_):
        return boolean_mask(tensor, key)
    entries = [_entry(k) for k in (key if isinstance(key, (tuple, list)) else (key,))]
    masks = dict.fromkeys(_MASKS, 0)
    for i, (_, flags) in enumerate(entries):
        for flag in flags:
            masks[flag] |= 1 << i
    with get_default_graph().name_scope("strided_slice") as scope:
        columns = [
            _packed([bounds[i] for bounds, _ in entries], name)
            for i, name in enumerate(("stack", "stack_1", "stack_2"))
        ]
        wide = any(c.dtype.base_dtype is dtypes.int64 for c in columns)
        if wide:
            columns = [c if c.dtype.size == 8 else apply_op("Cast", [c], {"DstT": dtypes.int64}) for c in columns]
        out = apply_op("StridedSlice", [tensor, *columns], masks, scope)
    if self is not tensor and hasattr(self, "assign"):  # a variable, of which a slice can be assigned to

        def assign(value: Any, name: str | None = None) -> Tensor:
            return apply_op("StridedSliceAssign", [self, *columns, value], masks, name)

        out.assign = assign
    return out


def _entry(key: Any) -> tuple[tuple[Any, Any, Any], tuple[str, ...]]:
    """(begin, end, stride) and the masks of one entry of an index."""
    if key is Ellipsis:
        return (0, 0, 1), ("ellipsis_mask",)
    if key is None:
        return (0, 0, 1), ("new_axis_mask",)
    if isinstance(key, slice):
        flags = (*(("begin_mask",) if key.start is None else ()), *(("end_mask",) if key.stop is None else ()))
        return (_or(key.start, 0), _or(key.stop, 0), _or(key.step, 1)), flags
    if hasattr(key, "dtype") and not hasattr(key, "__index__"):  # a variable, of which the value counts
        key = convert_to_tensor(key)
    if isinstance(key, Tensor) and key.dtype.base_dtype.is_integer and key._shape in (None, ()):
        return (key, apply_op("Add", [key, 1]), 1), ("shrink_axis_mask",)
    if isinstance(key, Tensor) or not hasattr(key, "__index__"):
        raise TypeError(f"Only integers, slices, ..., None and scalar integer tensors are valid indices, got {key!r}")
    index = int(key.__index__())
    return (index, index + 1, 1), ("shrink_axis_mask",)


def _or(value: Any, default: int) -> Any:
    return default if value is None else value


def _packed(values: list[Any], name: str) -> Tensor:
    wide = beyond_int32(values) or any(isinstance(v, Tensor) and v.dtype.base_dtype is dtypes.int64 for v in values)
    want = dtypes.int64 if wide else dtypes.int32
    cast = [
        apply_op("Cast", [v], {"DstT": want}) if isinstance(v, Tensor) and v.dtype.base_dtype is not want else v
        for v in values
    ]
    return convert_to_tensor(cast, want, name)


# ---------------------------------------------------------------------- gathers and scatters


def _gather_rule(op: Operation) -> list[Dims]:
    params, indices = op.inputs[0]._shape, op.inputs[1]._shape
    if params is None or indices is None:
        return [None]
    if not params:
        raise InvalidArgumentError(f"{op.type}: params must be of rank at least 1, got a scalar")
    axis = 0 if op.type == "Gather" else rules.constant_axis(op, op.inputs[2], len(params))
    batch = op.attrs.get("batch_dims", 0)
    batch = batch + len(indices) if batch < 0 else batch
    if axis is None:
        return [(None,) * (len(params) + len(indices) - 1 - batch)]
    if not 0 <= batch <= min(len(indices), axis) or not shapes.compatible(params[:batch], indices[:batch]):
        raise InvalidArgumentError(
            f"{op.type}: batch_dims {op.attrs['batch_dims']} needs params {shapes.show(params)} and indices "
            f"{shapes.show(indices)} to begin alike, before axis {axis}"
        )
    return [params[:axis] + indices[batch:] + params[axis + 1 :]]


def _gather_nd_rule(op: Operation) -> list[Dims]:
    params, indices = op.inputs[0]._shape, op.inputs[1]._shape
    if params is None or not indices or indices[-1] is None:
        return [None]
    if indices[-1] > len(params):
        raise InvalidArgumentError(
            f"GatherNd: indices {shapes.show(indices)} name {indices[-1]} axes of params {shapes.show(params)}"
        )
    return [indices[:-1] + params[indices[-1] :]]


def _scatter_nd_rule(op: Operation) -> list[Dims]:
    return [constant_value_as_shape(op.inputs[2])]


op(
    "GatherV2",
    "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams",
    _gather_rule,
    batch_dims=0,
    Taxis=dtypes.int32,
)
op("Gather", "params: Tparams, indices: Tindices -> output: Tparams", _gather_rule, validate_indices=True)
op("GatherNd", "params: Tparams, indices: Tindices -> output: Tparams", _gather_nd_rule)
op("ScatterNd", "indices: Tindices, updates: T, shape: Tindices -> output: T", _scatter_nd_rule)


def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """The slices of params at `indices` along one axis (the first, when None).

    Shape: params[:axis] + indices[batch_dims:] + params[axis + 1:].

    batch_dims: so many first axes params and indices have in common, which are gathered one by one; axis is then
    batch_dims unless given. validate_indices is accepted for TF1's sake: indices are always checked.
    """
    for ragged in (params, indices):
        if hasattr(ragged, "_gathered") and not axis and not batch_dims:  # a RaggedTensor knows how
            return type(ragged)._gathered(params, indices, name)
    attrs = {"batch_dims": batch_dims}
    return apply_op("GatherV2", [params, indices, batch_dims if axis is None else axis], attrs, name)


def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """The slices of params at the index vectors along the last axis of indices.

    batch_dims: so many first axes of params and indices are the same, and the index vectors are of what is behind them.
    """
    if not batch_dims:
        return apply_op("GatherNd", [params, indices], name=name)
    with get_default_graph().name_scope(name or "GatherNd"):
        params, indices = convert_to_tensor(params), convert_to_tensor(indices)
        out = apply_op("GatherNd", [params, _with_batch_indices(params, indices, batch_dims)])
        depth = indices.shape[-1].value
        if depth is not None:
            out.set_shape(indices.shape[:-1].concatenate(params.shape[batch_dims + depth :]))
        return out


def _with_batch_indices(params: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """indices with the place of each vector in the first batch_dims axes before it."""
    dims, kind = indices._shape, indices.dtype.base_dtype
    if dims is None or params._shape is None or not 0 < batch_dims < len(dims) or batch_dims > len(params._shape):
        raise ValueError(
            f"gather_nd: batch_dims={batch_dims} needs as many axes in params {shapes.show(params._shape)} and more in "
            f"indices {shapes.show(dims)}"
        )
    sizes = apply_op("Shape", [indices], {"out_type": kind})
    one = constant([1], kind)
    column = apply_op("ConcatV2", [[sizes[:-1], one], constant(0)])
    parts = []
    for axis in range(batch_dims):
        places = apply_op("Range", [constant(0, kind), sizes[axis], constant(1, kind)])
        along = [-1 if i == axis else 1 for i in range(len(dims))]
        parts.append(apply_op("BroadcastTo", [apply_op("Reshape", [places, along]), column]))
    return apply_op("ConcatV2", [[*parts, indices], constant(len(dims) - 1)])


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Zeros of that shape with updates added at the index vectors along the last axis of indices."""
    return apply_op("ScatterNd", [indices, updates, shape], name=name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Tensor:
    """The elements where mask is true, mask's axes (from `axis` on) becoming one. mask's rank must be known."""
    with get_default_graph().name_scope(name):
        tensor, mask = convert_to_tensor(tensor, name="tensor"), convert_to_tensor(mask, dtypes.bool_, "mask")
        if not mask._shape:
            raise ValueError(f"boolean_mask: mask must have at least one axis and a known rank, got {mask}")
        axis, count = axis or 0, len(mask._shape)
        dims = tensor._shape
        if dims is not None and not shapes.compatible(dims[axis : axis + count], mask._shape):
            raise InvalidArgumentError(
                f"boolean_mask: mask {shapes.show(mask._shape)} does not fit tensor {shapes.show(dims)} at axis {axis}"
            )
        if count > 1:
            tensor = _joined_axes(tensor, axis, count)
            mask = apply_op("Reshape", [mask, [-1]])
        rows = apply_op("Squeeze", [apply_op("Where", [mask])], {"squeeze_dims": [1]})
        return gather(tensor, rows, axis=axis)


def _joined_axes(tensor: Tensor, axis: int, count: int) -> Tensor:
    """tensor with `count` axes from `axis` on made one."""
    sizes = apply_op("Shape", [tensor])
    new = apply_op(
        "ConcatV2", [[getitem(sizes, slice(None, axis)), [-1], getitem(sizes, slice(axis + count, None))], 0]
    )
    joined = apply_op("Reshape", [tensor, new])
    if tensor._shape is not None:
        joined.set_shape((*tensor._shape[:axis], None, *tensor._shape[axis + count :]))
    return joined


# ---------------------------------------------------------------------- sequences


def _reverse_sequence_rule(op: Operation) -> list[Dims]:
    dims, lengths = op.inputs[0]._shape, rules.require_rank(op, "seq_lengths", op.inputs[1], 1)
    if dims is None:
        return [None]
    axes = [rules.axis_in(op, op.attrs[key], len(dims)) for key in ("batch_dim", "seq_dim")]
    if axes[0] == axes[1]:
        raise InvalidArgumentError(f"ReverseSequence: batch_dim and seq_dim are both {axes[0]}")
    (rows,) = shapes.merge(lengths, (dims[axes[0]],)) or (None,)
    return [(*dims[: axes[0]], rows, *dims[axes[0] + 1 :])]


op(
    "ReverseSequence",
    "input: T, seq_lengths: Tlen -> output: T",
    _reverse_sequence_rule,
    batch_dim=0,
    Tlen=dtypes.int64,
)


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """The first seq_lengths[b] elements along seq_axis of each row b (of batch_axis, 0 by default) in the opposite
    order, the others as they are. seq_dim, batch_dim: old names of the axes."""
    along = seq_dim if seq_axis is None else seq_axis
    if along is None:
        raise ValueError("reverse_sequence: give seq_axis, the axis whose elements are reversed")
    rows = batch_dim if batch_axis is None else batch_axis
    return apply_op("ReverseSequence", [input, seq_lengths], {"seq_dim": along, "batch_dim": rows or 0}, name)
