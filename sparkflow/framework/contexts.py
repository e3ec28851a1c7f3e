"""Which cond branch or while loop an op belongs to, as far as the graph itself must know.

A context (sparkflow.ops.control_flow_context) is opaque here but for `outer_context` and `GetWhileContext()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkflow.framework.operation import Operation

_EXITS = ("Exit", "RefExit")
_ENTERS = ("Enter", "RefEnter")
_SWITCHES = ("Switch", "RefSwitch")


def is_loop_exit(op: Operation) -> bool:
    return op.type in _EXITS


def is_loop_enter(op: Operation) -> bool:
    return op.type in _ENTERS


def is_loop_constant_enter(op: Operation) -> bool:
    return op.type in _ENTERS and op.attrs["is_constant"]


def is_switch(op: Operation) -> bool:
    return op.type in _SWITCHES


def is_loop_switch(op: Operation) -> bool:
    return op.type in _SWITCHES and op.inputs[1].op.type == "LoopCond"


def is_loop_merge(op: Operation) -> bool:
    return op.type in ("Merge", "RefMerge") and any(is_loop_enter(t.op) for t in op.inputs)


def output_context(op: Operation) -> Any:
    """The context that op's outputs belong to: op's own, for Exit the one around it."""
    context = op._control_flow_context
    return context.outer_context if context is not None and op.type in _EXITS else context


def while_context(op: Operation) -> Any:
    """The innermost loop that op's outputs belong to, None outside of loops."""
    context = output_context(op)
    return None if context is None else context.GetWhileContext()


def chain(context: Any) -> Iterator[Any]:
    """The context and those around it, innermost first."""
    while context is not None:
        yield context
        context = context.outer_context


def check_inputs(op: Operation) -> None:
    """Raises ValueError where op takes a tensor out of a loop that op is not in: only Exit leads out.

    Enter, which leads in, is right by how it is made.
    """
    if op.type in _ENTERS:
        return
    loop = op._control_flow_context.GetWhileContext() if op._control_flow_context is not None else None
    for tensor in op.inputs:
        if tensor.op._control_flow_context is None:
            continue
        source = while_context(tensor.op)
        if source is not None and source is not loop and source not in chain(loop):
            raise ValueError(
                f"Cannot use {tensor.op.name!r} as input to {op.name!r} because {tensor.op.name!r} is in a while loop. "
                "Return it from the loop's body as a loop variable."
            )
