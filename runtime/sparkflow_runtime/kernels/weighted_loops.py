"""Weighted rows of many tables, summed by segment and divided by what their weights sum to, and the way back: compiled
loops with their numpy versions. What a column has lies in memory, as in joint_bag_loops.py.

Products, sums and quotients are those of the nodes that these stand for (master/passes/weighted_bags.py), in the same
order, so the results are the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.row_loops import rows_at
from sparkflow_runtime.kernels.segment_loops import MEAN, SQRT_N, SUM
from sparkflow_runtime.kernels.sum_loops import add_rows

Array = Any
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TYPES = [(real, number) for real in ("float32", "float64") for number in ("int64", "int32")]
_SIGNATURES = [
    "int64({0}[::1], {1}[::1], uint8[::1], uint64[:,::1], int64, {0}[::1], uint64[::1])".format(*kinds)
    for kinds in _TYPES
]


@compiled(_SIGNATURES)
def sum_weighted(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, total: Array, out: Array
) -> int:  # fmt: skip
    """The first column whose entries are not in order, or not of the rows there are, or -1. total: room for a number a
    sum. out: where the sums of each begin, which are zeros.

    given: where data, places, ids, weights and what is hidden begin; rows of data, items of a row, entries, sums.
    """
    for k in range(given.shape[1]):
        data, places, ids, weights, hidden = given[0, k], given[1, k], given[2, k], given[3, k], given[4, k]
        size, width, entries, count, to = given[5, k], given[6, k], given[7, k], given[8, k], out[k]
        before = _ZERO
        for r in range(count):
            total[r] = 0
        for i in range(entries):
            source, target = np.uint64(numbers[places + i]), np.uint64(numbers[ids + i])
            if source >= size or target >= count or target < before:
                return k
            before, weight = target, memory[weights + i]
            total[target] += weight * weight if kind == 2 else weight
            for c in range(width):
                memory[to + target * width + c] += memory[data + source * width + c] * weight
        if entries + count > _ZERO and (entries == _ZERO or before + _ONE != count):
            return k
        for r in range(count):
            by = memory.dtype.type(math.sqrt(total[r])) if kind == 2 else total[r]
            if truths[hidden + r] != 0 or (kind != 0 and by == 0):
                for c in range(width):
                    memory[to + r * width + c] = 0
            elif kind != 0:
                for c in range(width):
                    memory[to + r * width + c] /= by
    return -1


@sum_weighted.otherwise
def _(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, total: Array, out: Array
) -> int:  # fmt: skip
    for k, (data, places, ids, weights, hidden, size, width, entries, count) in enumerate(given.T.tolist()):
        of, at = (numbers[a : a + entries].astype(np.int64) for a in (ids, places))
        wrong = (at < 0) | (at >= size) | (of < 0) | (of >= count)
        wrong[1:] |= of[1:] < of[:-1]
        if wrong.any() or count != (int(of[-1]) + 1 if entries else 0):
            return k
        if not entries:
            continue
        rows, sums = rows_at(memory, data, size, width, width), rows_at(memory, int(out[k]), count, width, width)
        each = memory[weights : weights + entries]
        add_rows.numpy(rows[at] * each[:, None], of, sums)
        if kind != SUM:
            _divide(sums, _divisors(kind, each, of, count))
        sums[truths[hidden : hidden + count] != 0] = 0
    return -1


@compiled(_SIGNATURES)
def spread_weighted(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, total: Array, out: Array
) -> int:  # fmt: skip
    """The first column with an entry out of range, or -1. total: room for a number a sum. out: where the rows of each
    begin, which are zeros.

    given: where gradients, places, ids, weights and what is skipped begin; items from one gradient to the next, items
    of a row, entries, gradients, rows.
    """
    for k in range(given.shape[1]):
        grad, places, ids, weights, skipped = given[0, k], given[1, k], given[2, k], given[3, k], given[4, k]
        step, width, entries, count, size = given[5, k], given[6, k], given[7, k], given[8, k], given[9, k]
        to = out[k]
        for r in range(count):
            total[r] = 0
        for i in range(entries):
            source = np.uint64(numbers[ids + i])
            if np.uint64(numbers[places + i]) >= size or source >= count:
                return k
            weight = memory[weights + i]
            total[source] += weight * weight if kind == 2 else weight
        for i in range(entries):
            target, source = np.uint64(numbers[places + i]), np.uint64(numbers[ids + i])
            weight, by = memory[weights + i], memory.dtype.type(1)
            if kind != 0:
                by = memory.dtype.type(math.sqrt(total[source])) if kind == 2 else total[source]
            if truths[skipped + source] != 0 or by == 0:
                nothing = memory.dtype.type(0)
                nothing = nothing if by == 0 else nothing / by  # of weights that are no numbers, it is none
                for c in range(width):
                    memory[to + target * width + c] += nothing * weight
            else:
                for c in range(width):
                    memory[to + target * width + c] += memory[grad + source * step + c] / by * weight
    return -1


@spread_weighted.otherwise
def _(
    memory: Array, numbers: Array, truths: Array, given: Array, kind: int, total: Array, out: Array
) -> int:  # fmt: skip
    for k, (grad, places, ids, weights, skipped, step, width, entries, count, size) in enumerate(given.T.tolist()):
        of, at = (numbers[a : a + entries].astype(np.int64) for a in (ids, places))
        if ((at < 0) | (at >= size) | (of < 0) | (of >= count)).any():
            return k
        if not entries:
            continue
        rows, sums = rows_at(memory, grad, count, width, step).copy(), rows_at(memory, int(out[k]), size, width, width)
        each = memory[weights : weights + entries]
        rows[truths[skipped : skipped + count] != 0] = 0
        if kind != SUM:
            _divide(rows, _divisors(kind, each, of, count))
        add_rows.numpy(rows[of] * each[:, None], at, sums)
    return -1


def _divisors(kind: int, weights: Array, ids: Array, count: int) -> Array:
    """Of each segment, as a column."""
    total = np.zeros((count, 1), weights.dtype)
    add_rows.numpy((weights * weights if kind == SQRT_N else weights)[:, None], ids, total)
    return total if kind == MEAN else np.sqrt(total)


def _divide(rows: Array, by: Array) -> None:
    """In place; zeros where the divisor is 0."""
    np.divide(rows, by, out=rows, where=by != 0)
    rows[by[:, 0] == 0] = 0
