"""Fewer values that cross between a host's memory and its GPUs': what only puts values together, or takes them apart,
does so on the host where they come from there, or go there.

Rows of many tables that parameter servers send are then one matrix before they cross, and its gradient crosses whole
and is summed by id on the host, for the servers; the passes that do both for all tables at once take them as on a CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sparkflow_runtime.kernels import memories, registry
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import data_inputs, is_control, parse
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_RESHAPES = frozenset(["Reshape", "ExpandDims", "Squeeze", "Identity"])
_TOGETHER = _RESHAPES | {"ConcatV2", "Pack"}
_APART = _RESHAPES | {"Split", "SplitV", "Unpack", "Slice"}
_LIGHT = (  # as ids are made of a batch, on their way from the host to tables that are not on the GPU
    _TOGETHER
    | _APART
    | {"StridedSlice", "Cast", "Transpose", "Tile", "FloorMod", "FloorDiv", "Mod", "Add", "AddV2", "Sub", "Mul"}
    | {"Maximum", "Minimum", "Abs", "Neg", "Select", "SelectV2", "Equal", "NotEqual", "Less", "Greater", "GreaterEqual"}
)


def settle_on_hosts(placed: GraphDef, fed: Collection[str]) -> None:
    """Move such nodes of a placed graph, in which producers come before consumers, to the CPU of their task. fed:
    'name:port'."""
    if all(on_cpu(n.device) for n in placed.node):
        return
    hosts = _Hosts(placed, frozenset(fed))
    for node in hosts.passing():
        _to_host(node)
    for node in placed.node:
        if not on_cpu(node.device) and hosts.comes_from_host(node):
            _to_host(node)
    for node in reversed(placed.node):
        if not on_cpu(node.device) and hosts.goes_to_host(node):
            _to_host(node)


def _to_host(node: NodeDef) -> None:
    node.device = f"{task_of(node.device)}/device:CPU:0"


class _Hosts:
    def __init__(self, placed: GraphDef, fed: frozenset[str]):
        self._nodes, self._fed = {n.name: n for n in placed.node}, fed
        self._users: dict[str, list[NodeDef]] = defaultdict(list)  # of a node's outputs
        for node in placed.node:
            for e in data_inputs(node):
                self._users[parse(e)[0]].append(node)

    def passing(self) -> list[NodeDef]:
        """Light nodes that lead from hosts to hosts by light nodes alone."""
        there: dict[str, NodeDef] = {}
        for node in self._nodes.values():
            if node.op in _LIGHT and not on_cpu(node.device) and not memories.hands_on_handle(node):
                values = self._values(node)
                if values and all(self._on_host(e) or parse(e)[0] in there for e in values):
                    there[node.name] = node
        for node in reversed(list(there.values())):
            users = self._users[node.name]
            if not users or not all(self._is_elsewhere(u, node) or u.name in there for u in users):
                del there[node.name]
        return list(there.values())

    def comes_from_host(self, node: NodeDef) -> bool:
        if node.op not in _TOGETHER or memories.hands_on_handle(node):
            return False
        values = self._values(node)
        return bool(values) and all(map(self._on_host, values)) and not all(map(self._is_constant, values))

    def goes_to_host(self, node: NodeDef) -> bool:
        """Of a Slice, that others part the same tensor, which crosses whole then."""
        if node.op == "UnsortedSegmentSum":
            return self._is_for_hosts(node) and self._sums_by_id(node)
        if node.op not in _APART or not self._is_for_hosts(node) or self._reads_variable(node):
            return False
        return node.op != "Slice" or len(self._parts(node)) > 1

    # ------------------------------------------------------------------ where values are

    def _values(self, node: NodeDef) -> list[str]:
        """Its inputs but those that say how to compute."""
        inputs = data_inputs(node)
        about = memories.host_inputs(node, len(inputs))
        return [e for i, e in enumerate(inputs) if i not in about]

    def _on_host(self, e: str) -> bool:
        name, port = parse(e)
        node = self._nodes.get(name)
        return node is None or f"{name}:{port}" in self._fed or on_cpu(node.device) or memories.gives_host(node, port)

    def _is_constant(self, e: str) -> bool:
        node = self._nodes.get(parse(e)[0])
        return node is not None and node.op == "Const"

    @staticmethod
    def _is_elsewhere(user: NodeDef, node: NodeDef) -> bool:
        return on_cpu(user.device) or task_of(user.device) != task_of(node.device)

    def _is_for_hosts(self, node: NodeDef) -> bool:
        users = self._users[node.name]
        return bool(users) and all(self._is_elsewhere(user, node) for user in users)

    def _sums_by_id(self, node: NodeDef) -> bool:
        name, port = parse(node.input[1])
        return port == 1 and name in self._nodes and self._nodes[name].op == "Unique"

    def _parts(self, node: NodeDef) -> list[NodeDef]:
        """The Slices of the same tensor that go to hosts too, or have been moved there."""
        same = [u for u in self._users[parse(node.input[0])[0]] if u.op == "Slice" and u.input[0] == node.input[0]]
        return [u for u in same if self._is_for_hosts(u)]

    def _reads_variable(self, node: NodeDef) -> bool:
        source = self._nodes.get(parse(node.input[0])[0])
        row = None if source is None or is_control(node.input[0]) else registry.rows(source.op)[0]
        return row is not None and row.gives_variables
