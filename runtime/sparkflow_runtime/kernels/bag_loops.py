"""The ids of bags, every row given one, and numbered: a compiled loop with its numpy version."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.fill_loops import place_entries
from sparkflow_runtime.kernels.host import one_int
from sparkflow_runtime.kernels.parallel import scratch
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_FEWEST, _SPREAD, _HIGH = np.uint64(15), np.uint64(0x9E3779B97F4A7C15), np.uint64(20)
_KINDS = (np.dtype(np.int32), np.dtype(np.int64))


def handles(xp: Any, indices: Array, ids: Array, kinds: tuple[Any, Any]) -> bool:
    """kinds: of the two outputs that number something."""
    wide = indices.dtype == np.int64 and ids.dtype == np.int64
    return xp is np and wide and kinds[0] == kinds[1] and kinds[0] in _KINDS


def numbered(indices: Array, ids: Array, shape: Array, default: Any, only_known: bool, kind: Any) -> Any:
    """(the distinct ids, which of them each entry has, which rows were empty, each entry's row), as _BagIds gives them;
    `kind` is the type of the second and last. Raises InvalidArgumentError where a row is not within the shape."""
    rows = one_int(shape[:1]) if len(shape) else 0
    most = len(ids) + rows
    row_of, where, empty = np.empty(most, kind), np.empty(most, kind), np.empty(rows, bool)
    distinct, room = np.empty(most, np.int64), scratch("bags", (1 + rows + most + max(16, 4 * most),), np.uint64)
    given = np.ascontiguousarray(indices).reshape(-1), indices.shape[1], np.ascontiguousarray(ids)
    total = number_bags(*given, int(default), int(only_known), row_of, where, empty.view(np.uint8), distinct, room)
    if total < 0:
        raise InvalidArgumentError(f"SparseFillEmptyRows: indices(:, 0) must lie in [0, {rows})")
    return distinct[: int(room[0])], where[:total], empty, row_of[:total]


@compiled(
    [
        "int64(Array(int64, 1, 'C', readonly=True), int64, Array(int64, 1, 'C', readonly=True), int64, int64, "
        f"{kind}[::1], {kind}[::1], uint8[::1], int64[::1], uint64[::1])"
        for kind in ("int32", "int64")
    ]
)
def number_bags(
    indices: Array, axes: int, ids: Array, default: Any, only_known: Any, row_of: Array, where: Array, empty: Array,
    distinct: Array, room: Array,
) -> int:  # fmt: skip
    """How many entries there are; -1 where a row is out of range. indices: `axes` numbers an entry, the row first.
    only_known: without the negative ids.

    room: the number of distinct ids comes first; then where the entries of each row begin, the ids of all entries, and
    a hash table of at least 16 and four times as many.
    """
    rows, given, drops, step = np.uint64(empty.shape[0]), np.uint64(ids.shape[0]), only_known != 0, np.uint64(axes)
    entries, total = _ONE + rows, _ZERO
    for r in range(rows):
        room[_ONE + r] = _ZERO
    for i in range(given):
        if drops and ids[i] < 0:
            continue
        row = np.uint64(indices[i * step])
        if row >= rows:
            return -1
        room[_ONE + row] += _ONE
    for r in range(rows):
        count = room[_ONE + r]
        room[_ONE + r] = entries + total
        empty[r] = count == _ZERO
        if count == _ZERO:
            room[entries + total] = np.uint64(default)
            count = _ONE
        for j in range(total, total + count):
            row_of[j] = r
        total += count
    for i in range(given):
        if drops and ids[i] < 0:
            continue
        row = np.uint64(indices[i * step])
        room[room[_ONE + row]] = np.uint64(ids[i])
        room[_ONE + row] += _ONE
    found, mask, heads = _ZERO, _FEWEST, entries + total
    while mask < _TWO * total:
        mask = _TWO * mask + _ONE
    for h in range(heads, heads + mask + _ONE):
        room[h] = _ZERO
    for i in range(total):
        number = room[entries + i]
        h = heads + (((number * _SPREAD) >> _HIGH) & mask)
        while room[h] != _ZERO and np.uint64(distinct[room[h] - _ONE]) != number:
            h = heads + ((h - heads + _ONE) & mask)
        if room[h] == _ZERO:
            distinct[found] = np.int64(number)
            found += _ONE
            room[h] = found
        where[i] = room[h] - _ONE
    room[0] = found
    return np.int64(total)  # type: ignore[return-value]


@number_bags.otherwise
def _(
    indices: Array, axes: int, ids: Array, default: Any, only_known: Any, row_of: Array, where: Array, empty: Array,
    distinct: Array, room: Array,
) -> int:  # fmt: skip
    indices = indices.reshape(len(ids), axes)
    if only_known:
        known = ids >= 0
        indices, ids = indices[known], ids[known]
    rows, places = np.empty(len(row_of), np.int64), np.empty(len(ids), np.int64)
    total = place_entries.numpy(indices, None, rows, places, empty)
    if total < 0:
        return -1
    entries = np.full(total, default)
    entries[places] = ids
    values, positions, _ = unique_parts(np, entries)
    row_of[:total], where[:total], distinct[: values.size] = rows[:total], positions, values
    room[0] = values.size
    return int(total)
