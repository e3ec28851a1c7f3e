"""Distinct ids of tables that are cut into shards: told apart by the tasks that have them, and their rows put together.

`_DistinctIds` numbers the ids of whole tables; `_PartIds` says which of them go where, `_JoinRows` makes of the rows
that come back one array in the order of the distinct ids, as a single task would have sent it, and `_PartRows` takes
the sums of their gradients apart again (master/passes/parted_rows.py). So ids are sorted by shard when each is left
once, for all tables at a time, and nothing behind knows of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import row_loops
from sparkflow_runtime.kernels.array_partition import order_by_part
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.memory import copying, position
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import ITEMS, rows_at, unsigned
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_CPU = ("CPU",)
_U = "uint64[::1]"
_NARROW = np.iinfo(np.int32)


@compiled(
    [
        "void(Array(int64, 1, 'C', readonly=True), int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
        "int32[::1], int64[::1], int32[::1])"
    ]
)
def cut(
    ids: Array,
    ends: Array,
    each: Array,
    extra: Array,
    shards: Array,
    firsts: Array,
    to: Array,
    local: Array,
    part: Array,
) -> None:
    """Of each id its row within its shard, and to which part it goes: to[firsts[t] + shard]; -1: it is in none of its
    table's shards. ends: where the ids of each table end; each, extra: how that is cut (parted_lookups.Cut)."""
    begin = 0
    for t in range(ends.shape[0]):
        size, more, count, first = each[t], extra[t], shards[t], firsts[t]
        for i in range(begin, ends[t]):
            number = ids[i]
            if size == 0:
                local[i] = number // count
                part[i] = to[first + number - local[i] * count]
                continue
            which = max(number // (size + 1), (number - more) // size)
            local[i] = number % (size + 1) if which < more else (number - more) % size
            part[i] = to[first + which] if 0 <= which < count else np.int32(-1)
        begin = ends[t]


@cut.otherwise
def _(
    ids: Array,
    ends: Array,
    each: Array,
    extra: Array,
    shards: Array,
    firsts: Array,
    to: Array,
    local: Array,
    part: Array,
) -> None:
    counts = np.diff(ends, prepend=0)
    size, more, count, first = (column.repeat(counts) for column in (each, extra, shards, firsts))
    mod, size = size == 0, np.where(size == 0, 1, size)
    which = np.where(mod, ids % count, np.maximum(ids // (size + 1), (ids - more) // size))
    consecutive = np.where(which < more, ids % (size + 1), (ids - more) % size)
    local[...] = np.where(mod, ids // count, consecutive)
    inside = (which >= 0) & (which < count)
    part[...] = np.where(inside, to[first + np.where(inside, which, 0)], -1)


@compiled([f"void({item}[::1], {', '.join([_U] * 7)})" for item in ITEMS])
def scatter_rows(
    memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array, steps: Array
) -> None:
    """The reverse of row_loops.gather_rows: row i of what is at at[t] becomes table t's row ids[starts[t] + i]."""
    for t in range(tables.shape[0]):
        table, first, width, source, step = tables[t], starts[t], widths[t], at[t], steps[t]
        for i in range(first, ends[t]):
            target = table + ids[i] * width
            for k in range(width):
                memory[target + k] = memory[source + k]
            source += step


@scatter_rows.otherwise
def _(
    memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array, steps: Array
) -> None:
    columns = (c.view(np.int64).tolist() for c in (tables, widths, starts, ends, at, steps))
    for table, width, start, end, source, step in zip(*columns):
        mine = ids[start:end].view(np.int64)
        if mine.size and width:
            rows = rows_at(memory, source, mine.size, width, step)
            rows_at(memory, table, int(mine.max()) + 1, width, width)[mine] = rows


@bound("_PartIds", multi=True, stateful=False, devices=_CPU)
def _part_ids(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: ids and counts as `_DistinctIds` gives them. Outputs, for each home: the rows within its shards that they
    name, how many each array has in each shard that is there (one shard's after the other's), and which of their
    array's ids they are.

    of: for each array which of the counts is its own; each, extra: how its table is cut, into so many `shards`; homes:
    where each of these is, one array's after the other's.
    """
    of, shards, homes = (np.array(node.attrs[name], np.int64) for name in ("of", "shards", "homes"))
    each, extra = (np.array(node.attrs[name], np.int64) for name in ("each", "extra"))
    firsts = shards.cumsum() - shards
    number = np.arange(len(homes)) - firsts.repeat(shards)  # of each shard among its table's
    kinds = sorted(set(zip(homes.tolist(), number.tolist())))  # a part of the ids for each
    to = np.array([kinds.index(kind) for kind in zip(homes.tolist(), number.tolist())], np.int32)
    last = [max(i for i, (home, _) in enumerate(kinds) if home == h) for h in range(int(homes.max()) + 1)]
    every = len(of) == int(of[-1]) + 1 and (np.diff(of) == 1).all()
    cut.prepare()
    order_by_part.prepare()

    def run(distinct: Array, counts: Array) -> Sequence[Array]:
        ids, sizes = np.ascontiguousarray(distinct, np.int64), counts[of]
        if not every or len(counts) != len(of):
            ends = counts.cumsum()
            ids = np.concatenate([ids[a:b] for a, b in zip((ends - counts)[of].tolist(), ends[of].tolist())])
        ends = sizes.cumsum()
        local, part = np.empty(ids.size, np.int64), np.empty(ids.size, np.int32)
        cut(ids, ends, each, extra, shards, firsts, to, local, part)
        order, bounds = np.empty(ids.size, np.int64), np.empty(len(kinds), np.int64)
        if order_by_part(part, order, bounds):
            raise _outside(node, ids, ends, part)
        edges, begins = np.concatenate([[0], ends]), ends - sizes
        ends_of = bounds.tolist()
        counted = [np.diff(order[a:b].searchsorted(edges)) for a, b in zip([0, *ends_of], ends_of)]
        out: list[Array] = []
        for first, end in zip([0, *(i + 1 for i in last)], last):
            places = order[ends_of[first - 1] if first else 0 : ends_of[end]]
            mine = np.concatenate(counted[first : end + 1])
            rows = local[places]
            small = rows.size and rows.max() <= _NARROW.max and rows.min() >= _NARROW.min
            within = places - np.tile(begins, end + 1 - first).repeat(mine)
            out += [rows.astype(np.int32) if small else rows, mine, within]
        return out

    return run


def _outside(node: Node, ids: Array, ends: Array, part: Array) -> InvalidArgumentError:
    wrong = int(np.flatnonzero(part < 0)[0])
    table = int(ends.searchsorted(wrong, "right"))
    told = node.member(table, "DynamicPartition")
    name = told.name if told is not None else node.name
    text = (
        f"DynamicPartition {name!r}: id {int(ids[wrong])} is a row of none of the {node.attrs['shards'][table]} shards"
    )
    return InvalidArgumentError(told, None, text)


class _Pieces:
    """Where the rows of each home's shards belong: one piece for each home, shard and table.

    of: for each table which of the counts of `_DistinctIds` is its own; widths: of its rows. pieces: how many each home
    has; counts: which of the home's own counts each one's is; table: and which table's rows it is of.
    """

    def __init__(self, node: Node):
        attrs = node.attrs
        self._of, self._widths = np.array(attrs["of"]), np.array(attrs["widths"], np.int64)
        self._table, self._pieces = np.array(attrs["table"], np.int64), np.array(attrs["pieces"])
        wide, ends = self._widths[self._table], self._pieces.cumsum()[:-1]
        self._wide, self._counts = np.split(wide, ends), np.split(np.array(attrs["counts"], np.int64), ends)
        self.widths = unsigned(wide)

    def begins(self, counts: Array) -> tuple[Array, int]:
        """Where each table's rows begin, side by side; and the items of all."""
        items = counts[self._of] * self._widths
        ends = items.cumsum()
        return ends - items, int(ends[-1])

    def of(self, begins: Array, counted: Sequence[Array], places: Sequence[Array]) -> tuple[Array, ...]:
        """(where each piece's table begins; the places, unsigned; where each piece's begin and end; the items of a home
        before the piece; how many items each home has)."""
        starts, ends, before, totals, first = [], [], [], [], 0
        for index, wide, counts, mine in zip(self._counts, self._wide, counted, places):
            last = counts.cumsum() + first
            starts.append((last - counts)[index])
            ends.append(last[index])
            to = (counts[index] * wide).cumsum()
            before.append(to - counts[index] * wide)
            totals.append(int(to[-1]) if to.size else 0)
            first += mine.size
        ids = places[0] if len(places) == 1 else np.concatenate(places)
        at, tables = np.concatenate(before), begins[self._table]
        return tables, ids.view(np.uint64), unsigned(np.concatenate(starts)), unsigned(np.concatenate(ends)), at, totals

    def of_homes(self, values: Any) -> Array:
        """A value of each home for each of its pieces."""
        return np.repeat(np.array(values, np.int64), self._pieces)


def _copies(dtype: Any) -> bool:
    return dtype.itemsize in (4, 8) and dtype.kind in "fiu"


@bound("_JoinRows", stateful=False, devices=_CPU)
def _join_rows(node: Node) -> Callable[..., Array]:
    """Inputs: the counts of `_DistinctIds`; then of each task the rows that it gave, and their counts and places as
    `_PartIds` gives them. The rows as one task would have given them: a vector. Attributes as `_Pieces` has them."""
    pieces, name = _Pieces(node), f"{node.op} {node.name!r}"
    scatter_rows.prepare()

    def run(counts: Array, *inputs: Array) -> Array:
        rows, counted, places = inputs[::3], inputs[1::3], inputs[2::3]
        begins, items = pieces.begins(counts)
        tables, ids, starts, ends, at, totals = pieces.of(begins, counted, places)
        dtype = rows[0].dtype
        for flat, total in zip(rows, totals):
            if flat.shape != (total,) or flat.dtype != dtype:
                raise InvalidArgumentError(f"{name}: {flat.dtype} rows of shape {flat.shape}, expected {total} items")
        out = np.empty(items, dtype)
        if not _copies(dtype):
            flat, before = np.concatenate(rows), np.cumsum([0, *totals[:-1]])
            for to, width, a, b, source in _plain(tables, pieces.widths, starts, ends, at + pieces.of_homes(before)):
                mine = ids[a:b].view(np.int64)
                end = to + (int(mine.max()) + 1) * width
                out[to:end].reshape(-1, width)[mine] = flat[source : source + mine.size * width].reshape(-1, width)
            return out
        held = [np.require(flat, None, ["C", "A"]) for flat in rows]
        source = unsigned(at + pieces.of_homes([position(flat) for flat in held]))
        tables = unsigned(tables + position(out))
        scatter_rows(copying(dtype), tables, pieces.widths, ids, starts, ends, source, pieces.widths)
        return out

    return run


@bound("_PartRows", multi=True, stateful=False, devices=_CPU)
def _part_rows(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: sums as `_SumToDistinct` gives them, the counts of `_DistinctIds`; then of each task counts and places as
    `_PartIds` gives them. Outputs: of each task the sums of its rows, shard by shard, table by table: vectors.
    Attributes as `_Pieces` has them."""
    pieces = _Pieces(node)
    row_loops.gather_rows.prepare()

    def run(sums: Array, counts: Array, *inputs: Array) -> Sequence[Array]:
        begins, _ = pieces.begins(counts)
        tables, ids, starts, ends, at, totals = pieces.of(begins, inputs[::2], inputs[1::2])
        out = [np.empty(total, sums.dtype) for total in totals]
        if not _copies(sums.dtype):
            flat, before = np.empty(sum(totals), sums.dtype), np.cumsum([0, *totals])
            for source, width, a, b, to in _plain(
                tables, pieces.widths, starts, ends, at + pieces.of_homes(before[:-1])
            ):
                mine = ids[a:b].view(np.int64)
                end = source + (int(mine.max()) + 1) * width
                flat[to : to + mine.size * width].reshape(-1, width)[...] = sums[source:end].reshape(-1, width)[mine]
            return [flat[a:b] for a, b in zip(before.tolist(), before[1:].tolist())]
        sums = np.require(sums, None, ["C", "A"])
        to = unsigned(at + pieces.of_homes([position(part) for part in out]))
        tables = unsigned(tables + position(sums))
        row_loops.gather_rows(copying(sums.dtype), tables, pieces.widths, ids, starts, ends, to, pieces.widths)
        return out

    return run


def _plain(tables: Array, widths: Array, starts: Array, ends: Array, at: Array) -> Any:
    """(table, width, start, end, at) of each piece that has any rows, as numbers."""
    columns = (c.astype(np.int64).tolist() for c in (tables, widths, starts, ends, at))
    return (piece for piece in zip(*columns) if piece[3] > piece[2] and piece[1])
