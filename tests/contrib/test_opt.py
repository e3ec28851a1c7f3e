"""Optimizers of tf.contrib.opt, against what their papers say written out."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_decay_after_they_were_read(cluster: Any, graph: Any, sparse: bool) -> None:
    """Also where the step begins with something slow, and the weights are elsewhere."""

    def late(x: Any) -> Any:
        time.sleep(0.2)
        return x

    with tf.device("/job:ps/task:0"):
        w = tf.Variable(np.ones((3, 2), np.float32))
    with tf.device("/job:worker/task:0"):
        begun = tf.py_func(late, [tf.constant(0, tf.int64)], tf.int64)
        with tf.control_dependencies([begun]):
            some = (
                tf.gather(w, tf.range(2, dtype=tf.int64) + begun) if sparse else w * (tf.cast(begun, tf.float32) + 1.0)
            )
            loss = tf.reduce_sum(some)
    train = tf.contrib.opt.MomentumWOptimizer(0.5, 0.1, 0.9).minimize(loss)
    with tf.Session(cluster(ps=1, worker=1)["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run([loss, train])[0] == (4 if sparse else 6)


def test_nadam_and_adamax(graph: Any) -> None:
    """Dense steps against the rules written out; rows of sparse ones alone move."""
    start = np.arange(1.0, 7).reshape(3, 2)
    w, m, v, powers = start.copy(), 0.0, 0.0, np.array([0.9, 0.999])
    for _ in range(3):
        g = 2 * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.1 * np.sqrt(1 - powers[1]) / (1 - powers[0]) * (0.9 * m + 0.1 * g) / (np.sqrt(v) + 1e-8)
        powers = powers * [0.9, 0.999]
    found = _run(tf.contrib.opt.NadamOptimizer(0.1), lambda w: tf.reduce_sum(tf.square(w)), 3)
    np.testing.assert_allclose(found, w, rtol=1e-5)
    w, m, v, power = start.copy(), 0.0, 0.0, 0.9
    for _ in range(3):
        g = 2 * w
        m, v = 0.9 * m + 0.1 * g, np.maximum(0.999 * v, np.abs(g))
        w, power = w - 0.1 / (1 - power) * m / (v + 1e-8), power * 0.9
    found = _run(tf.contrib.opt.AdaMaxOptimizer(0.1), lambda w: tf.reduce_sum(tf.square(w)), 3)
    np.testing.assert_allclose(found, w, rtol=1e-5)
    for sparse in (tf.contrib.opt.NadamOptimizer(0.1), tf.contrib.opt.AdaMaxOptimizer(0.1)):
        rows = _run(sparse, _rows, 2)
        np.testing.assert_array_equal(rows[1], start[1])
        assert (rows[[0, 2]] < start[[0, 2]]).all()


def test_averages_are_saved_under_the_names_of_variables(graph: Any, tmp_path: Any) -> None:
    w = tf.Variable(2.0, name="w")
    optimizer = tf.contrib.opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.5), 0.5)
    with pytest.raises(RuntimeError, match="no averages before"):
        optimizer.swapping_saver()
    train = optimizer.minimize(w * 2)
    saver = optimizer.swapping_saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
        assert session.run(w) == 1
    assert tf.train.load_variable(path, "w") == 1.5  # (2 + 1) / 2
    with pytest.raises(ValueError, match="not among the variables"):
        optimizer.swapping_saver([w])


def test_variables_are_clipped(graph: Any) -> None:
    w = tf.Variable([[3.0, 4.0], [0.3, 0.4]])
    optimizer = tf.contrib.opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.0), {w: [1]}, 1.0)
    train = optimizer.minimize(tf.reduce_sum(w))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(w), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_scipy_minimizes(graph: Any) -> None:
    pytest.importorskip("scipy")
    x, y, seen, losses = tf.Variable([7.0, 7.0]), tf.Variable(3.0), list[Any](), list[Any]()
    scale = tf.placeholder(tf.float32, ())
    loss = scale * tf.reduce_sum(tf.square(x - [1.0, 2.0])) + tf.square(y)
    interface = tf.contrib.opt.ScipyOptimizerInterface
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        interface(loss, options={"maxiter": 50}).minimize(
            session, {scale: 2.0}, [loss], step_callback=seen.append, loss_callback=losses.append
        )
        np.testing.assert_allclose(session.run(x), [1, 2], atol=1e-4)
        assert abs(session.run(y)) < 1e-4 and seen[0].shape == (3,) and losses[0] > losses[-1]
        session.run(tf.global_variables_initializer())
        bounded = interface(loss, [x], var_to_bounds={x: ([2.0, -np.inf], np.inf)})
        bounded.minimize(session, {scale: 1.0})
        np.testing.assert_allclose(session.run([x, y])[0], [2, 2], atol=1e-4)
        met = interface(loss, [x], [x[0] - x[1]], [x[0] - 3.0], method="SLSQP")
        met.minimize(session, {scale: 1.0})
        np.testing.assert_allclose(session.run(x), [3, 3], atol=1e-3)
        with pytest.raises(ValueError, match="may not hold 'jac'"):
            interface(loss, jac=False).minimize(session, {scale: 1.0})
