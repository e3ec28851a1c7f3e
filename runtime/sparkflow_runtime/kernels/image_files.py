"""Image files to arrays and back, by Pillow, which is loaded when it is first needed."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import png
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import on_host
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise UnimplementedError("Image files are read and written by Pillow: pip install pillow") from None


def _open(op: str, contents: Any, whole: bool = True) -> Any:
    """whole: with its pixels, and not the header alone."""
    raw = as_bytes(texts(contents).item())
    try:
        image = _pillow().open(io.BytesIO(raw))
        if whole:
            image.load()
        return image
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{op}: these {len(raw)} bytes are no image: {error}") from None


def _grey(image: Any) -> np.ndarray:
    """[height, width, 1] of a colour image, as libpng weighs red, green and blue; Pillow rounds otherwise."""
    red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(np.uint32), 2, 0)
    return ((9797 * red + 19234 * green + 3737 * blue) >> 15).astype(np.uint8)[:, :, None]


def _array(image: Any, channels: int) -> np.ndarray:
    own = {"P": "RGB", "1": "L", "CMYK": "RGB", "YCbCr": "RGB"}.get(image.mode, image.mode)
    mode = _MODES[channels] if channels else own
    if image.format == "PNG" and channels == 1 and image.mode in ("RGB", "RGBA", "P"):
        return _grey(image)
    array = np.asarray(image if mode == image.mode else image.convert(mode))
    return array if array.ndim == 3 else array[:, :, None]


@on_host("DecodeJpeg")
def _jpeg(xp: Any, contents: Any, *, channels: int = 0, ratio: int = 1) -> Any:
    image = _open("DecodeJpeg", contents)
    if ratio not in (1, 2, 4, 8):
        raise InvalidArgumentError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if ratio > 1:
        image = image.reduce(ratio)
    return xp.asarray(_array(image, channels))


@on_host("DecodeAndCropJpeg")
def _cropped_jpeg(xp: Any, contents: Any, crop_window: Any, *, channels: int = 0, ratio: int = 1) -> Any:
    image = _jpeg(np, contents, channels=channels, ratio=ratio)
    window = [int(n) for n in np.asarray(crop_window).reshape(-1)]
    if len(window) != 4:
        raise InvalidArgumentError(f"crop_window must have four elements, got {window}")
    top, left, height, width = window
    rows, columns = image.shape[:2]
    if min(top, left) < 0 or min(height, width) < 1 or top + height > rows or left + width > columns:
        raise InvalidArgumentError(f"Invalid JPEG data or crop window: {window} of an image of {rows} x {columns}")
    return xp.asarray(np.ascontiguousarray(image[top : top + height, left : left + width]))


@on_host("ExtractJpegShape")
def _jpeg_shape(xp: Any, contents: Any, *, output_type: DType) -> Any:
    image = _open("ExtractJpegShape", contents, whole=False)
    return xp.asarray([image.height, image.width, len(image.getbands())], output_type.np)


@on_host("DecodePng")
def _png(xp: Any, contents: Any, *, channels: int = 0, dtype: DType) -> Any:
    if dtype.np == np.uint8:
        found = png.read(as_bytes(texts(contents).item()), channels)
        if found is not None:
            return xp.asarray(found)
    image = _open("DecodePng", contents)
    if image.mode.startswith("I"):  # 16 bits
        wide = np.asarray(image).astype(np.uint16)[:, :, None]
        wide = np.repeat(wide, 3, 2) if channels == 3 else wide
        return xp.asarray(wide if dtype.np == np.uint16 else (wide >> 8).astype(np.uint8))
    array = _array(image, channels)
    return xp.asarray(array if dtype.np == np.uint8 else array.astype(np.uint16) * 257)


@on_host("DecodeBmp")
def _bmp(xp: Any, contents: Any, *, channels: int = 0) -> Any:
    return xp.asarray(_array(_open("DecodeBmp", contents), channels))


@on_host("DecodeGif")
def _gif(xp: Any, contents: Any) -> Any:
    image = _open("DecodeGif", contents)
    frames = []
    for i in range(getattr(image, "n_frames", 1)):
        image.seek(i)
        frames.append(np.asarray(image.convert("RGB")))
    return xp.asarray(np.stack(frames))


def _written(op: str, image: Any, kind: str, **options: Any) -> np.ndarray:
    array = host(image)
    if array.ndim != 3 or array.shape[2] not in _MODES or not array.size:
        raise InvalidArgumentError(f"{op}: image must be [height, width, 1 to 4 channels], got {list(array.shape)}")
    if array.dtype == np.uint16:
        if array.shape[2] != 1:
            raise UnimplementedError(f"{op}: images of 16 bits are written with one channel, got {array.shape[2]}")
        picture = _pillow().fromarray(array[:, :, 0])
    else:
        picture = _pillow().fromarray(array[:, :, 0] if array.shape[2] == 1 else np.ascontiguousarray(array))
    out, held = io.BytesIO(), np.empty((), object)
    picture.save(out, kind, **options)
    held[()] = out.getvalue()
    return held


@on_host("EncodePng")
def _encode_png(xp: Any, image: Any, *, compression: int = -1) -> Any:
    return _written("EncodePng", image, "PNG", **({} if compression < 0 else {"compress_level": compression}))


@on_host("EncodeJpeg")
def _encode_jpeg(
    xp: Any, image: Any, *, quality: int = 95, progressive: bool = False, optimize_size: bool = False,
    chroma_downsampling: bool = True,
) -> Any:  # fmt: skip
    return _written("EncodeJpeg", image, "JPEG", quality=quality, progressive=progressive, optimize=optimize_size,
                    subsampling=2 if chroma_downsampling else 0)  # fmt: skip


@on_host("EncodeJpegVariableQuality")
def _encode_jpeg_of(xp: Any, images: Any, quality: Any) -> Any:
    wanted = int(np.asarray(quality).item())
    if not 0 <= wanted <= 100:
        raise InvalidArgumentError(f"EncodeJpegVariableQuality: quality must be in [0, 100], got {wanted}")
    return _written("EncodeJpegVariableQuality", images, "JPEG", quality=wanted, subsampling=2)
