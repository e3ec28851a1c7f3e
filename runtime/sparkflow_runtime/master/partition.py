"""Partition: one graph a task, joined by _Send and _Recv nodes.

One transfer a tensor and destination. Transfers that can leave at the same moment share a *bundle*, which is one
message: two tensors of one task are in the same bundle for a destination when the same set of asynchronous events
(bundles received, queue operations) stands before them. That set is known before the step runs, so both sides agree
on the bundle's contents and no name travels with the data. Models with hundreds of embedding slots need one message per
parameter server and direction because of this (DESIGN.md section 3).

A loop stays in one piece on one task, and all that it waits for stands before it. A transfer from a branch says so
(`_may_die`): its bundle then tells which of its values are live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.control_flow import Liveness, Path
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.edges import edge, is_control, node_name, parse, topological
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

SEND, RECV = "_Send", "_Recv"


@dataclass
class _Splitter:
    """The state of one partitioning; `events[n]` is a bit set of the events of n's task that stand before n's
    outputs."""

    fed: set[str]
    live: Liveness | None = None  # of a graph with control flow
    loops: dict[Path, int] = field(default_factory=dict)  # outermost loop -> the events of it and before it
    parts: dict[str, GraphDef] = field(default_factory=dict)
    task: dict[str, str] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    bundles: dict[tuple[str, str, int], int] = field(default_factory=dict)
    transfers: dict[tuple[str, str], str] = field(default_factory=dict)
    ends: dict[int, list[NodeDef]] = field(default_factory=dict)  # bundle -> its _Send and _Recv nodes
    next_event: int = 0

    def add(self, node: NodeDef) -> None:
        task = task_of(node.device)
        part = self.parts.setdefault(task, GraphDef())
        inputs, before = [], 0
        for e in node.input:
            new, bits = self._input(e, task)
            inputs.append(new)
            before |= bits
        before |= self._loop_events(node, task)
        copy = part.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        self.task[node.name] = task
        waits = registry.is_asynchronous(node.op) and not self._loop_of(node)
        self.events[node.name] = before | (self._event() if waits else 0)

    def _loop_of(self, node: NodeDef) -> Path:
        """The outermost loop that a node is in."""
        return self.live.loops.owner[node.name][:1] if self.live is not None else ()

    def _loop_events(self, node: NodeDef, task: str) -> int:
        """All of a loop waits for all that enters it and, as far as others can see, for all that it waits for."""
        root = self._loop_of(node)
        if self.live is None or not root:
            return 0
        if root not in self.loops:
            self.loops[root] = 0
            inside = self.live.loops.whole(root)
            names = {n.name for n in inside}
            for n in inside:
                self.loops[root] |= self._event() if registry.is_asynchronous(n.op) else 0
                for e in n.input:
                    if node_name(e) not in names:
                        self.loops[root] |= self._input(e, task)[1]
        return self.loops[root]

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
        bundle = self._bundle(self.task[name], task, self.events[name])
        return self._transfer(e, name, port, task, bundle), 1 << bundle

    def _bundle(self, source: str, target: str, events: int) -> int:
        key = (source, target, events)
        if key not in self.bundles:
            self.next_event += 1
            self.bundles[key] = self.next_event
        return self.bundles[key]

    def _transfer(self, e: str, name: str, port: int, task: str, bundle: int) -> str:
        mark = "^" if is_control(e) else ""
        key = (e if mark else f"{name}:{port}", task)
        if key not in self.transfers:
            stem = f"{name}/_{'control' if mark else port}_to_{task.strip('/').replace('/', '_').replace(':', '')}"
            attrs = {"tensor_name": key[0], "send_device": self.task[name], "recv_device": task, "_bundle": bundle}
            if self.live is not None and (self.live.irregular or self.live.of(e)):
                attrs[control_flow.MAY_DIE] = True
            source = mark + (name if mark else edge(name, port))
            ends = self.ends.setdefault(bundle, [])
            ends.append(_add(self.parts[self.task[name]], SEND, stem + "/send", [source], attrs))
            ends.append(_add(self.parts[task], RECV, stem + "/recv", [], attrs))
            self.transfers[key] = stem + "/recv"
        return mark + self.transfers[key]

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


def partition(graph: GraphDef, feeds: Iterable[str] = ()) -> dict[str, GraphDef]:
    """Task name -> its part of a placed graph. feeds ('name:port') go to their consumers with the run request
    instead."""
    fed = {*feeds}
    live, order = None, None
    if control_flow.has_control_flow(graph.node):
        loops = control_flow.find_loops(graph.node, fed)
        control_flow.check_one_task(loops, {n.name: task_of(n.device) for n in graph.node})
        live, order = control_flow.find_guards(loops), loops.order
    splitter = _Splitter(fed, live)
    for node in order or topological(list(graph.node), fed):
        splitter.add(node)
    splitter.name_bundles()
    return splitter.parts
