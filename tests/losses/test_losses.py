"""Losses against their formulas, weights and reductions against numpy; gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(0)
P, Y = RNG.random((4, 3)).astype("f"), RNG.random((4, 3)).astype("f")
Z, BITS = (RNG.random((4, 3)) * 4 - 2).astype("f"), (RNG.random((4, 3)) > 0.5).astype("f")
HOT = np.eye(3, dtype="f")[[0, 2, 1, 1]]
CLASSES = HOT.argmax(1)
L = tf.losses


def _log_softmax(z: Any) -> Any:
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def _bce(y: Any, z: Any) -> Any:
    return np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "absolute_difference": (lambda **k: L.absolute_difference(Y, P, **k), np.abs(P - Y)),
    "mean_squared_error": (lambda **k: L.mean_squared_error(Y, P, **k), (P - Y) ** 2),
    "huber_loss": (
        lambda **k: L.huber_loss(Y, Z, **k),
        np.where(np.abs(Z - Y) <= 1, 0.5 * (Z - Y) ** 2, np.abs(Z - Y) - 0.5),
    ),
    "log_loss": (lambda **k: L.log_loss(BITS, P, **k), -BITS * np.log(P + 1e-7) - (1 - BITS) * np.log(1 - P + 1e-7)),
    "hinge_loss": (lambda **k: L.hinge_loss(BITS, Z, **k), np.maximum(0, 1 - (2 * BITS - 1) * Z)),
    "cosine_distance": (lambda **k: L.cosine_distance(Y, P, 1, **k), 1 - (P * Y).sum(1, keepdims=True)),
    "sigmoid_cross_entropy": (
        lambda **k: L.sigmoid_cross_entropy(BITS, Z, label_smoothing=0.1, **k),
        _bce(BITS * 0.9 + 0.05, Z),
    ),
    "softmax_cross_entropy": (
        lambda **k: L.softmax_cross_entropy(HOT, Z, label_smoothing=0.3, **k),
        -((HOT * 0.7 + 0.1) * _log_softmax(Z)).sum(1),
    ),
    "sparse_softmax_cross_entropy": (
        lambda **k: L.sparse_softmax_cross_entropy(CLASSES[:, None], Z, **k),
        -(HOT * _log_softmax(Z)).sum(1),
    ),
}
WEIGHTS = {"none": 1.0, "zero": 0.0, "rows": np.array([[1.0], [0.0], [2.0], [0.5]], "f")}
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    L.Reduction.NONE: lambda x, w: x * w,
    L.Reduction.SUM: lambda x, w: (x * w).sum(),
    L.Reduction.MEAN: lambda x, w: (x * w).sum() / w.sum() if w.sum() else 0.0,
    L.Reduction.SUM_OVER_BATCH_SIZE: lambda x, w: (x * w).sum() / x.size,
    L.Reduction.SUM_BY_NONZERO_WEIGHTS: lambda x, w: (x * w).sum() / max((w != 0).sum(), 1),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", CASES)
def test_values(graph: Any, name: str, weights: str, reduction: str) -> None:
    build, expected = CASES[name]
    w = np.asarray(WEIGHTS[weights], "f")
    w = w[:, 0] if w.ndim and expected.ndim == 1 else w
    loss = build(weights=w, reduction=reduction)
    want = REDUCTIONS[reduction](expected, np.broadcast_to(w, expected.shape))
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(loss), want, rtol=2e-5, atol=1e-6)
    assert L.get_losses() == [loss]


def test_mean_pairwise_squared_error(graph: Any) -> None:
    d = (P - Y).astype("d")
    want = np.mean([np.mean([(a - b) ** 2 for i, a in enumerate(r) for j, b in enumerate(r) if i != j]) for r in d])
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(L.mean_pairwise_squared_error(Y, P)) / 4, want, rtol=1e-5)


def test_the_total_adds_regularization(graph: Any) -> None:
    L.add_loss(tf.constant(2.0))
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(3.0))
    with tf.Session() as session:
        assert session.run([L.get_total_loss(), L.get_total_loss(False), L.get_regularization_loss()]) == [5, 2, 3]
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(L.get_regularization_loss()) == 0


@pytest.mark.parametrize("weights", [np.ones(4, "f"), np.ones((4, 2), "f"), np.ones((1, 4, 3), "f")])
def test_weights_that_do_not_fit(graph: Any, weights: Any) -> None:
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        L.mean_squared_error(Y, P, weights)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        L.mean_squared_error(Y, P[:, :2])
    with pytest.raises(ValueError, match="Invalid Reduction Key 'mean'"):
        L.mean_squared_error(Y, P, reduction="mean")
    with pytest.raises(ValueError, match="must not be None"):
        L.log_loss(None, P)


def test_a_gradient_flows(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    (g,) = tf.gradients(L.huber_loss(Y, x), [x])
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(g, {x: Z}), np.clip(Z - Y, -1, 1) / 12, rtol=1e-5)
