"""Updates put at index vectors: into a variable, or into a copy of a tensor."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, math
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
for _kind in ("Add", "Sub", "Max", "Min"):
    op(f"ScatterNd{_kind}", _REF, _rule, use_locking=False, bad_indices_policy="")


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """ref[index] = update for each index vector along the last axis of indices; returns the reference.

    Raises InvalidArgumentError on an index out of range, with nothing changed; so do the others.
    """
    return apply_op("ScatterNdUpdate", [ref, indices, updates], {"use_locking": use_locking}, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """ref[i, ..., indices[i, ..., k]] = updates[i, ..., k], for all i along the first axes; returns the reference.

    indices: int32 or int64 [*batch, n], whose batch axes ref begins with. updates: indices.shape + the rest of
    ref.shape. Raises ValueError on indices of unknown rank; when run, InvalidArgumentError on an index out of range.
    """
    with get_default_graph().name_scope(name or "batch_scatter_update"):
        indices = convert_to_tensor(indices, name="indices")
        if indices._shape is None:
            raise ValueError("batch_scatter_update: indices must have a known rank")
        sizes, rank = array.shape(indices), len(indices._shape)
        places = [indices]
        for axis in range(rank - 1):
            along = math.cast(math.range(sizes[axis]), indices.dtype)
            laid = array.reshape(along, [-1 if i == axis else 1 for i in range(rank)])
            places.insert(axis, array.broadcast_to(laid, sizes))
        return scatter_nd_update(ref, array_join.stack(places, -1), updates, use_locking)


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
