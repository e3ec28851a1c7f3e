"""A part of a graph, compiled once and run at every step.

A plan is a list of units joined by pending counts: *segments* (straight-line code), *waits* (one asynchronous kernel
each), *receives* (one bundle each) and *sends* (one bundle each). Two synchronous nodes are in the same segment when
the same set of waits and receives stands before them, so a segment can run from end to end as soon as it may start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.kernels.compression import carried_as
from sparkflow_runtime.kernels.registry import VARIABLES, Kernel, Prompt, find, with_constants
from sparkflow_runtime.kernels.scalars import Form
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import control_flow as cf
from sparkflow_runtime.wire.control_flow import Liveness
from sparkflow_runtime.wire.devices import DeviceSpec, on_cpu
from sparkflow_runtime.wire.edges import data_inputs, is_control, node_name, parse, topological
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import output_bytes
from sparkflow_runtime.worker.adapt import adapting
from sparkflow_runtime.worker.codegen import Call, Segment
from sparkflow_runtime.worker.old_values import OldValues, copying
from sparkflow_runtime.worker.reuse import REUSED_BYTES
from sparkflow_runtime.worker.scalar_guess import ScalarGuess
from sparkflow_runtime.worker.strands import strands
from sparkflow_runtime.worker.structure import compile_structured
from sparkflow_runtime.worker.units import RECEIVE, SEGMENT, SEND, WAIT, Plan, Test, Unit, surroundings_of
from sparkflow_runtime.worker.values import Irregular, Parts

_HANDS_ON = frozenset(["Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault"])
Binder = Callable[[NodeDef, Kernel, dict[str, Any]], Callable[..., Any]]


def compile_plan(
    graph: GraphDef,
    feeds: Sequence[str],
    fetches: Sequence[str],
    bind: Binder,
    operators: bool = True,
    lanes: Callable[..., int] = lambda fills=False: 1,
) -> Plan:
    """feeds and fetches are 'name:port'; `bind` makes the function of a node (and keeps state per session).
    operators: compute single numbers by operators instead of calls (kernels/scalars.py). lanes: how many threads a
    segment may use, asked once it is known to be long; with `fills`, for what fills new memory."""
    return _Compiler(graph, feeds, fetches, bind, operators, lanes).compile()


def _is_large(node: NodeDef) -> bool:
    """Whether an output is likely one whose memory is worth having twice."""
    return max(output_bytes(node), default=0) >= REUSED_BYTES


def _liveness(graph: GraphDef, feeds: Sequence[str]) -> Liveness | None:
    """None for a graph without control flow. Raises Irregular on loops that are not while_loop's."""
    if not cf.has_control_flow(graph.node):
        return None
    found = cf.find_guards(cf.find_loops(graph.node, feeds))
    if found.irregular:
        raise Irregular(found.irregular)
    return found


class _Compiler:
    def __init__(
        self, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], bind: Binder, operators: bool,
        lanes: Callable[..., int],
    ):  # fmt: skip
        self.lanes = lanes
        self.feeds, self.fetches, self.bind = list(feeds), list(fetches), bind
        self.live = _liveness(graph, feeds)
        self.order = topological(list(graph.node), self.feeds) if self.live is None else self.live.loops.order
        self.nodes = {n.name: n for n in self.order}
        self.position = {n.name: i for i, n in enumerate(self.order)}
        self.kernels: dict[str, Kernel] = {}
        self.data = {n.name: data_inputs(n) for n in self.order}
        self.attrs = {n.name: wire_attrs.kernel_attrs(n) for n in self.order}
        self.units: list[Unit] = []
        self.unit_of: dict[str, int] = {}  # node -> its unit; constants have none
        self.segments: dict[int, tuple[int, list[NodeDef]]] = {}  # events before -> (unit, nodes)
        self.receives: dict[int, int] = {}
        self.sends: dict[int, int] = {}
        self.events: dict[str, int] = {}
        self.entries: dict[cf.Path, int] = {}  # outermost loop -> the events that stand before it
        self.slots: dict[str, int] = {}
        self.constants: dict[str, Any] = {}
        self.aliasing: set[str] = set()  # nodes whose output may be memory that outlives the step
        self.fed_tensors = set(self.feeds)
        self.fed_nodes = {parse(f)[0] for f in self.feeds}
        self.guess = ScalarGuess(self.fed_tensors, self.constants) if operators else None
        self.copied: set[str] = set()  # nodes that would give views of a variable, which others look at after an update
        self.lines: dict[str, int] = {}  # node -> its line within its segment

    def compile(self) -> Plan:
        fed = {f: self._slot(f) for f in self.feeds}
        for node in self.order:
            self._classify(node)
        self._join()
        fetched = [self._fetch(f) for f in self.fetches]
        self._find_slots()
        self._find_frees({slot for slot, _, _ in fetched})
        self.copied = self._old_values().to_copy({parse(f)[0] for f in self.fetches})
        stored = self._stored_ports()
        stop = self._slot("") if self.live is not None and self.live.conditions else None
        for unit, nodes in self.segments.values():
            self.lines.update({n.name: i for i, n in enumerate(nodes)})
            self.units[unit].segment = self._segment(unit, nodes, stored, stop)
        self._find_surroundings()
        feeds: list[int | None] = [fed[f] for f in self.feeds]
        order = self._straight_order() if stop is None else None  # a loop may have to be cancelled: Step can
        return Plan(self.units, len(self.slots), feeds, fetched, self.receives, self.nodes, order, self.fetches, stop)

    def _find_surroundings(self) -> None:
        ops: dict[int, set[str]] = {}
        for node in self.order:
            if node.name in self.unit_of:
                ops.setdefault(self.unit_of[node.name], set()).add(node.op)
        for index, found in ops.items():
            if self.units[index].kind != SEND or self.units[index].carried:  # else it computes nothing
                self.units[index].surroundings = surroundings_of(found)

    def _old_values(self) -> OldValues:
        loops = (name for name, owner in self.live.loops.owner.items() if owner) if self.live is not None else ()
        return OldValues(self.order, self.data, self.attrs, self.kernels, self.unit_of, self.units, frozenset(loops))

    def _segment(
        self, unit: int, nodes: list[NodeDef], stored: dict[str, list[tuple[int, int]]], stop: int | None
    ) -> Segment:
        if self.live is None:
            calls = [self._call(n, unit, stored.get(n.name, [])) for n in nodes]
            apart = [] if self.feeds or self.fetches else strands(nodes, self.kernels, self.attrs)
            return adapting(calls, self.lanes, apart)
        constants = {n.name: self.attrs[n.name]["value"] for n in nodes if n.op == "Const"}
        stores = {n.name: stored[n.name] for n in nodes if n.name in stored}
        parts = Parts(self.live, nodes, self.kernels, self._function, self._where, constants, stores, stop, self.forms)
        return compile_structured(parts)

    # ------------------------------------------------------------------ which unit a node belongs to

    def _classify(self, node: NodeDef) -> None:
        before = 0
        for e in node.input:
            if not self._is_fed(e):
                before |= self.events.get(node_name(e), 0)  # 0: a NextIteration, later in the loop
        before |= self._loop_events(node)
        self.events[node.name] = before
        if node.op == "Const" and not node.input:
            self.attrs[node.name]["value"].setflags(write=False)
            self.constants[node.name] = self.attrs[node.name]["value"]
            self.aliasing.add(node.name)
        elif node.op == "_Send":
            self._bundle_unit(node, self.sends, SEND, "recv_device")
        elif node.op == "_Recv":
            self.events[node.name] = 1 << self._bundle_unit(node, self.receives, RECEIVE, "send_device")
        else:
            self._kernel_unit(node, before)

    def _loop_events(self, node: NodeDef) -> int:
        """A loop runs in one piece, when all that enters it is there."""
        if self.live is None or not self.live.loops.owner[node.name]:
            return 0
        root = self.live.loops.owner[node.name][:1]
        if root not in self.entries:
            self.entries[root] = 0
            inside = self.live.loops.whole(root)
            for n in inside:
                if n.op in (cf.SEND, cf.RECV) or find(n.op, "CPU").is_async:
                    raise Irregular(f"{n.name!r} ({n.op}) may have to wait in loop {root[0]!r}")
            for producer in (p for n in inside for p in self.live.loops.producers(n)):
                if self.live.loops.owner[producer.name][:1] != root:
                    self.entries[root] |= self.events[producer.name]
        return self.entries[root]

    def _is_fed(self, e: str) -> bool:
        if e in self.fed_nodes:  # its first output
            return f"{e}:0" in self.fed_tensors
        return ":" in e and e in self.fed_tensors

    def _bundle_unit(self, node: NodeDef, table: dict[int, int], kind: str, peer_attr: str) -> int:
        bundle, peer = self.attrs[node.name]["_bundle"], self.attrs[node.name][peer_attr]
        if bundle not in table:
            table[bundle] = self._new_unit(Unit(kind, f"{kind} of bundle {bundle}, {peer}", peer=peer, bundle=bundle))
        self.unit_of[node.name] = table[bundle]
        return table[bundle]

    def _kernel_unit(self, node: NodeDef, before: int) -> None:
        device = DeviceSpec.from_string(node.device).device_type or "CPU"
        row = self.kernels[node.name] = find(node.op, device)
        if row.is_async:
            self.unit_of[node.name] = self._new_unit(Unit(WAIT, node.name))
            self.events[node.name] = before | (1 << self.unit_of[node.name])
            return
        if before not in self.segments:
            self.segments[before] = (self._new_unit(Unit(SEGMENT, f"segment at {node.name}")), [])
        self.segments[before][1].append(node)
        self.unit_of[node.name] = self.segments[before][0]
        if (
            row.stateful
            or node.op in cf.EXIT
            or (row.aliases and any(parse(e)[0] in self.aliasing for e in self.data[node.name]))
        ):
            self.aliasing.add(node.name)
        if self.guess is not None and on_cpu(node.device):
            self.guess.see(node, self.attrs[node.name])

    def _new_unit(self, unit: Unit) -> int:
        self.units.append(unit)
        return len(self.units) - 1

    def _join(self) -> None:
        """Pending counts: a unit waits for each other unit that makes one of its inputs."""
        edges: set[tuple[int, int]] = set()
        for node in self.order:
            for e in node.input:
                producer = None if self._is_fed(e) else self.unit_of.get(node_name(e))
                if producer is not None and producer != self.unit_of.get(node.name, producer):
                    edges.add((producer, self.unit_of[node.name]))
        for a, b in sorted(edges):
            self.units[a].successors.append(b)
            self.units[b].pending += 1

    # ------------------------------------------------------------------ where a value lives

    def _slot(self, tensor: str) -> int:
        return self.slots.setdefault(tensor, len(self.slots))

    def _find_slots(self) -> None:
        """Tensors that cross units get a slot, and waits, receives and sends learn theirs."""
        for node in self.order:
            unit = self.unit_of.get(node.name)
            for e in self.data[node.name]:
                producer = self.unit_of.get(parse(e)[0])
                if not self._is_fed(e) and producer is not None and producer != unit:
                    self._slot("{}:{}".format(*parse(e)))
        for node in self.order if self.live is not None else ():
            for tensor in self._predicates(node):
                producer = self.unit_of.get(parse(tensor)[0])
                if producer is not None and producer != self.unit_of.get(node.name) and not self._is_fed(tensor):
                    self._slot(tensor)
        ports: dict[str, int] = {}  # node -> the largest of its ports that has a slot
        for name, port in (parse(t) for t in self.slots if t not in self.fed_tensors):
            ports[name] = max(port, ports.get(name, -1))
        for node in self.order:
            if node.name in self.kernels and self.kernels[node.name].is_async:
                self._wire_wait(node, ports.get(node.name, -1) + 1)
        members: dict[int, list[NodeDef]] = {}
        for node in self.order:
            members.setdefault(self.unit_of.get(node.name, -1), []).append(node)
        for index in (*self.receives.values(), *self.sends.values()):
            self._wire_bundle(index, members.get(index, []))

    def _find_frees(self, fetched: set[int | None]) -> None:
        """A slot that one unit alone reads is free when that is done."""
        readers: dict[int, set[int]] = {}
        for node in self.order if self.live is None else ():
            for e in self.data[node.name]:
                slot = None if self._is_fed(e) else self.slots.get("{}:{}".format(*parse(e)))
                if slot is not None and slot not in fetched:
                    readers.setdefault(slot, set()).add(self.unit_of[node.name])
        for slot, units in readers.items():
            if len(units) == 1:
                self.units[units.pop()].frees.append(slot)

    def _predicates(self, node: NodeDef) -> set[str]:
        """The tensors that say whether a node runs, and which of its inputs are live."""
        live: Liveness = self.live  # type: ignore[assignment]
        guard = live.guards[node.name].union(*(live.of(e) for e in node.input))
        if node.op in cf.SWITCH:
            guard |= {(live.source(node.input[1]), True)}
        return {tensor.lstrip("?") for tensor, _ in guard}

    def _tests(self, guard: cf.Guard) -> list[Test]:
        if not guard:
            return []
        atoms = cf.sorted_guard(guard, self.position)
        return [(*self._where(t.lstrip("?")), None if t.startswith("?") else sign) for t, sign in atoms]

    def _wire_wait(self, node: NodeDef, num_ports: int) -> None:
        unit, row = self.units[self.unit_of[node.name]], self.kernels[node.name]
        unit.guard = self._tests(self.live.guards[node.name]) if self.live is not None else []
        unit.function = self.bind(node, row, self.attrs[node.name])
        unit.attempt = unit.function.attempt if isinstance(unit.function, Prompt) else None
        refs = row.refs
        unit.getters = [(*self._where(e), i not in refs) for i, e in enumerate(self.data[node.name])]
        unit.slots = [self.slots.get(f"{node.name}:{port}") for port in range(num_ports)]

    def _wire_bundle(self, index: int, members: list[NodeDef]) -> None:
        """Both sides list a bundle's tensors in the order of their names; control transfers carry nothing."""
        unit = self.units[index]
        members.sort(key=lambda n: self.attrs[n.name]["tensor_name"])
        with_data = [n for n in members if not is_control(self.attrs[n.name]["tensor_name"])]
        if any(cf.may_die(n) for n in members):
            self._wire_deadness(unit, members, with_data)
        members = with_data
        unit.carried = carried_as([self.attrs[n.name] for n in members])
        if unit.kind == RECEIVE:
            unit.slots = [self.slots.get(f"{n.name}:0") for n in members]
        else:
            unit.getters = [(*self._where(n.input[0]), True) for n in members]

    def _wire_deadness(self, unit: Unit, members: list[NodeDef], with_data: list[NodeDef]) -> None:
        """The first tensor of such a bundle says of each member, control transfers among them, whether it is live."""
        if unit.kind == RECEIVE:
            unit.arrivals = [(self.slots.get(f"{n.name}:0"), n in with_data) for n in members]
        else:
            live: Liveness = self.live  # type: ignore[assignment]
            unit.members = [self._tests(live.of(n.input[0]) if cf.may_die(n) else cf.ALWAYS) for n in members]

    def _where(self, e: str) -> tuple[int | None, Any]:
        name, port = parse(e)
        tensor = f"{name}:{port}"
        if name in self.constants and tensor not in self.fed_tensors:
            return None, self.constants[name]
        return self._slot(tensor), None

    def _fetch(self, fetch: str) -> tuple[int | None, Any, bool]:
        name, _ = parse(fetch)
        if name not in self.nodes and fetch not in self.fed_tensors:
            raise InvalidArgumentError(f"Fetch {fetch!r} is not in this part of the graph")
        if self.live is not None and name in self.nodes and self.live.loops.output_frame(self.nodes[name]):
            raise InvalidArgumentError(
                self.nodes[name],
                None,
                f"Fetch {fetch!r} is in a loop, where it has a value in every iteration: fetch what leaves the loop",
            )
        return (*self._where(fetch), name in self.aliasing)

    # ------------------------------------------------------------------ code

    def _stored_ports(self) -> dict[str, list[tuple[int, int]]]:
        """Node -> the (slot, port) pairs that outlive its segment."""
        stored: dict[str, list[tuple[int, int]]] = {}
        for tensor, slot in self.slots.items():
            if tensor not in self.fed_tensors:
                name, port = parse(tensor)
                stored.setdefault(name, []).append((slot, port))
        return stored

    def _call(self, node: NodeDef, unit: int, stored: list[tuple[int, int]]) -> Call:
        row = self.kernels[node.name]
        args = [self._arg(e, unit, i not in row.refs) for i, e in enumerate(self.data[node.name])]
        stores = [(slot, port if row.multi else None) for slot, port in stored]
        in_place = row.in_place if row.in_place and _is_large(node) else ()
        if node.name in self.forms:
            args, in_place = [("const", arg[1][()]) if arg[0] == "const" else arg for arg in args], ()
        is_pure = not (row.stateful or row.refs)
        is_name, outputs = node.op in VARIABLES, len(self.attrs[node.name].get("_outputs", ()))
        return Call(node.name, self._function(node, row), args, stores, in_place, is_pure, is_name, outputs)

    def _function(self, node: NodeDef, row: Kernel) -> Any:
        if node.name in self.forms:
            return self.forms[node.name]
        if node.op in _HANDS_ON and self.guess is not None and node.name not in self.copied:
            return "{}"
        if row is self.kernels[node.name]:
            inputs = self.data[node.name]
            row = with_constants(row, len(inputs), lambda i: self._constant(inputs[i]))
        function = self.bind(node, row, self.attrs[node.name])
        return copying(function, row.multi, node.device) if node.name in self.copied else function

    def _constant(self, e: str) -> Any:
        """The value of an edge that is the same in every step, in a loop or a branch too; or None."""
        name = node_name(e)
        is_constant = not self._is_fed(e) and name in self.nodes and self.nodes[name].op == "Const"
        return self.attrs[name]["value"] if is_constant else None

    @property
    def forms(self) -> dict[str, Form]:
        return self.guess.forms if self.guess is not None else {}

    def _arg(self, e: str, unit: int, deref: bool) -> tuple[Any, ...]:
        name, port = parse(e)
        mark = "&" if deref and name in self.kernels and self.kernels[name].gives_variables else ""
        if self.unit_of.get(name) == unit and not self._is_fed(e):
            return (
                (mark + "item", self.lines[name], port)
                if self.kernels[name].multi
                else (mark + "local", self.lines[name])
            )
        slot, constant = self._where(e)
        return ("const", constant) if slot is None else (mark + "slot", slot)

    def _straight_order(self) -> list[int] | None:
        if any(u.kind != SEGMENT and u.attempt is None for u in self.units):
            return None
        pending = [u.pending for u in self.units]
        ready, order = [i for i, p in enumerate(pending) if p == 0], []
        while ready:
            order.append(ready.pop())
            for s in self.units[order[-1]].successors:
                pending[s] -= 1
                if pending[s] == 0:
                    ready.append(s)
        return order
