"""Maximum and mean over windows, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

from sparkflow_runtime.kernels import max_pool_loops, window_loops
from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.parallel import share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.windows import Sliding, Window
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

Function = Callable[..., Any]


class _Pool:
    """The window of a pooling node."""

    def __init__(self, node: Node, space: int, ksize: Any = None, strides: Any = None):
        self.sliding, self.xp = Sliding(node, space, strides), node.xp
        ksize = list(ksize if ksize is not None else node.attr("ksize"))
        if len(ksize) != self.sliding.rank or min(ksize) < 1:
            raise InvalidArgumentError(f"{node.op}: ksize must be {self.sliding.rank} numbers above 0, got {ksize}")
        if ksize[0] != 1 or ksize[self.sliding.channel] != 1:
            raise UnimplementedError(f"{node.op}: pooling over batch or channels is not supported, got ksize {ksize}")
        self.taps = self.sliding.triple([ksize[a] for a in self.sliding.axes], 1)

    def window(self, size: Any) -> Window:
        return self.sliding.window(size, self.taps)

    def come(self, x: Any, what: str = "input") -> Any:
        return self.sliding.come(self.xp, x, what)

    def leave(self, y: Any) -> Any:
        return self.sliding.leave(self.xp, y)


def _fast(xp: Any, x: Any) -> bool:
    return xp is np and x.dtype in (np.float32, np.float64) and x.size > 0


def _by_images(count: int, loop: Callable[[int, int], None]) -> None:
    """loop(first image, one past the last) in several threads."""

    def work(images: Sequence[int]) -> None:
        if images:
            loop(images[0], images[-1] + 1)

    share(work, range(count))


# ---------------------------------------------------------------------- maximum


def _least(dtype: Any) -> Any:
    """What the maximum of no cell is, or of cells that are all minus infinity: as in TensorFlow the lowest number."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else finfo(dtype).min


def _sizes(x5: Any) -> np.ndarray:
    return np.array(x5.shape[1:5], np.int64)


def _maxima(xp: Any, x: Any, win: Window) -> Any:
    if _fast(xp, x):
        shape, least = (len(x), *win.out, x.shape[4]), _least(x.dtype)
        flat, sizes = np.ascontiguousarray(x).reshape(-1), _sizes(x)
        if _overlaps(win):
            flat = _largest(flat, win.of_rows, sizes, len(x), least)
            depth, height, width, channels = (*win.size[:2], win.out[2], x.shape[4])
            made = _largest(flat, win.of_columns, np.array([1, depth, height, width * channels]), len(x), least)
        else:
            made = _largest(flat, win.numbers, sizes, len(x), least)
        return made.reshape(shape)
    y = xp.full((len(x), *win.out, x.shape[4]), _least(x.dtype), x.dtype)
    for _, cells, outputs in win.each_inner_tap():
        y[outputs] = xp.maximum(y[outputs], x[cells])
    return y


def _overlaps(win: Window) -> bool:
    """Whether it pays to take the largest of each row of a window first: other windows have the same row, then. Of
    equal numbers the first stays either way."""
    depth, height, width = win.taps
    return depth * height * width > 4 and width > 1 and win.strides[1] * width + height < 0.7 * height * width


def _largest(flat: np.ndarray, numbers: Any, sizes: Any, count: int, least: Any) -> np.ndarray:
    """Of images that lie flat, as `max_pool_loops.maxima` gives it."""
    made = np.full(count * int(np.prod(numbers[12:15])) * int(sizes[3]), least, flat.dtype)
    _by_images(count, lambda a, b: max_pool_loops.maxima(flat, made, numbers, sizes, a, b))
    return made


def _winners(xp: Any, x: Any, win: Window) -> Any:
    """For each output the number of the first tap that meets its maximum; a NaN is larger than any number."""
    best = xp.full((len(x), *win.out, x.shape[4]), _least(x.dtype), x.dtype)
    winner = xp.full(best.shape, -1, xp.int32)
    for tap, cells, outputs in win.each_inner_tap():
        seen, number = x[cells], int(np.ravel_multi_index(tap, win.taps))
        better = (seen > best[outputs]) | ((seen != seen) & (best[outputs] == best[outputs])) | (winner[outputs] < 0)
        best[outputs] = xp.where(better, seen, best[outputs])
        winner[outputs] = xp.where(better, number, winner[outputs])
    return winner


def _spread(xp: Any, dy: Any, winner: Any, win: Window) -> Any:
    """Each dy goes to the cell that its winning tap met: from the last tap, so that a cell adds in order of outputs."""
    dx = xp.zeros((len(dy), *win.size, dy.shape[4]), dy.dtype)
    for tap, cells, outputs in reversed(list(win.each_inner_tap())):
        number = int(np.ravel_multi_index(tap, win.taps))
        dx[cells] += xp.where(winner[outputs] == number, dy[outputs], dy.dtype.type(0))
    return dx


def _collect(xp: Any, d: Any, winner: Any, win: Window) -> Any:
    """The transpose of `_spread`: each output takes from the cell that its winning tap met."""
    out = xp.zeros(winner.shape, d.dtype)
    for tap, cells, outputs in win.each_inner_tap():
        number = int(np.ravel_multi_index(tap, win.taps))
        out[outputs] = xp.where(winner[outputs] == number, d[cells], out[outputs])
    return out


def _max_pool(space: int) -> Callable[[Node], Function]:
    def factory(node: Node) -> Function:
        pool = _Pool(node, space)
        max_pool_loops.maxima.prepare()

        def run(x: Any) -> Any:
            x5 = pool.come(x)
            return pool.leave(_maxima(node.xp, x5, pool.window(x5.shape[1:4])))

        return run

    return factory


def _gradient_of_maxima(op: str, pool: _Pool, x: Any, dy: Any) -> Any:
    """Of equal maxima the first takes all."""
    x5, dy5, xp = pool.come(x), pool.come(dy, "grad"), pool.xp
    win = pool.window(x5.shape[1:4])
    _check_size(op, dy5, (len(x5), *win.out, x5.shape[4]))
    if not _fast(xp, x5) or dy5.dtype != x5.dtype:
        return pool.leave(_spread(xp, dy5, _winners(xp, x5, win), win))
    once = win.strides == win.taps and all(o * s >= n for o, s, n in zip(win.out, win.strides, win.size))
    dx = (np.empty if once else np.zeros)(x5.shape, x5.dtype)
    sizes, flat = _sizes(x5), [np.ascontiguousarray(v).reshape(-1) for v in (x5, dy5, dx)]
    _by_images(len(x5), lambda a, b: max_pool_loops.spread_to_maxima(*flat, int(once), win.numbers, sizes, a, b))
    return pool.leave(dx)


def _max_pool_grad(space: int) -> Callable[[Node], Function]:
    """(input, output, dy) -> dx."""

    def factory(node: Node) -> Function:
        pool = _Pool(node, space)
        max_pool_loops.spread_to_maxima.prepare()
        return lambda x, y, dy: _gradient_of_maxima(node.op, pool, x, dy)

    return factory


def _max_pool_grad_grad(space: int) -> Callable[[Node], Function]:
    """(input, output, d) -> what d has where the maxima of the input lie."""

    def factory(node: Node) -> Function:
        pool = _Pool(node, space)
        return lambda x, y, d: _at_maxima(node.op, pool, x, d)

    return factory


def _at_maxima(op: str, pool: _Pool, x: Any, d: Any) -> Any:
    x5, d5, xp = pool.come(x), pool.come(d, "grad"), pool.xp
    _check_size(op, d5, x5.shape)
    win = pool.window(x5.shape[1:4])
    return pool.leave(_collect(xp, d5, _winners(xp, x5, win), win))


def _check_size(op: str, dy: Any, shape: tuple[int, ...]) -> None:
    if dy.shape != shape:
        raise InvalidArgumentError(f"{op}: grad must have shape {shape} (batch, space, channels), got {dy.shape}")


@bound("MaxPoolV2", stateful=False)
def _max_pool_v2(node: Node) -> Function:
    """As MaxPool, with ksize and strides as inputs."""

    def run(x: Any, ksize: Any, strides: Any) -> Any:
        pool = _Pool(node, 2, ints(ksize), ints(strides))
        x5 = pool.come(x)
        return pool.leave(_maxima(node.xp, x5, pool.window(x5.shape[1:4])))

    return run


@bound("MaxPoolGradV2", stateful=False)
def _max_pool_grad_v2(node: Node) -> Function:
    """(input, output, dy, ksize, strides) -> dx."""

    def run(x: Any, y: Any, dy: Any, ksize: Any, strides: Any) -> Any:
        return _gradient_of_maxima(node.op, _Pool(node, 2, ints(ksize), ints(strides)), x, dy)

    return run


@bound("MaxPoolGradGradV2", stateful=False)
def _max_pool_grad_grad_v2(node: Node) -> Function:
    """(input, output, d, ksize, strides) -> what d has where the maxima of the input lie."""

    def run(x: Any, y: Any, d: Any, ksize: Any, strides: Any) -> Any:
        return _at_maxima(node.op, _Pool(node, 2, ints(ksize), ints(strides)), x, d)

    return run


# ---------------------------------------------------------------------- maximum and where it was


def _flat_places(xp: Any, winner: Any, win: Window, channels: int, with_batch: bool) -> Any:
    """The flat index, within its image or within the batch, of the cell that each output took."""
    _, taps_h, taps_w = win.taps
    _, out_h, out_w = win.out
    height, width = win.size[1:]
    rows = xp.arange(out_h)[:, None, None] * win.strides[1] - win.before[1] + winner // taps_w % taps_h
    columns = xp.arange(out_w)[:, None] * win.strides[2] - win.before[2] + winner % taps_w
    flat = (rows * width + columns) * channels + xp.arange(channels)
    if with_batch:
        flat = flat + (xp.arange(len(winner)) * height * width * channels)[:, None, None, None, None]
    return flat


@bound("MaxPoolWithArgmax", stateful=False, multi=True)
def _max_pool_with_argmax(node: Node) -> Function:
    pool, xp = _Pool(node, 2), node.xp
    index_type = node.attr("Targmax").np if node.attr("Targmax") else np.int64
    max_pool_loops.winners.prepare()

    def by_loop(x5: Any, win: Window) -> Any:
        best = np.full((len(x5), *win.out, x5.shape[4]), _least(x5.dtype), x5.dtype)
        where = np.empty(best.shape, np.int64)
        flat, whole = [np.ascontiguousarray(v).reshape(-1) for v in (x5, best, where)], _sizes(x5)
        with_batch = int(bool(node.attr("include_batch_in_index")))
        _by_images(len(x5), lambda a, b: max_pool_loops.winners(*flat, with_batch, win.numbers, whole, a, b))
        return pool.leave(best), pool.leave(where.astype(index_type, copy=False))

    def run(x: Any) -> Any:
        x5 = pool.come(x)
        win = pool.window(x5.shape[1:4])
        if _fast(xp, x5):
            return by_loop(x5, win)
        winner = _winners(xp, x5, win)
        flat = _flat_places(xp, winner, win, x5.shape[4], bool(node.attr("include_batch_in_index")))
        return pool.leave(_collect(xp, x5, winner, win)), pool.leave(flat.astype(index_type))

    return run


def _checked_places(node: Node, xp: Any, argmax: Any, shape: tuple[int, ...]) -> Any:
    """argmax as indices of the whole flat batch."""
    cells = math.prod(shape[1:])
    flat = argmax.reshape(shape[0], -1).astype(np.int64)
    if not node.attr("include_batch_in_index"):
        flat = flat + (xp.arange(shape[0]) * cells)[:, None]
    if flat.size and (host(flat.min()) < 0 or host(flat.max()) >= cells * shape[0]):
        raise _outside(node, shape)
    return flat.ravel()


def _outside(node: Node, shape: tuple[int, ...]) -> InvalidArgumentError:
    return InvalidArgumentError(f"{node.op}: argmax holds an index outside the input {shape}")


@bound("MaxPoolGradWithArgmax", stateful=False)
def _max_pool_grad_with_argmax(node: Node) -> Function:
    xp = node.xp
    max_pool_loops.give_to_places.prepare()

    def run(x: Any, dy: Any, argmax: Any) -> Any:
        _check_size(node.op, dy, argmax.shape)
        dx = xp.zeros(x.size, dy.dtype)
        if _fast(xp, dy):
            places = argmax.astype(np.int64, copy=False)
            flat = [np.ascontiguousarray(v).reshape(-1) for v in (dy, places)]
            cells = 0 if node.attr("include_batch_in_index") else math.prod(x.shape[1:])
            if max_pool_loops.give_to_places(*flat, dx, len(dy), math.prod(dy.shape[1:]), cells):
                raise _outside(node, x.shape)
            return dx.reshape(x.shape)
        xp.add.at(dx, _checked_places(node, xp, argmax, x.shape), dy.ravel())
        return dx.reshape(x.shape)

    return run


@bound("MaxPoolGradGradWithArgmax", stateful=False)
def _max_pool_grad_grad_with_argmax(node: Node) -> Function:
    xp = node.xp

    def run(x: Any, d: Any, argmax: Any) -> Any:
        _check_size(node.op, d, x.shape)
        return d.ravel()[_checked_places(node, xp, argmax, x.shape)].reshape(argmax.shape)

    return run


# ---------------------------------------------------------------------- mean


def _counts(xp: Any, win: Window, dtype: Any) -> Any:
    """How many cells, padding aside, each output sees: [depth, height, width, 1]."""
    count = xp.zeros((1, *win.out, 1), dtype)
    for _, _, outputs in win.each_inner_tap():
        count[outputs] += dtype.type(1)
    return count[0]


def _avg_pool(space: int) -> Callable[[Node], Function]:
    def factory(node: Node) -> Function:
        pool, xp = _Pool(node, space), node.xp
        window_loops.means.prepare()

        def run(x: Any) -> Any:
            x5 = pool.come(x)
            win = pool.window(x5.shape[1:4])
            if _fast(xp, x5):
                y = np.empty((len(x5), *win.out, x5.shape[4]), x5.dtype)
                _by_images(len(x5), lambda a, b: window_loops.means(x5, y, win.numbers, a, b))
                return pool.leave(y)
            wide = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype
            y = xp.zeros((len(x5), *win.out, x5.shape[4]), wide)
            for _, cells, outputs in win.each_inner_tap():
                y[outputs] += x5[cells]
            return pool.leave((y / _counts(xp, win, wide)).astype(x.dtype))

        return run

    return factory


def _avg_pool_grad(space: int) -> Callable[[Node], Function]:
    """(shape of the input, dy) -> dx: every cell of a window gets its share."""

    def factory(node: Node) -> Function:
        pool, xp = _Pool(node, space), node.xp
        window_loops.spread_means.prepare()

        def run(input_shape: Any, dy: Any) -> Any:
            images, size, channels = pool.sliding.shape_in(ints(input_shape), "orig_input_shape")
            dy5, win = pool.come(dy, "grad"), pool.window(size)
            _check_size(node.op, dy5, (images, *win.out, channels))
            if _fast(xp, dy5):
                dx = np.zeros((images, *size, channels), dy5.dtype)
                _by_images(images, lambda a, b: window_loops.spread_means(dy5, dx, win.numbers, a, b))
                return pool.leave(dx)
            wide = np.dtype(np.float32) if dy.dtype.itemsize == 2 else dy.dtype
            dx, part = xp.zeros((images, *size, channels), wide), dy5.astype(wide) / _counts(xp, win, wide)
            for _, cells, outputs in win.each_inner_tap():
                dx[cells] += part[outputs]
            return pool.leave(dx.astype(dy.dtype, copy=False))

        return run

    return factory


for _space, _suffix in ((2, ""), (3, "3D")):
    bound("MaxPool" + _suffix, stateful=False)(_max_pool(_space))
    bound(f"MaxPool{_suffix}Grad", stateful=False)(_max_pool_grad(_space))
    bound(f"MaxPool{_suffix}GradGrad", stateful=False)(_max_pool_grad_grad(_space))
    bound("AvgPool" + _suffix, stateful=False)(_avg_pool(_space))
    bound(f"AvgPool{_suffix}Grad", stateful=False)(_avg_pool_grad(_space))
