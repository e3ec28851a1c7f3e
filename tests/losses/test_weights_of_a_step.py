"""Weights whose shape only the step knows: squeezed by metrics, refused where they do not fit, as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

VALUES = np.array([1.0, 0.0, 1.0], np.float32)
REDUCTIONS = {
    tf.losses.Reduction.SUM: 4.0,
    tf.losses.Reduction.SUM_OVER_BATCH_SIZE: 4 / 3,
    tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS: 4 / 2,
    tf.losses.Reduction.MEAN: 4 / 4,
}


def _mean(weights_shape: Any, values_shape: Any, weights: Any, values: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        w, v = tf.placeholder(tf.float32, weights_shape), tf.placeholder(tf.float32, values_shape)
        _, update = tf.metrics.mean(v, w)
        session.run(tf.local_variables_initializer())
        return session.run(update, {w: weights, v: values})


@pytest.mark.parametrize("weights_shape, values_shape", [(None, [3]), (None, None), ([None, None], None)])
def test_metrics_take_an_axis_of_one_away(weights_shape: Any, values_shape: Any) -> None:
    assert _mean(weights_shape, values_shape, [[98], [1], [1]], VALUES) == np.float32(0.99)


def test_metrics_add_an_axis_of_one() -> None:
    for shape in (None, [None], [3]):
        assert _mean(shape, [None, 1], [98, 1, 1], VALUES[:, None]) == np.float32(0.99)


@pytest.mark.parametrize("weights", [np.ones([2]), np.ones([3, 2]), np.ones([3, 1, 1])])
def test_metrics_refuse(weights: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        _mean(None, [None], weights, VALUES)
    with pytest.raises(tf.errors.InvalidArgumentError):
        _mean([None] * weights.ndim, None, weights, VALUES)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shapes", [(None, [None]), (None, None), ([None], [None])])
def test_losses(graph: Any, reduction: str, shapes: Any) -> None:
    w, v = (tf.placeholder(tf.float32, shape) for shape in shapes)
    loss = tf.losses.compute_weighted_loss(v, w, reduction=reduction)
    with tf.Session() as session:
        assert session.run(loss, {w: [2, 0, 2], v: VALUES}) == np.float32(REDUCTIONS[reduction])
        session.run(loss, {w: [2], v: VALUES})
        for wrong in (np.ones([2]), np.ones([3, 1])):
            if shapes[0] is None or wrong.ndim == 1:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(loss, {w: wrong, v: VALUES})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(loss, {w: [1, 2, 3], v: VALUES[:1]})  # values are never broadcast to weights
