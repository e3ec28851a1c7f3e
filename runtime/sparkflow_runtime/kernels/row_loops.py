"""Rows of many tables at once: gathered, and summed by their ids. Compiled loops with their numpy versions.

All take a batch of tables side by side: table t begins at position tables[t] of `memory` (kernels/memory.py), has rows
of widths[t] items, and the ids ids[starts[t] : ends[t]]. Rows that are read or written one an id begin at position
at[t] and are steps[t] items apart. Nothing here checks an id: `first_outside` comes before.

All numbers of items are unsigned (`unsigned`; a negative step wraps around): with signed ones each access would first
ask whether its index counts from the end, and loops that ask are not vectorized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.memory import copying, position
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.kernels.sum_loops import sum_rows

Array = Any
FLOATS = ("float32", "float64")
ITEMS = ("int32", "int64")  # of 4 and 8 bytes: rows that are only copied may be of any such type
_COPIED = ("int16", *ITEMS)
_U = "uint64[::1]"
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)


def unsigned(numbers: Any) -> Array:
    return np.asarray(numbers, np.int64).view(np.uint64)


def rows_at(memory: Array, at: int, count: int, width: int, step: int) -> Array:
    """count rows of `memory` as an array of shape (count, width)."""
    size = memory.itemsize
    return np.ndarray((count, width), memory.dtype, memory, at * size, (step * size, size))


@compiled([f"int64({_U}, {_U}, {_U}, {_U})"])
def first_outside(ids: Array, starts: Array, ends: Array, sizes: Array) -> int:
    """Where in `ids` the first id is that does not name one of its table's sizes[t] rows; -1 where all do."""
    for t in range(sizes.shape[0]):
        size, outside = sizes[t], False
        for i in range(starts[t], ends[t]):
            outside |= ids[i] >= size
        if outside:
            for i in range(starts[t], ends[t]):
                if ids[i] >= size:
                    return np.int64(i)  # type: ignore[return-value]
    return -1


@first_outside.otherwise
def _(ids: Array, starts: Array, ends: Array, sizes: Array) -> int:
    for start, end, size in zip(starts.tolist(), ends.tolist(), sizes.tolist()):
        found = np.flatnonzero(ids[start:end] >= size)
        if found.size:
            return start + int(found[0])
    return -1


_BLOCK = np.uint64(64)  # rows that are written before the next table's turn: the pages of so many stay at hand


@compiled([f"{item}({item}[::1], {', '.join([_U] * 7)})" for item in _COPIED])
def gather_rows(
    memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array, steps: Array
) -> int:
    """Row i of what table t gives is the table's row ids[starts[t] + i]. The result means nothing.

    A block's rows are touched before they are copied: so many loads, and nothing but loads, wait for memory together.
    """
    longest, touched = _ZERO, memory.dtype.type(0)
    for t in range(tables.shape[0]):
        longest = max(longest, ends[t] - starts[t])
    for begin in range(_ZERO, longest, _BLOCK):
        for t in range(tables.shape[0]):
            table, first, width, out, step = tables[t], starts[t], widths[t], at[t], steps[t]
            end, last = min(begin + _BLOCK, ends[t] - first), max(width, _ONE) - _ONE
            for i in range(begin, end):
                source = table + ids[first + i] * width
                touched ^= memory[source] ^ memory[source + last]
            for i in range(begin, end):
                source, target = table + ids[first + i] * width, out + i * step
                for k in range(width):
                    memory[target + k] = memory[source + k]
    return touched >> 1  # any number but the one that means refused arguments (machine_code)


@gather_rows.otherwise
def _(
    memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array, steps: Array
) -> int:
    for mine, table, rows in _each(memory, tables, widths, ids, starts, ends, at, steps):
        rows[...] = table[mine]
    return 0


def _each(memory: Array, *columns: Array) -> Iterator[tuple[Array, Array, Array]]:
    """(ids, the table as far as they reach, the rows one an id) of each table that has any."""
    tables, widths, ids, starts, ends, at, steps = (c.view(np.int64) for c in columns)
    for t, width in enumerate(widths.tolist()):
        mine = ids[starts[t] : ends[t]]
        if mine.size and width:
            table = rows_at(memory, int(tables[t]), int(mine.max()) + 1, width, width)
            yield mine, table, rows_at(memory, int(at[t]), mine.size, width, int(steps[t]))


def columns_ready(values: Sequence[Array]) -> bool:
    """Whether join_columns takes them: matrices of one height and type, of 4 or 8 bytes an item, each in one piece."""
    rows, dtype = values[0].shape[:1], values[0].dtype
    return (
        dtype.kind in "fiu"
        and dtype.itemsize in (4, 8)
        and all(v.ndim == 2 and v.shape[:1] == rows and v.dtype == dtype and v.flags.c_contiguous for v in values)
        and all(v.flags.aligned for v in values)
    )


def join_columns(values: Sequence[Array]) -> Array:
    """The matrices side by side."""
    count, widths = len(values[0]), [v.shape[1] for v in values]
    ends = list(accumulate(widths, initial=0))
    out = np.empty((count, ends[-1]), values[0].dtype)
    none, all_rows = np.zeros(len(values), np.uint64), np.full(len(values), count, np.uint64)
    tables, at = unsigned([position(v) for v in values]), unsigned(ends[:-1]) + np.uint64(position(out))
    steps, ids = np.full(len(values), ends[-1], np.uint64), np.arange(count, dtype=np.uint64)
    gather_rows(copying(out.dtype), tables, unsigned(widths), ids, none, all_rows, at, steps)
    return out


_FEWEST, _SPREAD, _HIGH = np.uint64(15), np.uint64(0x9E3779B97F4A7C15), np.uint64(20)
_SUM = f"{_U}, {_U}, {_U}, {_U}, {_U}, {_U}, {_U}, {_U}, {_U}, {_U}"


@compiled([f"void({item}[::1], {_SUM})" for item in FLOATS])
def sum_by_id(
    memory: Array,
    widths: Array,
    ids: Array,
    starts: Array,
    ends: Array,
    at: Array,
    steps: Array,
    sums: Array,
    distinct: Array,
    counts: Array,
    heads: Array,
) -> None:
    """For each table the distinct ids, in order of first appearance, and the sum of the rows of each, in their order.

    distinct[starts[t] :][: counts[t]] are the ids of table t; their sums lie side by side from position sums[t] on to
    sums[t + 1], one table's after the other's; sums[0] is given.
    heads: room for a hash table: at least 16 and four times the most ids of a table.
    """
    zero = memory.dtype.type(0)
    for t in range(widths.shape[0]):
        first, width, out, step, total = starts[t], widths[t], at[t], steps[t], sums[t]
        count, mask = _ZERO, _FEWEST
        while mask < _TWO * (ends[t] - first):
            mask = _TWO * mask + _ONE
        heads[: np.int64(mask) + 1] = _ZERO
        for i in range(ends[t] - first):
            source, number = out + i * step, ids[first + i]
            h = ((number * _SPREAD) >> _HIGH) & mask
            while heads[h] != _ZERO and distinct[first + heads[h] - _ONE] != number:
                h = (h + _ONE) & mask
            if heads[h] == _ZERO:
                distinct[first + count] = number
                target = total + count * width
                count += _ONE
                heads[h] = count
                for k in range(width):
                    memory[target + k] = memory[source + k] + zero
            else:
                target = total + (heads[h] - _ONE) * width
                for k in range(width):
                    memory[target + k] += memory[source + k]
        counts[t], sums[t + 1] = count, total + count * width


@sum_by_id.otherwise
def _(
    memory: Array,
    widths: Array,
    ids: Array,
    starts: Array,
    ends: Array,
    at: Array,
    steps: Array,
    sums: Array,
    distinct: Array,
    counts: Array,
    heads: Array,
) -> None:
    widths, starts, ends, at, steps, sums = (a.view(np.int64) for a in (widths, starts, ends, at, steps, sums))
    for t in range(len(widths)):
        mine, width = ids[starts[t] : ends[t]], int(widths[t])
        values, positions, _ = unique_parts(np, mine)
        counts[t] = values.size
        distinct[starts[t] : starts[t] + values.size] = values
        rows = rows_at(memory, int(at[t]), mine.size, width, int(steps[t]))
        rows_at(memory, int(sums[t]), values.size, width, width)[...] = sum_rows(np, rows, positions, values.size)
        sums[t + 1] = sums[t] + values.size * width
