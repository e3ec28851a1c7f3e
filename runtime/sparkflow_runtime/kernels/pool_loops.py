"""The hot loops of pooling, over the images from `start` to `stop`; `numbers` as in Window.numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled


def _signatures(inputs: int) -> list[str]:
    """`inputs` arrays to read, one to write, the numbers, start, stop; of rank 5, for float32 and float64."""
    read = "Array({0}, 5, 'C', readonly=True), " * inputs
    text = f"void({read}{{0}}[:,:,:,:,::1], Array(int64, 1, 'C', readonly=True), int64, int64)"
    return [text.format(kind) for kind in ("float32", "float64")]


def _taps(size: tuple[int, ...], numbers: np.ndarray) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap that meets any: (cells of the input, the outputs that meet them)."""
    taps, strides, dilations, before, out = (tuple(row) for row in numbers.reshape(5, 3).tolist())
    for tap in np.ndindex(*taps):
        cells, outputs = [slice(None)], [slice(None)]
        for t, s, d, b, count, limit in zip(tap, strides, dilations, before, out, size):
            at = t * d - b
            first, last = max(0, -(at // s)), min(count - 1, (limit - 1 - at) // s)
            cells.append(slice(first * s + at, max(0, last * s + at + 1), s))
            outputs.append(slice(first, max(first, last + 1)))
        if all(o.stop > o.start for o in outputs[1:]):
            yield tuple(cells), tuple(outputs)


@compiled(_signatures(1))
def maxima(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    """y = the largest cell that each output sees; NaN where it sees one, no less than the lowest number."""
    _, size_d, size_h, size_w, channels = x.shape
    lowest = np.finfo(x.dtype).min
    for n in range(start, stop):
        for od in range(numbers[12]):
            for oh in range(numbers[13]):
                for ow in range(numbers[14]):
                    for c in range(channels):
                        y[n, od, oh, ow, c] = lowest
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    for c in range(channels):
                                        new, old = x[n, d, h, w, c], y[n, od, oh, ow, c]
                                        y[n, od, oh, ow, c] = new if new > old or new != new else old


@maxima.otherwise
def _(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    x, y = x[start:stop], y[start:stop]
    y[:] = np.finfo(x.dtype).min
    for cells, outputs in _taps(x.shape[1:4], numbers):
        new, old = x[cells], y[outputs]
        y[outputs] = np.where((new > old) | (new != new), new, old)


@compiled(_signatures(2))
def spread_to_maxima(x: Any, dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    """Add each dy to the first cell of its window that holds the maximum; a NaN is larger than any number."""
    _, size_d, size_h, size_w, channels = x.shape
    best, where, zero = np.empty(channels, x.dtype), np.empty(channels, np.int64), x.dtype.type(0)
    for n in range(start, stop):
        for od in range(numbers[12]):
            for oh in range(numbers[13]):
                for ow in range(numbers[14]):
                    for c in range(channels):
                        best[c], where[c] = -np.inf, -1
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    place = (d * size_h + h) * size_w + w
                                    for c in range(channels):
                                        new, old = x[n, d, h, w, c], best[c]
                                        better = new > old or (new != new and old == old) or where[c] < 0
                                        best[c] = new if better else old
                                        where[c] = place if better else where[c]
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    place = (d * size_h + h) * size_w + w
                                    for c in range(channels):  # adding 0 to the others is faster than asking
                                        dx[n, d, h, w, c] += dy[n, od, oh, ow, c] if where[c] == place else zero


@spread_to_maxima.otherwise
def _(x: Any, dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    x, dy, dx = x[start:stop], dy[start:stop], dx[start:stop]
    best, where = np.full(dy.shape, -np.inf, x.dtype), np.full(dy.shape, -1)
    taps = list(_taps(x.shape[1:4], numbers))
    for i, (cells, outputs) in enumerate(taps):
        new, old = x[cells], best[outputs]
        better = (new > old) | ((new != new) & (old == old)) | (where[outputs] < 0)
        best[outputs] = np.where(better, new, old)
        where[outputs] = np.where(better, i, where[outputs])
    for i, (cells, outputs) in reversed(list(enumerate(taps))):  # so that a cell adds in the order of the outputs
        dx[cells] += np.where(where[outputs] == i, dy[outputs], dy.dtype.type(0))


@compiled(_signatures(1))
def means(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    """y = the mean of the cells that each output sees, padding aside."""
    _, size_d, size_h, size_w, channels = x.shape
    for n in range(start, stop):
        for od in range(numbers[12]):
            for oh in range(numbers[13]):
                for ow in range(numbers[14]):
                    count = 0
                    for c in range(channels):
                        y[n, od, oh, ow, c] = 0
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    count += 1
                                    for c in range(channels):
                                        y[n, od, oh, ow, c] += x[n, d, h, w, c]
                    share = x.dtype.type(count)
                    for c in range(channels):
                        y[n, od, oh, ow, c] /= share


@means.otherwise
def _(x: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    x, y = x[start:stop], y[start:stop]
    y[:] = 0
    count = np.zeros((1, *y.shape[1:4], 1), y.dtype)
    for cells, outputs in _taps(x.shape[1:4], numbers):
        y[outputs] += x[cells]
        count[outputs] += y.dtype.type(1)
    with np.errstate(invalid="ignore"):  # a window that sees padding alone
        y /= count


@compiled(_signatures(1))
def spread_means(dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    """Give each cell of a window its share of dy."""
    _, size_d, size_h, size_w, channels = dx.shape
    for n in range(start, stop):
        for od in range(numbers[12]):
            for oh in range(numbers[13]):
                for ow in range(numbers[14]):
                    count = 0
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    count += 1
                    share = dx.dtype.type(count)
                    for td in range(numbers[0]):
                        d = od * numbers[3] + td * numbers[6] - numbers[9]
                        for th in range(numbers[1]):
                            h = oh * numbers[4] + th * numbers[7] - numbers[10]
                            for tw in range(numbers[2]):
                                w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                                if 0 <= d < size_d and 0 <= h < size_h and 0 <= w < size_w:
                                    for c in range(channels):
                                        dx[n, d, h, w, c] += dy[n, od, oh, ow, c] / share


@spread_means.otherwise
def _(dy: Any, dx: Any, numbers: Any, start: Any, stop: Any) -> None:
    dy, dx = dy[start:stop], dx[start:stop]
    count, taps = np.zeros((1, *dy.shape[1:4], 1), dy.dtype), list(_taps(dx.shape[1:4], numbers))
    for _, outputs in taps:
        count[outputs] += dy.dtype.type(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = dy / count
    for cells, outputs in reversed(taps):  # a cell adds in the order of the outputs
        dx[cells] += part[outputs]
