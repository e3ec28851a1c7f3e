"""Candidate samplers and the losses that use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import candidates
from sparkflow_runtime.kernels.philox import Stream, Words

SAMPLED = {
    "log_uniform": [0, 6, 4, 1, 5, 3],
    "uniform": [5, 0, 3, 8, 7, 4],
    "learned_unigram": [7, 3, 0, 6, 2, 5],
}  # TensorFlow 2.21's
TRUE = np.array([[3], [5], [0]], np.int64)


def _run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(list(fetches))


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("name", ["log_uniform", "uniform", "learned_unigram"])
def test_samplers(graph: Any, name: str, unique: bool) -> None:
    draw = getattr(tf.nn, f"{name}_candidate_sampler")
    sampled, true_count, count = _run(*draw(TRUE, 1, 8, unique, 20, seed=3))
    assert sampled.shape == (8,) and true_count.shape == (3, 1) and count.shape == (8,)
    assert sampled.min() >= 0 and sampled.max() < 20 and (not unique or len(set(sampled)) == 8)
    assert (true_count > 0).all() and (not unique or (count <= 1).all())


def test_samplers_draw_tensorflows_classes(graph: Any) -> None:
    drawn = [getattr(tf.nn, f"{n}_candidate_sampler")([[1], [2]], 1, 6, True, 10, seed=3)[0] for n in SAMPLED]
    with tf.Session() as session:
        assert [v.tolist() for v in session.run(drawn)] == list(SAMPLED.values())


def test_learned_classes_of_billions_of_examples() -> None:
    learned = candidates._Learned(None, 4)  # type: ignore[arg-type]
    learned._weights[:] = 1, 1, 1 << 33, 1 << 33
    drawn = learned.draw(Words(Stream(3, 5)), 4000)
    assert set(drawn.tolist()) == {2, 3} and abs((drawn == 3).mean() - 0.5) < 0.05


def test_a_log_uniform_sampler_expects_what_it_draws(graph: Any) -> None:
    sampled, expected, _ = _run(
        *tf.nn.log_uniform_candidate_sampler(np.arange(6)[:, None], 6 // 6, 20000, False, 6, seed=1)
    )
    np.testing.assert_allclose(np.bincount(sampled, minlength=6), expected[:, 0], rtol=0.1)


def test_counts_and_refusals(graph: Any) -> None:
    sampled = _run(
        tf.nn.fixed_unigram_candidate_sampler(TRUE, 1, 50, False, 6, unigrams=[0, 0, 1, 3, 0, 1], seed=2)[0]
    )[0]
    assert set(sampled) <= {2, 3, 5}
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot draw"):
        _run(tf.nn.uniform_candidate_sampler(TRUE, 1, 30, True, 20)[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="true classes"):
        _run(tf.nn.uniform_candidate_sampler(TRUE, 1, 3, True, 4)[0])


def test_hits(graph: Any) -> None:
    rows, ids, weights = _run(*tf.nn.compute_accidental_hits(TRUE, [5, 1, 3, 3], 1))
    assert rows.tolist() == [0, 0, 1] and ids.tolist() == [2, 3, 0] and (weights < -1e38).all()


def _model() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    w, b = tf.constant(rng.normal(size=(6, 4)), tf.float32), tf.constant(rng.normal(size=6), tf.float32)
    return w, b, tf.constant(rng.normal(size=(3, 4)), tf.float32)


def test_with_all_classes_a_sampled_softmax_is_the_softmax(graph: Any) -> None:
    w, b, x = _model()
    values = tf.nn.all_candidate_sampler(TRUE, 1, 6, True)
    sampled = tf.nn.sampled_softmax_loss(w, b, TRUE, x, 6, 6, sampled_values=values)
    logits = tf.matmul(x, w, transpose_b=True) + b
    whole = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=TRUE[:, 0], logits=logits)
    np.testing.assert_allclose(*_run(sampled, whole), rtol=1e-5)


def test_nce(graph: Any) -> None:
    w, b, x = _model()
    values = tf.nn.all_candidate_sampler(TRUE, 1, 6, True)
    loss = tf.nn.nce_loss([w[:3], w[3:]], b, TRUE, x, 6, 6, sampled_values=values, partition_strategy="div")
    logits = tf.matmul(x, w, transpose_b=True) + b
    one_hot = tf.one_hot(TRUE[:, 0], 6)
    every = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros([3, 6]), logits=logits), 1)
    own = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones([3]), logits=tf.reduce_sum(logits * one_hot, 1))
    np.testing.assert_allclose(*_run(loss, every + own), rtol=1e-5)
    assert all(g is not None for g in tf.gradients(loss, [w, b, x]))


def test_poisson_and_zeros(evaluate: Any) -> None:
    z, c = np.array([0.5, 3.0]), np.array([0.2, 1.0])
    full = np.exp(c) - z * c + [0, 3 * np.log(3) - 3 + 0.5 * np.log(6 * np.pi)]
    np.testing.assert_allclose(evaluate(lambda a, b: tf.nn.log_poisson_loss(a, b, True), z, c), full, rtol=1e-6)
    assert evaluate(tf.nn.zero_fraction, np.array([0, 1, 0, 2])) == 0.5
