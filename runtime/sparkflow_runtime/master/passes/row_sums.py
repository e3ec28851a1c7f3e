"""The sum of rows by their ids, as an optimizer puts it before a sparse update: how it looks in a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.edges import data_inputs, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef


class RowSum(NamedTuple):
    rows: str
    ids: str
    nodes: tuple[str, ...]  # Unique, Shape, StridedSlice, UnsortedSegmentSum


def constant(nodes: Mapping[str, NodeDef], e: str, feeds: Collection[str]) -> Any:
    """The value of a Const that is not fed, which may only be read, else None."""
    name, port = parse(e)
    node = nodes.get(name)
    if node is None or node.op != "Const" or f"{name}:{port}" in feeds:
        return None
    return wire_attrs.constant(node.attr["value"])


# (op, whether at its first output): no id is there twice
_DISTINCT = {(op, True) for op in ("Unique", "_BagIds", "SparseAccumulatorTakeGradient", "_SplitIds")}
_DISTINCT.add(("_SplitIds", False))


def are_distinct(nodes: Mapping[str, NodeDef], ids: str) -> bool:
    """Whether the producer of an edge that is not fed gives no id twice."""
    name, port = parse(ids)
    return (nodes[name].op, port == 0) in _DISTINCT


class JointSums(NamedTuple):
    """Sums of many tables that travelled together (distinct_rows.py). inputs: the sums, ids and counts of all of them;
    attrs: what says which part is whose; waited: control edges."""

    inputs: list[str]
    attrs: dict[str, Any]
    waited: list[str]


class RowSums:
    """Finds total = UnsortedSegmentSum(rows, Unique(ids):1, Shape(Unique(ids))[0]). kept: nodes that stay as they
    are."""

    def __init__(self, regions: Regions, kept: Collection[str]):
        self._regions, self._nodes, self._kept = regions, regions.nodes, kept
        self._fed = {parse(f)[0] for f in regions.feeds}

    def of(self, total: NodeDef, alone: bool = True) -> RowSum | None:
        """alone: on one device, and nobody else takes what lies between, such as the sum for another table by the same
        ids."""
        if total.op != "UnsortedSegmentSum":
            return None
        rows, positions, count = data_inputs(total)
        if self._is_fed(positions) or self._is_fed(count):
            return None
        unique, first = self._nodes[node_name(positions)], self._nodes[node_name(count)]
        if unique.op != "Unique" or parse(positions)[1] != 1 or first.op != "StridedSlice":
            return None
        if self._is_fed(first.input[0]):
            return None
        shape = self._nodes[node_name(first.input[0])]
        if shape.op != "Shape" or shape.input[0] != unique.name or not self._takes_first(first):
            return None
        inside = (unique, shape, first, total)
        if not self._is_free(total) or (alone and not self._is_alone(inside)):
            return None
        return RowSum(rows, unique.input[0], tuple(n.name for n in inside))

    def joint(self, grads: Sequence[str], indices: Sequence[str]) -> JointSums | None:
        """Where all of these are parts of one array of sums and of its ids."""
        if any(map(self._is_fed, (*grads, *indices))):
            return None
        rows, ids = {node_name(e) for e in grads}, {node_name(e) for e in indices}
        split, numbers = self._nodes[min(rows)], self._nodes[min(ids)]
        if (split.op, numbers.op, len(rows), len(ids)) != ("_SplitRows", "_SplitIds", 1, 1):
            return None
        (sums, counts), (distinct, of_ids) = data_inputs(split), data_inputs(numbers)
        of, members = list(split.attr["of"].list.i), [parse(e)[1] for e in grads]
        if counts != of_ids or of != list(numbers.attr["of"].list.i):
            return None
        if [of[m] for m in members] != [of[parse(e)[1]] for e in indices]:  # tables with the same ids take one of them
            return None
        shapes = wire_attrs.decode(split.attr["row_shapes"])
        waited = [e for node in (split, numbers) for e in node.input if is_control(e)]
        return JointSums([sums, distinct, counts], {"of": of, "row_shapes": shapes, "members": members}, waited)

    def _is_alone(self, inside: tuple[NodeDef, ...]) -> bool:
        """They are on one device, and only Unique(ids) and the total are used for anything else."""
        if not all(self._is_free(n) and n.device == inside[-1].device for n in inside):
            return False
        unique, shape, first, _ = inside
        names = {n.name for n in inside}
        users = self._regions.consumers
        hidden = [(c, e) for n in (shape, first) for c, e in users[n.name]]
        hidden += [(c, e) for c, e in users[unique.name] if not is_control(e) and parse(e)[1] == 1]
        return all(c.name in names for c, _ in hidden)

    def _is_free(self, node: NodeDef) -> bool:
        return node.name not in self._kept and node.name not in self._fed

    def _is_fed(self, e: str) -> bool:
        return self._regions.is_fed(e)

    def _takes_first(self, node: NodeDef) -> bool:
        """Whether it is x[0]."""
        values = [constant(self._nodes, e, self._regions.feeds) for e in data_inputs(node)[1:]]
        if any(v is None or v.shape != (1,) for v in values):
            return False
        masks = {n: node.attr[n].i for n in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")}
        return (
            [int(v[0]) for v in values] == [0, 1, 1]
            and node.attr["shrink_axis_mask"].i == 1
            and not any(masks.values())
        )
