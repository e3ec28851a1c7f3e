"""Rows of many tables that several give, added up by id: the loop `merge_rows` and the room for what it makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.crew import crew, table_of
from sparkflow_runtime.kernels.distinct_loops import merge_rows, room_to_merge
from sparkflow_runtime.kernels.memory import memory, position
from sparkflow_runtime.kernels.updates import HANDED_OVER, even_ranges

Array = Any
_NUMBERS = np.dtype(np.uint64)


class Givers(NamedTuple):
    """Who gives what, as merge_rows takes it. held: the arrays that the positions are of."""

    widths: Array
    starts: Array
    ends: Array
    at: Array
    held: list[Any]

    def of(self, a: int, b: int) -> Givers:
        """Those of tables a to b."""
        givers = len(self.at) // len(self.widths)
        mine = slice(a * givers, b * givers)
        return Givers(self.widths[a:b], self.starts[mine], self.ends[mine], self.at[mine], self.held)


class Merged(NamedTuple):
    """Of all tables, one's after the other's: rows (a vector), ids, how many each has."""

    rows: Array
    ids: Array
    counts: Array


class _Merge:
    """One call of the loop, and the room for what it makes. each: how many ids each table is given."""

    def __init__(self, givers: Givers, each: Array, dtype: Any, mean: bool):
        self._rows = np.empty(int((each * givers.widths).sum()), dtype)
        self._sums, self._counts = np.empty(len(each) + 1, np.uint64), np.empty(len(each), np.uint64)
        self._distinct, times = np.empty((2, int(each.sum())), np.uint64)
        self._sums[0] = position(self._rows)
        who = givers.widths, memory(_NUMBERS), givers.starts, givers.ends, givers.at
        heads = np.empty(room_to_merge(int(each.max())), np.uint64)
        self.arguments = memory(dtype), *who, self._sums, self._distinct, self._counts, times, heads, int(mean)

    @property
    def words(self) -> tuple[int, ...]:
        """The arguments as the crew takes them."""
        return (*map(id, self.arguments[:-1]), self.arguments[-1])

    def merged(self) -> Merged:
        counts = self._counts.view(np.int64)
        items = int(self._sums[-1]) - int(self._sums[0])
        return Merged(self._rows[:items], self._distinct[: int(counts.sum())].view(np.int64), counts)


def merged(givers: Givers, dtype: Any, mean: bool, threads: int = 1) -> Merged:
    """threads: that may be at it where there is much to do; each has tables of its own."""
    tables = len(givers.widths)
    each = (givers.ends - givers.starts).reshape(tables, -1).sum(1)
    items = each * givers.widths
    shared = threads > 1 and items.sum() >= HANDED_OVER and crew.ready(threads)
    ranges = even_ranges(items) if shared else [(0, tables)]
    merges = [_Merge(givers.of(a, b), each[a:b], dtype, mean) for a, b in ranges]
    address = merge_rows.entry(merges[0].arguments[:-1]) if len(merges) > 1 else 0
    if address:
        crew.run(table_of([(address, merge.words) for merge in merges]))
    else:
        for merge in merges:
            merge_rows(*merge.arguments)
    if len(merges) == 1:
        return merges[0].merged()
    return Merged(*map(np.concatenate, zip(*(merge.merged() for merge in merges))))
