"""Stacks of which no value is read: what a gradient kept of each iteration for its shape alone, once that is known.

Such a value is made and held until the gradient's loop drops it; what makes it cannot be one node with what follows.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.loop_shapes import HANDS_ON, holder
from sparkflow_runtime.master.passes.view import Op, View, producer


def unread_stacks(view: View) -> None:
    """Drop the pushes and pops of stacks whose values nobody takes."""
    stacks = {name: list[Op]() for name, op in view.ops.items() if op.op == "StackV2" and _is_endless(op, view)}
    if not stacks:
        return
    users, kept = view.consumers(), view.kept
    for op in view.ops.values():
        for e in op.data:
            held = holder(e, view.ops)
            if held not in stacks or op.op in HANDS_ON:
                continue
            needless = op.op == "StackPushV2" or (op.op == "StackPopV2" and op.control and not users[op.name])
            if needless and op.name not in kept:
                stacks[held].append(op)
            else:
                del stacks[held]  # read, or handed to who knows whom
    dropped = {op.name for name, uses in stacks.items() if name not in kept for op in uses}
    gone = {name: op for name, op in view.ops.items() if name in dropped}
    if not gone:
        return
    instead: dict[str, list[str]] = {}
    for op in gone.values():  # in order: a pop comes after its push
        waits = op.control or [producer(op.data[1])]
        instead[op.name] = [n for c in waits for n in instead.get(c, [c])]
    for op in view.ops.values():
        if op.control and op.name not in gone and not gone.keys().isdisjoint(op.control):
            op.control = list(dict.fromkeys(n for c in op.control for n in instead.get(c, [c])))
    view.redirect({op.name: op.data[1] for op in gone.values() if op.op == "StackPushV2"})
    view.drop(gone)
    view.prune()


def _is_endless(stack: Op, view: View) -> bool:
    """Whether a push never finds it full."""
    size = view.constant(stack.data[0], view.context(stack.name) or frozenset())
    return size is not None and int(size) < 0
