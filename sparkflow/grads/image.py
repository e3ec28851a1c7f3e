"""Gradients of resizing. The mean over areas (ResizeArea) has none, as in TensorFlow: gradients() says so."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, math, math_reduce, operators  # noqa: F401 - x + y
from sparkflow.ops.array_blocks import roll
from sparkflow.ops.array_join import stack


def _scaling(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}


@gradient("ResizeBilinear", "ResizeBicubic")
def _interpolated(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    images = op.inputs[0]
    return (apply_op(f"{op.type}Grad", [dy, images], _scaling(op)) if images.dtype.is_floating else None), None


@gradient("ResizeNearestNeighbor")
def _nearest(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    size = array.shape(op.inputs[0])[1:3]
    return apply_op("ResizeNearestNeighborGrad", [dy, size], _scaling(op)), None


@gradient("ResizeNearestNeighborGrad")
def _nearest_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    """Linear in dy; its transpose resizes d."""
    size = array.shape(op.inputs[0])[1:3]
    return apply_op("ResizeNearestNeighbor", [d, size], _scaling(op)), None


@gradient("ResizeBilinearGrad", "ResizeBicubicGrad")
def _interpolated_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    size = array.shape(op.inputs[0])[1:3]
    return apply_op(op.type.removesuffix("Grad"), [d, size], _scaling(op)), None


@gradient("RGBToHSV")
def _rgb_to_hsv(op: Operation, dy: Tensor) -> Tensor:
    """With the largest channel c, d what it is above the smallest, and a, b the channels after c: h = (a - b) / 6d and
    a constant, s = d / c, v = c. Ties go as in TensorFlow; where a quotient has no value it is 0."""
    rgb, kind = op.inputs[0], op.inputs[0].dtype
    red, green, blue = (rgb[..., i] for i in range(3))

    def of_channels(*conditions: Tensor) -> Tensor:
        return math.cast(stack(conditions, -1), kind)

    largest = of_channels(
        (red >= blue) & (red >= green), (green > red) & (green >= blue), (blue > red) & (blue > green)
    )
    smallest = of_channels(
        (red < blue) & (red < green), (green <= red) & (green < blue), (blue <= red) & (blue <= green)
    )
    value = math_reduce.reduce_sum(largest * rgb, -1, keepdims=True)
    least = math_reduce.reduce_sum(smallest * rgb, -1, keepdims=True)
    above, (after, before) = value - least, (roll(rgb, by, -1) for by in (-1, 1))
    apart = math_reduce.reduce_sum(largest * (after - before), -1, keepdims=True)
    turns = (roll(largest, 1, -1) - roll(largest, -1, -1)) * above + (smallest - largest) * apart
    hue = math.cast(value > 0, kind) * math.div_no_nan(turns, 6 * above * above)
    saturation = largest * math.div_no_nan(least, value * value) - math.div_no_nan(smallest, value)
    saturation = math.cast(rgb > 0, kind) * saturation
    return dy[..., 2:] * largest + dy[..., 1:2] * saturation + dy[..., :1] * hue


not_differentiable("HSVToRGB")
not_differentiable("DecodeJpeg", "DecodeAndCropJpeg", "ExtractJpegShape", "DecodePng", "DecodeBmp", "DecodeGif")
not_differentiable("EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng")
