"""tf.contrib.losses against numpy, by the formulas of TensorFlow 1's own contrib."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

losses = tf.contrib.losses
P = np.array([[4.0, 8.0, 12.0], [8.0, 1.0, 3.0]], np.float32)
Y = np.array([[1.0, 9.0, 2.0], [-5.0, -2.0, 6.0]], np.float32)


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(list(fetches))


@pytest.mark.parametrize("weights", [2.3, [1.2, 0.5], [0.0, 0.5], [[1.2], [0.5]], [[3.0, 0.0, 2.0], [2.0, 6.0, 0.0]]])
def test_weights_have_the_first_axes_of_the_losses(graph: Any, weights: Any) -> None:
    w = np.asarray(weights, np.float32)
    w = np.broadcast_to(w[:, None] if w.ndim == 1 else w, P.shape)
    for function, each in ((losses.mean_squared_error, (P - Y) ** 2), (losses.absolute_difference, abs(P - Y))):
        want = (each * w).sum() / (w != 0).sum()
        np.testing.assert_allclose(run(function(tf.constant(P), tf.constant(Y), weights))[0], want, rtol=1e-6)
    assert len(tf.losses.get_losses()) == 2


def test_weights_of_each_example(graph: Any) -> None:
    logits, labels = tf.constant([[10.0, 0.0], [0.0, 10.0]]), tf.constant([[0, 1], [0, 1]])
    got = run(
        losses.softmax_cross_entropy(logits, labels, [1.2, 3.4]),
        losses.sparse_softmax_cross_entropy(logits, tf.constant([[1], [1]]), [1.2, 3.4]),
        losses.sparse_softmax_cross_entropy(logits, [1, 1], [0.0, 0.0]),
        losses.cosine_distance(tf.constant([[1.0, 0.0], [0.0, 1.0]]), tf.constant([[0.0, 1.0]] * 2), 1, [1.0, 0.0]),
    )
    np.testing.assert_allclose(got, [1.2 * 10 / 2, 1.2 * 10 / 2, 0.0, 1.0], rtol=1e-4)


def test_pairs_are_divided_by_the_square_of_their_number(graph: Any) -> None:
    def want(weights: Any) -> float:
        pairs = (P - Y)[:, :, None] - (P - Y)[:, None, :]
        return float((np.square(pairs).mean((1, 2)) * weights).sum())

    pairwise = losses.mean_pairwise_squared_error
    got = run(*(pairwise(tf.constant(P), tf.constant(Y), w) for w in (1.0, 2.3, [1.2, 3.4], [0.0, 0.0])))
    np.testing.assert_allclose(got, [want(w) for w in (1.0, 2.3, np.array([1.2, 3.4]), 0.0)], rtol=1e-6)


def test_what_does_not_fit_is_refused(graph: Any) -> None:
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="the ranks must be known"):
        losses.compute_weighted_loss(unknown)
    with pytest.raises(ValueError, match="the ranks must be known"):
        losses.cosine_distance(tf.constant(P), tf.constant(Y), 1, weights=unknown)
    with pytest.raises(ValueError, match="have the first axes of the losses"):
        losses.mean_squared_error(tf.constant(P), tf.constant(Y), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="incompatible"):
        losses.hinge_loss(tf.constant([[-1.0], [2.1]]), tf.constant([0.0, 1.0]))
    with tf.contrib.framework.arg_scope([losses.add_loss], loss_collection=None):
        losses.absolute_difference(tf.constant(P), tf.constant(Y))
    assert not tf.losses.get_losses()
