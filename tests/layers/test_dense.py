"""tf.layers: the variables they make and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow.layers as layers
from sparkflow.framework.graph import Graph


def test_dense(graph: Graph) -> None:
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    a = layers.dense(x, 4, tf.nn.relu, bias_initializer=tf.ones_initializer())
    b = layers.dense(a, 2, use_bias=False, name="out")
    layers.dense(a, 2, use_bias=False, name="out", reuse=True)
    layers.dense(a, 1)
    names = ["dense/kernel:0", "dense/bias:0", "out/kernel:0", "dense_1/kernel:0", "dense_1/bias:0"]
    assert [v.name for v in tf.trainable_variables()] == names
    assert a.name == "dense/Relu:0" and b.shape.as_list() == [2, 2]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values, kernel = sess.run([a, tf.trainable_variables()[0]])
        np.testing.assert_allclose(values, np.maximum(np.arange(6).reshape(2, 3) @ kernel + 1, 0), rtol=1e-5)


def test_output_shapes_before_and_after_the_first_call(graph: Graph) -> None:
    dense, norm = layers.Dense(3), layers.BatchNormalization()
    for layer, dims, expected in (
        (dense, (None, 4), [None, 3]),
        (layers.Conv2D(3, 2), (None, 4, 4, 2), [None, 3, 3, 3]),
        (layers.Flatten(), (None, 4, 2), [None, 8]),
        (layers.MaxPooling2D(2, 2), tf.TensorShape([None, 5, 5, 2]), [None, 2, 2, 2]),
        (norm, (None, 7), [None, 7]),
    ):
        assert layer.compute_output_shape(dims).as_list() == expected
    assert not graph.get_operations() and not dense.built and dense.variables == []
    dense(tf.ones([2, 4]))
    kernel = dense.kernel
    assert dense.compute_output_shape((5, 6)).as_list() == [5, 3]
    assert dense.kernel is kernel and len(dense.variables) == 2 and len(tf.global_variables()) == 2
    with pytest.raises(ValueError, match="the last one defined"):
        dense.compute_output_shape((5, None))


def test_dense_refuses_whole_numbers(graph: Graph) -> None:
    """Its weights would all be 0."""
    with pytest.raises(TypeError, match="needs inputs with a fraction, got int32"):
        layers.dense(tf.constant([[1, 2]]), 3)


@pytest.mark.parametrize("shape", [[None, 3], [2, None, 3], [2, 4, 3]])
def test_dense_works_on_the_last_axis(graph: Graph, shape: list[int | None]) -> None:
    x = tf.placeholder(tf.float64, shape)
    out = layers.dense(x, 5, kernel_initializer=tf.ones_initializer())
    assert out.shape.as_list() == [*shape[:-1], 5] and out.dtype == tf.float64
    value = np.random.default_rng(0).standard_normal([7 if d is None else d for d in shape])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got = sess.run(out, {x: value})
    np.testing.assert_allclose(got, np.repeat(value.sum(-1, keepdims=True), 5, -1), rtol=1e-12)


def test_dense_needs_a_known_width(graph: Graph) -> None:
    with pytest.raises(ValueError, match="the last one defined"):
        layers.dense(tf.placeholder(tf.float32, [3, None]), 2)


def test_regularizer(graph: Graph) -> None:
    layers.dense(tf.ones([1, 2]), 2, kernel_regularizer=lambda w: tf.reduce_sum(w), activity_regularizer=tf.reduce_mean)
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 2


def test_dropout(graph: Graph) -> None:
    x, training = tf.ones([1000]), tf.placeholder(tf.bool, [])
    switched = layers.dropout(x, 0.25, training=training, seed=1)
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(layers.dropout(x)), 1)
        np.testing.assert_array_equal(sess.run(switched, {training: False}), 1)
        dropped = sess.run(switched, {training: True})
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(4 / 3)} and 650 < (dropped > 0).sum() < 850


def test_flatten(graph: Graph) -> None:
    assert layers.flatten(tf.ones([2, 3, 4])).shape.as_list() == [2, 12]
    assert layers.flatten(tf.ones([5])).shape.as_list() == [5, 1]
    batch = tf.placeholder(tf.float32, [None, 2, 2])
    assert layers.flatten(batch).shape.as_list() == [None, 4]
    open_width = tf.placeholder(tf.float32, [None, None, 2])
    with tf.Session() as sess:
        assert sess.run(layers.flatten(open_width), {open_width: np.ones((3, 5, 2))}).shape == (3, 10)


class _Scaled(tf.layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.by = self.add_weight("by", [int(input_shape[-1])])
        self.input_spec = tf.layers.InputSpec(min_ndim=2, axes={-1: int(input_shape[-1])})
        self._trainable_weights.append(tf.get_variable("own", []))

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        return tf.nn.bias_add(inputs * self.by, tf.zeros_like(self.by))


def test_a_layer_of_ones_own(graph: Graph) -> None:
    layer = _Scaled(name="scaled")
    assert layer(tf.ones([2, 3])).name == "scaled/BiasAdd:0"
    assert [v.op.name for v in layer.trainable_variables] == ["scaled/by", "scaled/own"]
    assert layer(tf.ones([4, 5, 3])).shape.as_list() == [4, 5, 3]
    for wrong, said in (([2, 4], "axis -1 of size 3"), ([3], "min_ndim=2")):
        with pytest.raises(ValueError, match=f"layer scaled is incompatible with the layer: expected {said}"):
            layer(tf.ones(wrong))
    layer.trainable = False
    assert not layer.trainable_variables and len(layer.variables) == 2
    layer.input_spec = [tf.layers.InputSpec("int32", ndim=1), tf.layers.InputSpec(shape=[None, 3], max_ndim=2)]
    with pytest.raises(ValueError, match="expects 2 inputs, got 1"):
        layer(tf.ones([2, 3]))
    with pytest.raises(ValueError, match="expected dtype=int32"):
        layer([tf.ones([2]), tf.ones([2, 3])])
    with pytest.raises(ValueError, match="expected ndim=2, got"):
        layer([tf.ones([2], tf.int32), tf.ones([3])])
    with pytest.raises(ValueError, match=r"expected shape=\(\?, 3\)"):
        layer([tf.ones([2], tf.int32), tf.ones([2, 4])])


def test_a_scope_that_is_given_names_the_ops(graph: Graph) -> None:
    with tf.variable_scope("outer") as scope:
        y = tf.layers.Dense(2, name="outer", _scope=scope)(tf.ones([1, 3]))
    assert y.name == "outer/BiasAdd:0"
    assert [v.op.name for v in tf.global_variables()] == ["outer/kernel", "outer/bias"]


@pytest.mark.parametrize(
    ("make", "shape", "names"),
    [
        (lambda: tf.layers.Dense(2), (None, 3), ["kernel", "bias"]),
        (lambda: tf.layers.Conv2D(2, 3), [None, 5, 5, 3], ["kernel", "bias"]),
        (lambda: tf.layers.BatchNormalization(), [None, 4], ["gamma", "beta", "moving_mean", "moving_variance"]),
    ],
)
def test_a_layer_that_is_built_by_hand(graph: tf.Graph, make: Any, shape: Any, names: list[str]) -> None:
    layer = make()
    layer.build(shape)
    layer(tf.placeholder(tf.float32, shape))
    assert layer.built and [v.op.name for v in layer.variables] == [f"{layer.scope_name}/{n}" for n in names]
    assert len(tf.global_variables()) == len(names)


@pytest.mark.parametrize("layer", [tf.layers.dropout, tf.layers.batch_normalization])
def test_without_a_word_on_training_there_is_none(graph: Graph, layer: Any) -> None:
    """training=None, as functions with such a default hand it on, is Keras' learning phase there: False."""
    y = layer(tf.ones([2, 4]), training=None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y) == pytest.approx(np.ones([2, 4]), abs=1e-3)
