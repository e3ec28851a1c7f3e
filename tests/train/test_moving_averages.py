"""ExponentialMovingAverage against its recurrence, and the names by which it is restored."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def test_shadows_follow(graph: Any) -> None:
    v = tf.Variable(10.0, name="v")
    ema = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([tf.assign(v, 20.0)]):
        move = ema.apply([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(ema.average(v)) == 10, "starts as the initial value"
        session.run(move)
        assert session.run(ema.average(v)) == pytest.approx(0.9 * 10 + 0.1 * 20)
    assert ema.average_name(v) == "v/ExponentialMovingAverage" == ema.average(v).op.name
    assert tf.moving_average_variables() == [v]


def test_early_averages_move_faster(graph: Any) -> None:
    v, n = tf.Variable(0.0), tf.placeholder(tf.float32, [])
    ema = tf.train.ExponentialMovingAverage(0.999, num_updates=n)
    move, one = ema.apply([v]), tf.assign(v, 1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(one)
        session.run(move, {n: 0})
        assert session.run(ema.average(v)) == pytest.approx(0.9), "decay (1 + 0) / (10 + 0)"


def test_averages_of_tensors_and_their_bias(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    y = x * 2
    plain, fair = tf.train.ExponentialMovingAverage(0.9), tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    moves = [plain.apply([y]), fair.apply([y])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(moves, {x: 5.0})
        assert session.run(plain.average(y)) == pytest.approx(10 * (1 - 0.9**2), rel=1e-5)
        assert session.run(fair.average(y)) == pytest.approx(10, rel=1e-5)


def test_what_is_restored(graph: Any) -> None:
    v, step = tf.Variable(1.0, name="v"), tf.Variable(0, trainable=False, name="step")
    ema = tf.train.ExponentialMovingAverage(0.9)
    ema.apply([v])
    assert ema.variables_to_restore() == {"v/ExponentialMovingAverage": v, "step": step}


def test_refusals(graph: Any) -> None:
    ema = tf.train.ExponentialMovingAverage(0.9)
    with pytest.raises(TypeError, match="must be half, float, or double"):
        ema.apply([tf.Variable(1)])
    v = tf.Variable(1.0)
    ema.apply([v])
    with pytest.raises(ValueError, match="already computed"):
        ema.apply([v])
    assert ema.average(tf.Variable(2.0)) is None
