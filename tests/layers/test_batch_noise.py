"""Batch normalisation of virtual batches, and with noise in its scale: against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _normal(x: Any, over: Any) -> Any:
    return (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-3)


@pytest.mark.parametrize("shape, axis", [((6, 5), -1), ((6, 2, 3, 4), -1), ((6, 4, 2, 3), 1)])
@pytest.mark.parametrize("of_tensor", [False, True])
def test_virtual_batches(graph: Any, shape: Any, axis: int, of_tensor: bool) -> None:
    """Examples i, i + 3 (of batches of 2 out of 6) share statistics; the moving ones follow their mean."""
    x = np.random.RandomState(0).randn(*shape)
    training: Any = tf.placeholder_with_default(True, []) if of_tensor else True
    y = tf.layers.batch_normalization(
        tf.placeholder_with_default(x, [None, *shape[1:]]), axis=axis, training=training, virtual_batch_size=2,
        momentum=0.5, gamma_initializer=tf.constant_initializer(3.0),
    )  # fmt: skip
    assert y.shape.as_list() == [None, *shape[1:]]
    cut = x.reshape(2, 3, *shape[1:])
    over = tuple(i for i in range(len(shape) + 1) if i != 1 and i != (axis % len(shape)) + 1)
    mean = tf.global_variables("batch_normalization/moving_mean")[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, _ = session.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])
        moved = session.run(mean)
        if of_tensor:
            still = session.run(y, {training: False})
            assert session.run(mean).tolist() == moved.tolist() and not np.allclose(still, got)
    np.testing.assert_allclose(got, 3 * _normal(cut, over).reshape(shape), rtol=1e-6)
    np.testing.assert_allclose(moved, cut.mean(over, keepdims=True).mean(1, keepdims=True) / 2, rtol=1e-6)


@pytest.mark.parametrize("axis", [1, -1])
def test_adjustment(graph: Any, axis: int) -> None:
    """(x * scale + bias) * gamma + beta while training, and nothing of it otherwise."""
    x = np.random.RandomState(0).randn(4, 3, 3, 3).astype(np.float32)
    noise = np.random.RandomState(1).rand(4, 1, 1, 1).astype(np.float32)
    seen = []

    def adjustment(shape: Any) -> Any:
        seen.append(shape)
        return tf.constant(noise), tf.constant(noise * 2)

    def layer(training: bool) -> Any:
        return tf.layers.batch_normalization(
            x, axis=axis, training=training, adjustment=adjustment, gamma_initializer=tf.constant_initializer(3.0),
            beta_initializer=tf.constant_initializer([1.0, 2.0, 3.0]),
        )  # fmt: skip

    trained, still = layer(True), layer(False)
    assert len(seen) == 1
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, plain = session.run([trained, still])
    beta = np.array([1.0, 2.0, 3.0]).reshape((3, 1, 1) if axis == 1 else 3)
    over = (0, 2, 3) if axis == 1 else (0, 1, 2)
    np.testing.assert_allclose(got, (_normal(x, over) * noise + noise * 2) * 3 + beta, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(plain, x / np.sqrt(1.001) * 3 + beta, rtol=1e-5, atol=1e-5)
