"""Images to other sizes."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, rules
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
op("ResizeBilinearGrad", "grads: float32, original_image: T -> output: T", _like_original, **_ATTRS)
op("ResizeNearestNeighborGrad", "grads: T, size: int32 -> output: T", _resize_rule, **_ATTRS)


class ResizeMethod:
    """How `resize_images` finds a new cell: from the four around it, or the one nearest to it."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1


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


def _resize(op_type: str, images: Any, size: Any, corners: bool, centers: bool, name: str | None) -> Tensor:
    if corners and centers:
        raise ValueError(f"{op_type}: align_corners and half_pixel_centers exclude each other")
    return apply_op(op_type, [images, size], {"align_corners": corners, "half_pixel_centers": centers}, name)


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """One image [height, width, channels] or a batch of them to `size` (height, width).

    method: of ResizeMethod, or its name in lower case. Images that have that size already are returned as they are.
    Raises ValueError on another rank, and where preserve_aspect_ratio is asked for, which is not supported.
    """
    kind = {"bilinear": 0, "nearest": 1}.get(method, method)
    if kind not in (0, 1) or preserve_aspect_ratio:
        raise ValueError(
            "resize_images: method must be ResizeMethod.BILINEAR or NEAREST_NEIGHBOR, without preserve_aspect_ratio; "
            f"got {method!r}, {preserve_aspect_ratio}"
        )
    with get_default_graph().name_scope(name or "resize"):
        images, size = convert_to_tensor(images, name="images"), convert_to_tensor(size, "int32", "size")
        rank = rules.rank_of(images)
        if rank not in (3, 4):
            raise ValueError(f"resize_images: images must be of rank 3 or 4, got shape {shapes.show(images._shape)}")
        batch = images if rank == 4 else array.expand_dims(images, 0)
        known = constant_value_as_shape(size)
        if shapes.fully_known(known) and batch._shape is not None and batch._shape[1:3] == known:
            return images
        resize = (resize_bilinear, resize_nearest_neighbor)[kind]
        out = resize(batch, size, align_corners)
        return out if rank == 4 else array.squeeze(out, [0])


resize = resize_images
