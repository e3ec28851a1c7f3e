"""What layers leave in collections, and the odder settings of batch normalisation and of cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.random.default_rng(3).standard_normal((4, 5, 3, 2)).astype(np.float32)


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_moments_over_several_axes(graph: Any) -> None:
    y = tf.layers.batch_normalization(tf.constant(X), axis=[1, 3], training=True, epsilon=0.01)
    mean, variance = X.mean((0, 2), keepdims=True), X.var((0, 2), keepdims=True)
    np.testing.assert_allclose(_run(y), (X - mean) / np.sqrt(variance + 0.01), rtol=1e-4, atol=1e-5)
    assert [v.shape.as_list() for v in tf.global_variables()] == [[1, 5, 1, 2]] * 4


def test_fused_says_nothing_of_other_ranks(graph: Any) -> None:
    y = tf.layers.batch_normalization(tf.constant(X[0, 0]), training=True, fused=True)
    rows = X[0, 0]
    np.testing.assert_allclose(_run(y), (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-3), rtol=1e-4, atol=1e-5)


def test_names_of_updates(graph: Any) -> None:
    tf.layers.batch_normalization(tf.constant(X), training=True, name="bn")
    found = [t.op.name for t in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
    assert found == ["bn/AssignMovingAvg", "bn/AssignMovingAvg_1"]


def test_a_layer_that_is_not_trained_updates_nothing(graph: Any) -> None:
    tf.layers.batch_normalization(tf.constant(X), training=True, trainable=False)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_renormalisation_follows_by_its_updates_alone(graph: Any) -> None:
    y = tf.layers.batch_normalization(tf.constant(X), training=True, renorm=True)
    mean = next(v for v in tf.global_variables() if v.op.name.endswith("renorm_mean"))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y)
        assert session.run(mean).tolist() == [0, 0]
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        np.testing.assert_allclose(session.run(mean), X.mean((0, 1, 2)) * 0.01, rtol=1e-3)


def test_activity_is_counted_for_each_example(graph: Any) -> None:
    y = tf.layers.dense(tf.constant(X[0]), 2, activity_regularizer=lambda out: tf.reduce_sum(out * out))
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    out, found = _run([y, loss])
    np.testing.assert_allclose(found, (out**2).sum() / 5, rtol=1e-5)


def test_cells(graph: Any) -> None:
    with pytest.raises(ValueError, match="state_is_tuple=False"):
        tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(2)], state_is_tuple=False)
    with pytest.raises(TypeError, match="is not an RNNCell"):
        tf.nn.dynamic_rnn(3, tf.zeros([2, 3, 4]), dtype=tf.float32)
