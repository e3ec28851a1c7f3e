"""Deadlines of single runs: they hold while a task is looked for, compiles its part, and while another run compiles."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.wire import waiting

PS, NO_TIME = "/job:ps/task:0", tf.RunOptions(timeout_in_ms=300)
AWAY = r"/job:ps/replica:0/task:0 at 127\.0\.0\.1:\d+: no Server answers after 0\.3 s"


@pytest.fixture
def lonely() -> Iterator[tf.train.Server]:
    """A worker whose parameter server nobody starts."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        spec = {"ps": [f"127.0.0.1:{nobody.getsockname()[1]}"], "worker": ["127.0.0.1:0"]}
        server = tf.train.Server(spec, "worker", 0)
        yield server
        server.stop()


def _variable() -> tf.Variable:
    with tf.device(PS):
        return tf.Variable(1.0)


def test_a_task_that_never_came_is_waited_for_until_the_deadline(lonely: tf.train.Server, graph: Any) -> None:
    v = _variable()
    with tf.Session(lonely.target) as session:
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError, match=AWAY):
                session.run(v.initializer, options=NO_TIME)
        assert session.run(tf.constant(2)) == 2


def test_nor_does_it_wait_longer_for_another_run_that_compiles(lonely: tf.train.Server, graph: Any) -> None:
    v = _variable()
    with tf.Session(lonely.target) as session:

        def run() -> None:
            with pytest.raises(tf.errors.OpError):
                session.run(v.initializer)

        patient = threading.Thread(target=run)
        patient.start()
        turns = session._runtime._master._turns  # type: ignore[union-attr]
        until = time.monotonic() + 20
        while not turns._lock.locked() and time.monotonic() < until:
            time.sleep(0.001)
        for fetch in (v.initializer, v):  # the same signature, and another one
            with pytest.raises(tf.errors.DeadlineExceededError, match=r"Another run .* in the 0\.3 s that the run may"):
                session.run(fetch, options=NO_TIME)
        assert patient.is_alive()
    patient.join(30)


def test_what_a_task_compiles_meanwhile_is_there_for_the_next_run(cluster: Any, graph: Any) -> None:
    servers, go, asked = cluster(ps=1, worker=1), threading.Event(), []
    worker = servers["ps0"]._running.worker
    register = worker.register

    def slow(*arguments: Any) -> int:
        asked.append(arguments[1])
        assert go.wait(20)
        return register(*arguments)

    worker.register = slow
    v = _variable()
    with tf.Session(servers["worker0"].target) as session:
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError, match=r"task:0 did not take its part .* in the 0\.3 s"):
                session.run(v.initializer, options=NO_TIME)
        go.set()
        session.run(v.initializer)
        assert len(asked) == 1 and session.run(v, options=tf.RunOptions(timeout_in_ms=20_000)) == 1


def test_waits_take_from_one_budget() -> None:
    with waiting.within(1000.0):
        with waiting.wait(20.0) as most_s:
            assert most_s == 20
        with waiting.wait(float("inf")) as most_s:
            assert 900 < most_s <= 1000
        assert waiting.left_of(5000.0) <= 1000 and waiting.left_of(10.0) == 10 and not waiting.is_over()
        with waiting.within(0.0):
            assert waiting.is_over() and waiting.left_of(1.0) == 0
    with waiting.within(None), waiting.wait(20.0) as most_s:
        assert most_s == 20 and not waiting.is_over() and not waiting.told()
