"""Random values of a seed tensor: the same in every step, with the right distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError

DRAWS = {
    "uniform": (lambda s: tf.random.stateless_uniform([20_000], s, -1, 3), 1, 4 / np.sqrt(12)),
    "normal": (lambda s: tf.random.stateless_normal([20_000], s, 1.0, 2.0), 1, 2),
    "truncated": (lambda s: tf.random.stateless_truncated_normal([20_000], s), 0, 0.88),
    "integers": (lambda s: tf.random.stateless_uniform([20_000], s, 0, 5, tf.int32), 2, np.sqrt(2)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_values_follow_from_the_seed(graph: Any, name: str) -> None:
    draw, mean, deviation = DRAWS[name]
    seed = tf.placeholder(tf.int64, [2])
    out = draw(seed)
    assert out.shape.as_list() == [20_000]
    with tf.Session() as session:
        first, again, other = (session.run(out, {seed: s}) for s in ([1, 2], [1, 2], [1, -3]))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_allclose([first.mean(), first.std()], [mean, deviation], atol=0.05)


def test_classes(graph: Any) -> None:
    drawn = tf.random.stateless_categorical(np.log([[0.2, 0.8], [0.5, 0.5]]), 5_000, [3, 4])
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(drawn).mean(1), [0.8, 0.5], atol=0.03)


def test_refusals(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\[3\]"):
        tf.random.stateless_uniform([2], [1, 2, 3])
    with pytest.raises(ValueError, match="maxval"):
        tf.random.stateless_uniform([2], [1, 2], dtype=tf.int32)
