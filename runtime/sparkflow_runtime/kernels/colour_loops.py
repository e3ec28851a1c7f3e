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


def _share(distance: Any) -> Any:
    """A colour falls off linearly with the hue's distance from it."""
    held = distance if distance > _0 else _0
    return held if held < _1 else _1


def _part(distance: Any, saturation: Any, value: Any) -> Any:
    return (_1 + saturation * (_share(distance) - _1)) * value


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


@compiled([f"void({_PIXELS})"], parts=[_share, _part])
def to_rgb(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    for i in range(np.uint64(start), np.uint64(stop)):
        h6, saturation, value = x[i, 0] * _6, x[i, 1], x[i, 2]
        out[i, 0] = _part(np.float32(abs(h6 - _3)) - _1, saturation, value)
        out[i, 1] = _part(_2 - np.float32(abs(h6 - _2)), saturation, value)
        out[i, 2] = _part(_2 - np.float32(abs(h6 - _4)), saturation, value)


@compiled([f"void({_PIXELS})"], parts=[_hue_of, _changed, _share])
def turn(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    """With the hue turned by change[0]: the lowest of a pixel's numbers and the highest stay, below 0 too."""
    for i in range(np.uint64(start), np.uint64(stop)):
        r, g, b = x[i, 0], x[i, 1], x[i, 2]
        hue, _, value = _changed(r, g, b, change[0], _0)
        least = g if g < r else r
        least = b if b < least else least
        span, h6 = value - least, (hue - np.float32(np.floor(hue))) * _6
        out[i, 0] = least + _share(np.float32(abs(h6 - _3)) - _1) * span
        out[i, 1] = least + _share(_2 - np.float32(abs(h6 - _2))) * span
        out[i, 2] = least + _share(_2 - np.float32(abs(h6 - _4))) * span


@compiled([f"void({_PIXELS})"], parts=[_hue_of, _changed, _share, _part])
def saturate(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    """With the saturation times change[1], and back."""
    for i in range(np.uint64(start), np.uint64(stop)):
        hue, saturation, value = _changed(x[i, 0], x[i, 1], x[i, 2], _0, change[1])
        hue = hue - np.float32(np.floor(hue))
        saturation = saturation if saturation > _0 else _0
        saturation = saturation if saturation < _1 else _1
        h6 = hue * _6
        out[i, 0] = _part(np.float32(abs(h6 - _3)) - _1, saturation, value)
        out[i, 1] = _part(_2 - np.float32(abs(h6 - _2)), saturation, value)
        out[i, 2] = _part(_2 - np.float32(abs(h6 - _4)), saturation, value)


# ---------------------------------------------------------------------- of whole arrays, numpy's or cupy's


def _limits(xp: Any, x: Any) -> tuple[Any, Any]:
    """The lowest number of each pixel, and the highest."""
    r, g, b = (x[..., i] for i in range(3))
    value, least = xp.where(g > r, g, r), xp.where(g < r, g, r)
    return xp.where(b < least, b, least), xp.where(b > value, b, value)


def hsv_of(xp: Any, x: Any) -> Any:
    r, g, b = (x[..., i] for i in range(3))
    least, value = _limits(xp, x)
    span = value - least
    safe = xp.where(span > 0, span, x.dtype.type(1))
    hue = xp.where(r == value, (g - b) / safe, xp.where(g == value, (b - r) / safe + 2, (r - g) / safe + 4)) / 6
    hue = xp.where(span > 0, xp.where(hue < 0, hue + 1, hue), x.dtype.type(0))
    saturation = xp.where(value > 0, span / xp.where(value > 0, value, x.dtype.type(1)), x.dtype.type(0))
    return xp.stack([hue, saturation, value], -1)


def _shares(xp: Any, hue: Any) -> list[Any]:
    """Each colour falls off linearly with the hue's distance from it."""
    h6, zero, one = hue * 6, hue.dtype.type(0), hue.dtype.type(1)
    parts = [xp.abs(h6 - 3) - 1, 2 - xp.abs(h6 - 2), 2 - xp.abs(h6 - 4)]
    held = [xp.where(p > 0, p, zero) for p in parts]
    return [xp.where(p < 1, p, one) for p in held]


def rgb_of(xp: Any, x: Any) -> Any:
    hue, saturation, value = (x[..., i] for i in range(3))
    return xp.stack([(1 + saturation * (p - 1)) * value for p in _shares(xp, hue)], -1)


def turned(xp: Any, x: Any, by: Any) -> Any:
    least, value = _limits(xp, x)
    hue = hsv_of(xp, x)[..., 0] + by
    return xp.stack([least + p * (value - least) for p in _shares(xp, hue - xp.floor(hue))], -1)


def saturated(xp: Any, x: Any, scale: Any) -> Any:
    hsv, zero, one = hsv_of(xp, x), x.dtype.type(0), x.dtype.type(1)
    hsv[..., 0] -= xp.floor(hsv[..., 0])
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


@turn.otherwise
def _(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    out[start:stop] = turned(np, x[start:stop], change[0])


@saturate.otherwise
def _(x: Any, out: Any, change: Any, start: Any, stop: Any) -> None:
    out[start:stop] = saturated(np, x[start:stop], change[1])
