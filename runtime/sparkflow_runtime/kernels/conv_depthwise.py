"""Depthwise convolutions: each input channel has filters of its own, [height, width, channels, multiplier].

Output channel c * multiplier + j is channel c by filter j. A tap at a time, over the cells that it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.depthwise_loops import filter_gradient, filtered, spread_back
from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.windows import Sliding, Window
from sparkflow_runtime.wire.errors import InvalidArgumentError

Function = Callable[..., Any]


def _window(sliding: Sliding, size: Any, channels: int, w_shape: tuple[int, ...], dy: Any = None) -> Window:
    if len(w_shape) != 4 or w_shape[2] != channels:
        raise InvalidArgumentError(
            f"{sliding.op}: filter must be [height, width, {channels}, multiplier] for {channels} channels of input, "
            f"got shape {w_shape}"
        )
    win = sliding.window(size, sliding.triple(w_shape[:2], 1))
    if dy is not None and dy.shape[1:] != (*win.out, channels * w_shape[3]):
        raise InvalidArgumentError(
            f"{sliding.op}: out_backprop must have space and channels {(*win.out, channels * w_shape[3])}, "
            f"got {dy.shape[1:]}"
        )
    return win


def _same_batch(sliding: Sliding, images: int, dy: Any) -> None:
    if len(dy) != images:
        raise InvalidArgumentError(f"{sliding.op}: out_backprop has {len(dy)} images, input {images}")


def _by_channel(dy: Any, channels: int) -> Any:
    """[..., channels * multiplier] as [..., channels, multiplier]."""
    return dy.reshape(*dy.shape[:4], channels, dy.shape[4] // max(1, channels))


def _wide(dtype: Any) -> Any:
    """float16 and bfloat16 are summed as float32."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def _by_loop(xp: Any, multiplier: int, *arrays: Any) -> bool:
    kinds = {a.dtype for a in arrays}
    return xp is np and multiplier > 0 and kinds in ({np.dtype(np.float32)}, {np.dtype(np.float64)})


def _each_filter_its_channel(x: Any, multiplier: int) -> Any:
    """The loops know one filter a channel, so a channel is repeated for each of its filters."""
    return np.ascontiguousarray(x if multiplier == 1 else np.repeat(x, multiplier, -1))


def _repeated(w: Any, win: Window) -> Any:
    """[taps, row of outputs * channels of output]: each filter as often as there are outputs in a row."""
    return np.tile(w.reshape(w.shape[0] * w.shape[1], w.shape[2] * w.shape[3]), (1, max(1, win.out[2])))


def _rows(dy: Any, win: Window) -> Any:
    """[rows of outputs, outputs * channels]."""
    return np.ascontiguousarray(dy).reshape(len(dy) * win.out[1], win.out[2] * dy.shape[4])


def _shared(loop: Compiled, win: Window, blocks: list[tuple[int, int]], *arrays: Any) -> None:
    """The loop over runs (first, count) of rows or taps, one after the other in each thread."""
    if blocks:
        share(lambda mine: loop(*arrays, win.numbers, mine[0][0], sum(mine[-1])), blocks)


def _images(count: int, win: Window) -> list[tuple[int, int]]:
    """The rows of outputs of each."""
    return runs(count * win.out[1], win.out[1])


def forward(xp: Any, x5: Any, w: Any, win: Window) -> Any:
    """x5 [batch, 1, height, width, channels] -> [batch, 1, *, *, channels * multiplier]."""
    channels, dtype = x5.shape[4], x5.dtype
    if _by_loop(xp, w.shape[3], x5, w):
        made = channels * w.shape[3]
        y = np.zeros((len(x5) * win.out[1], win.out[2] * made), dtype)
        of = _each_filter_its_channel(x5, w.shape[3]), _repeated(w, win)
        _shared(filtered, win, _images(len(x5), win), *of, y)
        return y.reshape(len(x5), *win.out, made)
    y = xp.zeros((len(x5), *win.out, channels, w.shape[3]), _wide(dtype))
    for (_, th, tw), cells, outputs in win.each_inner_tap():
        y[outputs] += x5[cells][..., None] * w[th, tw]
    return y.reshape(*y.shape[:4], channels * w.shape[3]).astype(dtype, copy=False)


def by_input(xp: Any, dy5: Any, w: Any, win: Window) -> Any:
    channels, dtype = w.shape[2], dy5.dtype
    if _by_loop(xp, w.shape[3], dy5, w):
        dx = np.zeros((len(dy5), *win.size, dy5.shape[4]), dtype)
        _shared(spread_back, win, _images(len(dy5), win), dx, _repeated(w, win), _rows(dy5, win))
        return _by_channel(dx, channels).sum(-1) if w.shape[3] > 1 else dx
    dx, parts = xp.zeros((len(dy5), *win.size, channels), _wide(dtype)), _by_channel(dy5, channels)
    for (_, th, tw), cells, outputs in win.each_inner_tap():
        dx[cells] += (parts[outputs] * w[th, tw]).sum(-1)
    return dx.astype(dtype, copy=False)


def by_filter(xp: Any, x5: Any, dy5: Any, shape: tuple[int, ...], win: Window) -> Any:
    """Of a filter of that shape."""
    dw, parts = xp.zeros(shape, _wide(x5.dtype)), _by_channel(dy5, x5.shape[4])
    if _by_loop(xp, shape[3], x5, dy5):
        sums = np.zeros((shape[0] * shape[1], win.out[2], dy5.shape[4]), x5.dtype)
        of = _each_filter_its_channel(x5, shape[3]), _rows(dy5, win)
        _shared(filter_gradient, win, runs(len(sums), 1), *of, sums.reshape(len(sums), -1))
        if win.out[2]:
            dw[:] = np.cumsum(sums, 1, dtype=x5.dtype)[:, -1].reshape(shape)
        return dw
    for (_, th, tw), cells, outputs in win.each_inner_tap():
        dw[th, tw] = (x5[cells][..., None] * parts[outputs]).sum((0, 1, 2, 3))
    return dw.astype(x5.dtype, copy=False)


@bound("DepthwiseConv2dNative", stateful=False)
def _forward(node: Node) -> Function:
    sliding, xp = Sliding(node, 2), node.xp

    def run(x: Any, w: Any) -> Any:
        x5 = sliding.come(xp, x, "input")
        return sliding.leave(xp, forward(xp, x5, w, _window(sliding, x5.shape[1:4], x5.shape[4], w.shape)))

    return run


@bound("DepthwiseConv2dNativeBackpropInput", stateful=False)
def _by_input(node: Node) -> Function:
    sliding, xp = Sliding(node, 2), node.xp

    def run(input_sizes: Any, w: Any, dy: Any) -> Any:
        images, size, channels = sliding.shape_in(ints(input_sizes), "input_sizes")
        dy5 = sliding.come(xp, dy, "out_backprop")
        win = _window(sliding, size, channels, w.shape, dy5)
        _same_batch(sliding, images, dy5)
        return sliding.leave(xp, by_input(xp, dy5, w, win))

    return run


@bound("DepthwiseConv2dNativeBackpropFilter", stateful=False)
def _by_filter(node: Node) -> Function:
    sliding, xp = Sliding(node, 2), node.xp

    def run(x: Any, filter_sizes: Any, dy: Any) -> Any:
        x5, dy5, shape = sliding.come(xp, x, "input"), sliding.come(xp, dy, "out_backprop"), ints(filter_sizes)
        win = _window(sliding, x5.shape[1:4], x5.shape[4], shape, dy5)
        _same_batch(sliding, len(x5), dy5)
        return by_filter(xp, x5, dy5, shape, win)

    return run
