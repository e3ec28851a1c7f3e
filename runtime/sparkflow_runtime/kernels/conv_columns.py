"""Convolution by columns (im2col): a matrix with a row for each output cell and a column for each tap and channel.

The matrix is made a block at a time in memory that is reused and small enough for a cache, multiplied at once, and
never exists as a whole. Source: Chellapilla et al. 2006.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.windows import Window

_BLOCK_BYTES = 1 << 19
_SMALL = 1 << 16  # weights of a filter of which several partial gradients may be held


def _signatures(pattern: str) -> list[str]:
    """For float32 and float64; X is an input of rank 5, C a matrix, N the window's numbers."""
    kinds = {
        "X": "Array({}, 5, 'C', readonly=True)",
        "Y": "{}[:,:,:,:,::1]",
        "I": "Array({}, 2, 'C', readonly=True)",
        "C": "{}[:,::1]",
        "N": "Array(int64, 1, 'C', readonly=True), int64",
    }
    return [f"void({', '.join(kinds[k].format(t) for k in pattern)})" for t in ("float32", "float64")]


@compiled(_signatures("XCN"))
def gather_columns(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """columns[i] = the cells that output `first + i` sees, tap by tap; 0 where they lie outside."""
    _, size_d, size_h, size_w, channels = x.shape
    taps_d, taps_h, taps_w = numbers[0], numbers[1], numbers[2]
    out_d, out_h, out_w = numbers[12], numbers[13], numbers[14]
    for i in range(columns.shape[0]):
        rest, ow = divmod(first + i, out_w)
        rest, oh = divmod(rest, out_h)
        n, od = divmod(rest, out_d)
        at = 0
        for td in range(taps_d):
            d = od * numbers[3] + td * numbers[6] - numbers[9]
            for th in range(taps_h):
                h = oh * numbers[4] + th * numbers[7] - numbers[10]
                inside = 0 <= d < size_d and 0 <= h < size_h
                for tw in range(taps_w):
                    w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                    if inside and 0 <= w < size_w:
                        for c in range(channels):
                            columns[i, at + c] = x[n, d, h, w, c]
                    else:
                        for c in range(channels):
                            columns[i, at + c] = 0
                    at += channels


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


@compiled(_signatures("YIN"))
def scatter_columns(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """Add columns[i] back to the cells that output `first + i` sees."""
    _, size_d, size_h, size_w, channels = x.shape
    taps_d, taps_h, taps_w = numbers[0], numbers[1], numbers[2]
    out_d, out_h, out_w = numbers[12], numbers[13], numbers[14]
    for i in range(columns.shape[0]):
        rest, ow = divmod(first + i, out_w)
        rest, oh = divmod(rest, out_h)
        n, od = divmod(rest, out_d)
        at = 0
        for td in range(taps_d):
            d = od * numbers[3] + td * numbers[6] - numbers[9]
            for th in range(taps_h):
                h = oh * numbers[4] + th * numbers[7] - numbers[10]
                inside = 0 <= d < size_d and 0 <= h < size_h
                for tw in range(taps_w):
                    w = ow * numbers[5] + tw * numbers[8] - numbers[11]
                    if inside and 0 <= w < size_w:
                        for c in range(channels):
                            x[n, d, h, w, c] += columns[i, at + c]
                    at += channels


@scatter_columns.otherwise
def _(x: Any, columns: Any, numbers: Any, first: Any) -> None:
    """From the last tap to the first: a cell then meets the outputs in their order, as in the loop."""
    channels = x.shape[4]
    places = list(_places(x.shape[1:4], numbers, first, len(columns)))
    for i, (inside, cells) in reversed(list(enumerate(places))):
        x[cells] += columns[inside, i * channels : (i + 1) * channels]


def prepare() -> None:
    gather_columns.prepare()
    scatter_columns.prepare()


def _rows(width: int, itemsize: int) -> int:
    """How many rows of a column matrix of that width make a block."""
    return max(64, _BLOCK_BYTES // max(1, width * itemsize) // 64 * 64)


def _columns(x: np.ndarray, win: Window, first: int, count: int) -> np.ndarray:
    if win.trivial:
        return x.reshape(-1, x.shape[4])[first : first + count]
    columns = scratch("columns", (count, int(np.prod(win.taps)) * x.shape[4]), x.dtype)
    gather_columns(x, columns, win.numbers, first)
    return columns


def forward(x: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    outputs, weights = x.shape[0] * int(np.prod(win.out)), w.reshape(-1, w.shape[-1])
    y = np.empty((outputs, w.shape[-1]), x.dtype)

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            np.matmul(_columns(x, win, first, count), weights, out=y[first : first + count])

    share(work, runs(outputs, _rows(len(weights), x.itemsize)))
    return y.reshape(x.shape[0], *win.out, -1)


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    """Threads take whole images: blocks of one image overlap."""
    images, weights = dy.shape[0], w.reshape(-1, w.shape[-1]).T
    rows, each = dy.reshape(-1, dy.shape[4]), int(np.prod(win.out))
    dx = np.zeros((images, *win.size, w.shape[-2]), dy.dtype)

    def work(mine: Sequence[int]) -> None:
        for image in mine:
            for first, count in runs(each, _rows(weights.shape[1], dy.itemsize), image * each):
                columns = scratch("columns", (count, weights.shape[1]), dy.dtype)
                np.matmul(rows[first : first + count], weights, out=columns)
                scatter_columns(dx, columns, win.numbers, first)

    if win.trivial:
        np.matmul(rows, weights, out=dx.reshape(-1, dx.shape[4]))
    else:
        share(work, range(images))
    return dx


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    """In a fixed number of partial sums, so that the number of threads does not change the bits."""
    rows, width = dy.reshape(-1, dy.shape[4]), int(np.prod(win.taps)) * x.shape[4]
    blocks = runs(len(rows), _rows(width, x.itemsize))
    shape = (width, dy.shape[4])
    lanes = np.zeros((min(8 if width * dy.shape[4] <= _SMALL else 2, len(blocks)), *shape), x.dtype)

    def work(mine: Sequence[int]) -> None:
        for lane in mine:
            for first, count in blocks[lane :: len(lanes)]:
                product = scratch("product", shape, x.dtype)
                np.matmul(_columns(x, win, first, count).T, rows[first : first + count], out=product)
                lanes[lane] += product

    share(work, range(len(lanes)))
    return lanes.sum(0).reshape(*win.taps, x.shape[4], dy.shape[4])
