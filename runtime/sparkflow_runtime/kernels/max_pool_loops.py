"""The hot loops of pools that take the largest, and of their gradients.

Cells and outputs are rows of [batch * depth * height * width, channels]; sizes are those of the input's space, and
`numbers` is Window.numbers. A loop goes over the images from `start` to `stop`. The taps of a window that lie side by
side are taken two or three at once where that pays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.window_loops import tap_slices

_ROWS, _VECTOR = "Array({0}, 2, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_MORE = f"{_VECTOR}, {_VECTOR}, int64, int64"


def span(numbers: Any, axis: Any, output: Any, size: Any) -> Any:
    """(the cell that the first tap would meet; first and last + 1 of the taps that meet any), along one axis."""
    at, step = output * numbers[3 + axis] - numbers[9 + axis], numbers[6 + axis]
    first = -(at // step)
    first = first if first > 0 else 0
    end = (size - 1 - at) // step + 1
    return at, first, end if end < numbers[axis] else numbers[axis]


def larger(new: Any, old: Any) -> Any:
    return new if (new > old) | (new != new) else old


def take_1(x: Any, made: Any) -> None:
    for c in range(np.uint64(made.shape[0])):
        made[c] = larger(x[c], made[c])


def take_2(x: Any, y: Any, made: Any) -> None:
    for c in range(np.uint64(made.shape[0])):
        made[c] = larger(y[c], larger(x[c], made[c]))


def take_3(x: Any, y: Any, z: Any, made: Any) -> None:
    for c in range(np.uint64(made.shape[0])):
        made[c] = larger(z[c], larger(y[c], larger(x[c], made[c])))


@compiled(
    [f"void({_ROWS}, {{0}}[:,::1], {_MORE})".format(k) for k in ("float32", "float64")],
    parts=[span, larger, take_1, take_2, take_3],
)
def maxima(cells: Any, y: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """y = the largest cell that each output sees; NaN where it sees one, no less than y has been filled with."""
    height, width, step = sizes[1], sizes[2], numbers[8]
    o = start * numbers[12] * numbers[13] * numbers[14]
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, sizes[0])
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                for ow in range(numbers[14]):
                    w, w0, w1 = span(numbers, 2, ow, width)
                    made = y[np.uint64(o)]
                    o += 1
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            row = (n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]
                            at, tw = row * width + w, w0
                            while tw < w1:
                                a, b, c = at + tw * step, at + (tw + 1) * step, at + (tw + 2) * step
                                if tw + 3 <= w1:
                                    take_3(cells[np.uint64(a)], cells[np.uint64(b)], cells[np.uint64(c)], made)
                                elif tw + 2 <= w1:
                                    take_2(cells[np.uint64(a)], cells[np.uint64(b)], made)
                                else:
                                    take_1(cells[np.uint64(a)], made)
                                tw += 3


@maxima.otherwise
def _(cells: Any, y: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    x5, y5 = _images(cells, sizes, start, stop), _images(y, numbers[12:15], start, stop)
    for seen, outputs in tap_slices(x5.shape[1:4], numbers):
        new, old = x5[seen], y5[outputs]
        y5[outputs] = np.where((new > old) | (new != new), new, old)


def _images(rows: np.ndarray, sizes: Any, start: int, stop: int) -> Any:
    return rows.reshape(-1, *map(int, sizes), rows.shape[1])[start:stop]


def choose(x: Any, tap: Any, best: Any, where: Any) -> None:
    number = np.int32(tap)
    for c in range(np.uint64(best.shape[0])):
        new, old, own = x[c], best[c], where[c]
        better = (new > old) | ((new != new) & (old == old)) | (own < 0)
        best[c] = new if better else old
        where[c] = number if better else own


def give(dy: Any, where: Any, tap: Any, dx: Any) -> None:
    """Adding 0 to the others is faster than asking."""
    number, zero = np.int32(tap), dx.dtype.type(0)
    for c in range(np.uint64(dx.shape[0])):
        dx[c] += dy[c] if where[c] == number else zero


def put(dy: Any, where: Any, tap: Any, dx: Any) -> None:
    """`give` to cells that no other output sees."""
    number, zero = np.int32(tap), dx.dtype.type(0)
    for c in range(np.uint64(dx.shape[0])):
        dx[c] = zero + (dy[c] if where[c] == number else zero)


@compiled(
    [
        f"void({_ROWS}, {_ROWS}, {{0}}[:,::1], {{0}}[::1], int32[::1], int64, {_MORE})".format(kind)
        for kind in ("float32", "float64")
    ],
    parts=[span, choose, give, put],
)
def spread_to_maxima(
    cells: Any, dy: Any, dx: Any, best: Any, where: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any
) -> None:
    """Add each dy to the first cell of its window that holds the maximum; a NaN is larger than any number. best, where:
    room for an output's channels. once: 1 if each cell is in one window, so that what was in dx does not matter."""
    height, width, step = sizes[1], sizes[2], numbers[8]
    o = start * numbers[12] * numbers[13] * numbers[14]
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, sizes[0])
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                for ow in range(numbers[14]):
                    w, w0, w1 = span(numbers, 2, ow, width)
                    given = dy[np.uint64(o)]
                    o += 1
                    for k in range(np.uint64(best.shape[0])):
                        best[k] = -np.inf
                        where[k] = -1
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            row = (n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]
                            at, tap = row * width + w, (td * numbers[1] + th) * numbers[2]
                            for tw in range(w0, w1):
                                choose(cells[np.uint64(at + tw * step)], tap + tw, best, where)
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            row = (n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]
                            at, tap = row * width + w, (td * numbers[1] + th) * numbers[2]
                            for tw in range(w0, w1):
                                if once:
                                    put(given, where, tap + tw, dx[np.uint64(at + tw * step)])
                                else:
                                    give(given, where, tap + tw, dx[np.uint64(at + tw * step)])


@spread_to_maxima.otherwise
def _(
    cells: Any, dy: Any, dx: Any, best: Any, where: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any
) -> None:
    x5, dx5 = (_images(rows, sizes, start, stop) for rows in (cells, dx))
    dy5 = _images(dy, numbers[12:15], start, stop)
    if once:
        dx5[:] = 0
    most, place = np.full(dy5.shape, -np.inf, dy5.dtype), np.full(dy5.shape, -1)
    taps = list(tap_slices(x5.shape[1:4], numbers))
    for i, (seen, outputs) in enumerate(taps):
        new, old = x5[seen], most[outputs]
        better = (new > old) | ((new != new) & (old == old)) | (place[outputs] < 0)
        most[outputs] = np.where(better, new, old)
        place[outputs] = np.where(better, i, place[outputs])
    for i, (seen, outputs) in reversed(list(enumerate(taps))):  # so that a cell adds in the order of the outputs
        dx5[seen] += np.where(place[outputs] == i, dy5[outputs], dy5.dtype.type(0))
