"""Rows that travel once: ids brought together at the reader, rows gathered beside their tables, gradients summed by id.

A batch names most rows of an embedding several times. Where a table is on another task, `_DistinctIds` finds each
table's distinct ids on the reader's side, `_GatherDistinct` gathers their rows beside the tables, and `_SumToDistinct`
adds up the gradients of each before they leave (master/passes/distinct_rows.py puts them there). What travels is
one vector of ids, one of counts and one of rows for all tables of a task; `_SplitIds` and `_SplitRows` are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import row_loops
from sparkflow_runtime.kernels.distinct_loops import lay_out, number_ids, sum_to_distinct
from sparkflow_runtime.kernels.halves import HALVES, narrowed, widened
from sparkflow_runtime.kernels.memory import copying, memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES, sum_rows
from sparkflow_runtime.kernels.updates import Held, flat_ids
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_CPU = ("CPU",)
_NARROW = np.uint64(np.iinfo(np.int32).max)


@bound("_DistinctIds", multi=True, stateful=False, devices=_CPU)
def _distinct_ids(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N arrays of ids. Outputs: the distinct ids of each in order of first appearance, one array's after the
    other's; how many each has; for all ids which of their array's they are; how many ids each array has; and again
    for each array, in its shape, which of the distinct ones its ids are."""
    number_ids.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        ids, starts = flat_ids(inputs)
        places, distinct = np.empty(ids.size, np.int64), np.empty(ids.size, np.uint64)
        ends = starts.view(np.int64)
        counts, sizes = np.empty(len(inputs), np.int64), ends[1:] - ends[:-1]
        heads = np.empty(max(16, 4 * int(sizes.max(initial=0))), np.uint64)
        number_ids(ids, starts[:-1], starts[1:], distinct, counts.view(np.uint64), places.view(np.uint64), heads)
        found = distinct[: int(counts.sum())]
        small = found.size and found.max() <= _NARROW
        bounds = ends.tolist()
        own = [places[a:b] for a, b in pairwise(bounds)]
        if any(i.ndim != 1 for i in inputs):
            own = [o.reshape(i.shape) for o, i in zip(own, inputs)]
        return [found.astype(np.int32) if small else found.view(np.int64), counts, places, sizes, *own]

    return run


@bound("_GatherDistinct", stateful=False, devices=_CPU)
def _gather_distinct(node: Node) -> Callable[..., Array]:
    """Inputs: N tables of one type, ids and counts as `_DistinctIds` gives them. of: for each table which of the counts
    is its own. The rows of the first table, then those of the next: a vector."""
    n, of = node.attrs["N"], node.attrs["of"]
    parts = Parts(node, "GatherV2", of)
    seen: Held | None = None
    row_loops.gather_rows.prepare()

    def run(*inputs: Array) -> Array:
        nonlocal seen
        tables, (distinct, counts) = inputs[:n], inputs[n:]
        held = seen
        if held is None or not held.same(tables):
            held = seen = Held(tables, 1, _gatherable(tables))
        ids, where, items = parts.of(distinct, counts, held.widths, held.sizes)
        out = np.empty(items, tables[0].dtype)
        widths, begins, _, at, _, ends = where
        if not held.taken:
            pieces = [t[ids[a:b].view(np.int64)].reshape(-1) for t, a, b in zip(tables, begins.tolist(), ends.tolist())]
            return np.concatenate(pieces, out=out)
        at += np.uint64(position(out))
        row_loops.gather_rows(copying(out.dtype), held.columns[0], widths, ids, begins, ends, at, widths)
        return out

    return run


def _gatherable(tables: Sequence[Array]) -> bool:
    dtype = tables[0].dtype
    plain = dtype in HALVES or (dtype.itemsize in (4, 8) and dtype.kind in "fiu")
    return plain and all(t.flags.c_contiguous and t.flags.aligned for t in tables)


def parts_of(node: Node, distinct: Array, counts: Array, of: Sequence[int]) -> tuple[Array, Array, Array]:
    """The ids, unsigned, and where those of each member begin and end. From another process may come anything: raises
    InvalidArgumentError where counts and ids are not of each other."""
    ends = np.cumsum(counts, dtype=np.int64)
    if (
        counts.ndim != 1
        or distinct.ndim != 1
        or len(counts) <= max(of)
        or counts.min() < 0
        or ends[-1] != distinct.size
    ):
        raise InvalidArgumentError(
            f"{node.op} {node.name!r}: {distinct.size} ids of shape {distinct.shape}, which are not those of counts "
            f"{counts.tolist()[:8]}"
        )
    chosen = np.asarray(of)
    ids = np.ascontiguousarray(distinct, np.int64).view(np.uint64)
    return ids, (ends - counts)[chosen].view(np.uint64), ends[chosen].view(np.uint64)


class Parts:
    """What came together, part by part: `lay_out`, and who is to blame where it does not fit."""

    def __init__(self, node: Node, op: str, of: Sequence[int], mine: slice = slice(None)):
        """op: the look-up that an id is refused for; of: which of the counts each part's is; mine: the node's own."""
        self._node, self._op, self._which, self._of, self._mine = node, op, list(of), unsigned(of), mine
        lay_out.prepare()
        row_loops.first_outside.prepare()

    def of(self, distinct: Array, counts: Array, widths: Array, sizes: Array) -> tuple[Array, Array, int]:
        """(the ids, unsigned; a column for each part, as lay_out has it; the items of all). Raises InvalidArgumentError
        where counts and ids are not of each other, or an id is no row."""
        if not (type(counts) is np.ndarray and counts.dtype == np.int64 and counts.ndim == distinct.ndim == 1):
            parts_of(self._node, distinct, counts, self._which)
        ids, where = np.ascontiguousarray(distinct, np.int64).view(np.uint64), np.empty((6, len(widths)), np.uint64)
        own = np.ascontiguousarray(counts, np.int64).view(np.uint64)
        if (items := lay_out(own, self._of, widths, sizes, ids, where)) >= 0:
            return ids, where, items
        ids, begins, ends = parts_of(self._node, distinct, counts, self._which)
        check_inside(self._node, self._op, ids, begins[self._mine], ends[self._mine], sizes[self._mine])
        name = f"{self._node.op} {self._node.name!r}"
        raise InvalidArgumentError(f"{name}: counts {counts.tolist()[:8]} do not fit the ids")


def check_inside(node: Node, op: str, ids: Array, begins: Array, ends: Array, sizes: Array) -> None:
    """Raises InvalidArgumentError that names the first id that is no row of its table, and the look-up."""
    wrong = row_loops.first_outside(ids, begins, ends, sizes)
    if wrong >= 0:
        table = int(np.flatnonzero((begins <= wrong) & (wrong < ends))[0])
        name = node.attr("_fused_from", [node.name] * len(sizes))[table]
        found = int(ids.view(np.int64)[wrong])
        text = f"{op} {name!r}: index {found} is not in [0, {sizes[table]})"
        raise InvalidArgumentError(node.member(table, op), None, text)


@bound("_SplitIds", multi=True, stateful=False, aliases=True, devices=_CPU)
def _split_ids(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: ids and counts as `_DistinctIds` gives them. Outputs: the ids of the tables that `of` numbers."""
    of = node.attrs["of"]

    def run(distinct: Array, counts: Array) -> Sequence[Array]:
        _, begins, ends = parts_of(node, distinct, counts, of)
        return [distinct[a:b] for a, b in zip(begins.tolist(), ends.tolist())]

    return run


class SplitRows:
    """Inputs: the rows of all tables that `of` numbers, a vector, and the counts. Outputs: each table's, row by row,
    in the shapes `row_shapes`."""

    def __init__(self, node: Node):
        self._node, self._of = node, np.array(node.attrs["of"])
        self._shapes = [shape.dims for shape in node.attrs["row_shapes"]]
        self.widths = np.array([math.prod(shape) for shape in self._shapes])

    def __call__(self, flat: Array, counts: Array) -> Sequence[Array]:
        begins, mine = self.begins(flat, counts).tolist(), counts[self._of].tolist()
        return [flat[a:b].reshape(c, *s) for a, b, c, s in zip(begins, begins[1:], mine, self._shapes)]

    def begins(self, flat: Array, counts: Array) -> Array:
        """Where each table's begin in `flat`, the end too. Raises InvalidArgumentError where they are not of these
        counts."""
        name = f"{self._node.op} {self._node.name!r}"
        if counts.ndim != 1 or len(counts) <= self._of.max():
            raise InvalidArgumentError(f"{name}: {len(self._of)} tables, and counts {counts.tolist()[:8]}")
        mine = counts[self._of]
        begins = np.zeros(len(mine) + 1, np.int64)
        np.cumsum(mine * self.widths, out=begins[1:])
        if mine.min() < 0 or flat.shape != (begins[-1],):
            raise InvalidArgumentError(
                f"{name}: an array of shape {flat.shape} is not {mine.tolist()[:8]} rows of "
                f"{self.widths.tolist()[:8]} items"
            )
        return begins


bound("_SplitRows", multi=True, stateful=False, aliases=True, devices=_CPU)(SplitRows)


@bound("_SumToDistinct", stateful=False, devices=_CPU)
def _sum_to_distinct(node: Node) -> Callable[..., Array]:
    """Inputs: N gradients, whose rows belong to the ids that a `_DistinctIds` was given (`of` says to which array's),
    and its counts, places and sizes. The sums of the rows of each distinct id, in the order of the ids: a vector.
    columns, widths: the gradients are these columns of the one that is given."""
    n, of, columns = node.attrs["N"], np.array(node.attrs["of"]), node.attr("columns")
    widths = np.array(node.attr("widths", ()), np.int64)
    sum_to_distinct.prepare()
    seen: tuple[bytes, list[int], Array, Array] | None = None

    def bounds(grads: Sequence[Array], sizes: Array) -> tuple[Array, Array]:
        """Where the places of each gradient's rows begin and end. They are mostly those of the step before."""
        nonlocal seen
        key, heights, known = sizes.tobytes(), [g.shape[0] if g.ndim else -1 for g in grads], seen
        if known is None or known[0] != key or known[1] != heights:
            _check_heights(node, grads, sizes[of])
            ends = sizes.cumsum()
            known = seen = key, heights, unsigned((ends - sizes)[of]), unsigned(ends[of])
        return known[2:]

    def run(*inputs: Array) -> Array:
        grads, (counts, places, sizes) = inputs[:n], inputs[n:]
        if grads[0].dtype in HALVES:
            return narrowed(run(*map(widened, grads), counts, places, sizes), grads[0].dtype)
        begins, ends = bounds(grads, sizes)
        mine = counts[of]
        rows = _Columns(grads[0], columns, widths) if columns is not None else _Separate(grads)
        if grads[0].dtype not in FLOAT_TYPES:
            parts = zip(rows.arrays(), begins.tolist(), ends.tolist(), mine.tolist())
            return np.concatenate([sum_rows(np, g, places[a:b], count).reshape(-1) for g, a, b, count in parts])
        items = mine * rows.widths
        to = items.cumsum()
        out = np.empty(int(to[-1]), grads[0].dtype)
        to -= items
        to += position(out)
        given = unsigned(rows.widths), places.view(np.uint64), begins, ends, unsigned(rows.at), unsigned(rows.steps)
        sum_to_distinct(memory(out.dtype), *given, to.view(np.uint64))
        return out

    return run


def _check_heights(node: Node, grads: Sequence[Array], sizes: Array) -> None:
    for grad, size in zip(grads if len(grads) == len(sizes) else [*grads] * len(sizes), sizes.tolist()):
        if not grad.ndim or grad.shape[0] != size:
            raise InvalidArgumentError(
                f"{node.op} {node.name!r}: a gradient of shape {grad.shape} for {size} looked-up rows"
            )


class _Separate:
    """Gradients that are arrays of their own: widths, positions and steps of their rows."""

    def __init__(self, grads: Sequence[Array]):
        self._grads = [g if rows_ready(g) else np.ascontiguousarray(g) for g in grads]
        self.widths = np.array([math.prod(g.shape[1:]) for g in grads])
        self.at, self.steps = positions(self._grads), [stride(g) for g in self._grads]

    def arrays(self) -> Sequence[Array]:
        return self._grads


class _Columns:
    """Gradients that are columns of one matrix."""

    def __init__(self, matrix: Array, columns: list[int], widths: Array):
        self._matrix = matrix = matrix if rows_ready(matrix) else np.ascontiguousarray(matrix)
        self._begins, self.widths = np.array(columns), widths
        if matrix.ndim != 2 or matrix.shape[1] < int((self._begins + widths).max()):
            raise InvalidArgumentError(f"Slice: columns up to {(self._begins + widths).max()} of shape {matrix.shape}")
        self.at, self.steps = self._begins + position(matrix), np.full(len(widths), stride(matrix))

    def arrays(self) -> Sequence[Array]:
        return [self._matrix[:, a : a + w] for a, w in zip(self._begins.tolist(), self.widths.tolist())]
