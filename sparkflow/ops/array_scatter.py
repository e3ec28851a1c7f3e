"""Updates put at index vectors: into a variable, or into a copy of a tensor."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _rule(op: Operation) -> list[Dims]:
    """updates is indices.shape[:-1] + params.shape[indices.shape[-1]:]."""
    held, indices, updates = (t._shape for t in op.inputs)
    if indices == ():
        raise InvalidArgumentError(f"{op.type}: indices must be at least a vector, got a scalar")
    if held is None or indices is None or indices[-1] is None:
        return [held]
    depth = indices[-1]
    wanted = None if depth > len(held) else indices[:-1] + held[depth:]
    if wanted is None or not shapes.compatible(wanted, updates):
        raise InvalidArgumentError(
            f"{op.type}: updates must have shape indices.shape[:-1] + params.shape[indices.shape[-1]:], got updates "
            f"{shapes.show(updates)}, indices {shapes.show(indices)}, params {shapes.show(held)}"
        )
    return [held]


for _kind in ("Update", "Add", "Sub", "Max", "Min"):
    _ROW = "tensor: T, indices: Tindices, updates: T -> output: T"
    op(f"TensorScatter{_kind}", _ROW, _rule, bad_indices_policy="")
_REF = "ref: &T, indices: Tindices, updates: T -> output_ref: &T"
op("ScatterNdUpdate", _REF, _rule, use_locking=True, bad_indices_policy="")
op("ScatterNdAdd", _REF, _rule, use_locking=False, bad_indices_policy="")
op("ScatterNdSub", _REF, _rule, use_locking=False, bad_indices_policy="")


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """ref[index] = update for each index vector along the last axis of indices; returns the reference.

    Raises InvalidArgumentError on an index out of range, with nothing changed; so do the others.
    """
    return apply_op("ScatterNdUpdate", [ref, indices, updates], {"use_locking": use_locking}, name)


def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[index] += update for each index vector; those of a repeated one add up."""
    return apply_op("ScatterNdAdd", [ref, indices, updates], {"use_locking": use_locking}, name)


def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """ref[index] -= update for each index vector; those of a repeated one add up."""
    return apply_op("ScatterNdSub", [ref, indices, updates], {"use_locking": use_locking}, name)


def tensor_scatter_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of tensor with the updates at the index vectors; of a repeated index the last stays."""
    return apply_op("TensorScatterUpdate", [tensor, indices, updates], name=name)


def tensor_scatter_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of tensor with the updates added at the index vectors."""
    return apply_op("TensorScatterAdd", [tensor, indices, updates], name=name)


def tensor_scatter_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of tensor with the updates subtracted at the index vectors."""
    return apply_op("TensorScatterSub", [tensor, indices, updates], name=name)


def tensor_scatter_max(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of tensor with the larger of value and updates at the index vectors."""
    return apply_op("TensorScatterMax", [tensor, indices, updates], name=name)


def tensor_scatter_min(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of tensor with the smaller of value and updates at the index vectors."""
    return apply_op("TensorScatterMin", [tensor, indices, updates], name=name)
