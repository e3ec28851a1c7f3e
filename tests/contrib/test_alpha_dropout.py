"""tf.contrib.nn.alpha_dropout: mean and variance stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_mean_and_variance_stay(graph: Any) -> None:
    x = np.random.default_rng(0).standard_normal((200, 500)).astype(np.float32)
    given = tf.constant(x)
    found = tf.contrib.nn.alpha_dropout(given, 0.8, seed=3)
    slope_of = tf.gradients(found, given)[0]
    rows = tf.contrib.nn.alpha_dropout(x, 0.5, noise_shape=[200, 1], seed=3)
    with tf.Session() as session:
        values, by_row, slope = session.run([found, rows, slope_of])
    assert found.shape == x.shape
    assert abs(values.mean()) < 0.02 and abs(values.var() - 1) < 0.02
    dropped = slope == 0
    assert abs(dropped.mean() - 0.2) < 0.01
    assert len({*values[dropped].tolist()}) == 1 and len({*slope[~dropped].tolist()}) == 1
    same = np.ptp(by_row, axis=1) < 1e-5
    assert 0.3 < same.mean() < 0.7


def test_what_is_kept_whole_or_refused(graph: Any) -> None:
    x = tf.ones([2])
    assert tf.contrib.nn.alpha_dropout(x, 1) is x
    with pytest.raises(ValueError, match=r"keep_prob must be in \(0, 1\], got 0"):
        tf.contrib.nn.alpha_dropout(x, 0)
