"""Gradients of projective transforms: each place of the image is given what the inverse transform finds there, as in
TensorFlow."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array
from sparkflow.ops.image_transforms import flat_transforms_to_matrices, matrices_to_flat_transforms
from sparkflow.ops.linalg import matrix_inverse


def _seen_back(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    images, transforms = op.inputs[:2]
    if not images.dtype.base_dtype.is_floating:
        raise TypeError(f"{op.name}: images of {images.dtype.name} have no gradient; cast them to float32 before")
    back = matrices_to_flat_transforms(matrix_inverse(flat_transforms_to_matrices(transforms)))
    attrs = {name: op.attrs[name] for name in ("interpolation", "fill_mode")}
    size = array.shape(images)[1:3]
    rest = [0.0] if op.type.endswith("V3") else []
    return apply_op(op.type, [dy, back, size, *rest], attrs), *[None] * (len(op.inputs) - 1)


gradient("ImageProjectiveTransformV2")(_seen_back)
gradient("ImageProjectiveTransformV3")(_seen_back)
