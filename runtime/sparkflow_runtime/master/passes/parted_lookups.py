"""A look-up in a table that is cut into shards: how it looks in a graph, in TensorFlow's nodes and in ours.

Ids are sorted by shard, each part is looked up beside its shard, and the rows are put back in the order of the ids:
DynamicStitch(DynamicPartition(range(size(ids)), shard), GatherV2(table k, DynamicPartition(local, shard)[k]) ...).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sizes import static_shape

_STITCHES = ("DynamicStitch", "ParallelDynamicStitch")
_CHOICES = ("Select", "SelectV2")
_ONES = ("Identity", "Cast")  # what may stand above the number of a shard


class Cut(NamedTuple):
    """Where row i is. each 0: in shard i % n; else shards hold so many consecutive rows each, the first `extra` of them
    one more."""

    each: int
    extra: int


class PartedLookup(NamedTuple):
    stitch: NodeDef
    ids: str
    parts: str  # the DynamicPartition of the ids within their shards
    places: str  # and that of the places of the ids
    gathers: tuple[str, ...]
    cut: Cut


class _Scope(NamedTuple):
    """What is inside of a fused node."""

    nodes: dict[str, NodeDef]
    outer: dict[str, str]  # an edge from outside, by its name inside
    outputs: list[str]


class _At(NamedTuple):
    """An edge, of the graph or inside of a fused node."""

    scope: str
    edge: str


@dataclass
class PartedLookups:
    """Finds them. regions: of a placed graph."""

    regions: Regions

    def __post_init__(self) -> None:
        self._nodes, self._scope = self.regions.nodes, cache(self._scope_of)

    def found(self) -> Iterator[PartedLookup]:
        for node in self.regions.graph.node:
            if node.op in _STITCHES and (one := self._parted(node)) is not None:
                yield one

    def _parted(self, stitch: NodeDef) -> PartedLookup | None:
        given = data_inputs(stitch)
        count = len(given) // 2
        places = self._partition(given[:count], count)
        gathers = [self._gather(e, stitch) for e in given[count:]]
        if count < 2 or places is None or None in gathers:
            return None
        looked_up = [self._nodes[name] for name in gathers if name is not None]
        parts = self._partition([data_inputs(g)[1] for g in looked_up], count)
        if parts is None or data_inputs(parts)[1] != data_inputs(places)[1]:
            return None
        local, shard = (_At("", e) for e in data_inputs(parts))
        ids, cut = self._cut(local, shard, count) or ("", None)
        positions, numbers = data_inputs(places)
        if cut is None or not self._counts(positions, numbers, ids):
            return None
        return PartedLookup(stitch, ids, parts.name, places.name, tuple(g.name for g in looked_up), cut)

    def partition_of(self, e: str) -> tuple[str, int]:
        """(the DynamicPartition, which of its parts) behind Identity and Reshape nodes; ("", 0) where there is none."""
        while not self.regions.is_fed(e) and (node := self._nodes.get(node_name(e))) is not None:
            if node.op == "DynamicPartition":
                return parse(e)
            if node.op not in ("Identity", "Reshape") or any(map(is_control, node.input)):
                break
            e = node.input[0]
        return "", 0

    def _partition(self, parts: list[str], count: int) -> NodeDef | None:
        """The DynamicPartition that these edges are all parts of, in order."""
        if any(map(self.regions.is_fed, parts)) or [parse(e)[1] for e in parts] != [*range(count)]:
            return None
        if len({node_name(e) for e in parts}) > 1:
            return None
        node = self._nodes[node_name(parts[0])]
        same = node.op == "DynamicPartition" and node.attr["num_partitions"].i == count
        return node if same and not any(map(is_control, node.input)) else None

    def _gather(self, e: str, stitch: NodeDef) -> str | None:
        """The GatherV2 that the stitch has these rows of, where nobody else takes them."""
        taker = stitch
        while not self.regions.is_fed(e):
            node = self._nodes[node_name(e)]
            takers = self.regions.consumers[node.name]
            if [consumer.name for consumer, _ in takers] != [taker.name]:
                return None
            if node.op == "GatherV2":
                return node.name
            if node.op != "Identity" or len(node.input) > 1:
                return None
            taker, e = node, node.input[0]
        return None

    # ------------------------------------------------------------------ arithmetic

    def _cut(self, local: _At, shard: _At, count: int) -> tuple[str, Cut] | None:
        """(ids, how they are cut), from the numbers of rows within their shards and those of shards."""
        above, given = self._step(shard)
        while above is not None and above.op in _ONES:
            shard = given[0]
            above, given = self._step(shard)
        if above is None:
            return None
        if above.op == "FloorMod":
            whole = self._pair(local, "FloorDiv")
            same = whole is not None and whole[1] == count and whole == self._pair(shard, "FloorMod")
            return (whole[0], Cut(0, 0)) if same and whole is not None else None
        return self._consecutive(local, above) if above.op == "Maximum" else None

    def _consecutive(self, local: _At, most: NodeDef) -> tuple[str, Cut] | None:
        """shard = max(ids // (each + 1), (ids - extra) // each), and local = ids % (each + 1) where shard < extra, else
        (ids - extra) % each."""
        choice, given = self._step(local)
        if choice is None or choice.op not in _CHOICES or len(given) != 3:
            return None
        test, sides = self._step(given[0])
        if test is None or test.op != "Less":
            return None
        (lower, shards), extra = self._step(sides[0]), self._number(sides[1])
        wide = self._pair(given[1], "FloorMod")
        if lower is None or lower.name != most.name or extra is None or wide is None:
            return None
        ids, each = wide[0], wide[1] - 1
        if each < 1 or self._pair(shards[0], "FloorDiv") != wide:
            return None
        if not all(
            self._is_rest(*rest, ids, extra, each) for rest in ((given[2], "FloorMod"), (shards[1], "FloorDiv"))
        ):
            return None
        return ids, Cut(each, extra)

    def _pair(self, at: _At, op: str) -> tuple[str, int] | None:
        """(edge of the graph, divisor) of op(edge, divisor)."""
        node, given = self._step(at)
        if node is None or node.op != op or (divisor := self._number(given[1])) is None:
            return None
        plain = self._plain(given[0])
        return (plain, divisor) if plain else None

    def _is_rest(self, at: _At, op: str, ids: str, extra: int, each: int) -> bool:
        """Whether it is op(ids - extra, each)."""
        node, given = self._step(at)
        if node is None or node.op != op or self._number(given[1]) != each:
            return False
        if self._plain(given[0]) == ids:
            return not extra
        below, sides = self._step(given[0])
        if below is None or below.op != "Sub":
            return False
        return self._plain(sides[0]) == ids and self._number(sides[1]) == extra

    def _number(self, at: _At) -> int | None:
        value = constant(self._nodes, self._plain(at), self.regions.feeds)
        return int(value.ravel()[0]) if value is not None and value.size == 1 and value.dtype.kind in "iu" else None

    def _counts(self, e: str, shard: str, ids: str) -> bool:
        """Whether the edge is 0, 1, 2 ... for as many ids, of which `shard` has one number each."""
        value = constant(self._nodes, e, self.regions.feeds)
        if value is not None:
            same = static_shape(self._nodes, shard) == value.shape and value.ndim == 1
            return same and bool((value == np.arange(value.size)).all())
        node, given = self._step(_At("", e))
        if node is None or node.op != "Range" or [self._number(given[k]) for k in (0, 2)] != [0, 1]:
            return False
        size, of = self._step(given[1])
        return size is not None and size.op == "Size" and self._base(self._plain(of[0])) == self._base(ids)

    def _base(self, e: str) -> str:
        """What an edge has as many numbers as."""
        while not self.regions.is_fed(e) and (node := self._nodes.get(node_name(e))) is not None:
            if node.op not in ("Identity", "Reshape", "Cast"):
                break
            e = node.input[0]
        return edge(*parse(e)) if e else ""

    # ------------------------------------------------------------------ edges

    def _step(self, at: _At) -> tuple[NodeDef | None, list[_At]]:
        """The node that gives an edge, and what it takes; None of a fed one."""
        if at.scope:
            scope = self._scope(at.scope)
            if at.edge not in scope.outer:
                node = scope.nodes[node_name(at.edge)]
                return node, [_At(at.scope, e) for e in data_inputs(node)]
            at = _At("", scope.outer[at.edge])
        name, port = parse(at.edge)
        found = self._nodes.get(name)
        if found is None or self.regions.is_fed(at.edge):
            return None, []
        if "_outputs" not in found.attr:
            return found, [_At("", e) for e in data_inputs(found)]
        scope = self._scope(name)
        node = scope.nodes[scope.outputs[port]]
        return node, [_At(name, e) for e in data_inputs(node)]

    def _plain(self, at: _At) -> str:
        """The edge of the graph; "" for one inside of a fused node."""
        if at.scope and at.edge not in (outer := self._scope(at.scope).outer):
            return ""
        return edge(*parse(outer[at.edge] if at.scope else at.edge))

    def _scope_of(self, name: str) -> _Scope:
        node = self._nodes[name]
        told: Mapping[str, Any] = node.attr
        inside = [NodeDef.FromString(text) for text in told["_nodes"].list.s]
        names = [text.decode() for text in told["_inputs"].list.s]
        outputs = [text.decode() for text in told["_outputs"].list.s]
        return _Scope({n.name: n for n in inside}, dict(zip(names, data_inputs(node))), outputs)
