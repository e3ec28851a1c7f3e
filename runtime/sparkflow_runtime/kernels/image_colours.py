"""Colours of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels import norm_loops
from sparkflow_runtime.kernels.colour_loops import hsv_of, rgb_of, saturate, saturated, to_hsv, to_rgb, turn, turned
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.kernels.row_reductions import reduced
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _rgb(op: str, x: Any) -> None:
    if not x.ndim or x.shape[-1] != 3:
        raise InvalidArgumentError(f"{op}: the last size must be 3, got shape {list(x.shape)}")


def _by_pixels(loop: Compiled, x: Any, turned_by: Any = 0, scale: Any = 1) -> Any:
    """None where the loop does not take the array."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float32 or not x.size:
        return None
    out, change = np.empty(x.shape, np.float32), np.array([turned_by, scale], np.float32)
    in_parts(loop, x.size // 3, 3, np.ascontiguousarray(x).reshape(-1, 3), out.reshape(-1, 3), change)
    return out


@kernel("RGBToHSV")
def _rgb_to_hsv(xp: Any, x: Any) -> Any:
    _rgb("RGBToHSV", x)
    found = _by_pixels(to_hsv, x)
    return hsv_of(xp, x).astype(x.dtype, copy=False) if found is None else found


@kernel("HSVToRGB")
def _hsv_to_rgb(xp: Any, x: Any) -> Any:
    _rgb("HSVToRGB", x)
    found = _by_pixels(to_rgb, x)
    return rgb_of(xp, x).astype(x.dtype, copy=False) if found is None else found


@kernel("AdjustHue")
def _hue(xp: Any, x: Any, delta: Any) -> Any:
    _rgb("AdjustHue", x)
    found = _by_pixels(turn, x, delta)
    return turned(xp, x, delta).astype(x.dtype, copy=False) if found is None else found


@kernel("AdjustSaturation")
def _saturation(xp: Any, x: Any, scale: Any) -> Any:
    _rgb("AdjustSaturation", x)
    found = _by_pixels(saturate, x, 0, scale)
    return saturated(xp, x, scale).astype(x.dtype, copy=False) if found is None else found


@kernel("AdjustContrastv2")
def _contrast(xp: Any, x: Any, factor: Any) -> Any:
    if x.ndim < 3:
        raise InvalidArgumentError(f"AdjustContrastv2: input must be at least 3-D, got shape {list(x.shape)}")
    total = reduced("sum", x, (-3, -2), True) if x.dtype == np.float32 else None
    count = np.float32(x.shape[-3] * x.shape[-2])
    mean = xp.mean(x, (-3, -2), dtype=np.float32, keepdims=True) if total is None else total / count
    if total is None or not norm_loops.takes(x):
        return ((x - mean) * factor + mean).astype(x.dtype)
    images, means = x.reshape(-1, x.shape[-3] * x.shape[-2], x.shape[-1]), mean.reshape(-1, x.shape[-1])
    factors = np.full(x.shape[-1], factor, np.float32)
    return np.stack([norm_loops.normalised(i, m, factors, m) for i, m in zip(images, means)]).reshape(x.shape)
