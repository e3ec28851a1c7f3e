"""Sums of bags that a layer takes side by side become look-ups of one row each.

Feature columns sum the rows of a bag, though most columns have one value an example. Where such sums lie side by side
in the input of a layer, `_BagRows` (kernels/bag_rows.py) gives rows and places in their stead, as `_DistinctIds` does
of plain ids, so that the passes behind (fuse_embeddings.py, spread_products.py) multiply each distinct row once. What
their gradients sum up to by distinct id then comes of the gradient of the layer's input: `_BagsBack`.

Only of rows that travelled (distinct_rows.py), and where nothing else takes the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.master.passes.placed_edits import PlacedEdits
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.master.passes.spread_products import LEAST_COLUMNS, LEAST_WIDTH
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES

_OWN_PLACES = 4  # the port of _BagRows from which on the places of each column are, as those of _DistinctIds
_SIDE_BY_SIDE = (1, -1)


def bag_rows(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph after distinct_rows.py; kept: nodes that are fetched or run by name."""
    sums = {n.name for n in graph.node if n.op == "_BagSums"}
    if not any(n.op == "ConcatV2" and any(node_name(e) in sums for e in n.input) for n in graph.node if sums):
        return graph
    return _Rewriter(Regions(graph, feeds), {*kept, *map(node_name, feeds)}).rewritten()


class _Gradient(NamedTuple):
    total: NodeDef  # a _SumToDistinct
    at: int  # which of its gradients
    matrix: str


class _Bag(NamedTuple):
    """One column's sums."""

    node: NodeDef
    at: int  # which input of the concat
    begin: int  # its first column there
    width: int
    split: str  # the _SplitRows that its rows come from
    gradient: _Gradient | None


class _Rewriter(PlacedEdits):
    prefix = "_bags"

    def rewritten(self) -> GraphDef:
        for node in self.regions.graph.node:
            if node.op == "ConcatV2" and self._is_layers_input(node):
                for group in self._groups(node):
                    self._rewrite(node, group)
        return self._written()

    # ------------------------------------------------------------------ what is there

    def _is_layers_input(self, concat: NodeDef) -> bool:
        """Whether it lays columns side by side for a product that is wide enough to gain."""
        axis, shape = constant(self.nodes, data_inputs(concat)[-1], self._fed), self._shape(concat.name)
        if axis is None or int(axis.ravel()[0]) not in _SIDE_BY_SIDE or shape is None or len(shape) != 2:
            return False
        if concat.name in self.taboo or not self._is_plain(concat):
            return False
        for user, e in self.regions.consumers[concat.name]:
            if user.op in ("MatMul", "_FusedMatMul") and user.device == concat.device and data_inputs(user)[0] == e:
                made = self._shape(user.name)
                if made is not None and len(made) == 2 and (made[1] or 0) >= LEAST_COLUMNS:
                    return True
        return False

    def _is_plain(self, node: NodeDef) -> bool:
        """Whether it runs whenever the step does, on a CPU, and waits for its inputs alone."""
        return not self._contexts[node.name] and on_cpu(node.device) and not any(map(is_control, node.input))

    def _groups(self, concat: NodeDef) -> list[list[_Bag]]:
        """Its bags: those whose rows came together, and whose gradients leave together, in their order."""
        groups: dict[Any, list[_Bag]] = defaultdict(list)
        given, widths = data_inputs(concat)[:-1], self._widths(concat)
        for at, (e, width, begin) in enumerate(zip(given, widths, accumulate(widths, initial=0))):
            if (bag := self._bag(concat, at, e, begin, width)) is not None:
                told = bag.gradient and (bag.gradient.total.name, bag.gradient.matrix)
                groups[bag.split, bag.node.attr["kind"].s, bag.node.device, told].append(bag)
        return [self._in_order(group) for group in groups.values() if self._is_worth(group)]

    def _widths(self, concat: NodeDef) -> list[int]:
        """Of its inputs; none where they are not known. One may be told by the others: what is fed has no node."""
        (_, whole), shapes = self._shape(concat.name) or (None, None), [self._shape(e) for e in concat.input[:-1]]
        widths = [shape[1] if shape is not None and len(shape) == 2 else None for shape in shapes]
        known = [width for width in widths if width is not None]
        if len(known) < len(widths) - (whole is not None):
            return []
        return [(whole or 0) - sum(known) if width is None else width for width in widths]

    @staticmethod
    def _in_order(group: list[_Bag]) -> list[_Bag]:
        return sorted(group, key=lambda bag: bag.gradient.at if bag.gradient else bag.at)

    def _is_worth(self, group: list[_Bag]) -> bool:
        """Whether they are wide enough, and their gradients stand side by side in the sum that takes them."""
        at = sorted(bag.gradient.at for bag in group if bag.gradient)
        together = not at or at == [*range(at[0], at[0] + len(group))]
        return together and sum(bag.width for bag in group) >= LEAST_WIDTH * len(group)

    def _bag(self, concat: NodeDef, at: int, e: str, begin: int, width: int) -> _Bag | None:
        node = self.nodes.get(node_name(e))  # what is fed has none
        if node is None or e in self._fed or node.op != "_BagSums" or node.name in self.taboo:
            return None
        if not self._is_plain(node):
            return None
        if node.attr["T"].type != dtypes.float32.as_datatype_enum or node.device != concat.device:
            return None
        for user, taken in self.regions.consumers[node.name]:
            if is_control(taken) or (user.op != "Shape" and user is not concat):
                return None
        if [*concat.input].count(e) != 1:
            return None
        split, port = self._source(data_inputs(node)[0])
        if not split or [d.size for d in self.nodes[split].attr["row_shapes"].list.shape[port].dim] != [width]:
            return None
        found = self._gradients(node, begin, width, self._shape(concat.name))
        if len(found) > 1 or any(one.total.name in self.changed for one in found):
            return None
        return _Bag(node, at, begin, width, split, found[0] if found else None)

    def _source(self, e: str) -> tuple[str, int]:
        """The _SplitRows that an edge comes from, through Identity nodes, and its port; no name if it does not."""
        while e not in self._fed:
            name, port = parse(e)
            node = self.nodes[name]
            if node.op == "_SplitRows":
                return name, port
            if node.op != "Identity" or any(map(is_control, node.input)):
                break
            e = node.input[0]
        return "", 0

    def _gradients(
        self, sums: NodeDef, begin: int, width: int, shape: tuple[int | None, ...] | None
    ) -> list[_Gradient]:
        """Those of a bag's rows, where they come of its columns of a matrix of that shape and are summed by id."""
        _, places, rows, empty = data_inputs(sums)
        found = []
        for user, e in self.regions.consumers[node_name(places)]:
            if user.op != "_BagGradients" or e != places or user.device != sums.device or user.name in self.taboo:
                continue
            given = data_inputs(user)
            if [*given[1:3], given[4]] != [places, rows, empty] or user.attr["kind"].s != sums.attr["kind"].s:
                continue
            matrix, column = self._columns(given[0], width)
            if not matrix or column != begin or self._shape(matrix) != shape or not self._is_plain(user):
                continue
            total, taken = self._taken(user, width)
            if total is None or total.name in self.taboo or "columns" in total.attr or total.device != sums.device:
                continue
            found.append(_Gradient(total, data_inputs(total).index(taken), matrix))
        return found

    def _taken(self, rows: NodeDef, width: int) -> tuple[NodeDef | None, str]:
        """The _SumToDistinct that alone takes these rows, and by which edge: perhaps reshaped to what they are."""
        while True:
            users = self.regions.consumers[rows.name]
            if len(users) != 1 or is_control(users[0][1]):
                return None, ""
            user, e = users[0]
            if user.op == "_SumToDistinct":
                return user, e
            if user.op not in ("Reshape", "Identity") or user.input[0] != e or user.name in self.taboo:
                return None, ""
            shape = self._shape(user.name)
            if not self._is_plain(user) or shape is None or len(shape) != 2 or shape[1] != width:
                return None, ""
            rows = user

    def _columns(self, e: str, width: int) -> tuple[str, int]:
        """(matrix, first column) of so many columns of all its rows, reshaped; no matrix where it is something else."""
        while e not in self._fed and (node := self.nodes[node_name(e)]).op in ("Reshape", "Identity"):
            if any(map(is_control, node.input)):
                return "", 0
            e = node.input[0]
        if e in self._fed or self.nodes[node_name(e)].op != "Slice" or not self._is_plain(self.nodes[node_name(e)]):
            return "", 0
        matrix, *where = data_inputs(self.nodes[node_name(e)])
        begin, size = (constant(self.nodes, at, self._fed) for at in where)
        plain = begin is not None and size is not None and begin.tolist()[:1] == [0] and size.tolist() == [-1, width]
        return (edge(*parse(matrix)), int(begin[1])) if plain and matrix not in self._fed else ("", 0)

    # ------------------------------------------------------------------ what is put in its place

    def _rewrite(self, concat: NodeDef, group: list[_Bag]) -> None:
        first, given = group[0].node, [data_inputs(bag.node) for bag in group]
        inputs = [e for same in zip(*given) for e in same]
        kind, each = wire_attrs.decode(first.attr["kind"]), [*range(len(group))]
        rows = self._make("_BagRows", first, inputs, {"N": len(group), "kind": kind})
        shapes = {"of": each, "row_shapes": [Shape((bag.width,)) for bag in group]}
        split = self._make("_SplitRows", first, [rows, edge(rows, 1)], shapes)
        axis = self._make("Const", first, [], {"dtype": dtypes.int32, "value": np.array(0, np.int32)})
        changed = self._copy(concat)
        for k, bag in enumerate(group):
            about: dict[str, Any] = {SHAPES: [Shape((None, bag.width))], "Tparams": dtypes.float32}
            about |= {"Tindices": dtypes.int64, "Taxis": dtypes.int32, "batch_dims": 0}
            looked_up = [edge(split, k), edge(rows, _OWN_PLACES + k), axis]
            changed.input[bag.at] = self._make("GatherV2", first, looked_up, about)
        if group[0].gradient is not None:
            self._sum(group, group[0].gradient, rows, inputs, kind)

    def _sum(self, group: Sequence[_Bag], told: _Gradient, rows: str, inputs: list[str], kind: str) -> None:
        """The sums of these columns' gradients by distinct id; those of others as they were."""
        total, widths, n = told.total, [bag.width for bag in group], len(group)
        about = {"N": 1, "of": [*range(n)], "widths": widths, "columns": [bag.begin for bag in group]}
        ports = [edge(rows, port) for port in (1, 2, 3)]
        by_column = self._make("_SumToDistinct", total, [told.matrix, *ports], about)
        back = [by_column, ports[0], *(edge(rows, _OWN_PLACES + n + k) for k in range(2)), *inputs]
        attrs: dict[str, Any] = {"N": n, "kind": kind, "widths": widths}
        mine, given, of = self._make("_BagsBack", total, back, attrs), data_inputs(total), list(total.attr["of"].list.i)
        grads, same = given[: len(of)], given[len(of) :]
        parts = [mine]
        for begin, end in ((0, told.at), (told.at + n, len(of))):
            if begin < end:
                rest = {"N": end - begin, "of": of[begin:end]}
                made = self._make("_SumToDistinct", total, [*grads[begin:end], *same], rest)
                parts.insert(0 if end == told.at else len(parts), made)
        changed = self._copy(total)
        for name in ("N", "of"):
            changed.attr.pop(name, None)
        about = {"T": dtypes.float32}
        changed.op, changed.input[:] = "Identity", parts
        if len(parts) > 1:
            axis = self._make("Const", total, [], {"dtype": dtypes.int32, "value": np.array(0, np.int32)})
            changed.op, changed.input[:] = "ConcatV2", [*parts, axis]
            about |= {"N": len(parts), "Tidx": dtypes.int32}
        for key, value in about.items():
            changed.attr[key].CopyFrom(wire_attrs.encode(value))
        changed.input.extend(e for e in total.input if is_control(e))
