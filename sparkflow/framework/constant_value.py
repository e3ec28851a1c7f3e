"""constant_value: what a tensor is already known to hold while the graph is built, for shape inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.graph import Operation, Tensor


def constant_value(tensor: Tensor) -> np.ndarray | None:
    """The value of a Const, of the shape of a tensor whose static shape is known, and of packs and slices of those."""
    rule = _RULES.get(tensor.op.type)
    return None if rule is None else rule(tensor.op)


def constant_value_as_shape(tensor: Tensor) -> shapes.Dims:
    """A 1-D integer tensor read as a shape; sizes that are not known yet, and -1, are None."""
    op = tensor.op
    if op.type == "Shape":
        return op.inputs[0]._shape
    if op.type == "Pack":
        sizes = [constant_value(t) for t in op.inputs]
        return tuple(None if s is None or s < 0 else int(s) for s in sizes)
    value = constant_value(tensor)
    if value is not None:
        return tuple(None if s < 0 else int(s) for s in value.ravel())
    return (None,) * tensor._shape[0] if tensor._shape and tensor._shape[0] is not None else None


def _shape_value(op: Operation) -> np.ndarray | None:
    dims = op.inputs[0]._shape
    return np.array(dims, op.outputs[0].dtype.np) if shapes.fully_known(dims) else None


def _size_value(op: Operation) -> np.ndarray | None:
    dims = op.inputs[0]._shape
    return np.array(shapes.product(dims), op.outputs[0].dtype.np) if shapes.fully_known(dims) else None


def _pack_value(op: Operation) -> np.ndarray | None:
    parts = [constant_value(t) for t in op.inputs]
    return None if any(p is None for p in parts) else np.stack(parts, op.attrs["axis"])  # type: ignore[arg-type]


def _slice_value(op: Operation) -> np.ndarray | None:
    begin, end, strides = (constant_value(t) for t in op.inputs[1:4])
    if begin is None or end is None or strides is None or begin.size != 1:
        return None
    dims = op.inputs[0].op.inputs[0]._shape if op.inputs[0].op.type == "Shape" else None
    if op.attrs["shrink_axis_mask"] & 1 and dims is not None:
        size = dims[int(begin[0])]
        return None if size is None else np.array(size, op.outputs[0].dtype.np)
    source = constant_value(op.inputs[0])
    if source is None:
        return None
    if op.attrs["shrink_axis_mask"] & 1:
        return source[int(begin[0])]
    first = None if op.attrs["begin_mask"] & 1 else int(begin[0])
    last = None if op.attrs["end_mask"] & 1 else int(end[0])
    return source[slice(first, last, int(strides[0]))]


def _cast_value(op: Operation) -> np.ndarray | None:
    value = constant_value(op.inputs[0])
    return None if value is None else value.astype(op.outputs[0].dtype.np)


def _binary(combine: Callable[[Any, Any], Any]) -> Callable[[Operation], Any]:
    def rule(op: Operation) -> Any:
        a, b = constant_value(op.inputs[0]), constant_value(op.inputs[1])
        return None if a is None or b is None else np.asarray(combine(a, b))

    return rule


_RULES: dict[str, Callable[[Operation], Any]] = {
    "Const": lambda op: op.attrs["value"],
    "Shape": _shape_value,
    "Size": _size_value,
    "Rank": lambda op: None if op.inputs[0]._shape is None else np.array(len(op.inputs[0]._shape), np.int32),
    "Pack": _pack_value,
    "StridedSlice": _slice_value,
    "Cast": _cast_value,
    "Identity": lambda op: constant_value(op.inputs[0]),
    "Enter": lambda op: constant_value(op.inputs[0]) if op.attrs["is_constant"] else None,
    "Switch": lambda op: None if op.inputs[1].op.type == "LoopCond" else constant_value(op.inputs[0]),
    "Mul": _binary(np.multiply),
    "Add": _binary(np.add),
    "AddV2": _binary(np.add),
    "Sub": _binary(np.subtract),
}
