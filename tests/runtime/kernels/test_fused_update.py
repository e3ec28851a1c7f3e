"""A variable changed by a gradient that is one product: as the product and the update by themselves would change it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.updates import UPDATES
from sparkflow_runtime.master.passes.fuse import DENSE_UPDATES
from sparkflow_runtime.wire.protos import RewriterConfig

ROWS, COLUMNS = 1100, 1000
OPTIMIZERS = [
    lambda: tf.train.GradientDescentOptimizer(1e-3),
    lambda: tf.train.MomentumOptimizer(1e-3, 0.9, use_nesterov=True),
    lambda: tf.train.AdagradOptimizer(1e-2),
    lambda: tf.train.AdamOptimizer(),
    lambda: tf.train.RMSPropOptimizer(1e-3),
    lambda: tf.train.RMSPropOptimizer(1e-3, epsilon=1e-3, centered=True),
    lambda: tf.train.AdadeltaOptimizer(0.1, epsilon=1e-4),
    lambda: tf.train.ProximalGradientDescentOptimizer(1e-2, 0.01, 0.02),
    lambda: tf.train.ProximalAdagradOptimizer(1e-2, 0.1, 0.01, 0.02),
    lambda: tf.train.AdagradDAOptimizer(1e-2, tf.Variable(0, trainable=False), l1_regularization_strength=1e-4),
    lambda: tf.train.FtrlOptimizer(0.01),
    lambda: tf.train.FtrlOptimizer(0.01, learning_rate_power=-0.6),  # one that the compiled loop does not know
]


@pytest.fixture(scope="module")
def drawn() -> list[np.ndarray]:
    """What the two variables begin with."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, COLUMNS)) for n in (ROWS, 2 * ROWS)]


def trained(on: bool, optimizer: Any, dtype: Any, drawn: list[np.ndarray]) -> tuple[list[np.ndarray], Any]:
    """(the variables after three steps, op type -> count in the graph that ran)."""
    rng = np.random.default_rng(1)
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [None, ROWS])
        begun = {tf.placeholder(dtype, a.shape): a for a in drawn}
        wide, turned = map(tf.Variable, begun)  # fed: as constants they would be the most of the graph
        y = tf.matmul(tf.tanh(tf.matmul(x, wide)), turned, transpose_b=True)
        train = optimizer().minimize(tf.reduce_mean(tf.square(y)))
        config = tf.ConfigProto()
        if not on:
            config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
        options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer(), begun)
            for _ in range(3):
                images = rng.normal(size=(5, ROWS))
                session.run(train, {x: images}, options=options, run_metadata=metadata)
            values = session.run([wide, turned])
        return values, Counter(n.op for graph in metadata.partition_graphs for n in graph.node)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_update(optimizer: Any, dtype: Any, drawn: list[np.ndarray]) -> None:
    (fused, counts), (apart, before) = (trained(on, optimizer, dtype, drawn) for on in (True, False))
    assert counts["_FusedUpdate"] == 2 and not before["_FusedUpdate"]
    for a, b in zip(fused, apart):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 if dtype == tf.float32 else 1e-10)


def test_every_dense_update_is_known() -> None:
    assert {op: u.grad_at for op, u in UPDATES.items() if u.indices_at < 0} == DENSE_UPDATES


@pytest.fixture
def large() -> Any:
    with tf.Graph().as_default():
        yield tf.Variable(np.eye(1024, dtype=np.float32)), tf.placeholder(tf.float32, [None, 1024])


def run(step: Any, feeds: Any, *fetches: Any) -> Any:
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run([step, *fetches], feeds, options=options, run_metadata=metadata)[1:]
        after = session.run(tf.global_variables())
    return after, values, Counter(n.op for graph in metadata.partition_graphs for n in graph.node)


def test_a_gradient_that_somebody_else_sees_is_made_whole(large: Any) -> None:
    w, x = large
    slope = tf.matmul(x, x, transpose_a=True)
    step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(slope, w)])
    feeds = {x: np.ones((2, 1024), np.float32)}
    (after,), (got,), counts = run(step, feeds, slope)
    assert not counts["_FusedUpdate"] and got[0, 0] == 2 and after[0, 0] == -1
    (after,), _, counts = run(step, feeds)
    assert counts["_FusedUpdate"] and after[0, 0] == -1 and after[0, 1] == -2


def test_a_factor_that_is_the_variable_itself_is_read_before_it_changes(large: Any) -> None:
    w, _ = large
    step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.matmul(w, w), w)])
    (after,), _, counts = run(step, {})
    assert counts["_FusedUpdate"]
    np.testing.assert_array_equal(after, np.zeros((1024, 1024)))


def test_sizes_that_do_not_fit_are_named(large: Any) -> None:
    w, x = large
    y = tf.placeholder_with_default(np.ones((3, 1024), np.float32), [None, 1024])
    step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.matmul(x, y, transpose_a=True), w)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="MatMul: matrix sizes do not match"):
        run(step, {x: np.ones((2, 1024), np.float32)})
