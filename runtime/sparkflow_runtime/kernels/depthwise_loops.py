"""The hot loops of depthwise convolutions with one filter a channel: a tap at a time, over the cells that it meets.

Where the window moves by one cell, the outputs of a row that a tap meets, and their cells, are each one piece of
memory: `w` is therefore [taps, row of outputs * channels], each filter as often as there are outputs in a row, and one
long loop does them all. `numbers` is Window.numbers. Both versions add in the order of the taps; by filter first the
rows are added up, then the outputs of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.window_loops import inner_taps

_FIVE, _TWO = "Array({0}, 5, 'C', readonly=True)", "Array({0}, 2, 'C', readonly=True)"
_MORE = "Array(int64, 1, 'C', readonly=True), int64, int64"


def _signatures(*arrays: str) -> list[str]:
    text = f"void({', '.join(arrays)}, {_MORE})"
    return [text.format(kind) for kind in ("float32", "float64")]


def met(numbers: Any, height: Any, width: Any, row: Any, th: Any, tw: Any) -> Any:
    """(row of cells, or -1; first and last + 1 of the row's outputs that the tap meets; the first one's cell there)."""
    images, oh = divmod(row, numbers[13])
    h = oh * numbers[4] + th * numbers[7] - numbers[10]
    at, step = tw * numbers[8] - numbers[11], numbers[5]
    first = 0 if at >= 0 else (-at + step - 1) // step
    end = min(numbers[14], (width - 1 - at) // step + 1 if width > at else 0)
    inside = 0 <= h < height and first < end
    return (images * height + h) if inside else -1, first, end, first * step + at


def add_products(into: Any, flat: Any, other: Any, numbers: Any, span: Any, width: Any, channels: Any) -> None:
    """into[output] += flat[cell] other[output], for what `met` found."""
    cells, first, end, at = span
    if cells < 0:
        return
    size = np.uint64(channels)
    piece = np.uint64(end - first) if numbers[5] == 1 else np.uint64(1)
    for output in range(first, end, piece):
        here, there = np.uint64(output) * size, np.uint64(cells * width + at) * size
        for k in range(piece * size):
            into[here + k] += flat[there + k] * other[here + k]
        at += numbers[5]


@compiled(_signatures(_FIVE, _TWO, "{0}[:,::1]"), parts=[met, add_products])
def filtered(x: Any, w: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    """y[output] += x[cell] w[tap], for the rows of outputs from `start` to `stop`."""
    flat = x.reshape(-1)
    for row in range(start, stop):
        for th in range(numbers[1]):
            for tw in range(numbers[2]):
                span = met(numbers, x.shape[2], x.shape[3], row, th, tw)
                add_products(y[row], flat, w[th * numbers[2] + tw], numbers, span, x.shape[3], x.shape[4])


@filtered.otherwise
def _(x: Any, w: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    a, b, size = _images(numbers, start, stop)
    y5 = y.reshape(-1, *size, x.shape[4])[a:b]
    for tap, cells, outputs in inner_taps(x.shape[1:4], numbers):
        y5[outputs] += x[a:b][cells] * w[tap, : x.shape[4]]


@compiled(_signatures("{0}[:,:,:,:,::1]", _TWO, _TWO), parts=[met])
def spread_back(dx: Any, w: Any, dy: Any, numbers: Any, start: Any, stop: Any) -> None:
    """dx[cell] += dy[output] w[tap], for the rows of outputs from `start` to `stop`: whole images."""
    channels, width, flat = np.uint64(dx.shape[4]), dx.shape[3], dx.reshape(-1)
    for th in range(numbers[1]):
        for tw in range(numbers[2]):
            factor = w[th * numbers[2] + tw]
            for row in range(start, stop):
                given = dy[row]
                cells, first, end, at = met(numbers, dx.shape[2], width, row, th, tw)
                if cells < 0:
                    continue
                piece = np.uint64(end - first) if numbers[5] == 1 else np.uint64(1)
                for output in range(first, end, piece):
                    here, there = np.uint64(output) * channels, np.uint64(cells * width + at) * channels
                    for k in range(piece * channels):
                        flat[there + k] += given[here + k] * factor[here + k]
                    at += numbers[5]


@spread_back.otherwise
def _(dx: Any, w: Any, dy: Any, numbers: Any, start: Any, stop: Any) -> None:
    a, b, size = _images(numbers, start, stop)
    dy5 = dy.reshape(-1, *size, dx.shape[4])[a:b]
    for tap, cells, outputs in inner_taps(dx.shape[1:4], numbers):
        dx[a:b][cells] += dy5[outputs] * w[tap, : dx.shape[4]]


@compiled(_signatures(_FIVE, _TWO, "{0}[:,::1]"), parts=[met, add_products])
def filter_gradient(x: Any, dy: Any, sums: Any, numbers: Any, start: Any, stop: Any) -> None:
    """sums[tap] += x[cell] dy[output], of zeros, for each output of a row, for the taps from `start` to `stop`."""
    flat = x.reshape(-1)
    for tap in range(start, stop):
        th, tw = divmod(tap, numbers[2])
        for row in range(dy.shape[0]):
            span = met(numbers, x.shape[2], x.shape[3], row, th, tw)
            add_products(sums[tap], flat, dy[row], numbers, span, x.shape[3], x.shape[4])


@filter_gradient.otherwise
def _(x: Any, dy: Any, sums: Any, numbers: Any, start: Any, stop: Any) -> None:
    *_, size = _images(numbers, 0, 0)
    dy5, totals = dy.reshape(-1, *size, x.shape[4]), sums.reshape(len(sums), size[2], x.shape[4])
    for tap, cells, outputs in inner_taps(x.shape[1:4], numbers):
        if start <= tap < stop and len(x):
            parts = x[cells] * dy5[outputs]
            rows = parts.reshape(-1, *parts.shape[3:])
            totals[tap, outputs[3]] = np.cumsum(rows, 0, dtype=sums.dtype)[-1] + sums.dtype.type(0)


def _images(numbers: Any, start: int, stop: int) -> tuple[int, int, tuple[int, int, int]]:
    """The images of these rows of outputs, and how many outputs an image has each way."""
    depth, height, width = numbers[12:15].tolist()
    rows = max(1, depth * height)
    return start // rows, stop // rows, (depth, height, width)
