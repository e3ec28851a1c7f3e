"""Sides of a cond that a signature never runs go, and with them the cond.

Layers that behave otherwise in training (dropout, batch normalization) ask a placeholder with a default: Keras'
learning phase, or one of the model's own. Where a step does not feed it, it is a constant, and what is left of a cond
is one side's nodes: a Switch is an Identity then, and a Merge of one input too. So the passes behind see no control
flow, and fuse across it. This comes before all other passes, which ask what is inside of what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import constant, encode
from sparkflow_runtime.wire.edges import both_spellings, data_inputs, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES

_DEEPEST = 50  # ops between a predicate and what decides it


def dead_branches(
    graph: GraphDef | NodeList, feeds: Collection[str], fetches: Iterable[str], targets: Iterable[str]
) -> GraphDef | NodeList:
    """The graph without what cannot run; as it is, where somebody asks for such a node. feeds, fetches: 'name:port'."""
    if not any(n.op == "Switch" for n in graph.node):
        return graph
    return _Branches(graph, feeds).without({parse(f) for f in fetches}, set(targets))


class _Branches:
    def __init__(self, graph: GraphDef | NodeList, feeds: Collection[str]):
        self.graph, self.fed = graph, both_spellings(feeds)
        self.nodes = {n.name: n for n in graph.node}
        self._known: dict[str, bool | None] = {}
        self._waiting: set[str] = set()  # of these, the ones that wait for something besides

    def without(self, fetches: set[tuple[str, int]], targets: set[str]) -> GraphDef | NodeList:
        inside = self._in_loops()
        switches = [n for n in self.graph.node if n.op == "Switch" and n.name not in inside]
        sides = {n.name: side for n in switches if (side := self._side(n)) is not None}
        if not sides:
            return self.graph
        alive = self._alive(sides)
        merges = {
            n.name: [e for e in data_inputs(n) if self._comes(e, alive, sides)]
            for n in self.graph.node
            if n.op == "Merge" and n.name in alive
        }
        merges = {name: left for name, left in merges.items() if len(left) < len(data_inputs(self.nodes[name]))}
        kept = {name for name, _ in fetches} | targets | {node_name(e) for e in self.fed}
        if not kept & self.nodes.keys() <= alive or kept & sides.keys() or any(len(e) > 1 for e in merges.values()):
            return self.graph
        if any(port and name in merges for name, port in fetches):
            return self.graph
        out = self._written(alive, sides, merges)
        return self.graph if self._loses_state(out, alive, kept) else out

    @staticmethod
    def _loses_state(out: NodeList, alive: Collection[str], kept: Iterable[str]) -> bool:
        """Whether something that a step changes has led to nothing but sides that do not run, as the next element of an
        iterator that only training takes: it is there for every step, whatever that is fed."""
        nodes, needed, left = {n.name: n for n in out.node}, set[str](), list(kept)
        while left:
            if (name := left.pop()) in nodes and name not in needed:
                needed.add(name)
                left += map(node_name, nodes[name].input)
        idle = (n.op for n in out.node if n.name in alive and n.name not in needed)
        return any(registry.keeps_state(op) and op not in registry.VARIABLES for op in idle)

    def _in_loops(self) -> set[str]:
        """The nodes of loops: gradients keep by iteration what their conds decided."""
        users: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, node in self.nodes.items():
            for e in node.input:
                if node_name(e) in users:
                    users[node_name(e)].append(name)
        left, found = [n.name for n in self.graph.node if n.op == "Enter"], set[str]()
        while left:
            if (name := left.pop()) not in found and self.nodes[name].op != "Exit":
                found.add(name)
                left += users[name]
        return found

    def _side(self, switch: NodeDef) -> int | None:
        """Which output of a Switch has a value in every step, where that is known."""
        known = self._decided(switch.input[1], _DEEPEST)
        return None if known is None else int(known)

    def _decided(self, e: str, depth: int) -> bool | None:
        """The value of a predicate that no step decides."""
        name, port = parse(e)
        node = self.nodes.get(name)
        if e in self.fed or node is None or (port and node.op != "Switch") or not depth:
            return None
        if name not in self._known:
            given = data_inputs(node)
            self._known[name] = self._of(node, [self._decided(one, depth - 1) for one in given])
            if len(given) < len(node.input) or any(node_name(one) in self._waiting for one in given):
                self._waiting.add(name)
        return self._known[name]

    @staticmethod
    def _of(node: NodeDef, given: list[bool | None]) -> bool | None:
        if node.op == "Const" and node.attr["dtype"].type == dtypes.bool_.as_datatype_enum:
            value = constant(node.attr["value"])
            return bool(value) if value.size == 1 else None
        if node.op in ("Identity", "PlaceholderWithDefault", "Switch"):
            return given[0]
        if node.op == "LogicalNot":
            return None if given[0] is None else not given[0]
        if node.op in ("LogicalAnd", "LogicalOr"):
            decides = node.op == "LogicalOr"
            return decides if decides in given else None if None in given else not decides
        return None

    # ------------------------------------------------------------------ what runs

    def _comes(self, e: str, alive: Collection[str], sides: dict[str, int]) -> bool:
        """Whether an edge has a value at some time."""
        if e in self.fed:
            return True
        name, port = (e[1:], -1) if is_control(e) else parse(e)
        return name in alive and (port < 0 or sides.get(name, port) == port)

    def _alive(self, sides: dict[str, int]) -> set[str]:
        """The nodes that can run: all that they wait for can, of a Merge one of its inputs."""
        waits: dict[str, int] = {}
        users: dict[str, list[tuple[str, str]]] = {name: [] for name in self.nodes}
        ready: list[str] = []
        for name, node in self.nodes.items():
            given = [e for e in node.input if e not in self.fed and node_name(e) in self.nodes]
            waits[name] = len(given)
            if node.op == "Merge":
                waits[name] = sum(map(is_control, given)) + (len(data_inputs(node)) > 0)
            for e in given:
                users[node_name(e)].append((name, e))
            if not waits[name]:
                ready.append(name)
        alive, merged = set[str](), set[str]()
        while ready:
            name = ready.pop()
            alive.add(name)
            for user, e in users[name]:
                if not self._comes(e, alive, sides):
                    continue
                if self.nodes[user].op == "Merge" and not is_control(e):
                    if user in merged:
                        continue
                    merged.add(user)
                waits[user] -= 1
                if not waits[user]:
                    ready.append(user)
        return alive

    # ------------------------------------------------------------------ what is left

    def _written(self, alive: set[str], sides: dict[str, int], merges: dict[str, list[str]]) -> NodeList:
        made: list[NodeDef] = []
        which: dict[str, str] = {}  # a Merge -> the constant that says which of its inputs came
        for node in self.graph.node:
            if node.name not in alive:
                continue
            if node.name in sides:
                predicate = node_name(node.input[1])
                also = [f"^{predicate}"] if predicate in self._waiting else []
                node = self._identity(node, node.input[0], sides[node.name], also)
            elif node.name in merges:
                (left,) = merges[node.name]
                which[node.name] = f"{node.name}/value_index"
                made.append(self._index(which[node.name], node, list(node.input).index(left)))
                node = self._identity(node, left, 0)
            made.append(node)
        out = [with_inputs(n, [self._edge(e, sides, which) for e in n.input]) for n in made]
        return NodeList(out, self.graph.versions)

    @staticmethod
    def _edge(e: str, sides: dict[str, int], which: dict[str, str]) -> str:
        if is_control(e):
            return e
        name, port = parse(e)
        if name in sides:
            return name
        return which[name] if port and name in which else e

    @staticmethod
    def _identity(node: NodeDef, value: str, port: int, also: Iterable[str] = ()) -> NodeDef:
        """also: what it waits for besides."""
        made = NodeDef(name=node.name, op="Identity", device=node.device)
        made.input[:] = [value, *dict.fromkeys([*(e for e in node.input if is_control(e)), *also])]
        for key in ("T", "_class"):
            if key in node.attr:
                made.attr[key].CopyFrom(node.attr[key])
        if SHAPES in node.attr and port < len(node.attr[SHAPES].list.shape):
            made.attr[SHAPES].list.shape.append(node.attr[SHAPES].list.shape[port])
        return made

    @staticmethod
    def _index(name: str, merge: NodeDef, number: int) -> NodeDef:
        made = NodeDef(name=name, op="Const", device=merge.device)
        made.attr["dtype"].CopyFrom(encode(dtypes.int32))
        made.attr["value"].CopyFrom(encode(np.array(number, np.int32)))
        made.input[:] = [f"^{merge.name}"]
        return made
