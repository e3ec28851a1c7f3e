"""Stacks that live for one step: what a loop pushes in its iterations, its gradient pops in the opposite order."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow_runtime.wire.dtypes import as_dtype

op(
    "StackV2", "max_size: int32 -> handle: resource", lambda op: [(2,)], stateful=True, stack_name=""
)  # as TensorFlow says
op(
    "StackPushV2",
    "handle: resource, elem: T -> output: T",
    lambda op: [op.inputs[1]._shape],
    stateful=True,
    swap_memory=False,
)
op("StackPopV2", "handle: resource -> elem: elem_type", lambda op: [None], stateful=True)
op("StackCloseV2", "handle: resource ->", stateful=True)


def stack_v2(elem_type: Any, max_size: Any = -1, name: str | None = None) -> Tensor:
    """The handle of a new stack of tensors of one type; max_size -1: as many as there is memory for."""
    attrs = {"elem_type": as_dtype(elem_type).base_dtype}
    return apply_op("StackV2", [max_size], attrs, name or "f_acc")


def stack_push_v2(handle: Any, elem: Any, swap_memory: bool = False, name: str | None = None) -> Tensor:
    """elem, which is now on top of the stack. swap_memory: it may be moved to the host's memory."""
    return apply_op("StackPushV2", [handle, elem], {"swap_memory": swap_memory}, name)


def stack_pop_v2(handle: Any, elem_type: Any, name: str | None = None) -> Tensor:
    """The top of the stack, taken away. When run, InvalidArgumentError on an empty stack."""
    return apply_op("StackPopV2", [handle], {"elem_type": as_dtype(elem_type).base_dtype}, name)


def stack_close_v2(handle: Any, name: str | None = None) -> Operation:
    """Free what the stack holds."""
    return apply_op("StackCloseV2", [handle], name=name)
