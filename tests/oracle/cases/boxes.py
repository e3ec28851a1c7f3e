"""Boxes in images: cut out, drawn, chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import i32, s32
from tests.oracle.compare import EXACT, Tolerance

_CLOSE = Tolerance(64, scaled=True)


def _image(dtype: str, *shape: int) -> np.ndarray:
    values = np.random.default_rng(3).random(shape)
    return (values * 100).astype(dtype) if dtype in ("uint8", "int32") else values.astype(dtype)


_BOXES = np.array(
    [[0.1, 0.1, 0.6, 0.7], [0.7, 0.9, 0.2, 0.05], [-0.2, 0.3, 1.3, 0.8], [0.5, 0.5, 0.5, 0.5]], np.float32
)


def _cut(dtype: str) -> Iterator[Any]:
    x, owner = _image(dtype, 2, 6, 7, 3), i32(0, 1, 1, 0)
    options = {"grad": dtype == "float32"}
    for size in (i32(3, 4), i32(1, 1), i32(8, 2)):
        yield f"{size.tolist()}", [x, _BOXES, owner, size], {"extrapolation_value": 0.5}, options
        yield f"nearest{size.tolist()}", [x, _BOXES, owner, size], {"method": "nearest"}
    yield "owner", [x, _BOXES, i32(0, 1, 2, 0), i32(3, 4)]
    yield "owners-few", [x, _BOXES, owner[:3], i32(3, 4)]
    yield "three", [x, _BOXES[:, :3], owner, i32(3, 4)]
    yield "size", [x, _BOXES, owner, i32(3, 0)]
    yield "no-boxes", [x, _BOXES[:0], owner[:0], i32(3, 4)]


def _cut_grad_image(dtype: str) -> Iterator[Any]:
    from sparkflow_runtime.wire.dtypes import as_dtype

    dy = _image("float32", 4, 3, 4, 2)
    loose = {"tolerance": Tolerance(2e8, scaled=True)} if dtype == "float64" else {}
    for method in ("bilinear", "nearest"):
        attrs = {"T": as_dtype(dtype), "method": method}
        yield method, [dy, _BOXES, i32(0, 1, 1, 0), i32(2, 5, 6, 2)], attrs, loose


def _cut_grad_boxes(dtype: str) -> Iterator[Any]:
    yield "some", [_image("float32", 4, 3, 4, 2), _image(dtype, 2, 5, 6, 2), _BOXES, i32(0, 1, 1, 0)]
    yield "single", [_image("float32", 4, 1, 1, 2), _image(dtype, 2, 5, 6, 2), _BOXES, i32(0, 1, 1, 0)]


def _glimpses(dtype: str) -> Iterator[Any]:
    x = _image(dtype, 3, 7, 6, 2)
    for centered in (True, False):
        for normalized in (True, False):
            scale = 1 if normalized else 3
            offsets = np.array([[0.1, 0.2], [-0.6, 0.7], [0.9, -0.9]], np.float32) * scale
            attrs = {"centered": centered, "normalized": normalized, "noise": "zero", "uniform_noise": False}
            yield f"{centered}-{normalized}", [x, i32(3, 4), offsets], attrs
    yield "offsets", [x, i32(3, 4), np.zeros((2, 2), np.float32)], {"noise": "zero", "uniform_noise": False}


def _scored(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    corners = rng.random((count, 2)).astype(np.float32)
    return np.concatenate([corners, corners + rng.random((count, 2), np.float32)], 1), rng.random(count, np.float32)


def _limits(*values: float) -> list[np.ndarray]:
    return [np.array(v, np.float32) for v in values]


def _first(dtype: str) -> Iterator[Any]:
    boxes, scores = _scored(12)
    yield "default", [boxes, scores, s32(5)]
    yield "tight", [boxes, scores, s32(12)], {"iou_threshold": 0.1}


def _second(dtype: str) -> Iterator[Any]:
    boxes, scores = _scored(12)
    yield "tight", [boxes, scores, s32(12), *_limits(0.1)]
    yield "wrong", [boxes, scores, s32(12), *_limits(1.5)]


def _padded(dtype: str) -> Iterator[Any]:
    boxes, scores = _scored(12)
    for pad in (True, False):
        yield f"{pad}", [boxes, scores, s32(9), *_limits(0.2, 0.3)], {"pad_to_max_output_size": pad}


def _soft(dtype: str) -> Iterator[Any]:
    boxes, scores = _scored(12)
    for sigma in (0.0, 0.5):
        for limit in (0.3, 1.0):
            inputs = [boxes, scores, s32(9), *_limits(limit, 0.1, sigma)]
            yield f"{sigma}-{limit}", inputs, {"pad_to_max_output_size": limit > 0.5}


def _overlaps(dtype: str) -> Iterator[Any]:
    table = np.random.default_rng(2).random((8, 8), np.float32)
    scores = _scored(8)[1]
    yield "some", [table, scores, s32(5), *_limits(0.7, 0.1)]
    yield "uneven", [table[:, :7], scores, s32(5), *_limits(0.7, 0.1)]


def _combined(dtype: str) -> Iterator[Any]:
    rng = np.random.default_rng(5)
    corners = rng.random((2, 9, 3, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.random((2, 9, 3, 2)).astype(np.float32)], 3)
    scores = rng.random((2, 9, 3)).astype(np.float32)
    for pad in (True, False):
        for own in (boxes, boxes[:, :, :1]):
            attrs = {"pad_per_class": pad, "clip_boxes": pad}
            yield f"{pad}-{own.shape[2]}", [own, scores, s32(2), s32(9), *_limits(0.2, 0.3)], attrs
    yield "two", [boxes[:, :, :2], scores, s32(2), s32(9), *_limits(0.2, 0.3)]
    yield "none", [boxes, scores, s32(2), s32(0), *_limits(0.2, 0.3)]


def _frames(dtype: str) -> Iterator[Any]:
    boxes = np.array([[[0.1, 0.1, 0.6, 0.7], [0.3, 0.2, 1.2, 0.9]], [[0, 0, 1, 1], [0.1, 0.5, 0.6, 0.9]]], np.float32)
    colours = np.random.default_rng(4).random((1, 3)).astype(np.float32)
    yield "one", [_image(dtype, 2, 12, 10, 3), boxes, colours]
    yield "none", [_image(dtype, 2, 12, 10, 3), boxes, colours[:0]]
    yield "rank", [_image(dtype, 2, 12, 10, 3), boxes[0], colours]


_SCALES = ((False, False), (True, False), (False, True))


def _resized(op: str) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x = _image(dtype, 2, 6, 5, 2)
        for size in (i32(4, 9), i32(6, 5), i32(1, 1), i32(13, 3)):
            for corners, centers in _SCALES:
                attrs = {"align_corners": corners, "half_pixel_centers": centers}
                if op != "ResizeArea":
                    yield f"{size.tolist()}{corners}{centers}", [x, size], attrs, {"grad": dtype == "float32"}
                elif not centers:
                    yield f"{size.tolist()}{corners}", [x, size], {"align_corners": corners}
        yield "none", [x, i32(0, 3)]
        yield "three", [x, i32(2, 2, 2)]
        yield "rank", [x[0], i32(2, 2)]

    return make


def _spread(dtype: str) -> Iterator[Any]:
    for corners, centers in _SCALES:
        attrs = {"align_corners": corners, "half_pixel_centers": centers}
        yield f"{corners}{centers}", [_image("float32", 2, 4, 9, 2), _image(dtype, 2, 6, 5, 2)], attrs


for _op in ("ResizeBicubic", "ResizeArea", "ResizeBilinear"):
    cases(_op, ("float32", "float64", "uint8", "int32"), _resized(_op), _CLOSE)
cases("ResizeNearestNeighbor", ("float32", "float64", "uint8"), _resized("ResizeNearestNeighbor"))
cases("ResizeBicubicGrad", ("float32",), _spread, _CLOSE)
cases("ResizeBilinearGrad", ("float32",), _spread, _CLOSE)
cases("CropAndResize", ("float32", "float64", "uint8", "int32"), _cut, _CLOSE)
cases("CropAndResizeGradImage", ("float32", "float64"), _cut_grad_image, _CLOSE)
cases("CropAndResizeGradBoxes", ("float32", "uint8"), _cut_grad_boxes, Tolerance(256, scaled=True))
cases("ExtractGlimpse", ("float32",), _glimpses)
cases("NonMaxSuppression", ("float32",), _first)
cases("NonMaxSuppressionV2", ("float32",), _second)
cases("NonMaxSuppressionV4", ("float32",), _padded)
cases("NonMaxSuppressionV5", ("float32",), _soft, Tolerance(16))
cases("NonMaxSuppressionWithOverlaps", ("float32",), _overlaps)
cases("CombinedNonMaxSuppression", ("float32",), _combined, EXACT)
cases("DrawBoundingBoxesV2", ("float32",), _frames)
