"""tf.contrib.metrics: what chooses among thresholds, numbers of examples, and covariances, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

metrics = tf.contrib.metrics
RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, 200)
CHANCES = np.clip(RNG.normal(0.35 + 0.3 * LABELS, 0.25), 0, 1).astype(np.float32)
WEIGHTS = RNG.uniform(0.5, 2, 200).astype(np.float32)
LIMITS = np.array([-1e-7, *(np.arange(1, 199) / 199), 1 + 1e-7])


def streamed(metric: Any) -> tuple[float, float]:
    """(value, what the last update gave) after four batches."""
    y, p, w = (tf.placeholder(tf.float32, [50]) for _ in range(3))
    value, update = metric(y, p, w)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for i in range(0, 200, 50):
            part = slice(i, i + 50)
            last = session.run(update, {y: LABELS[part], p: CHANCES[part], w: WEIGHTS[part]})
        return session.run(value), last


def rates() -> tuple[np.ndarray, np.ndarray]:
    hit = np.array([WEIGHTS[(t < CHANCES) & (LABELS == 1)].sum() for t in LIMITS])
    positive = np.array([WEIGHTS[t < CHANCES].sum() for t in LIMITS])
    return hit / (positive + 1e-7), hit / WEIGHTS[LABELS == 1].sum()


def test_f1_score(graph: Any) -> None:
    precision, recall = rates()
    wanted = (2 * precision * recall / (precision + recall + 1e-7)).max()
    assert streamed(metrics.f1_score) == pytest.approx((wanted, wanted), rel=1e-5)


def test_recall_at_precision(graph: Any) -> None:
    precision, recall = rates()
    wanted = recall[np.abs(precision - 0.8).argmin()]
    got = streamed(lambda y, p, w: metrics.recall_at_precision(y, p, 0.8, w))
    assert got == pytest.approx((wanted, wanted), rel=1e-5)
    least = precision[precision >= 0.8].min()
    strict = streamed(lambda y, p, w: metrics.recall_at_precision(y, p, 0.8, w, strict_mode=True))
    assert strict[0] == pytest.approx(recall[precision == least][0], rel=1e-5)
    assert streamed(lambda y, p, w: metrics.recall_at_precision(y, p, 1.0, w, strict_mode=True))[0] in (0, 1 / 200)
    with pytest.raises(ValueError, match=r"got 2"):
        metrics.recall_at_precision([1], [0.5], 2)


def test_precision_at_recall(graph: Any) -> None:
    precision, recall = rates()
    wanted = precision[(recall >= 0.7).sum() - 1]
    got = streamed(lambda y, p, w: metrics.precision_at_recall(y, p, 0.7, w))
    assert got == pytest.approx((wanted, wanted), rel=1e-5)
    with pytest.raises(ValueError, match=r"got -1"):
        metrics.precision_at_recall([1], [0.5], -1)


def test_count(graph: Any) -> None:
    assert streamed(lambda y, p, w: metrics.count(p, w)) == pytest.approx((WEIGHTS.sum(),) * 2, rel=1e-5)
    assert streamed(lambda y, p, w: metrics.count(p)) == (200, 200)


def test_counts_at_thresholds(graph: Any) -> None:
    wanted = [((t < CHANCES) & (LABELS == 0)).sum() for t in (0.2, 0.8)]
    value, last = streamed(lambda y, p, w: metrics.streaming_false_positives_at_thresholds(p, y, [0.2, 0.8]))
    assert list(value) == list(last) == wanted  # type: ignore[call-overload]


def test_a_covariance_needs_two_values(graph: Any) -> None:
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    value, update = metrics.streaming_covariance(x, y)
    names = {v.op.name for v in tf.local_variables()}
    assert names == {f"covariance/{n}" for n in ("count", "mean_prediction", "mean_label", "comoment")}
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert np.isnan([session.run(value), session.run(update, {x: [3.0], y: [1.0]})]).all()
        assert session.run(update, {x: [5.0, 4.0], y: [2.0, 0.0]}) == pytest.approx(np.cov([3, 5, 4], [1, 2, 0])[0, 1])


def test_a_confusion_matrix_is_there_too() -> None:
    assert tf.contrib.metrics.confusion_matrix is tf.confusion_matrix
