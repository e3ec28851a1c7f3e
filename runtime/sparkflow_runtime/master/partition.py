"""Partition: one graph a task, joined by _Send and _Recv nodes.

One transfer a tensor and destination. Transfers that can leave at the same moment share a *bundle*, which is one
message: two tensors of one task are in the same bundle for a destination when the same set of asynchronous events
(bundles received, queue operations) stands before them. That set is known before the step runs, so both sides agree
on the bundle's contents and no name travels with the data. Models with hundreds of embedding slots need one message per
parameter server and direction because of this (DESIGN.md section 3).

A task's share of a loop stays in one piece, and all that it waits for from outside stands before it. In a loop that is
on several tasks (control_loops.py) a bundle travels once an iteration. A transfer from a branch says so (`_may_die`):
its bundle then tells which of its values are live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.control_loops import Spread, Tick, body_guard, head_guard, label, spread
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.control_flow import ALWAYS, Guard, Path
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.edges import (
    CARRIED,
    CARRIED_AS,
    check_carried,
    edge,
    is_control,
    node_name,
    parse,
    topological,
)
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

SEND, RECV = "_Send", "_Recv"
_SMALL_BYTES = 1 << 12  # of a constant: it need not travel with every step


@dataclass
class _Splitter:
    """The state of one partitioning; `events[n]` is a bit set of the events of n's task that stand before n's
    outputs."""

    fed: set[str]
    made: Spread | None = None  # of a graph with control flow
    carried: str = ""  # as what float32 travels, where the producing node does not say
    pieces: dict[tuple[str, Path], int] = field(default_factory=dict)  # (task, loop) -> the events of it and before it
    parts: dict[str, GraphDef] = field(default_factory=dict)
    task: dict[str, str] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    bundles: dict[tuple[str, str, int, str], int] = field(default_factory=dict)
    transfers: dict[tuple[str, str], str] = field(default_factory=dict)
    carriers: dict[str, str] = field(default_factory=dict)  # producers that do say
    ends: dict[int, list[NodeDef]] = field(default_factory=dict)  # bundle -> its _Send and _Recv nodes
    constants: dict[str, NodeDef] = field(default_factory=dict)  # small ones: each task has its own
    next_event: int = 0

    def add(self, node: NodeDef) -> None:
        task = task_of(node.device)
        part = self.parts.setdefault(task, GraphDef())
        inputs, before = [], 0
        for e in node.input:
            new, bits = self._input(e, task)
            inputs.append(new)
            before |= bits
        path = self._loop_of(node)
        before |= self._piece(task, path)
        copy = part.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        self.task[node.name] = task
        if node.op == "Const" and not node.input and node.ByteSize() <= _SMALL_BYTES:
            self.constants[node.name] = node
        if CARRIED in node.attr:
            self.carriers[node.name] = check_carried(node.attr[CARRIED].s, f"{node.op} {node.name!r}")
        waits = registry.is_asynchronous(node.op) and (not path or self._is_shared(path))
        self.events[node.name] = before | (self._event() if waits else 0)
        if node.op in control_flow.EXIT:
            self.events[node.name] = self._piece(task, path)

    def _loop_of(self, node: NodeDef) -> Path:
        return self.made.loops.owner[node.name] if self.made is not None else ()

    def _is_shared(self, path: Path) -> bool:
        """Whether a loop is on several tasks."""
        return self.made is not None and any(p == path for _, p in self.made.ticks)

    def _piece(self, task: str, path: Path) -> int:
        """A task's share of a loop waits for all that enters it and, as far as others can see, for all that it waits
        for inside."""
        if self.made is None or not path:
            return 0
        key = (task, path)
        if key not in self.pieces:
            events = self._piece(task, path[:-1])
            inside = [n for n in self.made.loops.whole(path) if task_of(n.device) == task]
            for n in inside:
                for e in n.input:
                    if self._comes_from_outside(e, path):
                        events |= self._input(e, task)[1]
            waits = self._is_shared(path) or any(registry.is_asynchronous(n.op) for n in inside)
            self.pieces[key] = events | (self._event() if waits else 0)
        return self.pieces[key]

    def _comes_from_outside(self, e: str, path: Path) -> bool:
        loops = self.made.loops  # type: ignore[union-attr]
        return loops.is_fed(e) or loops.owner[node_name(e)][: len(path)] != path

    def _event(self) -> int:
        self.next_event += 1
        return 1 << self.next_event

    def _input(self, e: str, task: str) -> tuple[str, int]:
        """The edge as the consumer's part sees it, and the events that come with it."""
        name, port = (e[1:], 0) if is_control(e) else parse(e)
        if not is_control(e) and f"{name}:{port}" in self.fed:
            return e, 0
        if name not in self.task:
            return e, 0  # a NextIteration, of this same task
        if self.task[name] == task:
            return e, self.events[name]
        if not is_control(e) and name in self.constants:
            return self._own_constant(name, task), 0
        gate = self._gate(e, name)
        bundle = self._bundle(self.task[name], task, self.events[name], gate)
        return self._transfer(e, name, port, task, bundle, gate), 1 << bundle

    def _own_constant(self, name: str, task: str) -> str:
        own = f"{name}/_in_{label(task)}"
        if (own, task) not in self.transfers:
            copy = self.parts[task].node.add()
            copy.CopyFrom(self.constants[name])
            copy.name, copy.device = own, f"{task}/device:CPU:0"
            self.transfers[own, task] = own
        return own

    # ------------------------------------------------------------------ transfers

    def _path(self, name: str) -> Path:
        """The loop that a node's outputs are in."""
        return self.made.loops.output_frame(self.made.loops.nodes[name]) if self.made is not None else ()

    def _gate(self, e: str, name: str) -> str:
        """Which tick of its loop a transfer needs: '' outside of loops, the body's for what can only leave when the
        body runs. What leaves without having waited for others goes with the loop's condition, in one message."""
        path = self._path(name)
        if not path or self.made is None:
            return ""
        waited = self.events[name] & ~self._piece(self.task[name], path)
        return "body" if waited and body_guard(self.made.live, path) <= self.made.live.of(e) else "head"

    def _bundle(self, source: str, target: str, events: int, gate: str) -> int:
        key = (source, target, events, gate)
        if key not in self.bundles:
            self.next_event += 1
            self.bundles[key] = self.next_event
        return self.bundles[key]

    def _transfer(self, e: str, name: str, port: int, task: str, bundle: int, gate: str) -> str:
        mark = "^" if is_control(e) else ""
        key = (e if mark else f"{name}:{port}", task)
        if key not in self.transfers:
            stem = f"{name}/_{'control' if mark else port}_to_{label(task)}"
            source = self.task[name]
            attrs = {"tensor_name": key[0], "send_device": source, "recv_device": task, "_bundle": bundle}
            carried = "" if mark else self.carriers.get(name, self.carried)
            if carried not in ("", CARRIED_AS[0]):
                attrs[CARRIED] = carried
            if self._may_die(e, name, gate):
                attrs[control_flow.MAY_DIE] = True
            ticks = [self._tick(t, name, gate) for t in (source, task)]
            inputs = [mark + (name if mark else edge(name, port))]
            ends = self.ends.setdefault(bundle, [])
            ends.append(_add(self.parts[source], SEND, stem + "/send", inputs + ticks[0], attrs))
            ends.append(_add(self.parts[task], RECV, stem + "/recv", ticks[1], attrs))
            self.transfers[key] = stem + "/recv"
        return mark + self.transfers[key]

    def _may_die(self, e: str, name: str, gate: str) -> bool:
        if self.made is None:
            return False
        live, path = self.made.live, self._path(name)
        runs: Guard = ALWAYS if not gate else (head_guard if gate == "head" else body_guard)(live, path)
        return bool(live.irregular) or bool(live.of(e) - runs)

    def _tick(self, task: str, name: str, gate: str) -> list[str]:
        if not gate or self.made is None:
            return []
        tick: Tick = self.made.ticks[task, self._path(name)]
        return ["^" + (tick.body if gate == "body" else tick.head)]

    def name_bundles(self) -> None:
        """Give each bundle the number that follows from its contents alone, so that a part which two signatures have in
        common is the same part."""
        taken: dict[int, int] = {}
        for bundle, nodes in self.ends.items():
            contents = "\n".join(sorted(node.name for node in nodes))
            number = int.from_bytes(blake2b(contents.encode(), digest_size=8).digest()) >> 1
            while taken.setdefault(number, bundle) != bundle:
                number += 1  # two of 2**63 met
            for node in nodes:
                node.attr["_bundle"].i = number


def _add(part: GraphDef, op: str, name: str, inputs: list[str], attrs: dict[str, object]) -> NodeDef:
    node = part.node.add(
        op=op, name=name, device=str(attrs["send_device" if op == SEND else "recv_device"]) + "/device:CPU:0"
    )
    node.input.extend(inputs)
    for key, value in attrs.items():
        node.attr[key].CopyFrom(encode(value))
    return node


def partition(graph: GraphDef, feeds: Iterable[str] = (), carried: str = "") -> dict[str, GraphDef]:
    """Task name -> its part of a placed graph. feeds ('name:port') go to their consumers with the run request
    instead. carried: the dtype in which float32 travels between tasks, where a node's attribute says nothing."""
    fed = {*feeds}
    made = spread(graph.node, fed) if control_flow.has_control_flow(graph.node) else None
    splitter = _Splitter(fed, made, check_carried(carried, "The session"))
    for node in made.loops.order if made is not None else topological(list(graph.node), fed):
        splitter.add(node)
    splitter.name_bundles()
    return splitter.parts
