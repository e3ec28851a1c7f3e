"""Convolution by columns (im2col): a matrix with a row for each output cell and a column for each tap and channel.

The matrix is made a block at a time in memory that is reused and small enough for a cache, multiplied at once, and
never exists as a whole. Source: Chellapilla et al. 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparkflow_runtime.kernels.parallel import product, runs, scratch, share
from sparkflow_runtime.kernels.window_loops import gather_columns, gather_taps, scatter_columns, turn_channels
from sparkflow_runtime.kernels.windows import Window

_BLOCK_BYTES = 1 << 19
_FEW, _IMAGE_BYTES = 12, 1 << 22  # numbers side by side that a window sees; columns of an image
_SMALL = 1 << 16  # weights of a filter of which several partial gradients may be held


def prepare() -> None:
    gather_columns.prepare()
    gather_taps.prepare()
    scatter_columns.prepare()
    turn_channels.prepare()


def _rows(width: int, itemsize: int) -> int:
    """How many rows of a column matrix of that width make a block."""
    return max(64, _BLOCK_BYTES // max(1, width * itemsize) // 64 * 64)


def _narrow(x: np.ndarray, win: Window) -> bool:
    """Whether what a window sees side by side is too little to be copied output by output."""
    whole = math.prod(win.out) * math.prod(win.taps) * x.shape[4] * x.itemsize
    return win.taps[2] * x.shape[4] < _FEW and win.strides == (1, 1, 1) and 0 < whole <= _IMAGE_BYTES


def _blocks(x: np.ndarray, win: Window, width: int) -> list[tuple[int, int]]:
    """Runs of outputs; of whole images where those go tap by tap."""
    each, length = math.prod(win.out), _rows(width, x.itemsize)
    by_image = not win.trivial and _narrow(x, win)
    return runs(x.shape[0] * each, max(1, length // each) * each if by_image else length)


def _tap_by_tap(x: np.ndarray, win: Window, first: int, count: int) -> np.ndarray:
    """The columns of whole images, turned: of each tap and channel one long row, which is copied by rows of images."""
    each = math.prod(win.out)
    images = x[first // each : (first + count) // each]
    sizes = [n + b + a for n, b, a in zip(win.size, win.before, win.after)]
    padded = scratch("padded", (x.shape[4], len(images), *sizes), x.dtype)
    padded[:] = 0
    turn_channels(images, padded, win.numbers)
    columns = scratch("columns", (math.prod(win.taps) * x.shape[4], count), x.dtype)
    gather_taps(padded, columns.reshape(-1), win.numbers)
    return columns.T


def _columns(x: np.ndarray, win: Window, first: int, count: int) -> np.ndarray:
    if win.trivial:
        return x.reshape(-1, x.shape[4])[first : first + count]
    if _narrow(x, win):
        return _tap_by_tap(x, win, first, count)
    columns = scratch("columns", (count, math.prod(win.taps) * x.shape[4]), x.dtype)
    gather_columns(x, columns, win.numbers, first)
    return columns


def forward(x: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    outputs, weights = x.shape[0] * math.prod(win.out), w.reshape(-1, w.shape[-1])
    blocks = _blocks(x, win, len(weights))
    if len(blocks) == 1:
        return np.matmul(_columns(x, win, 0, outputs), weights).reshape(x.shape[0], *win.out, -1)
    y = np.empty((outputs, w.shape[-1]), x.dtype)

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            np.matmul(_columns(x, win, first, count), weights, out=y[first : first + count])

    share(work, blocks)
    return y.reshape(x.shape[0], *win.out, -1)


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    """Threads take whole images, several small ones at once: blocks of one image overlap."""
    images, weights = dy.shape[0], w.reshape(-1, w.shape[-1]).T
    rows, each = dy.reshape(-1, dy.shape[4]), math.prod(win.out)
    if win.trivial:
        return product(rows, weights).reshape(images, *win.size, w.shape[-2])
    dx, length = np.zeros((images, *win.size, w.shape[-2]), dy.dtype), _rows(weights.shape[1], dy.itemsize)

    def work(groups: Sequence[tuple[int, int]]) -> None:
        for image, number in groups:
            for first, count in runs(number * each, length, image * each):
                columns = scratch("columns", (count, weights.shape[1]), dy.dtype)
                np.matmul(rows[first : first + count], weights, out=columns)
                scatter_columns(dx, columns, win.numbers, first)

    share(work, runs(images, max(1, length // each)))
    return dx


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    """In a fixed number of partial sums, so that the number of threads does not change the bits."""
    rows, width = dy.reshape(-1, dy.shape[4]), math.prod(win.taps) * x.shape[4]
    blocks = _blocks(x, win, width)
    shape = (width, dy.shape[4])
    if len(blocks) == 1:
        return np.matmul(_columns(x, win, *blocks[0]).T, rows).reshape(*win.taps, x.shape[4], -1)
    lanes = np.zeros((min(8 if width * dy.shape[4] <= _SMALL else 2, len(blocks)), *shape), x.dtype)

    def work(mine: Sequence[int]) -> None:
        for lane in mine:
            for first, count in blocks[lane :: len(lanes)]:
                part = scratch("product", shape, x.dtype)
                np.matmul(_columns(x, win, first, count).T, rows[first : first + count], out=part)
                lanes[lane] += part

    share(work, range(len(lanes)))
    return lanes.sum(0).reshape(*win.taps, x.shape[4], dy.shape[4])
