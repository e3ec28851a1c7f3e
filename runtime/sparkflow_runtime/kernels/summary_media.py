"""Summaries of images, sounds and whole tensors."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import Summary
from sparkflow_runtime.wire.tensor_proto import as_bytes, make_tensor_proto

_CPU = ("CPU",)
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # PNG's numbers for grey, RGB and RGBA
_SMALL = 1e-6  # an image whose largest value is below this is drawn black


def _text(tag: Any) -> str:
    return as_bytes(texts(tag).item()).decode()


def _packed(summary: Summary) -> np.ndarray:
    held = np.empty((), object)
    held[()] = summary.SerializeToString()
    return held


def _tags(base: str, kind: str, count: int, limit: int) -> Iterator[str]:
    """One tag an item; without a number where there can be only one."""
    return (f"{base}/{kind}" if limit == 1 else f"{base}/{kind}/{i}" for i in range(count))


# ---------------------------------------------------------------------- images


@kernel("ImageSummary", devices=_CPU)
def _image(xp: Any, tag: Any, tensor: Any, *, max_images: int = 3, bad_color: Any = None) -> np.ndarray:
    images, base = host(tensor), _text(tag)
    if images.ndim != 4 or images.shape[3] not in _COLOUR_TYPES:
        raise InvalidArgumentError(
            f"ImageSummary {base!r}: tensor must be 4-D with last dim 1, 3, or 4, not {list(images.shape)}"
        )
    count, height, width, depth = images.shape
    bad = _bad_colour(bad_color, depth)
    made = Summary()
    for image, name in zip(images, _tags(base, "image", min(count, max_images), max_images)):
        pixels = image if image.dtype == np.uint8 else _as_pixels(image.astype(np.float32), bad)
        png = encode_png(pixels)
        made.value.add(
            tag=name,
            image=Summary.Image(height=height, width=width, colorspace=depth, encoded_image_string=png),
        )
    return _packed(made)


def _bad_colour(bad_color: Any, depth: int) -> np.ndarray:
    colour = np.array([255, 0, 0, 255], np.uint8) if bad_color is None else host(bad_color).astype(np.uint8).ravel()
    if colour.size < depth:
        raise InvalidArgumentError(f"ImageSummary: bad_color has {colour.size} channels, the images {depth}")
    return colour[:depth]


def _as_pixels(image: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Floats to 0..255: by the largest value, or around 128 where some are negative; pixels that are not finite are
    drawn in the colour `bad`."""
    finite = np.isfinite(image).all(axis=2)
    seen = image[finite]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)
    if low < 0:
        largest, room, offset = max(abs(low), abs(high)), 127.0, 128.0
    else:
        largest, room, offset = high, 255.0, 0.0
    scale = np.float32(0.0 if largest < _SMALL else room / largest)
    pixels = np.where(finite[:, :, None], image, np.float32(0)) * scale + np.float32(offset)
    out = pixels.astype(np.uint8)
    out[~finite] = bad
    return out


def encode_png(pixels: np.ndarray) -> bytes:
    """[height, width, 1, 3 or 4] uint8 as a PNG file. Source: W3C PNG specification, 3rd edition."""
    height, width, depth = pixels.shape
    rows = np.zeros((height, 1 + width * depth), np.uint8)  # each row begins with its filter, which is none
    rows[:, 1:] = pixels.reshape(height, width * depth)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[depth], 0, 0, 0)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# ---------------------------------------------------------------------- sounds


@kernel("AudioSummaryV2", devices=_CPU)
def _audio(xp: Any, tag: Any, tensor: Any, sample_rate: Any, *, max_outputs: int = 3) -> np.ndarray:
    sounds, base, rate = host(tensor), _text(tag), float(host(sample_rate))
    if sounds.ndim not in (2, 3):
        raise InvalidArgumentError(f"AudioSummary {base!r}: tensor must be 2-D or 3-D, not {list(sounds.shape)}")
    if sounds.ndim == 2:
        sounds = sounds[:, :, None]
    count, frames, channels = sounds.shape
    made = Summary()
    for sound, name in zip(sounds, _tags(base, "audio", min(count, max_outputs), max_outputs)):
        audio = Summary.Audio(
            sample_rate=rate, num_channels=channels, length_frames=frames,
            encoded_audio_string=encode_wav(sound, round(rate)), content_type="audio/wav",
        )  # fmt: skip
        made.value.add(tag=name, audio=audio)
    return _packed(made)


def encode_wav(samples: np.ndarray, rate: int) -> bytes:
    """[frames, channels] of -1..1 as a WAV file of 16-bit samples."""
    if rate < 1:
        raise InvalidArgumentError(f"sample_rate must be above 0, got {rate}")
    channels = samples.shape[1]
    data = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


# ---------------------------------------------------------------------- tensors


@kernel("TensorSummaryV2", devices=_CPU)
def _tensor(xp: Any, tag: Any, tensor: Any, serialized_summary_metadata: Any) -> np.ndarray:
    value = Summary.Value(tag=_text(tag), tensor=make_tensor_proto(host(tensor)))
    value.metadata.MergeFromString(as_bytes(texts(serialized_summary_metadata).item()))
    return _packed(Summary(value=[value]))


@bound("TensorSummary", devices=_CPU)
def _tensor_without_tag(node: Node) -> Function:
    def run(tensor: Any) -> np.ndarray:
        return _packed(Summary(value=[Summary.Value(node_name=node.name, tensor=make_tensor_proto(host(tensor)))]))

    return run
