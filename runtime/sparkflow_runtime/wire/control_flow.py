"""What the nodes of control flow mean: which frame a node belongs to, in which order loops stand, and who is live when.

A *frame* is one `while_loop`: Enter nodes lead into it, Exit nodes out of it, and a NextIteration carries a value back
to a Merge. Frames nest; a frame's path is the tuple of frame names from the outermost. A node that is not in a loop has
the path ().

A *guard* says when a node is live: a set of atoms that must all hold. The atom ('p:0', True) holds when the predicate
p:0 is true, ('p:0', False) when it is false, and ('?m:0', True) when tensor m:0 has a value at all, for what cannot be
told before the step runs (a Merge of unrelated branches, a value from another task's branch). The empty guard is a node
that always runs. Source: Abadi et al., "TensorFlow: a system for large-scale machine learning", 2016, section 3.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime.wire.edges import is_control, node_name, parse, sort_by
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.wire.protos import NodeDef

SWITCH, MERGE = {"Switch", "RefSwitch"}, {"Merge", "RefMerge"}
ENTER, EXIT = {"Enter", "RefEnter"}, {"Exit", "RefExit"}
NEXT = {"NextIteration", "RefNextIteration"}
LOOP_COND, TRIGGER, RECV, SEND = "LoopCond", "ControlTrigger", "_Recv", "_Send"
MAY_DIE = "_may_die"  # attribute of a transfer whose value may be missing
_TRANSFERS = {RECV, SEND}
PRIMITIVES = SWITCH | MERGE | ENTER | EXIT | NEXT | {LOOP_COND}

Path = tuple[str, ...]
Atom = tuple[str, bool]
Guard = frozenset[Atom]
ALWAYS: Guard = frozenset()
_OWN_RESULT = "A loop needs its own result from outside of it: {}"
_REFERENCES = ("Variable", "TemporaryVariable", "Assign", "Scatter", "StridedSliceAssign", "Ref")


class Dead:
    """The value of a tensor in a branch that was not taken."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<dead tensor>"


DEAD = Dead()


def has_control_flow(nodes: Iterable[NodeDef]) -> bool:
    return any([n.op in PRIMITIVES or (n.op in _TRANSFERS and MAY_DIE in n.attr) for n in nodes])


def frame_name(node: NodeDef) -> str:
    return node.attr["frame_name"].s.decode()


def is_invariant(node: NodeDef) -> bool:
    """An Enter whose value is the same in every iteration."""
    return "is_constant" in node.attr and node.attr["is_constant"].b


def _is_invariant_enter(node: NodeDef) -> bool:
    return node.op == "Enter" and is_invariant(node)


def may_die(node: NodeDef) -> bool:
    """Whether a transfer may carry no value."""
    return MAY_DIE in node.attr and node.attr[MAY_DIE].b


def is_back_edge(consumer: NodeDef, producer: NodeDef) -> bool:
    return consumer.op in MERGE and producer.op in NEXT


def is_constant(node: NodeDef) -> bool:
    """A Const that waits for nobody belongs to no frame: any loop may read it."""
    return node.op == "Const" and not node.input


@dataclass
class Loops:
    """The frames of a graph. `owner` is the innermost frame a node is part of (Enter and Exit are of their loop's),
    `order` all nodes with producers before consumers and each loop in one piece."""

    nodes: dict[str, NodeDef]
    fed: Collection[str]
    owner: dict[str, Path] = field(default_factory=dict)
    order: list[NodeDef] = field(default_factory=list)
    members: dict[Path, list[NodeDef]] = field(default_factory=dict)  # frame -> its nodes, without those of inner ones
    _producers: dict[str, list[NodeDef]] = field(default_factory=dict)

    def is_fed(self, e: str) -> bool:
        return bool(self.fed) and not is_control(e) and "{}:{}".format(*parse(e)) in self.fed

    def producers(self, node: NodeDef) -> list[NodeDef]:
        """The nodes whose outputs this node waits for, back edges left out."""
        found = self._producers.get(node.name)
        if found is None:
            makers = [self.nodes[node_name(e)] for e in node.input if not self.is_fed(e)]
            found = self._producers[node.name] = [p for p in makers if not is_back_edge(node, p)]
        return found

    def output_frame(self, node: NodeDef) -> Path:
        """The frame in which a node's outputs can be used."""
        return self.owner[node.name][:-1] if node.op in EXIT else self.owner[node.name]

    def whole(self, root: Path) -> list[NodeDef]:
        """All nodes of a frame and of those inside it."""
        return [n for path, nodes in self.members.items() if path[: len(root)] == root for n in nodes]


def find_loops(nodes: Sequence[NodeDef], fed: Collection[str] = ()) -> Loops:
    """Raises InvalidArgumentError on a cycle that no NextIteration closes, on a node with inputs from two frames, on an
    Exit outside of a loop and on a feed inside one."""
    loops = Loops({n.name: n for n in nodes}, set(fed))
    flat = sort_by([n.name for n in nodes], lambda name: [p.name for p in loops.producers(loops.nodes[name])], "Node")
    for name in flat:
        loops.owner[name] = _owner(loops, loops.nodes[name])
    for name in flat:
        loops.members.setdefault(loops.owner[name], []).append(loops.nodes[name])
    _check_feeds(loops)
    _check_enters(loops)
    loops.order = [loops.nodes[name] for name in _in_pieces(loops, (), flat)]
    return loops


def _owner(loops: Loops, node: NodeDef) -> Path:
    frames = {loops.output_frame(p): p for p in loops.producers(node) if not is_constant(p)}
    if len(frames) > 1:
        (one, a), (two, b), *_ = frames.items()
        raise InvalidArgumentError(
            node,
            None,
            f"Node {node.name!r} has inputs from different frames: {a.name!r} is {_shown(one)} and {b.name!r} "
            f"{_shown(two)}. A value gets into a loop through Enter and out of it through Exit",
        )
    frame = next(iter(frames), ())
    if node.op in ENTER:
        return (*frame, frame_name(node))
    if node.op in EXIT and not frame:
        raise InvalidArgumentError(node, None, f"Node {node.name!r} ({node.op}) is not in a loop: nothing to leave")
    return frame


def _shown(frame: Path) -> str:
    return f"in loop {'/'.join(frame)!r}" if frame else "outside of any loop"


def _check_feeds(loops: Loops) -> None:
    for node in loops.nodes.values():
        consumed = [e for e in node.input if loops.is_fed(e)]
        if consumed and loops.owner[node.name] and node.op not in ENTER:
            fed = "{}:{}".format(*parse(consumed[0]))
            raise InvalidArgumentError(
                node, None, f"{fed!r} cannot be fed: {node.name!r} reads it in a loop, once in every iteration"
            )


def _check_enters(loops: Loops) -> None:
    for node in loops.nodes.values():
        for producer in loops.producers(node) if node.op in ENTER else ():
            if loops.owner[producer.name] == loops.owner[node.name]:
                raise UnimplementedError(node, None, _OWN_RESULT.format(f"{producer.name!r} leads to {node.name!r}"))


def _in_pieces(loops: Loops, frame: Path, names: Sequence[str]) -> list[str]:
    """`names` (the nodes of `frame` and of frames inside it) in order, each inner frame contiguous."""
    depth = len(frame) + 1
    pieces: dict[str, list[str]] = {}
    piece_of: dict[str, str] = {}
    for name in names:
        path = loops.owner[name]
        key = name if path == frame else "/".join(path[:depth]) + " "  # no node name holds a space
        pieces.setdefault(key, []).append(name)
        piece_of[name] = key

    def waits(key: str) -> list[str]:
        found = (piece_of.get(p.name) for name in pieces[key] for p in loops.producers(loops.nodes[name]))
        return [p for p in dict.fromkeys(found) if p is not None and p != key]

    try:
        ordered = sort_by(list(pieces), waits, "Loop or node")
    except InvalidArgumentError as error:
        raise UnimplementedError(_OWN_RESULT.format(error.message)) from None
    out = []
    for key in ordered:
        members = pieces[key]
        single = len(members) == 1 and members[0] == key
        out += members if single else _in_pieces(loops, loops.owner[members[0]][:depth], members)
    return out


# ---------------------------------------------------------------------- who is live when


@dataclass
class Liveness:
    """Guards of all nodes. `irregular` says why the loops are not of while_loop's shape, None where all are."""

    loops: Loops
    guards: dict[str, Guard] = field(default_factory=dict)
    conditions: dict[Path, NodeDef] = field(default_factory=dict)  # loop -> its LoopCond
    irregular: str | None = None

    def of(self, e: str) -> Guard:
        """When an edge carries a value; for a control edge, when its node runs."""
        if self.loops.is_fed(e):
            return ALWAYS
        producer = self.loops.nodes[node_name(e)]
        guard = self.guards[producer.name]
        if producer.op in SWITCH and not is_control(e):
            guard |= {(self.source(producer.input[1]), parse(e)[1] == 1)}
        return guard

    def is_echo(self, node: NodeDef) -> bool:
        """Whether a LoopCond says on its task what another one found."""
        return node.op == LOOP_COND and self.loops.nodes[node_name(node.input[0])].op == LOOP_COND

    def source(self, e: str) -> str:
        """The tensor that an edge carries, found behind nodes that only hand it on, as 'name:port'."""
        while not self.loops.is_fed(e):
            node = self.loops.nodes[parse(e)[0]]
            if not (node.op in ("Identity", "Switch") or _is_invariant_enter(node) or self.is_echo(node)):
                break
            e, at = node.input[0], e
            if not self.loops.is_fed(e) and self.loops.nodes[parse(e)[0]].op.startswith(_REFERENCES):
                return "{}:{}".format(*parse(at))  # it reads a variable, now
        return "{}:{}".format(*parse(e))


def find_guards(loops: Loops) -> Liveness:
    found = Liveness(loops)
    for node in loops.order:
        found.guards[node.name] = _guard(found, node)
        if node.op == LOOP_COND and not found.is_echo(node):
            if loops.owner[node.name] in found.conditions:
                found.irregular = f"loop {'/'.join(loops.owner[node.name])!r} has two LoopCond nodes"
            found.conditions[loops.owner[node.name]] = node
    found.irregular = found.irregular or next(filter(None, (_irregularity(found, n) for n in loops.order)), None)
    return found


def _guard(found: Liveness, node: NodeDef) -> Guard:
    if node.op == TRIGGER:
        return ALWAYS  # it runs when its inputs are done, dead or not
    if node.op == RECV:
        return frozenset({(f"?{node.name}:0", True)}) if may_die(node) else ALWAYS
    if node.op in MERGE:
        return _merged(found, node)
    guard = ALWAYS.union(*(found.of(e) for e in node.input))
    if node.op in EXIT:
        inner = {a for a in guard if _belongs(found, a, found.loops.owner[node.name])}
        return guard - inner
    return guard


def _belongs(found: Liveness, atom: Atom, frame: Path) -> bool:
    """Whether an atom's tensor is made in the loop, so that it means nothing outside."""
    tensor = atom[0].lstrip("?")
    if tensor in found.loops.fed:
        return False
    node = found.loops.nodes[parse(tensor)[0]]
    path = found.loops.output_frame(node)
    return path[: len(frame)] == frame and not is_constant(node)


def _merged(found: Liveness, node: NodeDef) -> Guard:
    data = [e for e in node.input if not is_control(e)]
    forward = [e for e in data if found.loops.is_fed(e) or not is_back_edge(node, found.loops.nodes[node_name(e)])]
    return either([found.of(e) for e in forward], f"?{node.name}:0")  # a dead control edge does not stop a Merge


def either(guards: Sequence[Guard], otherwise: str) -> Guard:
    """The guard of 'one of these': (p and not p) is always; what does not reduce is told by the tensor `otherwise`."""
    possible = {g for g in guards if not is_never(g)}
    if not possible:
        return guards[0] if guards else ALWAYS
    while True:
        possible = {g for g in possible if not any(other < g for other in possible)}
        joined = next((j for a in possible for b in possible if (j := _resolved(a, b)) is not None), None)
        if joined is None:
            break
        possible.add(joined)
    if len(possible) == 1:
        return next(iter(possible))
    return frozenset.intersection(*possible) | {(otherwise, True)}


def _resolved(a: Guard, b: Guard) -> Guard | None:
    """What is left where a and b differ in the sign of one atom alone."""
    if len(a ^ b) != 2:
        return None
    (p, s), (q, t) = a ^ b
    return a & b if p == q and s != t else None


def is_never(guard: Guard) -> bool:
    return any((name, not sign) in guard for name, sign in guard)


def _irregularity(found: Liveness, node: NodeDef) -> str | None:
    """Why a node of a loop is not as while_loop makes it."""
    loops = found.loops
    frame = loops.owner[node.name]
    if not frame:
        return None
    if frame not in found.conditions:
        return f"loop {'/'.join(frame)!r} has no LoopCond"
    condition = found.conditions[frame]
    again, outer = (f"{condition.name}:0", True), found.guards[condition.name]
    if any(_belongs(found, atom, frame) for atom in outer):
        return f"LoopCond {condition.name!r} is not computed in every iteration"
    if node.op in EXIT and not found.of(node.input[0]) - {(again[0], False)} <= outer:
        return f"Exit {node.name!r} does not leave when {condition.name!r} is false"
    if node.op in EXIT and (again[0], False) not in found.of(node.input[0]):
        return f"Exit {node.name!r} leaves in every iteration"
    if node.op in MERGE:
        return _irregular_merge(found, node, again, outer)
    return None


def _irregular_merge(found: Liveness, node: NodeDef, again: Atom, outer: Guard) -> str | None:
    loops = found.loops
    makers = [loops.nodes[node_name(e)] for e in node.input if not loops.is_fed(e)]
    back = [p for p in makers if p.op in NEXT]
    enters = [p for p in makers if p.op in ENTER]
    if not back:
        return f"Merge {node.name!r} joins an Enter with a branch" if enters else None
    if len(back) != 1 or len(enters) != 1 or len(node.input) != 2:
        return f"Merge {node.name!r} has inputs other than one Enter and one NextIteration"
    if not found.guards[node.name] <= outer:
        return f"Merge {node.name!r} may be dead where its loop runs"
    if found.guards[back[0].name] - {again} - outer or again not in found.guards[back[0].name]:
        return f"NextIteration {back[0].name!r} does not depend on LoopCond {again[0]!r} alone"
    return None


def sorted_guard(guard: Guard, position: Mapping[str, int]) -> list[Atom]:
    """Outer predicates first: an inner one has a value only where they hold. position: of a node in the order."""
    return sorted(guard, key=lambda atom: (position.get(parse(atom[0].lstrip("?"))[0], -1), atom))
