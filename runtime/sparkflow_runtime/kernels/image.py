"""Images [batch, height, width, channels] to other sizes: bilinear and nearest neighbour, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.resize_loops import between, interpolated, share_rows
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES
from sparkflow_runtime.wire.errors import InvalidArgumentError

Function = Callable[..., Any]
_KEPT = 16  # sizes for which a node keeps the places


class Scaling:
    """How positions of the resized image lie in the original one."""

    def __init__(self, node: Node):
        self.op = node.op
        self.corners, self.centers = bool(node.attr("align_corners")), bool(node.attr("half_pixel_centers"))
        if self.corners and self.centers:
            raise InvalidArgumentError(f"{node.op}: align_corners and half_pixel_centers exclude each other")

    def places(self, size: int, new: int) -> np.ndarray:
        """For each new cell its place along an axis, in float32 as TensorFlow computes it."""
        one, cells, scale = np.float32(1), np.arange(new, dtype=np.float32), self.scale(size, new)
        return (cells + one / 2) * scale - one / 2 if self.centers else cells * scale

    def scale(self, size: int, new: int) -> np.float32:
        """How many cells of the original a new one is wide."""
        if self.corners and new > 1:
            return np.float32(size - 1) / np.float32(new - 1)
        return np.float32(size) / np.float32(max(1, new))

    def between(self, size: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the cell before, the cell behind, how far from the one to the other)."""
        places = self.places(size, new)
        floor = np.floor(places)
        before = np.maximum(floor, 0).astype(np.int64)
        return before, np.minimum(np.ceil(places), size - 1).astype(np.int64).clip(0), places - floor

    def nearest(self, size: int, new: int) -> np.ndarray:
        places = self.places(size, new)
        half = np.float32(0.5)
        rounded = np.floor(places + half) if self.corners or self.centers else np.floor(places)
        return rounded.astype(np.int64).clip(0, size - 1)

    def sizes(self, images: Any, size: Any) -> tuple[int, int, int, int]:
        """(height, width, new height, new width)."""
        new = ints(size)
        if images.ndim != 4 or len(new) != 2 or min(new) < 1 or 0 in images.shape[1:3]:
            raise InvalidArgumentError(
                f"{self.op}: images must be of rank 4 and not empty, size two numbers above 0, got {images.shape} "
                f"and {new}"
            )
        return images.shape[1], images.shape[2], *new


@bound("ResizeBilinear", stateful=False)
def _bilinear(node: Node) -> Function:
    scaling, xp = Scaling(node), node.xp
    down = lru_cache(_KEPT)(scaling.between)
    along = lru_cache(_KEPT)(lambda *sizes: _columns(scaling, *sizes))

    def run(images: Any, size: Any) -> Any:
        height, width, new_height, new_width = scaling.sizes(images, size)
        x = images if xp is np and images.dtype == np.uint8 else images.astype(np.float32, copy=False)
        if xp is not np:
            return interpolated(x, *map(xp.asarray, (*down(height, new_height), *down(width, new_width))))
        out = np.empty((len(x), new_height, new_width, x.shape[3]), np.float32)
        if out.size:
            places = *down(height, new_height), *along(width, new_width, x.shape[3])
            _between(np.ascontiguousarray(x), *places, out)
        return out

    return run


def _columns(scaling: Scaling, width: int, new_width: int, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scaling.between of the numbers in a row, channels side by side."""
    left, right, across = scaling.between(width, new_width)
    each = np.arange(channels)
    begin, end = ((side[:, None] * channels + each).reshape(-1).astype(np.uint32) for side in (left, right))
    return begin, end, np.repeat(across, channels)


def _between(
    x: np.ndarray, top: Any, bottom: Any, down: Any, left: Any, right: Any, across: Any, out: np.ndarray
) -> None:
    """Rows as they lie in memory, channels side by side."""
    batch, height, width, channels = x.shape
    whole = x.reshape(batch, height, width * channels), top, bottom, down, left, right, across
    flat = out.reshape(batch, out.shape[1], -1)

    def work(mine: Sequence[tuple[int, int]]) -> None:
        if mine:
            room = np.empty((2, flat.shape[2]), np.float32)
            between(*whole, flat, room, channels, mine[0][0], sum(mine[-1]))

    share(work, runs(batch, 1))


def spread(xp: Any, dy: Any, down: Any, across: Any) -> Any:
    """down' dy across for each image and channel; down [new height, height], across [new width, width]. Both are mostly
    zeros."""
    if xp is not np:
        rows = xp.tensordot(dy, down, ((1,), (0,)))  # [batch, new width, channels, height]
        return xp.ascontiguousarray(xp.transpose(xp.tensordot(rows, across, ((1,), (0,))), (0, 2, 3, 1)))
    batch, new_height, new_width, channels = dy.shape
    height, width = down.shape[1], across.shape[1]
    rows = _spread_rows(dy.reshape(batch, new_height, new_width * channels), down)
    found = _spread_rows(rows.reshape(batch * height, new_width, channels), across)
    return found.reshape(batch, height, width, channels)


def _spread_rows(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[n, new, k] -> [n, size, k]: each row goes, weighed, to the few it is shared among; weights: [new, size]."""
    cells, targets = map(np.ascontiguousarray, np.nonzero(weights))
    shares = weights[cells, targets]
    out = np.zeros((len(x), weights.shape[1], x.shape[2]), x.dtype)
    if x.dtype in FLOAT_TYPES and shares.dtype == x.dtype:
        in_parts(share_rows, len(x), len(cells) * x.shape[2], np.ascontiguousarray(x), cells, targets, shares, out)
    else:
        share_rows.numpy(x, cells, targets, shares, out, 0, len(x))
    return out


@bound("ResizeBilinearGrad", stateful=False)
def _bilinear_grad(node: Node) -> Function:
    scaling, xp = Scaling(node), node.xp

    def shares(size: int, new: int, dtype: Any) -> Any:
        before, behind, part = scaling.between(size, new)
        found, cells = np.zeros((new, size), dtype), np.arange(new)
        np.add.at(found, (cells, before), 1 - part)
        np.add.at(found, (cells, behind), part)
        return xp.asarray(found)

    def run(dy: Any, original: Any) -> Any:
        height, width, new_height, new_width = scaling.sizes(original, np.array(dy.shape[1:3]))
        kind = np.float64 if original.dtype == np.float64 else np.float32
        dx = spread(xp, dy.astype(kind), shares(height, new_height, kind), shares(width, new_width, kind))
        return dx.astype(original.dtype, copy=False)

    return run


@bound("ResizeNearestNeighbor", stateful=False)
def _nearest(node: Node) -> Function:
    scaling, xp = Scaling(node), node.xp

    def run(images: Any, size: Any) -> Any:
        height, width, new_height, new_width = scaling.sizes(images, size)
        rows, columns = scaling.nearest(height, new_height), scaling.nearest(width, new_width)
        return images[:, xp.asarray(rows)][:, :, xp.asarray(columns)]

    return run


@bound("ResizeNearestNeighborGrad", stateful=False)
def _nearest_grad(node: Node) -> Function:
    """(dy, size of the original) -> dx."""
    scaling, xp = Scaling(node), node.xp

    def picks(size: int, new: int, dtype: Any) -> Any:
        return xp.asarray(np.arange(size) == scaling.nearest(size, new)[:, None], dtype)

    def run(dy: Any, size: Any) -> Any:
        new_height, new_width, height, width = scaling.sizes(dy, size)
        wide = dy.astype(np.float32) if dy.dtype.itemsize == 2 else dy
        dx = spread(xp, wide, picks(height, new_height, wide.dtype), picks(width, new_width, wide.dtype))
        return dx.astype(dy.dtype, copy=False)

    return run
