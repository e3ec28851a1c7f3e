"""Parts of tf.contrib that are other parts by another name."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

import sparkflow as tf


def test_parts_that_are_elsewhere() -> None:
    assert tf.contrib.signal.stft is tf.signal.stft and tf.contrib.signal.hann_window is tf.signal.hann_window
    assert tf.contrib.stateless.stateless_random_normal is tf.random.stateless_normal
    assert tf.contrib.hooks.ProfilerHook is tf.train.ProfilerHook
    assert tf.test.mock is mock and not tf.test.is_built_with_xla()


def test_summaries_by_older_names(graph: Any) -> None:
    old = tf.contrib.deprecated
    old.scalar_summary("loss", tf.constant(3.0))
    old.audio_summary("sound", np.zeros((1, 10, 1), np.float32), 100.0)
    merged = old.merge_summary([old.merge_all_summaries()])
    with tf.Session() as session:
        found = tf.Summary.FromString(session.run(merged))
    assert [value.tag for value in found.value] == ["loss", "sound/audio/0"] and found.value[0].simple_value == 3
