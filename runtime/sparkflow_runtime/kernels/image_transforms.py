"""Projective transforms of images: each cell of the output takes what is at its place in the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

_MODES, _BETWEEN = ("CONSTANT", "NEAREST", "REFLECT", "WRAP"), ("NEAREST", "BILINEAR")


@kernel("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _transform(
    xp: Any, images: Any, transforms: Any, output_shape: Any, fill_value: Any = 0.0, *, interpolation: Any,
    fill_mode: Any = "CONSTANT",
) -> Any:  # fmt: skip
    between, mode = _word(interpolation, _BETWEEN), _word(fill_mode, _MODES)
    batch, height, width, channels = images.shape
    if transforms.ndim != 2 or transforms.shape[1] != 8 or transforms.shape[0] not in (1, batch):
        raise InvalidArgumentError(
            f"ImageProjectiveTransform: transforms must be [{batch}, 8] or [1, 8], got {list(transforms.shape)}"
        )
    rows, columns = ints(output_shape)
    if rows <= 0 or columns <= 0:
        raise InvalidArgumentError(f"ImageProjectiveTransform: output_shape must be positive, got {rows, columns}")
    fill = xp.asarray(fill_value, np.float32)
    out = xp.empty((batch, rows, columns, channels), images.dtype)
    for i in range(batch):
        x, y, sound = _places(xp, transforms[min(i, len(transforms) - 1)], rows, columns)
        y, x = (_mapped(xp, at, size, mode) for at, size in ((y, height), (x, width)))
        with np.errstate(invalid="ignore"):
            found = _read(xp, images[i], y, x, fill, between)
            out[i] = xp.where(sound[:, :, None], found, fill).astype(images.dtype)
    return out


def _word(given: Any, allowed: tuple[str, ...]) -> str:
    word = str(given.decode() if isinstance(given, bytes) else given).upper()
    if word not in allowed:
        raise InvalidArgumentError(f"ImageProjectiveTransform: {word!r} is none of {', '.join(allowed)}")
    return word


def _places(xp: Any, t: Any, rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Where the output's cells lie in the input, and which of them do somewhere."""
    x, y = xp.arange(columns, dtype=np.float32)[None], xp.arange(rows, dtype=np.float32)[:, None]
    scale = t[6] * x + t[7] * y + np.float32(1)
    sound = scale != 0
    scale = xp.where(sound, scale, np.float32(1))
    return (t[0] * x + t[1] * y + t[2]) / scale, (t[3] * x + t[4] * y + t[5]) / scale, sound


def _mapped(xp: Any, at: Any, size: int, mode: str) -> Any:
    """A place outside as one inside: the next, as in a mirror, or as in a row of such images."""
    if mode == "CONSTANT":
        return at
    if size > 1 and mode == "REFLECT":
        at = xp.fmod(at, np.float32(2 * size))  # an image and its mirror's, again and again
        at = xp.where(at < -size, at + 2 * size, xp.where(at < 0, -at - 1, at))
        at = xp.where(at >= size, 2 * size - at - 1, at)
    elif size > 1 and mode == "WRAP":
        turn = np.float32(size - 1)
        below = at + size * (xp.trunc(-at / turn) + 1)
        above = at - size * xp.trunc(at / turn)
        at = xp.where(at < 0, below, xp.where(at > size - 1, above, at))
    return xp.clip(at, np.float32(0), np.float32(size - 1)).astype(np.float32)


def _read(xp: Any, image: Any, y: Any, x: Any, fill: Any, between: str) -> Any:
    if between == "NEAREST":
        return _cells(xp, image, _rounded(xp, y), _rounded(xp, x), fill)
    image, top, left = image.astype(np.float32, copy=False), xp.floor(y), xp.floor(x)
    down, right = (y - top)[:, :, None], (x - left)[:, :, None]
    up, before = (top + 1 - y)[:, :, None], (left + 1 - x)[:, :, None]
    above = before * _cells(xp, image, top, left, fill) + right * _cells(xp, image, top, left + 1, fill)
    below = before * _cells(xp, image, top + 1, left, fill) + right * _cells(xp, image, top + 1, left + 1, fill)
    return up * above + down * below


def _rounded(xp: Any, at: Any) -> Any:
    """Halves go away from 0."""
    return xp.copysign(xp.floor(xp.abs(at) + np.float32(0.5)), at)


def _cells(xp: Any, image: Any, y: Any, x: Any, fill: Any) -> Any:
    """image[y, x], and fill where that is outside."""
    height, width = image.shape[:2]
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows, columns = (xp.where(inside, at, 0).astype(np.int64) for at in (y, x))
    found = image[rows, columns]
    return xp.where(inside[:, :, None], found, fill.astype(found.dtype))
