"""Channels last: a net with channels first gives the same values with the pass and without, and few transposes stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.protos import RewriterConfig

IMAGES = np.random.default_rng(5).normal(size=(3, 3, 12, 10)).astype(np.float32)
VOLUMES = np.random.default_rng(6).normal(size=(2, 3, 5, 6, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_VERIFY_PASSES", "1")


def weights(*shape: int) -> Any:
    size = int(np.prod(shape))
    return tf.Variable(np.sin(np.arange(size)).reshape(shape).astype(np.float32))


def run(build: Any, images: np.ndarray, on: bool, fetch_gradients: bool = True) -> tuple[list[np.ndarray], Any]:
    """(values of what build returns and of its gradients, op type -> count in the graph that ran)."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, *images.shape[1:]])
        found = build(x)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        loss = sum(tf.reduce_sum(tf.sin(y)) for y in found)
        slopes = tf.gradients(loss, [x, *tf.trainable_variables()])
        config = tf.ConfigProto()
        if not on:
            config.graph_options.rewrite_options.layout_optimizer = RewriterConfig.OFF
        metadata, options = tf.RunMetadata(), tf.RunOptions(output_partition_graphs=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            wanted = found + (slopes if fetch_gradients else [tf.add_n([tf.reduce_sum(s) for s in slopes])])
            values = session.run(wanted, {x: images}, options=options, run_metadata=metadata)
        return values, Counter(node.op for graph in metadata.partition_graphs for node in graph.node)


def both(build: Any, images: np.ndarray = IMAGES, **more: Any) -> Any:
    """The counts with the pass on, after the values have been held against those without it."""
    (with_pass, counts), (without, before) = run(build, images, True, **more), run(build, images, False, **more)
    for a, b in zip(with_pass, without):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert not before["Transpose"]
    return counts


def conv(x: Any, taken: int, made: int, **more: Any) -> Any:
    return tf.nn.conv2d(x, weights(3, 3, taken, made), 1, more.get("padding", "SAME"), data_format="NCHW")


def test_a_net_is_transposed_at_its_ends_alone() -> None:
    def build(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.bias_add(conv(x, 3, 8), weights(8), data_format="NCHW"))
        y = tf.nn.max_pool(y, [1, 1, 2, 2], [1, 1, 2, 2], "SAME", data_format="NCHW")
        z = conv(y, 8, 8, padding=[[0, 0], [0, 0], [1, 1], [0, 2]])
        z = tf.nn.relu(tf.nn.fused_batch_norm(z, weights(8), weights(8), data_format="NCHW")[0] + y) * 2.0
        z = tf.pad(z, [[0, 0], [0, 0], [1, 0], [0, 1]])
        z = tf.nn.avg_pool(z, [1, 1, 2, 3], [1, 1, 2, 2], "VALID", data_format="NCHW")
        return tf.reshape(z, [-1, 8 * 3 * 2]), tf.reduce_mean(z, [2, 3]), tf.reduce_max(z, [1, 2, 3])

    counts = both(build, fetch_gradients=False)
    # The images, where z is made flat, the gradients of the three results, and what the maximum's is divided by.
    assert counts["Transpose"] <= 6


def test_what_is_fetched_has_its_own_layout() -> None:
    def build(x: Any) -> Any:
        y = conv(x, 3, 4)
        return (
            y,
            tf.nn.relu(y),
            tf.reduce_mean(y, [2, 3], keepdims=True),
            tf.shape(y)[1:2] * tf.cast(y[0, 0, 0, :1], tf.int32),
        )

    both(lambda x: build(x)[:3])
    values, _ = run(lambda x: build(x)[:3], IMAGES, True)
    assert [v.shape for v in values[:3]] == [(3, 4, 12, 10), (3, 4, 12, 10), (3, 4, 1, 1)]


def test_vectors_of_a_batch_norm_may_be_fetched() -> None:
    counts = both(lambda x: tf.nn.fused_batch_norm(conv(x, 3, 4), weights(4), weights(4), data_format="NCHW")[:2])
    assert counts["Conv2D"] == 1


def test_a_number_a_channel_is_transposed_too() -> None:
    both(lambda x: tf.nn.relu(conv(x, 3, 4) * weights(1, 4, 1, 1) + 1.0))


def test_comparisons_and_choices_follow() -> None:
    def build(x: Any) -> Any:
        y = conv(x, 3, 4)
        return tf.where(y > 0.5, y, tf.zeros_like(y)), tf.cast(y > 0.1, tf.float32)

    both(build)


@pytest.mark.parametrize("pool", [tf.nn.max_pool3d, tf.nn.avg_pool3d])
def test_volumes(pool: Any) -> None:
    def build(x: Any) -> Any:
        y = tf.nn.conv3d(x, weights(2, 3, 2, 3, 4), [1, 1, 1, 2, 1], "SAME", data_format="NCDHW")
        return pool(tf.nn.relu(y), [1, 1, 2, 2, 2], [1, 1, 1, 2, 1], "SAME", data_format="NCDHW")

    counts = both(build, VOLUMES, fetch_gradients=False)
    assert counts["Transpose"] <= 3


def test_second_gradients_and_depthwise() -> None:
    def build(x: Any) -> Any:
        y = tf.nn.depthwise_conv2d(x, weights(2, 2, 3, 2), [1, 1, 1, 1], "SAME", data_format="NCHW")
        return tf.gradients(tf.reduce_sum(tf.tanh(conv(y, 6, 4))), [x])[0]

    both(build)


def test_transposes_of_the_user_meet_those_of_the_pass() -> None:
    def build(x: Any) -> Any:
        y = conv(tf.transpose(x, [0, 3, 1, 2]), 10, 4)
        return tf.transpose(y, [0, 2, 3, 1])

    values, counts = run(build, IMAGES, True, fetch_gradients=False)
    assert not counts["Transpose"]
    without, _ = run(build, IMAGES, False, fetch_gradients=False)
    np.testing.assert_allclose(values[0], without[0], rtol=1e-5, atol=1e-5)


def test_fed_and_ordered_ops_stay_in_order() -> None:
    """A fed image keeps its layout; what waits for a converted op waits for what it became."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, IMAGES.shape)
        fed = tf.nn.relu(conv(x, 3, 3))
        y = conv(fed, 3, 4)
        count = tf.Variable(0.0)
        with tf.control_dependencies([y.op]):
            step = tf.assign_add(count, 1.0)
        session.run(tf.global_variables_initializer())
        value, counted = session.run([y, step], {fed: IMAGES})
        assert counted == 1 and value.shape == (3, 4, 12, 10)
        np.testing.assert_array_equal(session.run(y, {fed: IMAGES}), value)


def test_channels_last_graphs_stay_as_they_are() -> None:
    build = lambda x: tf.nn.conv2d(x, weights(3, 3, 10, 4), 1, "SAME")  # noqa: E731
    assert not run(build, IMAGES, True)[1]["Transpose"]
