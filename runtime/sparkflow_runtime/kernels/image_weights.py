"""Resizing by a matrix of weights for each axis: bicubic, and the mean over areas.

Source: Keys 1981 (the cubic); TensorFlow rounds a cell's place to 1/1024 of a cell before it looks its weights up.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.image import Scaling, spread
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.kernels.resize_loops import share_rows

_STEPS = 1024


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys's kernel for distances in [0, 2]."""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, far)


def _cubic_weights(scaling: Scaling, size: int, new: int) -> np.ndarray:
    """[new, size]: what of each cell is in each new one."""
    places = scaling.places(size, new)
    first = np.floor(places)
    part = np.rint((places - first) * np.float32(_STEPS)) / _STEPS
    out, cells = np.zeros((new, size)), np.arange(new)
    for step in range(-1, 3):
        at = first.astype(np.int64) + step
        weight = _cubic(part - step, -0.5 if scaling.centers else -0.75)
        inside = (at >= 0) & (at < size) if scaling.centers else np.ones(new, bool)
        np.add.at(out, (cells, at.clip(0, size - 1)), np.where(inside, weight, 0))
    return out / out.sum(1, keepdims=True) if scaling.centers else out


def _area_weights(scaling: Scaling, size: int, new: int) -> np.ndarray:
    """[new, size]: a new cell is the mean of what it covers, the last cell going on beyond the edge."""
    scale = scaling.scale(size, new)
    out = np.zeros((new, size))
    for cell in range(new):
        low, high = float(np.float32(cell) * scale), float(np.float32(cell + 1) * scale)
        for at in range(math.floor(low), math.ceil(high)):
            out[cell, min(at, size - 1)] += min(at + 1, high) - max(at, low)
    return out / float(scale)


def _resized(op: str, weights: Any) -> None:
    @bound(op, stateful=False)
    def factory(node: Node) -> Function:
        scaling, xp = Scaling(node), node.xp
        share_rows.prepare()
        seen = lru_cache(8)(lambda *sizes: xp.asarray(weights(scaling, *sizes).T, np.float32))

        def run(images: Any, size: Any) -> Any:
            height, width, new_height, new_width = scaling.sizes(images, size)
            x = images.astype(np.float32, copy=False)
            return spread(xp, x, seen(height, new_height), seen(width, new_width))

        return run


_resized("ResizeBicubic", _cubic_weights)
_resized("ResizeArea", _area_weights)


@bound("ResizeBicubicGrad", stateful=False)
def _bicubic_grad(node: Node) -> Function:
    scaling, xp = Scaling(node), node.xp

    def run(dy: Any, original: Any) -> Any:
        height, width, new_height, new_width = scaling.sizes(original, np.array(dy.shape[1:3]))
        kind = np.float64 if original.dtype == np.float64 else np.float32
        down, across = (_cubic_weights(scaling, *s) for s in ((height, new_height), (width, new_width)))
        dx = spread(xp, dy.astype(kind), xp.asarray(down, kind), xp.asarray(across, kind))
        return dx.astype(original.dtype, copy=False)

    return run
