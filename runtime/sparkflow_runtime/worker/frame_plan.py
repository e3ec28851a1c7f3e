"""A part compiled for the general executor (worker/frames.py): a table of nodes and the edges between them.

It runs what the native form does not cover: a loop of another shape than while_loop's, and one in which something may
have to wait. `compile_any` is the plan compiler's door; it tries the native form first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from sparkflow_runtime.kernels.compression import carried_as
from sparkflow_runtime.kernels.registry import Kernel, find
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.edges import data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.worker.old_values import OldValues, copying
from sparkflow_runtime.worker.plan import Binder, compile_plan
from sparkflow_runtime.worker.units import RECEIVE, SEND, Plan, Unit
from sparkflow_runtime.worker.values import Irregular

KERNEL, ASYNC, SWITCH, MERGE, ENTER, EXIT, NEXT, SENDS, RECVS = range(9)
_KINDS = {**dict.fromkeys(cf.SWITCH, SWITCH), **dict.fromkeys(cf.MERGE, MERGE), **dict.fromkeys(cf.ENTER, ENTER)}
_KINDS |= {**dict.fromkeys(cf.EXIT, EXIT), **dict.fromkeys(cf.NEXT, NEXT), cf.SEND: SENDS, cf.RECV: RECVS}
_VALUES = {cf.SEND, cf.RECV}


@dataclass(eq=False)
class Entry:
    """A node. `edges` are (output port or -1 for control, consumer, its input position)."""

    node: NodeDef
    kind: int
    function: Callable[..., Any] | None = None
    multi: bool = False
    deref: tuple[bool, ...] = ()  # input positions at which a variable is read
    edges: list[tuple[int, Entry, int]] = field(default_factory=list)
    pending: int = 0  # edges to wait for; of a Merge, one for its data and two for each control edge
    num_inputs: int = 0
    given: list[Any] = field(default_factory=list)  # the inputs: constants in place, None for the rest
    fed: list[tuple[int, int]] = field(default_factory=list)  # (input position, slot)
    keep: list[tuple[int, int]] = field(default_factory=list)  # (output port, slot) of what is fetched
    frame: str = ""  # of an Enter
    invariant: bool = False
    parallel: int = 1
    num_enters: int = 0  # all Enters of an Enter's frame
    gates: frozenset[int] = frozenset()  # of a _Send in a loop: the inputs without which nothing is sent
    inside: bool = False  # of a transfer: in a loop
    unit: int = -1  # of a transfer: its bundle
    member: int = 0  # of a transfer: its place in the bundle
    slot: int | None = None  # of a _Recv with data
    triggers: bool = False  # it runs although its inputs are dead


class Inside(NamedTuple):
    """Of a bundle that is received in a loop: how many loops are around it, and which members have data."""

    depth: int
    has_data: tuple[bool, ...]


@dataclass
class FramePlan(Plan):
    entries: list[Entry] = field(default_factory=list)
    arriving: dict[int, list[Entry]] = field(default_factory=dict)  # receiving unit outside of loops -> its _Recv nodes
    inside: dict[int, Inside] = field(default_factory=dict)  # receiving unit in a loop -> what it expects
    leaving: dict[int, list[Entry]] = field(default_factory=dict)  # sending unit -> its _Send nodes

    @cached_property
    def opening_peers(self) -> frozenset[str]:
        return frozenset()

    @property
    def wants_thread(self) -> bool:
        return True


def compile_any(
    graph: GraphDef,
    feeds: Sequence[str],
    fetches: Sequence[str],
    bind: Binder,
    native: bool = True,
    operators: bool = True,
    lanes: Callable[..., int] = lambda fills=False: 1,
) -> Plan:
    """feeds and fetches are 'name:port'; `bind` makes the function of a node. native=False is for comparisons;
    operators, lanes: see compile_plan."""
    if not native and cf.has_control_flow(graph.node):
        return compile_frames(graph, feeds, fetches, bind)
    try:
        return compile_plan(graph, feeds, fetches, bind, operators, lanes)
    except Irregular:
        return compile_frames(graph, feeds, fetches, bind)


def compile_frames(graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], bind: Binder) -> FramePlan:
    return _Compiler(graph, list(feeds), list(fetches), bind).compile()


class _Compiler:
    def __init__(self, graph: GraphDef, feeds: list[str], fetches: list[str], bind: Binder):
        self.feeds, self.fetches, self.bind = feeds, fetches, bind
        self.loops = cf.find_loops(graph.node, feeds)
        self.attrs = {n.name: wire_attrs.kernel_attrs(n) for n in graph.node}
        self.slots: dict[str, int] = {}
        self.kernels: dict[str, Kernel] = {}
        self.entries: dict[str, Entry] = {}
        self.units: list[Unit] = []

    def compile(self) -> FramePlan:
        fed = [self._slot(f) for f in self.feeds]
        for node in self.loops.order:
            self.entries[node.name] = self._entry(node)
        self._keep_old_values()
        for node in self.loops.order:
            self._connect(node)
        self._count_enters()
        plan_feeds: list[int | None] = list(fed)
        fetched = [self._fetch(f) for f in self.fetches]
        received, leaving = self._bundles(RECVS, RECEIVE), self._bundles(SENDS, SEND)
        bundles = {self.units[u].bundle: u for u in received}
        arriving = {u: members for u, members in received.items() if not members[0].inside}
        inside = {u: self._inside(members) for u, members in received.items() if members[0].inside}
        stop = self._slot("")
        return FramePlan(
            self.units, len(self.slots), plan_feeds, fetched, bundles, self.loops.nodes, None, self.fetches, stop,
            entries=list(self.entries.values()), arriving=arriving, inside=inside, leaving=leaving,
        )  # fmt: skip

    def _keep_old_values(self) -> None:
        """Nothing is known of the order of nodes here: each part of a variable that is updated is copied."""
        data = {node.name: data_inputs(node) for node in self.loops.order}
        for name in OldValues(self.loops.order, data, self.attrs, self.kernels, {}, (), frozenset()).to_copy(set()):
            entry = self.entries[name]
            if entry.function is not None:
                entry.function = copying(entry.function, entry.multi, entry.node.device)

    def _slot(self, tensor: str) -> int:
        return self.slots.setdefault(tensor, len(self.slots))

    # ------------------------------------------------------------------ nodes and edges

    def _entry(self, node: NodeDef) -> Entry:
        entry = Entry(node, _KINDS.get(node.op, KERNEL))
        if node.op in _VALUES:
            entry.inside = bool(self.loops.owner[node.name])
            entry.gates = frozenset(range(1, len(node.input)) if node.op == cf.SEND else ())
            return entry
        row = self.kernels[node.name] = find(node.op, DeviceSpec.from_string(node.device).device_type or "CPU")
        if entry.kind == KERNEL:
            entry.kind = ASYNC if row.is_async else KERNEL
            entry.function = self.bind(node, row, self.attrs[node.name])
        entry.multi, entry.triggers = row.multi, node.op == cf.TRIGGER
        refs = range(len(node.input)) if node.op == "RefMerge" else row.refs
        entry.deref = tuple(i not in refs for i in range(len(data_inputs(node))))
        if entry.kind == ENTER:
            entry.frame, entry.invariant = cf.frame_name(node), cf.is_invariant(node)
            entry.parallel = max(1, self.attrs[node.name].get("parallel_iterations", 10))
        return entry

    def _connect(self, node: NodeDef) -> None:
        entry = self.entries[node.name]
        data = data_inputs(node)
        entry.given, entry.num_inputs = [None] * len(data), len(data)
        for position, e in enumerate(node.input):
            producer = None if self.loops.is_fed(e) else self.loops.nodes[node_name(e)]
            if producer is None:
                entry.fed.append((position, self._slot("{}:{}".format(*parse(e)))))
            elif cf.is_constant(producer) and entry.kind != MERGE and not is_control(e):
                entry.given[position] = self._constant(producer)
            else:
                port = -1 if is_control(e) else parse(e)[1]
                self.entries[producer.name].edges.append((port, entry, position))
                entry.pending += 1 if entry.kind != MERGE else 2 if port < 0 else 0
        if entry.kind == MERGE:
            entry.pending += 1

    def _constant(self, node: NodeDef) -> Any:
        value = self.attrs[node.name]["value"]
        value.setflags(write=False)
        return value

    def _count_enters(self) -> None:
        paths: dict[cf.Path, list[Entry]] = {}
        for entry in self.entries.values():
            if entry.kind == ENTER:
                paths.setdefault(self.loops.owner[entry.node.name], []).append(entry)
        for enters in paths.values():
            for entry in enters:
                entry.num_enters = len(enters)

    def _fetch(self, fetch: str) -> tuple[int | None, Any, bool]:
        name, port = parse(fetch)
        if fetch in self.feeds:
            return self._slot(fetch), None, False
        if name not in self.entries:
            raise InvalidArgumentError(f"Fetch {fetch!r} is not in this part of the graph")
        node = self.loops.nodes[name]
        if self.loops.output_frame(node):
            raise InvalidArgumentError(
                node,
                None,
                f"Fetch {fetch!r} is in a loop, where it has a value in every iteration: fetch what leaves the loop",
            )
        slot = self._slot(fetch)
        self.entries[name].keep.append((port, slot))
        return slot, None, True  # whose memory it is cannot be told

    # ------------------------------------------------------------------ transfers

    def _bundles(self, kind: int, unit_kind: str) -> dict[int, list[Entry]]:
        """A unit for each bundle, with its members in the order of their tensors' names."""
        members: dict[int, list[Entry]] = {}
        for entry in self.entries.values():
            if entry.kind == kind:
                members.setdefault(self.attrs[entry.node.name]["_bundle"], []).append(entry)
        return {self._unit(unit_kind, bundle, found): found for bundle, found in members.items()}

    def _inside(self, members: list[Entry]) -> Inside:
        names = [self.attrs[m.node.name]["tensor_name"] for m in members]
        return Inside(len(self.loops.owner[members[0].node.name]), tuple(not is_control(n) for n in names))

    def _unit(self, kind: str, bundle: int, members: list[Entry]) -> int:
        members.sort(key=lambda m: self.attrs[m.node.name]["tensor_name"])
        peer = self.attrs[members[0].node.name]["send_device" if kind == RECEIVE else "recv_device"]
        unit = Unit(kind, f"{kind} of bundle {bundle}, {peer}", pending=len(members), peer=peer, bundle=bundle)
        self.units.append(unit)
        has_data = [not is_control(self.attrs[m.node.name]["tensor_name"]) for m in members]
        for place, (member, data) in enumerate(zip(members, has_data, strict=True)):
            member.unit, member.member = len(self.units) - 1, place
            member.slot = self._slot(f"{member.node.name}:0") if data or kind == RECEIVE else None
        unit.carried = carried_as([self.attrs[m.node.name] for m, data in zip(members, has_data, strict=True) if data])
        may_die = any(cf.may_die(m.node) for m in members)
        if kind == RECEIVE:
            unit.slots = [m.slot for m, data in zip(members, has_data, strict=True) if data]
            unit.arrivals = list(zip([m.slot for m in members], has_data, strict=True)) if may_die else None
        else:
            unit.members = [[] for _ in members] if may_die else None
        return len(self.units) - 1
