"""Images to other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, math, math_reduce, rules
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _resize_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, op.spec.inputs[0].name, op.inputs[0], 4) or (None,) * 4
    size = constant_value_as_shape(op.inputs[1]) or (None, None)
    if len(size) != 2 or any(s is not None and s < 1 for s in size):
        raise InvalidArgumentError(f"{op.type}: size must be two numbers above 0, got {shapes.show(size)}")
    return [(dims[0], *size, dims[3])]


def _like_original(op: Operation) -> list[Dims]:
    return [rules.require_rank(op, "original_image", op.inputs[1], 4)]


_ATTRS: dict[str, Any] = {"align_corners": False, "half_pixel_centers": False}
op("ResizeBilinear", "images: T, size: int32 -> resized_images: float32", _resize_rule, **_ATTRS)
op("ResizeNearestNeighbor", "images: T, size: int32 -> resized_images: T", _resize_rule, **_ATTRS)
op("ResizeBicubic", "images: T, size: int32 -> resized_images: float32", _resize_rule, **_ATTRS)
op("ResizeArea", "images: T, size: int32 -> resized_images: float32", _resize_rule, align_corners=False)
op("ResizeBicubicGrad", "grads: float32, original_image: T -> output: T", _like_original, **_ATTRS)
op("ResizeBilinearGrad", "grads: float32, original_image: T -> output: T", _like_original, **_ATTRS)
op("ResizeNearestNeighborGrad", "grads: T, size: int32 -> output: T", _resize_rule, **_ATTRS)


class ResizeMethod:
    """How `resize_images` finds a new cell: from the four around it, the one nearest to it, the sixteen around it, or
    as the mean of those it covers."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """images [batch, height, width, channels] to [batch, *size, channels], float32, each cell from the four around it.

    align_corners: the outer cells keep their places. half_pixel_centers: cells are taken at their centres.
    """
    return _resize("ResizeBilinear", images, size, align_corners, half_pixel_centers, name)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """images [batch, height, width, channels] to [batch, *size, channels], of their type, each cell the nearest one."""
    return _resize("ResizeNearestNeighbor", images, size, align_corners, half_pixel_centers, name)


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """As resize_bilinear, by a cubic through the sixteen cells around each place."""
    return _resize("ResizeBicubic", images, size, align_corners, half_pixel_centers, name)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """As resize_bilinear, each cell the mean of those it covers. It has no gradient."""
    return apply_op("ResizeArea", [images, size], {"align_corners": align_corners}, name)


def _resize(op_type: str, images: Any, size: Any, corners: bool, centers: bool, name: str | None) -> Tensor:
    if corners and centers:
        raise ValueError(f"{op_type}: align_corners and half_pixel_centers exclude each other")
    return apply_op(op_type, [images, size], {"align_corners": corners, "half_pixel_centers": centers}, name)


_METHODS: tuple[tuple[str, Callable[..., Tensor]], ...] = (
    ("bilinear", resize_bilinear),
    ("nearest", resize_nearest_neighbor),
    ("bicubic", resize_bicubic),
    ("area", resize_area),
)


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """One image [height, width, channels] or a batch of them to `size` (height, width).

    method: of ResizeMethod, or its name in lower case. preserve_aspect_ratio: the largest size of the image's own
    shape that fits into `size`. Images that have that size already are returned as they are. Raises ValueError on
    another rank or method.
    """
    found = [resize for i, (label, resize) in enumerate(_METHODS) if method in (i, label)]
    if not found:
        raise ValueError(f"Resize method is not implemented: {method!r}; use one of tf.image.ResizeMethod")
    with get_default_graph().name_scope(name or "resize"):
        images, size = convert_to_tensor(images, name="images"), convert_to_tensor(size, "int32", "size")
        rank = rules.rank_of(images)
        if rank not in (3, 4):
            raise ValueError(f"resize_images: images must be of rank 3 or 4, got shape {shapes.show(images._shape)}")
        if size._shape is not None and size._shape != (2,):
            raise ValueError(f"'size' must be a 1-D Tensor of 2 elements: new_height, new_width; got {size}")
        batch = images if rank == 4 else array.expand_dims(images, 0)
        size = _in_proportion(batch, size) if preserve_aspect_ratio else size
        known = constant_value_as_shape(size)
        if shapes.fully_known(known) and batch._shape is not None and batch._shape[1:3] == known:
            return images
        out = found[0](batch, size, align_corners)
        return out if rank == 4 else array.squeeze(out, [0])


def _in_proportion(batch: Tensor, size: Tensor) -> Tensor:
    """The image's own sizes times the smaller of the two factors."""
    known, own = constant_value_as_shape(size), (batch._shape or ())[1:3]
    if shapes.fully_known(known) and shapes.fully_known(own) and known and own:
        factor = min(n / o for n, o in zip(known, own, strict=True))  # type: ignore[operator]
        return convert_to_tensor([int(np.rint(factor * o)) for o in own], "int32")  # type: ignore[operator]
    current = math.cast(array.shape(batch)[1:3], "float32")
    factors = math.divide(math.cast(size, "float32"), current)
    return math.cast(math.round(math.multiply(math_reduce.reduce_min(factors), current)), "int32")


def resize_image_with_pad(
    image: Any, target_height: Any, target_width: Any, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False
) -> Tensor:
    """image [height, width, channels], or a batch, resized in its own proportions and filled with zeros around it to
    [target_height, target_width]."""
    with get_default_graph().name_scope("resize_image_with_pad"):
        image = convert_to_tensor(image, name="images")
        rank = rules.rank_of(image)
        if rank not in (3, 4):
            raise ValueError(f"'image' must have either 3 or 4 dimensions, got shape {shapes.show(image._shape)}")
        batch = image if rank == 4 else array.expand_dims(image, 0)
        target = math.cast(convert_to_tensor([target_height, target_width], "int32"), "float32")
        own = math.cast(array.shape(batch)[1:3], "float32")
        inner = math.divide(own, math_reduce.reduce_max(math.divide(own, target)))
        before = math.cast(math.maximum(math.floor(math.divide(math.subtract(target, inner), 2.0)), 0.0), "int32")
        resized = resize_images(batch, math.cast(math.floor(inner), "int32"), method, align_corners)
        after = math.subtract(math.subtract(math.cast(target, "int32"), before), array.shape(resized)[1:3])
        pads = array.pad(apply_op("Pack", [[before, after]], {"axis": 1}), [[1, 1], [0, 0]])
        padded = array.pad(resized, pads)
        known = constant_value_as_shape(convert_to_tensor([target_height, target_width], "int32"))
        padded.set_shape((*(batch._shape or (None,))[:1], *(known or (None, None)), (batch._shape or (None,))[-1]))
        return padded if rank == 4 else array.squeeze(padded, [0])


resize = resize_images
