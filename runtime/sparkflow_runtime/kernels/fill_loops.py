"""Where the entries of a sparse matrix lie once every row has one: a compiled loop with its numpy version."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import host, one_int
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any


def entries_of_rows(indices: Array, shape: Array) -> tuple[Array, Array, Array]:
    """(the row of each entry when each row without one has got one, where each given entry is among them, which rows
    had none (bool)), in the order of rows, those of one as they came.

    indices: int64 [entries, rank], in any order. Raises InvalidArgumentError where a row is not within the shape.
    """
    at, rows = np.ascontiguousarray(host(indices), np.int64), one_int(shape[:1]) if len(shape) else 0
    row_of, places, empty = np.empty(len(at) + rows, np.int64), np.empty(len(at), np.int64), np.empty(rows, bool)
    total = place_entries(at, np.empty(rows, np.int64), row_of, places, empty.view(np.uint8))
    if total < 0:
        raise InvalidArgumentError(f"SparseFillEmptyRows: indices(:, 0) must lie in [0, {rows})")
    return row_of[:total], places, empty


def filled(xp: Any, values: Array, places: Array, count: int, default: Any) -> Array:
    """`count` values: the given ones where they belong, and the default."""
    if len(values) == count:
        whole = xp.empty(count, values.dtype)
    else:
        whole = xp.full(count, default, values.dtype)
    whole[places] = values
    return whole


@compiled(["int64(Array(int64, 2, 'C', readonly=True), int64[::1], int64[::1], int64[::1], uint8[::1])"])
def place_entries(indices: Array, at: Array, row_of: Array, places: Array, empty: Array) -> int:
    """How many entries there are then; -1 where a row is out of range. at: room for a number a row."""
    rows = np.uint64(empty.shape[0])
    for r in range(rows):
        at[r] = 0
    for i in range(np.uint64(indices.shape[0])):
        row = np.uint64(indices[i, 0])
        if row >= rows:
            return -1
        at[row] += 1
    total = 0
    for r in range(rows):
        count = at[r]
        at[r], empty[r] = total, count == 0
        row_of[np.uint64(total)] = r
        for j in range(np.uint64(total + 1), np.uint64(total + count)):
            row_of[j] = r
        total += max(count, 1)
    for i in range(np.uint64(indices.shape[0])):
        row = np.uint64(indices[i, 0])
        places[i] = at[row]
        at[row] += 1
    return total


@place_entries.otherwise
def _(indices: Array, at: Array, row_of: Array, places: Array, empty: Array) -> int:
    rows, own = len(empty), indices[:, 0]
    if (own.view(np.uint64) >= rows).any():
        return -1
    counts = np.bincount(own, minlength=rows)
    empty[:] = counts == 0
    order = np.argsort(own, kind="stable")
    filled = np.maximum(counts, 1)
    starts = np.cumsum(filled) - filled
    places[order] = starts[own[order]] + np.arange(len(own)) - (np.cumsum(counts) - counts)[own[order]]
    total = int(filled.sum())
    row_of[:total] = np.repeat(np.arange(rows), filled)
    return total
