"""tf.layers of convolution, pooling and batch normalisation: names of variables, shapes, values, updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow.layers as layers
from sparkflow.framework.graph import Graph

RNG = np.random.default_rng(2)


def initialized() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def names() -> list[str]:
    return [v.name for v in tf.global_variables()]


def test_conv2d_names_and_shares(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 9, 8, 3])
    a = layers.conv2d(x, 4, 3, activation=tf.nn.relu)
    b = layers.conv2d(a, 5, (3, 2), strides=2, padding="same", name="c", use_bias=False)
    again = layers.conv2d(a, 5, (3, 2), strides=2, padding="same", name="c", use_bias=False, reuse=True)
    layers.conv2d(x, 2, 1)
    assert names() == ["conv2d/kernel:0", "conv2d/bias:0", "c/kernel:0", "conv2d_1/kernel:0", "conv2d_1/bias:0"]
    assert a.name == "conv2d/Relu:0" and a.shape.as_list() == [None, 7, 6, 4] and b.shape.as_list() == [None, 4, 3, 5]
    assert [v.shape.as_list() for v in tf.global_variables()[:3]] == [[3, 3, 3, 4], [4], [3, 2, 4, 5]]
    value = RNG.normal(size=(2, 9, 8, 3))
    with initialized() as session:
        first, second, plain, kernel = session.run([b, again, a, tf.global_variables()[2]], {x: value})
        want = session.run(tf.nn.conv2d(plain, kernel, 2, "SAME"))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, want, rtol=1e-5)


def test_a_layer_object_shares_its_variables(graph: Graph) -> None:
    layer = layers.Conv2D(3, 2, name="obj", kernel_regularizer=tf.reduce_sum)
    with pytest.raises(ValueError, match="has not been used yet"):
        _ = layer.scope_name
    x = tf.ones([1, 4, 4, 2])
    assert [layer(x).name, layer(x).name] == ["obj/BiasAdd:0", "obj/BiasAdd_1:0"]
    with tf.variable_scope("elsewhere"):
        layer(x)
        layers.Conv2D(3, 2)(x)
    assert names() == ["obj/kernel:0", "obj/bias:0", "elsewhere/conv2d/kernel:0", "elsewhere/conv2d/bias:0"]
    assert layer.variables == tf.global_variables()[:2] and layer.count_params() == 27
    assert layer.name == layer.scope_name == "obj" and len(layer.losses) == 1
    assert layers.Conv2D(3, 2, name="obj")(x).name == "obj_1/BiasAdd:0", "another object has its own"


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_other_convolutions(graph: Graph, padding: str, data_format: str) -> None:
    first = data_format == "channels_first"
    settings: dict[str, Any] = {"padding": padding, "data_format": data_format}
    x = tf.placeholder(tf.float32, [None, 3, 6, 5] if first else [None, 6, 5, 3])
    flat = tf.placeholder(tf.float32, [2, 3, 6] if first else [2, 6, 3])
    deep = tf.placeholder(tf.float32, [2, 3, 4, 6, 5] if first else [2, 4, 6, 5, 3])
    outs = [
        layers.conv2d_transpose(x, 4, 3, strides=(2, 1), **settings),
        layers.separable_conv2d(x, 4, 3, depth_multiplier=2, **settings),
        layers.conv1d(flat, 4, 3, dilation_rate=2, **settings),
        layers.conv3d(deep, 4, (2, 3, 3), **settings),
        layers.conv3d_transpose(deep, 4, 2, strides=2, **settings),
    ]
    feeds = {t: RNG.normal(size=[2 if d is None else d for d in t.shape.as_list()]) for t in (x, flat, deep)}
    with initialized() as session:
        for out, value in zip(outs, session.run(outs, feeds)):
            assert out.shape.is_compatible_with(value.shape)
            assert value.shape[1 if first else -1] == 4
    kernels = {v.op.name: v.shape.as_list() for v in tf.global_variables() if "kernel" in v.op.name}
    assert kernels == {
        "conv2d_transpose/kernel": [3, 3, 4, 3],
        "separable_conv2d/depthwise_kernel": [3, 3, 3, 2],
        "separable_conv2d/pointwise_kernel": [1, 1, 6, 4],
        "conv1d/kernel": [3, 3, 4],
        "conv3d/kernel": [2, 3, 3, 3, 4],
        "conv3d_transpose/kernel": [2, 2, 2, 4, 3],
    }
    up = value.shape[2:] if first else value.shape[1:-1]
    assert list(up) == [8, 12, 10]


def test_pooling(graph: Graph) -> None:
    x = RNG.normal(size=(2, 6, 4, 3)).astype(np.float32)
    blocks = x.reshape(2, 3, 2, 2, 2, 3)
    with tf.Session() as session:
        got = session.run(layers.max_pooling2d(x, 2, 2))
        np.testing.assert_array_equal(got, blocks.max((2, 4)))
        got = session.run(layers.AveragePooling2D((2, 2), (2, 2))(x))
        np.testing.assert_allclose(got, blocks.mean((2, 4)), rtol=1e-5)
        first = session.run(layers.max_pooling2d(np.moveaxis(x, 3, 1).copy(), 2, 2, data_format="channels_first"))
        np.testing.assert_array_equal(np.moveaxis(first, 1, 3), blocks.max((2, 4)))
        assert session.run(layers.max_pooling1d(x[:, 0], 3, 1)).shape == (2, 2, 3)
        assert session.run(layers.average_pooling3d(x[:, None], (1, 2, 2), 1, "same")).shape == (2, 1, 6, 4, 3)


# ---------------------------------------------------------------------- batch normalisation


@pytest.mark.parametrize("by_tensor", [False, True])
@pytest.mark.parametrize("shape, axis", [((8, 3), -1), ((4, 3, 2, 5), -1), ((4, 3, 2, 5), 1)])
def test_batch_normalization(graph: Graph, shape: tuple[int, ...], axis: int, by_tensor: bool) -> None:
    x = RNG.normal(2, 3, shape).astype(np.float32)
    training: Any = tf.placeholder(tf.bool, []) if by_tensor else True
    out = layers.batch_normalization(tf.constant(x), axis, momentum=0.75, training=training)
    used = out if by_tensor else layers.batch_normalization(
        tf.constant(x), axis, name="batch_normalization", reuse=True
    )  # fmt: skip
    assert names()[:4] == [
        "batch_normalization/" + n + ":0" for n in ("gamma", "beta", "moving_mean", "moving_variance")
    ]
    assert [v.op.name for v in tf.trainable_variables()] == ["batch_normalization/gamma", "batch_normalization/beta"]
    rows = np.moveaxis(x.astype("f8"), axis, -1).reshape(-1, shape[axis])
    mean, variance = rows.mean(0), rows.var(0)
    wide = [v if axis == -1 else v.reshape(-1, 1, 1) for v in (mean, variance)]
    with initialized() as session:
        train, test = ({training: flag} if by_tensor else {} for flag in (True, False))
        got, *_ = session.run([out, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)], train)
        np.testing.assert_allclose(got, (x - wide[0]) / np.sqrt(wide[1] + 1e-3), rtol=1e-3, atol=1e-4)
        moving = session.run(tf.global_variables()[2:4])
        unbiased = variance * len(rows) / (len(rows) - 1) if len(shape) == 4 else variance
        np.testing.assert_allclose(moving[0], 0.25 * mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(moving[1], 0.75 + 0.25 * unbiased, rtol=1e-4)
        got = session.run(used, test)
        wide = [v if axis == -1 else v.reshape(-1, 1, 1) for v in moving]
        np.testing.assert_allclose(got, (x - wide[0]) / np.sqrt(wide[1] + 1e-3), rtol=1e-3, atol=1e-4)
        if by_tensor:
            session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), test)
            np.testing.assert_array_equal(session.run(tf.global_variables()[2:4]), moving)


def test_a_net_of_layers_learns(graph: Graph) -> None:
    """Digits that are one bright row each."""
    images = np.eye(8, dtype=np.float32)[np.arange(64) % 8][:, :, None, None].repeat(8, 2)
    x, y = tf.constant(images + RNG.normal(0, 0.3, (64, 8, 8, 1)).astype("f4")), tf.constant(np.arange(64) % 8)
    h = layers.max_pooling2d(tf.nn.relu(layers.batch_normalization(layers.conv2d(x, 8, 3), training=True)), 2, 2)
    logits = layers.dense(layers.flatten(h), 8)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with initialized() as session:
        losses = [session.run([loss, train])[0] for _ in range(40)]
    assert losses[-1] < 0.2 * losses[0]


def test_refusals(graph: Graph) -> None:
    with pytest.raises(ValueError, match="channels that are known"):
        layers.conv2d(tf.placeholder(tf.float32, [None, 4, 4, None]), 2, 3)
    with pytest.raises(ValueError, match="kernel_size must be a whole number above 0 or a tuple of 2"):
        layers.conv2d(tf.ones([1, 4, 4, 1]), 2, (1, 2, 3))
    with pytest.raises(ValueError, match="data_format must be channels_last or channels_first"):
        layers.max_pooling2d(tf.ones([1, 4, 4, 1]), 2, 2, data_format="NHWC")
    for wrong in (
        {"virtual_batch_size": 0},
        {"virtual_batch_size": 2, "renorm": True},
        {"virtual_batch_size": 2, "axis": 0},
    ):
        with pytest.raises(ValueError, match="virtual_batch_size"):
            layers.batch_normalization(tf.ones([1, 4]), **wrong)
