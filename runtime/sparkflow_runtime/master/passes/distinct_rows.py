"""What looks rows up on another task, and what changes them there, sends and gets each row once.

A batch of ids names most rows of an embedding several times, and the tables lie elsewhere:

- GatherV2 of a table by ids of the task that takes the rows: that task finds the distinct ids (`_DistinctIds`), the
  table's gathers their rows (`_GatherDistinct`), and the look-up itself, by the places of the ids among the distinct
  ones, moves to the reader. Where no id is there twice, it has nothing left to do.
- The sum by Unique ids that an optimizer puts before a sparse update moves to the task that has the rows
  (`_SumToDistinct`), and so do rows on their way to an accumulator, which adds those of one id up anyway.

Tables on the reader's own task are treated so where a wide layer gains by it (local_rows.py).

All tables of a task and reader share these nodes, so that ids, counts and rows are one tensor each; `_SplitIds` and
`_SplitRows` are views of them. Sums have the same addends in the same order as before.
Nodes come together only where nothing can tell the difference (regions.py), and outside of branches and loops.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sparkflow_runtime.master.passes import local_rows
from sparkflow_runtime.master.passes.column_sums import by_matrix, summed
from sparkflow_runtime.master.passes.parted_rows import PartedRows
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import RowSums, are_distinct, constant
from sparkflow_runtime.master.passes.travelling import Dims, Lookup, Sum
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import (
    CARRIED,
    both_spellings,
    data_inputs,
    edge,
    is_control,
    node_name,
    parse,
    topological,
    with_inputs,
)
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import static_shape
from sparkflow_runtime.wire.tensor_proto import shape_tuple

_ACCUMULATE = "SparseAccumulatorApplyGradient"
_BY_ROW = {
    _ACCUMULATE: (2, 3),
    "_SparseApplyGradientDescent": (3, 2),
}  # where ids and rows are, which it adds up itself
_OPS = frozenset(["GatherV2", "UnsortedSegmentSum", *_BY_ROW])
_FIRST_PLACES = 4  # the port of _DistinctIds from which on the places of the ids are


def distinct_rows(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph, the same values and effects. kept: nodes that are fetched or run by name."""
    if not any(n.op in _OPS for n in graph.node):
        return graph
    if len({task_of(n.device) for n in graph.node}) < 2 and not local_rows.may_have(graph):
        return graph
    return Packer(graph, set(feeds), set(kept)).packed()


@dataclass
class Pack:
    """One _DistinctIds and the edges of its ids; flat: also of those that have the same ids in another shape."""

    name: str
    ids: dict[str, int]
    flat: dict[str, int]


@dataclass
class Packer:
    graph: GraphDef
    feeds: set[str]
    kept: set[str]
    made: list[NodeDef] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    changed: dict[str, NodeDef] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)  # data edge -> edge
    renamed_at: dict[tuple[str, str], str] = field(default_factory=dict)  # (task of the consumer, data edge) -> edge
    packs: dict[tuple[str, str], list[Pack]] = field(default_factory=lambda: defaultdict(list))  # (tables', reader)

    def __post_init__(self) -> None:
        self.nodes = {n.name: n for n in self.graph.node}
        self._fed, self._fed_nodes = both_spellings(self.feeds), set(map(node_name, self.feeds))

    @cached_property
    def regions(self) -> Regions:
        return Regions(self.graph, self.feeds)

    @cached_property
    def context(self) -> Mapping[str, Any]:
        return self.regions.contexts()

    @cached_property
    def sums(self) -> RowSums:
        return RowSums(self.regions, self.kept)

    def packed(self) -> GraphDef:
        lookups = [it for n in self.graph.node if n.op == "GatherV2" and (it := self._lookup(n))]
        sums = [one for n in self.graph.node if n.op in _OPS and (one := self._sum(n))]
        local = local_rows.LocalRows(self) if local_rows.may_have(self.graph) else None
        names = {it.node.name for it in lookups} | {one.node.name for one in sums} | (local.names if local else set())
        if not names:
            return self.graph
        self.level, self.awaited = self.regions.levels(names.__contains__), self.regions.awaited()
        lookups, sums = PartedRows(self).move(lookups, sums)
        for group in self._groups([*lookups, *(local.lookups if local else ())]):
            self._move_lookups(group)
        for group in self._groups([*sums, *(local.sums if local else ())]):
            self._move_sums(group)
        if local:
            local.give()
        return self._rewritten() if self.made else self.graph

    def _groups(self, found: Sequence[Any]) -> list[list[Any]]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for it in found:
            name = it.node.name
            if not self.context[name]:
                groups[it.key, self.together(name)].append(it)
        return list(groups.values())

    def together(self, name: str) -> tuple[int, int]:
        """What nodes that come together have in common (regions.py), beside their context."""
        return self.level[name], self.awaited[name]

    # ------------------------------------------------------------------ what travels

    def is_fed(self, name: str) -> bool:
        return name in self._fed_nodes

    def _free(self, node: NodeDef) -> bool:
        name = node.name
        if name in self.kept:
            return False
        return name not in self._fed_nodes or not any(f"{name}:{p}" in self.feeds for p in range(2))

    def task_of_edge(self, e: str) -> str | None:
        """Where a data edge comes from; None for a fed one, which comes with the step."""
        return None if e in self._fed else task_of(self.nodes[node_name(e)].device)

    def carried_as(self, e: str) -> bytes:
        """What a node says of how its values travel."""
        node = self.nodes[node_name(e)]
        return node.attr[CARRIED].s if CARRIED in node.attr else b""

    def row(self, e: str) -> Dims | None:
        """The static shape of what lies along the first axis, where it is known whole."""
        dims = static_shape(self.nodes, e)
        return None if not dims or None in dims[1:] else tuple(d for d in dims[1:] if d is not None)

    def _lookup(self, node: NodeDef) -> Lookup | None:
        table, ids, _ = data_inputs(node)
        home = task_of(node.device)
        if not self._free(node) or not self.looks_up_rows(node):
            return None
        if self.task_of_edge(table) != home or not on_cpu(node.device):
            return None
        chain: list[str] = []
        readers = self._readers(node, home, chain)
        reader = readers.pop() if readers is not None and len(readers) == 1 else home
        row = self.row(table)
        if reader == home or row is None or self.task_of_edge(ids) not in (None, reader):
            return None
        carried = self.carried_as(node.name)
        return Lookup(node, ids, row, (home, reader, node.attr["Tparams"].type, carried), tuple(chain))

    def looks_up_rows(self, node: NodeDef) -> bool:
        """Whether a GatherV2 takes what lies along the first axis."""
        at = constant(self.nodes, data_inputs(node)[2], self.feeds)
        return at is not None and at.size == 1 and not int(at.ravel()[0]) and not node.attr["batch_dims"].i

    def _readers(self, node: NodeDef, home: str, chain: list[str]) -> set[str] | None:
        """The tasks that take a node's output, through Identity nodes beside it (`chain`); None where its own does."""
        found: set[str] = set()
        for consumer, e in self.regions.consumers[node.name]:
            task = task_of(consumer.device)
            if task != home:
                found.add(task)
            elif consumer.op == "Identity" and list(consumer.input) == [e] and self._free(consumer):
                chain.append(consumer.name)
                behind = self._readers(consumer, home, chain)
                if behind is None:
                    return None
                found |= behind
            else:
                return None
        return found

    def _sum(self, node: NodeDef) -> Sum | None:
        home = task_of(node.device)
        if node.op in _BY_ROW:
            (ids, rows), behind = (node.input[i] for i in _BY_ROW[node.op]), tuple[str, ...]()
        elif (found := self.sums.of(node, alone=False)) is not None:
            rows, ids, behind = found.rows, found.ids, found.nodes
        elif node.op == "UnsortedSegmentSum" and self._free(node) and self._rank(node.input[1]) == 1:
            (rows, ids), behind = node.input[:2], ()  # into rows of zeros (whole_variables.py)
        else:
            return None
        source, row = self.task_of_edge(rows), self.row(rows)
        if (
            source in (None, home)
            or row is None
            or self.task_of_edge(ids) not in (None, source)
            or not on_cpu(node.device)
        ):
            return None
        carried = self.carried_as(rows)
        kind: tuple[Any, ...]
        if node.op == _ACCUMULATE:
            together = self._accumulates_alike(node, row)
            kind = (node.attr["dtype"].type, node.op, *(together or (node.name,)))
        else:
            kind = (node.attr["T"].type,)
        return Sum(node, rows, ids, row, (home, source, carried, *kind), behind)

    def _accumulates_alike(self, node: NodeDef, row: Dims) -> tuple[Any, ...] | None:
        """What accumulators that are given their rows together have in common; None for one of unknown shape."""
        accumulator = self.nodes[node_name(node.input[0])]
        dims = shape_tuple(accumulator.attr["shape"].shape)
        if accumulator.op != "SparseConditionalAccumulator" or not dims or None in dims or dims[1:] != row:
            return None
        return edge(*parse(node.input[1])), _rank(node)

    # ------------------------------------------------------------------ what is put in its place

    def pack(self, home: str, reader: str, ids: Sequence[str], flat: bool = False) -> tuple[Pack, list[int]]:
        """The distinct ids of some edges on their task, made for them unless they are known there, and which of its
        arrays each is. flat: of no matter what shape."""
        for pack in self.packs[home, reader]:
            known = pack.flat if flat else pack.ids
            same = [self.same_ids(e) if flat else [edge(*parse(e))] for e in ids]
            of = [next((known[e] for e in edges if e in known), None) for edges in same]
            if None not in of:
                return pack, [number for number in of if number is not None]
        given = [edge(*parse(e)) for e in ids]
        numbered = {e: i for i, e in enumerate(dict.fromkeys(given))}
        name = self.make("_DistinctIds", reader, list(numbered), {"N": len(numbered)}, home)
        found: dict[str, int] = {}
        for e, number in numbered.items():
            for same_ids in self.same_ids(e):
                found.setdefault(same_ids, number)
        pack = Pack(name, numbered, found)
        self.packs[home, reader].append(pack)
        return pack, [numbered[e] for e in given]

    def same_ids(self, e: str) -> list[str]:
        """The edge, and those before it that have the same ids in the same order in another shape."""
        found = [edge(*parse(e))]
        while (task := self.task_of_edge(found[-1])) is not None:
            node = self.nodes[node_name(found[-1])]
            if node.op not in ("Identity", "Reshape") or any(map(is_control, node.input)):
                break
            if self.task_of_edge(node.input[0]) not in (None, task):
                break
            found.append(edge(*parse(node.input[0])))
        return found

    def _move_lookups(self, group: list[Lookup]) -> None:
        home, reader, _, carried = group[0].key
        pack, of = self.pack(home, reader, [it.ids for it in group])
        tables = [it.node.input[0] for it in group]
        controls = dict.fromkeys(e for it in group for e in it.node.input if is_control(e))
        about = {"N": len(group), "of": of, "_fused_from": [it.node.name for it in group]}
        told = [pack.name, edge(pack.name, 1)]
        rows = self.make("_GatherDistinct", home, [*tables, *told, *controls], about, reader, carried)
        shapes = [Shape(it.row) for it in group]
        split = self.make("_SplitRows", reader, [rows, told[1]], {"of": of, "row_shapes": shapes}, home)
        for k, it in enumerate(group):
            self.look_up(it.node, it.node, it.ids, edge(split, k), self.places(pack, of[k]), reader)
            for name in it.chain:
                self._copy(self.nodes[name], reader)

    @staticmethod
    def places(pack: Pack, number: int) -> str:
        """Which of the distinct ones the ids of one of a pack's arrays are."""
        return edge(pack.name, _FIRST_PLACES + number)

    def look_up(self, node: NodeDef, lookup: NodeDef, ids: str, rows: str, places: str, reader: str) -> None:
        """In the place of a node: a look-up like `lookup`, of distinct rows, at the reader. Where the ids are all
        different, that would give the rows as they came."""
        moved, waited = self._copy(node, reader), [e for e in node.input if is_control(e)] if node is not lookup else []
        if self.task_of_edge(ids) is not None and are_distinct(self.nodes, ids):
            moved.op, moved.input[:] = "Identity", [rows, *waited]
            moved.attr["T"].CopyFrom(lookup.attr["Tparams"])
            moved.attr.pop("Tparams", None)
            return
        if node is not lookup:
            moved.op = lookup.op
            for name in ("N", "T"):
                moved.attr.pop(name, None)
            for name in ("Tparams", "Tindices", "Taxis", "batch_dims"):
                moved.attr[name].CopyFrom(lookup.attr[name])
        moved.input[:] = [rows, places, lookup.input[2], *waited]

    def _move_sums(self, group: list[Sum]) -> None:
        home, source, carried, *_ = group[0].key
        group = by_matrix(self, group)
        pack, of = self.pack(home, source, [it.ids for it in group], flat=True)
        sums = summed(self, group, pack.name, of, source, home, carried)
        self.deliver(group, [sums, pack.name, edge(pack.name, 1)], of)

    def deliver(self, group: list[Sum], told: list[str], of: list[int]) -> None:
        """What took the rows of a group takes their sums. told: sums, ids and counts; of: which of these is whose."""
        first = group[0]
        (home, source, *_), (sums, numbers, counts) = first.key, told
        if first.node.op == _ACCUMULATE and self._accumulates_alike(first.node, first.row) is not None:
            self._accumulate(group, told, of)
            return
        behind = dict.fromkeys(name for it in group for name in it.behind)
        waited = (e for name in behind for e in self.nodes[name].input if is_control(e))
        controls = [e for e in dict.fromkeys(waited) if e[1:] not in behind]
        ids = self.make("_SplitIds", home, [numbers, counts, *controls], {"of": of}, source)
        shapes = [Shape(it.row) for it in group]
        rows = self.make("_SplitRows", home, [sums, counts, *controls], {"of": of, "row_shapes": shapes}, source)
        for k, it in enumerate(group):
            if it.behind:  # what lies between goes when nobody takes it any more
                self.gone.add(it.node.name)
                self.renamed_at[home, f"{it.behind[0]}:0"] = edge(ids, k)
                self.renamed[f"{it.node.name}:0"], self.renamed[f"^{it.node.name}"] = edge(rows, k), f"^{rows}"
            else:
                changed = self._copy(it.node, home)
                places = _BY_ROW.get(it.node.op, (1, 0))
                changed.input[places[0]], changed.input[places[1]] = edge(ids, k), edge(rows, k)

    def _rank(self, e: str) -> int:
        shape = static_shape(self.nodes, e)
        return -1 if shape is None else len(shape)

    def _accumulate(self, group: list[Sum], told: list[str], of: list[int]) -> None:
        nodes = [it.node for it in group]
        home, source = group[0].key[:2]
        controls = dict.fromkeys(e for n in nodes for e in n.input if is_control(e))
        about = {"N": len(group), "of": of, "row_shapes": [Shape(it.row) for it in group]}
        about |= {"_replica": _rank(nodes[0]), "_fused_from": [n.name for n in nodes]}
        inputs = [*(n.input[0] for n in nodes), nodes[0].input[1], *told, *controls]
        name = self.make("_AccumulateDistinct", home, inputs, about, source)
        self.gone |= {n.name for n in nodes}
        self.renamed.update({f"^{n.name}": f"^{name}" for n in nodes})

    def _copy(self, node: NodeDef, task: str) -> NodeDef:
        if node.name not in self.changed:
            copy = self.changed[node.name] = NodeDef()
            copy.CopyFrom(node)
        copy = self.changed[node.name]
        if task_of(copy.device) != task:
            copy.device = f"{task}/device:CPU:0"
            copy.attr.pop("_class", None)
        return copy

    def make(
        self, op: str, task: str, inputs: list[str], about: dict[str, Any], other: str, carried: bytes = b""
    ) -> str:
        """Its name follows from what it is, so that a part two signatures have in common is the same part."""
        node = NodeDef(op=op, device=f"{task}/device:CPU:0")
        node.input.extend(inputs)
        for key, value in about.items():
            node.attr[key].CopyFrom(wire_attrs.encode(value))
        if carried:
            node.attr[CARRIED].s = carried
        digest = hashlib.sha256(other.encode() + node.SerializeToString(deterministic=True)).hexdigest()[:12]
        node.name = f"_distinct/{node_name(inputs[0]) if inputs else op}/{digest}"
        self.made.append(node)
        return node.name

    def _rewritten(self) -> NodeList:
        nodes = [self.changed.get(n.name, n) for n in self.graph.node if n.name not in self.gone]
        moved = {node_name(e) for e in self.renamed} | {node_name(e) for _, e in self.renamed_at}
        nodes = [n if moved.isdisjoint(map(node_name, n.input)) else self._renamed(n) for n in (*nodes, *self.made)]
        return NodeList(topological(self.regions.without_idle(nodes, self.kept), self.feeds), self.graph.versions)

    def _renamed(self, node: NodeDef) -> NodeDef:
        task = task_of(node.device)
        inputs = list(dict.fromkeys(self.renamed.get(e, e) for e in node.input if is_control(e)))
        return with_inputs(node, [self._edge(e, task) for e in data_inputs(node)] + inputs)

    def _edge(self, e: str, task: str) -> str:
        spelled = "{}:{}".format(*parse(e))
        return self.renamed_at.get((task, spelled)) or self.renamed.get(spelled, e)


def _rank(accumulate: NodeDef) -> int:
    return accumulate.attr["_replica"].i if "_replica" in accumulate.attr else 0  # to ask for one makes it
