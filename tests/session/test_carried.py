"""Lossy transfers between tasks: what the session's switch and the scope do, and what they leave alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow.ops import collective
from sparkflow.session.server import Server
from tests.session.test_collectives import each, workers  # noqa: F401 - a fixture

X = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)
HALF = X.astype(ml_dtypes.bfloat16).astype(np.float32)
GLOBAL = tf.ConfigProto(graph_options=tf.GraphOptions(enable_bfloat16_sendrecv=True))


@pytest.fixture
def servers() -> Any:
    made = [Server.bound("worker", i, "127.0.0.1", b"secret") for i in range(2)]
    for server in made:
        server.join_cluster({"worker": [s.address for s in made]})
    yield made
    for server in made:
        server.stop()


def run(servers: list[Server], config: Any = None, scope: str = "float32") -> list[Any]:
    """Made on task 0, looked at on task 1: X, its sum as integers, X in float64, and a few numbers of X."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:worker/task:0"):
            fed = tf.placeholder(tf.float32, X.shape)
            with experimental.carried_as(scope) if scope else nullcontext():
                x = -fed
                made = [x, tf.cast(x * 100, tf.int32), tf.cast(x, tf.float64), -fed[0, :3]]
        with tf.device("/job:worker/task:1"):
            seen = [-made[0], tf.reduce_sum(made[1]), -made[2], -made[3]]
        with tf.Session(servers[1].target, graph, config) as session:
            return session.run(seen, {fed: X})


def test_as_they_are(servers: Any) -> None:
    assert (run(servers)[0] == X).all()


def test_the_sessions_switch(servers: Any) -> None:
    got, whole, exact, few = run(servers, GLOBAL, "")
    assert (got == HALF).all() and (got != X).any()
    assert whole == (X * -100).astype(np.int32).sum()
    assert (exact == X.astype(np.float64)).all(), "float64 travels as it is"
    assert (few == X[0, :3]).all(), "few numbers travel as they are"


@pytest.mark.parametrize("carried, config, wanted", [
    ("bfloat16", None, HALF),
    ("float16", None, X.astype(np.float16).astype(np.float32)),
    ("float32", GLOBAL, X),
])  # fmt: skip
def test_one_edge(servers: Any, carried: str, config: Any, wanted: np.ndarray) -> None:
    assert (run(servers, config, carried)[0] == wanted).all()


def test_a_branch_that_is_not_taken(servers: Any) -> None:
    with tf.Graph().as_default() as graph:
        take = tf.placeholder(tf.bool, [])
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, X.shape)

        def taken() -> Any:
            with tf.device("/job:worker/task:0"):
                y = x * 2.0
            with tf.device("/job:worker/task:1"):
                return -y

        with tf.device("/job:worker/task:1"):
            out = tf.cond(take, taken, lambda: tf.zeros(X.shape))
        with tf.Session(servers[1].target, graph, GLOBAL) as session:
            assert (session.run(out, {take: True, x: X}) == -2 * HALF).all()
            assert (session.run(out, {take: False, x: X}) == 0).all()


def test_gathered_rows_and_their_gradients(servers: Any) -> None:
    """The fused look-ups and updates of a server keep what was said of their parts."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:worker/task:0"):
            tables = [tf.Variable(X), tf.Variable(2 * X)]
        ids = tf.constant(np.arange(40) % 7)
        with experimental.carried_as("bfloat16"), tf.device("/job:worker/task:0"):
            rows = [tf.nn.embedding_lookup(t, ids) for t in tables]
        with tf.device("/job:worker/task:1"):
            loss = -tf.concat(rows, 1)
        with tf.Session(servers[1].target, graph) as session:
            session.run(tf.global_variables_initializer())
            got = -session.run(loss)
    np.testing.assert_array_equal(got, np.concatenate([HALF, 2 * HALF], 1)[np.arange(40) % 7])


def test_collectives(workers: Any) -> None:  # noqa: F811
    with pytest.raises(tf.errors.InvalidArgumentError, match="int8"), experimental.carried_as("int8"):
        pass

    def build(rank: int) -> Any:
        with experimental.carried_as("bfloat16"):
            return collective.all_reduce(X * (rank + 1), 2, 1, 1)

    first, second = each(workers(2), build)
    assert first.tobytes() == second.tobytes() and first.dtype == np.float32
    np.testing.assert_allclose(first, 3 * X, rtol=0.02, atol=0.02)
    assert not (first == 3 * X).all()
