"""Which nodes are inside a cond or a loop.

A Switch sends its value to one of two sides, an Enter starts the iterations of a frame; Merge and Exit come back.
Most passes leave alone whatever is in between: whether it runs, and how often, is not theirs to change. Fusion joins
nodes of one context, which run together or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.view import Op

SWITCH, MERGE = {"Switch", "RefSwitch"}, {"Merge", "RefMerge"}
ENTER, EXIT = {"Enter", "RefEnter"}, {"Exit", "RefExit"}
LOOP = {"NextIteration", "RefNextIteration", "LoopCond"}
CONTROL_FLOW = SWITCH | MERGE | ENTER | EXIT | LOOP

Context = frozenset[str]
OUTSIDE: Context = frozenset()


def contexts(ops: dict[str, Op]) -> dict[str, Context]:
    """What each node is inside of, nodes of control flow itself left out; `ops` in order, but for the back edges of
    loops. Nodes that are inside of nothing run exactly once a step."""
    if not any(op.op in CONTROL_FLOW for op in ops.values()):
        return dict.fromkeys(ops, OUTSIDE)
    inside: dict[str, Context] = {}
    for op in ops.values():
        inside[op.name] = _context(op, ops, inside)
    return {name: found for name, found in inside.items() if ops[name].op not in CONTROL_FLOW}


def once_a_loop(ops: dict[str, Op], inside: dict[str, Context]) -> frozenset[str]:
    """The nodes of loops that compute the same in all iterations: a plan runs them in the first one only."""
    same: set[str] = set()
    for op in ops.values():
        if op.op in ENTER:
            if op.attr("is_constant"):
                same.add(op.name)
        elif (op.op == "Const" or (inside.get(op.name) and op.pure and op.data)) and same.issuperset(
            e.partition(":")[0] for e in op.data
        ):
            same.add(op.name)
    return frozenset(same)


def _context(op: Op, ops: dict[str, Op], inside: dict[str, Context]) -> Context:
    """What an op is inside of: frames by name, sides of a cond by predicate and side."""
    before = [_carried(e, ops, inside) for e in op.data] + [inside.get(c, OUTSIDE) for c in op.control]
    if op.op in MERGE:  # the back edge of a loop is not known yet: what closes it is inside as its Enter is
        known = [_carried(e, ops, inside) for e in op.data if e.partition(":")[0] in inside]
        return known[0].intersection(*known[1:]) if known else OUTSIDE
    found = OUTSIDE.union(*before)
    if op.op in ENTER:
        return found | {f"frame {op.attr('frame_name')}"}
    if op.op in EXIT:
        return found - _left_by(op, ops)
    return found


def _carried(edge: str, ops: dict[str, Op], inside: dict[str, Context]) -> Context:
    """What the value of an edge is inside of: a Switch adds the side that it leaves by."""
    name, _, port = edge.partition(":")
    found = inside.get(name, OUTSIDE)
    if name in ops and ops[name].op in SWITCH:
        return found | {_side(ops[name], port or "0")}
    return found


def _side(switch: Op, port: str) -> str:
    return f"if {switch.data[1]} is {port}"


def _left_by(exit_op: Op, ops: dict[str, Op]) -> set[str]:
    """The contexts that an Exit leaves: the frame of its loop, and the last side of the loop's own Switch."""
    switch = ops.get(exit_op.data[0].partition(":")[0])
    if switch is None or switch.op not in SWITCH:
        return set()
    merge = ops.get(switch.data[0].partition(":")[0])
    enter = ops.get(merge.data[0].partition(":")[0]) if merge is not None and merge.op in MERGE else None
    frame = {f"frame {enter.attr('frame_name')}"} if enter is not None and enter.op in ENTER else set()
    return frame | {_side(switch, "0")}
