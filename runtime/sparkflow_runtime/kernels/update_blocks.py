"""A dense update of one variable, shared out in blocks among the crew's threads where that pays.

Rules work element by element, so the bits do not depend on the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.memory import memory, position
from sparkflow_runtime.kernels.parallel import crew_for
from sparkflow_runtime.kernels.row_loops import unsigned

Array = Any
_BLOCK = 1 << 14  # items: those of four arrays fit into a core's cache
_WORK = 64  # multiplications that take about as long as an item
_ZERO = np.zeros(1, np.uint64)
_WORDS = layout.BLOCK_BYTES // 8
_ARGS = layout.ARGS // 8


class Blocks:
    """The arguments of the loop for one variable, made anew only when it moves. One thread at a time."""

    def __init__(self, loop: Compiled):
        self._loop = loop
        self._refs: Array = None
        self._items = 0
        self._batches: Array = None
        self._table: Array = None
        self._kept: list[Array] = []

    def run(self, refs: Array, grad: Array, factors: Array) -> None:
        """refs: where the variable and its slots begin; a gradient in one piece."""
        items, dtype = grad.size, grad.dtype
        crew = crew_for(items * _WORK) if items >= 2 * _BLOCK else None
        address = self._loop.address(dtype) if crew is not None else 0
        if crew is None or not address:
            batch = unsigned([[items, 0, 1, position(grad), 0]])
            self._loop(memory(dtype), refs, batch, _ZERO, factors)
            return
        if self._refs is None or items != self._items or not np.array_equal(refs, self._refs):
            self._prepare(refs, items, dtype, address)
        self._batches[:, 0, 3] = self._starts + np.uint64(position(grad))
        self._table[:, _ARGS + 4] = id(factors)
        crew.run(self._table)

    def _prepare(self, refs: Array, items: int, dtype: Any, address: int) -> None:
        starts = np.arange(0, items, _BLOCK, dtype=np.uint64)
        self._refs, self._items, self._starts = refs.copy(), items, starts
        places = refs[None] + starts[:, None, None]
        self._batches = np.zeros((len(starts), 1, 5), np.uint64)
        self._batches[:, 0, 0], self._batches[:, 0, 2] = _BLOCK, 1
        self._batches[-1, 0, 0] = items - int(starts[-1])
        self._kept = [memory(dtype), *places, *self._batches]
        self._table = np.zeros((len(starts), _WORDS), np.int64)
        self._table[:, layout.KIND // 8], self._table[:, layout.FUNCTION // 8] = layout.ENTRY, address
        for i in range(len(starts)):
            one, two = self._kept[1 + i], self._kept[1 + len(starts) + i]
            self._table[i, _ARGS : _ARGS + 4] = id(self._kept[0]), id(one), id(two), id(_ZERO)


_PIECE = 1 << 15  # elements


def pieces(xp: Any, held: list[Array], grad: Array) -> Iterator[tuple[list[Array], Array]]:
    """Large arrays piece by piece: what a rule computes on the way then stays in a cache and needs no memory of the
    variable's size. Rules work element by element, so the bits are the same."""
    everything = [*held, grad]
    if xp is not np or grad.size <= _PIECE or not all(a.flags.c_contiguous for a in everything):
        yield held, grad
        return
    flat = [a.reshape(-1) for a in everything]
    for at in range(0, grad.size, _PIECE):
        *arrays, part = (a[at : at + _PIECE] for a in flat)
        yield arrays, part
