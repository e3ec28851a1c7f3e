"""Whole trainings with a graph seed and nothing else: TensorFlow's weights, draws and orders, and so its losses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl
from tensorflow.python.keras.legacy_tf_layers import convolutional, core, pooling

import sparkflow
from tests.oracle.engines import OURS, THEIRS, Engine

STEPS = 8
# What TensorFlow's compat.v1 has lost by now lives on inside of its Keras.
_LAYERS = {
    "sparkflow": sparkflow.layers,
    "tensorflow": SimpleNamespace(**{**vars(core), **vars(pooling), **vars(convolutional)}),
}
_CELLS = {"sparkflow": sparkflow.nn.rnn_cell, "tensorflow": rnn_cell_impl}

Feeds = Callable[[np.random.RandomState], dict[Any, Any]]
Build = Callable[[Any, Any, Any], tuple[Any, Any, Feeds]]
TRAININGS: dict[str, Build] = {}


def training(build: Build) -> Build:
    """build(tf, layers, cells) -> the loss, what trains, and what each step is fed."""
    TRAININGS[build.__name__] = build
    return build


def _rows(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).rand(*shape).astype(np.float32)


@training
def images(tf: Any, layers: Any, cells: Any) -> Any:
    x, y = tf.placeholder(tf.float32, [16, 14, 14, 1]), tf.placeholder(tf.int64, [16])
    net = layers.max_pooling2d(layers.conv2d(x, 8, 3, activation=tf.nn.relu), 2, 2)
    net = layers.separable_conv2d(net, 6, 3, padding="same")
    net = layers.dropout(layers.flatten(net), 0.4, training=True)
    loss = tf.losses.sparse_softmax_cross_entropy(y, layers.dense(layers.dense(net, 32, tf.nn.elu), 10))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss, tf.train.get_or_create_global_step())
    return loss, train, lambda r: {x: r.rand(16, 14, 14, 1), y: r.randint(0, 10, 16)}


@training
def upsampling(tf: Any, layers: Any, cells: Any) -> Any:
    x = tf.placeholder(tf.float32, [4, 12, 12, 3])
    net = layers.average_pooling2d(layers.conv2d_transpose(x, 6, 3, 2, padding="same"), 2, 2)
    start = tf.variance_scaling_initializer(2.0, "fan_out", "truncated_normal")
    loss = tf.losses.mean_squared_error(x, layers.conv2d(net, 3, 1, kernel_initializer=start))
    train = tf.train.RMSPropOptimizer(1e-2, momentum=0.9, centered=True).minimize(loss)
    return loss, train, lambda r: {x: r.rand(4, 12, 12, 3)}


@training
def initializers(tf: Any, layers: Any, cells: Any) -> Any:
    kinds = [
        tf.glorot_uniform_initializer(), tf.glorot_normal_initializer(), tf.orthogonal_initializer(),
        tf.truncated_normal_initializer(stddev=0.3), tf.random_uniform_initializer(-1, 2),
        tf.uniform_unit_scaling_initializer(), tf.initializers.lecun_normal(), tf.initializers.he_uniform(),
        tf.random_normal_initializer(1.0, 0.2, seed=4),
    ]  # fmt: skip
    found = [tf.get_variable(f"v{i}", [6, 8], initializer=kind) for i, kind in enumerate(kinds)]
    found += [tf.get_variable("plain", [5, 7]), tf.Variable(tf.random_normal([3, 3])), tf.Variable(tf.zeros([4]) + 2)]
    loss = tf.add_n([tf.reduce_sum(v * v * (i + 1)) for i, v in enumerate(found)])
    return loss, tf.train.MomentumOptimizer(1e-3, 0.9, use_nesterov=True).minimize(loss), lambda r: {}


@training
def recurrent(tf: Any, layers: Any, cells: Any) -> Any:
    x, n = tf.placeholder(tf.float32, [8, 10, 5]), tf.placeholder(tf.int32, [8])
    dropped = cells.DropoutWrapper(
        cells.LSTMCell(5), 0.5, 0.6, 0.7, variational_recurrent=True, input_size=5, dtype=tf.float32, seed=3
    )
    both, _ = tf.nn.bidirectional_dynamic_rnn(cells.GRUCell(6), dropped, x, n, dtype=tf.float32)
    states = tf.nn.dropout(tf.concat(both, 2), keep_prob=0.5, seed=9)
    loss = tf.losses.huber_loss(tf.reduce_mean(x, 2, keepdims=True), layers.dense(states, 1))
    found = tf.trainable_variables()
    slopes, _ = tf.clip_by_global_norm(tf.gradients(loss, found), 1.0)
    train = tf.train.AdadeltaOptimizer(1.0).apply_gradients(zip(slopes, found))
    return loss, train, lambda r: {x: r.rand(8, 10, 5), n: r.randint(1, 11, 8)}


@training
def words(tf: Any, layers: Any, cells: Any) -> Any:
    x, y = tf.placeholder(tf.int32, [32]), tf.placeholder(tf.int64, [32, 1])
    table = tf.get_variable("table", [200, 16], initializer=tf.random_uniform_initializer(-1, 1))
    weights, bias = tf.get_variable("weights", [200, 16]), tf.get_variable("bias", [200])
    given = tf.nn.embedding_lookup(table, x)
    some = tf.reduce_mean(tf.nn.nce_loss(weights, bias, y, given, 10, 200))
    others = tf.reduce_mean(tf.nn.sampled_softmax_loss(weights, bias, y, given, 20, 200, seed=5))
    loss = some + others
    train = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001).minimize(loss)
    return loss, train, lambda r: {x: r.randint(0, 200, 32), y: r.randint(0, 200, [32, 1])}


@training
def parted_tables(tf: Any, layers: Any, cells: Any) -> Any:
    ids, at = tf.placeholder(tf.int64, [20]), tf.placeholder(tf.int64, [20, 2])
    table = tf.get_variable("table", [40, 6], partitioner=tf.fixed_size_partitioner(3))
    bags = tf.SparseTensor(at, ids, [8, 20])
    found = tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sqrtn", partition_strategy="div")
    loss = tf.reduce_mean(tf.square(found - 1))

    def feeds(r: Any) -> dict[Any, Any]:
        rows = np.sort(np.concatenate([np.arange(8), r.randint(0, 8, 12)]))
        return {ids: r.randint(0, 40, 20), at: np.stack([rows, np.arange(20)], 1)}

    return loss, tf.train.AdagradOptimizer(0.05).minimize(loss), feeds


@training
def augmented(tf: Any, layers: Any, cells: Any) -> Any:
    def changed(image: Any) -> Any:
        image = tf.image.random_flip_left_right(tf.random_crop(image, [12, 12, 3]))
        image = tf.image.random_contrast(tf.image.random_brightness(image, 0.2), 0.5, 1.5)
        return tf.image.random_saturation(tf.image.random_hue(image, 0.1), 0.6, 1.4)

    dataset = tf.data.Dataset.from_tensor_slices(_rows(40, 16, 16, 3)).repeat().map(changed).shuffle(10).batch(4)
    x = tf.data.make_one_shot_iterator(dataset).get_next()
    loss = tf.reduce_mean(tf.square(layers.conv2d(x, 3, 3, padding="same") - x))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), lambda r: {}


@training
def noisy_rows(tf: Any, layers: Any, cells: Any) -> Any:
    labels = np.random.RandomState(0).randint(0, 3, 200)
    dataset = tf.data.Dataset.from_tensor_slices((_rows(200, 6), labels)).shuffle(64).repeat()
    dataset = dataset.map(lambda x, y: (x + tf.random_normal([6], stddev=0.1), y)).batch(16).prefetch(2)
    x, y = tf.data.make_one_shot_iterator(dataset).get_next()
    loss = tf.losses.sparse_softmax_cross_entropy(y, layers.dense(layers.dense(x, 8, tf.nn.relu), 3))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), lambda r: {}


@training
def policy(tf: Any, layers: Any, cells: Any) -> Any:
    x = tf.placeholder(tf.float32, [16, 6])
    logits = layers.dense(layers.dense(x, 12, tf.nn.selu), 4)
    action = tf.squeeze(tf.multinomial(logits, 1), 1)
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    mean = layers.dense(x, 2)
    done = tf.stop_gradient(mean + 0.5 * tf.random_normal(tf.shape(mean)))
    loss = tf.reduce_mean(surprise * (tf.cast(action, tf.float32) - 1.5)) + tf.reduce_mean(tf.square(done - mean))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), lambda r: {x: r.rand(16, 6)}


@training
def variational(tf: Any, layers: Any, cells: Any) -> Any:
    x = tf.placeholder(tf.float32, [16, 20])
    mean, log = tf.split(layers.dense(layers.dense(x, 12, tf.nn.tanh), 6), 2, 1)
    posterior, prior = tf.distributions.Normal(mean, tf.exp(log)), tf.distributions.Normal(0.0, 1.0)
    likely = tf.distributions.Bernoulli(logits=layers.dense(posterior.sample(), 20)).log_prob(tf.round(x))
    apart = tf.reduce_sum(tf.distributions.kl_divergence(posterior, prior), 1)
    loss = tf.reduce_mean(apart - tf.reduce_sum(likely, 1))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), lambda r: {x: r.rand(16, 20)}


@training
def attention(tf: Any, layers: Any, cells: Any) -> Any:
    x = tf.placeholder(tf.float32, [4, 7, 16])

    def heads(name: str) -> Any:
        return tf.transpose(tf.reshape(layers.dense(x, 16, name=name), [4, 7, 4, 4]), [0, 2, 1, 3])

    looks = tf.nn.dropout(tf.nn.softmax(tf.matmul(heads("q"), heads("k"), transpose_b=True) / 2.0), rate=0.1)
    seen = tf.reshape(tf.transpose(tf.matmul(looks, heads("v")), [0, 2, 1, 3]), [4, 7, 16])
    seen = layers.dropout(seen, 0.2, training=True, seed=5) + x
    loss = tf.reduce_mean(tf.square(layers.dense(seen, 16, tf.nn.relu) - x))
    return loss, tf.train.AdamOptimizer(1e-3).minimize(loss), lambda r: {x: r.rand(4, 7, 16)}


@training
def control_flow(tf: Any, layers: Any, cells: Any) -> Any:
    """Iterations one behind the other: in TensorFlow's other way threads decide who draws first."""
    w, x = tf.get_variable("w", [5, 5]), tf.placeholder(tf.float32, [5, 5])
    _, walked = tf.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a @ w + tf.random_uniform([5, 5])), [0, x], parallel_iterations=1
    )
    other = tf.cond(
        tf.reduce_sum(x) > 12.0,
        lambda: walked + tf.random_normal([5, 5]),
        lambda: walked * tf.random_normal([5, 5]),
    )
    mapped = tf.map_fn(lambda row: row * tf.random_uniform([5]), x @ w, parallel_iterations=1)
    loss = tf.reduce_mean(tf.square(tf.tanh(other))) + tf.reduce_mean(tf.square(mapped))
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), lambda r: {x: r.rand(5, 5)}


def _losses(engine: Engine, build: Build) -> tuple[list[float], list[str]]:
    graph, found = engine.graph(), list[float]()
    with graph.as_default():
        engine.tf.set_random_seed(7)
        loss, train, feeds = build(engine.tf, _LAYERS[engine.name], _CELLS[engine.name])
        names = [v.op.name for v in engine.tf.global_variables()]
        with engine.session(graph) as session:
            session.run(engine.tf.global_variables_initializer())
            for step in range(STEPS):
                fed = feeds(np.random.RandomState(step))
                found.append(float(session.run([loss, train], fed)[0]))
    return found, names


@pytest.mark.parametrize("name", TRAININGS)
def test_a_seeded_training_has_tensorflows_losses(name: str) -> None:
    """And its variables' names."""
    (ours, our_names), (theirs, their_names) = (_losses(engine, TRAININGS[name]) for engine in (OURS, THEIRS))
    assert our_names == their_names
    np.testing.assert_allclose(ours, theirs, 1e-4)
    assert len(set(theirs)) == STEPS, "it goes on"
