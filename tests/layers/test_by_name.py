"""Layers and cells take Keras' names: of activations, initializers and regularizers; conv1d takes padding "causal"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow.layers as layers
from sparkflow.framework.graph import Graph

RNG = np.random.default_rng(5)


def _values(*fetches: Any, feed: Any = None) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches), feed)


def test_dense_and_conv_by_names(graph: Graph) -> None:
    value = RNG.normal(size=(2, 6, 6, 3)).astype(np.float32)
    x = tf.constant(value)
    flat = layers.dense(x, 4, "relu", kernel_initializer="ones", bias_initializer="ones", kernel_regularizer="l2")
    image = layers.conv2d(x, 2, 1, activation="tanh", kernel_initializer="ones")
    drawn = layers.Dense(100, kernel_initializer="random_normal", use_bias=False)
    drawn(tf.zeros([1, 100]))
    got_flat, got_image, penalty, kernel = _values(
        flat, image, tf.losses.get_regularization_loss(), drawn.kernel
    )  # fmt: skip
    np.testing.assert_allclose(got_flat, np.repeat(np.maximum(value.sum(-1, keepdims=True) + 1, 0), 4, -1), rtol=1e-5)
    np.testing.assert_allclose(got_image, np.repeat(np.tanh(value.sum(-1, keepdims=True)), 2, -1), rtol=1e-4)
    assert flat.op.name == "dense/Relu" and penalty == np.float32(0.12)
    assert 0.045 < kernel.std() < 0.055, "Keras' random_normal, not TensorFlow's of deviation 1"
    with pytest.raises(ValueError, match="Unknown activation function: 'rely'"):
        layers.dense(x, 4, "rely")
    with pytest.raises(ValueError, match="Unknown initializer: 'glort'"):
        layers.dense(x, 4, kernel_initializer="glort")


@pytest.mark.parametrize("kind", ["BasicRNNCell", "GRUCell", "LSTMCell", "BasicLSTMCell"])
def test_cells_by_names(graph: Graph, kind: str) -> None:
    x = tf.constant(RNG.normal(size=(2, 5, 3)), tf.float32)
    named = {"activation": "relu"} | ({"initializer": "ones"} if kind == "LSTMCell" else {})
    cells = [getattr(tf.nn.rnn_cell, kind)(4, **named, name="same", reuse=tf.AUTO_REUSE)]
    cells.append(getattr(tf.nn.rnn_cell, kind)(4, activation=tf.nn.relu, name="same", reuse=tf.AUTO_REUSE))
    first, second = _values(*(tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0] for cell in cells))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("rate", [1, 2])
@pytest.mark.parametrize("kind", ["conv1d", "separable_conv1d"])
def test_causal(graph: Graph, kind: str, rate: int) -> None:
    x = tf.placeholder(tf.float32, [None, 9, 3])
    make = getattr(layers, kind)
    out = make(x, 4, 3, padding="causal", dilation_rate=rate, name="c", use_bias=False)
    plain = make(
        tf.pad(x, [[0, 0], [2 * rate, 0], [0, 0]]), 4, 3, dilation_rate=rate, name="c", use_bias=False, reuse=True
    )
    assert out.shape.as_list() == [None, 9, 4]
    value = RNG.normal(size=(2, 9, 3))
    got, want = _values(out, plain, feed={x: value})
    np.testing.assert_array_equal(got, want)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        later = value.copy()
        later[:, 5:] += 1
        before, after = (session.run(out, {x: v}) for v in (value, later))
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] != after[:, 5:]).any()


def test_causal_is_of_one_axis(graph: Graph) -> None:
    with pytest.raises(ValueError, match="only supported for `Conv1D`"):
        layers.conv2d(tf.zeros([1, 4, 4, 1]), 2, 2, padding="causal")


def test_scopes_given_at_the_call(graph: Graph) -> None:
    """As libraries of layers share variables: an object told to reuse, in the scope that its call is given."""
    x = tf.zeros([2, 3])
    for reuse in (False, True):
        with tf.variable_scope("s", reuse=reuse) as scope:
            out = layers.Dense(4, _reuse=scope.reuse).apply(x, scope=scope)
    assert [v.name for v in tf.global_variables()] == ["s/kernel:0", "s/bias:0"] and out.name.startswith("s_")
    layer = layers.Dense(4)
    layer(x, scope="first"), layer(x, scope="second")
    assert layer.scope_name == "first"


def test_reuse_without_a_name_is_of_the_class_name(graph: Graph) -> None:
    x = tf.zeros([2, 3])
    layers.dense(x, 4)
    assert layers.dense(x, 4, reuse=True).name == "dense_1/BiasAdd:0"
    layers.dense(x, 4, reuse=tf.AUTO_REUSE)
    assert [v.name for v in tf.global_variables()] == ["dense/kernel:0", "dense/bias:0"]
    with pytest.raises(ValueError, match="conv1d/kernel does not exist"):
        layers.conv1d(tf.zeros([1, 4, 2]), 4, 2, reuse=True)


def test_what_call_takes_is_passed_on(graph: Graph) -> None:
    x = tf.ones([4, 3])
    layers.BatchNormalization()(x, True)
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
