"""Colours of images, pixel by pixel: between red, green, blue and hue, saturation, value.

Every step is arithmetic in single precision and a choice between two numbers, so that a loop and whole arrays give the
same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

F = np.float32
_0, _1, _2, _3, _4, _6 = F(0), F(1), F(2), F(3), F(4), F(6)
_PIXELS = "Array(float32, 2, 'C', readonly=True), float32[:,::1], Array(float32, 1, 'C', readonly=True), int64, int64"


def _hue_of(r: Any, g: Any, b: Any, value: Any, span: Any) -> Any:
    safe = span if span > _0 else _1
    green, blue = (b - r) / safe + _2, (r - g) / safe + _4
    hue = green if g == value else blue
    hue = ((g - b) / safe if r == value else hue) / _6
    hue = hue + _1 if hue < _0 else hue
    return hue if span > _0 else _0


def _part(distance: Any, saturation: Any, value: Any) -> Any:
    """A colour falls off linearly with the hue's distance from it."""
    held = distance if distance > _0 else _0
    held = held if held < _1 else _1
    return (_1 + saturation * (held - _1)) * value


def _changed(r: Any, g: Any, b: Any, turned: Any, scale: Any) -> Any:
    """(hue, saturation, value), with the hue turned and the saturation scaled where a scale is above or at 0."""
    value = g if g > r else r
    value = b if b > value else value
    least = g if g < r else r
    least = b if b < least else least
    span = value - least
    hue = _hue_of(r, g, b, value, span) + turned
    saturation = span / (value if value > _0 else _1)
    saturation = saturation if value > _0 else _0
    return hue, saturation * scale, value


@compiled([f"void({_PIXELS})"], parts=[_hue_of, _changed])
def to_hsv(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    turned, scale = change[0], change[1]
    for i in range(np.uint64(start), np.uint64(stop)):
        hue, saturation, value = _changed(x[i, 0], x[i, 1], x[i, 2], turned, scale)
        out[i, 0], out[i, 1], out[i, 2] = hue, saturation, value


@compiled([f"void({_PIXELS})"], parts=[_part])
def to_rgb(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    for i in range(np.uint64(start), np.uint64(stop)):
        h6, saturation, value = x[i, 0] * _6, x[i, 1], x[i, 2]
        out[i, 0] = _part(np.float32(abs(h6 - _3)) - _1, saturation, value)
        out[i, 1] = _part(_2 - np.float32(abs(h6 - _2)), saturation, value)
        out[i, 2] = _part(_2 - np.float32(abs(h6 - _4)), saturation, value)


@compiled([f"void({_PIXELS})"], parts=[_hue_of, _changed, _part])
def adjust(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    """With the hue turned by change[0] and the saturation times change[1], and back."""
    turned, scale = change[0], change[1]
    for i in range(np.uint64(start), np.uint64(stop)):
        hue, saturation, value = _changed(x[i, 0], x[i, 1], x[i, 2], turned, scale)
        hue = hue - np.float32(np.floor(hue))
        saturation = saturation if saturation > _0 else _0
        saturation = saturation if saturation < _1 else _1
        h6 = hue * _6
        out[i, 0] = _part(np.float32(abs(h6 - _3)) - _1, saturation, value)
        out[i, 1] = _part(_2 - np.float32(abs(h6 - _2)), saturation, value)
        out[i, 2] = _part(_2 - np.float32(abs(h6 - _4)), saturation, value)


# ---------------------------------------------------------------------- of whole arrays, numpy's or cupy's


def hsv_of(xp: Any, x: Any) -> Any:
    r, g, b = (x[..., i] for i in range(3))
    value = xp.where(g > r, g, r)
    value = xp.where(b > value, b, value)
    least = xp.where(g < r, g, r)
    least = xp.where(b < least, b, least)
    span = value - least
    safe = xp.where(span > 0, span, x.dtype.type(1))
    hue = xp.where(r == value, (g - b) / safe, xp.where(g == value, (b - r) / safe + 2, (r - g) / safe + 4)) / 6
    hue = xp.where(span > 0, xp.where(hue < 0, hue + 1, hue), x.dtype.type(0))
    saturation = xp.where(value > 0, span / xp.where(value > 0, value, x.dtype.type(1)), x.dtype.type(0))
    return xp.stack([hue, saturation, value], -1)


def rgb_of(xp: Any, x: Any) -> Any:
    """Each colour falls off linearly with the hue's distance from it."""
    hue, saturation, value = (x[..., i] for i in range(3))
    h6, zero, one = hue * 6, x.dtype.type(0), x.dtype.type(1)
    parts = [xp.abs(h6 - 3) - 1, 2 - xp.abs(h6 - 2), 2 - xp.abs(h6 - 4)]
    held = [xp.where(p > 0, p, zero) for p in parts]
    held = [xp.where(p < 1, p, one) for p in held]
    return xp.stack([(1 + saturation * (p - 1)) * value for p in held], -1)


def adjusted(xp: Any, x: Any, turned: Any, scale: Any) -> Any:
    hsv, zero, one = hsv_of(xp, x), x.dtype.type(0), x.dtype.type(1)
    hue = hsv[..., 0] + turned
    hsv[..., 0] = hue - xp.floor(hue)
    saturation = hsv[..., 1] * scale
    saturation = xp.where(saturation > 0, saturation, zero)
    hsv[..., 1] = xp.where(saturation < 1, saturation, one)
    return rgb_of(xp, hsv)


@to_hsv.otherwise
def _(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    found = hsv_of(np, x[start:stop])
    found[:, 0] += change[0]
    found[:, 1] *= change[1]
    out[start:stop] = found


@to_rgb.otherwise
def _(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    out[start:stop] = rgb_of(np, x[start:stop])


@adjust.otherwise
def _(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    out[start:stop] = adjusted(np, x[start:stop], change[0], change[1])
