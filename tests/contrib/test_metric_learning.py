"""tf.contrib.losses.metric_learning, against sums over pairs and triplets that numpy writes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

losses = tf.contrib.losses.metric_learning
RNG = np.random.default_rng(3)
LABELS = np.array([0, 1, 2, 0, 1, 2, 2, 3])
ONE, OTHER = (RNG.normal(size=(8, 4)).astype(np.float32) for _ in range(2))
UNIT = ONE / np.linalg.norm(ONE, axis=1, keepdims=True)


def run(loss: Any, at: Any) -> tuple[float, np.ndarray]:
    with tf.Session() as session:
        value, slope = session.run([loss, tf.gradients(loss, at)[0]])
    assert np.isfinite(slope).all() and np.abs(slope).max() > 0
    return value, slope


def pairs() -> list[tuple[int, int]]:
    return [(a, p) for a in range(8) for p in range(8) if a != p and LABELS[a] == LABELS[p]]


def test_contrastive_loss(graph: Any) -> None:
    labels, x = np.arange(8) % 2, tf.constant(ONE)
    apart = np.linalg.norm(ONE - OTHER, axis=1)
    wanted = np.where(labels == 1, apart**2, np.maximum(4 - apart, 0) ** 2).mean()
    assert run(losses.contrastive_loss(labels, x, OTHER, margin=4.0), x)[0] == pytest.approx(wanted, rel=1e-5)


def test_triplet_semihard_loss(graph: Any) -> None:
    x = tf.constant(UNIT)
    apart = ((UNIT[:, None] - UNIT[None]) ** 2).sum(-1)
    lacking = []
    for a, p in pairs():
        strangers = apart[a][LABELS[a] != LABELS]
        beyond = strangers[strangers > apart[a, p]]
        lacking.append(max(0, 1 + apart[a, p] - (beyond.min() if len(beyond) else strangers.max())))
    assert run(losses.triplet_semihard_loss(LABELS, x), x)[0] == pytest.approx(np.mean(lacking), rel=1e-4)


def test_npairs_loss(graph: Any) -> None:
    x = tf.constant(ONE)
    likeness = (ONE @ OTHER.T).astype(np.float64)
    chances = likeness - np.log(np.exp(likeness).sum(1, keepdims=True))
    same = LABELS[:, None] == LABELS[None]
    wanted = -(chances * same / same.sum(1, keepdims=True)).sum(1).mean()
    wanted += 0.25 * 0.1 * ((ONE**2).sum(1).mean() + (OTHER**2).sum(1).mean())
    assert run(losses.npairs_loss(LABELS, x, OTHER, reg_lambda=0.1), x)[0] == pytest.approx(wanted, rel=1e-5)


def test_lifted_struct_loss(graph: Any) -> None:
    x = tf.constant(ONE)
    apart = np.linalg.norm(ONE[:, None] - ONE[None], axis=-1)
    near = lambda i: np.exp(1 - apart[i][LABELS[i] != LABELS]).sum()  # noqa: E731
    wanted = np.mean([max(0, np.log(near(a) + near(p)) + apart[a, p]) ** 2 for a, p in pairs()]) / 2
    assert run(losses.lifted_struct_loss(LABELS, x), x)[0] == pytest.approx(wanted, rel=1e-4)
