"""Collectives: one op on each of `group_size` tasks, which exchange tensors among themselves, without a server.

The ops of a group have one group_key; those that belong together have one instance_key as well. Every task runs its own
op, in its own session or in a part of one. What the ops do, and in which order they add, is said in the runtime's
resources/rings; how groups form and end, in resources/collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError

_HINTS: dict[str, Any] = {"communication_hint": "auto", "timeout_seconds": 0.0}
_V2: dict[str, Any] = {**_HINTS, "is_stateless": False, "Nordering_token": 0}
_KEYS = "input: T, group_size: int32, group_key: int32, instance_key: int32, ordering_token: Nordering_token * resource"


def _same_shape(op: Operation) -> list[Dims]:
    return [op.inputs[0]._shape]


def _attr_shape(op: Operation) -> list[Dims]:
    return [op.attrs["shape"].dims]


def _gathered_shape(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    return [None if dims is None else (None, *dims[1:])]


def _scattered_shape(op: Operation) -> list[Dims]:
    dims, size = op.inputs[0]._shape, constant_value(op.inputs[1])
    if not dims:
        return [None]
    first = dims[0] // int(size) if size is not None and dims[0] is not None else None
    return [(first, *dims[1:])]


op("CollectiveReduce", "input: T -> data: T", _same_shape, stateful=True, wait_for=[], **_HINTS)
op("CollectiveGather", "input: T -> data: T", _attr_shape, stateful=True, **_HINTS)
op("CollectiveBcastSend", "input: T -> data: T", _attr_shape, stateful=True, **_HINTS)
op("CollectiveBcastRecv", "-> data: T", _attr_shape, stateful=True, **_HINTS)
op("CollectiveReduceV2", f"{_KEYS} -> data: T", _same_shape, stateful=True, max_subdivs_per_device=-1, **_V2)
op("CollectiveGatherV2", f"{_KEYS} -> data: T", _gathered_shape, stateful=True, **_V2)
op(
    "CollectiveReduceScatterV2",
    f"{_KEYS} -> data: T",
    _scattered_shape,
    stateful=True,
    max_subdivs_per_device=-1,
    **_V2,
)


def _attrs(group_size: int, group_key: int, instance_key: int, hint: str, timeout: float) -> dict[str, Any]:
    if group_size < 1:
        raise ValueError(f"Parameter group_size to a collective must be at least 1, got {group_size}")
    keys = {"group_size": group_size, "group_key": group_key, "instance_key": instance_key}
    return {**keys, "communication_hint": hint, "timeout_seconds": float(timeout)}


def all_reduce(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str = "Add",
    final_op: str = "Id",
    subdiv_offsets: Sequence[int] = (0,),
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """The elementwise merge of all tasks' `t`, with the same bits on all of them and in every run.

    t: of one shape and dtype on every task. merge_op: 'Add', 'Mul', 'Min' or 'Max'; final_op: 'Id', or 'Div' by
    group_size. timeout: seconds after which DeadlineExceededError names the tasks that did not begin; 0 waits.
    Raises UnavailableError when a task of the group is lost, AbortedError when its step failed.
    """
    if group_size < 1 or merge_op not in ("Add", "Mul", "Min", "Max") or final_op not in ("Id", "Div"):
        raise InvalidArgumentError(f"all_reduce: group_size {group_size}, merge_op {merge_op!r}, final_op {final_op!r}")
    attrs = _attrs(group_size, group_key, instance_key, communication_hint, timeout)
    attrs |= {"merge_op": merge_op, "final_op": final_op, "subdiv_offsets": list(subdiv_offsets)}
    return apply_op("CollectiveReduce", [t], attrs, name)


def all_gather(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """All tasks' `t`, one after the other along the first axis, on which alone they may differ."""
    value = convert_to_tensor(t)
    if value.shape.ndims == 0:
        raise InvalidArgumentError("all_gather: a scalar has no first axis; give it the shape [1]")
    dims = value._shape
    # Unknown where the tasks may differ: TensorFlow takes the rows of this one for everybody's.
    shape = None if dims is None else (None if dims[0] is None else dims[0] * group_size, *dims[1:])
    attrs = _attrs(group_size, group_key, instance_key, communication_hint, timeout)
    return apply_op("CollectiveGather", [value], {**attrs, "shape": Shape(shape)}, name)


def broadcast_send(
    t: Any,
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """Gives `t` to the tasks that run `broadcast_recv`; its value here."""
    value = convert_to_tensor(t, as_dtype(dtype))
    attrs = _attrs(group_size, group_key, instance_key, communication_hint, timeout)
    return apply_op("CollectiveBcastSend", [value], {**attrs, "shape": Shape(shapes.as_dims(shape))}, name)


def broadcast_recv(
    shape: Any,
    dtype: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """What the task that runs `broadcast_send` gives. shape: fully known."""
    attrs = _attrs(group_size, group_key, instance_key, communication_hint, timeout)
    attrs |= {"T": as_dtype(dtype), "shape": Shape(shapes.as_dims(shape))}
    return apply_op("CollectiveBcastRecv", [], attrs, name)


def reduce_scatter(
    t: Any,
    group_size: int,
    group_key: int,
    instance_key: int,
    merge_op: str = "Add",
    final_op: str = "Id",
    communication_hint: str = "auto",
    timeout: float = 0,
    name: str | None = None,
) -> Tensor:
    """This task's part, along the first axis, of what all_reduce would give; tasks are in the order of their names."""
    attrs: dict[str, Any] = {"merge_op": merge_op, "final_op": final_op, "communication_hint": communication_hint}
    attrs["timeout_seconds"] = float(timeout)
    return apply_op("CollectiveReduceScatterV2", [t, group_size, group_key, instance_key, []], attrs, name)
