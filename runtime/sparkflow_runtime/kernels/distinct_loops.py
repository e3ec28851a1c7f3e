"""The loops of distinct_rows and accumulators, compiled, with their numpy versions. As in row_loops, all take many
tables side by side, numbers of items are unsigned, and positions are those of kernels/memory.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.row_loops import FLOATS, rows_at
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.resources.row_means import merged

Array = Any
_U = "uint64[::1]"
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_FEWEST, _SPREAD, _HIGH = np.uint64(15), np.uint64(0x9E3779B97F4A7C15), np.uint64(20)


@compiled([f"void({', '.join([_U] * 7)})"])
def number_ids(
    ids: Array, starts: Array, ends: Array, distinct: Array, counts: Array, places: Array, heads: Array
) -> None:
    """The distinct ones of ids[starts[t] : ends[t]] in order of first appearance, those of all tables with no gap
    between; counts[t] of them; places[i] is which of its table's ids[i] is.

    heads: room for a hash table: at least 16 and four times the most ids of a table.
    """
    begin = _ZERO
    for t in range(starts.shape[0]):
        first, count, mask = starts[t], _ZERO, _FEWEST
        while mask < _TWO * (ends[t] - first):
            mask = _TWO * mask + _ONE
        heads[: np.int64(mask) + 1] = _ZERO
        for i in range(first, ends[t]):
            number = ids[i]
            h = ((number * _SPREAD) >> _HIGH) & mask
            while heads[h] != _ZERO and distinct[begin + heads[h] - _ONE] != number:
                h = (h + _ONE) & mask
            if heads[h] == _ZERO:
                distinct[begin + count] = number
                count += _ONE
                heads[h] = count
            places[i] = heads[h] - _ONE
        counts[t] = count
        begin += count


@number_ids.otherwise
def _(ids: Array, starts: Array, ends: Array, distinct: Array, counts: Array, places: Array, heads: Array) -> None:
    begin = 0
    for t, (first, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        values, positions, _ = unique_parts(np, ids[first:end])
        distinct[begin : begin + values.size] = values
        counts[t], places[first:end] = values.size, positions
        begin += values.size


def distinct_of(ids: Array) -> tuple[Array, Array]:
    """(the distinct ones of a vector of integers in order of first appearance, which of them each is)."""
    numbers, size = ids.astype(np.int64).view(np.uint64), ids.size
    distinct, places, count = np.empty(size, np.uint64), np.empty(size, np.int64), np.zeros(1, np.uint64)
    begin, end, heads = np.zeros(1, np.uint64), np.array([size], np.uint64), np.empty(max(16, 4 * size), np.uint64)
    number_ids(numbers, begin, end, distinct, count, places.view(np.uint64), heads)
    return distinct[: int(count[0])].view(np.int64).astype(ids.dtype), places


@compiled([f"void({item}[::1], {', '.join([_U] * 7)})" for item in FLOATS])
def sum_to_distinct(
    memory: Array, widths: Array, places: Array, starts: Array, ends: Array, at: Array, steps: Array, sums: Array
) -> None:
    """Row i of table t, at position at[t] + i * steps[t], is added to the row places[starts[t] + i] of those that begin
    at sums[t]. Places are in order of first appearance, and the rows of one are added in their order."""
    zero = memory.dtype.type(0)
    for t in range(widths.shape[0]):
        first, width, source, count = starts[t], widths[t], at[t], _ZERO
        for i in range(first, ends[t]):
            target = sums[t] + places[i] * width
            if places[i] == count:
                count += _ONE
                for k in range(width):
                    memory[target + k] = memory[source + k] + zero
            else:
                for k in range(width):
                    memory[target + k] += memory[source + k]
            source += steps[t]


@sum_to_distinct.otherwise
def _(
    memory: Array, widths: Array, places: Array, starts: Array, ends: Array, at: Array, steps: Array, sums: Array
) -> None:
    columns = (a.view(np.int64).tolist() for a in (widths, starts, ends, at, steps, sums))
    for width, start, end, source, step, target in zip(*columns):
        mine = places[start:end].view(np.int64)
        if mine.size and width:
            rows, count = rows_at(memory, source, mine.size, width, step), int(mine.max()) + 1
            rows_at(memory, target, count, width, width)[...] = sum_rows(np, rows, mine, count)


def _meet(numbers: Array, starts: Array, ends: Array, room: Array) -> None:
    """Over how many rows the mean of each row is, of givers with these numbers (resources.row_means.merged), one
    giver's after the other's at the beginning of `room`, whose size is six times theirs."""
    size = room.shape[0] // 6
    by, counts = room[:size], room[size : 2 * size]
    # The ids as they lie in the average, and which mean each is of
    ids, of = room[2 * size : 3 * size], room[3 * size : 4 * size]
    next_ids, next_of = room[4 * size : 5 * size], room[5 * size : 6 * size]
    means, length, made, row = _ZERO, _ZERO, _ZERO, _ZERO
    for g in range(starts.shape[0]):
        i, made = _ZERO, _ZERO
        for j in range(starts[g], ends[g]):
            number = numbers[j]
            while i < length and ids[i] < number:
                next_ids[made], next_of[made] = ids[i], of[i]
                made += _ONE
                i += _ONE
            next_ids[made] = number
            if i < length and ids[i] == number:
                next_of[made] = of[i]
                counts[of[i]] += _ONE
                i += _ONE
            else:
                next_of[made], counts[means] = means, _ONE
                means += _ONE
            by[row] = next_of[made]
            made += _ONE
            row += _ONE
        while i < length:
            next_ids[made], next_of[made] = ids[i], of[i]
            made += _ONE
            i += _ONE
        length, ids, of, next_ids, next_of = made, next_ids, next_of, ids, of
    for k in range(row):
        by[k] = counts[by[k]]


@compiled([f"void({item}[::1], {', '.join([_U] * 10)}, int64)" for item in FLOATS], parts=[_meet])
def merge_rows(
    memory: Array,
    widths: Array,
    numbers: Array,
    starts: Array,
    ends: Array,
    at: Array,
    sums: Array,
    distinct: Array,
    counts: Array,
    times: Array,
    heads: Array,
    mean: int,
) -> None:
    """Of each table the rows that several give, added up by id in the order of the givers. With `mean` they are the
    average of a SparseAccumulator: divided by how many gave that row, where the ids of each giver ascend, and otherwise
    each by as many as it meets.

    Giver g of table t has the ids from starts[t * givers + g] to ends[t * givers + g] of `numbers` (all memory, as
    uint64), none twice, and their rows from position at[t * givers + g] on. distinct and counts are as number_ids gives
    them; the sums lie side by side from position sums[t] on to sums[t + 1], and sums[0] is given. times: room as for
    the distinct ids; heads: of the size that `room_to_merge` says.
    """
    tables, begin = widths.shape[0], _ZERO
    givers = at.shape[0] // max(tables, 1)
    for t in range(tables):
        width, total, given = widths[t], sums[t], _ZERO
        ascend = True
        for g in range(t * givers, (t + 1) * givers):
            given += ends[g] - starts[g]
            above = _ZERO
            for i in range(starts[g], ends[g]):
                ascend &= numbers[i] >= above
                above = numbers[i] + _ONE
        count, mask = _ZERO, _FEWEST
        while mask < _TWO * given:
            mask = _TWO * mask + _ONE
        heads[: np.int64(mask) + 1] = _ZERO
        apart = mean != 0 and not ascend
        room = heads[np.int64(mask) + 1 :][: np.int64(given) * 6]
        if apart:
            _meet(numbers, starts[t * givers : (t + 1) * givers], ends[t * givers : (t + 1) * givers], room)
        row = _ZERO
        for g in range(t * givers, (t + 1) * givers):
            source = at[g]
            for i in range(starts[g], ends[g]):
                number = numbers[i]
                h = ((number * _SPREAD) >> _HIGH) & mask
                while heads[h] != _ZERO and distinct[begin + heads[h] - _ONE] != number:
                    h = (h + _ONE) & mask
                new = heads[h] == _ZERO
                if new:
                    distinct[begin + count] = number
                    times[begin + count] = _ZERO
                    count += _ONE
                    heads[h] = count
                place = heads[h] - _ONE
                times[begin + place] += _ONE
                target = total + place * width
                if apart and room[row] > _ONE:
                    by = memory.dtype.type(room[row])
                    if new:
                        for k in range(width):
                            memory[target + k] = memory[source + k] / by
                    else:
                        for k in range(width):
                            memory[target + k] += memory[source + k] / by
                elif new:
                    for k in range(width):
                        memory[target + k] = memory[source + k]
                else:
                    for k in range(width):
                        memory[target + k] += memory[source + k]
                source += width
                row += _ONE
        if mean != 0 and ascend:
            for place in range(count):
                target, by = total + place * width, memory.dtype.type(times[begin + place])
                for k in range(width):
                    memory[target + k] /= by
        counts[t], sums[t + 1] = count, total + count * width
        begin += count


def room_to_merge(most: int) -> int:
    """Of `heads` in merge_rows: a hash table, and room to find what meets; most: ids that a table is given."""
    return max(16, 4 * most) + 6 * most


@merge_rows.otherwise
def _(
    memory: Array,
    widths: Array,
    numbers: Array,
    starts: Array,
    ends: Array,
    at: Array,
    sums: Array,
    distinct: Array,
    counts: Array,
    times: Array,
    heads: Array,
    mean: int,
) -> None:
    givers, begin = len(at) // max(len(widths), 1), 0
    widths, starts, ends, at, sums = (a.view(np.int64) for a in (widths, starts, ends, at, sums))
    for t, width in enumerate(widths.tolist()):
        mine = range(t * givers, (t + 1) * givers)
        lists = [numbers[starts[g] : ends[g]] for g in mine]
        values, positions, touched = unique_parts(np, np.concatenate(lists))
        rows = [rows_at(memory, int(at[g]), int(ends[g] - starts[g]), width, width) for g in mine]
        ascend = all((ids[1:] > ids[:-1]).all() for ids in lists)
        if mean and not ascend:
            over = merged([ids.tolist() for ids in lists])
            rows = [part / np.array(by, memory.dtype)[:, None] for part, by in zip(rows, over)]
        total = _added(rows, positions, values.size, width, memory.dtype)
        if mean and ascend:
            total /= touched.astype(memory.dtype)[:, None]
        counts[t], distinct[begin : begin + values.size] = values.size, values
        if total.size:
            rows_at(memory, int(sums[t]), values.size, width, width)[...] = total
        sums[t + 1] = sums[t] + values.size * width
        begin += values.size


def _added(rows: list[Array], positions: Array, count: int, width: int, dtype: Any) -> Array:
    total, seen, begin = np.empty((count, width), dtype), np.zeros(count, bool), 0
    for part in rows:
        at = positions[begin : begin + len(part)]  # none twice within one
        known = seen[at]
        total[at[known]] += part[known]
        total[at[~known]] = part[~known]
        seen[at] = True
        begin += len(part)
    return total


@compiled([f"int64({', '.join([_U] * 5)}, uint64[:, ::1])"])
def lay_out(counts: Array, of: Array, widths: Array, sizes: Array, ids: Array, parts: Array) -> int:
    """Where the parts of rows that came together lie: part t has the ids that counts[of[t]] is of, and rows of
    widths[t] items. A column of `parts` for each, as update_loops takes them: the width, where its ids begin, how many
    they are, where its rows begin among the items of all, the width again; and where its ids end.

    Returns how many items all have; -2 where the counts are not of these ids, and -3 where an id names none of sizes[t]
    rows: the caller then says which.
    """
    total, items, group, begin = _ZERO, _ZERO, _ZERO, _ZERO
    for g in range(counts.shape[0]):
        if counts[g] > ids.shape[0]:
            return -2
        total += counts[g]
    if total != ids.shape[0]:
        return -2
    for t in range(of.shape[0]):
        if of[t] >= counts.shape[0]:
            return -2
        if of[t] < group:
            group, begin = _ZERO, _ZERO
        while group < of[t]:
            begin += counts[group]
            group += _ONE
        width, count, size, outside = widths[t], counts[group], sizes[t], False
        for i in range(begin, begin + count):
            outside |= ids[i] >= size
        if outside:
            return -3
        parts[0, t], parts[1, t], parts[2, t] = width, begin, count
        parts[3, t], parts[4, t], parts[5, t] = items, width, begin + count
        items += count * width
    return np.int64(items)  # type: ignore[return-value]


@lay_out.otherwise
def _(counts: Array, of: Array, widths: Array, sizes: Array, ids: Array, parts: Array) -> int:
    if (counts > ids.size).any() or counts.sum() != ids.size or of.max() >= counts.size:
        return -2
    mine, ends = counts[of.view(np.int64)], np.cumsum(counts)[of.view(np.int64)]
    where = zip((ends - mine).tolist(), ends.tolist(), sizes.tolist())
    if any((ids[begin:end] >= size).any() for begin, end, size in where):
        return -3
    items = np.cumsum(mine * widths)
    parts[:] = widths, ends - mine, mine, items - mine * widths, widths, ends
    return int(items[-1])
