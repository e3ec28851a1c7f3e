"""Summaries of images, sounds, text and tensors: what TensorBoard's own readers make of them."""

from __future__ import annotations

import io
import wave
import zlib
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import sparkflow as tf


def run(tensor: Any) -> Any:
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(tensor)).value


def pixels(png: bytes, height: int, width: int, depth: int) -> np.ndarray:
    start = png.index(b"IDAT")
    size = int.from_bytes(png[start - 4 : start], "big")
    rows = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + size]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, depth)


def test_images_are_scaled_one_by_one(graph: Any) -> None:
    """As TensorFlow scales them: by the largest, around 128 where some are negative, red where not finite."""
    batch = np.zeros((3, 1, 2, 3), np.float32)
    batch[0, 0, 0], batch[1, 0, 0], batch[1, 0, 1], batch[2, 0, 0] = 2, -1, 0.5, np.nan
    values = run(tf.summary.image("im", batch))
    assert [v.tag for v in values] == ["im/image/0", "im/image/1", "im/image/2"]
    found = [pixels(v.image.encoded_image_string, 1, 2, 3) for v in values]
    assert found[0][0].tolist() == [[255] * 3, [0] * 3]
    assert found[1][0].tolist() == [[1] * 3, [191] * 3]
    assert found[2][0].tolist() == [[255, 0, 0], [0] * 3]


def test_one_image_has_no_number(graph: Any) -> None:
    image = np.arange(8, dtype=np.uint8).reshape(1, 2, 4, 1)
    (value,) = run(tf.summary.image("im", image, max_outputs=1))
    assert (value.tag, value.image.height, value.image.width, value.image.colorspace) == ("im/image", 2, 4, 1)
    np.testing.assert_array_equal(pixels(value.image.encoded_image_string, 2, 4, 1), image[0])


def test_an_image_of_two_channels_is_refused(graph: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"last dim 1, 3, or 4, not \[1, 2, 2, 2\]"):
        run(tf.summary.image("im", np.zeros((1, 2, 2, 2), np.float32)))


def test_sounds_are_wav_files(graph: Any) -> None:
    (value,) = run(tf.summary.audio("a", [[0.0, 0.5, -1.0, 2.0]], 8000.0, max_outputs=1))
    assert (value.tag, value.audio.sample_rate, value.audio.length_frames) == ("a/audio", 8000, 4)
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        assert np.frombuffer(file.readframes(4), "<i2").tolist() == [0, 16384, -32768, 32767]


def test_text_says_whose_plugin_shows_it(graph: Any, tmp_path: Any) -> None:
    with tf.Session() as session, tf.summary.FileWriter(str(tmp_path), session.graph) as writer:
        tf.summary.text("said", tf.constant(["a", "b"]))
        tf.summary.tensor_summary("whole", tf.constant([1.0, 2.0]), display_name="W")
        tf.summary.image("im", np.zeros((1, 2, 2, 1), np.float32))
        writer.add_summary(session.run(tf.summary.merge_all()), 7)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert "said" in events.Tags()["tensors"] and events.summary_metadata["said"].plugin_data.plugin_name == "text"
    assert list(events.Tensors("said")[0].tensor_proto.string_val) == [b"a", b"b"]
    assert events.summary_metadata["whole"].display_name == "W" and events.Images("im/image/0")[0].step == 7


def test_text_is_of_strings(graph: Any) -> None:
    with pytest.raises(ValueError, match="to have dtype string"):
        tf.summary.text("t", tf.constant(1.0))
