"""tf.keras.losses: against what numpy makes of the same arrays; weights, sums, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

L = tf.keras.losses
T = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
P = np.array([[0.2, 0.7, 0.1], [0.25, 0.25, 0.5]])
APART = P - T
ONE = np.eye(3)[[2, 0]]
SOFT = ONE * 0.7 + 0.1

VALUES: dict[str, tuple[Any, Any]] = {
    "mse": (L.mse, (APART**2).mean(1)),
    "mean_absolute_error": (L.mean_absolute_error, np.abs(APART).mean(1)),
    "mape": (lambda t, p: L.MAPE(t + 1, p + 1), 100 * np.abs(APART / (T + 1)).mean(1)),
    "msle": (L.msle, ((np.log1p(P) - np.log1p(T)) ** 2).mean(1)),
    "hinge": (L.hinge, np.maximum(1 - (2 * T - 1) * P, 0).mean(1)),
    "hinge of signs": (lambda t, p: L.squared_hinge(2 * t - 1, p), (np.maximum(1 - (2 * T - 1) * P, 0) ** 2).mean(1)),
    "categorical_hinge": (L.categorical_hinge, np.maximum(((1 - T) * P).max(1) - (T * P).sum(1) + 1, 0)),
    "logcosh": (L.logcosh, np.log(np.cosh(APART)).mean(1)),
    "poisson": (L.poisson, (P - T * np.log(P)).mean(1)),
    "kld": (lambda t, p: L.KLD(p[:, ::-1], p), (P[:, ::-1] * np.log(P[:, ::-1] / P)).sum(1)),
    "cosine_similarity": (L.cosine_similarity, -(T * P).sum(1) / np.sqrt((T**2).sum(1) * (P**2).sum(1))),
    "huber": (lambda t, p: L.huber(t, p, 0.5),
              np.where(np.abs(APART) <= 0.5, APART**2 / 2, np.abs(APART) / 2 - 0.125).mean(1)),
    "binary_crossentropy": (L.binary_crossentropy, -(T * np.log(P) + (1 - T) * np.log(1 - P)).mean(1)),
    "of logits": (lambda t, p: L.binary_crossentropy(t, p, True, 0.2),
                  (np.log1p(np.exp(P)) - P * (T * 0.8 + 0.1)).mean(1)),
    "categorical_crossentropy": (lambda t, p: L.categorical_crossentropy(ONE, p, label_smoothing=0.3),
                                 -(SOFT * np.log(P)).sum(1)),
    "sparse": (lambda t, p: L.sparse_categorical_crossentropy([2, 0], p), -np.log([0.1, 0.25])),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(graph: Any, name: str) -> None:
    loss, wanted = VALUES[name]
    t, p = tf.constant(T), tf.constant(P)
    with tf.Session() as session:
        found = session.run(loss(t, p))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_objects(graph: Any) -> None:
    each = (APART**2).mean(1)
    weights = np.array([3.0, 1.0])
    cases = [
        (L.MeanSquaredError()(T, P), each.mean()),
        (L.MeanSquaredError()(T, P, sample_weight=weights), (each * weights).mean()),
        (L.MeanSquaredError(reduction=L.Reduction.SUM)(T, P, weights[:, None]), (each * weights).sum()),
        (L.MeanSquaredError("none", "mine")(T, P, 2.0), each * 2),
        (L.MeanAbsoluteError()(T[:, :1], P[:, 0]), np.abs(APART[:, 0]).mean()),
        (L.BinaryCrossentropy(True, 0.2)(T, P), VALUES["of logits"][1].mean()),
        (L.SparseCategoricalCrossentropy()(np.array([[2], [0]]), P), -np.log([0.1, 0.25]).mean()),
        (L.CosineSimilarity(axis=-1)(T, P), VALUES["cosine_similarity"][1].mean()),
        (L.get("mse")(T, P), each),
        (L.get("Huber")(T, P), (APART**2 / 2).mean()),
    ]
    with tf.Session() as session:
        for found, wanted in cases:
            np.testing.assert_allclose(session.run(found), wanted, rtol=1e-5)
    assert L.Huber(delta=0.3).get_config() == {"reduction": "auto", "name": "huber", "delta": 0.3}


def test_a_loss_of_ones_own_is_trained(graph: Any) -> None:
    class Fourth(L.Loss):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return tf.reduce_mean((y_true - y_pred) ** 4, -1)

    w = tf.Variable(0.0)
    loss = Fourth(name="fourth")([[1.0], [1.0]], w * [[1.0], [1.0]])
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert loss.op.name == "fourth/value" and abs(session.run(w) - 0.4) < 1e-6


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="Invalid Reduction Key 'mean'"):
        L.MeanSquaredError(reduction="mean")
    with pytest.raises(TypeError, match="Huber takes delta, reduction, name, got"):
        L.Huber(from_logits=True)
    with pytest.raises(ValueError, match="Unknown loss function: 'array'"):
        L.get("array")
    with pytest.raises(NotImplementedError, match="define call"):
        L.Loss()(T, P)


def test_the_loss_of_what_saturates_has_a_slope(graph: Any) -> None:
    """TensorFlow takes the logits of what sigmoid and softmax give."""
    logits = tf.constant([[40.0, -40.0]])
    right = tf.constant([[0.0, 1.0]])
    found = [
        tf.keras.losses.binary_crossentropy(right, tf.sigmoid(logits)),
        tf.keras.losses.categorical_crossentropy(right, tf.nn.softmax(logits)),
        tf.keras.losses.sparse_categorical_crossentropy([1], tf.nn.softmax(logits)),
        tf.keras.losses.BinaryCrossentropy()(right, tf.keras.layers.Activation("sigmoid")(logits)),
    ]
    slopes = [tf.gradients(loss, logits)[0] for loss in found]
    clipped = tf.keras.losses.binary_crossentropy(right, tf.identity(tf.sigmoid(logits)))
    with tf.Session() as session:
        np.testing.assert_allclose(np.hstack(session.run(found)), [40, 80, 80, 40])
        np.testing.assert_allclose(np.concatenate(session.run(slopes)), [[0.5, -0.5], [1, -1], [1, -1], [0.5, -0.5]])
        assert session.run(clipped)[0] < 16.5  # of other chances, the logarithm of the least number that is told apart
