"""Convolutions and their gradients: Conv2D, Conv3D, and depthwise ones.

How one is computed follows from shapes and dtype alone: Winograd's way for 3 x 3 float32 windows (conv_winograd.py), of
several depths too (conv_deep.py), directly for others of float32, those of one tap where that is faster than BLAS
(conv_direct.py), columns for what that leaves and float64 (conv_columns.py), a product a tap for everything else
(conv_taps.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import (
    conv_columns,
    conv_deep,
    conv_depthwise,
    conv_direct,
    conv_taps,
    conv_winograd,
)
from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.windows import Sliding, Window
from sparkflow_runtime.wire.errors import InvalidArgumentError

Function = Callable[..., Any]
_KEPT = 256
_FLOAT32 = np.dtype(np.float32)
_WINOGRAD_CHANNELS = 32  # of the input and of the output, from which on its fewer products outweigh its transforms
_WINOGRAD_TILES = 8  # of 4 x 4 outputs: of fewer, to transform the filter takes longer than all products by columns


def _is_narrow(dtype: Any) -> bool:
    """float16 and bfloat16 are computed as float32."""
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def _way(xp: Any, x: Any, filter_shape: tuple[int, ...], win: Window, back: bool = False) -> Any:
    """The module that computes this one. back: for the gradient of the input; x is dy then."""
    if xp is not np:
        return None
    key = x.shape, filter_shape, x.dtype, back, conv_direct.is_there()
    ways = win.ways  # to ask all of them takes as long as a small convolution
    if key not in ways:
        if len(ways) >= _KEPT:  # of batches that are never of the same size
            ways.clear()
        ways[key] = _best(x, np.broadcast_to(np.float32(0), filter_shape), win, back)
    return ways[key]


def _best(x: Any, w: Any, win: Window, back: bool) -> Any:
    if x.dtype not in (np.float32, np.float64) or not x.size or not w.size or 0 in win.out:
        return None
    if conv_deep.fits(x, w, win, back):
        return conv_deep
    directly = conv_direct.fits(x, w, win, back)
    if conv_winograd.fits(x, w, win) and (not directly or min(w.shape[-2:]) >= _WINOGRAD_CHANNELS):
        tiles = len(x) * math.prod(-(-n // 4) for n in win.out[1:])
        return conv_winograd if tiles >= _WINOGRAD_TILES else conv_columns
    return conv_direct if directly else conv_columns


class _Straight:
    """Calls by the shapes of their arrays, which go straight to what computes them: of small convolutions, to find that
    takes as long as to do it. Of float32 in numpy's memory, with the channels last and in one group."""

    def __init__(self, xp: Any, sliding: Sliding):
        self.calls: dict[Any, Function] = {}
        self.open = xp is np and sliding.channel != 1

    def find(self, key: Any, a: Any, b: Any) -> Function | None:
        """For two arrays that lie row by row."""
        call = self.calls.get(key)
        if call is None or not a.dtype == b.dtype == _FLOAT32:
            return None
        return call if a.flags.c_contiguous and b.flags.c_contiguous else None

    def keep(self, key: Any, compute: Function, win: Window, a: Any, b: Any, out: Any) -> None:
        """From now on compute(a, b, win), for arrays that are shaped as a and b then, is what makes `out`."""
        if not self.open or not a.dtype == b.dtype == _FLOAT32:
            return
        if len(self.calls) >= _KEPT:  # of batches that are never of the same size
            self.calls.clear()
        shapes = a.shape, b.shape, out.shape

        def call(a: Any, b: Any) -> Any:
            return compute(a.reshape(shapes[0]), b.reshape(shapes[1]), win).reshape(shapes[2])

        self.calls[key] = call


def _prepare(node: Node) -> None:
    if node.xp is np:
        conv_columns.prepare()
        conv_winograd.prepare()
        conv_direct.prepare()


def _forward_of(xp: Any, x: Any, w: Any, win: Window) -> Any:
    if _is_narrow(x.dtype):
        return conv_taps.forward(xp, x.astype(np.float32), w.astype(np.float32), win).astype(x.dtype)
    way = _way(xp, x, w.shape, win)
    return way.forward(x, w, win) if way else conv_taps.forward(xp, x, w, win)


def _by_input_of(xp: Any, dy: Any, w: Any, win: Window) -> Any:
    if _is_narrow(dy.dtype):
        return conv_taps.by_input(xp, dy.astype(np.float32), w.astype(np.float32), win).astype(dy.dtype)
    way = _way(xp, dy, w.shape, win, back=True)
    return way.by_input(dy, w, win) if way else conv_taps.by_input(xp, dy, w, win)


def _by_filter_of(xp: Any, x: Any, dy: Any, win: Window) -> Any:
    if _is_narrow(x.dtype):
        return conv_taps.by_filter(xp, x.astype(np.float32), dy.astype(np.float32), win).astype(x.dtype)
    way = _way_of_filter(xp, x, dy, win)
    return way.by_filter(x, dy, win) if way else conv_taps.by_filter(xp, x, dy, win)


def _way_of_filter(xp: Any, x: Any, dy: Any, win: Window) -> Any:
    way = _way(xp, x, (*win.taps, x.shape[4], dy.shape[4]), win)
    # a filter of one tap has long sums, for which BLAS is as good
    return conv_columns if way is conv_direct and win.trivial else way


def _in_groups(compute: Callable[..., Any], xp: Any, groups: int, a: Any, b: Any, win: Window) -> Any:
    """A group of the last axis of both at a time."""
    if groups == 1:
        return compute(xp, a, b, win)
    depthwise = _DEPTHWISE.get(compute)
    if depthwise is not None and b.shape[-2] == 1:  # a channel each
        return depthwise(xp, a, b.reshape(*win.taps[1:], groups, -1), win)
    parts = zip(xp.split(a, groups, -1), xp.split(b, groups, -1))
    return xp.concatenate([compute(xp, *map(xp.ascontiguousarray, pair), win) for pair in parts], -1)


_DEPTHWISE = {_forward_of: conv_depthwise.forward, _by_input_of: conv_depthwise.by_input}


def _filter_window(
    sliding: Sliding, size: Any, filter_shape: tuple[int, ...], channels: int, out: Any = None
) -> tuple[Window, int]:
    """(the window of a filter [*taps, in, out] over inputs of that size, in how many groups it takes the channels).

    Raises InvalidArgumentError on a misfit.
    """
    if len(filter_shape) != sliding.rank:
        raise InvalidArgumentError(f"{sliding.op}: filter must be of rank {sliding.rank}, got shape {filter_shape}")
    taken, made = filter_shape[-2:]
    groups = channels // taken if taken and channels % taken == 0 and sliding.space == 2 else 1
    if taken * groups != channels or made % max(1, groups):
        raise InvalidArgumentError(
            f"{sliding.op}: input has {channels} channels, filter {filter_shape} takes {taken} and makes {made}"
        )
    win = sliding.window(size, sliding.triple(filter_shape[: sliding.space], 1))
    if out is not None and out != win.out:
        raise InvalidArgumentError(
            f"{sliding.op}: out_backprop has size {out}, but the window makes {win.out} of an input of size {size}"
        )
    return win, max(1, groups)


def _check_outputs(op: str, dy_channels: int, filter_shape: tuple[int, ...], images: tuple[int, int]) -> None:
    if dy_channels != filter_shape[-1] or images[0] != images[1]:
        raise InvalidArgumentError(
            f"{op}: out_backprop has {images[1]} images of {dy_channels} channels; the input has {images[0]} and "
            f"filter {filter_shape} makes {filter_shape[-1]}"
        )


def _forward(space: int) -> Callable[[Node], Function]:
    def factory(node: Node) -> Function:
        sliding, xp = Sliding(node, space), node.xp
        fit = lru_cache(64)(partial(_filter_window, sliding))
        _prepare(node)
        straight = _Straight(xp, sliding)

        def run(x: Any, w: Any) -> Any:
            key = x.shape, w.shape, conv_direct.is_there()
            call = straight.find(key, x, w)
            if call is not None:
                return call(x, w)
            x5 = sliding.come(xp, x, "input")
            win, groups = fit(x5.shape[1:4], w.shape, x5.shape[4])
            w5 = xp.ascontiguousarray(w).reshape(*win.taps, *w.shape[-2:])
            y = sliding.leave(xp, _in_groups(_forward_of, xp, groups, x5, w5, win))
            if groups == 1 and (way := _way(xp, x5, w5.shape, win)):
                straight.keep(key, way.forward, win, x5, w5, y)
            return y

        def with_bias(x: Any, w: Any, bias: Any, relu: bool) -> Any:
            """run(x, w) with a bias added and perhaps Relu taken as each output is made; None where the way that is
            taken does not know how."""
            if xp is not np or not w.dtype == bias.dtype == _FLOAT32 or bias.shape != w.shape[-1:]:
                return None
            if (x.shape, w.shape, conv_direct.is_there()) in straight.calls:  # it was asked, and run came after
                return None
            x5 = sliding.come(xp, x, "input")
            win, groups = fit(x5.shape[1:4], w.shape, x5.shape[4])
            w5 = xp.ascontiguousarray(w).reshape(*win.taps, *w.shape[-2:])
            if groups > 1 or _way(xp, x5, w5.shape, win) is not conv_winograd:
                return None
            return sliding.leave(xp, conv_winograd.forward(x5, w5, win, bias, relu))

        run.with_bias = with_bias  # type: ignore[attr-defined]
        return run

    return factory


def _by_input(space: int) -> Callable[[Node], Function]:
    def factory(node: Node) -> Function:
        sliding, xp = Sliding(node, space), node.xp
        fit = lru_cache(64)(partial(_filter_window, sliding))
        _prepare(node)
        straight = _Straight(xp, sliding)

        def run(input_sizes: Any, w: Any, dy: Any) -> Any:
            shape = ints(input_sizes)
            key = shape, w.shape, dy.shape, conv_direct.is_there()
            call = straight.find(key, dy, w)
            if call is not None:
                return call(dy, w)
            if len(shape) == space:  # as TensorFlow's: without batch and channels
                shape = (
                    (dy.shape[0], *shape, w.shape[-2]) if sliding.channel != 1 else (dy.shape[0], w.shape[-2], *shape)
                )
            images, size, channels = sliding.shape_in(shape, "input_sizes")
            dy5 = sliding.come(xp, dy, "out_backprop")
            win, groups = fit(size, w.shape, channels, dy5.shape[1:4])
            _check_outputs(node.op, dy5.shape[4], w.shape, (images, dy5.shape[0]))
            w5 = xp.ascontiguousarray(w).reshape(*win.taps, *w.shape[-2:])
            dx = sliding.leave(xp, _in_groups(_by_input_of, xp, groups, dy5, w5, win))
            if groups == 1 and (way := _way(xp, dy5, w5.shape, win, back=True)):
                straight.keep(key, way.by_input, win, dy5, w5, dx)
            return dx

        return run

    return factory


def _by_filter(space: int) -> Callable[[Node], Function]:
    def factory(node: Node) -> Function:
        sliding, xp = Sliding(node, space), node.xp
        fit = lru_cache(64)(partial(_filter_window, sliding))
        _prepare(node)
        straight = _Straight(xp, sliding)

        def run(x: Any, filter_sizes: Any, dy: Any) -> Any:
            shape = ints(filter_sizes)
            key = x.shape, shape, dy.shape, conv_direct.is_there()
            call = straight.find(key, x, dy)
            if call is not None:
                return call(x, dy)
            x5, dy5 = sliding.come(xp, x, "input"), sliding.come(xp, dy, "out_backprop")
            win, groups = fit(x5.shape[1:4], shape, x5.shape[4], dy5.shape[1:4])
            _check_outputs(node.op, dy5.shape[4], shape, (x5.shape[0], dy5.shape[0]))
            if groups > 1 and shape[-2] == 1:
                dw = conv_depthwise.by_filter(xp, x5, dy5, (*shape[:2], groups, shape[3] // groups), win)
            else:
                dw = _in_groups(_by_filter_of, xp, groups, x5, dy5, win)
            dw = dw.reshape(shape)
            if groups == 1 and (way := _way_of_filter(xp, x5, dy5, win)):
                straight.keep(key, way.by_filter, win, x5, dy5, dw)
            return dw

        return run

    return factory


for _space, _names in (
    (2, ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")),
    (3, ("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")),
):
    for _name, _make in zip(_names, (_forward, _by_input, _by_filter)):
        bound(_name, stateful=False)(_make(_space))
