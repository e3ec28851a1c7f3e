"""A look-up of a matrix of ids whose rows are laid side by side becomes look-ups of its columns.

One table for all columns of a model is looked up by ids of shape [batch, columns], and each example's rows become one
row of the first layer's input. For the passes behind (fuse_embeddings.py, spread_products.py) that is as if each column
had a table of its own: the distinct rows that came, as far as its ids name them. So the layer multiplies each of these
once, by its column's weights, and what their gradients sum up to in all columns is what travels back (`_FoldRows`).

Only where a product takes the rows, and all that is learned of them comes of its gradient (kernels/wide_rows.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from sparkflow_runtime.wire.edges import (
    data_inputs,
    edge,
    is_control,
    node_name,
    parse,
)
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES

_PRODUCTS = ("MatMul", "_FusedMatMul")
_PLACES = 4  # the port of _DistinctIds from which on the places of the ids are


def wide_rows(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph after distinct_rows.py, the same but for the last digits of sums of a row in several columns.
    kept: nodes that are fetched or run by name."""
    if not _may_be_there(graph):
        return graph
    return _Widener(Regions(graph, feeds), {*kept, *map(node_name, feeds)}).widened()


def _may_be_there(graph: GraphDef) -> bool:
    """A glance: most graphs have none, and their regions are not worked out for it."""
    split = {n.name for n in graph.node if n.op == "_SplitRows"}
    rows = {n.name for n in graph.node if n.op == "GatherV2" and node_name(n.input[0]) in split} if split else set()
    return bool(rows) and any(n.op in ("Reshape", "Identity") and node_name(n.input[0]) in rows for n in graph.node)


class _Sum(NamedTuple):
    node: NodeDef  # a _SumToDistinct
    at: int  # which of its gradients
    matrix: str
    column: int  # the first, of the matrix


class _Lookup(NamedTuple):
    node: NodeDef  # GatherV2
    flat: NodeDef  # its rows side by side, a Reshape
    columns: int
    width: int
    ids: str  # the _DistinctIds of its rows
    of: int
    sums: list[_Sum]


class _Widener(PlacedEdits):
    prefix = "_wide"

    def widened(self) -> GraphDef:
        for node in self.regions.graph.node:
            if node.op == "GatherV2" and (found := self._lookup(node)) is not None:
                self._widen(found)
        return self._written()

    # ------------------------------------------------------------------ what is there

    def _lookup(self, node: NodeDef) -> _Lookup | None:
        if self._contexts[node.name] or not on_cpu(node.device) or any(map(is_control, node.input)):
            return None
        if node.attr["Tparams"].type != dtypes.float32.as_datatype_enum:
            return None
        (rows, port), (ids, number) = (parse(e) for e in data_inputs(node)[:2])
        split, distinct = self.nodes.get(rows), self.nodes.get(ids)
        if split is None or distinct is None or split.op != "_SplitRows" or distinct.op != "_DistinctIds":
            return None
        shape = split.attr["row_shapes"].list.shape[port]
        of = split.attr["of"].list.i[port]
        if len(shape.dim) != 1 or shape.dim[0].size < LEAST_WIDTH or number != _PLACES + of:
            return None
        width, flat = shape.dim[0].size, self._flat(node)
        wide = self._wide(flat) if flat is not None else 0
        if flat is None or wide % width or wide < 2 * width or not self._is_multiplied(flat):
            return None
        sums = self._sums(ids, of, width, wide)
        return None if sums is None else _Lookup(node, flat, wide // width, width, ids, of, sums)

    def _flat(self, node: NodeDef) -> NodeDef | None:
        """The Reshape that takes the rows, through Identity nodes."""
        while True:
            users = [n for n, e in self.regions.consumers[node.name] if not is_control(e) and n.device == node.device]
            if found := [n for n in users if n.op == "Reshape" and node_name(n.input[0]) == node.name]:
                return found[0] if not any(map(is_control, found[0].input)) else None
            passing = [n for n in users if n.op == "Identity" and len(n.input) == 1]
            if len(passing) != 1:
                return None
            node = passing[0]

    def _wide(self, flat: NodeDef) -> int:
        """The static width of a matrix; 0 of anything else."""
        shape = self._shape(flat.name)
        return (shape[1] or 0) if shape is not None and len(shape) == 2 else 0

    def _concats(self, flat: NodeDef) -> list[NodeDef]:
        """Those that lay other columns beside it."""
        found = []
        for user, e in self.regions.consumers[flat.name]:
            if user.op == "ConcatV2" and user.device == flat.device and not is_control(e):
                axis, shape = constant(self.nodes, data_inputs(user)[-1], self._fed), self._shape(user.name)
                if axis is not None and int(axis.ravel()[0]) in (1, -1) and shape is not None and len(shape) == 2:
                    found.append(user)
        return found

    def _products(self, matrix: NodeDef) -> list[NodeDef]:
        """Products of which the matrix is the first factor, turned or not."""
        return [
            user
            for user, e in self.regions.consumers[matrix.name]
            if user.op in _PRODUCTS and user.device == matrix.device and data_inputs(user)[0] == e
        ]

    def _is_multiplied(self, flat: NodeDef) -> bool:
        """Whether a layer takes it that is wide enough to gain."""
        for matrix in (flat, *self._concats(flat)):
            shapes = (self._shape(user.name) for user in self._products(matrix))
            if any(s is not None and len(s) == 2 and (s[1] or 0) >= LEAST_COLUMNS for s in shapes):
                return matrix.name not in self.taboo
        return False

    def _sums(self, ids: str, of: int, width: int, wide: int) -> list[_Sum] | None:
        """The sums by these ids of rows that are columns of a matrix. None where one of rows of this width is of
        anything else."""
        found = []
        for user, e in self.regions.consumers[ids]:
            if user.op != "_SumToDistinct" or parse(e)[1] != 1 or is_control(e) or "columns" in user.attr:
                continue
            for at, number in enumerate(user.attr["of"].list.i):
                grad = data_inputs(user)[at]
                if number != of or (self._shape(grad) or (0,))[-1] != width:
                    continue
                one = self._columns(grad, wide)
                if one is None or user.name in self.taboo or user.name in self.changed:
                    return None
                found.append(_Sum(user, at, *one))
        return found if len({one.node.name for one in found}) == len(found) else None

    def _columns(self, e: str, wide: int) -> tuple[str, int] | None:
        """(matrix, first column) of so many columns of all its rows, reshaped."""
        while e not in self._fed and (node := self.nodes[node_name(e)]).op in ("Reshape", "Identity"):
            if any(map(is_control, node.input)):
                return None
            e = node.input[0]
        shape = None if e in self._fed else self._shape(e)
        if shape is None or len(shape) != 2 or shape[1] != wide:
            return None
        node = self.nodes[node_name(e)]
        if node.op != "Slice" or any(map(is_control, node.input)):
            return edge(*parse(e)), 0
        begin, size = (constant(self.nodes, x, self._fed) for x in data_inputs(node)[1:])
        if begin is None or size is None or begin[0] != 0 or size.tolist() != [-1, wide] or node.input[0] in self._fed:
            return edge(*parse(e)), 0
        return edge(*parse(node.input[0])), int(begin[1])

    # ------------------------------------------------------------------ what is put in its place

    def _widen(self, found: _Lookup) -> None:
        node, count, width = found.node, found.columns, found.width
        rows, places, axis = data_inputs(node)
        shape = self._make("Const", node, [], {"dtype": dtypes.int32, "value": np.array([-1, count], np.int32)})
        matrix = self._make("Reshape", node, [places, shape], {"T": dtypes.int64, "Tshape": dtypes.int32})
        about: dict[str, Any] = {"T": dtypes.int64, "num": count, "axis": 1}
        unpacked = self._make("Unpack", node, [matrix], about)
        distinct = self._make("_DistinctIds", node, [edge(unpacked, k) for k in range(count)], {"N": count})
        mine, each = self._make("_RowsAt", node, [rows, distinct], {}), list(range(count))
        shapes = {"of": each, "row_shapes": [Shape((width,))] * count}
        split = self._make("_SplitRows", node, [mine, edge(distinct, 1)], shapes)
        lookups = [self._column(found, [edge(split, k), edge(distinct, _PLACES + k), axis]) for k in each]
        for concat in self._concats(found.flat):
            self._replace(concat, found.flat.name, lookups, {"N": -1})
        if products := self._products(found.flat):
            one = self._make("Const", node, [], {"dtype": dtypes.int32, "value": np.array(1, np.int32)})
            joined = {"N": count, "T": dtypes.float32, "Tidx": dtypes.int32, SHAPES: [Shape((None, count * width))]}
            whole = self._make("ConcatV2", node, [*lookups, one], joined)
            for product in products:
                self._replace(product, found.flat.name, [whole])
        for one_sum in found.sums:
            self._fold(found, one_sum, distinct)

    def _column(self, found: _Lookup, inputs: list[str]) -> str:
        about: dict[str, Any] = {SHAPES: [Shape((None, found.width))]}
        for name in ("Tparams", "Tindices", "Taxis", "batch_dims"):
            about[name] = wire_attrs.decode(found.node.attr[name])
        return self._make("GatherV2", found.node, inputs, about)

    def _fold(self, found: _Lookup, one: _Sum, distinct: str) -> None:
        """One of a node's sums is made column by column; the others as they were."""
        node, count, width = one.node, found.columns, found.width
        about: dict[str, Any] = {"N": 1, "of": list(range(count)), "widths": [width] * count}
        about["columns"] = [one.column + k * width for k in range(count)]
        by_column = self._make(
            "_SumToDistinct", node, [one.matrix, *(edge(distinct, port) for port in (1, 2, 3))], about
        )
        given, of = data_inputs(node), list(node.attr["of"].list.i)
        grads, told = given[: len(of)], given[len(of) :]
        fold, about = [by_column, distinct, told[0]], {"of": found.of, "width": width}
        parts = []
        for begin, end in ((0, one.at), (one.at + 1, len(of))):
            if begin < end:
                rest = {"N": end - begin, "of": of[begin:end]}
                parts.append(self._make("_SumToDistinct", node, [*grads[begin:end], *told], rest))
        if parts:
            parts.insert(min(one.at, 1), self._make("_FoldRows", node, fold, about))
        changed = self._copy(node)
        changed.ClearField("input")
        for name in ("N", "of"):
            changed.attr.pop(name, None)
        if parts:
            axis = self._make("Const", node, [], {"dtype": dtypes.int32, "value": np.array(0, np.int32)})
            changed.op, changed.input[:] = "ConcatV2", [*parts, axis]
            about = {"N": len(parts), "T": dtypes.float32, "Tidx": dtypes.int32}
        else:
            changed.op, changed.input[:] = "_FoldRows", fold
        for name, value in about.items():
            changed.attr[name].CopyFrom(wire_attrs.encode(value))
        changed.input.extend(e for e in node.input if is_control(e))

    def _replace(self, node: NodeDef, old: str, new: Sequence[str], counts: dict[str, int] | None = None) -> None:
        """An input of a node by others. counts: attributes that count inputs, and what they leave out."""
        changed = self._copy(node)
        inputs: list[str] = []
        for e in changed.input:
            inputs += new if not is_control(e) and parse(e) == (old, 0) else [e]
        changed.input[:] = inputs
        for name, less in (counts or {}).items():
            changed.attr[name].i = len(data_inputs(changed)) + less
