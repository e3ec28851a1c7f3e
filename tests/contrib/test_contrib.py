"""tf.contrib: the homes of names that exist elsewhere, and its own layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

slim = tf.contrib.slim


def _values(*tensors: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(tensors), feeds)


def test_homes() -> None:
    assert tf.contrib.rnn.BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell
    assert tf.contrib.framework.get_or_create_global_step is tf.train.get_or_create_global_step
    with pytest.raises(AttributeError, match="contrib"):
        _ = tf.contrib.nobody


def test_losses_take_what_is_computed_first() -> None:
    ours, theirs = tf.contrib.losses, tf.losses
    x, y = tf.constant([[0.2, 0.9, 0.4]]), tf.constant([[0.0, 1.0, 0.0]])
    pairs = [
        (
            ours.softmax_cross_entropy(x, y, label_smoothing=0.1),
            theirs.softmax_cross_entropy(y, x, label_smoothing=0.1),
        ),
        (ours.sigmoid_cross_entropy(x, y, 2.0), theirs.sigmoid_cross_entropy(y, x, 2.0)),
        (ours.sparse_softmax_cross_entropy(x, [1]), theirs.sparse_softmax_cross_entropy([1], x)),
        (ours.log_loss(x, y, epsilon=1e-3), theirs.log_loss(y, x, epsilon=1e-3)),
        (ours.cosine_distance(x, y, 1), theirs.cosine_distance(y, x, 1)),
        (tf.reduce_mean(ours.hinge_loss(x, y)), theirs.hinge_loss(y, x)),
        (ours.absolute_difference(x, y), theirs.absolute_difference(y, x)),
    ]
    got, want = zip(*_values(*(t for pair in pairs for t in [tf.stack(pair)])))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_there_is_no_eager_mode() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="Session"):
        tf.enable_eager_execution()
    assert not tf.executing_eagerly()


def test_names_of_before_one(graph: Any) -> None:
    assert tf.mul is tf.multiply and tf.pack is tf.stack and tf.merge_all_summaries is tf.summary.merge_all
    with pytest.raises(AttributeError, match="nobody"):
        _ = tf.nobody


def test_fully_connected_names_weights_and_biases(graph: Any) -> None:
    x = tf.placeholder("float32", [None, 4])
    y = tf.contrib.layers.fully_connected(x, 3, activation_fn=None, biases_initializer=tf.ones_initializer())
    assert [v.name for v in tf.trainable_variables()] == ["fully_connected/weights:0", "fully_connected/biases:0"]
    assert tf.model_variables() == tf.trainable_variables()
    (value, weights) = _values(y, tf.trainable_variables()[0], feeds={x: np.ones((2, 4))})
    np.testing.assert_allclose(value, np.ones((2, 4)) @ weights + 1, rtol=1e-6, atol=1e-6)


def test_reuse_shares(graph: Any) -> None:
    x = tf.ones([2, 4])
    a = tf.contrib.layers.linear(x, 3, scope="one")
    b = tf.contrib.layers.linear(x, 3, scope="one", reuse=True)
    assert len(tf.trainable_variables()) == 2
    np.testing.assert_array_equal(*_values(a, b))


def test_argument_scopes(graph: Any) -> None:
    x = tf.ones([2, 8, 8, 3])
    penalty = slim.l2_regularizer(0.5)
    with slim.arg_scope([slim.conv2d], weights_regularizer=penalty, padding="VALID") as kept:
        y = slim.conv2d(x, 4, 3, scope="a")
    with slim.arg_scope(kept):
        z = slim.conv2d(y, 4, [3, 3], scope="b", padding="SAME", normalizer_fn=slim.batch_norm)
    assert y.shape.as_list() == [2, 6, 6, 4] and z.shape.as_list() == [2, 6, 6, 4]
    assert len(tf.losses.get_regularization_losses()) == 2
    assert "b/biases:0" not in [v.name for v in tf.global_variables()]
    with pytest.raises(ValueError, match="add_arg_scope"), slim.arg_scope([len], x=1):
        pass


def test_batch_norm_updates_at_once(graph: Any) -> None:
    x = tf.placeholder("float32", [4, 3])
    y = tf.contrib.layers.batch_norm(x, decay=0.5, updates_collections=None)
    mean = next(v for v in tf.global_variables() if "moving_mean" in v.name)
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y, {x: np.full((4, 3), 2.0)})
        np.testing.assert_allclose(session.run(mean), np.ones(3))


def test_other_layers(graph: Any) -> None:
    layers = tf.contrib.layers
    image, rows = tf.ones([2, 8, 8, 3]), tf.constant([[1.0, 3.0], [2.0, 2.0]])
    found = _values(
        layers.flatten(image),
        layers.max_pool2d(image, 2),
        layers.avg_pool2d(image, 2, padding="SAME"),
        layers.separable_conv2d(image, 5, 3),
        layers.conv2d_transpose(image, 5, 3, stride=2),
        layers.layer_norm(rows),
        layers.one_hot_encoding([1, 0], 2),
        layers.unit_norm(rows, 1),
        layers.embed_sequence([[0, 1]], 4, 5),
        layers.dropout(rows, is_training=False),
        layers.repeat(rows, 2, layers.fully_connected, 3, scope="r"),
        layers.bias_add(rows),
    )
    shapes = [(2, 192), (2, 4, 4, 3), (2, 4, 4, 3), (2, 8, 8, 5), (2, 16, 16, 5), (2, 2), (2, 2), (2, 2), (1, 2, 5)]
    assert [f.shape for f in found] == [*shapes, (2, 2), (2, 3), (2, 2)]
    np.testing.assert_allclose(found[5], [[-1, 1], [0, 0]], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found[7], axis=1), 1, rtol=1e-6)


def test_regularizers(graph: Any) -> None:
    layers, w = tf.contrib.layers, tf.constant([1.0, -2.0])
    both = layers.apply_regularization(layers.l1_l2_regularizer(0.5, 0.1), [w])
    np.testing.assert_allclose(_values(both)[0], 0.5 * 3 + 0.1 * 2.5, rtol=1e-6)
    assert layers.l2_regularizer(0.0)(w) is None
    with pytest.raises(ValueError, match="integer"):
        layers.l1_regularizer(1)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", tf.train.AdagradOptimizer])
def test_optimize_loss(graph: Any, optimizer: Any) -> None:
    w = tf.Variable([3.0, -2.0])
    loss = tf.nn.l2_loss(w)
    step = tf.train.get_or_create_global_step()
    train = tf.contrib.layers.optimize_loss(loss, step, 0.1, optimizer, clip_gradients=1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(3):
            session.run(train)
        assert session.run(loss) < before and session.run(step) == 3
    with pytest.raises(ValueError, match="Optimizer name"):
        tf.contrib.layers.optimize_loss(loss, step, 0.1, "Nobody")


def test_hyperparameters() -> None:
    params = tf.contrib.training.HParams(rate=0.1, layers=2, wide=False)
    params.parse("rate=0.5,wide=true")
    assert params.values() == {"rate": 0.5, "layers": 2, "wide": True} and "rate" in params
    with pytest.raises(KeyError, match="depth"):
        params.set_hparam("depth", 1)


def test_variables_by_scope(graph: Any) -> None:
    framework = tf.contrib.framework
    with tf.variable_scope("a"):
        v = framework.model_variable("v", [2], initializer=tf.zeros_initializer())
    w = framework.variable("w", [2])
    assert framework.get_variables("a") == [v] and framework.get_model_variables() == [v]
    assert framework.get_variables_to_restore(exclude=["a"]) == [w] and framework.get_unique_variable("a/v") is v


def test_outputs_are_collected_by_name(graph: Any) -> None:
    with slim.arg_scope([slim.conv2d, slim.max_pool2d], outputs_collections="points"):
        out = slim.conv2d(tf.zeros([2, 8, 8, 3]), 4, 3, scope="a")
        with tf.variable_scope("deep"):
            slim.max_pool2d(out, 2, scope="pool")
    assert list(slim.utils.convert_collection_to_dict("points")) == ["a", "deep/pool"]


def test_a_depthwise_convolution_alone(graph: Any) -> None:
    out = slim.separable_conv2d(tf.ones([1, 5, 5, 3]), None, 3, depth_multiplier=2, scope="d")
    assert out.shape.as_list() == [1, 5, 5, 6]
    assert [v.op.name for v in tf.global_variables()] == ["d/depthwise_weights", "d/biases"]


def test_groups_of_channels_are_normalized(graph: Any) -> None:
    x = np.random.default_rng(3).normal(2, 3, (2, 4, 4, 6)).astype(np.float32)
    groups = tf.contrib.layers.group_norm(x, groups=3)
    single = tf.contrib.layers.instance_norm(x)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        a, b = session.run([groups, single])
    np.testing.assert_allclose(a.reshape(2, 16, 3, 2).mean((1, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(a.reshape(2, 16, 3, 2).std((1, 3)), 1, atol=1e-4)
    np.testing.assert_allclose(b.std((1, 2)), 1, atol=1e-4)
    with pytest.raises(ValueError, match="6 channels is not commensurate with 4 groups"):
        tf.contrib.layers.group_norm(x, groups=4)


def test_labels_of_another_type_are_cast(graph: Any) -> None:
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=np.eye(2), logits=tf.zeros([2, 2]))
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(loss), np.log(2), rtol=1e-6)


def test_layer_norm_counts_axes_from_the_end(graph: Any) -> None:
    """As BERT has it: the last axis alone is normalized."""
    x = np.random.default_rng(0).normal(size=(2, 3, 5))
    out = tf.contrib.layers.layer_norm(tf.constant(x), begin_norm_axis=-1, begin_params_axis=-1)
    half = tf.contrib.layers.layer_norm(tf.constant(x, tf.float16), begin_norm_axis=-2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, narrow = session.run([out, half])
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    np.testing.assert_allclose(found, expected)
    assert narrow.dtype == np.float16 and abs(narrow.astype(float).mean((1, 2))).max() < 0.01
    with pytest.raises(ValueError, match=r"begin_norm_axis \(-4\) must be < rank"):
        tf.contrib.layers.layer_norm(tf.constant(x), begin_norm_axis=-4)
    with pytest.raises(ValueError, match="not fully defined"):
        tf.contrib.layers.layer_norm(tf.placeholder(tf.float32, [2, None]))
    with pytest.raises(ValueError, match="undefined rank"):
        tf.contrib.layers.layer_norm(tf.placeholder(tf.float32))
