"""Colours of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _rgb(op: str, x: Any) -> None:
    if not x.ndim or x.shape[-1] != 3:
        raise InvalidArgumentError(f"{op}: the last size must be 3, got shape {list(x.shape)}")


def _to_hsv(xp: Any, x: Any) -> Any:
    r, g, b = (x[..., i] for i in range(3))
    value = xp.max(x, -1)
    span = value - xp.min(x, -1)
    safe = xp.where(span > 0, span, 1)
    hue = xp.where(r == value, (g - b) / safe, xp.where(g == value, (b - r) / safe + 2, (r - g) / safe + 4)) / 6
    hue = xp.where(span > 0, xp.where(hue < 0, hue + 1, hue), 0)
    saturation = xp.where(value > 0, span / xp.where(value > 0, value, 1), 0)
    return xp.stack([hue, saturation, value], -1).astype(x.dtype)


def _to_rgb(xp: Any, x: Any) -> Any:
    """Each colour falls off linearly with the hue's distance from it."""
    hue, saturation, value = (x[..., i] for i in range(3))
    h6 = hue * 6
    parts = [xp.abs(h6 - 3) - 1, 2 - xp.abs(h6 - 2), 2 - xp.abs(h6 - 4)]
    return xp.stack([(1 + saturation * (xp.clip(p, 0, 1) - 1)) * value for p in parts], -1).astype(x.dtype)


@kernel("RGBToHSV")
def _rgb_to_hsv(xp: Any, x: Any) -> Any:
    _rgb("RGBToHSV", x)
    return _to_hsv(xp, x)


@kernel("HSVToRGB")
def _hsv_to_rgb(xp: Any, x: Any) -> Any:
    _rgb("HSVToRGB", x)
    return _to_rgb(xp, x)


@kernel("AdjustHue")
def _hue(xp: Any, x: Any, delta: Any) -> Any:
    _rgb("AdjustHue", x)
    hsv = _to_hsv(xp, x)
    hsv[..., 0] = (hsv[..., 0] + delta) % 1
    return _to_rgb(xp, hsv)


@kernel("AdjustSaturation")
def _saturation(xp: Any, x: Any, scale: Any) -> Any:
    _rgb("AdjustSaturation", x)
    hsv = _to_hsv(xp, x)
    hsv[..., 1] = xp.clip(hsv[..., 1] * scale, 0, 1)
    return _to_rgb(xp, hsv)


@kernel("AdjustContrastv2")
def _contrast(xp: Any, x: Any, factor: Any) -> Any:
    if x.ndim < 3:
        raise InvalidArgumentError(f"AdjustContrastv2: input must be at least 3-D, got shape {list(x.shape)}")
    mean = xp.mean(x, (-3, -2), dtype=np.float32, keepdims=True)
    return ((x - mean) * factor + mean).astype(x.dtype)
