"""Metrics of ranks and covariances over several batches, against numpy on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(7)
SCORES = RNG.random((12, 5)).astype(np.float32)
LABELS = np.stack([RNG.permutation(5)[:2] for _ in range(12)])


def _run(build: Any, *arrays: np.ndarray) -> float:
    """The value after three batches, which the last update has given too."""
    inputs = [tf.placeholder(a.dtype, [4, *a.shape[1:]]) for a in arrays]
    value, update = build(*inputs)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for batch in range(0, 12, 4):
            last = session.run(update, {t: a[batch : batch + 4] for t, a in zip(inputs, arrays)})
        found = session.run(value)
    np.testing.assert_allclose(found, last, rtol=1e-5)
    return float(found)


def _hits(k: int) -> np.ndarray:
    """Whether the class at each of the k first ranks is a label."""
    ranked = np.argsort(-SCORES, axis=1, kind="stable")[:, :k]
    return (ranked[:, :, None] == LABELS[:, None]).any(2)


@pytest.mark.parametrize("k", [1, 3])
def test_at_k(graph: Any, k: int) -> None:
    assert np.isclose(_run(lambda y, s: tf.metrics.precision_at_k(y, s, k), LABELS, SCORES), _hits(k).mean())
    assert np.isclose(_run(lambda y, s: tf.metrics.recall_at_k(y, s, k), LABELS, SCORES), _hits(k).sum() / LABELS.size)
    running = np.cumsum(_hits(k), 1) / np.arange(1, k + 1) * _hits(k)
    want = (running.sum(1) / min(2, k)).mean()
    assert np.isclose(_run(lambda y, s: tf.metrics.average_precision_at_k(y, s, k), LABELS, SCORES), want)


@pytest.mark.parametrize(
    "labels, wanted",
    [([1, -1], 1), ([-1, 0], 0.5), ([5, 0], 0.5), ([0, 0], 0.25), ([0, 1], 1), ([2, 1], 0.5), ([-1, -1], np.nan)],
)
def test_labels_that_are_no_classes_are_not_missed(graph: Any, labels: list[int], wanted: float) -> None:
    """A row padded with -1 had half its precision; the values are TensorFlow's."""
    _, update = tf.metrics.average_precision_at_k(tf.constant([labels], tf.int64), [[0.1, 0.9, 0.05]], 2)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        found = session.run(update)
    np.testing.assert_allclose(found, wanted)


def test_trade_offs(graph: Any) -> None:
    truth, chance = LABELS[:, 0] > 1, SCORES[:, 0]
    found = _run(lambda y, p: tf.metrics.sensitivity_at_specificity(y, p, 0.5), truth, chance)
    limits = [-1e-7, *((i + 1) / 199 for i in range(198)), 1 + 1e-7]
    rates = [((chance[truth] > t).mean(), (chance[~truth] <= t).mean()) for t in limits]
    assert np.isclose(found, min(rates, key=lambda pair: abs(pair[1] - 0.5))[0], atol=1e-5)
    with pytest.raises(ValueError, match="in the range"):
        tf.metrics.specificity_at_sensitivity([1], [0.5], 1.5)


def test_covariance_and_correlation(graph: Any) -> None:
    m = tf.contrib.metrics
    x, y = SCORES[:, 0], SCORES[:, 1] + SCORES[:, 0]
    assert np.isclose(_run(m.streaming_covariance, x, y), np.cov(x, y)[0, 1], rtol=1e-4)
    assert np.isclose(_run(m.streaming_pearson_correlation, x, y), np.corrcoef(x, y)[0, 1], rtol=1e-4)


def test_older_names_take_predictions_first(graph: Any) -> None:
    m = tf.contrib.metrics
    guessed, known = (SCORES[:, 0] > 0.5).astype(np.int32), (SCORES[:, 1] > 0.5).astype(np.int32)
    assert np.isclose(_run(m.streaming_accuracy, guessed, known), (guessed == known).mean())
    values, updates = m.aggregate_metric_map({"a": m.streaming_precision(tf.constant(guessed), tf.constant(known))})
    assert list(values) == list(updates) == ["a"]
    with tf.Session() as session:
        assert np.isclose(session.run(m.accuracy(guessed, known)), (guessed == known).mean())
