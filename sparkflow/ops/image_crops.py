"""Parts of images, and images with borders, of sizes that may be known only when they run."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_slice, math, random, rules
from sparkflow_runtime.wire import dtypes


def _sides(image: Tensor) -> tuple[Any, Any]:
    """(height, width), each a number where it is known and a tensor where it is not."""
    dims, first = image._shape, 1 if rules.rank_of(image) == 4 else 0
    height, width = (None, None) if dims is None else dims[-3:-1]
    return (
        array.shape(image)[first] if height is None else height,
        array.shape(image)[first + 1] if width is None else width,
    )


def _all_numbers(*values: Any) -> bool:
    return all(isinstance(v, int) for v in values)


def _sized(out: Tensor, image: Tensor, *sides: Any) -> Tensor:
    """`out`, said to be of those sides where they are numbers, and else as the image is."""
    if image._shape is not None:
        out.set_shape([*image._shape[:-3], *(v if isinstance(v, int) else None for v in sides), image._shape[-1]])
    return out


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if _all_numbers(a, b) else math.minimum(a, b)


def _half_over(a: Any, b: Any) -> Any:
    """Half of what a is above b, rounded down; 0 where it is not."""
    return max(0, (a - b) // 2) if _all_numbers(a, b) else math.maximum(0, math.floordiv(math.subtract(a, b), 2))


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """The part of that height and width that begins at the offsets."""
    with get_default_graph().name_scope("crop_to_bounding_box"):
        image = convert_to_tensor(image, name="image")
        four = rules.rank_of(image) == 4
        begin, size = [offset_height, offset_width, 0], [target_height, target_width, -1]
        out = array_slice.slice_(image, [0, *begin] if four else begin, [-1, *size] if four else size)
        return _sized(out, image, target_height, target_width)


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Zeros of that height and width with the image at the offsets."""
    with get_default_graph().name_scope("pad_to_bounding_box"):
        image = convert_to_tensor(image, name="image")
        height, width = _sides(image)
        pads = [[offset_height, target_height - offset_height - height],
                [offset_width, target_width - offset_width - width], [0, 0]]  # fmt: skip
        out = array.pad(image, [[0, 0], *pads] if rules.rank_of(image) == 4 else pads)
        return _sized(out, image, target_height, target_width)


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Cut at the edges, or filled with zeros there, evenly, to that size. Sizes may be tensors, or not known yet."""
    for name, size in (("target_height", target_height), ("target_width", target_width)):
        if isinstance(size, int) and size <= 0:
            raise ValueError(f"{name} must be > 0, got {size}")
    with get_default_graph().name_scope("resize_image_with_crop_or_pad"):
        image = convert_to_tensor(image, name="image")
        h, w = _sides(image)
        kept = _least(h, target_height), _least(w, target_width)
        part = crop_to_bounding_box(image, _half_over(h, target_height), _half_over(w, target_width), *kept)
        at = _half_over(target_height, h), _half_over(target_width, w)
        return pad_to_bounding_box(part, *at, target_height, target_width)


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """The middle part with that fraction of each side."""
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError("central_fraction must be within (0, 1]")
    with get_default_graph().name_scope("central_crop"):
        image = convert_to_tensor(image, name="image")
        h, w = _sides(image)
        top, left = _margin(h, central_fraction), _margin(w, central_fraction)
        return crop_to_bounding_box(image, top, left, h - 2 * top, w - 2 * left)


def _margin(size: Any, fraction: float) -> Any:
    if isinstance(size, int):
        return int((size - size * fraction) / 2)
    wide = math.cast(size, dtypes.float64)
    return math.cast(math.divide(math.subtract(wide, math.multiply(wide, fraction)), 2), dtypes.int32)


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A part of that size from a random place."""
    with get_default_graph().name_scope(name or "random_crop") as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, "size")
        limit = math.add(math.subtract(array.shape(value), size), 1)
        drawn = random.random_uniform(array.shape(limit), 0, dtypes.int32.max, dtypes.int32, seed)
        out = array_slice.slice_(value, math.floormod(drawn, limit), size, name=scope)
        out.set_shape(constant_value_as_shape(size))
        return out
