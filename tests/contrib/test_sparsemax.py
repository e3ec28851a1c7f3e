"""tf.contrib.sparsemax, against a search for the threshold, and its slopes."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow as tf

LOGITS = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32) * 2
LABELS = np.eye(5, dtype=np.float32)[[0, 1, 2, 3, 4, 0]]


def projected(row: np.ndarray) -> np.ndarray:
    low, high = row.min() - 1, row.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(row - low, 0)


def test_sparsemax_and_its_loss(graph: Any) -> None:
    x = tf.constant(LOGITS)
    chances = tf.contrib.sparsemax.sparsemax(x)
    losses = tf.contrib.sparsemax.sparsemax_loss(x, chances, LABELS)
    weights = tf.constant(LOGITS[::-1].copy())
    with tf.Session() as session:
        got, loss, slope, through = session.run(
            [chances, losses, tf.gradients(losses, x)[0], tf.gradients(chances * weights, x)[0]]
        )
    wanted = np.array([projected(row) for row in LOGITS.astype(np.float64)])
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    assert (got == 0).any() and (loss >= 0).all()
    np.testing.assert_allclose(slope, wanted - LABELS, atol=1e-5)
    support = wanted > 0
    mean = (LOGITS[::-1] * support).sum(1, keepdims=True) / support.sum(1, keepdims=True)
    np.testing.assert_allclose(through, np.where(support, LOGITS[::-1] - mean, 0), atol=1e-5)


def test_large_logits(graph: Any) -> None:
    with tf.Session() as session:
        found = session.run(tf.contrib.sparsemax.sparsemax([[1e6, 1e6 + 1, 0.0], [-1e6, -1e6, -1e6]]))
    np.testing.assert_allclose(found, np.array([[0, 1, 0], [1 / 3] * 3]), atol=1e-6)
