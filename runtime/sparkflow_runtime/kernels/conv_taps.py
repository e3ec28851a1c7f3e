"""Convolution as one matrix product a tap: for every array module and dtype, and the reference for the faster ways.

x is [batch, depth, height, width, in], w [taps..., in, out], y [batch, out depth, out height, out width, out].
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.windows import Window


def forward(xp: Any, x: Any, w: Any, win: Window) -> Any:
    y = xp.zeros((x.shape[0], *win.out, w.shape[-1]), x.dtype)
    padded = win.padded(xp, x)
    for tap, cells in win.each_tap():
        y += xp.matmul(padded[cells], w[tap])
    return y


def by_input(xp: Any, dy: Any, w: Any, win: Window) -> Any:
    """The gradient of the input: each tap hands dy back to the cells it met."""
    dx = xp.zeros((dy.shape[0], *win.padded_size, w.shape[-2]), dy.dtype)
    for tap, cells in win.each_tap():
        dx[cells] += xp.matmul(dy, w[tap].T)
    return win.cut(dx)


def by_filter(xp: Any, x: Any, dy: Any, win: Window) -> Any:
    """The gradient of the filter: what each tap met, times dy."""
    dw = xp.zeros((*win.taps, x.shape[-1], dy.shape[-1]), x.dtype)
    padded, rows = win.padded(xp, x), dy.reshape(-1, dy.shape[-1])
    for tap, cells in win.each_tap():
        dw[tap] = xp.matmul(padded[cells].reshape(-1, x.shape[-1]).T, rows)
    return dw
