"""The hot loops of pools that take the largest, and of their gradients.

Arrays are flat: rows of `channels` numbers, one after the other, a cell or an output each. `numbers` is Window.numbers;
sizes: depth, height and width of the input, and its channels. A loop goes over the images from `start` to `stop`. The
channels of an output go through its window in registers (window_lanes.py), or, where they are whole vectors and the
window has 2 x 2 cells, as most have, by loops of which the compiler makes code that is as good.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.loop_parts import Instructions
from sparkflow_runtime.kernels.window_loops import alike, span, tap_slices

_CELLS, _VECTOR = "Array({0}, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_MORE = f"{_VECTOR}, {_VECTOR}, int64, int64"


def _make_largest() -> Any:
    from sparkflow_runtime.kernels import window_lanes

    return window_lanes.largest()


def _making(once: bool) -> Any:
    def make() -> Any:
        from sparkflow_runtime.kernels import window_lanes

        return window_lanes.give_to_largest(once)

    return make


_largest = Instructions("_largest", _make_largest)
_give_to_largest, _put_to_largest = (
    Instructions(name, _making(once)) for name, once in (("_give_to_largest", False), ("_put_to_largest", True))
)


def larger(new: Any, old: Any) -> Any:
    return new if (new > old) | (new != new) else old


def take_four(x: Any, at: Any, step: Any, below: Any, y: Any, o: Any, channels: Any) -> None:
    last = below + step
    for c in range(channels):
        upper = larger(x[at + step + c], larger(x[at + c], y[o + c]))
        y[o + c] = larger(x[at + last + c], larger(x[at + below + c], upper))


@compiled(
    [f"void({_CELLS}, {{0}}[::1], {_MORE})".format(k) for k in ("float32", "float64")],
    parts=[span, alike, larger, take_four, _largest],
)
def maxima(x: Any, y: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """y = the largest cell that each output sees; NaN where it sees one, no less than y has been filled with."""
    depth, height, width, channels = sizes[0], sizes[1], sizes[2], sizes[3]
    deep, high, wide = numbers[6] * height * width * channels, numbers[7] * width * channels, numbers[8] * channels
    step, four = numbers[5] * channels, channels % 16 == 0 or channels < 4
    o = start * numbers[12] * numbers[13] * numbers[14] * channels
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, depth)
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                first = ((n * depth + d + d0 * numbers[6]) * height + h + h0 * numbers[7]) * width
                ow = 0
                while ow < numbers[14]:
                    w, w0, w1 = span(numbers, 2, ow, width)
                    at, count = (first + w + w0 * numbers[8]) * channels, alike(numbers, ow, w0, w1, width)
                    if four and d1 - d0 == 1 and h1 - h0 == 2 and w1 - w0 == 2:
                        for i in range(count):
                            here, there = np.uint64(at + i * step), np.uint64(o + i * channels)
                            take_four(x, here, np.uint64(wide), np.uint64(high), y, there, np.uint64(channels))
                    else:
                        _largest(x, y, count, step, at, d1 - d0, deep, h1 - h0, high, w1 - w0, wide, o, channels)
                    o += count * channels
                    ow += count


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
    [f"void({_CELLS}, {_CELLS}, {{0}}[::1], int64, {_MORE})".format(kind) for kind in ("float32", "float64")],
    parts=[span, alike, beats, give_to_four, put_to_four, _give_to_largest, _put_to_largest],
)
def spread_to_maxima(x: Any, dy: Any, dx: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
    """Add each dy to the first cell of its window that holds the maximum; a NaN is larger than any number.
    once: 1 if each cell is in one window, so that what was in dx does not matter."""
    depth, height, width, channels = sizes[0], sizes[1], sizes[2], sizes[3]
    deep, high, wide = numbers[6] * height * width * channels, numbers[7] * width * channels, numbers[8] * channels
    step, four = numbers[5] * channels, channels % 16 == 0 or channels < 4
    o = start * numbers[12] * numbers[13] * numbers[14] * channels
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, depth)
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                first = ((n * depth + d + d0 * numbers[6]) * height + h + h0 * numbers[7]) * width
                ow = 0
                while ow < numbers[14]:
                    w, w0, w1 = span(numbers, 2, ow, width)
                    at, count = (first + w + w0 * numbers[8]) * channels, alike(numbers, ow, w0, w1, width)
                    taps = d1 - d0, deep, h1 - h0, high, w1 - w0, wide
                    if four and d1 - d0 == 1 and h1 - h0 == 2 and w1 - w0 == 2:
                        for i in range(count):
                            here, there = np.uint64(at + i * step), np.uint64(o + i * channels)
                            cells = here, np.uint64(wide), np.uint64(high)
                            if once:
                                put_to_four(x, *cells, dy, there, dx, np.uint64(channels))
                            else:
                                give_to_four(x, *cells, dy, there, dx, np.uint64(channels))
                    elif once:
                        _put_to_largest(x, dy, dx, count, step, at, *taps, o, channels)
                    else:
                        _give_to_largest(x, dy, dx, count, step, at, *taps, o, channels)
                    o += count * channels
                    ow += count


@spread_to_maxima.otherwise
def _(x: Any, dy: Any, dx: Any, once: Any, numbers: Any, sizes: Any, start: Any, stop: Any) -> None:
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
