"""Losses over the batch of all replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.mark.parametrize(
    ("losses", "options", "wanted"),  # as TensorFlow
    [
        ([1.0, 2.0, 3.0], {}, 2.0),
        ([1.0, 2.0, 3.0], {"sample_weight": [1.0, 0.0, 2.0], "global_batch_size": 6}, 7 / 6),
        ([1.0, 2.0], {"global_batch_size": 0}, 0.0),
        ([1, 2], {}, 1.5),
        (np.ones((2, 3)), {"sample_weight": np.ones(2)}, 3.0),
        (np.ones((2, 3)), {"sample_weight": np.array([[1.0], [2.0]])}, 4.5),
    ],
)
def test_averages(graph: Any, losses: Any, options: Any, wanted: float) -> None:
    known = tf.constant(losses)
    given = tf.placeholder(known.dtype)
    made = [tf.nn.compute_average_loss(x, **options) for x in (known, given)]
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(made, {given: losses}), wanted, rtol=1e-6)
    assert made[0].dtype == (tf.float32 if known.dtype.is_integer else known.dtype)
    assert not tf.get_collection(tf.GraphKeys.LOSSES)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="at least rank 1"):
        tf.nn.compute_average_loss(tf.constant(1.0))
    with pytest.raises(TypeError, match=r"global_batch_size must be an integer, got 2\.0"):
        tf.nn.compute_average_loss(tf.ones([2]), global_batch_size=2.0)
    with pytest.raises(ValueError, match=r"must be scalar, got shape \(1,\)"):
        tf.nn.compute_average_loss(tf.ones([2]), global_batch_size=tf.constant([2]))
    with tf.Session() as session:
        assert session.run(tf.nn.scale_regularization_loss([[1.0, 2.0], [3.0, 4.0]])) == 10
