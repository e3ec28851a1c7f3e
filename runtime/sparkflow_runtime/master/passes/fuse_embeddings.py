"""Look-ups in many tables become one node, and so do the sparse updates of many tables and those of small variables.

- GatherV2 along axis 0, of tables of one type on one device: `_FusedGather`, one call for all. Where their rows only
  meet in a ConcatV2 of columns, that is part of it (`_FusedGatherConcat`): rows are gathered to where they belong, and
  the gathers' own outputs are columns of the result. A shape's sizes are no rows.
- SparseApply* of one kind with the same factors, and Adam's (decayed_adam.py): `_FusedSparseApply`. The Unique and
  UnsortedSegmentSum that an optimizer puts before them (rows of one index are summed first) become part of it too, and
  so does a single one. Where no id can be there twice, they only go away. Where the sums and ids of all came in one
  array each (distinct_rows.py), those are what it takes (`_ApplyDistinct`).
- Apply* of one kind with the same factors, of variables so small that the call takes longer: `_FusedApply`.

Nodes become one only where nothing can tell the difference (regions.py). What is fetched, fed or run keeps its name.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.passes.fuse import DENSE_UPDATES
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import RowSum, RowSums, are_distinct, constant
from sparkflow_runtime.master.passes.spread_sources import Travelled, from_splits, goes_to
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import CARRIED, data_inputs, edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES
from sparkflow_runtime.wire.tensor_proto import shape_tuple

_DECAYED = "_SparseApplyDecayedAdam"
# op -> (how many references come first, where grad and indices stand, the attributes that belong to the formula)
_UPDATES: dict[str, tuple[int, int, int, tuple[str, ...]]] = {
    "SparseApplyMomentum": (2, 3, 4, ("use_nesterov",)),
    "SparseApplyAdagrad": (2, 3, 4, ("update_slots",)),
    "SparseApplyFtrl": (3, 3, 4, ("multiply_linear_by_lr",)),
    "SparseApplyFtrlV2": (3, 3, 4, ("multiply_linear_by_lr",)),
    "SparseApplyRMSProp": (3, 7, 8, ()),
    "SparseApplyCenteredRMSProp": (4, 8, 9, ()),
    "SparseApplyAdadelta": (3, 6, 7, ()),
    "SparseApplyProximalGradientDescent": (1, 4, 5, ()),
    "SparseApplyProximalAdagrad": (2, 5, 6, ()),
    "SparseApplyAdagradDA": (3, 3, 4, ()),
    "_SparseApplyLazyAdam": (3, 9, 10, ()),
    "_SparseApplyGradientDescent": (1, 2, 3, ()),
    _DECAYED: (3, 9, 10, ()),
}

_SMALL = 1 << 15  # items of a variable: from there an update may have several threads
_FLAGS = ("use_nesterov", "update_slots")


def fuse_embeddings(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph with its look-ups and sparse updates fused. kept: nodes that are fetched or run by name."""
    if not any(n.op in _UPDATES or n.op in DENSE_UPDATES or n.op == "GatherV2" for n in graph.node):
        return graph
    return _Fuser(graph, set(feeds), set(kept)).fused()


class _Lookup(NamedTuple):
    node: NodeDef
    table: str
    ids: str
    key: tuple[Any, ...]


class _Update(NamedTuple):
    node: NodeDef
    grad: str
    indices: str
    how: str  # "summed": ids repeat, and rows of one are summed first; "distinct": none repeats; "": one by one
    swallowed: tuple[str, ...]  # Unique and the others that go with it
    key: tuple[Any, ...]


class _Dense(NamedTuple):
    node: NodeDef
    refs: tuple[str, ...]
    grad: str
    factors: tuple[str, ...]
    key: tuple[Any, ...]


@dataclass
class _Fuser:
    graph: GraphDef
    feeds: set[str]
    kept: set[str]
    made: dict[str, list[NodeDef]] = field(default_factory=lambda: defaultdict(list))  # after this node
    gone: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)  # data edge 'name:port' and control edge '^name' -> edge

    def __post_init__(self) -> None:
        self.regions = Regions(self.graph, self.feeds)
        self.nodes = self.regions.nodes
        self.context, self.awaited = self.regions.contexts(), self.regions.awaited()
        self.fed = {parse(f)[0] for f in self.feeds}
        self.sums = RowSums(self.regions, self.kept)

    def fused(self) -> GraphDef:
        lookups = [one for n in self.graph.node if n.op == "GatherV2" and (one := self._lookup(n))]
        updates = [it for n in self.graph.node if n.op in _UPDATES and (it := self._update(n))]
        dense = [small for n in self.graph.node if n.op in DENSE_UPDATES and (small := self._small_update(n))]
        found: list[Any] = [*lookups, *updates, *dense]
        self.level = self.regions.levels({one.node.name for one in found}.__contains__)
        for group in self._groups(lookups):
            self._fuse_lookups(group)
        for updates_group in (part for group in self._groups(updates) for part in _apart(group)):
            if len(updates_group) > 1 or updates_group[0].how:
                self._fuse_updates(updates_group)
        for dense_group in self._groups(dense):
            if len(dense_group) > 1:
                self._fuse_small_updates(dense_group)
        return self._rewritten() if self.gone else self.graph

    def _groups(self, found: list[Any]) -> list[list[Any]]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for one in found:
            name = one.node.name
            groups[one.key, one.node.device, self.level[name], self.context[name], self.awaited[name]].append(one)
        return list(groups.values())

    # ------------------------------------------------------------------ what can be fused

    def _free(self, node: NodeDef) -> bool:
        return node.name not in self.kept and node.name not in self.fed

    def _constant(self, e: str) -> Any:
        return constant(self.nodes, e, self.feeds)

    def _lookup(self, node: NodeDef) -> _Lookup | None:
        table, ids, axis = data_inputs(node)
        at, plain = self._constant(axis), self._free(node) and on_cpu(node.device) and not node.attr["batch_dims"].i
        of_rows = self._is_fed(table) or self.nodes[node_name(table)].op not in ("Shape", "ShapeN")
        if not plain or not of_rows or at is None or at.size != 1 or int(at.ravel()[0]):
            return None
        return _Lookup(node, table, ids, (node.attr["Tparams"].type,))

    def _update(self, node: NodeDef) -> _Update | None:
        if not self._free(node):
            return None
        num_refs, grad_at, indices_at, names = _UPDATES[node.op]
        inputs = data_inputs(node)
        grad, indices = inputs[grad_at], inputs[indices_at]
        factors = tuple(e for i, e in enumerate(inputs) if i >= num_refs and i not in (grad_at, indices_at))
        attrs = tuple((n, node.attr[n].b) for n in names if n in node.attr)
        rows, ids, how, swallowed = self._summed(node, grad, indices)
        if node.op == _DECAYED and not (how and on_cpu(node.device)):
            return None  # one decay, whatever is added to a row twice
        key = (node.op, node.attr["T"].type, factors, attrs, how)
        return _Update(node, rows, ids, how, swallowed, key)

    def _small_update(self, node: NodeDef) -> _Dense | None:
        inputs, num_refs, grad_at = data_inputs(node), len(registry.ref_positions(node.op)), DENSE_UPDATES[node.op]
        variable = self.nodes.get(node_name(inputs[0]))
        if not self._free(node) or variable is None or variable.op not in registry.VARIABLES:
            return None
        dims = [d.size for d in variable.attr["shape"].shape.dim]
        if variable.attr["shape"].shape.unknown_rank or min(dims, default=1) < 0 or math.prod(dims) >= _SMALL:
            return None
        factors = tuple(e for i, e in enumerate(inputs) if i >= num_refs and i != grad_at)
        flags = tuple((n, node.attr[n].b) for n in _FLAGS if n in node.attr)
        key = (node.op, node.attr["T"].type, factors, flags)
        return _Dense(node, tuple(inputs[:num_refs]), inputs[grad_at], factors, key)

    def _summed(self, node: NodeDef, grad: str, indices: str) -> tuple[str, str, str, tuple[str, ...]]:
        """(rows, ids, how they are, what goes with them): of a gradient that is the sum of rows by id, the rows before
        they are summed; whether ids repeat in them."""
        rows, ids, swallowed = grad, indices, tuple[str, ...]()
        if not self._is_fed(grad) and not self._is_fed(indices):
            total, unique = self.nodes[node_name(grad)], self.nodes[node_name(indices)]
            found = self.sums.of(total, alone=False)
            if found is not None and found.nodes[0] == unique.name and parse(indices)[1] == 0:
                swallowed = self._swallowed(found, node)
                rows, ids = (found.rows, found.ids) if swallowed else (grad, indices)
        distinct = not self._is_fed(ids) and are_distinct(self.nodes, ids)
        return rows, ids, "distinct" if distinct else "summed" if swallowed else "", swallowed

    def _swallowed(self, found: RowSum, update: NodeDef) -> tuple[str, ...]:
        """What goes with the update: where others sum by the same ids, or take them, only the sum; nothing where
        somebody else takes that, or would wait for something no longer."""
        inside = [self.nodes[name] for name in found.nodes]
        if any(n.device != update.device for n in inside) or self._users(inside[-1]) != [update]:
            return ()
        names = {update.name, *found.nodes}
        if all(self._free(n) and all(c.name in names for c in self._users(n)) for n in inside):
            return found.nodes
        return () if any(is_control(e) for n in inside[:-1] for e in n.input) else found.nodes[-1:]

    def _users(self, node: NodeDef) -> list[NodeDef]:
        return [consumer for consumer, _ in self.regions.consumers[node.name]]

    # ------------------------------------------------------------------ fusing

    def _fuse_lookups(self, group: list[_Lookup]) -> None:
        by_name = {one.node.name: one for one in group}
        concats = [
            (node, [self._behind(e, by_name) for e in data_inputs(node)[:-1]]) for node in self._concats(by_name)
        ]
        sources = [self._sources([by_name[m] for m in members if m], node) for node, members in concats]
        where = {node.name for (node, _), source in zip(concats, sources) if source is not None}
        joined = dict[str, NodeDef]()  # look-up -> the first ConcatV2 that it is part of
        for (concat, members), source in zip(concats, sources):
            mine = [by_name[name] for name in members if name is not None]
            again = joined.get(mine[0].node.name)
            if source is not None or again is None:
                self._make_concat(concat, mine, members, source, where, again is not None)
            else:
                self._take_columns(concat, again)
            joined |= {one.node.name: again or concat for one in mine}
        for name in joined:
            del by_name[name]
        if len(by_name) > 1:
            rest = list(by_name.values())
            inputs = [one.table for one in rest] + [one.ids for one in rest]
            name = self._make("_FusedGather", [one.node for one in rest], inputs, {"N": len(rest)})
            for port, one in enumerate(rest):
                self._replace(one.node.name, edge(name, port), name)

    def _sources(self, mine: list[_Lookup], concat: NodeDef) -> Travelled | None:
        fed = any(self._is_fed(e) for one in mine for e in (one.table, one.ids))
        if fed or _rank(concat) != 2:
            return None
        return from_splits(self.regions, [(one.table, one.ids) for one in mine])

    def _behind(self, e: str, lookups: dict[str, _Lookup]) -> str | None:
        """The look-up that an edge carries the rows of, through Identity nodes of its device."""
        while "{}:{}".format(*parse(e)) not in self.feeds:
            node = self.nodes[parse(e)[0]]
            if node.name in lookups:
                return node.name
            if node.op != "Identity" or len(node.input) > 1:
                return None
            e = node.input[0]
        return None

    def _concats(self, lookups: dict[str, _Lookup]) -> list[NodeDef]:
        """ConcatV2 nodes of columns, of at least two of these, and the same of each look-up if it is in several. Where
        the rank is not known the kernel sees to it; the last axis of more than two is not axis 1."""
        found, taken = [], dict[str, frozenset[str]]()
        some = next(iter(lookups.values())).node
        for node in self.graph.node:
            if node.op != "ConcatV2" or node.device != some.device or not self._free(node):
                continue
            inputs = data_inputs(node)
            axis, members = self._constant(inputs[-1]), [self._behind(e, lookups) for e in inputs[:-1]]
            mine = frozenset(m for m in members if m is not None)
            others = [e for e, m in zip(inputs, members) if m is None] + [e for e in node.input if is_control(e)]
            later = any(self.level[node_name(e)] >= self.level[some.name] for e in others if not self._is_fed(e))
            same = self._alike(node, some)
            if axis is None or int(axis.ravel()[0]) not in (1, -1) or later or not same:
                continue
            if _rank(node) not in (None, 2) or any(taken.get(m, mine) != mine for m in mine):
                continue
            if len(mine) > 1 and len(mine) == sum(m is not None for m in members):
                taken |= dict.fromkeys(mine, mine)
                found.append(node)
        return found

    def _alike(self, a: NodeDef, b: NodeDef) -> bool:
        return self.context[a.name] == self.context[b.name] and self.awaited[a.name] == self.awaited[b.name]

    def _is_fed(self, e: str) -> bool:
        return self.regions.is_fed(e)

    def _make_concat(
        self,
        concat: NodeDef,
        mine: list[_Lookup],
        members: list[str | None],
        spread: Travelled | None,
        where: set[str],
        again: bool,
    ) -> None:
        """Inputs: the tables, the ids, the other columns. order: of each input of the concat, which of tables and
        others it is. Output 0 is the concat, 1 + k the rows of table k. where: the ConcatV2 nodes that take rows as
        they travelled. again: another one has these rows too, and gives them to who takes them by themselves."""
        others = [e for e, m in zip(data_inputs(concat), members) if m is None]
        place = {one.node.name: k for k, one in enumerate(mine)}
        next_other = iter(range(len(mine), len(members)))
        order = [next(next_other) if m is None else place[m] for m in members]
        attrs: dict[str, Any] = {"N": len(mine), "order": order}
        whole, waited = (
            [*(one.node for one in mine), concat],
            [e for one in mine for e in one.node.input if is_control(e)],
        )
        if spread is not None:
            attrs |= spread.about | {"alone": all(goes_to(self.regions, one.node, where, self._free) for one in mine)}
            name = self._make("_SpreadConcat", whole[-1:] if again else whole, spread.inputs + others, attrs, waited)
        else:
            inputs = [one.table for one in mine] + [one.ids for one in mine]
            axis = self._constant(data_inputs(concat)[-1])
            assert axis is not None  # _concats saw it
            name = self._make("_FusedGatherConcat", whole, inputs + others, attrs | {"axis": int(axis.ravel()[0])})
        self._replace(concat.name, name, name)
        for k, one in enumerate(() if again else mine):
            self._replace(one.node.name, edge(name, k + 1), name)

    def _take_columns(self, concat: NodeDef, first: NodeDef) -> None:
        """Of rows that lie side by side in another ConcatV2, in the same order and all of it: that."""
        inputs, parts = data_inputs(concat), data_inputs(first)[:-1]
        begin = next((k for k in range(len(inputs)) if inputs[k : k + len(parts)] == parts), None)
        if begin is not None:
            inputs[begin : begin + len(parts)] = [first.name]
            made = with_inputs(concat, inputs + [e for e in concat.input if is_control(e)])
            made.attr["N"].i = len(inputs) - 1
            self.made[concat.name].append(made)
            self.gone.add(concat.name)

    def _fuse_updates(self, group: list[_Update]) -> None:
        num_refs, grad_at, indices_at, flags = _UPDATES[group[0].node.op]
        inputs = [data_inputs(one.node) for one in group]
        refs = [given[r] for r in range(num_refs) for given in inputs]
        first = inputs[0]
        factors = [e for i, e in enumerate(first) if i >= num_refs and i not in (grad_at, indices_at)]
        attrs: dict[str, Any] = {"N": len(group), "op": group[0].node.op}
        attrs |= {n: group[0].node.attr[n].b for n in flags if n in group[0].node.attr}
        joint = self.sums.joint([one.grad for one in group], [one.indices for one in group])
        if joint is not None and on_cpu(group[0].node.device):
            op, rows, waited = "_ApplyDistinct", joint.inputs, joint.waited
            attrs |= joint.attrs
        else:
            op, rows, waited = "_FusedSparseApply", [one.grad for one in group] + [one.indices for one in group], []
            attrs["rows"] = group[0].how
        swallowed = [self.nodes[n] for one in group for n in one.swallowed]
        name = self._make(op, [*(one.node for one in group), *swallowed], refs + factors + rows, attrs, waited)
        for port, one in enumerate(group):
            self._replace(one.node.name, edge(name, port), name)

    def _fuse_small_updates(self, group: list[_Dense]) -> None:
        first = group[0]
        refs = [one.refs[r] for r in range(len(first.refs)) for one in group]
        attrs = {"N": len(group), "op": first.node.op}
        attrs |= {n: first.node.attr[n].b for n in _FLAGS if n in first.node.attr}
        inputs = [*refs, *first.factors, *(one.grad for one in group)]
        name = self._make("_FusedApply", [one.node for one in group], inputs, attrs)
        for port, one in enumerate(group):
            self._replace(one.node.name, edge(name, port), name)

    def _make(
        self, op: str, members: list[NodeDef], inputs: list[str], attrs: dict[str, Any], waited: Iterable[str] = ()
    ) -> str:
        """Add the node that stands for `members`, and take these away. Its name says which they were, and how: what a
        session keeps of a node, it keeps by name, and steps that fetch other things fuse the same members otherwise.
        waited: control edges besides those of the members."""
        made = NodeDef(op=op, device=members[0].device)
        for key, value in (attrs | {"_fused_from": [m.name for m in members]}).items():
            made.attr[key].CopyFrom(wire_attrs.encode(value))
        digest = hashlib.sha256(made.SerializeToString(deterministic=True)).hexdigest()[:12]
        made.name = f"_fused/{members[0].name}/{digest}"
        names = {m.name for m in members}
        controls = {e: None for m in members for e in m.input if is_control(e) and e[1:] not in names}
        made.input.extend([*inputs, *(controls | dict.fromkeys(waited))])
        carried = {m.attr[CARRIED].s if CARRIED in m.attr else b"" for m in members}
        if len(carried) == 1 and b"" not in carried:
            made.attr[CARRIED].s = carried.pop()
        self.gone |= names
        last = max(names, key={name: i for i, name in enumerate(self.nodes)}.__getitem__)
        self.made[last].append(made)
        return made.name

    def _replace(self, old: str, new: str, whole: str) -> None:
        self.renamed[f"{old}:0"], self.renamed["^" + old] = new, "^" + whole

    def _rewritten(self) -> NodeList:
        nodes: list[NodeDef] = []
        for node in self.graph.node:
            if node.name not in self.gone:
                nodes.append(self._renamed(node))
            nodes.extend(self._renamed(made) for made in self.made.get(node.name, ()))
        return NodeList(self.regions.without_idle(nodes, self.kept), self.graph.versions)

    def _renamed(self, node: NodeDef) -> NodeDef:
        if self.gone.isdisjoint(map(node_name, node.input)):
            return node
        inputs = list(dict.fromkeys(self._edge(e) for e in node.input if is_control(e)))
        return with_inputs(node, [self._edge(e) for e in data_inputs(node)] + inputs)

    def _edge(self, e: str) -> str:
        return self.renamed.get(e if is_control(e) else "{}:{}".format(*parse(e)), e)


def _apart(group: list[_Update]) -> list[list[_Update]]:
    """Updates that decay one table twice do so one after the other."""
    twice = len({one.node.input[0] for one in group}) < len(group)
    return [[one] for one in group] if twice and group[0].node.op == _DECAYED else [group]


def _rank(node: NodeDef) -> int | None:
    """Of its only output, where it is known."""
    shapes = node.attr[SHAPES].list.shape if SHAPES in node.attr else ()
    dims = shape_tuple(shapes[0]) if shapes else None
    return None if dims is None else len(dims)
