"""Control edges that order nothing, and nodes that only hand a value on.

A gradient function gates all its results by one NoOp, so that no variable changes before the last product that reads
it. What has to stay is the order of *anchors*: nodes with an effect, and nodes that read a variable's memory. A
control edge into a pure node may go when every anchor before it comes before that node anyway; otherwise it is
replaced by edges from the few anchors that are missing.

The same holds among the nodes of one context, such as a loop's body, where the gradient's gates are. What lives for one
step (stacks, TensorArrays) is no anchor: its order is that of the values which it hands on.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkflow_runtime.master.passes.contexts import CONTROL_FLOW, OUTSIDE
from sparkflow_runtime.master.passes.loop_shapes import holder
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.edges import CARRIED

_HANDS_ON = frozenset(["Identity", "StopGradient", "PreventGradient"])
_CHECKS = frozenset(["CheckNumerics", "CheckNumericsV2", "EnsureShape"])  # pure, and run for the error they may raise
_GIVES_NEW = ("Placeholder", "Random", "TruncatedNormal", "QueueDequeue")  # have an effect, or none but an error
_MAX_BITS = 1 << 31  # of all the sets of anchors together; a graph beyond that keeps its control edges
_MAX_DIRECT = 3  # edges that may take the place of one


def dependencies(view: View) -> None:
    """Drop control edges that order nothing, and Identity nodes."""
    aliases = may_be_variables(view)
    if any(op.control for op in view.ops.values()):
        _thin_control(view, aliases)
    _bypass_identities(view, aliases)
    view.prune()


def may_be_variables(view: View) -> set[str]:
    """Nodes whose output may be a variable's memory: it can change within the step. What a stack or a TensorArray
    hands out may be one where one may have been put into it, or into one that is not known."""
    asked = [op for op in view.ops.values() if not op.pure or op.row is None or op.row.aliases]
    asked = [op for op in asked if not op.op.startswith(_GIVES_NEW)]
    plain = {op.name: op for op in asked if op.row and op.row.plain}
    holders = {name: holder(op.data[0], view.ops) for name, op in plain.items() if op.row and op.row.refs}
    found = {op.name for op in asked if not op.pure and op.name not in plain}
    left = [op for op in asked if op.pure or op.name in holders]
    holding = set[str | None]()  # stacks and TensorArrays that may hold one; None: any may
    size = -1
    while size != len(found) + len(holding):  # again, because of the edges that close loops
        size = len(found) + len(holding)
        for op in left:
            if any(e in found or producer(e) in found for e in op.data):
                found.add(op.name)
                if op.name in holders:
                    holding.add(holders[op.name])
            elif holding and op.name in holders:
                held = holders[op.name]
                if held is None or not holding.isdisjoint((held, None)):
                    found.add(op.name)
    return found


def _thin_control(view: View, aliases: set[str]) -> None:
    before: dict[str, int] = {}  # the anchors that come before a node's end, itself included, as bits
    users, kept_names, gates = view.consumers(), view.kept, view.gates
    anchors: list[str] = []
    budget = _MAX_BITS
    for op in view.ops.values():
        bits = 0
        for edge in op.data:
            bits |= before.get(producer(edge), 0)
        reads = any(producer(e) in aliases for e in op.data)
        pure = _movable(op, view) and not reads
        if op.control and pure and op.name not in view.targets and budget > 0:
            held = () if op.name in kept_names or op.name in gates else _held_by_all(users[op.name])
            op.control = _needed(op, bits, before, anchors, view, held)
        for name in op.control:
            bits |= before.get(name, 0)
        if reads or not (pure or _passes_on(op, view)) or (not users[op.name] and not _needless(op, pure, kept_names)):
            bits |= 1 << len(anchors)
            anchors.append(op.name)
        before[op.name] = bits
        budget -= len(anchors)


def _needless(op: Op, pure: bool, kept: Collection[str]) -> bool:
    """Of a node of which nobody takes a value: whether it may as well not run, such as the part of a gradient that no
    variable needs and that the other parts were told to wait for."""
    return op.op == "NoOp" or op.op == "Const" or (pure and op.op not in _CHECKS and op.name not in kept)


def _movable(op: Op, view: View) -> bool:
    """A pure node that runs when one of its data inputs, or the whole step, does: whatever it waits for beside them."""
    context = view.context(op.name)
    if not op.pure or context is None:
        return False
    return context == OUTSIDE or any(view.context(producer(e)) == context for e in op.data)


def _passes_on(op: Op, view: View) -> bool:
    """Control flow, a node inside of it that has no effect, or one with an effect for this step alone."""
    if op.row is None or op.row.plain:
        return op.row is not None
    return op.op in CONTROL_FLOW or (view.context(op.name) != OUTSIDE and (op.pure or op.op == "NoOp"))


def _held_by_all(users: list[Op]) -> set[str]:
    """Control inputs that every consumer has as its own, and keeps because it has an effect."""
    if not users or any(u.pure for u in users):
        return set()
    return set(users[0].control).intersection(*(u.control for u in users))


def _needed(
    op: Op, bits: int, before: dict[str, int], anchors: list[str], view: View, held: Collection[str]
) -> list[str]:
    """The control inputs of a pure node that still order something."""
    kept = []
    for name in op.control:
        if name in held:
            continue
        missing = before.get(name, 0) & ~bits
        if view.context(name) is None or view.context(name) != view.context(op.name):
            kept.append(name)
        elif missing:
            direct = _latest(missing, before, anchors)
            near = all(view.context(d) == view.context(op.name) for d in direct)  # no edge may lead into a loop
            kept += direct if near and len(direct) <= _MAX_DIRECT else [name]
        bits |= before.get(name, 0)
    return list(dict.fromkeys(kept))


def _latest(bits: int, before: dict[str, int], anchors: list[str]) -> list[str]:
    """Of a set of anchors those that come before no other of the set; more than _MAX_DIRECT when they are many."""
    found: list[str] = []
    while bits and len(found) <= _MAX_DIRECT:
        name = anchors[bits.bit_length() - 1]  # anchors are numbered in order: nothing later depends on it
        found.append(name)
        bits &= ~before[name]
    return found


# ---------------------------------------------------------------------- identities


def _bypass_identities(view: View, aliases: set[str]) -> None:
    """Let the consumers of an Identity take its input. It stays where it reads a variable (then the read happens at
    its place in the order), where it is fed, and where it crosses devices. Its control inputs go to its consumers."""
    users = view.consumers()
    edges: dict[str, str] = {}
    gone: list[str] = []
    held, kept = view.gates, view.kept
    for op in view.ops.values():
        if not _bypassable(op, view, aliases):
            continue
        source = edges.get(op.data[0], op.data[0])
        if op.control and not _hand_over(op, users[op.name], view):
            continue
        edges[op.name] = source
        if op.name not in held and op.name not in kept and producer(source) in view.ops:
            view.moved[op.name] = producer(source)
            gone.append(op.name)
    view.redirect(edges)
    view.drop(gone)


def _bypassable(op: Op, view: View, aliases: set[str]) -> bool:
    if op.op not in _HANDS_ON or view.context(op.name) is None or op.name in view.feeds:
        return False
    source = producer(op.data[0])
    if CARRIED in op.proto.attr and not _travels_alike(op, source, view):
        return False
    if source in aliases or (source in view.ops and view.context(source) != view.context(op.name)):
        return False
    if view.one_device or not op.device:
        return True
    return source in view.ops and view.ops[source].device == op.device


def _travels_alike(op: Op, source: str, view: View) -> bool:
    """Whether what an Identity hands on travels as that which it takes: a session may carry all float32 in half."""
    if source not in view.ops or source in view.feeds:
        return False
    given = view.ops[source].proto.attr
    return CARRIED in given and given[CARRIED].s == op.proto.attr[CARRIED].s


def _hand_over(op: Op, users: list[Op], view: View) -> bool:
    """Give an op's control inputs to its consumers, if these are few and nobody else sees the op."""
    fetched = op.name in view.fetches or op.name in view.targets
    if fetched or not users or len(users) * len(op.control) > len(users) + len(op.control):
        return False
    if any(u.name not in view.free for u in (op, *users)):
        return False
    for user in users:
        user.control = list(dict.fromkeys([*user.control, *op.control]))
    return True
