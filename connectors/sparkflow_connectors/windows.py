"""The order of rows: a function of the seed, the worker, the epoch, and the rows as they come; nothing else.

The first pass takes rows window by window: a window is as many rows as the byte budget has room for, permuted as a
whole, and some of it is put aside for validation. What remains is spooled in that order, in blocks; each later epoch
permutes the blocks, takes as many as make a window, and permutes that. So a window of a later epoch has rows of all
parts of the partition, and no epoch needs to know how many rows there are before it has read them.

So a position is one number, the rows of the epoch that were used: those before it in this order, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from sparkflow_connectors.layout import Block, Layout, Piece, put, rows_of
from sparkflow_runtime.wire.errors import InvalidArgumentError

# A window has so many rows, and narrow ones fill so many bytes. It is to stay in the processor's caches while it is
# permuted: 262,144 rows of 160 bytes cost 67 ns each, 65,536 of them 10.
_WINDOW_ROWS, _WINDOW_BYTES = 1 << 16, 8 << 20
_BLOCKS_A_WINDOW = 16
_PARTS = 3  # the budget is for: rows that come in, the same rows permuted, the queue
_PUSH_BYTES = 1 << 19


@dataclass(frozen=True)
class Plan:
    """How a worker's rows are cut. All workers of a job have the same but for the rank."""

    seed: int
    rank: int
    validation: float
    batch_size: int
    window_rows: int
    queue_rows: int
    push_rows: int

    @property
    def block_rows(self) -> int:
        return max(self.window_rows // _BLOCKS_A_WINDOW, 1)

    def random(self, epoch: int, window: int) -> np.random.Generator:
        """epoch -1 is the first pass, which epoch 0 uses as it is."""
        return np.random.Generator(np.random.Philox(key=[self.seed, self.rank], counter=[0, 0, window, epoch + 1]))

    @property
    def crc(self) -> int:
        """Of what else an order of rows follows from besides the rows: where it is another one, a position in an epoch
        means nothing. The rows of one window come alike, however large windows are, but are cut into other blocks."""
        return crc32c(repr((self.seed, self.rank, self.validation, self.window_rows)).encode())

    def held(self, rows: int) -> int:
        """How many of the first `rows` rows are kept for validation; less than all of them."""
        return int(rows * self.validation)


def plan(seed: int, rank: int, validation: float, batch_size: int, row_bytes: int, feed_bytes: int) -> Plan:
    """The sizes that keep to `feed_bytes`: a third for rows as they come, one for them permuted, one for the queue.

    Raises InvalidArgumentError where it has no room for two batches in each third.
    """
    rows = feed_bytes // (_PARTS * row_bytes)
    if rows < 2 * batch_size:
        raise InvalidArgumentError(
            f"feed_bytes is {feed_bytes}, and batches of {batch_size} rows of {row_bytes} bytes need at least "
            f"{2 * _PARTS * batch_size * row_bytes}: give more, or use smaller batches"
        )
    batches = max(1, min(_PUSH_BYTES // (batch_size * row_bytes), rows // (4 * batch_size)))
    window = min(rows, max(_WINDOW_ROWS, _WINDOW_BYTES // row_bytes, 2 * batch_size))
    return Plan(
        seed, rank, validation, batch_size, window, min(rows, max(window, 32 * batch_size)), batches * batch_size
    )


class Window(NamedTuple):
    """A window of the first pass. train: rows in the order of the first epoch, in one or more blocks; held: those for
    validation. Both are valid until the next window is asked for. rows: of the table so far; crc: of all rows so far,
    in this order, and of the plan. last: no rows come after it."""

    train: list[Block]
    held: Block
    rows: int
    crc: int
    last: bool


class Windows:
    """Cuts rows into windows."""

    def __init__(self, plan: Plan, layout: Layout):
        self._plan, self._layout = plan, layout
        self._raw, self._mixed = layout.empty(0), layout.empty(0)
        self._filled = self._rows = self._number = 0
        self._crc = plan.crc

    def __call__(self, pieces: Iterable[Piece]) -> Iterator[Window]:
        """The last window comes with `last`, and at once when its rows are known to be the last ones; a table without
        rows has none."""
        for piece in pieces:
            at, size = 0, rows_of(piece)
            while at < size:
                if self._filled == self._plan.window_rows:
                    yield self._window(last=False)
                room = self._room(self._filled + size - at)
                end = min(size, at + room - self._filled)
                put(self._raw, self._filled, piece, at, end)
                self._filled, at = self._filled + end - at, end
        if self._filled:
            yield self._window(last=True)

    def _room(self, wanted: int) -> int:
        """Rows that `_raw` holds, after it has grown towards `wanted`: a small table needs no window's memory."""
        have = len(self._raw[0])
        if have < min(wanted, self._plan.window_rows):
            grown = self._layout.empty(min(max(wanted, 4 * have), self._plan.window_rows))
            for new, old in zip(grown, self._raw, strict=True):
                new[: self._filled] = old[: self._filled]
            self._raw = grown
            self._mixed = self._layout.empty(len(grown[0]))
        return len(self._raw[0])

    def _window(self, last: bool) -> Window:
        plan, n = self._plan, self._filled
        held = plan.held(self._rows + n) - plan.held(self._rows)
        order = plan.random(-1, self._number).permutation(n)
        mixed = taken(self._raw, order, self._mixed)
        self._rows, self._number, self._filled = self._rows + n, self._number + 1, 0
        for array in mixed:
            self._crc = crc32c(array.reshape(-1).view(np.uint8).data, self._crc)
        return Window([[a[held:] for a in mixed]], [a[:held] for a in mixed], self._rows, self._crc, last)


def taken(block: Block, order: np.ndarray, out: Block) -> Block:
    """Rows of the block by number, in the memory of `out`, which has room for them."""
    found = []
    for source, target in zip(block, out, strict=True):
        part = target[: len(order)]
        np.take(source, order, axis=0, out=part, mode="clip")
        found.append(part)
    return found


def later_epoch(plan: Plan, epoch: int, block_rows: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """The windows of an epoch after the first: (numbers of blocks, their rows)."""
    group: list[int] = []
    rows = 0
    for number in plan.random(epoch, 1 << 63).permutation(len(block_rows)).tolist():
        if group and rows + block_rows[number] > plan.window_rows:
            yield group, rows
            group, rows = [], 0
        group.append(number)
        rows += block_rows[number]
    if group:
        yield group, rows
