"""Images as they are after they have been JPEG files of some quality: an augmentation."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.ops import random
from sparkflow.ops.image_more import convert_image_dtype, decode_jpeg
from sparkflow_runtime.wire import dtypes

op("EncodeJpegVariableQuality", "images: uint8, quality: int32 -> contents: string", lambda op: [()])


def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """image [height, width, channels] written and read as a JPEG file of that quality, 0 to 100, maybe a tensor. Raises
    InvalidArgumentError when it runs with another quality. Needs Pillow."""
    with get_default_graph().name_scope(name or "adjust_jpeg_quality"):
        given = convert_to_tensor(image, name="image")
        channels = given._shape[-1] if given._shape else None
        if channels is None:
            raise ValueError(f"adjust_jpeg_quality: the number of channels must be known, got {given}")
        whole = convert_image_dtype(given, dtypes.uint8, saturate=True)
        file = apply_op("EncodeJpegVariableQuality", [whole, convert_to_tensor(jpeg_quality, dtypes.int32)])
        back = convert_image_dtype(decode_jpeg(file, channels, dct_method=dct_method), given.dtype, saturate=True)
        back.set_shape(given._shape)
        return back


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None, dct_method: str = ""
) -> Tensor:
    """adjust_jpeg_quality with a random quality in [min_jpeg_quality, max_jpeg_quality)."""
    if not 0 <= min_jpeg_quality < max_jpeg_quality <= 100:
        raise ValueError(
            "random_jpeg_quality: need 0 <= min_jpeg_quality < max_jpeg_quality <= 100, got "
            f"{min_jpeg_quality} and {max_jpeg_quality}"
        )
    quality = random.random_uniform((), min_jpeg_quality, max_jpeg_quality, dtypes.int32, seed)
    return adjust_jpeg_quality(image, quality, dct_method)
