"""What updates of synchronous replicas change whatever the gradients are: it waits for these all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.session.processes import Cluster


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")


def decayed(is_sync: bool) -> Any:
    return tf.contrib.opt.MomentumWOptimizer(0.1, 0.1, 0.9)


def nadam(is_sync: bool) -> Any:
    """Of a sparse gradient, the moments of all rows decay."""
    return tf.contrib.opt.NadamOptimizer(0.1)


class Forgetful(tf.train.GradientDescentOptimizer):
    """Halves what it trains before each step, in a branch. waits: for the gradients."""

    def __init__(self, waits: bool):
        super().__init__(0.1)
        self._waits = waits

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: str | None = None) -> Any:
        pairs = list(pairs)
        held, first = [v for _, v in pairs], [grad.op for grad, _ in pairs] if self._waits else []
        halve = lambda: tf.group(*(v.assign(v * 0.5) for v in held))  # noqa: E731
        with tf.control_dependencies(first):
            halved = tf.cond(held[1][0, 0] > -10.0, halve, tf.no_op)
        with tf.control_dependencies([halved]):
            return super().apply_gradients(pairs, global_step, name)


def forgetful(is_sync: bool) -> Any:
    return Forgetful(waits=not is_sync)


def values(make: Callable[[bool], Any], is_sync: bool) -> list[list[np.ndarray]]:
    """All variables after each of three steps, some time later."""
    with tf.Graph().as_default():
        step, ids = tf.train.get_or_create_global_step(), tf.placeholder(tf.int64, [None])
        table = tf.get_variable("table", initializer=np.ones((4, 2), np.float32))
        w = tf.get_variable("w", initializer=np.ones((2, 1), np.float32))
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.nn.embedding_lookup(table, ids), w)))
        optimizer = tf.train.SyncReplicasOptimizer(make(True), 1) if is_sync else make(False)
        train = optimizer.minimize(loss, step)
        hooks = [optimizer.make_session_run_hook(True, num_tokens=0)] if is_sync else []
        kept = sorted(tf.global_variables(), key=lambda v: v.name)
        found = []
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            for k in range(3):
                session.run(train, {ids: [k, k + 1]})
                time.sleep(0.1 * is_sync)  # the chief has asked for the next update
                found.append(session.run(kept))
        return found


@pytest.mark.parametrize("make", [decayed, nadam, forgetful])
def test_what_needs_no_gradient_waits_for_them(make: Callable[[bool], Any]) -> None:
    """Else replicas would read it, and checkpoints have it, half updated."""
    for found, want in zip(values(make, True), values(make, False), strict=True):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_supervisor_stops_though_the_next_update_never_comes(elsewhere: bool) -> None:
    """Its session stays open, and the chief's thread ends all the same; of a master in another process, too."""
    tasks = Cluster(ps=1, worker=1) if elsewhere else None
    try:
        with tf.Graph().as_default():
            setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0") if elsewhere else None
            with tf.device(setter):
                step, w = tf.train.get_or_create_global_step(), tf.Variable(1.0)
                sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1)
                train = sync.minimize(tf.square(w), step)
            supervisor = tf.train.Supervisor(
                init_op=tf.global_variables_initializer(),
                local_init_op=sync.chief_init_op,
                ready_for_local_init_op=sync.ready_for_local_init_op,
                global_step=step,
            )
            runner = sync.get_chief_queue_runner()
            with supervisor.prepare_or_wait_for_session(tasks["worker0"].target if tasks else "") as session:
                supervisor.start_queue_runners(session, [runner])
                for _ in range(2):
                    session.run(train)
                begun = time.monotonic()
                supervisor.stop()
                assert time.monotonic() - begun < 20
                assert session.run(step) == 2 and session.run(w) == pytest.approx(0.64)
    finally:
        if tasks:
            tasks.stop()


def test_a_replica_waits_until_the_chief_has_begun_anew(cluster: Callable[..., Any]) -> None:
    """Else its gradients of steps that are made again are late ones, and it waits for a token for ever."""
    servers = cluster(ps=2, worker=2)

    def built(rank: int) -> tuple[Any, Any]:
        with tf.Graph().as_default() as graph:
            with tf.device(tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:{rank}")):
                step, w = tf.train.get_or_create_global_step(), tf.get_variable("w", initializer=1.0)
                sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
                sync.minimize(tf.square(w), step)
                init = tf.global_variables_initializer()
            hook = sync.make_session_run_hook(rank == 0, num_tokens=0)
            hook.begin()
            return graph, (hook, init, sync.chief_init_op)

    (graph, (_, init, chief_init)), (other, (hook, *_)) = built(0), built(1)
    with tf.Session(servers["worker0"].target, graph=graph) as chief:
        chief.run(init)
        chief.run(chief_init)
        took_s = []
        for again in (False, True):
            timer = threading.Timer(0.6, lambda: chief.run(chief_init))
            with other.as_default(), tf.Session(servers["worker1"].target) as session:
                begun = time.monotonic()  # before the timer's: it may be a while until that has started
                if again:
                    timer.start()
                hook.after_create_session(session, None)
                took_s.append(time.monotonic() - begun)
            if again:
                timer.join()
    assert took_s[1] > 0.5 and max(took_s) < 4
