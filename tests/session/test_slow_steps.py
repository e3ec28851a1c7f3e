"""Steps that do not end say in the log who waits for whom, and go on waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.master import step_run
from sparkflow_runtime.wire import patience

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def _until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def _said(caplog: Any) -> list[str]:
    return [m for m in caplog.messages if "has not ended" in m]


def test_a_step_that_does_not_end_says_in_the_log_who_waits_for_whom(
    cluster: Any, graph: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on to wait: here until a row comes, after it was said twice."""
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.2")
    servers = cluster(ps=1, worker=2)
    with tf.device(PS):
        queue = tf.FIFOQueue(5, [tf.float32], name="rows")
        item, put = queue.dequeue(), queue.enqueue([1.0])
    with tf.device(WORKER):
        y = item + 1
    with tf.device("/job:worker/task:1"):
        z = item + 2
    with tf.Session(servers["worker0"].target) as session:
        for fetches, expected in ((y, 2.0), (item, 1.0), ([y, z], [2.0, 3.0])):
            session.run(put)
            assert session.run(fetches) == expected  # compiled, which may take longer than until it is said
            caplog.clear()
            with ThreadPoolExecutor(1) as pool:
                waits = pool.submit(session.run, fetches)
                _until(lambda: len(_said(caplog)) > 1)
                session.run(put)
                assert waits.result(10) == expected
            first, second = _said(caplog)[:2]
            assert "has not ended for 0.2 s." in first and "has not ended for 0.4 s." in second
            assert "/job:ps/replica:0/task:0: Waiting in QueueDequeueV2 'rows_Dequeue'" in first
            assert "FIFOQueue 'rows' is open: size 0" in first
            owns = "/job:worker/replica:0/task:0: nothing yet from /job:ps/replica:0/task:0"
            assert (owns in first) == (fetches is not item)
            others = "/job:worker/replica:0/task:1: nothing yet from /job:ps/replica:0/task:0"
            assert (others in first) == (type(fetches) is list)


def test_a_task_that_stands_still_is_named_in_the_log(
    cluster: Any, graph: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.2")
    monkeypatch.setattr(step_run, "_REASONS_S", 0.1)
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        item = tf.FIFOQueue(5, [tf.float32]).dequeue()
    server = servers["ps0"]._running
    monkeypatch.setattr(server.worker.rendezvous, "waits", lambda step_id: threading.Event().wait(1))
    with tf.Session(servers["worker0"].target) as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(item, options=tf.RunOptions(timeout_in_ms=500))
    assert "/job:ps/replica:0/task:0: It does not answer: it is stopped, or gone" in _said(caplog)[0]


def test_who_waits_for_room_in_a_queue_says_nothing(
    cluster: Any, graph: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.1")
    servers = cluster(ps=1, worker=1)
    for device in (PS, WORKER):
        with tf.device(device):
            put = tf.FIFOQueue(1, [tf.float32]).enqueue([1.0])
        with tf.Session(servers["worker0"].target) as session:
            session.run(put)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(put, options=tf.RunOptions(timeout_in_ms=400))
    assert not _said(caplog)


def test_gradients_that_are_missing_are_named_in_the_log(
    cluster: Any, graph: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.2")
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        accumulator = tf.ConditionalAccumulator(tf.float32, shape=(), shared_name="gradients")
        give, take = accumulator.apply_grad(1.0), accumulator.take_grad(2)
    with tf.Session(servers["worker0"].target) as session:
        session.run(give)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(take, options=tf.RunOptions(timeout_in_ms=600))
    assert "'gradients' at step 0 has 1 gradients (of replicas [0]) and waits for 2" in _said(caplog)[0]


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_senseless_time_until_steps_are_slow(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", text)
    with pytest.raises(tf.errors.InvalidArgumentError, match="SPARKFLOW_SLOW_STEP_S must be a number of seconds"):
        patience.first_s()
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0")
    assert patience.Patience().at_most(None) is None and patience.Patience().at_most(3.0) == 3.0
