"""Gradients of cutting boxes out of images. Source: the derivative of bilinear interpolation by its place."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array


@gradient("CropAndResize")
def _cut(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    image, boxes, owner, _ = op.inputs
    kind = image.dtype.base_dtype

    def by_image() -> Tensor:
        attrs = {"method": op.attrs["method"], "T": kind}
        return apply_op("CropAndResizeGradImage", [dy, boxes, owner, array.shape(image)], attrs)

    return (
        by_image if kind.is_floating else None,
        lambda: apply_op("CropAndResizeGradBoxes", [dy, image, boxes, owner]),
        None,
        None,
    )


not_differentiable(
    *(f"NonMaxSuppression{version}" for version in ("", "V2", "V3", "V4", "V5", "WithOverlaps")),
    "CombinedNonMaxSuppression",
    *("DrawBoundingBoxes", "DrawBoundingBoxesV2", "SampleDistortedBoundingBoxV2", "ExtractGlimpse"),
)
