"""What a chief compiles while its servers initialize the model."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train import ahead
from sparkflow_runtime.master.turns import Turns
from tests.train.test_sync_replicas import servers  # noqa: F401  (a fixture)

WAIT_S = 20.0


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.002)
    return holds()


def _signatures(session: Any) -> set[tuple[Any, Any]]:
    return {key[1:3] for key in list(session._runtime._master._begun)}


def test_what_was_foreseen_is_there_before_it_runs(servers: Any) -> None:  # noqa: F811
    target = servers(ps=1, worker=1)["worker0"].target
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=np.zeros(3, np.float32))
            add = v.assign_add(tf.ones([3]))
        with tf.Session(target) as session:
            ahead.foresee(graph, add.op, v.name)
            ahead.compile_ahead(session, [tf.constant(1.0), None])
            time.sleep(0.05)
            assert not _signatures(session)  # what is run first is compiled first
            session.run(v.initializer)
            assert _until(lambda: {((), (add.op.name,)), ((v.name,), ())} <= _signatures(session))
            session.run(add.op)
            assert (((), (add.op.name,))) not in _signatures(session)
            np.testing.assert_array_equal(session.run(v), np.ones(3))


def test_errors_are_left_to_who_runs_it(servers: Any) -> None:  # noqa: F811
    target = servers(ps=1, worker=1)["worker0"].target
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:7"):
            lost = tf.constant(1.0) + 1.0
        fine = tf.identity(tf.constant(3.0))
        with tf.Session(target) as session:
            ahead.compile_ahead(session, [7])  # nothing that can be fetched
            ahead.compile_ahead(session, [lost, fine])
            session.run(tf.constant(0.0))
            assert _until(lambda: ((fine.name,), ()) in _signatures(session))
            with pytest.raises(tf.errors.InvalidArgumentError, match="task:7"):
                session.run(lost)
            assert session.run(fine) == 3


def test_a_session_of_its_own_waits_for_nobody(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ahead.threading, "Thread")
    with tf.Session() as session:
        ahead.compile_ahead(session, [tf.constant(1.0)])


def test_a_session_may_be_closed_meanwhile(servers: Any) -> None:  # noqa: F811
    target = servers(ps=1, worker=1)["worker0"].target
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            values = [tf.get_variable(f"v{i}", [2]).initializer for i in range(50)]
        for _ in range(5):
            session = tf.Session(target)
            ahead.compile_ahead(session, values)
            session.close()
    assert _until(lambda: not [t for t in threading.enumerate() if t.name == "sparkflow-ahead"])


def test_everybody_goes_before_who_is_unhurried() -> None:
    turns, order, held, go = Turns(), list[str](), threading.Event(), threading.Event()

    def unhurried() -> None:
        held.set()
        with turns.unhurried():
            order.append("unhurried")
            turns.give_way()
            go.wait(WAIT_S)
            turns.give_way()
            order.append("again")

    with turns:
        thread = threading.Thread(target=unhurried, daemon=True)
        thread.start()
        assert held.wait(WAIT_S)
        turns.give_way()  # it does not ask
        order.append("first")
    assert _until(lambda: "unhurried" in order)
    threading.Timer(0.05, go.set).start()
    with turns:
        order.append("second")
    thread.join(WAIT_S)
    assert order == ["first", "unhurried", "second", "again"]


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has no priority of its own")
def test_servers_of_the_host_go_first() -> None:
    seen: list[int] = []
    over = threading.Event()

    def compile_now(wanted: Any) -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        over.set()

    before = os.getpriority(os.PRIO_PROCESS, 0)
    session = SimpleNamespace(sess_str="grpc://somewhere", graph=tf.Graph(), _compile_ahead=compile_now)
    ahead.compile_ahead(session, ["op"])
    assert over.wait(20) and seen == [max(10, before)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "the thread's alone"
