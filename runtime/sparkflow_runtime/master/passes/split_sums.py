"""Sums by id of a sum of gradients become the sum of what each gradient's sums by id are.

Where a layer takes rows that something else takes too, as in a factorization machine beside layers, the rows' gradient
is the sum of both, and what travels are its sums by id. Of each addend by itself, that of the layer can do without the
layer's gradient of the rows (spread_products.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import CARRIED, both_spellings, data_inputs, is_control, node_name, parse, topological
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES


def split_sums(graph: GraphDef, feeds: Collection[str], kept: Collection[str]) -> tuple[GraphDef, list[str]] | None:
    """The graph in which layers' gradients of rows are summed by themselves, and the nodes that do so; None where there
    are none. kept: nodes that are fetched, fed or run by name."""
    return _Splitter(graph, feeds, kept).split()


class _Addend(NamedTuple):
    product: str  # the gradient that a layer gives
    begin: int  # the first of its columns that is one of the sum's


class _Splitter:
    def __init__(self, graph: GraphDef, feeds: Collection[str], kept: Collection[str]):
        self.graph, self.feeds, self.kept = graph, feeds, kept
        self.nodes, self.fed = {n.name: n for n in graph.node}, both_spellings(feeds)
        self.users: dict[str, list[tuple[NodeDef, str]]] = defaultdict(list)
        for node in graph.node:
            for e in node.input:
                self.users[node_name(e)].append((node, e))
        self.made: list[NodeDef] = []
        self.changed: dict[str, NodeDef] = {}
        self.own: list[str] = []

    def split(self) -> tuple[GraphDef, list[str]] | None:
        for node in self.graph.node:
            if node.op == "AddN" and (sums := self._sums(node)):
                addends = [self._of_layer(e, node) for e in data_inputs(node)]
                whole = all(a is not None and not a.begin and e == a.product for a, e in zip(addends, node.input))
                if any(addends) and not whole:  # spread_products.py knows of sums of nothing but layers' gradients
                    self._split(node, addends, sums)
        if not self.own:
            return None
        nodes = [self.changed.get(n.name, n) for n in self.graph.node] + self.made
        return NodeList(topological(self._without_idle(nodes), self.feeds), self.graph.versions), self.own

    def _without_idle(self, nodes: list[NodeDef]) -> list[NodeDef]:
        """Without sums, and columns, that nobody takes any more."""
        for op in ("AddN", "Slice"):
            taken = {node_name(e) for n in nodes for e in n.input}
            nodes = [n for n in nodes if n.op != op or n.name in taken or not self.users[n.name]]
        return nodes

    def _sums(self, total: NodeDef) -> list[NodeDef]:
        """The sums by id of a sum's columns, where nothing else takes it."""
        found = []
        if total.name in self.kept or any(map(is_control, total.input)):
            return []
        for user, e in self.users[total.name]:
            given = data_inputs(user)
            if user.op != "_SumToDistinct" or "columns" not in user.attr or user.device != total.device:
                return []
            if given[0] != e or len(given) != 4 or user.name in self.kept:
                return []
            found.append(user)
        return found

    def _of_layer(self, e: str, total: NodeDef) -> _Addend | None:
        """An addend that is columns of the gradient that a layer above a `_SpreadConcat` gives."""
        node, begin = self._node(e), 0
        if node is not None and node.op == "Slice" and len(self.users[node.name]) == 1:
            at, size = (constant(self.nodes, x, self.feeds) for x in data_inputs(node)[1:])
            if at is None or size is None or at.shape != (2,) or at[0] != 0 or size[0] != -1 or len(node.input) != 3:
                return None
            e, begin = node.input[0], int(at[1])
            node = self._node(e)
        if node is None or node.device != total.device or not self._multiplies(node, False, True):
            return None
        dz = data_inputs(node)[0]
        for user, edge in [] if dz in self.fed else self.users[node_name(dz)]:
            source = (
                self._node(user.input[0]) if self._multiplies(user, True, False) and user.input[1] == edge else None
            )
            if source is not None and source.op == "_SpreadConcat" and parse(user.input[0])[1] == 0:
                return _Addend(e, begin)
        return None

    def _node(self, e: str) -> NodeDef | None:
        """Whose first output an edge is, where that is not fed."""
        name, port = parse(e)
        return None if e in self.fed or port or name in self.kept else self.nodes.get(name)

    @staticmethod
    def _multiplies(node: NodeDef, turned_a: bool, turned_b: bool) -> bool:
        if node.op != "MatMul" or node.attr["T"].type != dtypes.float32.as_datatype_enum:
            return False
        return (node.attr["transpose_a"].b, node.attr["transpose_b"].b) == (turned_a, turned_b)

    def _split(self, total: NodeDef, addends: list[_Addend | None], sums: list[NodeDef]) -> None:
        rest = [e for e, found in zip(data_inputs(total), addends) if found is None]
        if len(rest) > 1:
            rest = [self._add(f"{total.name}/rest", rest, total)]
        for node in sums:
            parts = [
                self._summed(f"{node.name}/{k}", node, a.product, a.begin)
                for k, a in enumerate(a for a in addends if a is not None)
            ]
            self.own += parts
            parts += [self._summed(f"{node.name}/rest", node, e, 0) for e in rest]
            self.changed[node.name] = self._added(node.name, parts, node)
            self.changed[node.name].input.extend(e for e in node.input if is_control(e))

    def _summed(self, name: str, node: NodeDef, e: str, begin: int) -> str:
        made = NodeDef()
        made.CopyFrom(node)
        made.name, made.input[0] = name, e
        made.attr["columns"].CopyFrom(wire_attrs.encode([begin + c for c in node.attr["columns"].list.i]))
        self.made.append(made)
        return name

    def _add(self, name: str, parts: list[str], like: NodeDef) -> str:
        self.made.append(self._added(name, parts, like))
        return name

    @staticmethod
    def _added(name: str, parts: list[str], like: NodeDef) -> NodeDef:
        made = NodeDef(name=name, op="AddN", device=like.device, input=parts)
        made.attr["N"].i, made.attr["T"].type = len(parts), dtypes.float32.as_datatype_enum
        for key in (SHAPES, CARRIED, "_class"):
            if key in like.attr:
                made.attr[key].CopyFrom(like.attr[key])
        return made
