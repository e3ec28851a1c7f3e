"""ExponentialMovingAverage against its recurrence, and the names by which it is restored."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    names = ["", "_1", "_1/biased", "_1/local_step"]  # as TensorFlow's checkpoints have them
    assert [v.op.name for v in tf.global_variables()] == [f"mul/ExponentialMovingAverage{n}" for n in names]
    assert isinstance(fair.average(y), tf.Variable)


def test_what_is_restored(graph: Any) -> None:
    v, step = tf.Variable(1.0, name="v"), tf.Variable(0, trainable=False, name="step")
    ema = tf.train.ExponentialMovingAverage(0.9)
    ema.apply([v])
    assert ema.variables_to_restore() == {"v/ExponentialMovingAverage": v, "step": step}
    average = ema.average(v)  # of a variable that is restored as itself, it is too: else nothing would give it a value
    assert ema.variables_to_restore([]) == {"v": v, "v/ExponentialMovingAverage": average, "step": step}


def test_refusals(graph: Any) -> None:
    ema = tf.train.ExponentialMovingAverage(0.9)
    with pytest.raises(TypeError, match="must be half, float, or double"):
        ema.apply([tf.Variable(1)])
    v = tf.Variable(1.0)
    ema.apply([v])
    with pytest.raises(ValueError, match="already computed"):
        ema.apply([v])
    assert ema.average(tf.Variable(2.0)) is None


def test_assign_moving_average(graph: Any) -> None:
    from sparkflow.train.moving_averages import assign_moving_average

    x = tf.placeholder(tf.float64, [2])
    with tf.variable_scope("bn"):
        debiased = tf.get_variable("m", [2], tf.float64, tf.zeros_initializer(), trainable=False)
        plain = tf.get_variable("n", [2], tf.float64, tf.ones_initializer(), trainable=False)
    moves = [assign_moving_average(debiased, x, 0.9), assign_moving_average(plain, x, 0.8, zero_debias=False)]
    assert [v.op.name for v in tf.global_variables()[2:]] == ["bn/m/biased", "bn/m/local_step"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(moves, {x: [1.0, 2.0]})
        got = session.run(moves, {x: [3.0, 2.0]})
    np.testing.assert_allclose(got[0], [(0.09 * 1 + 0.1 * 3) / 0.19, 2.0])
    np.testing.assert_allclose(got[1], [1.4, 0.8 * 1.2 + 0.4])


def test_weighted_moving_average(graph: Any) -> None:
    from sparkflow.train.moving_averages import weighted_moving_average

    x = tf.placeholder(tf.float64, [])
    average = weighted_moving_average(x, 0.5, x + 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(average, {x: 2.0}) == 2
        np.testing.assert_allclose(session.run(average, {x: 4.0}), (0.25 * 6 + 0.5 * 20) / (0.25 * 3 + 0.5 * 5))
