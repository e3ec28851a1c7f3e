"""WAV files to samples and back."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _chunk(name: bytes, inside: bytes) -> bytes:
    return name + struct.pack("<I", len(inside)) + inside


def _file(samples: list[int], channels: int = 1, kind: int = 1, bits: int = 16, more: bytes = b"") -> bytes:
    told = struct.pack("<HHIIHH", kind, channels, 8000, 8000 * channels * bits // 8, channels * bits // 8, bits)
    inside = b"WAVE" + _chunk(b"fmt ", told) + more + _chunk(b"data", np.array(samples, "<i2").tobytes())
    return _chunk(b"RIFF", inside)


@pytest.mark.parametrize(
    "given, wanted",
    [
        ({}, [[0, 0.5], [-1, 1 / 32768]]),
        ({"desired_channels": 1}, [[0], [-1]]),
        ({"desired_channels": 3, "desired_samples": 1}, [[0, 0.5, 0.5]]),
        ({"desired_samples": 3}, [[0, 0.5], [-1, 1 / 32768], [0, 0]]),
    ],
)
def test_samples_of_a_file(graph: Any, given: dict[str, int], wanted: list[list[float]]) -> None:
    found = tf.audio.decode_wav(_file([0, 16384, -32768, 1], 2, more=_chunk(b"LIST", b"any")), **given)
    assert found.audio.shape.as_list() == [given.get("desired_samples"), given.get("desired_channels")]
    with tf.Session() as session:
        audio, rate = session.run(found)
    assert audio.dtype == np.float32 and audio.tolist() == wanted and rate == 8000


def test_there_and_back(graph: Any) -> None:
    sound = np.linspace(-1.2, 1.2, 40, dtype=np.float32).reshape(20, 2)
    with tf.Session() as session:
        again = session.run(tf.audio.decode_wav(tf.audio.encode_wav(sound, 44100)))
    np.testing.assert_allclose(again.audio, sound.clip(-1, 1 - 1 / 32768), atol=0.51 / 32768)
    assert again.sample_rate == 44100


@pytest.mark.parametrize(
    "file, text",
    [
        (b"", "too few for a header"),
        (_file([1])[:30], "ends too early"),
        (_file([1])[:40], "end before a chunk"),
        (_file([1, 2])[:46], "4 bytes of data begin at byte 44 of 46"),
        (_file([1])[:36], "there is no data"),
        (b"RIFX" + _file([1])[4:], "RIFX"),
        (_file([1], kind=3, bits=32), "the format is 3 of 32 bits"),
        (_file([1], channels=0), "0 channels"),
    ],
)
def test_bytes_that_are_no_such_file(graph: Any, file: bytes, text: str) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(tf.audio.decode_wav(file))


def test_what_is_no_sound(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank 2"):
        tf.audio.encode_wav([0.5], 8000)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="sample_rate positive"):
        session.run(tf.audio.encode_wav([[0.5]], 0))
