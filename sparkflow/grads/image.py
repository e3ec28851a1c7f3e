"""Gradients of resizing. The mean over areas (ResizeArea) has none, as in TensorFlow: gradients() says so."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array


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


not_differentiable("HSVToRGB")
not_differentiable("DecodeJpeg", "DecodePng", "DecodeBmp", "DecodeGif", "EncodeJpeg", "EncodePng")
