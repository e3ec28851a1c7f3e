"""Colours of images, boxes in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.random import generator
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
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


# ---------------------------------------------------------------------- boxes


@kernel("NonMaxSuppressionV3")
def _suppress(xp: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
    corners, ranks = host(boxes).astype(np.float32), host(scores)
    if corners.ndim != 2 or corners.shape[1:] != (4,) or ranks.shape != corners.shape[:1]:
        raise InvalidArgumentError(
            f"boxes must be [n, 4] and scores [n], got {list(boxes.shape)}, {list(scores.shape)}"
        )
    if not 0 <= float(overlap) <= 1:
        raise InvalidArgumentError(f"iou_threshold must be in [0, 1], got {float(overlap)}")
    low, high = np.minimum(corners[:, :2], corners[:, 2:]), np.maximum(corners[:, :2], corners[:, 2:])
    area = (high - low).prod(1)
    kept: list[int] = []
    for i in np.argsort(-ranks, kind="stable"):
        if len(kept) >= one_int(most) or not ranks[i] > least:
            break
        inner = np.maximum(np.minimum(high[i], high[kept]) - np.maximum(low[i], low[kept]), 0).prod(1)
        union = area[i] + area[kept] - inner
        shared = np.where((area[i] > 0) & (area[kept] > 0), inner / np.where(union > 0, union, 1), 0)
        if not (shared > float(overlap)).any():
            kept.append(int(i))
    return xp.asarray(kept, xp.int32)


_COLOURS = np.array(
    [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
     [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.float32,
)  # fmt: skip


@kernel("DrawBoundingBoxes")
def _draw(xp: Any, images: Any, boxes: Any) -> Any:
    if images.ndim != 4 or boxes.ndim != 3 or boxes.shape[2] != 4 or len(boxes) != len(images):
        raise InvalidArgumentError(
            f"images must be [n, h, w, depth] and boxes [n, k, 4], got {images.shape}, {boxes.shape}"
        )
    out = images.copy()
    height, width, depth = images.shape[1:]
    for n, own in enumerate(host(boxes)):
        for k, box in enumerate(own):
            colour = np.ones(1, np.float32) if depth == 1 else _COLOURS[k % len(_COLOURS)][:depth]
            y1, x1, y2, x2 = (int(v) for v in box * np.array([height - 1, width - 1] * 2, np.float32))
            if y1 > y2 or x1 > x2 or y1 >= height or y2 < 0 or x1 >= width or x2 < 0:
                continue
            rows, columns = slice(max(y1, 0), min(y2, height - 1) + 1), slice(max(x1, 0), min(x2, width - 1) + 1)
            for y in (y1, y2):
                if 0 <= y < height:
                    out[n, y, columns] = xp.asarray(colour)
            for x in (x1, x2):
                if 0 <= x < width:
                    out[n, rows, x] = xp.asarray(colour)
    return out


@bound("SampleDistortedBoundingBoxV2", multi=True)
def _sample(node: Node) -> Function:
    rng = generator(node)
    ratios, areas = node.attrs["aspect_ratio_range"], node.attrs["area_range"]

    def tried(height: int, width: int, boxes: np.ndarray, covered: float) -> tuple[int, int, int, int] | None:
        ratio, share = rng.uniform(*ratios), rng.uniform(*areas)
        h = round((share * height * width / ratio) ** 0.5)
        w = round(h * ratio)
        if not (0 < h <= height and 0 < w <= width):
            return None
        y, x = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
        for y1, x1, y2, x2 in boxes * np.array([height, width, height, width]):
            inner = max(0, min(y + h, y2) - max(y, y1)) * max(0, min(x + w, x2) - max(x, x1))
            if inner >= covered * (y2 - y1) * (x2 - x1) and inner > 0:
                return y, x, h, w
        return None

    def run(image_size: Any, bounding_boxes: Any, covered: Any) -> Any:
        height, width, _ = ints(image_size)
        boxes = host(bounding_boxes).reshape(-1, 4).astype(np.float64)
        if not len(boxes):
            if not node.attr("use_image_if_no_bounding_boxes"):
                raise InvalidArgumentError(
                    node, None, "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes"
                )
            boxes = np.array([[0.0, 0.0, 1.0, 1.0]])
        found = None
        for _ in range(node.attrs["max_attempts"]):
            found = tried(height, width, boxes, float(covered))
            if found:
                break
        y, x, h, w = found or (0, 0, height, width)
        xp, kind = node.xp, image_size.dtype
        box = [[[y / height, x / width, (y + h) / height, (x + w) / width]]]
        return xp.asarray([y, x, 0], kind), xp.asarray([h, w, -1], kind), xp.asarray(box, xp.float32)

    return run
