"""Orthogonal, identity and unit scaling initializers; random classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


def value(tensor: Any) -> Any:
    with tf.Session() as sess:
        return sess.run(tensor)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 2, 6)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    made = value(tf.orthogonal_initializer(gain=2.0, seed=3)(shape)).reshape(-1, shape[-1])
    product = made.T @ made if made.shape[0] >= made.shape[1] else made @ made.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_identity_and_unit_scaling() -> None:
    np.testing.assert_array_equal(value(tf.initializers.identity(3.0)([2, 3])), 3 * np.eye(2, 3))
    made = value(tf.uniform_unit_scaling_initializer(2.0, seed=1)([3, 4, 500]))
    limit = 2 * np.sqrt(3 / 12)
    assert 0.98 * limit < np.abs(made).max() <= limit
    with pytest.raises(ValueError, match="two-dimensional"):
        tf.initializers.identity()([2])
    with pytest.raises(ValueError, match="floating"):
        tf.orthogonal_initializer(dtype=tf.int32)


def test_classes_are_as_often_as_their_probabilities() -> None:
    chances = np.array([[0.1, 0.6, 0.3], [0.0, 0.0, 1.0]])
    with np.errstate(divide="ignore"):
        drawn = value(tf.multinomial(tf.constant(np.log(chances)), 20_000, seed=1))
    for row, wanted in zip(drawn, chances):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 20_000, wanted, atol=0.02)
    assert value(tf.random.categorical(tf.zeros([2, 3]), 4, dtype=tf.int32)).dtype == np.int32
