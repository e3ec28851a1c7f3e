"""Adam's decay of the rows that no index names: the moments of whole tables become smaller, and rows move by them.

The rows that are named are set aside while whole tables go through the processor block by block; then they are put back
as they were, for the rule (`rules.decayed_adam`) to change. factors: rate, beta1, beta2, epsilon, then the rule's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.memory import memory, position, positions
from sparkflow_runtime.kernels.parallel import scratch, share
from sparkflow_runtime.kernels.row_fetch import TO_WRITE, fetch_to_write
from sparkflow_runtime.kernels.row_loops import FLOATS, rows_at, unsigned
from sparkflow_runtime.kernels.rules import decayed

Array = Any
_BLOCK = 1 << 16  # items at once, of which three arrays fit into a core's cache
_TABLE = "uint64[:, ::1]"
_AWAY, _BACK = 0, 1


def decay_others(
    dtype: Any, refs: Array, batch: Array, ids: Array, factors: Array, sizes: Array, awaited: bool = False
) -> None:
    """refs, batch, ids: as in update_loops; sizes: how many rows each table has. awaited: whether the other tasks of
    the host wait for this, so that their processors are free."""
    named, space = int((batch[:, 0] * batch[:, 2]).sum()), memory(dtype)
    aside = scratch("rows set aside", (max(1, named * refs.shape[1]),), dtype)
    to = position(aside)
    copy_rows(space, refs, batch, ids, to, _AWAY)
    blocks = _blocks(tuple((sizes * batch[:, 0]).tolist()), _BLOCK)
    share(lambda mine: decay(space, refs, mine, factors), blocks, not awaited)
    copy_rows(space, refs, batch, ids, to, _BACK)


def decay_others_of(xp: Any, held: Sequence[Array], rows: Array, factors: Sequence[Any]) -> None:
    """The same of one table, of any type; rows: in none of which one repeats."""
    aside, dtype = [array.take(rows, axis=0) for array in held], held[0].dtype
    if xp is np and dtype.char in "fd" and all(a.dtype is dtype and a.flags.carray for a in held):
        space, refs, four = memory(dtype), positions(held).reshape(1, -1), np.array([*map(float, factors[:4])], dtype)
        share(lambda mine: decay(space, refs, mine, four), _blocks((held[0].size,), _BLOCK))
    else:
        decayed(xp, held, *factors[:4])
    for array, old in zip(held, aside):
        array[rows] = old


@lru_cache(maxsize=64)
def _blocks(items: tuple[int, ...], length: int) -> Array:
    """A line for each block of tables of so many items: the table, its first item and how many it has."""
    found = [(t, at, min(length, n - at)) for t, n in enumerate(items) for at in range(0, n, length)]
    return unsigned(found).reshape(-1, 3)


@compiled([f"void({item}[::1], {_TABLE}, {_TABLE}, uint64[::1], int64, int64)" for item in FLOATS], parts=TO_WRITE)
def copy_rows(memory: Array, refs: Array, batch: Array, rows: Array, to: Any, back: Any) -> None:
    """All named rows of all tables and their slots to where there is room for them, or back."""
    place = np.uint64(to)
    for t in range(batch.shape[0]):
        n, start, count = batch[t, 0], batch[t, 1], batch[t, 2]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset = rows[start + j] * n
            for kind in range(refs.shape[1]):
                at = refs[t, kind] + offset
                if back:
                    for k in range(n):
                        memory[at + k] = memory[place + k]
                else:
                    for k in range(n):
                        memory[place + k] = memory[at + k]
                place += n


@copy_rows.otherwise
def _(memory: Array, refs: Array, batch: Array, rows: Array, to: Any, back: Any) -> None:
    place = int(to)
    for at, (n, start, count, *_) in zip(refs.view(np.int64).tolist(), batch.view(np.int64).tolist()):
        mine = rows[start : start + count].view(np.int64)
        if not count or not n:
            continue
        aside = rows_at(memory, place, count * len(at), n, n).reshape(count, len(at), n)
        for kind, ref in enumerate(at):
            held = rows_at(memory, ref, int(mine.max()) + 1, n, n)
            if back:
                held[mine] = aside[:, kind]
            else:
                aside[:, kind] = held[mine]
        place += count * len(at) * n


@compiled([f"void({item}[::1], {_TABLE}, {_TABLE}, {item}[::1])" for item in FLOATS])
def decay(memory: Array, refs: Array, blocks: Array, factors: Array) -> None:
    """The blocks of tables, of which each line names one: (table, first item, items)."""
    rate, beta1, beta2, epsilon = factors[0], factors[1], factors[2], factors[3]
    for i in range(blocks.shape[0]):
        t, first, count = blocks[i, 0], blocks[i, 1], blocks[i, 2]
        var, m, v = refs[t, 0] + first, refs[t, 1] + first, refs[t, 2] + first
        for k in range(count):
            one, two = memory[m + k] * beta1, memory[v + k] * beta2
            memory[m + k], memory[v + k] = one, two
            memory[var + k] -= rate * one / (np.sqrt(two) + epsilon)


@decay.otherwise
def _(memory: Array, refs: Array, blocks: Array, factors: Array) -> None:
    for t, first, count in blocks.view(np.int64).tolist():
        held = [rows_at(memory, int(ref) + first, 1, count, count) for ref in refs[t]]
        decayed(np, held, *factors[:4])
