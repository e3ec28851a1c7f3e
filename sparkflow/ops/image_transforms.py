"""Images as if seen from elsewhere: projective transforms, and those that turn and move.

A transform is eight numbers (a0, a1, a2, b0, b1, b2, c0, c1): what is at (x, y) of the output is taken from
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) of the input, k = c0 x + c1 y + 1.
"""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, array_slice, math, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _rule(op: Operation) -> list[Dims]:
    images = rules.require_rank(op, "images", op.inputs[0], 4) or (None,) * 4
    rules.require_rank(op, "transforms", op.inputs[1], 2)
    size = constant_value_as_shape(op.inputs[2]) or (None, None)
    if len(size) != 2:
        raise InvalidArgumentError(f"{op.type}: output_shape must be (height, width), got {size}")
    return [(images[0], *size, images[3])]


_TAKES = "images: dtype, transforms: float32, output_shape: int32"
op("ImageProjectiveTransformV2", f"{_TAKES} -> transformed_images: dtype", _rule, fill_mode="CONSTANT")
op("ImageProjectiveTransformV3", f"{_TAKES}, fill_value: float32 -> transformed_images: dtype", _rule,
   fill_mode="CONSTANT")  # fmt: skip


def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: str | None = None
) -> Tensor:
    """images: [n, height, width, channels], [height, width, channels] or [height, width]; transforms: [8], or [n, 8]
    for one of each. What is outside is 0. interpolation: "NEAREST" or "BILINEAR". output_shape: (height, width), the
    images' by default. Raises TypeError on images of another rank, or of a rank that is not known."""
    with get_default_graph().name_scope(name or "transform"):
        images = convert_to_tensor(images, name="images")
        four, put_back = _as_batch(images)
        flat = convert_to_tensor(transforms, dtypes.float32, "transforms")
        if rules.rank_of(flat) not in (1, 2):
            raise TypeError(f"Transforms should have rank 1 or 2, but got rank {rules.rank_of(flat)}")
        flat = array.expand_dims(flat, 0) if rules.rank_of(flat) == 1 else flat
        size = array.shape(four)[1:3] if output_shape is None else output_shape
        known = four._shape[1:3] if output_shape is None and four._shape is not None else (None, None)
        if None not in known:
            size = list(known)
        inputs = [four, flat, convert_to_tensor(size, dtypes.int32, "output_shape")]
        return put_back(apply_op("ImageProjectiveTransformV2", inputs, {"interpolation": interpolation}))


def _as_batch(images: Tensor) -> tuple[Tensor, Any]:
    match rules.rank_of(images):
        case 2:
            return images[None, :, :, None], lambda found: found[0, :, :, 0]
        case 3:
            return images[None], lambda found: found[0]
        case 4:
            return images, lambda found: found
    raise TypeError(f"Images should have rank between 2 and 4, and statically known, got {images}")


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Turned counterclockwise about the middle by so many radians: a number, or one for each image."""
    with get_default_graph().name_scope(name or "rotate"):
        images = convert_to_tensor(images, name="images")
        four, _ = _as_batch(images)
        height, width = (math.cast(array.shape(four)[i], dtypes.float32) for i in (1, 2))
        return transform(images, angles_to_projective_transforms(angles, height, width), interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Moved by (dx, dy): two numbers, or [n, 2]."""
    with get_default_graph().name_scope(name or "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Tensor:  # fmt: skip
    """[n, 8]: the transforms that turn images counterclockwise about their middle."""
    with get_default_graph().name_scope(name or "angles_to_projective_transforms"):
        angles = array.reshape(_one_each(angles, 0, "angles"), [-1])
        right, bottom = (math.cast(size, dtypes.float32) - 1.0 for size in (image_width, image_height))
        cos, sin, zero = math.cos(angles), math.sin(angles), array.zeros_like(angles)
        x = (right - (cos * right - sin * bottom)) / 2.0
        y = (bottom - (sin * right + cos * bottom)) / 2.0
        return array_join.stack([cos, -sin, x, sin, cos, y, zero, zero], axis=1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """[n, 8]: the transforms that move images by (dx, dy)."""
    with get_default_graph().name_scope(name or "translations_to_projective_transforms"):
        moves = array.reshape(_one_each(translations, 1, "translations"), [-1, 2])
        x, y = -moves[:, 0], -moves[:, 1]
        zero, one = array.zeros_like(x), array.ones_like(x)
        return array_join.stack([one, zero, x, zero, one, y, zero, zero], axis=1)


def _one_each(values: Any, rank: int, name: str) -> Tensor:
    tensor = convert_to_tensor(values, dtypes.float32, name)
    if rules.rank_of(tensor) not in (rank, rank + 1):
        raise TypeError(f"{name} should have rank {rank} or {rank + 1}, got {tensor}")
    return tensor


def compose_transforms(*transforms: Any, name: str | None = None) -> Tensor:
    """One transform that does what all do, the first of them first."""
    if not transforms:
        raise ValueError("compose_transforms: there is no transform")
    with get_default_graph().name_scope(name or "compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for following in transforms[1:]:
            composed = math.matmul(composed, flat_transforms_to_matrices(following))
        return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any, name: str | None = None) -> Tensor:
    """[n, 3, 3] of [n, 8] or [8]: the last number is 1."""
    with get_default_graph().name_scope(name or "flat_transforms_to_matrices"):
        flat = array.reshape(convert_to_tensor(transforms, name="transforms"), [-1, 8])
        return array.reshape(array_join.concat([flat, array.ones_like(flat[:, :1])], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any, name: str | None = None) -> Tensor:
    """[n, 8] of [n, 3, 3], so scaled that the last number is 1."""
    with get_default_graph().name_scope(name or "matrices_to_flat_transforms"):
        flat = array.reshape(convert_to_tensor(transform_matrices, name="matrices"), [-1, 9])
        return (flat / array_slice.slice_(flat, [0, 8], [-1, 1]))[:, :8]
