"""constant_value: what a tensor is already known to hold while the graph is built, for shape inference."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation, Tensor


def constant_value(tensor: Tensor) -> np.ndarray | None:
    """The value of a Const, of the shape of a tensor whose static shape is known, and of what programs make of those
    for shapes, permutations and axes."""
    op = tensor.op
    rule = _RULES.get(op.type)
    if rule is None or op.type == "Const":
        return op.attrs["value"] if rule else None
    asked = _asked.get()
    if asked is None:  # the outermost call, which remembers: an op may be there by many ways
        token = _asked.set({})
        try:
            return rule(op)
        finally:
            _asked.reset(token)
    if op not in asked:
        asked[op] = None  # to begin with, and where the way here is too long
        if len(asked) < _MOST_OPS:
            asked[op] = rule(op)
    return asked[op]


_asked: ContextVar[dict[Operation, Any] | None] = ContextVar("asked", default=None)
_MOST_OPS = 64  # behind one value: more is no shape


def constant_value_as_shape(tensor: Tensor) -> shapes.Dims:
    """A 1-D integer tensor read as a shape; sizes that are not known yet, and -1, are None."""
    op = tensor.op
    if op.type in _AS_SHAPES and (found := _AS_SHAPES[op.type](op)) is not _NOBODY_KNOWS:
        return found
    value = constant_value(tensor)
    if value is not None:
        return tuple(None if s < 0 else int(s) for s in value.ravel())
    return (None,) * tensor._shape[0] if tensor._shape and tensor._shape[0] is not None else None


_NOBODY_KNOWS: Any = object()  # as None is a shape of unknown rank


def _pack_as_shape(op: Operation) -> shapes.Dims:
    sizes = [constant_value(t) for t in op.inputs]
    return tuple(None if s is None or s < 0 else int(s) for s in sizes)


def _concat_as_shape(op: Operation) -> Any:
    parts = [constant_value_as_shape(t) for t in op.inputs[:-1]]
    return _NOBODY_KNOWS if None in parts else tuple(size for part in parts for size in part or ())


def _slice_as_shape(op: Operation) -> Any:
    """Of a run of sizes; `x[1]` is a number and no shape."""
    place = _place(op)
    source = constant_value_as_shape(op.inputs[0]) if isinstance(place, slice) else None
    return _NOBODY_KNOWS if source is None else source[place]  # type: ignore[index]


_AS_SHAPES: dict[str, Callable[[Operation], Any]] = {
    "Shape": lambda op: op.inputs[0]._shape,
    "Pack": _pack_as_shape,
    "ConcatV2": _concat_as_shape,
    "StridedSlice": _slice_as_shape,
    "Cast": lambda op: constant_value_as_shape(op.inputs[0]),
    "Identity": lambda op: constant_value_as_shape(op.inputs[0]),
}


def _shape_value(op: Operation) -> np.ndarray | None:
    dims = op.inputs[0]._shape
    return np.array(dims, op.outputs[0].dtype.np) if shapes.fully_known(dims) else None


def _size_value(op: Operation) -> np.ndarray | None:
    dims = op.inputs[0]._shape
    return np.array(shapes.product(dims), op.outputs[0].dtype.np) if shapes.fully_known(dims) else None


def _all_known(op: Operation) -> list[np.ndarray] | None:
    found: list[np.ndarray] = []
    for tensor in op.inputs:
        value = constant_value(tensor)
        if value is None or value.size > _MOST:
            return None
        found.append(value)
    return found


_MOST = 4096  # values: no graph is built to compute


def _place(op: Operation) -> int | slice | None:
    """Where a StridedSlice of a vector begins and ends; None where that is not known."""
    begin, end, strides = (constant_value(t) for t in op.inputs[1:4])
    if begin is None or end is None or strides is None or begin.size != 1:
        return None
    if op.attrs["ellipsis_mask"] or op.attrs["new_axis_mask"]:
        return None
    if op.attrs["shrink_axis_mask"] & 1:
        return int(begin[0])
    first = None if op.attrs["begin_mask"] & 1 else int(begin[0])
    last = None if op.attrs["end_mask"] & 1 else int(end[0])
    return slice(first, last, int(strides[0]))


def _slice_value(op: Operation) -> np.ndarray | None:
    place = _place(op)
    if place is None:
        return None
    source = constant_value(op.inputs[0])
    if source is not None:
        return source[place]
    dims = constant_value_as_shape(op.inputs[0]) if _is_vector(op.inputs[0]) else None
    if dims is None:
        return None
    sizes = dims[place] if isinstance(place, slice) else (dims[place],)
    if None in sizes:
        return None
    kind = op.outputs[0].dtype.np
    return np.array(sizes, kind) if isinstance(place, slice) else np.array(sizes[0], kind)


def _is_vector(tensor: Tensor) -> bool:
    return tensor._shape is not None and len(tensor._shape) == 1


def _of(compute: Callable[..., Any]) -> Callable[[Operation], Any]:
    """A rule for an op whose inputs are all known; what the op itself would refuse is left to it."""

    def rule(op: Operation) -> Any:
        values = _all_known(op)
        if values is None:
            return None
        try:
            with np.errstate(all="raise"):
                return np.asarray(compute(op, *values), op.outputs[0].dtype.np)
        except (ArithmeticError, IndexError, TypeError, ValueError):
            return None

    return rule


def _binary(combine: Callable[[Any, Any], Any]) -> Callable[[Operation], Any]:
    return _of(lambda op, a, b: combine(a, b))


def _reduction(reduce: Callable[..., Any]) -> Callable[[Operation], Any]:
    return _of(lambda op, x, axes: reduce(x, axis=tuple(axes.ravel().tolist()), keepdims=op.attrs["keep_dims"]))


def _gather(op: Operation, x: np.ndarray, indices: np.ndarray, axis: np.ndarray) -> np.ndarray:
    if op.attrs["batch_dims"]:
        raise ValueError("not for shapes")
    return np.take(x, indices, int(axis))


def _range(op: Operation, first: Any, limit: Any, step: Any) -> np.ndarray:
    if not step or abs((limit - first) / step) > _MOST:
        raise ValueError("too long")
    return np.arange(first, limit, step)


_RULES: dict[str, Callable[[Operation], Any]] = {
    "Const": lambda op: op.attrs["value"],
    "Shape": _shape_value,
    "Size": _size_value,
    "Rank": lambda op: None if op.inputs[0]._shape is None else np.array(len(op.inputs[0]._shape), np.int32),
    "Pack": _of(lambda op, *parts: np.stack(parts, op.attrs["axis"])),
    "ConcatV2": _of(lambda op, *parts: np.concatenate(parts[:-1], int(parts[-1]))),
    "StridedSlice": _slice_value,
    "Cast": _of(lambda op, x: x.astype(op.outputs[0].dtype.np)),
    "ExpandDims": _of(lambda op, x, axis: np.expand_dims(x, int(axis.item()))),
    "Squeeze": _of(lambda op, x: np.squeeze(x, tuple(op.attrs["squeeze_dims"]) or None)),
    "Range": _of(_range),
    "GatherV2": _of(_gather),
    "Reshape": _of(lambda op, x, dims: x.reshape(dims)),
    "Neg": _of(lambda op, x: -x),
    "Identity": lambda op: constant_value(op.inputs[0]),
    "Enter": lambda op: constant_value(op.inputs[0]) if op.attrs["is_constant"] else None,
    "Switch": lambda op: None if op.inputs[1].op.type == "LoopCond" else constant_value(op.inputs[0]),
    "Mul": _binary(np.multiply),
    "Add": _binary(np.add),
    "AddV2": _binary(np.add),
    "Sub": _binary(np.subtract),
    "FloorDiv": _binary(np.floor_divide),
    "FloorMod": _binary(np.mod),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Max": _reduction(np.max),
    "Min": _reduction(np.min),
    "Prod": _reduction(np.prod),
    "Sum": _reduction(np.sum),
}
