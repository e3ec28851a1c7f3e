"""Variables as nodes: the VariableV2 that owns memory, and the ops that read and change it through a reference."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _same_as_ref(op: Operation) -> list[Dims]:
    return [op.inputs[0]._shape]


def _assign_shape(op: Operation) -> list[Dims]:
    ref, value = op.inputs
    return [shapes.merge(ref._shape, value._shape) if op.attrs["validate_shape"] else value._shape]


def _update_shape(op: Operation) -> list[Dims]:
    return [shapes.merge(op.inputs[0]._shape, op.inputs[1]._shape)]


def _scatter_shape(op: Operation) -> list[Dims]:
    """updates is a scalar, or one row of ref for each index: indices.shape + ref.shape[1:]."""
    ref, indices, updates = (t._shape for t in op.inputs)
    if ref == ():
        raise InvalidArgumentError("ref must be at least a vector, got a scalar")
    if ref is not None and indices is not None and updates not in (None, ()):
        rows = indices + ref[1:]
        if not shapes.compatible(rows, updates):
            raise InvalidArgumentError(
                f"updates must have shape indices.shape + ref.shape[1:] = {shapes.show(rows)}, got "
                f"{shapes.show(updates)}"
            )
    return [ref]


def _variable_shape(op: Operation) -> list[Dims]:
    dims = op.attrs["shape"].dims
    return [None if dims == () and op.type == "Variable" else dims]  # in the older Variable op () means "not known"


op("VariableV2", "-> ref: &dtype", _variable_shape, stateful=True, container="", shared_name="")
op("Variable", "-> ref: &dtype", _variable_shape, stateful=True, container="", shared_name="")
op("Assign", "ref: &T, value: T -> output_ref: &T", _assign_shape, validate_shape=True, use_locking=True)
op("AssignAdd", "ref: &T, value: T -> output_ref: &T", _update_shape, use_locking=False)
op("AssignSub", "ref: &T, value: T -> output_ref: &T", _update_shape, use_locking=False)
op("CountUpTo", "ref: &T -> output: T", _same_as_ref, stateful=True)
_MASKS: dict[str, Any] = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
)
_PART = "ref: &T, begin: Index, end: Index, strides: Index, value: T -> output_ref: &T"
op("StridedSliceAssign", _PART, _same_as_ref, **_MASKS)
op("IsVariableInitialized", "ref: &dtype -> is_initialized: bool", lambda op: [()])

_SCATTER = "ref: &T, indices: Tindices, updates: T -> output_ref: &T"
op("ScatterUpdate", _SCATTER, _scatter_shape, use_locking=True)
for _name in ("ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax"):
    op(_name, _SCATTER, _scatter_shape, use_locking=False)


def variable_op_v2(
    shape: Any, dtype: Any, name: str = "Variable", container: str = "", shared_name: str = ""
) -> Tensor:
    """The reference to a new, uninitialized variable. shape: None or with None sizes where not known."""
    attrs = {
        "shape": Shape(shapes.as_dims(shape)),
        "dtype": as_dtype(dtype).base_dtype,
        "container": container,
        "shared_name": shared_name,
    }
    return apply_op("VariableV2", [], attrs, name)


def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None, name: str | None = None
) -> Tensor:
    """ref = value; returns the reference, for use after the assignment.

    ref: a variable, or a slice of one (`v[1:]`), of which the whole reference is returned. value: dtype of ref; its
    shape too unless validate_shape is False, which lets a variable change its shape.
    Raises InvalidArgumentError on other shapes, TypeError where ref is no variable.
    """
    if isinstance(ref, Tensor) and not ref.dtype.is_ref and hasattr(ref, "assign"):  # what array_slice.getitem made
        return ref.assign(value, name=name)
    attrs = {
        "validate_shape": True if validate_shape is None else validate_shape,
        "use_locking": True if use_locking is None else use_locking,
    }
    return apply_op("Assign", [ref, value], attrs, name)


def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """ref += value, of the same shape and dtype; returns the reference."""
    return apply_op("AssignAdd", [ref, value], {"use_locking": bool(use_locking)}, name)


def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Tensor:
    """ref -= value, of the same shape and dtype; returns the reference."""
    return apply_op("AssignSub", [ref, value], {"use_locking": bool(use_locking)}, name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """The integer scalar before it is counted up by one. Raises OutOfRangeError once it has reached the limit."""
    return apply_op("CountUpTo", [ref], {"limit": limit}, name)


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    """bool scalar: has the variable been assigned?"""
    return apply_op("IsVariableInitialized", [ref], name=name)


def _scatter(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Tensor:
    return apply_op(kind, [ref, indices, updates], {"use_locking": use_locking}, name)


def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """ref[indices] = updates; of a repeated index the last row stays.

    indices: int32 or int64 of any shape, in [0, ref.shape[0]). updates: a scalar, or indices.shape + ref.shape[1:].
    Returns the reference. Raises InvalidArgumentError on an index out of range, with nothing changed; so do the others.
    """
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] += updates; the rows of a repeated index add up."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] -= updates; the rows of a repeated index add up."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def scatter_mul(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] *= updates; a repeated index multiplies repeatedly."""
    return _scatter("ScatterMul", ref, indices, updates, use_locking, name)


def scatter_div(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] /= updates; a repeated index divides repeatedly."""
    return _scatter("ScatterDiv", ref, indices, updates, use_locking, name)


def scatter_min(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] = minimum(ref[indices], updates)."""
    return _scatter("ScatterMin", ref, indices, updates, use_locking, name)


def scatter_max(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[indices] = maximum(ref[indices], updates)."""
    return _scatter("ScatterMax", ref, indices, updates, use_locking, name)
