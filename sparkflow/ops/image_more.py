"""Images: files, colours, flips. An image is [height, width, channels], or a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, math, math_reduce, random, rules
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.strings import substr
from sparkflow_runtime.wire import dtypes

# ---------------------------------------------------------------------- files


def _decoded(op: Operation) -> list[Dims]:
    return [(None, None, op.attrs.get("channels") or None)]


def _cropped(op: Operation) -> list[Dims]:
    window = constant_value(op.inputs[1])
    height, width = (None, None) if window is None or window.size != 4 else (int(n) for n in window[2:])
    return [(height, width, op.attrs.get("channels") or None)]


_OF_JPEG: dict[str, Any] = {
    "channels": 0,
    "ratio": 1,
    "fancy_upscaling": True,
    "try_recover_truncated": False,
    "acceptable_fraction": 1.0,
    "dct_method": "",
}
op("DecodeJpeg", "contents: string -> image: uint8", _decoded, **_OF_JPEG)
op("DecodeAndCropJpeg", "contents: string, crop_window: int32 -> image: uint8", _cropped, **_OF_JPEG)
op("ExtractJpegShape", "contents: string -> image_shape: output_type", lambda op: [(3,)], output_type=dtypes.int32)
op("DecodePng", "contents: string -> image: dtype", _decoded, channels=0, dtype=dtypes.uint8)
op("DecodeBmp", "contents: string -> image: uint8", _decoded, channels=0)
op("DecodeGif", "contents: string -> image: uint8", lambda op: [(None, None, None, 3)])
op("EncodePng", "image: T -> contents: string", lambda op: [()], compression=-1, T=dtypes.uint8)
op(
    "EncodeJpeg",
    "image: uint8 -> contents: string",
    lambda op: [()],
    format="",
    quality=95,
    progressive=False,
    optimize_size=False,
    chroma_downsampling=True,
    density_unit="in",
    x_density=300,
    y_density=300,
    xmp_metadata="",
)


def decode_jpeg(
    contents: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True, try_recover_truncated: bool = False,
    acceptable_fraction: float = 1, dct_method: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The image of a JPEG file's bytes, uint8. channels: 1 grey, 3 colours, 0 as in the file. ratio: 1, 2, 4 or 8 times
    smaller. Needs Pillow; InvalidArgumentError when it runs on bytes that are no image."""
    attrs = {"channels": channels, "ratio": ratio, "fancy_upscaling": fancy_upscaling, "dct_method": dct_method}
    return apply_op("DecodeJpeg", [contents], {**attrs, "try_recover_truncated": try_recover_truncated}, name)


def decode_and_crop_jpeg(
    contents: Any, crop_window: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True,
    try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """As decode_jpeg, and of that image the part crop_window: [top, left, height, width]. InvalidArgumentError when it
    runs where it does not lie inside."""
    attrs = {"channels": channels, "ratio": ratio, "fancy_upscaling": fancy_upscaling, "dct_method": dct_method}
    given = {**attrs, "try_recover_truncated": try_recover_truncated}
    return apply_op("DecodeAndCropJpeg", [contents, crop_window], given, name)


def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """[height, width, channels] of a JPEG file's image, which is not decoded for it."""
    return apply_op("ExtractJpegShape", [contents], {"output_type": dtypes.as_dtype(output_type)}, name)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether each string begins as a JPEG file does."""
    with get_default_graph().name_scope(name or "is_jpeg"):
        return math.equal(substr(contents, 0, 3), b"\xff\xd8\xff", name="Equal")


def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """The image of a PNG file's bytes. channels: 1 grey, 2 with alpha, 3 colours, 4 with alpha, 0 as in the file."""
    return apply_op("DecodePng", [contents], {"channels": channels, "dtype": dtypes.as_dtype(dtype)}, name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """The image of a BMP file's bytes, uint8."""
    return apply_op("DecodeBmp", [contents], {"channels": channels}, name)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """The images [frames, height, width, 3] of a GIF file's bytes, uint8."""
    return apply_op("DecodeGif", [contents], name=name)


def decode_image(
    contents: Any, channels: int | None = None, dtype: Any = dtypes.uint8, name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:  # fmt: skip
    """The image of a file's bytes, of whatever kind it is (the first of an animation)."""
    with get_default_graph().name_scope(name or "decode_image"):
        image = apply_op("DecodeJpeg", [contents], {"channels": channels or 0})
        return convert_image_dtype(image, dtype)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """The bytes of a PNG file of an image of uint8 or uint16."""
    return apply_op("EncodePng", [image], {"compression": compression}, name)


def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False, optimize_size: bool = False,
    chroma_downsampling: bool = True, density_unit: str = "in", x_density: int = 300, y_density: int = 300,
    xmp_metadata: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The bytes of a JPEG file of an image of uint8."""
    attrs = {key: value for key, value in locals().items() if key not in ("image", "name")}
    return apply_op("EncodeJpeg", [image], attrs, name)


# ---------------------------------------------------------------------- types and colours

for _op_type, _factor in (
    ("AdjustContrastv2", "contrast_factor"),
    ("AdjustHue", "delta"),
    ("AdjustSaturation", "scale"),
):
    op(_op_type, f"images: T, {_factor}: float32 -> output: T", rules.same, T=dtypes.float32)
for _op_type in ("RGBToHSV", "HSVToRGB"):
    op(_op_type, "images: T -> output: T", rules.same, T=dtypes.float32)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """The image in another type, scaled so that the largest value of an integer type and 1.0 are the same."""
    image, want = convert_to_tensor(image, name="image"), dtypes.as_dtype(dtype)
    own = image.dtype.base_dtype
    if own is want:
        return image
    with get_default_graph().name_scope(name or "convert_image"):
        change = math.saturate_cast if saturate else math.cast
        if own.is_integer and want.is_integer:
            if own.max > want.max:
                return change(math.floordiv(image, (own.max + 1) // (want.max + 1)), want)
            return math.multiply(change(image, want), convert_to_tensor((want.max + 1) // (own.max + 1), want))
        if own.is_integer:
            return math.multiply(math.cast(image, want), convert_to_tensor(1.0 / own.max, want))
        if want.is_integer:
            scaled = math.multiply(image, convert_to_tensor(want.max + 0.5, own))
            return change(scaled, want)
        return math.cast(image, want)


def _as_float(image: Any, change: Callable[[Tensor], Tensor], name: str) -> Tensor:
    """change(the image as floats), in the image's own type again."""
    with get_default_graph().name_scope(name):
        image = convert_to_tensor(image, name="image")
        own = image.dtype.base_dtype
        kind = own if own in (dtypes.float16, dtypes.float32) else dtypes.float32
        return convert_image_dtype(change(convert_image_dtype(image, kind)), own, saturate=True)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """delta added to the image, seen as floats in [0, 1]."""
    return _as_float(image, lambda x: math.add(x, math.cast(delta, x.dtype)), "adjust_brightness")


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """(x - mean) * contrast_factor + mean, of each channel of each image."""
    return _as_float(images, lambda x: apply_op("AdjustContrastv2", [x, contrast_factor]), "adjust_contrast")


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """The hue turned by delta, in [-1, 1], of RGB images."""
    return _as_float(image, lambda x: apply_op("AdjustHue", [x, delta]), name or "adjust_hue")


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The saturation times a factor, of RGB images."""
    return _as_float(image, lambda x: apply_op("AdjustSaturation", [x, saturation_factor]), name or "adjust_saturation")


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """gain * x ** gamma, of the image as floats in [0, 1]."""
    if isinstance(gamma, (int, float)) and gamma < 0:
        raise ValueError(f"Gamma should be a non-negative real number, got {gamma}")
    return _as_float(image, lambda x: math.multiply(math.pow(x, math.cast(gamma, x.dtype)), gain), "adjust_gamma")


def _random(name: str, adjust: Callable[[Any, Any], Tensor], low: float, high: float, image: Any, seed: Any) -> Tensor:
    with get_default_graph().name_scope(name):
        return adjust(image, random.random_uniform([], low, high, seed=seed))


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_brightness by a random delta in [-max_delta, max_delta)."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return _random("random_brightness", adjust_brightness, -max_delta, max_delta, image, seed)


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_contrast by a random factor in [lower, upper)."""
    if not 0 <= lower < upper:
        raise ValueError(f"need 0 <= lower < upper, got {lower} and {upper}")
    return _random("random_contrast", adjust_contrast, lower, upper, image, seed)


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_hue by a random delta in [-max_delta, max_delta), at most 0.5."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be in [0, 0.5], got {max_delta}")
    return _random("random_hue", adjust_hue, -max_delta, max_delta, image, seed)


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_saturation by a random factor in [lower, upper)."""
    if not 0 <= lower < upper:
        raise ValueError(f"need 0 <= lower < upper, got {lower} and {upper}")
    return _random("random_saturation", adjust_saturation, lower, upper, image, seed)


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Hue, saturation and value of RGB images of floats in [0, 1]."""
    return apply_op("RGBToHSV", [images], name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """RGB images of hue, saturation and value."""
    return apply_op("HSVToRGB", [images], name=name)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """[..., 3] -> [..., 1], by the luma weights of ITU-R BT.601."""

    def change(x: Tensor) -> Tensor:
        weights = convert_to_tensor([0.2989, 0.587, 0.114], x.dtype.base_dtype)
        return math_reduce.reduce_sum(math.multiply(x, weights), -1, True)

    return _as_float(images, change, name or "rgb_to_grayscale")


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """[..., 1] -> [..., 3], the same value thrice."""
    with get_default_graph().name_scope(name or "grayscale_to_rgb"):
        images = convert_to_tensor(images, name="images")
        if images._shape is None:
            return array_join.concat([images] * 3, -1)
        if images._shape[-1] not in (1, None):
            raise ValueError(f"Last dimension of a grayscale image should be size 1, got shape {images.shape}")
        return array.tile(images, [1] * (len(images._shape) - 1) + [3])


def per_image_standardization(image: Any) -> Tensor:
    """(x - mean) / the larger of the deviation and 1 / sqrt(number of values), of each image, as float32."""
    with get_default_graph().name_scope("per_image_standardization"):
        image = convert_to_tensor(image, name="image")
        x = math.cast(image, dtypes.float32) if not image.dtype.is_floating else image
        count = math.cast(math_reduce.reduce_prod(array.shape(x)[-3:]), x.dtype)
        mean = math_reduce.reduce_mean(x, [-1, -2, -3], True)
        variance = math_reduce.reduce_mean(math.square(math.subtract(x, mean)), [-1, -2, -3], True)
        return math.divide(math.subtract(x, mean), math.maximum(math.sqrt(variance), math.rsqrt(count)))


# ---------------------------------------------------------------------- flips


def _flip(name: str, axis: int, doc: str) -> Callable[[Any], Tensor]:
    def build(image: Any) -> Tensor:
        with get_default_graph().name_scope(name):
            image = convert_to_tensor(image, name="image")
            if image._shape is not None and len(image._shape) < 3:
                raise ValueError(f"{name}: 'image' (shape {image.shape}) must be at least three-dimensional.")
            return array.reverse(image, [axis])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


flip_left_right = _flip("flip_left_right", -2, "Mirrored at the vertical axis.")
flip_up_down = _flip("flip_up_down", -3, "Mirrored at the horizontal axis.")


def _random_flip(image: Any, flip: Callable[[Any], Tensor], seed: int | None, name: str) -> Tensor:
    with get_default_graph().name_scope(name):
        image = convert_to_tensor(image, name="image")
        if rules.rank_of(image) == 4:
            drawn = random.random_uniform(array.shape(image)[:1], seed=seed)
            # TensorFlow mirrors where it draws the upper half, and a single image where it draws the lower one.
            mask = array.reshape(math.cast(math.greater(drawn, 0.5), image.dtype), [-1, 1, 1, 1])
            return math.add(
                math.multiply(flip(image), mask), math.multiply(image, math.subtract(array.ones_like(mask), mask))
            )
        out = cond(
            math.less(random.random_uniform([], seed=seed), 0.5), lambda: flip(image), lambda: array.identity(image)
        )
        out.set_shape(image.shape)
        return out


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirrored at the vertical axis, or not, each with probability 1/2, image by image."""
    return _random_flip(image, flip_left_right, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Mirrored at the horizontal axis, or not, each with probability 1/2, image by image."""
    return _random_flip(image, flip_up_down, seed, "random_flip_up_down")


def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Turned counter-clockwise by k quarter turns."""
    with get_default_graph().name_scope(name or "rot90"):
        image = convert_to_tensor(image, name="image")
        lead = list(range(len(image._shape or ()) - 3))
        turned = [*lead, len(lead) + 1, len(lead), len(lead) + 2]
        if k % 4 == 0:
            return image
        if k % 4 == 2:
            return array.reverse(image, [-3, -2])
        swapped = array.transpose(image if k % 4 == 3 else array.reverse(image, [-2]), turned)
        return array.reverse(swapped, [-2]) if k % 4 == 3 else swapped


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Height and width swapped."""
    with get_default_graph().name_scope(name or "transpose_image"):
        image = convert_to_tensor(image, name="image")
        lead = list(range(len(image._shape or ()) - 3))
        return array.transpose(image, [*lead, len(lead) + 1, len(lead), len(lead) + 2])
