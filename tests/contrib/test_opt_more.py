"""Optimizers of tf.contrib.opt that leave updates out, those that go by signs, and LARS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

opt = tf.contrib.opt
START = np.arange(1.0, 7).reshape(3, 2)


def _trained(optimizer: Any, grads: list[Any], start: Any = START) -> np.ndarray:
    """A variable after a step with each of the gradients, by the global step."""
    w, step = tf.Variable(start, dtype=tf.float64, name="w"), tf.train.create_global_step()
    given = tf.placeholder(tf.float64, start.shape)
    train = optimizer.apply_gradients([(given, w)], step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for grad in grads:
            session.run(train, {given: grad})
        return session.run(w)


@pytest.mark.parametrize("power", [False, True])
def test_signs_that_agree_make_larger_steps(graph: Any, power: bool) -> None:
    grads = [np.full((3, 2), 0.5), -np.full((3, 2), 0.25), np.zeros((3, 2)), START - 3]
    decay = opt.get_linear_decay_fn(8)
    made = opt.PowerSignOptimizer(0.1, base=2.0) if power else opt.AddSignOptimizer(0.1, alpha=1.5, sign_decay_fn=decay)
    w, m = START, np.zeros((3, 2))
    for step, g in enumerate(grads):
        m = 0.9 * m + 0.1 * g
        agreement = np.sign(g) * np.sign(m)
        w = w - 0.1 * g * (2.0**agreement if power else 1.5 + (1 - step / 8) * agreement)
    np.testing.assert_allclose(_trained(made, grads), w, rtol=1e-6)


@pytest.mark.parametrize("name", ["PowerSignOptimizer", "AddSignOptimizer"])
def test_signs_of_rows(graph: Any, name: str) -> None:
    """Rows of a sparse gradient move as those of a dense one, the others not at all, but their m decays."""
    made = getattr(opt, name)(0.1)
    w = tf.Variable(START, dtype=tf.float64)
    train = made.minimize(tf.reduce_sum(tf.square(tf.gather(w, [2, 0, 2]))))
    dense = tf.Variable(START, dtype=tf.float64)
    other = getattr(opt, name)(0.1).minimize(tf.reduce_sum(tf.square(tf.gather(dense, [2, 0, 2]) + 0 * dense)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run([train, other])
        np.testing.assert_array_equal(session.run(w)[1], START[1])
        np.testing.assert_allclose(*session.run([w, dense]), rtol=1e-6)
        assert made.get_slot_names() == ["m"]


def test_how_signs_decay(graph: Any) -> None:
    steps = np.array([0, 2, 5, 8, 9])
    done = np.minimum(steps, 8) / 8
    cases = [
        (opt.get_linear_decay_fn(8), 1 - done),
        (opt.get_cosine_decay_fn(8), (1 + np.cos(np.pi * done)) / 2),
        (opt.get_cosine_decay_fn(8, num_periods=2, zero_after=1), (1 + np.cos(4 * np.pi * done)) / 2 * (2 * done < 1)),
        (opt.get_restart_decay_fn(8, num_periods=2), (1 + np.cos(np.pi * (2 * done % 1))) / 2),
        (opt.get_restart_decay_fn(8, 3, 2), (1 + np.cos(np.pi * (3 * done % 1))) / 2 * (3 * done < 2)),
    ]
    with tf.Session() as session:
        for decay, want in cases:
            found = session.run([decay(tf.constant(step)) for step in steps])
            np.testing.assert_allclose(found, want, atol=1e-6)
    with pytest.raises(ValueError, match="global_step is required"):
        opt.get_linear_decay_fn(8)(None)
    with pytest.raises(ValueError, match="zero_after must be larger than 0, got 0"):
        opt.get_cosine_decay_fn(8, zero_after=0)


def test_lars(graph: Any) -> None:
    g, w, m = np.cos(START), START, 0.0
    for _ in range(3):
        ratio = 0.01 * np.linalg.norm(w) / (np.linalg.norm(g) + 0.1 * np.linalg.norm(w))
        m = 0.9 * m + 0.5 * ratio * (g + 0.1 * w)
        w = w - m
    made = opt.LARSOptimizer(0.5, weight_decay=0.1, eeta=0.01)
    np.testing.assert_allclose(_trained(made, [g] * 3), w, rtol=1e-6)


def test_lars_leaves_alone_what_it_is_told_to(graph: Any) -> None:
    found = _trained(opt.LARSOptimizer(0.5, momentum=0.0, skip_list=["w"]), [START])
    np.testing.assert_allclose(found, START / 2)
