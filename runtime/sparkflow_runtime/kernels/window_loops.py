"""The hot loops over windows: columns of convolutions, pools of means and their gradients.

`numbers` is Window.numbers. A pool's loop goes over the images from `start` to `stop`; columns are those of the outputs
from `first` on. Cells and outputs count through the batch: a cell is a row of [batch * depth * height * width,
channels].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.loop_parts import Instructions

_IN, _NUMBERS = "Array({0}, 5, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_OUT = "{0}[:,:,:,:,::1]"


def _signatures(*arrays: str, more: int = 2) -> list[str]:
    """These arrays, the numbers and some more, for float32 and float64."""
    text = f"void({', '.join(arrays)}, {_NUMBERS}{', int64' * more})"
    return [text.format(kind) for kind in ("float32", "float64")]


def place(numbers: Any, output: Any) -> Any:
    """(image, depth, height, width) of an output."""
    rest, ow = divmod(output, numbers[14])
    rest, oh = divmod(rest, numbers[13])
    n, od = divmod(rest, numbers[12])
    return n, od, oh, ow


def cell(numbers: Any, shape: Any, at: Any, td: Any, th: Any, tw: Any) -> Any:
    """The cell that a tap of the output at that place meets; -1 where it lies outside."""
    d = at[1] * numbers[3] + td * numbers[6] - numbers[9]
    h = at[2] * numbers[4] + th * numbers[7] - numbers[10]
    w = at[3] * numbers[5] + tw * numbers[8] - numbers[11]
    if 0 <= d < shape[1] and 0 <= h < shape[2] and 0 <= w < shape[3]:
        return ((at[0] * shape[1] + d) * shape[2] + h) * shape[3] + w
    return -1


def span(numbers: Any, axis: Any, output: Any, size: Any) -> Any:
    """(the cell that the first tap would meet; first and last + 1 of the taps that meet any), along one axis."""
    at, step = output * numbers[3 + axis] - numbers[9 + axis], numbers[6 + axis]
    first, end = -at, size - at
    if step != 1:  # divisions cost more than all else here
        first, end = -(at // step), (size - 1 - at) // step + 1
    first = first if first > 0 else 0
    return at, first, end if end < numbers[axis] else numbers[axis]


def alike(numbers: Any, output: Any, first: Any, end: Any, size: Any) -> Any:
    """How many outputs of a row, from this one on, see as many taps; first, end: which this one sees."""
    if first > 0 or end < numbers[2]:
        return 1
    seeing_all = (size - 1 - (numbers[2] - 1) * numbers[8] + numbers[11]) // numbers[5] + 1
    return min(seeing_all, numbers[14]) - output


def tap_slices(size: tuple[int, ...], numbers: np.ndarray) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap that meets any: (cells of the input, the outputs that meet them)."""
    for _, cells, outputs in inner_taps(size, numbers):
        yield cells, outputs


def inner_taps(
    size: tuple[int, ...], numbers: np.ndarray
) -> Iterator[tuple[int, tuple[slice, ...], tuple[slice, ...]]]:
    """The same with the number of the tap before."""
    taps, strides, dilations, before, out = (tuple(row) for row in numbers.reshape(5, 3).tolist())
    for number, tap in enumerate(np.ndindex(*taps)):
        cells, outputs = [slice(None)], [slice(None)]
        for t, s, d, b, count, limit in zip(tap, strides, dilations, before, out, size):
            at = t * d - b
            first, last = max(0, -(at // s)), min(count - 1, (limit - 1 - at) // s)
            cells.append(slice(first * s + at, max(0, last * s + at + 1), s))
            outputs.append(slice(first, max(first, last + 1)))
        if all(o.stop > o.start for o in outputs[1:]):
            yield number, tuple(cells), tuple(outputs)


# ---------------------------------------------------------------------- columns


def row_of_cells(numbers: Any, shape: Any, at: Any, td: Any, th: Any) -> Any:
    """The first cell of the row that a row of taps of the output at that place meets; -1 where it lies outside."""
    d = at[1] * numbers[3] + td * numbers[6] - numbers[9]
    h = at[2] * numbers[4] + th * numbers[7] - numbers[10]
    if 0 <= d < shape[1] and 0 <= h < shape[2]:
        return ((at[0] * shape[1] + d) * shape[2] + h) * shape[3]
    return -1


def inside_of_row(numbers: Any, width: Any, tap: Any, begin: Any, end: Any) -> Any:
    """Of the outputs from `begin` to `end` of a row: the first and last + 1 whose tap of that number in its row meets a
    cell; begin <= first <= last + 1 <= end."""
    step, at = numbers[5], tap * numbers[8] - numbers[11]
    first = begin if at >= 0 else max(begin, (-at + step - 1) // step)
    last = (width - 1 - at) // step + 1 if width > at else begin
    return min(first, end), max(min(first, end), min(last, end))


@compiled(_signatures(_IN, "{0}[:,::1]", more=1), parts=[place, row_of_cells, inside_of_row])
def gather_columns(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """columns[i] = the cells that output `first + i` sees, tap by tap; 0 where they lie outside."""
    channels, flat, into = np.uint64(x.shape[4]), x.reshape(-1), columns.reshape(-1)
    taps_w, step, width = numbers[2], np.uint64(numbers[5]) * np.uint64(x.shape[4]), np.uint64(columns.shape[1])
    run = channels * np.uint64(taps_w)
    done = 0
    while done < columns.shape[0]:
        at = place(numbers, first + done)
        begin, end = at[3], min(numbers[14], at[3] + columns.shape[0] - done)
        column = np.uint64(done) * width
        for td in range(numbers[0]):
            for th in range(numbers[1]):
                row = row_of_cells(numbers, x.shape, at, td, th)
                left, _ = inside_of_row(numbers, x.shape[3], 0, begin, end)
                _, right = inside_of_row(numbers, x.shape[3], taps_w - 1, begin, end)
                if row < 0:
                    left, right = end, end
                elif numbers[8] != 1 or left > right:
                    left, right = begin, begin
                # Where the whole row of taps is inside and side by side it is one piece of memory.
                there = column + np.uint64(left - begin) * width
                here = np.uint64(max(row, 0) + left * numbers[5] - numbers[11]) * channels
                for _ in range(np.uint64(right - left)):
                    for c in range(run):
                        into[there + c] = flat[here + c]
                    there += width
                    here += step
                for tw in range(taps_w):
                    lo, hi = inside_of_row(numbers, x.shape[3], tw, begin, end)
                    lo, hi = (lo, hi) if row >= 0 else (end, end)
                    o = begin
                    while o < end:
                        if left <= o < right:
                            o = right
                            continue
                        there = column + np.uint64(tw) * channels + np.uint64(o - begin) * width
                        if lo <= o < hi:
                            here = np.uint64(row + o * numbers[5] + tw * numbers[8] - numbers[11]) * channels
                            for c in range(channels):
                                into[there + c] = flat[here + c]
                        else:
                            for c in range(channels):
                                into[there + c] = 0
                        o += 1
                column += run
        done += end - begin


def _places(size: tuple[int, ...], numbers: np.ndarray, first: int, count: int) -> Iterator[tuple[Any, ...]]:
    """For each tap: (which of the outputs see a cell, and the indices n, d, h, w of those cells)."""
    taps, strides, dilations, before, out = numbers.reshape(5, 3)
    n, *position = np.unravel_index(np.arange(first, first + count), (1 << 40, *out))
    for tap in np.ndindex(*taps):
        cells = [p * s + t * d - b for p, s, t, d, b in zip(position, strides, tap, dilations, before)]
        inside = np.logical_and.reduce([(c >= 0) & (c < limit) for c, limit in zip(cells, size)])
        yield inside, (n[inside], *(c[inside] for c in cells))


@gather_columns.otherwise
def _(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    columns[:] = 0
    channels = x.shape[4]
    for i, (inside, cells) in enumerate(_places(x.shape[1:4], numbers, first, len(columns))):
        columns[inside, i * channels : (i + 1) * channels] = x[cells]


@compiled(_signatures(_IN, _OUT, more=0))
def turn_channels(x: Any, padded: Any, numbers: Any) -> None:
    """Images into the middle of [channels, images, *padded space]."""
    channels, width, flat, into = np.uint64(x.shape[4]), np.uint64(x.shape[3]), x.reshape(-1), padded.reshape(-1)
    here = np.uint64(0)
    for n in range(x.shape[0]):
        for d in range(x.shape[1]):
            for h in range(x.shape[2]):
                for c in range(x.shape[4]):
                    plane = (c * padded.shape[1] + n) * padded.shape[2] + d + numbers[9]
                    there = np.uint64((plane * padded.shape[3] + h + numbers[10]) * padded.shape[4] + numbers[11])
                    for w in range(width):
                        into[there + w] = flat[here + w * channels + np.uint64(c)]
                here += width * channels


@turn_channels.otherwise
def _(x: Any, padded: Any, numbers: Any) -> None:
    space = [slice(b, b + n) for b, n in zip(numbers[9:12].tolist(), x.shape[1:4])]
    padded[(..., *space)] = np.moveaxis(x, 4, 0)


@compiled(_signatures(_IN, "{0}[::1]", more=0))
def gather_taps(padded: Any, columns: Any, numbers: Any) -> None:
    """Of each tap and channel one long row: what it sees of [channels, images, *padded space] with strides of 1, output
    by output."""
    flat, to, width = padded.reshape(-1), np.uint64(0), np.uint64(numbers[14])
    for td in range(numbers[0]):
        for th in range(numbers[1]):
            for tw in range(numbers[2]):
                for plane in range(padded.shape[0] * padded.shape[1]):
                    for od in range(numbers[12]):
                        depth = plane * padded.shape[2] + od + td * numbers[6]
                        row = depth * padded.shape[3] + th * numbers[7]
                        for oh in range(numbers[13]):
                            at = np.uint64((row + oh) * padded.shape[4] + tw * numbers[8])
                            for k in range(width):
                                columns[to + k] = flat[at + k]
                            to += width


@gather_taps.otherwise
def _(padded: Any, columns: Any, numbers: Any) -> None:
    taps, _, dilations, _, out = (row.tolist() for row in numbers.reshape(5, 3))
    rows = columns.reshape(-1, *padded.shape[:2], *out)
    for row, tap in zip(rows, np.ndindex(*taps)):
        row[:] = padded[(..., *(slice(t * d, t * d + n) for t, d, n in zip(tap, dilations, out)))]


@compiled(
    [*(t.replace("int64, int64)", "int64)") for t in _signatures(_OUT, _IN.replace("5", "2")))],
    parts=[place, row_of_cells],
)
def scatter_columns(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """Add columns[i] back to the cells that output `first + i` sees."""
    channels, flat, parts = np.uint64(x.shape[4]), x.reshape(-1), columns.reshape(-1)
    taps_w, width = numbers[2], np.uint64(columns.shape[1])
    run = channels * np.uint64(taps_w)
    for i in range(columns.shape[0]):
        at, column = place(numbers, first + i), np.uint64(i) * width
        left = at[3] * numbers[5] - numbers[11]
        whole = numbers[8] == 1 and left >= 0 and left + taps_w <= x.shape[3]
        for td in range(numbers[0]):
            for th in range(numbers[1]):
                row = row_of_cells(numbers, x.shape, at, td, th)
                if row >= 0 and whole:
                    here = np.uint64(row + left) * channels  # the row of taps is one piece of memory
                    for c in range(run):
                        flat[here + c] += parts[column + c]
                elif row >= 0:
                    for tw in range(taps_w):
                        w = left + tw * numbers[8]
                        if 0 <= w < x.shape[3]:
                            here, there = np.uint64(row + w) * channels, column + np.uint64(tw) * channels
                            for c in range(channels):
                                flat[here + c] += parts[there + c]
                column += run


@scatter_columns.otherwise
def _(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """From the last tap to the first: a cell then meets the outputs in their order, as in the loop."""
    channels = x.shape[4]
    places = list(_places(x.shape[1:4], numbers, first, len(columns)))
    for i, (inside, cells) in reversed(list(enumerate(places))):
        x[cells] += columns[inside, i * channels : (i + 1) * channels]


# ---------------------------------------------------------------------- means


def _make_mean() -> Any:
    from sparkflow_runtime.kernels import window_lanes

    return window_lanes.mean()


def _make_give_shares() -> Any:
    from sparkflow_runtime.kernels import window_lanes

    return window_lanes.give_shares()


_mean, _give_shares = Instructions("_mean", _make_mean), Instructions("_give_shares", _make_give_shares)


@compiled(_signatures(_IN, _OUT), parts=[span, alike, _mean])
def means(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    """y = the mean of the cells that each output sees, padding aside."""
    _, depth, height, width, channels = x.shape
    cells, made, step = x.reshape(-1), y.reshape(-1), numbers[5] * channels
    deep, high, wide = numbers[6] * height * width * channels, numbers[7] * width * channels, numbers[8] * channels
    o = start * numbers[12] * numbers[13] * numbers[14] * channels
    for n in range(start, stop):
        for od in range(numbers[12]):
            d, d0, d1 = span(numbers, 0, od, depth)
            for oh in range(numbers[13]):
                h, h0, h1 = span(numbers, 1, oh, height)
                first = ((n * depth + d + d0 * numbers[6]) * height + h + h0 * numbers[7]) * width
                down, ow = max(0, h1 - h0), 0
                while ow < numbers[14]:
                    w, w0, w1 = span(numbers, 2, ow, width)
                    at, count = (first + w + w0 * numbers[8]) * channels, alike(numbers, ow, w0, w1, width)
                    taps = max(0, d1 - d0), deep, down, high, max(0, w1 - w0), wide
                    _mean(cells, made, count, step, at, *taps, o, channels)
                    o += count * channels
                    ow += count


@means.otherwise
def _(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    x, y = x[start:stop], y[start:stop]
    y[:] = 0
    count = np.zeros((1, *y.shape[1:4], 1), y.dtype)
    for cells, outputs in tap_slices(x.shape[1:4], numbers):
        y[outputs] += x[cells]
        count[outputs] += y.dtype.type(1)
    with np.errstate(invalid="ignore"):  # a window that sees padding alone
        y /= count


@compiled(_signatures(_IN, _OUT), parts=[span, alike, _give_shares])
def spread_means(dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    """Give each cell of a window its share of dy."""
    _, depth, height, width, channels = dx.shape
    given, made, step = dy.reshape(-1), dx.reshape(-1), numbers[5] * channels
    deep, high, wide = numbers[6] * height * width * channels, numbers[7] * width * channels, numbers[8] * channels
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
                    _give_shares(given, made, count, step, at, *taps, o, channels)
                    o += count * channels
                    ow += count


@spread_means.otherwise
def _(dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    dy, dx = dy[start:stop], dx[start:stop]
    count, taps = np.zeros((1, *dy.shape[1:4], 1), dy.dtype), list(tap_slices(dx.shape[1:4], numbers))
    for _, outputs in taps:
        count[outputs] += dy.dtype.type(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = dy / count
    for cells, outputs in reversed(taps):  # a cell adds in the order of the outputs
        dx[cells] += part[outputs]
