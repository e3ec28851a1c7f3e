"""The loops of a shuffling queue, compiled. They keep the GIL: see resources/row_copies.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.resources import shuffle_rows
from sparkflow_runtime.resources.shuffle_rows import ShuffleLoops

Array = Any
_ZERO = np.uint64(0)
_READ = "Array({}, {}, 'C', readonly=True)"
_WORDS = ("uint64", "uint32", "uint8")
_COPIES = [f"void({_READ.format(word, 2)}, {_READ.format('uint64', 1)}, {word}[:,::1])" for word in _WORDS]


def numbers(seeds: tuple[int, int]) -> Callable[[int], Array]:
    """TensorFlow's."""
    return philox.Words(philox.of_op(seeds)).take


@compiled([f"void(int64[::1], int64, {_READ.format('uint32', 1)})"], nogil=False)
def draw(order: Array, size: int, drawn: Array) -> None:
    for i in range(drawn.shape[0]):
        last = size - 1 - i
        j = np.int64(drawn[i]) % (last + 1)
        order[j], order[last] = order[last], order[j]


# Numbers of items are unsigned, as in kernels/row_loops.py: rows are copied in a third of the time.


@compiled(_COPIES, nogil=False)
def gather(rows: Array, places: Array, out: Array) -> None:
    for i in range(_ZERO, np.uint64(places.shape[0])):
        place = places[i]
        for j in range(_ZERO, np.uint64(rows.shape[1])):
            out[i, j] = rows[place, j]


@compiled(_COPIES, nogil=False)
def scatter(rows: Array, places: Array, out: Array) -> None:
    for i in range(_ZERO, np.uint64(places.shape[0])):
        place = places[i]
        for j in range(_ZERO, np.uint64(rows.shape[1])):
            out[place, j] = rows[i, j]


draw.otherwise(shuffle_rows.draw)
gather.otherwise(shuffle_rows.gather)
scatter.otherwise(shuffle_rows.scatter)

_LOOPS = (draw, gather, scatter)
_START_UP_S = 1.0  # from numba's cache it takes half of it


def prepare() -> None:
    for loop in _LOOPS:
        loop.prepare()


@cache
def loops() -> ShuffleLoops:
    """For a queue that is being made. The first one waits for them, part of its graph's start-up: beside the import of
    numba a queue would move a tenth of its rows. A first compilation, which takes longer, goes on in the background."""
    deadline = time.monotonic() + _START_UP_S
    for loop in _LOOPS:
        loop.wait(deadline - time.monotonic())
    return ShuffleLoops(*_LOOPS, numbers)
