"""Peers that do not read what is sent to them: a step's deadline, and what ends it, do not wait until they do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops import collective
from sparkflow_runtime import remote_session
from sparkflow_runtime.resources import groups
from sparkflow_runtime.transport import shared
from tests.session.processes import Cluster, Task

ELEMENTS = 4 << 20  # more than any socket takes
SHORT, LONG = tf.RunOptions(timeout_in_ms=400), tf.RunOptions(timeout_in_ms=20_000)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    monkeypatch.setattr(shared, "AVAILABLE", False)  # of this process: as between two hosts
    cluster = Cluster(ps=1)
    yield cluster
    cluster.stop()


@pytest.fixture
def target(tasks: Cluster) -> Iterator[str]:
    server = tf.train.Server({"ps": [tasks["ps0"].address], "worker": ["127.0.0.1:0"]}, "worker", 0)
    yield server.target
    server.stop()


def _stop(task: Task) -> None:
    task.process.send_signal(signal.SIGSTOP)
    os.waitpid(task.process.pid, os.WUNTRACED)


def _fed(big: Any) -> Any:
    """The server's part is given it by the master."""
    with tf.device("/job:ps/task:0"):
        return tf.reduce_sum(big)


def _sent(big: Any) -> Any:
    """The worker's part sends it."""
    with tf.device("/job:worker/task:0"):
        more = big + 1
    return _fed(more)


@pytest.mark.parametrize("sums", [_fed, _sent])
def test_a_step_ends_in_its_time_though_a_task_does_not_read(
    tasks: Cluster, graph: Any, target: str, sums: Any
) -> None:
    with tf.device("/job:ps/task:0"):
        steps = tf.Variable(0)
    big = tf.placeholder(tf.float32, [None])
    total = sums(big)
    with tf.control_dependencies([total]), tf.device("/job:ps/task:0"):
        step = steps.assign_add(1)
    with tf.Session(target) as session:
        session.run(steps.initializer)
        assert session.run(step, {big: np.zeros(ELEMENTS, np.float32)}) == 1
        _stop(tasks["ps0"])
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError, match="bytes not sent"):
                session.run(step, {big: np.zeros(ELEMENTS, np.float32)}, options=SHORT)
        tasks["ps0"].process.send_signal(signal.SIGCONT)
        assert 1 <= session.run(steps, options=LONG) <= 2  # the second of them has not begun to leave
        session.run(steps.initializer)
        assert session.run(step, {big: np.zeros(ELEMENTS, np.float32)}, options=LONG) == 1


def test_a_client_gives_a_step_up_though_its_master_does_not_read(
    tasks: Cluster, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cancels the step goes behind it, and nobody waits for that: the session goes on."""
    monkeypatch.setattr(remote_session, "_GRACE_S", 0.1)
    big = tf.placeholder(tf.float32, [None])
    total = tf.reduce_sum(big)
    with tf.Session(tasks["ps0"].target) as session:
        session.run(total, {big: [1.0]})
        _stop(tasks["ps0"])
        with pytest.raises(tf.errors.DeadlineExceededError, match="bytes not sent"):
            session.run(total, {big: np.zeros(ELEMENTS, np.float32)}, options=SHORT)
        tasks["ps0"].process.send_signal(signal.SIGCONT)
        assert session.run(total, {big: [1.0, 2.0]}, options=LONG) == 3


def test_a_ring_s_deadline_does_not_wait_for_a_member_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not take at once goes later, and the thread of the rings tells in time who is late."""
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    monkeypatch.setattr(shared, "AVAILABLE", False)
    monkeypatch.setattr(groups, "ANSWER_S", 0.2)
    other = Task("worker", 1).begin()
    server = tf.train.Server({"worker": ["127.0.0.1:0", other.address]}, "worker", 0)
    other.join({"worker": [server.address, other.address]})

    def build(rank: int) -> tuple[Any, Any, Any]:
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            few = collective.all_reduce(tf.ones([3]), 2, 1, 0, timeout=20)
            return graph, few[:2], collective.all_reduce(tf.ones([ELEMENTS]), 2, 1, 1, timeout=0.4)[:2]

    try:
        (graph, few, many), (other_graph, other_few, _) = map(build, range(2))
        with tf.Session(server.target, graph) as session, tf.Session(other.target, other_graph) as second:
            with ThreadPoolExecutor(1) as thread:
                there = thread.submit(second.run, other_few)
                assert session.run(few).tolist() == there.result().tolist() == [2, 2]
            _stop(other)
            with pytest.raises(tf.errors.DeadlineExceededError, match=r"not done in 0.4 s: .*task:1 did not begin it"):
                session.run(many)
    finally:
        other.stop()
        server.stop()
