"""The memory of queues: rows kept as blocks of columns, never one by one.

A block is a list of arrays, one a component, all with the same number of rows. Stores know nothing of waiting or
closing; the queue calls them under its lock, and never asks for more rows than there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.resources.row_copies import joined
from sparkflow_runtime.resources.shuffle_rows import Column, ShuffleLoops

Block = list[np.ndarray]
_STOCK = 8192


class Store(Protocol):
    """What a queue needs of its memory. `keeps` says that put() keeps the arrays it is given, so they must not
    change. `join` makes one block of what was taken in parts."""

    keeps: bool

    @property
    def size(self) -> int: ...

    def put(self, block: Block) -> None: ...

    def take(self, n: int) -> Block: ...

    def put_back(self, block: Block) -> None: ...

    def join(self, parts: Sequence[Block]) -> Block: ...


def _joined(parts: Sequence[Block]) -> Block:
    return [joined(columns) for columns in zip(*parts, strict=True)]


class FifoStore:
    """Blocks in the order they came. Taking rows of one block gives views; only a take across blocks copies."""

    keeps = True

    def __init__(self) -> None:
        self.size = 0
        self._blocks: deque[Block] = deque()
        self._start = 0  # rows of the first block that are gone

    def put(self, block: Block) -> None:
        self._blocks.append(block)
        self.size += len(block[0])

    def take(self, n: int) -> Block:
        self.size -= n
        pieces = []
        while n:
            piece = self._from_first(n)
            pieces.append(piece)
            n -= len(piece[0])
        return pieces[0] if len(pieces) == 1 else self.join(pieces)

    def join(self, parts: Sequence[Block]) -> Block:
        return _joined(parts)

    def _from_first(self, n: int) -> Block:
        block, start = self._blocks[0], self._start
        left = len(block[0]) - start
        if n < left:
            self._start = start + n
            return [column[start : start + n] for column in block]
        self._blocks.popleft()
        self._start = 0
        return [column[start:] for column in block] if start else block

    def put_back(self, block: Block) -> None:
        """Undo a take."""
        if self._start:
            self._blocks[0] = [column[self._start :] for column in self._blocks[0]]
            self._start = 0
        self._blocks.appendleft(block)
        self.size += len(block[0])


class PaddingStore(FifoStore):
    """A FifoStore whose blocks may have rows of different shapes: what is taken together gets the largest size along
    each dimension, filled up with zeros or empty strings."""

    def join(self, parts: Sequence[Block]) -> Block:
        return [_padded(columns) for columns in zip(*parts, strict=True)]


def _padded(parts: Sequence[np.ndarray]) -> np.ndarray:
    shapes = [part.shape[1:] for part in parts]
    if all(shape == shapes[0] for shape in shapes):
        return joined(parts)
    largest = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    filler = b"" if parts[0].dtype == object else 0
    out, at = np.full((sum(map(len, parts)), *largest), filler, parts[0].dtype), 0
    for part in parts:
        out[(slice(at, at + len(part)), *map(slice, part.shape[1:]))] = part
        at += len(part)
    return out


class PriorityStore:
    """Rows in the order of their first component, the smallest first; equal ones as they came."""

    keeps = True

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Block, int]] = []  # (priority, serial, block, row)
        self._serial, self._front = count(), count(-1, -1)

    @property
    def size(self) -> int:
        return len(self._heap)

    def put(self, block: Block) -> None:
        for i, priority in enumerate(block[0]):
            heappush(self._heap, (int(priority), next(self._serial), block, i))

    def put_back(self, block: Block) -> None:
        for i in reversed(range(len(block[0]))):
            heappush(self._heap, (int(block[0][i]), next(self._front), block, i))

    def take(self, n: int) -> Block:
        rows = [heappop(self._heap) for _ in range(n)]
        block = [np.empty((n, *column.shape[1:]), column.dtype) for column in rows[0][2]]
        for i, (_, _, source, at) in enumerate(rows):
            for column, values in zip(block, source, strict=True):
                column[i] = values[at]
        return block

    def join(self, parts: Sequence[Block]) -> Block:
        return _joined(parts)


class ShuffleStore:
    """Rows in arrays; a take picks rows uniformly without replacement.

    The first `size` numbers of `_order` are the places where rows are, the others are free. A take exchanges the places
    that it picks for the last of the first ones, so that neither taking nor putting moves any other row.
    types, shapes: of a row's components. seeds: of the picks; (0, 0) draws fresh ones.
    """

    keeps = False

    def __init__(
        self,
        types: list[Any],
        shapes: list[tuple[int, ...]],
        seeds: tuple[int, int],
        loops: ShuffleLoops | None = None,
    ):
        self.size = 0
        self._loops = loops or ShuffleLoops()
        self._columns = [Column(kind, shape, self._loops) for kind, shape in zip(types, shapes, strict=True)]
        self._order = np.empty(0, np.int64)
        self._numbers = self._loops.numbers(seeds)
        self._drawn = np.empty(0, np.uint32)  # that no take has used

    def put(self, block: Block) -> None:
        top = self.size + len(block[0])
        if top > len(self._order):
            self._grow(max(top, 2 * len(self._order), 64))
        places = self._order[self.size : top]
        for column, rows in zip(self._columns, block, strict=True):
            column.put(places, rows)
        self.size = top

    put_back = put

    def _grow(self, count: int) -> None:
        for column in self._columns:
            column.grow(count)
        self._order = np.concatenate([self._order, np.arange(len(self._order), count)])

    def take(self, n: int) -> Block:
        self._loops.draw(self._order, self.size, self._drawn_for(n))
        self.size -= n
        places = self._order[self.size : self.size + n][::-1].copy()  # the first that was drawn lies last
        return [column.take(places) for column in self._columns]

    def _drawn_for(self, n: int) -> np.ndarray:
        """n random numbers, in stock, since drawing lets go of the GIL (row_copies.py)."""
        if n > len(self._drawn):
            self._drawn = np.concatenate([self._drawn, self._numbers(max(n, _STOCK))])
        found, self._drawn = self._drawn[:n], self._drawn[n:]
        return found

    def join(self, parts: Sequence[Block]) -> Block:
        return _joined(parts)
