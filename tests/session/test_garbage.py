"""What a step leaves behind: nothing that only Python's collector would find. Cycles keep gradients and buffers until
it runs, and it then stops everything else."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

STEPS, WINDOWS = 100, 5


def left_by(run: Callable[[], Any]) -> dict[str, int]:
    """What every step leaves to the collector: how many, by type. Sessions and servers of other tests may end in one
    window, but not in each."""
    for _ in range(10):  # plans, compiled loops, what is made once
        run()
    found: dict[str, int] = {}
    for _ in range(WINDOWS):
        if not (found := left_in_a_window(run)):
            break
    return found


def left_in_a_window(run: Callable[[], Any]) -> dict[str, int]:
    gc.collect()
    gc.disable()
    try:
        for _ in range(STEPS):
            run()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(type(o).__qualname__ for o in gc.garbage)
        return {name: count for name, count in found.items() if count >= STEPS}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def net() -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float32, [None, 8])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 4, tf.nn.relu), 1)))
    return [tf.train.AdamOptimizer().minimize(loss), loss], {x: np.ones((4, 8), np.float32)}


def loop() -> tuple[Any, dict[Any, Any]]:
    x, v = tf.placeholder(tf.float32, [8]), tf.get_variable("v", [8])
    out = tf.while_loop(
        lambda i, _: i < 3, lambda i, a: (i + 1, tf.cond(a[0] > 0, lambda: a * v, lambda: a + x)), [0, x]
    )
    return [tf.train.GradientDescentOptimizer(0.1).minimize(out[1]), out], {x: np.ones(8, np.float32)}


def rows_of_a_dataset() -> tuple[Any, None]:
    numbers = tf.data.Dataset.range(1000).map(lambda x: 2 * x).shuffle(10).repeat().batch(2).prefetch(2)
    return tf.data.make_one_shot_iterator(numbers).get_next(), None


def queue() -> tuple[Any, dict[Any, Any]]:
    waiting, x = tf.FIFOQueue(5, [tf.float32], [[2]]), tf.placeholder(tf.float32, [2])
    with tf.control_dependencies([waiting.enqueue([x])]):
        return waiting.dequeue(), {x: np.ones(2, np.float32)}


@pytest.mark.parametrize("made", [net, loop, rows_of_a_dataset, queue])
def test_a_step_in_one_process(graph: Any, made: Callable[[], Any]) -> None:
    fetches, feeds = made()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        left = left_by(lambda: session.run(fetches, feeds))
    assert not left


@pytest.mark.parametrize("ps", [1, 2])
@pytest.mark.parametrize("sync", [False, True])
def test_a_step_of_servers_and_a_worker(cluster: Any, graph: Any, sync: bool, ps: int) -> None:
    """All of them are in this process; the synchronous ones have a queue's runner as well."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=ps, worker_device="/job:worker/task:0")):
        count = tf.train.get_or_create_global_step()
        ids = tf.placeholder(tf.int64, [None, 4])
        tables = [tf.get_variable(f"t{i}", [50, 4]) for i in range(4)]
        rows = tf.concat([tf.nn.embedding_lookup(t, ids[:, i]) for i, t in enumerate(tables)], 1)
        loss, optimizer = tf.reduce_mean(tf.square(tf.layers.dense(rows, 1))), tf.train.AdagradOptimizer(0.1)
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, 1, 1) if sync else optimizer
        train = optimizer.minimize(loss, count)
    hooks = [optimizer.make_session_run_hook(True)] if sync else []
    batch = np.random.default_rng(0).integers(0, 50, (20, 4))
    with tf.train.MonitoredTrainingSession(cluster(ps=ps, worker=1)["worker0"].target, True, hooks=hooks) as session:
        left = left_by(lambda: session.run(train, {ids: batch}))
    assert not left


def failing(function: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with pytest.raises(tf.errors.InvalidArgumentError):
            function()

    return run


def test_a_failing_step_in_one_process(graph: Any) -> None:
    """The error of a function of the user's has its cause, with all that was called when it was raised."""
    x = tf.placeholder(tf.float32, [8])
    refused, infinite = tf.py_func(lambda a: a.reshape(3), [x], tf.float32), tf.check_numerics(x / 0.0, "it")
    with tf.Session() as session:
        for fetch in (refused, infinite):
            assert not left_by(failing(lambda: session.run(fetch, {x: np.ones(8)})))  # noqa: B023


@pytest.mark.parametrize("begins", ["with what the worker sends", "at once"])
def test_a_failing_step_of_a_server(cluster: Any, graph: Any, begins: str) -> None:
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [8])
        sent = tf.nn.relu(x)
    with tf.device("/job:ps/task:0"):
        infinite = tf.check_numerics((x if begins == "at once" else sent) / 0.0, "it")
    with tf.Session(cluster(ps=1, worker=1)["worker0"].target) as session:
        assert not left_by(failing(lambda: session.run(infinite, {x: np.ones(8)})))
