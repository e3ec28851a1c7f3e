"""The names that a program comes to know: of what a function returns, and which it takes in the caller's scope, so that
the caller's own nodes are numbered as by TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.engines import OURS, THEIRS, Engine

EXPRESSIONS = """
    0.2 * c | 1 - c | 1.0 / c | 2.0**c | 2.0 // c | 2.0 % c | c + 1 | c / 2.0 | c > 0.5 | v + 1 | v * v | v[0] | c[:, 1]
    tf.add(1.0, c) | tf.multiply(c, 2.0) | tf.matmul(c, [[1.0], [2.0], [3.0]]) | tf.matmul([[1.0, 2.0]], c)
    tf.concat([c, c], 0) | tf.concat([c], 0) | tf.stack([c, c]) | tf.stack([1, 2, 3]) | tf.stack([c[0, 0], 1.0])
    tf.unstack(c) | tf.split(c, 3, 1) | tf.reshape(c, [tf.shape(c)[0], -1]) | tf.one_hot([1, 2], 3) | tf.transpose(c)
    tf.reduce_mean(c) | tf.reduce_sum(c, 1) | tf.reduce_logsumexp(c) | tf.zeros([2, 3]) | tf.ones_like(c) | tf.range(3)
    tf.nn.softmax(c) | tf.nn.relu(c) | tf.nn.leaky_relu(c) | tf.nn.l2_loss(c) | tf.nn.l2_normalize(c, 1)
    tf.nn.moments(c, [0]) | tf.nn.xw_plus_b(c, [[1.0], [2.0], [3.0]], [1.0]) | tf.nn.embedding_lookup(v, [0, 1])
    tf.nn.embedding_lookup(c, ids) | tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1], logits=c)
    tf.nn.sigmoid_cross_entropy_with_logits(labels=c, logits=c) | tf.losses.mean_squared_error(c, c)
    tf.losses.softmax_cross_entropy(c, c) | tf.losses.sparse_softmax_cross_entropy([0, 1], c) | tf.metrics.mean(c)
    tf.metrics.accuracy(c, c) | tf.clip_by_value(c, 0.0, 1.0) | tf.clip_by_norm(c, 1.0) | tf.global_norm([c, c])
    tf.clip_by_global_norm([c, c], 1.0) | tf.add_n([c, c]) | tf.cond(b, lambda: c, lambda: c + 1)
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]) | tf.map_fn(lambda x: x * 2, c) | tf.group(c.op)
    tf.assign(v, c) | v.assign_add(c) | tf.Variable(1.0) | tf.get_variable("q", [2]) | tf.gradients(c * c, c)
    tf.global_variables_initializer() | tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v * v))
    tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(v * v)) | tf.train.Saver() | tf.train.get_or_create_global_step()
    tf.FIFOQueue(3, tf.float32).enqueue(1.0) | tf.FIFOQueue(3, tf.float32).enqueue_many([[1.0, 2.0]])
    tf.FIFOQueue(3, tf.float32, name="q").enqueue(c[0, 0], name="put") | tf.FIFOQueue(3, tf.float32).dequeue()
    tf.train.batch([c], 2) | tf.train.string_input_producer(["a", "b"]) | tf.summary.scalar("a", c[0, 0])
    tf.sparse_placeholder(tf.float32) | tf.sparse_placeholder(tf.float32, name="sp") | tf.cumsum(c)
    tf.sparse_placeholder(tf.float32, [None, 3], name="sp") | tf.sequence_mask([1, 2]) | tf.boolean_mask(c, c > 0)
"""
BUILDS = [build.strip() for line in EXPRESSIONS.strip().splitlines() for build in line.split(" | ")]


def _names(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_names(v) for v in value]
    if hasattr(value, "indices") and hasattr(value, "dense_shape"):
        return _names([value.indices, value.values, value.dense_shape])
    return getattr(value, "name", None) if not callable(getattr(value, "name", None)) else None


def _built(engine: Engine, build: str) -> tuple[Any, list[str]]:
    tf, graph = engine.tf, engine.graph()
    with graph.as_default():
        world = {
            "tf": tf,
            "v": tf.get_variable("v", [2, 3], initializer=tf.zeros_initializer()),
            "c": tf.placeholder(tf.float32, [2, 3], name="c"),
            "b": tf.placeholder(tf.bool, [], name="b"),
            "ids": tf.placeholder(tf.int64, [None, 2], name="ids"),
        }
        first = len(graph.get_operations())
        with tf.name_scope("caller"):
            made = eval(build, world)
        taken = {"/".join(op.name.split("/")[:2]) for op in graph.get_operations()[first:]}
    return _names(made), sorted(taken)


@pytest.mark.parametrize("build", BUILDS)
def test_names_are_tensorflows(build: str) -> None:
    made, taken = _built(OURS, build)
    their_made, their_taken = _built(THEIRS, build)
    assert made == their_made
    assert taken == their_taken
