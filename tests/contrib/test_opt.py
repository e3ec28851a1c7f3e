"""Optimizers of tf.contrib.opt, against what their papers say written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow as tf


def _run(optimizer: Any, loss: Any, steps: int, **options: Any) -> np.ndarray:
    w = tf.Variable(np.arange(1.0, 7).reshape(3, 2), dtype=tf.float64)
    train = optimizer.minimize(loss(w), **options)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(train)
        return session.run(w)


def _rows(w: Any) -> Any:
    return tf.reduce_sum(tf.square(tf.nn.embedding_lookup(w, [2, 0, 2])))


def test_lazy_adam_leaves_other_rows(graph: Any) -> None:
    """With gradients of all rows it is Adam; of some it moves those alone."""
    lazy, adam = tf.contrib.opt.LazyAdamOptimizer(0.1), tf.train.AdamOptimizer(0.1)
    dense = [_run(o, lambda w: tf.reduce_sum(tf.square(w)), 3) for o in (lazy, adam)]
    np.testing.assert_allclose(*dense)
    found = _run(tf.contrib.opt.LazyAdamOptimizer(0.1), _rows, 1)
    start = np.arange(1.0, 7).reshape(3, 2)
    np.testing.assert_array_equal(found[1], start[1])
    np.testing.assert_allclose(found[[0, 2]], start[[0, 2]] - 0.1, rtol=1e-6)  # the first step is the rate itself


def test_weights_decay_on_their_own(graph: Any) -> None:
    start = np.arange(1.0, 7).reshape(3, 2)
    plain = _run(tf.train.AdamOptimizer(0.1), lambda w: tf.reduce_sum(w), 1)
    decayed = _run(tf.contrib.opt.AdamWOptimizer(0.01, 0.1), lambda w: tf.reduce_sum(w), 1)
    np.testing.assert_allclose(decayed, plain - 0.01 * start, rtol=1e-9)
    rows = _run(tf.contrib.opt.MomentumWOptimizer(0.01, 0.1, 0.9), _rows, 1)
    np.testing.assert_array_equal(rows[1], start[1])
    np.testing.assert_allclose(rows[0], start[0] * 0.99 - 0.1 * 2 * start[0])
    other = tf.Variable(0.0)
    spared = _run(
        tf.contrib.opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)(0.5, learning_rate=0.1),
        lambda w: tf.reduce_sum(w), 1, decay_var_list=[other],
    )  # fmt: skip
    np.testing.assert_allclose(spared, start - 0.1)
