"""Sound: WAV files of 16 bits a sample. Source: IBM and Microsoft 1991, "Multimedia Programming Interface and Data
Specifications 1.0"; a chunk of odd size has no byte behind it, as in TensorFlow."""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, one_int
from sparkflow_runtime.kernels.registry import on_host
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_CHUNK, _FORMAT, _HEAD = Struct("<4sI"), Struct("<HHIIHH"), Struct("<4sI4s")
_SCALE, _PCM, _BITS = np.float32(1 << 15), 1, 16


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"DecodeWav: {what}; give the bytes of a WAV file of 16 bits a sample")


def _chunk(contents: bytes, at: int, what: str) -> tuple[bytes, int, int]:
    """(its name, its size, where what is in it begins)."""
    if len(contents) < at + _CHUNK.size:
        raise _wrong(f"{len(contents)} bytes end before {what}")
    name, size = _CHUNK.unpack_from(contents, at)
    return name, size, at + _CHUNK.size


def _format(contents: bytes) -> tuple[int, int, int]:
    """(channels, samples a second, where the chunks behind begin)."""
    if len(contents) < _HEAD.size:
        raise _wrong(f"{len(contents)} bytes are too few for a header")
    riff, _, wave = _HEAD.unpack_from(contents)
    name, size, at = _chunk(contents, _HEAD.size, "the format")
    if (riff, wave, name) != (b"RIFF", b"WAVE", b"fmt "):
        raise _wrong(f"the header has {riff!r}, {wave!r} and {name!r} for RIFF, WAVE and fmt")
    if size not in (16, 18) or len(contents) < at + size:
        raise _wrong(f"the format has {size} bytes, not 16 or 18, or ends too early")
    kind, channels, rate, a_second, a_sample, bits = _FORMAT.unpack_from(contents, at)
    if kind != _PCM or bits != _BITS:
        raise _wrong(f"the format is {kind} of {bits} bits, not {_PCM} (PCM) of {_BITS}")
    if not channels or rate >= 1 << 31 or a_sample != 2 * channels or a_second != a_sample * rate:
        raise _wrong(f"{channels} channels of {rate} samples a second cannot be {a_sample} and {a_second} bytes")
    return channels, rate, at + size


@on_host("DecodeWav", multi=True)
def _decode(xp: Any, contents: Any, *, desired_channels: int = -1, desired_samples: int = -1) -> Any:
    file = as_bytes(host(contents).item())
    channels, rate, at = _format(file)
    sound = None
    while at < len(file):
        name, size, at = _chunk(file, at, "a chunk")
        if name == b"data":
            size -= size % (2 * channels)
            if len(file) < at + size:
                raise _wrong(f"{size} bytes of data begin at byte {at} of {len(file)}")
            sound = np.frombuffer(file, "<i2", size // 2, at).reshape(-1, channels)
        at += size
    if sound is None:
        raise _wrong("there is no data")
    samples = len(sound) if desired_samples < 0 else desired_samples
    wanted = channels if desired_channels < 0 else desired_channels
    out = np.zeros((samples, wanted), np.float32)
    sound = sound[:samples, np.minimum(np.arange(wanted), channels - 1)]
    out[: len(sound)] = sound / _SCALE
    return xp.asarray(out), xp.asarray(np.int32(rate))


@on_host("EncodeWav")
def _encode(xp: Any, audio: Any, sample_rate: Any) -> Any:
    sound, rate = host(audio), one_int(sample_rate)
    if sound.ndim != 2 or not sound.shape[1] or rate <= 0:
        raise InvalidArgumentError(
            f"EncodeWav: audio must be [samples, channels] and sample_rate positive, got {list(sound.shape)} and {rate}"
        )
    scaled = np.where(np.isnan(sound), 0, sound * _SCALE)
    whole = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).clip(-_SCALE, _SCALE - 1)
    data, width = whole.astype("<i2").tobytes(), 2 * sound.shape[1]
    kind = _FORMAT.pack(_PCM, sound.shape[1], rate, rate * width, width, _BITS)
    parts = [_CHUNK.pack(b"fmt ", len(kind)), kind, _CHUNK.pack(b"data", len(data)), data]
    held = np.empty((), object)
    held[()] = _HEAD.pack(b"RIFF", 4 + sum(map(len, parts)), b"WAVE") + b"".join(parts)
    return held
