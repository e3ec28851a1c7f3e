"""What a shuffling queue does row by row, in numpy. kernels/queue_loops.py has the same compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.resources.row_copies import HELD_BYTES, PLAIN


def numbers(seeds: tuple[int, int]) -> Callable[[int], np.ndarray]:
    """So many random numbers of 32 bits at each call. seeds: of all of them; (0, 0) draws fresh ones."""
    entropy = None if seeds == (0, 0) else [seed % 2**64 for seed in seeds]
    generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))
    return lambda count: generator.integers(1 << 32, size=count, dtype=np.uint32)


def draw(order: np.ndarray, size: int, drawn: np.ndarray) -> None:
    """Exchange the last of the first `size` numbers with one of them at random, then the last but one with one of the
    rest, and so on: the end of a shuffle by Fisher and Yates. drawn: random numbers of 32 bits, one an exchange."""
    n = len(drawn)
    picks = (drawn % np.arange(size, size - n, -1)).tolist()
    source: dict[int, int] = {}  # position -> where its number comes from
    for pick, last in zip(picks, range(size - 1, size - 1 - n, -1), strict=True):
        source[pick], source[last] = source.get(last, last), source.get(pick, pick)
    order[list(source)] = order[list(source.values())]


def gather(rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """out[i] = rows[places[i]]; places: unsigned."""
    rows.take(
        places.view(np.int64), axis=0, out=out, mode="clip"
    )  # the places are sound: "raise" would go through a buffer


def scatter(rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """out[places[i]] = rows[i]; places: unsigned."""
    out[places.view(np.int64)] = rows


_WORDS = [np.dtype(word) for word in (np.uint64, np.uint32, np.uint8)]
Array = Any


class ShuffleLoops(NamedTuple):
    """The four above, or others that do the same."""

    draw: Callable[[Array, int, Array], None] = draw
    gather: Callable[[Array, Array, Array], None] = gather
    scatter: Callable[[Array, Array, Array], None] = scatter
    numbers: Callable[[tuple[int, int]], Callable[[int], Array]] = numbers


class Column:
    """The rows of one component of a shuffling queue, in the places that they are put in."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], loops: ShuffleLoops):
        self._dtype, self._shape, self._loops = dtype, shape, loops
        self._row_bytes = dtype.itemsize * math.prod(shape)
        self._word = next(w for w in _WORDS if self._row_bytes % w.itemsize == 0)
        self._most = HELD_BYTES // self._row_bytes if dtype.char in PLAIN and self._row_bytes else 0
        self._rows = np.empty((0, *shape), dtype)
        self._words = self._in_words(self._rows) if self._most else None

    def grow(self, count: int) -> None:
        grown = np.empty((count, *self._shape), self._dtype)
        grown[: len(self._rows)] = self._rows
        self._rows = grown
        self._words = self._in_words(grown) if self._most else None

    def put(self, places: np.ndarray, rows: np.ndarray) -> None:
        if len(places) <= self._most and rows.flags.c_contiguous:
            self._loops.scatter(self._in_words(rows), places.view(np.uint64), self._words)
        else:
            self._rows[places] = rows

    def take(self, places: np.ndarray) -> np.ndarray:
        rows = np.empty((len(places), *self._shape), self._dtype)
        if len(places) <= self._most:
            self._loops.gather(self._words, places.view(np.uint64), self._in_words(rows))
        else:
            self._rows.take(places, axis=0, out=rows, mode="clip")
        if self._dtype.hasobject:
            self._rows[places] = None
        return rows

    def _in_words(self, rows: np.ndarray) -> np.ndarray:
        """Contiguous rows as rows of unsigned words, on the same memory."""
        return np.ndarray((len(rows), self._row_bytes // self._word.itemsize), self._word, rows)
