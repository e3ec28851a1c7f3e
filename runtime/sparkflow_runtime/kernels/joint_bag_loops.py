"""Bags of many columns at once: found, numbered, summed and the way back. Compiled loops with their numpy versions.

What a column has lies in `memory` (kernels/memory.py) at the positions that come with it; a table of numbers has a row
for each thing and a column for each of these. Every loop does for each what that of one does (bag_loops.py,
segment_loops.py), in the same order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.bag_loops import number_bags
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.row_loops import rows_at
from sparkflow_runtime.kernels.segment_loops import spread_picked, sum_picked

Array = Any
_REALS, _NUMBERS = ("float32", "float64"), ("int64", "int32")
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@compiled(["void(int64[::1], uint64[:,::1], int64[::1], int64[:,::1], int64[::1], int64[::1])"])
def entries_each(memory: Array, given: Array, ignored: Array, where: Array, what: Array, found: Array) -> None:
    """How many numbers of each matrix are not ignored (found), where they are, and which: one matrix's after the
    other's, with room for one more than there are numbers.

    given: where a matrix begins, its rows, its columns.
    """
    out = _ZERO
    for k in range(given.shape[1]):
        at, none, before = given[0, k], ignored[k], out
        for i in range(given[1, k]):
            for j in range(given[2, k]):
                value = memory[at]
                where[out, 0], where[out, 1], what[out] = np.int64(i), np.int64(j), value
                out += np.uint64(value != none)
                at += _ONE
        found[k] = np.int64(out - before)


@entries_each.otherwise
def _(memory: Array, given: Array, ignored: Array, where: Array, what: Array, found: Array) -> None:
    out = 0
    for k, (at, rows, columns) in enumerate(given.T.tolist()):
        matrix = memory[at : at + rows * columns].reshape(rows, columns)
        told = matrix != ignored[k]
        end = out + int(np.count_nonzero(told))
        where[out:end].T[...], what[out:end], found[k] = told.nonzero(), matrix[told], end - out
        out = end


@compiled(
    [
        f"int64(int64[::1], uint64[:,::1], int64[::1], int64, {kind}[::1], {kind}[::1], uint8[::1], int64[::1], "
        "uint64[::1], int64[:,::1])"
        for kind in _NUMBERS
    ],
    parts=[number_bags.loop],
)
def number_each(
    memory: Array, given: Array, defaults: Array, only_known: int, row_of: Array, where: Array, empty: Array,
    distinct: Array, room: Array, found: Array,
) -> int:  # fmt: skip
    """The first column with an entry whose row is out of range, or -1. What is found of a column begins where as many
    entries and rows as those before it may have would end.

    given: where indices and ids begin, numbers an index, ids, rows. found: how many entries, how many distinct ids.
    """
    at, row = _ZERO, _ZERO
    for k in range(given.shape[1]):
        axes, count, rows = given[2, k], given[3, k], given[4, k]
        indices = memory[given[0, k] : given[0, k] + axes * count]
        ids = memory[given[1, k] : given[1, k] + count]
        end = at + count + rows
        total = number_bags(
            indices, np.int64(axes), ids, defaults[k], only_known, row_of[at:end], where[at:end],
            empty[row : row + rows], distinct[at:end], room,
        )  # fmt: skip
        if total < 0:
            return k
        found[0, k], found[1, k] = total, np.int64(room[0])
        at, row = end, row + rows
    return -1


@number_each.otherwise
def _(
    memory: Array, given: Array, defaults: Array, only_known: int, row_of: Array, where: Array, empty: Array,
    distinct: Array, room: Array, found: Array,
) -> int:  # fmt: skip
    at = row = 0
    for k, (indices, ids, axes, count, rows) in enumerate(given.T.tolist()):
        end, of = at + count + rows, slice(row, row + rows)
        mine = memory[indices : indices + axes * count], axes, memory[ids : ids + count], defaults[k], only_known
        total = number_bags.numpy(*mine, row_of[at:end], where[at:end], empty[of], distinct[at:end], room)
        if total < 0:
            return k
        found[:, k] = total, room[0]
        at, row = end, row + rows
    return -1


_TYPES = [(real, number) for real in _REALS for number in _NUMBERS]
_GIVEN = "int64({0}[::1], {1}[::1], uint8[::1], uint64[:,::1], int64"


@compiled([f"{_GIVEN}, uint64[::1])".format(*kinds) for kinds in _TYPES])
def sum_each(memory: Array, numbers: Array, truths: Array, given: Array, kind: int, out: Array) -> int:
    """The first column whose entries are not in order, or not of the rows there are, or -1. out: where the sums of
    each begin, which are zeros.

    given: where data, places, ids and what is hidden begin; rows of data, items of a row, entries, sums.
    """
    for k in range(given.shape[1]):
        data, places, ids, hidden, size = given[0, k], given[1, k], given[2, k], given[3, k], given[4, k]
        width, entries, count, to, before = given[5, k], given[6, k], given[7, k], out[k], _ZERO
        for i in range(entries):
            source, target = np.uint64(numbers[places + i]), np.uint64(numbers[ids + i])
            if source >= size or target >= count or target < before:
                return k
            before = target
            for c in range(width):
                memory[to + target * width + c] += memory[data + source * width + c]
        if entries + count > _ZERO and (entries == _ZERO or before + _ONE != count):
            return k
        start: Any = _ZERO
        for i in range(_ONE, entries + _ONE):
            if kind != 0 and (i == entries or numbers[ids + i] != numbers[ids + start]):
                times = np.float64(i - start)
                by = memory.dtype.type(times) if kind == 1 else memory.dtype.type(math.sqrt(times))
                target = np.uint64(numbers[ids + start])
                for c in range(width):
                    memory[to + target * width + c] /= by
                start = i
        for r in range(count):
            if truths[hidden + r] != 0:
                for c in range(width):
                    memory[to + r * width + c] = 0
    return -1


@sum_each.otherwise
def _(memory: Array, numbers: Array, truths: Array, given: Array, kind: int, out: Array) -> int:
    for k, (data, places, ids, hidden, size, width, entries, count) in enumerate(given.T.tolist()):
        of = numbers[ids : ids + entries]
        rows, sums = rows_at(memory, data, size, width, width), rows_at(memory, int(out[k]), count, width, width)
        bad = sum_picked.numpy(
            rows, numbers[places : places + entries], of, kind, truths[hidden : hidden + count], sums
        )  # fmt: skip
        if bad >= 0 or count != (int(of[-1]) + 1 if entries else 0):
            return k
    return -1


@compiled([f"{_GIVEN}, int64[::1], uint64[::1])".format(*kinds) for kinds in _TYPES])
def spread_each(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, times: Array, out: Array
) -> int:  # fmt: skip
    """The first column with an entry out of range, or -1. times: room for a number a sum. out: where the rows of each
    begin, which are zeros.

    given: where gradients, places, ids and what is skipped begin; items from one gradient to the next, items of a row,
    entries, gradients, rows.
    """
    for k in range(given.shape[1]):
        grad, places, ids, skipped, step = given[0, k], given[1, k], given[2, k], given[3, k], given[4, k]
        width, entries, count, size, to = given[5, k], given[6, k], given[7, k], given[8, k], out[k]
        for r in range(count):
            times[r] = 0
        for i in range(entries):
            if np.uint64(numbers[places + i]) >= size or np.uint64(numbers[ids + i]) >= count:
                return k
            times[np.uint64(numbers[ids + i])] += 1
        by = memory.dtype.type(1)
        for i in range(entries):
            target, source = np.uint64(numbers[places + i]), np.uint64(numbers[ids + i])
            if truths[skipped + source] != 0:
                continue
            if kind != 0:
                number = np.float64(times[source])
                by = memory.dtype.type(number) if kind == 1 else memory.dtype.type(math.sqrt(number))
            for c in range(width):
                memory[to + target * width + c] += memory[grad + source * step + c] / by
    return -1


@spread_each.otherwise
def _(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, times: Array, out: Array
) -> int:  # fmt: skip
    for k, (grad, places, ids, skipped, step, width, entries, count, size) in enumerate(given.T.tolist()):
        rows, sums = rows_at(memory, grad, count, width, step), rows_at(memory, int(out[k]), size, width, width)
        of, where = numbers[ids : ids + entries], numbers[places : places + entries]
        if spread_picked.numpy(rows, where, of, kind, truths[skipped : skipped + count], times, sums) >= 0:
            return k
    return -1
