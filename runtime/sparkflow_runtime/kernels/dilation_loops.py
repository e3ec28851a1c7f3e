"""The hot loops of grey-scale dilation and of its gradients.

Arrays are flat, as in max_pool_loops.py, whose `numbers`, `sizes` and images from `start` to `stop` these take too; the
depth is 1. Rows of outputs go in one piece where windows move cell by cell. So a tap's numbers, one for each channel,
stand in `taps` as often as a row has outputs: [taps, width of the output * channels].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.max_pool_loops import span
from sparkflow_runtime.kernels.window_loops import inner_taps

_CELLS, _VECTOR = "Array({0}, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_MORE = f"{_VECTOR}, {_VECTOR}, int64, int64"
_WHERE = "Array(int32, 1, 'C', readonly=True)"
_KINDS = ("float32", "float64")


def lift(x: Any, at: Any, taps: Any, t: Any, number: Any, best: Any, where: Any, o: Any, count: Any) -> None:
    one = np.int32(number)
    for c in range(count):
        new = x[at + c] + taps[t + c]
        higher = new > best[o + c]
        best[o + c] = new if higher else best[o + c]
        where[o + c] = one if higher else where[o + c]


def outputs_inside(numbers: Any, tap: Any, width: Any) -> Any:
    """(first, last + 1) of a row's outputs whose tap of this column meets a cell."""
    at, stride = tap * numbers[8] - numbers[11], numbers[5]
    first, last = -(at // stride), (width - 1 - at) // stride
    first = first if first > 0 else 0
    return first, last + 1 if last + 1 < numbers[14] else numbers[14]


@compiled(
    [f"void({_CELLS}, {_CELLS}, {{0}}[::1], int32[::1], {_MORE})".format(kind) for kind in _KINDS],
    parts=[span, lift, outputs_inside],
)
def highest(x: Any, taps: Any, best: Any, where: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """best = the largest sum of a cell and its tap that each output sees, no less than it has been filled with, and
    where = the first tap that has it, -1 where there is none."""
    height, width, channels = sizes[1], sizes[2], sizes[3]
    row = numbers[14] * channels
    for n in range(start, stop):
        for oh in range(numbers[13]):
            h, h0, h1 = span(numbers, 1, oh, height)
            line = (n * numbers[13] + oh) * row
            for k in range(np.uint64(line), np.uint64(line + row)):
                where[k] = -1
            for th in range(h0, h1):
                cells = (n * height + h + th * numbers[7]) * width
                for tw in range(numbers[2]):
                    tap = th * numbers[2] + tw
                    first, end = outputs_inside(numbers, tw, width)
                    together = end - first if numbers[5] == 1 else 1
                    for ow in range(first, end, max(together, 1)):
                        at = (cells + ow * numbers[5] + tw * numbers[8] - numbers[11]) * channels
                        o, t = line + ow * channels, tap * row
                        count = np.uint64(together * channels)
                        lift(x, np.uint64(at), taps, np.uint64(t), tap, best, where, np.uint64(o), count)


@highest.otherwise
def _(x: Any, taps: Any, best: Any, where: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    x5, most, place = _images(x, best, where, numbers, sizes, start, stop)
    place[:] = -1
    each = taps.reshape(int(np.prod(numbers[:3])), -1)
    for number, cells, outputs in inner_taps(x5.shape[1:4], numbers):
        new = x5[cells] + each[number, : x5.shape[4]]
        higher = new > most[outputs]
        most[outputs] = np.where(higher, new, most[outputs])
        place[outputs] = np.where(higher, number, place[outputs])


def _images(x: Any, y: Any, where: Any, numbers: Any, sizes: Any, start: int, stop: int) -> Any:
    shape = [*map(int, numbers[12:15]), int(sizes[3])]
    images = x.reshape(-1, *map(int, sizes))[start:stop]
    return images, y.reshape(-1, *shape)[start:stop], where.reshape(-1, *shape)[start:stop]


@compiled([f"void({_WHERE}, {_CELLS}, {{0}}[::1], {_MORE})".format(kind) for kind in _KINDS])
def give_to_cells(where: Any, dy: Any, dx: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """Add each dy to the cell that the tap met, in the order of the outputs."""
    height, width, channels = sizes[1], sizes[2], sizes[3]
    o = start * numbers[13] * numbers[14] * channels
    for n in range(start, stop):
        for oh in range(numbers[13]):
            h = n * height + oh * numbers[4] - numbers[10]
            for ow in range(numbers[14]):
                w = ow * numbers[5] - numbers[11]
                for c in range(channels):
                    tap = where[o + c]
                    if tap >= 0:
                        th = tap // numbers[2]
                        tw = tap - th * numbers[2]
                        at = ((h + th * numbers[7]) * width + w + tw * numbers[8]) * channels + c
                        dx[np.uint64(at)] += dy[o + c]
                o += channels


@give_to_cells.otherwise
def _(where: Any, dy: Any, dx: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    dx5, dy5, place = _images(dx, dy, where, numbers, sizes, start, stop)
    for number, cells, outputs in reversed(list(inner_taps(dx5.shape[1:4], numbers))):
        dx5[cells] += np.where(place[outputs] == number, dy5[outputs], dy5.dtype.type(0))


@compiled([f"void({_WHERE}, {_CELLS}, float64[::1], int64)".format(kind) for kind in _KINDS])
def give_to_taps(where: Any, dy: Any, sums: Any, channels: Any) -> None:
    """Add each dy to its channel of the tap, in the order of the outputs."""
    for o in range(0, where.shape[0], channels):
        for c in range(channels):
            tap = where[o + c]
            if tap >= 0:
                sums[np.uint64(tap * channels + c)] += dy[o + c]


@give_to_taps.otherwise
def _(where: Any, dy: Any, sums: Any, channels: Any) -> None:
    some = where >= 0
    at = where.astype(np.int64) * channels + np.arange(where.size) % max(1, channels)
    np.add.at(sums, at[some], dy[some].astype(np.float64))
