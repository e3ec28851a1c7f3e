"""Values that cross from a GPU's memory to the host's or back, each by a node of its own.

A copy is made once for all consumers that want it, but for one of a variable: that holds what the variable is when its
consumer runs, and waits for what that waits for. Between two GPUs, and between tasks, values go by the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime.kernels import memories, registry
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import is_control, node_name, parse
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES

_HOST = ""  # stands for the memory of any task's host


def across_memories(
    placed: GraphDef, feeds: Sequence[str], fetches: Sequence[str]
) -> tuple[GraphDef | NodeList, dict[str, str]]:
    """The placed graph, every producer before its consumers, with the copies that it needs; and for each fetch whose
    value is on a GPU, the 'name:port' that has it on the host."""
    if all(on_cpu(device) for device in {n.device for n in placed.node}):
        return placed, {}
    copies = _Copies({n.name: n for n in placed.node}, frozenset("{}:{}".format(*parse(f)) for f in feeds))
    nodes = [one for node in placed.node for one in copies.added(node)]
    fetched = {}
    for fetch in fetches:
        name, port = parse(fetch)
        if fetch not in copies.fed and name in copies.nodes and copies.memory_of(name, port) != _HOST:
            fetched[fetch] = "{}:{}".format(*parse(copies.on_host(fetch, nodes, None)))
    return NodeList(nodes, placed.versions), fetched


@dataclass
class _Copies:
    nodes: dict[str, NodeDef]
    fed: frozenset[str]
    made: dict[tuple[str, str], str] = field(default_factory=dict)  # (edge, memory) -> the edge that has it there

    def memory_of(self, name: str, port: int) -> str:
        """A GPU's device name, or _HOST."""
        node = self.nodes.get(name)
        if node is None or f"{name}:{port}" in self.fed or on_cpu(node.device) or memories.gives_host(node, port):
            return _HOST
        return node.device

    def added(self, node: NodeDef) -> Iterator[NodeDef]:
        """The copies that a node's inputs need, and the node as it takes them."""
        data = [e for e in node.input if not is_control(e)]
        there = _HOST if on_cpu(node.device) else node.device
        on_host = memories.host_inputs(node, len(data)) if there else frozenset()
        anywhere = memories.as_they_are(node, len(data))
        takes_any = registry.ref_positions(node.op) is registry.EVERY_INPUT
        before: list[NodeDef] = []
        inputs = list(node.input)
        for position, e in enumerate(data):
            source = self.memory_of(*parse(e))
            wanted = _HOST if position in on_host else there
            crosses = source and node_name(e) in self.nodes and task_of(source) != task_of(node.device)
            is_variable = self._is_variable(e)
            lent = position in anywhere or (is_variable and takes_any)
            if not crosses and (source == wanted or lent):
                continue
            user = node if is_variable else None
            if source != _HOST:
                e = self.on_host(e, before, user)
            if wanted != _HOST:
                e = self._on_device(e, wanted, before, user)
            inputs[position] = e
        yield from before
        if before or inputs != list(node.input):
            node = _copy_of(node)
            node.input[:] = inputs
        yield node

    def on_host(self, e: str, into: list[NodeDef], user: NodeDef | None) -> str:
        task = task_of(self.nodes[node_name(e)].device)
        return self._copied("_ToHost", e, f"{task}/device:CPU:0", _HOST, into, user)

    def _on_device(self, e: str, device: str, into: list[NodeDef], user: NodeDef | None) -> str:
        return self._copied("_ToDevice", e, device, device, into, user)

    def _copied(self, op: str, e: str, device: str, memory: str, into: list[NodeDef], user: NodeDef | None) -> str:
        name, port = parse(e)
        key = (f"{name}:{port}", memory if user is None else f"{memory} for {user.name}")
        if key not in self.made:
            label = "host" if memory == _HOST else device.rpartition("/")[2].replace(":", "_")
            made = NodeDef(name=f"{name}/_{port}_on_{label}_{len(self.made)}", op=op, device=device, input=[e])
            if user is not None:
                made.input.extend(c for c in user.input if is_control(c))
            self._describe(made, name, port)
            into.append(made)
            self.made[key] = made.name
        return self.made[key]

    def _describe(self, made: NodeDef, name: str, port: int) -> None:
        source = self.nodes.get(name)
        if source is None:
            return
        shapes = source.attr[SHAPES].list.shape if SHAPES in source.attr else ()
        if port < len(shapes):
            made.attr[SHAPES].list.shape.append(shapes[port])
        if made.op == "_ToDevice" and source.op == "Const" and not source.input and f"{name}:{port}" not in self.fed:
            made.attr[memories.CONSTANT].CopyFrom(encode(True))

    def _is_variable(self, e: str) -> bool:
        """Whether the edge carries a variable itself, which is read when it is copied."""
        node = self.nodes.get(node_name(e))
        row = None if node is None or "{}:{}".format(*parse(e)) in self.fed else registry.rows(node.op)[0]
        return row is not None and row.gives_variables


def _copy_of(node: NodeDef) -> NodeDef:
    copy = NodeDef()
    copy.CopyFrom(node)
    return copy
