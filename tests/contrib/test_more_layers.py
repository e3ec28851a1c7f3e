"""Layers of tf.contrib.layers that few scripts use, batch_norm's own ways and optimize_loss, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

layers, slim = tf.contrib.layers, tf.contrib.slim


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


def test_names_of_nodes_and_variables(graph: Any) -> None:
    """Those that scripts fetch and restore by: of TensorFlow 1.14's contrib."""
    image = tf.ones([2, 8, 8, 3])
    with tf.variable_scope("vgg_16"):
        net = slim.repeat(image, 2, slim.conv2d, 4, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
    assert net.op.name == "vgg_16/pool1/MaxPool"
    assert layers.avg_pool2d(net, 2).op.name == "AvgPool2D/AvgPool"
    assert slim.stack(tf.ones([1, 2]), slim.relu, [3, 4]).op.name == "Stack/fully_connected_2/Relu"
    assert slim.repeat(image, 1, slim.conv2d, 4, 3).op.name == "Repeat/convolution2d_1/Relu"
    assert layers.conv1d(tf.ones([1, 5, 2]), 3, [2]).op.name == "Conv/Relu"
    assert layers.convolution(tf.ones([1, 5, 5, 5, 2]), 3, 2).shape.as_list() == [1, 5, 5, 5, 3]
    names = [v.op.name for v in tf.global_variables()]
    assert names[:2] == ["vgg_16/conv1/conv1_1/weights", "vgg_16/conv1/conv1_1/biases"]
    assert names[-2:] == ["Conv_1/weights", "Conv_1/biases"]
    with pytest.raises(ValueError, match="Convolution expects input with rank 4, got 3"):
        layers.conv2d(tf.ones([1, 5, 2]), 3, 2)
    with pytest.raises(ValueError, match="data_format has to be either NCHW or NHWC"):
        layers.max_pool2d(image, 2, data_format="CHWN")


def test_outputs_are_collected_by_name(graph: Any) -> None:
    with slim.arg_scope([slim.one_hot_encoding, slim.max_pool2d], outputs_collections="ends"):
        hot = slim.one_hot_encoding([1], 3, scope="hot")
        pooled = slim.max_pool2d(tf.ones([1, 2, 2, 1]), 2, scope="pool")
    assert hot.aliases == ["hot"]
    assert slim.utils.convert_collection_to_dict("ends") == {"hot": hot, "pool": pooled}


def test_batch_norm_of_rows_is_fused(graph: Any) -> None:
    """The moving variance follows the variance divided by n - 1, unless fused is False."""
    x = np.random.RandomState(0).randn(5, 3).astype(np.float32)
    for fused, by in ((None, 4), (False, 5)):
        with tf.Graph().as_default():
            y = layers.batch_norm(tf.constant(x), decay=0.5, fused=fused, updates_collections=None)
            variance = slim.get_variables_by_name("moving_variance")[0]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                got = session.run(y)
                np.testing.assert_allclose(got, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(session.run(variance), 0.5 + 0.5 * x.var(0) * 5 / by, rtol=1e-5)


def test_batch_norm_with_weights_and_without_bias(graph: Any) -> None:
    x = np.random.RandomState(0).randn(4, 2, 2, 3).astype(np.float32)
    weights = np.array([1.0, 0.0, 2.0, 1.0], np.float32)
    y = layers.batch_norm(
        tf.constant(x), decay=0.9, batch_weights=weights, zero_debias_moving_mean=True, updates_collections=None
    )
    names = [v.op.name for v in tf.global_variables()]
    assert {f"BatchNorm/BatchNorm/moving_mean/{name}" for name in ("biased", "local_step")} <= set(names)
    mean = np.average(x, (0, 1, 2), np.broadcast_to(weights[:, None, None, None], x.shape))
    variance = np.average((x - mean) ** 2, (0, 1, 2), np.broadcast_to(weights[:, None, None, None], x.shape))
    moving = slim.get_variables_by_name("moving_mean")[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            got = session.run(y)
        np.testing.assert_allclose(session.run(moving), mean, rtol=1e-5)
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="undefined rank"):
        layers.batch_norm(tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="undefined channels"):
        layers.batch_norm(tf.placeholder(tf.float32, [2, None]))


def test_spatial_softmax_finds_the_largest(graph: Any) -> None:
    x = np.zeros([1, 3, 5, 2], np.float32)
    x[0, 2, 0, 0] = x[0, 1, 4, 1] = 1000.0
    found = run(layers.spatial_softmax(tf.constant(x)))[0]
    np.testing.assert_allclose(found, [[1.0, -1.0, 0.0, 1.0]], atol=1e-6)
    first = run(layers.spatial_softmax(tf.transpose(tf.constant(x), [0, 3, 1, 2]), data_format="NCHW", name="nchw"))[0]
    np.testing.assert_allclose(first, found)
    assert [v.op.name for v in tf.trainable_variables()] == ["spatial_softmax/temperature", "nchw/temperature"]


def test_images_and_sequences(graph: Any) -> None:
    x = np.random.RandomState(0).randn(2, 3, 5, 4).astype(np.float32)
    sequence = layers.images_to_sequence(tf.constant(x))
    back = layers.sequence_to_images(sequence, 3)
    assert sequence.shape.as_list() == [5, 6, 4]
    flat, images = run(sequence, back)
    np.testing.assert_array_equal(flat, x.transpose(2, 0, 1, 3).reshape(5, 6, 4))
    np.testing.assert_array_equal(images, x)


def test_small_layers(graph: Any) -> None:
    x = tf.constant([[3.0, 4.0], [0.1, 0.2]])
    y = layers.scale_gradient(x, 0.25)
    sparse = layers.dense_to_sparse(tf.constant([[1, 0, 2], [0, 0, 3]]))
    pooled = layers.pool(tf.reshape(tf.range(9.0), [1, 3, 3, 1]), [2, 2], "AVG", stride=1)
    grad, same, ball, kept, mean = run(
        tf.gradients(y * y, x)[0], y, layers.poincare_normalize(x), sparse, tf.reshape(pooled, [4])
    )
    np.testing.assert_allclose(grad, np.array(same) / 2)
    np.testing.assert_allclose(ball, [[0.6 * (1 - 1e-5), 0.8 * (1 - 1e-5)], [0.1, 0.2]], rtol=1e-6)
    assert kept.values.tolist() == [1, 2, 3] and kept.indices.tolist() == [[0, 0], [0, 2], [1, 2]]
    np.testing.assert_allclose(mean, [2, 3, 5, 6])


def test_legacy_fully_connected(graph: Any) -> None:
    one = tf.constant_initializer(2.0)
    out = layers.legacy_relu(tf.ones([2, 3, 4]), 5, weight_init=one, bias_init=one, name="old")
    assert out.shape.as_list() == [2, 3, 5] and tf.get_collection(tf.GraphKeys.ACTIVATIONS) == [out]
    assert [v.op.name for v in tf.global_variables()] == ["old/weights", "old/bias"]
    np.testing.assert_allclose(run(out)[0], np.full([2, 3, 5], 10.0))
    with pytest.raises(ValueError, match="rank of x must be at least 2 not: 1"):
        layers.legacy_linear(tf.ones([2]), 1)


def test_variables_take_defaults_and_devices(graph: Any) -> None:
    with slim.arg_scope([slim.variable, slim.model_variable], collections="mine"), tf.device("/cpu:0"):
        a, b = slim.variable("a", [2]), slim.model_variable("b", [2])
    assert tf.get_collection("mine") == [a, b] and slim.get_model_variables() == [b]
    assert tf.global_variables() == [b] and a.device == b.device == "/device:CPU:0"


def test_a_checkpoint_of_a_folders_name(graph: Any, tmp_path: Any) -> None:
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    with tf.Session() as session:
        session.run(v.initializer)
        path = tf.train.Saver([v]).save(session, str(tmp_path))
        op, feeds = slim.assign_from_checkpoint(path, [v])
        session.run([v.assign(0.0)])
        session.run(op, feeds)
        assert session.run(v) == 3.0


def _loss() -> tuple[Any, Any]:
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(10.0))
    return x, x * 1.0


def test_optimize_loss_keeps_its_rate_and_summaries(graph: Any) -> None:
    x, loss = _loss()
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(loss, step, 0.5, "SGD", gradient_multipliers={x: 2.0}, clip_gradients=1.0)
    names = [v.op.name for v in tf.global_variables()]
    assert "OptimizeLoss/learning_rate" in names and tf.trainable_variables() == [x]
    assert [s.op.name.rpartition("/")[2] for s in tf.get_collection(tf.GraphKeys.SUMMARIES)] == [
        "gradient_norm", "loss", "clipped_gradient_norm",
    ]  # fmt: skip
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 10.0 and session.run([x, step]) == [9.5, 1]


def test_optimize_loss_without_a_global_step(graph: Any) -> None:
    x, loss = _loss()
    layers.optimize_loss(loss, None, 0.5, tf.train.GradientDescentOptimizer)
    assert tf.train.get_global_step() is None
    with pytest.raises(ValueError, match="global_step is required"):
        layers.optimize_loss(loss, None, 0.5, "SGD", learning_rate_decay_fn=lambda rate, step: rate)
    for wrong, about in (
        ({"learning_rate": "0.1"}, "Learning rate should be 0d Tensor or float"),
        ({"learning_rate": -0.1}, "Invalid learning_rate"),
        ({"learning_rate": None}, "Learning rate is None"),
        ({"optimizer": x}, "Unrecognized optimizer"),
        ({"optimizer": "sgd"}, "should be one of"),
        ({"clip_gradients": 1}, "clip_gradients"),
        ({"summaries": ["no"]}, "Summaries should be one of"),
    ):
        with pytest.raises(ValueError, match=about):
            layers.optimize_loss(
                loss, None, **{"learning_rate": 0.1, "optimizer": "SGD", **wrong}, name="w" + about[:4].strip()
            )


def test_noise_in_gradients(graph: Any) -> None:
    x, loss = _loss()
    train = layers.optimize_loss(loss, None, 1.0, "SGD", gradient_noise_scale=0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        moved = 9.0 - session.run(x)
    assert moved != 0 and abs(moved) <= 1.0  # the normal is cut at two deviations


def test_adaptive_clipping(graph: Any) -> None:
    """At first the averages are 0: a norm above e^(2 std) shrinks to e^mean."""
    x, grad = tf.ones([]), tf.constant([3.0, 4.0])
    clip = layers.adaptive_clipping_fn(decay=0.9, static_max_norm=0.5)
    (clipped, _), (none, _) = clip([(grad, x), (None, x)])
    assert none is None
    got = run(clipped)[0]
    mean, squares = 0.1 * np.log(5.0), 0.1 * np.log(5.0) ** 2
    assert np.exp(mean + 2 * np.sqrt(squares - mean**2)) < 5.0
    np.testing.assert_allclose(np.linalg.norm(got), min(np.exp(mean), 0.5), rtol=1e-5)
    np.testing.assert_allclose(got / got[0], [1.0, 4 / 3], rtol=1e-6)
