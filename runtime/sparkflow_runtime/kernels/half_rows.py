"""Tables of float16 and bfloat16: their rows as float32, and back.

Loops compute in float32 what TensorFlow rounds after each operation; here a result is rounded once, to nearest even.
numpy's own arithmetic in these types takes 5 to 20 ns a number, and adds rows of one id in rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import compression, decay_loops, row_loops
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.distinct_loops import number_ids
from sparkflow_runtime.kernels.halves import HALVES, narrowed, widened
from sparkflow_runtime.kernels.memory import copying, memory, position, positions
from sparkflow_runtime.kernels.parallel import share
from sparkflow_runtime.kernels.row_loops import rows_at, unsigned

Array = Any
_U = "uint64[::1]"


def all_of(tables: Sequence[Sequence[Array]]) -> bool:
    """Whether variables and their slots are of one of these types, and can be changed by loops."""
    arrays = [a for held in tables for a in held]
    dtype = arrays[0].dtype
    return dtype in HALVES and all(a.dtype == dtype and a.flags.carray for a in arrays)


def dense(update: Callable[..., None], held: list[Array], grad: Array, scalars: Sequence[Array]) -> None:
    """An Updater's `dense`, of float32."""
    _prepare()
    wide = [widened(a) for a in held]
    update(wide, widened(grad), scalars)
    for array, new in zip(held, wide):
        array[...] = narrowed(new, array.dtype)


def sparse(
    update: Callable[..., None],
    tables: Sequence[list[Array]],
    grads: Sequence[Array],
    indices: Sequence[Array],
    scalars: Sequence[Array],
    how: str,
    names: Sequence[str],
    decays: bool,
) -> None:
    """An Updater's `sparse`, of float32: of arrays that have the rows alone that are named. Indices have been checked.
    decays: whether the other rows change too, as decay_loops has it."""
    _prepare()
    if how == "distinct":
        ids, mine = list(indices), [np.arange(rows.size) for rows in indices]
    else:
        ids, mine = _numbered(indices)
    kinds = len(tables[0])
    rows = Rows([array for held in tables for array in held], [one for one in ids for _ in range(kinds)])
    if decays:
        _decay(tables, np.array([*map(float, scalars[:4])], np.float32))
    wide = [rows.arrays[t : t + kinds] for t in range(0, len(rows.arrays), kinds)]
    update(wide, [widened(g) for g in grads], mine, scalars, how, names)
    rows.put_back()


@cache
def _prepare() -> None:
    compression.prepare()
    for loop in (put_rows, row_loops.gather_rows, number_ids):
        loop.prepare()


def _numbered(indices: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Of each array the distinct ids, and which of them its ids are."""
    ends = np.array([rows.size for rows in indices]).cumsum()
    flat = np.concatenate(indices, dtype=np.int64, casting="same_kind")
    starts, distinct, places = ends - [rows.size for rows in indices], np.empty_like(flat), np.empty_like(flat)
    counts = np.empty_like(ends)
    heads = np.empty(max(16, 4 * int((ends - starts).max())), np.uint64)
    number_ids(*map(unsigned, (flat, starts, ends, distinct, counts, places)), heads)
    begins = counts.cumsum() - counts
    ids = [distinct[a : a + n] for a, n in zip(begins.tolist(), counts.tolist())]
    return ids, [places[a:b] for a, b in zip(starts.tolist(), ends.tolist())]


_BLOCK = 1 << 16  # items, of which three arrays fit into a core's cache as float32


def _decay(tables: Sequence[Sequence[Array]], factors: Array) -> None:
    """All rows of the tables; those that are named are put back afterwards."""
    flat = [[a.reshape(-1) for a in held] for held in tables]

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for t, at in blocks:
            parts = [a[at : at + _BLOCK] for a in flat[t]]
            wide = [widened(part) for part in parts]
            block = unsigned([[0, 0, wide[0].size]])
            decay_loops.decay(memory(np.dtype(np.float32)), positions(wide).reshape(1, -1), block, factors)
            for part, new in zip(parts, wide):
                part[...] = narrowed(new, part.dtype)

    share(work, [(t, at) for t, held in enumerate(flat) for at in range(0, held[0].size, _BLOCK)])


@compiled([f"void(int16[::1], {', '.join([_U] * 6)})"])
def put_rows(memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array) -> None:
    """gather_rows the other way: row ids[starts[t] + i] of table t becomes row i of those that begin at at[t]."""
    for t in range(tables.shape[0]):
        table, first, width, source = tables[t], starts[t], widths[t], at[t]
        for i in range(ends[t] - first):
            target = table + ids[first + i] * width
            for k in range(width):
                memory[target + k] = memory[source + i * width + k]


@put_rows.otherwise
def _(memory: Array, tables: Array, widths: Array, ids: Array, starts: Array, ends: Array, at: Array) -> None:
    columns = (c.view(np.int64).tolist() for c in (tables, widths, starts, ends, at))
    for table, width, start, end, source in zip(*columns):
        mine = ids[start:end].view(np.int64)
        if mine.size and width:
            whole = rows_at(memory, table, int(mine.max()) + 1, width, width)
            whole[mine] = rows_at(memory, source, mine.size, width, width)


class Rows:
    """Rows of arrays of one of these types, as float32, to be changed and put back. Ids have been checked."""

    def __init__(self, arrays: Sequence[Array], ids: Sequence[Array]):
        """ids: of the rows of each array, none twice."""
        counts, sizes = np.array([one.size for one in ids]), [a.shape[1:] for a in arrays]
        widths = np.array([math.prod(size) for size in sizes], np.int64)
        ends, bounds = counts.cumsum(), np.zeros(len(arrays) + 1, np.int64)
        np.cumsum(counts * widths, out=bounds[1:])
        self._dtype, self._begins = arrays[0].dtype, unsigned(bounds[:-1])
        flat = np.concatenate(ids, dtype=np.int64, casting="same_kind").view(np.uint64)
        self._where = positions(arrays), unsigned(widths), flat, unsigned(ends - counts), unsigned(ends)
        narrow = np.empty(bounds[-1], self._dtype)
        at = self._begins + np.uint64(position(narrow))
        row_loops.gather_rows(copying(self._dtype), *self._where, at, self._where[1])
        self._wide = widened(narrow)
        ranges = zip(bounds.tolist(), bounds[1:].tolist(), counts.tolist(), sizes)
        self.arrays = [self._wide[a:b].reshape(count, *size) for a, b, count, size in ranges]

    def put_back(self) -> None:
        narrow = narrowed(self._wide, self._dtype)
        put_rows(copying(self._dtype), *self._where, self._begins + np.uint64(position(narrow)))
