"""Filters of several depths by Winograd's way (conv_winograd.py): a flat image for each depth of an output, whose cells
have as channels those of all depths that the filter meets there, side by side; zeros where it reaches out of the input.

The sum over depths so is part of the 36 products, and a 3-D filter needs a quarter of the multiplications that its taps
are. What is copied, several times the input, is made in pieces of a bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import conv_winograd
from sparkflow_runtime.kernels.windows import Window

_PIECE_BYTES = 1 << 24


def fits(x: np.ndarray, w: np.ndarray, win: Window, back: bool = False) -> bool:
    """Whether this way is open, and pays. back: for the gradient of the input."""
    deep = win.taps[0] > 1 and not (back and win.strides[0] > 1)
    return deep and conv_winograd.fits(x, w, _flat(win))


@lru_cache(256)
def _flat(win: Window) -> Window:
    """What the window is within one depth."""
    of = {name: (1, *getattr(win, name)[1:]) for name in ("size", "taps", "strides", "dilations", "out")}
    return replace(win, **of, before=(0, *win.before[1:]), after=(0, *win.after[1:]))


def _pieces(images: int, depths: int, each: int) -> Iterator[tuple[slice, slice]]:
    """(images, their depths) of which so many bytes each make a piece: whole images where several fit."""
    many = max(1, _PIECE_BYTES // max(1, each * depths))
    few = depths if each * depths <= _PIECE_BYTES else max(1, _PIECE_BYTES // each)
    for image in range(0, images, many):
        for depth in range(0, depths, few):
            yield slice(image, min(images, image + many)), slice(depth, min(depths, depth + few))


def _seen(x: np.ndarray, depths: slice, first: int, stride: int, taps: int, dilation: int) -> np.ndarray:
    """[images * depths, 1, height, width, taps * channels]: tap k of depth o meets first + o * stride + k * dilation"""
    images, size, height, width, channels = x.shape
    count = depths.stop - depths.start
    seen = np.empty((images, count, height, width, taps, channels), x.dtype)
    for tap in range(taps):
        begin = first + depths.start * stride + tap * dilation
        low = min(count, max(0, -(begin // stride)))
        high = max(low, min(count, (size - 1 - begin) // stride + 1))
        seen[:, :low, :, :, tap] = 0
        seen[:, high:, :, :, tap] = 0
        if high > low:
            at = begin + low * stride
            seen[:, low:high, :, :, tap] = x[:, at : at + (high - low - 1) * stride + 1 : stride]
    return seen.reshape(images * count, 1, height, width, taps * channels)


def _bytes(x: np.ndarray, taps: int) -> int:
    """Of what is seen at one depth."""
    return taps * x[0, 0].nbytes


def forward(x: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    taps, _, _, takes, made = w.shape
    filters = np.ascontiguousarray(w.transpose(1, 2, 0, 3, 4)).reshape(1, *win.taps[1:], taps * takes, made)
    y = np.empty((len(x), *win.out, made), x.dtype)
    for images, depths in _pieces(len(x), win.out[0], _bytes(x, taps)):
        seen = _seen(x[images], depths, -win.before[0], win.strides[0], taps, win.dilations[0])
        y[images, depths] = conv_winograd.forward(seen, filters, _flat(win)).reshape(y[images, depths].shape)
    return y


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    """Tap k of the filter gives to depth d what output d + before - k * dilation has."""
    taps, _, _, takes, made = w.shape
    filters = np.ascontiguousarray(w.transpose(1, 2, 3, 0, 4)).reshape(1, *win.taps[1:], takes, taps * made)
    dx = np.empty((len(dy), *win.size, takes), dy.dtype)
    for images, depths in _pieces(len(dy), win.size[0], _bytes(dy, taps)):
        seen = _seen(dy[images], depths, win.before[0], 1, taps, -win.dilations[0])
        dx[images, depths] = conv_winograd.by_input(seen, filters, _flat(win)).reshape(dx[images, depths].shape)
    return dx


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    taps, takes, made = win.taps[0], x.shape[4], dy.shape[4]
    total: Any = None
    for images, depths in _pieces(len(x), win.out[0], _bytes(x, taps)):
        seen = _seen(x[images], depths, -win.before[0], win.strides[0], taps, win.dilations[0])
        given = np.ascontiguousarray(dy[images, depths]).reshape(len(seen), 1, *win.out[1:], made)
        part = conv_winograd.by_filter(seen, given, _flat(win))
        total = part if total is None else np.add(total, part, out=total)
    return np.ascontiguousarray(total.reshape(*win.taps[1:], taps, takes, made).transpose(2, 0, 1, 3, 4))
