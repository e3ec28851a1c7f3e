"""Samples of sound from WAV files, and into them."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire import dtypes


def _decoded(op: Operation) -> list[Dims]:
    rules.require_rank(op, "contents", op.inputs[0], 0)
    samples, channels = (op.attrs.get(f"desired_{what}", -1) for what in ("samples", "channels"))
    return [tuple(None if n < 0 else n for n in (samples, channels)), ()]


def _encoded(op: Operation) -> list[Dims]:
    rules.require_rank(op, "audio", op.inputs[0], 2)
    rules.require_rank(op, "sample_rate", op.inputs[1], 0)
    return [()]


op("DecodeWav", "contents: string -> audio: float32, sample_rate: int32", _decoded,
   desired_channels=-1, desired_samples=-1)  # fmt: skip
op("EncodeWav", "audio: float32, sample_rate: int32 -> contents: string", _encoded)


class DecodeWav(NamedTuple):
    audio: Tensor
    sample_rate: Tensor


def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodeWav:
    """([samples, channels] from -1 to 1, samples a second) of a WAV file's bytes, 16 bits a sample.

    desired_channels: the last channel stands for those that lack, and those beyond are left out. desired_samples: what
    lacks is 0. When they run: InvalidArgumentError on other bytes.
    """
    attrs = {"desired_channels": int(desired_channels), "desired_samples": int(desired_samples)}
    return DecodeWav(*apply_op("DecodeWav", [contents], attrs, name))


def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """The bytes of a WAV file, 16 bits a sample, of [samples, channels] from -1 to 1; what is beyond is cut off."""
    rate = convert_to_tensor(sample_rate, dtypes.int32, "sample_rate")
    return apply_op("EncodeWav", [convert_to_tensor(audio, dtypes.float32, "audio"), rate], {}, name)
