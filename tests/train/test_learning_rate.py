"""Schedules give TensorFlow's rates (2.21, float32)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph

STEPS = (0, 4, 7, 13, 37)
RATES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[float]]] = [
    ("exponential_decay", (10, 0.3), {}, [0.5, 0.3089, 0.215256, 0.104527, 0.005812]),
    ("exponential_decay", (10, 0.3), {"staircase": True}, [0.5, 0.5, 0.5, 0.15, 0.0135]),
    ("natural_exp_decay", (10, 0.3), {}, [0.5, 0.44346, 0.405292, 0.338528, 0.164779]),
    ("natural_exp_decay", (10, 0.3), {"staircase": True}, [0.5, 0.5, 0.5, 0.370409, 0.203285]),
    ("inverse_time_decay", (10, 0.3), {}, [0.5, 0.446429, 0.413223, 0.359712, 0.236967]),
    ("inverse_time_decay", (10, 0.3), {"staircase": True}, [0.5, 0.5, 0.5, 0.384615, 0.263158]),
    ("polynomial_decay", (10, 0.1, 2.0), {}, [0.5, 0.244, 0.136, 0.1, 0.1]),
    ("polynomial_decay", (10, 0.1, 2.0), {"cycle": True}, [0.5, 0.244, 0.136, 0.149, 0.10225]),
    ("cosine_decay", (10, 0.1), {}, [0.5, 0.344529, 0.142748, 0.05, 0.05]),
    ("cosine_decay_restarts", (5,), {}, [0.5, 0.047746, 0.452254, 0.047746, 0.496922]),
    ("cosine_decay_restarts", (5, 1.0, 0.5, 0.1), {}, [0.5, 0.092971, 0.197264, 0.088868, 0.052301]),
    ("linear_cosine_decay", (10, 0.7, 0.1), {}, [0.5505, 0.142708, 0.000697, 0.017775, 0.017775]),
]


@pytest.mark.parametrize("name, args, how, wanted", RATES)
def test_rates(graph: Graph, name: str, args: Any, how: Any, wanted: list[float]) -> None:
    step = tf.placeholder(tf.int64, [])
    rate = getattr(tf.train, name)(0.5, step, *args, **how)
    with tf.Session() as session:
        found = [session.run(rate, {step: at}) for at in STEPS]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_noise_on_a_cosine_is_of_the_variance_that_is_left(graph: Graph) -> None:
    step = tf.placeholder(tf.int64, [])
    quiet = tf.train.linear_cosine_decay(2.0, step, 10)
    silent = tf.train.noisy_linear_cosine_decay(2.0, step, 10, initial_variance=0.0)
    noisy = tf.train.noisy_linear_cosine_decay(2.0, step, 10, initial_variance=4.0, variance_decay=0.5)
    with tf.Session() as session:
        for at in (0, 3, 8):
            wanted, wave = session.run(quiet, {step: at}), 2 * 0.5 * (1 + np.cos(np.pi * at / 10))
            assert abs(session.run(silent, {step: at}) - wanted) < 1e-6
            noise = [(session.run(noisy, {step: at}) - wanted) / wave for _ in range(400)]
            assert abs(np.mean(noise)) < 0.5 and 0.8 < np.var(noise) / (4 / (1 + at) ** 0.5) < 1.25


def test_piecewise_constant(graph: Graph) -> None:
    step = tf.placeholder(tf.int64, [])
    rate = tf.train.piecewise_constant(step, [3, 7], [1.0, 0.5, 0.25])
    with tf.Session() as session:
        assert [session.run(rate, {step: at}) for at in (0, 3, 4, 7, 8)] == [1, 1, 0.5, 0.5, 0.25]


def test_whole_numbers_are_no_rate(graph: Graph) -> None:
    """They would be 0 from the first decay on."""
    step = tf.constant(3)
    for build in (tf.train.exponential_decay, tf.train.polynomial_decay):
        with pytest.raises(TypeError, match="learning_rate must be a float, got 1 of int32"):
            build(1, step, 10, 0)


def test_refusals(graph: Graph) -> None:
    with pytest.raises(ValueError, match="length of boundaries"):
        tf.train.piecewise_constant(tf.constant(1), [1, 2], [1.0])
    with pytest.raises(ValueError, match="must have the same dtype as x"):
        tf.train.piecewise_constant(tf.constant(1), [1.5], [1.0, 2.0])
    with pytest.raises(ValueError, match="all with the same dtype"):
        tf.train.piecewise_constant(tf.constant(1), [1], [1.0, 2])
    with pytest.raises(ValueError, match="global_step is required for cosine_decay"):
        tf.train.cosine_decay(0.1, None, 10)
