"""Tasks that are stopped: a step waits for one no longer than its deadline, and says which."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.outbox import Outbox
from sparkflow_runtime.wire.errors import ResourceExhaustedError, UnavailableError
from tests.session.processes import Cluster


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    cluster = Cluster(ps=1, worker=1)
    yield cluster
    cluster.stop()


def test_a_step_says_in_its_time_who_does_not_answer(tasks: Cluster, graph: Any) -> None:
    """Whether its connection is still there, was given up, or has to be made anew."""
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(np.zeros(1000, np.float32))
    with tf.device("/job:worker/task:0"):
        out = v + 1
    short = tf.RunOptions(timeout_in_ms=400)
    with tf.Session(tasks["worker0"].target) as session:
        session.run(v.initializer)
        session.run(out)
        tasks["ps0"].process.send_signal(signal.SIGSTOP)
        os.waitpid(tasks["ps0"].process.pid, os.WUNTRACED)
        late = "not done in 0.4 s.*/job:ps/replica:0/task:0 does not answer: it is stopped, or gone"
        with pytest.raises(tf.errors.DeadlineExceededError, match=late):
            session.run(out, options=short)
        with pytest.raises(tf.errors.UnavailableError, match=r"ps.*silent for"):
            session.run(out)
        for _ in range(3):
            with pytest.raises(tf.errors.DeadlineExceededError, match=late):
                session.run(out, options=short)
        tasks["ps0"].process.send_signal(signal.SIGCONT)
        for _ in range(20):
            with suppress(tf.errors.UnavailableError, tf.errors.AbortedError):  # it has yet to see what was given up
                assert session.run(out, options=tf.RunOptions(timeout_in_ms=20_000)).tolist() == [1] * 1000
                break
        else:
            pytest.fail("it does not come back")


def test_who_dials_a_stopped_task_still_hears_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has to send to one for the first time reads on meanwhile: its other steps are run."""
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    cluster = Cluster(ps=2, worker=1)
    try:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.Variable([1.0])
                queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]])
                put, got = queue.enqueue([2.0]), queue.dequeue()
            with tf.device("/job:ps/task:1"):
                there = got + tf.Variable(1.0).initial_value
            with tf.Session(cluster["worker0"].target) as session:
                session.run(v.initializer)
                with pytest.raises(tf.errors.DeadlineExceededError):  # nothing is sent: the queue is empty
                    session.run(there, options=tf.RunOptions(timeout_in_ms=300))
                cluster["ps1"].process.send_signal(signal.SIGSTOP)
                os.waitpid(cluster["ps1"].process.pid, os.WUNTRACED)
                session.run(put)
                with pytest.raises(tf.errors.DeadlineExceededError):
                    session.run(there, options=tf.RunOptions(timeout_in_ms=300))
                assert session.run(v, options=tf.RunOptions(timeout_in_ms=4_000)).tolist() == [1]
    finally:
        cluster.stop()


def test_what_waits_for_a_connection_goes_in_order() -> None:
    """What comes while others wait goes behind them; where there is none all are told, and the next ones try again."""
    work: list[Any] = []
    sent: list[Any] = []
    channels: list[Any] = [UnavailableError("away"), MemoryError("full"), "channel"]

    def dial(task: str) -> Any:
        found = channels.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    box = Outbox(dial, work.append)

    def put(what: Any, error: Exception | None = None) -> None:
        def send(channel: Any) -> None:
            if error is not None:
                raise error
            sent.append((what, channel))
            if what == 5:
                put(6)

        box.put("ps", send, lambda error: sent.append((what, error.message)))

    for what in (1, 2):
        put(what)
    assert "ps" in box and "other" not in box and len(work) == 1
    work.pop()()
    assert sent == [(1, "away"), (2, "away")] and "ps" not in box
    sent.clear()
    put(1)
    work.pop()()
    assert sent == [(1, "ps: MemoryError: full")] and "ps" not in box
    sent.clear()
    put(3)
    put(5)
    put(7, UnavailableError("lost"))
    put(8, KeyError("k"))
    work.pop()()
    told = [(3, "channel"), (5, "channel"), (7, "lost"), (8, "ps: KeyError: 'k'"), (6, "channel")]
    assert sent == told and "ps" not in box and not work


def test_where_no_thread_is_to_be_had_all_are_told() -> None:
    def aside(work: Any) -> None:
        raise ResourceExhaustedError("no more threads")

    told: list[str] = []
    box = Outbox(lambda task: pytest.fail("nobody dials"), aside)
    for _ in range(2):
        box.put("ps", lambda channel: None, lambda error: told.append(error.message))
    assert told == ["no more threads"] * 2 and "ps" not in box


def test_a_stopped_task_is_dialled_no_longer_than_the_sessions_steps_may_take(tasks: Cluster, graph: Any) -> None:
    """It accepts connections, as its kernel does, and says nothing. Of masters and of tasks alike."""
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0)
    tasks["ps0"].process.send_signal(signal.SIGSTOP)
    os.waitpid(tasks["ps0"].process.pid, os.WUNTRACED)
    config = tf.ConfigProto(operation_timeout_in_ms=400)
    with (
        tf.Session(tasks["worker0"].target, config=config) as session,
        pytest.raises(tf.errors.UnavailableError, match=r"task:0 at .*no Server answers after 0.4 s"),
    ):
        session.run(v.initializer)
    with pytest.raises(tf.errors.UnavailableError, match=r"Session target .*no Server answers after 0.4 s"):
        tf.Session(tasks["ps0"].target, config=config)
