"""The hot loops of pools that take the largest, and of their gradients.

Arrays are flat: rows of `channels` numbers, one after the other, a cell or an output each. `numbers` is Window.numbers;
sizes: depth, height and width of the input, and its channels. A loop goes over the images from `start` to `stop`. The
taps of a window that lie side by side are taken two or three at once where that pays, and windows of 2 x 2 cells, which
most are, whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.window_loops import tap_slices

_CELLS, _VECTOR = "Array({0}, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_MORE = f"{_VECTOR}, {_VECTOR}, int64, int64"


def span(numbers: Any, axis: Any, output: Any, size: Any) -> Any:
    """(the cell that the first tap would meet; first and last + 1 of the taps that meet any), along one axis."""
    at, step = output * numbers[3 + axis] - numbers[9 + axis], numbers[6 + axis]
    first, end = -at, size - at
    if step != 1:  # divisions cost more than all else here
        first, end = -(at // step), (size - 1 - at) // step + 1
    first = first if first > 0 else 0
    return at, first, end if end < numbers[axis] else numbers[axis]


def larger(new: Any, old: Any) -> Any:
    return new if (new > old) | (new != new) else old


def take_1(x: Any, at: Any, y: Any, o: Any, channels: Any) -> None:
    for c in range(channels):
        y[o + c] = larger(x[at + c], y[o + c])


def take_2(x: Any, at: Any, step: Any, y: Any, o: Any, channels: Any) -> None:
    for c in range(channels):
        y[o + c] = larger(x[at + step + c], larger(x[at + c], y[o + c]))


def take_3(x: Any, at: Any, step: Any, y: Any, o: Any, channels: Any) -> None:
    last = at + step + step
    for c in range(channels):
        y[o + c] = larger(x[last + c], larger(x[at + step + c], larger(x[at + c], y[o + c])))


def take_four(x: Any, at: Any, step: Any, below: Any, y: Any, o: Any, channels: Any) -> None:
    last = below + step
    for c in range(channels):
        upper = larger(x[at + step + c], larger(x[at + c], y[o + c]))
        y[o + c] = larger(x[at + last + c], larger(x[at + below + c], upper))


@compiled(
    [f"void({_CELLS}, {{0}}[::1], {_MORE})".format(k) for k in ("float32", "float64")],
    parts=[span, larger, take_1, take_2, take_3, take_four],
)
def maxima(x: Any, y: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """y = the largest cell that each output sees; NaN where it sees one, no less than y has been filled with."""
    height, width, channels = sizes[1], sizes[2], np.uint64(sizes[3])
    step, below = np.uint64(numbers[8]) * channels, np.uint64(numbers[7] * width) * channels
    o = np.uint64(start * numbers[12] * numbers[13] * numbers[14]) * channels
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, sizes[0])
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                first = ((n * sizes[0] + d + d0 * numbers[6]) * height + h + h0 * numbers[7]) * width
                for ow in range(numbers[14]):
                    w, w0, w1 = span(numbers, 2, ow, width)
                    if d1 - d0 == 1 and h1 - h0 == 2 and w1 - w0 == 2:
                        at = np.uint64(first + w + w0 * numbers[8]) * channels
                        take_four(x, at, step, below, y, o, channels)
                        o += channels
                        continue
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            row = ((n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]) * width + w
                            tw = w0
                            while tw < w1:
                                at = np.uint64(row + tw * numbers[8]) * channels
                                if tw + 3 <= w1:
                                    take_3(x, at, step, y, o, channels)
                                elif tw + 2 <= w1:
                                    take_2(x, at, step, y, o, channels)
                                else:
                                    take_1(x, at, y, o, channels)
                                tw += 3
                    o += channels


@maxima.otherwise
def _(x: Any, y: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    x5, y5 = _images(x, sizes, start, stop), _images(y, [*numbers[12:15], sizes[3]], start, stop)
    for seen, outputs in tap_slices(x5.shape[1:4], numbers):
        new, old = x5[seen], y5[outputs]
        y5[outputs] = np.where((new > old) | (new != new), new, old)


def _images(flat: np.ndarray, sizes: Any, start: int, stop: int) -> Any:
    return flat.reshape(-1, *map(int, sizes))[start:stop]


def beats(new: Any, old: Any) -> Any:
    """A NaN is larger than any number."""
    return (new > old) | ((new != new) & (old == old))


def pick_1(x: Any, at: Any, best: Any, where: Any, o: Any, channels: Any) -> None:
    """best = the largest until now, where = its index in x; -1 before any has been seen."""
    for c in range(channels):
        old, own = best[o + c], where[o + c]
        new = x[at + c]
        better = beats(new, old) | (own < 0)
        best[o + c] = new if better else old
        where[o + c] = np.int64(at + c) if better else own


def pick_3(x: Any, at: Any, step: Any, best: Any, where: Any, o: Any, channels: Any) -> None:
    """Of three taps in a row."""
    for c in range(channels):
        old, own = best[o + c], where[o + c]
        first, second, third = x[at + c], x[at + step + c], x[at + step + step + c]
        better = beats(first, old) | (own < 0)
        old = first if better else old
        own = np.int64(at + c) if better else own
        better = beats(second, old)
        old = second if better else old
        own = np.int64(at + step + c) if better else own
        better = beats(third, old)
        best[o + c] = third if better else old
        where[o + c] = np.int64(at + step + step + c) if better else own


def first_of(x: Any, at: Any, near: Any, best: Any, where: Any, channels: Any) -> None:
    """The first tap. where: as wide as a number, so that a vector register has as many; counts from the image on."""
    for c in range(channels):
        best[c] = x[at + c]
        where[c] = near + where.dtype.type(c)


def near_1(x: Any, at: Any, near: Any, best: Any, where: Any, channels: Any) -> None:
    for c in range(channels):
        old, own, new = best[c], where[c], x[at + c]
        better = beats(new, old)
        best[c] = new if better else old
        where[c] = where.dtype.type(near + where.dtype.type(c)) if better else own


def near_3(x: Any, at: Any, step: Any, near: Any, best: Any, where: Any, channels: Any) -> None:
    """Of three taps in a row."""
    last, second_near = at + step + step, where.dtype.type(near + where.dtype.type(step))
    third_near = where.dtype.type(second_near + where.dtype.type(step))
    for c in range(channels):
        old, own = best[c], where[c]
        first, second, third = x[at + c], x[at + step + c], x[last + c]
        better = beats(first, old)
        old = first if better else old
        own = where.dtype.type(near + where.dtype.type(c)) if better else own
        better = beats(second, old)
        old = second if better else old
        own = where.dtype.type(second_near + where.dtype.type(c)) if better else own
        better = beats(third, old)
        best[c] = third if better else old
        where[c] = where.dtype.type(third_near + where.dtype.type(c)) if better else own


def give(dy: Any, o: Any, where: Any, dx: Any, base: Any, channels: Any) -> None:
    for c in range(channels):
        dx[np.uint64(base + where[c])] += dy[o + c]


def clear(dx: Any, at: Any, channels: Any) -> None:
    for c in range(channels):
        dx[at + c] = 0.0


def give_to_four(x: Any, at: Any, step: Any, below: Any, dy: Any, o: Any, dx: Any, channels: Any) -> None:
    """Both in one, for a window of 2 x 2 cells; adding 0 to the others is faster than asking."""
    last, zero = below + step, dx.dtype.type(0)
    for c in range(channels):
        first, second, value = x[at + c], x[at + step + c], dy[o + c]
        third, fourth = x[at + below + c], x[at + last + c]
        in_second = beats(second, first)
        upper = second if in_second else first
        in_third = beats(third, upper)
        in_fourth = beats(fourth, third if in_third else upper)
        dx[at + c] += zero if in_second | in_third | in_fourth else value
        dx[at + step + c] += value if in_second & (not in_third) & (not in_fourth) else zero
        dx[at + below + c] += value if in_third & (not in_fourth) else zero
        dx[at + last + c] += value if in_fourth else zero


def put_to_four(x: Any, at: Any, step: Any, below: Any, dy: Any, o: Any, dx: Any, channels: Any) -> None:
    """The same to cells that no other output sees."""
    last, zero = below + step, dx.dtype.type(0)
    for c in range(channels):
        first, second, value = x[at + c], x[at + step + c], zero + dy[o + c]
        third, fourth = x[at + below + c], x[at + last + c]
        in_second = beats(second, first)
        upper = second if in_second else first
        in_third = beats(third, upper)
        in_fourth = beats(fourth, third if in_third else upper)
        dx[at + c] = zero if in_second | in_third | in_fourth else value
        dx[at + step + c] = value if in_second & (not in_third) & (not in_fourth) else zero
        dx[at + below + c] = value if in_third & (not in_fourth) else zero
        dx[at + last + c] = value if in_fourth else zero


@compiled(
    [
        f"void({_CELLS}, {_CELLS}, {{0}}[::1], {{0}}[::1], {{1}}[::1], int64, {_MORE})".format(*kinds)
        for kinds in (("float32", "int32"), ("float64", "int64"))
    ],
    parts=[span, beats, first_of, near_1, near_3, give, clear, give_to_four, put_to_four],
)
def spread_to_maxima(
    x: Any, dy: Any, dx: Any, best: Any, where: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any
) -> None:
    """Add each dy to the first cell of its window that holds the maximum; a NaN is larger than any number.
    best, where: room for an output's channels, where: of integers as wide as the numbers.
    once: 1 if each cell is in one window, so that what was in dx does not matter."""
    height, width, channels = sizes[1], sizes[2], np.uint64(sizes[3])
    step, below = np.uint64(numbers[8]) * channels, np.uint64(numbers[7] * width) * channels
    o = np.uint64(start * numbers[12] * numbers[13] * numbers[14]) * channels
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, sizes[0])
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                first = ((n * sizes[0] + d + d0 * numbers[6]) * height + h + h0 * numbers[7]) * width
                for ow in range(numbers[14]):
                    w, w0, w1 = span(numbers, 2, ow, width)
                    if d1 - d0 == 1 and h1 - h0 == 2 and w1 - w0 == 2:
                        at = np.uint64(first + w + w0 * numbers[8]) * channels
                        if once:
                            put_to_four(x, at, step, below, dy, o, dx, channels)
                        else:
                            give_to_four(x, at, step, below, dy, o, dx, channels)
                        o += channels
                        continue
                    new, base = True, n * sizes[0] * height * width * sizes[3]
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            row = ((n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]) * width + w
                            tw = w0
                            while tw < w1:
                                at = np.uint64(row + tw * numbers[8]) * channels
                                near = where.dtype.type(np.int64(at) - base)
                                if new:
                                    first_of(x, at, near, best, where, channels)
                                    new = False
                                    tw += 1
                                elif tw + 3 <= w1:
                                    near_3(x, at, step, near, best, where, channels)
                                    tw += 3
                                else:
                                    near_1(x, at, near, best, where, channels)
                                    tw += 1
                            if once:
                                for tw in range(w0, w1):
                                    clear(dx, np.uint64(row + tw * numbers[8]) * channels, channels)
                    if not new:
                        give(dy, o, where, dx, base, channels)
                    o += channels


@spread_to_maxima.otherwise
def _(
    x: Any, dy: Any, dx: Any, best: Any, where: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any
) -> None:
    x5, dx5 = (_images(flat, sizes, start, stop) for flat in (x, dx))
    dy5 = _images(dy, [*numbers[12:15], sizes[3]], start, stop)
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


# ---------------------------------------------------------------------- the maximum and where it was

_KINDS = ("float32", "float64")


@compiled(
    [f"void({_CELLS}, {{0}}[::1], int64[::1], int64, {_MORE})".format(kind) for kind in _KINDS],
    parts=[span, beats, pick_1, pick_3],
)
def winners(x: Any, best: Any, where: Any, with_batch: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """best = the first largest cell that each output sees, NaN where it sees one; where = its index within its image,
    or with_batch within the batch. An output that sees none keeps what `best` has been filled with, and -1."""
    height, width, channels = sizes[1], sizes[2], np.uint64(sizes[3])
    step, row = np.uint64(numbers[8]) * channels, np.uint64(numbers[14]) * channels
    o = np.uint64(start * numbers[12] * numbers[13]) * row
    for n in range(start, stop):
        base = np.int64(0) if with_batch else n * sizes[0] * height * width * sizes[3]
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, sizes[0])
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                for k in range(o, o + row):
                    where[k] = -1
                begin = o
                for ow in range(numbers[14]):
                    w, w0, w1 = span(numbers, 2, ow, width)
                    for td in range(d0, d1):
                        for th in range(h0, h1):
                            line = ((n * sizes[0] + d + td * numbers[6]) * height + h + th * numbers[7]) * width + w
                            tw = w0
                            while tw < w1:
                                at, many = np.uint64(line + tw * numbers[8]) * channels, tw + 3 <= w1
                                if many:
                                    pick_3(x, at, step, best, where, o, channels)
                                else:
                                    pick_1(x, at, best, where, o, channels)
                                tw += 3 if many else 1
                    o += channels
                for k in range(begin, o):
                    where[k] -= base if where[k] >= 0 else 0


@winners.otherwise
def _(x: Any, best: Any, where: Any, with_batch: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    shape = [*numbers[12:15], sizes[3]]
    x5, most, place = (
        _images(x, sizes, start, stop),
        _images(best, shape, start, stop),
        _images(where, shape, start, stop),
    )
    at = np.arange(x5.size).reshape(x5.shape) + (start * x5[0].size if len(x5) else 0)
    if not with_batch:
        at = at % x5[0].size
    place[:] = -1
    for seen, outputs in tap_slices(x5.shape[1:4], numbers):
        new, old = x5[seen], most[outputs]
        better = (new > old) | ((new != new) & (old == old)) | (place[outputs] < 0)
        most[outputs] = np.where(better, new, old)
        place[outputs] = np.where(better, at[seen], place[outputs])


@compiled([f"int64({_CELLS}, {_VECTOR}, {{0}}[::1], int64, int64, int64)".format(kind) for kind in _KINDS])
def give_to_places(dy: Any, places: Any, dx: Any, images: Any, outputs: Any, cells: Any) -> Any:
    """Add each dy to the cell at its place, in order. Of each image's `outputs` the places count from its first of
    `cells` on; how many lie outside dx is returned."""
    outside, o = 0, np.uint64(0)
    for n in range(images):
        base = n * cells
        for _ in range(outputs):
            at = places[o] + base
            if at < 0 or at >= dx.shape[0]:
                outside += 1
            else:
                dx[np.uint64(at)] += dy[o]
            o += np.uint64(1)
    return outside


@give_to_places.otherwise
def _(dy: Any, places: Any, dx: Any, images: Any, outputs: Any, cells: Any) -> int:
    at = places + np.repeat(np.arange(images) * cells, outputs)
    inside = (at >= 0) & (at < dx.size)
    np.add.at(dx, at[inside], dy[inside])
    return int(np.count_nonzero(~inside))
