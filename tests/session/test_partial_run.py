"""partial_run: one step in several calls, whose stateful nodes run once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.resources.partial import Mailboxes
from tests.interrupts import Interrupted


def _abc() -> tuple[Any, Any, Any, Any, Any]:
    a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
    r1 = tf.add(a, b, name="r1")
    return a, b, c, r1, tf.multiply(r1, c, name="r2")


def test_feeds_and_fetches_come_bit_by_bit(graph: Any) -> None:
    a, b, c, r1, r2 = _abc()
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        assert session.partial_run(handle, r1, {a: 1, b: 2}) == 3
        assert session.partial_run(handle, [r2], {c: 7}) == [21]
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is finished"):
            session.partial_run(handle, r1)


def test_several_steps_at_once_and_feeds_before_fetches(graph: Any) -> None:
    a, b, c, r1, r2 = _abc()
    with tf.Session() as session:
        handles = [session.partial_run_setup({"x": r1, "y": r2}, [a, b, c]) for _ in range(3)]
        for i, handle in enumerate(handles):
            assert session.partial_run(handle, [], {a: i}) == []
        for i, handle in enumerate(handles):
            assert session.partial_run(handle, {"y": r2}, {"b:0": 1, c: 10}) == {"y": 10 * (i + 1)}
        for i, handle in enumerate(handles):
            assert session.partial_run(handle, "r1:0") == i + 1


def test_what_was_computed_is_not_computed_again(graph: Any) -> None:
    counter = tf.Variable(0, name="counter")
    x = tf.placeholder(tf.int32, [])
    count = tf.assign_add(counter, 1)
    with tf.control_dependencies([count]):
        total = count + x
    with tf.Session() as session:
        session.run(counter.initializer)
        handle = session.partial_run_setup([count, total], [x])
        assert session.partial_run(handle, count) == 1
        assert session.partial_run(handle, total, {x: 10}) == 11
        assert session.run(counter) == 1


def test_operations_are_targets(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(0.0)
    assign = tf.assign(v, x).op
    with tf.Session() as session:
        session.run(v.initializer)
        handle = session.partial_run_setup([assign], [x])
        assert session.partial_run(handle, assign, {x: 4.0}) is None
        assert session.run(v) == 4


def test_fed_tensors_can_be_fetched(graph: Any) -> None:
    a, b, _, r1, _ = _abc()
    with tf.Session() as session:
        handle = session.partial_run_setup([a, r1], [a, b])
        assert session.partial_run(handle, a, {a: 1}) == 1
        assert session.partial_run(handle, r1, {b: 1}) == 2


def test_misuse_is_told(graph: Any) -> None:
    a, b, c, r1, _ = _abc()
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, tf.negative(a)], [a, b])
        for feeds, fetches, words in [
            ({c: 1}, [], "The feed c:0 was not specified in partial_run_setup"),
            ({a: 1}, [a], "The fetch a:0 was not specified in partial_run_setup"),
            ({a: 1}, [r1], "Fetch r1:0 can't be computed from the feeds that have been fed so far: it needs b:0"),
        ]:
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                session.partial_run(handle, fetches, feeds)
        session.partial_run(handle, r1, {a: 1, b: 2})
        with pytest.raises(tf.errors.InvalidArgumentError, match="The feed a:0 has already been fed"):
            session.partial_run(handle, [], {a: 1})
        with pytest.raises(tf.errors.InvalidArgumentError, match="The fetch r1:0 has already been fetched"):
            session.partial_run(handle, r1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="'nobody'"):
            session.partial_run("nobody", r1)


def test_an_error_ends_the_step(graph: Any) -> None:
    a, _, _, _, _ = _abc()
    unfed = tf.placeholder(tf.float32, [], name="unfed")
    with tf.Session() as session:
        handle = session.partial_run_setup([a + unfed], [a])
        with pytest.raises(tf.errors.InvalidArgumentError, match="must feed a value for placeholder tensor 'unfed'"):
            session.partial_run(handle, [graph.get_operations()[-1].outputs[0]], {a: 1})
        assert session._partial == {}


def test_closing_the_session_ends_its_steps(graph: Any) -> None:
    a, b, _, r1, _ = _abc()
    session = tf.Session()
    handle = session.partial_run_setup([r1], [a, b])
    session.partial_run(handle, [], {a: 1})
    session.close()
    for thread in threading.enumerate():
        if thread.name.endswith(handle):
            thread.join(10)
            assert not thread.is_alive()


def test_an_interrupted_one_takes_nothing_more(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    item, put, size = queue.dequeue(), queue.enqueue([1.0]), queue.size()

    def interrupt(*args: Any) -> None:
        raise Interrupted

    with tf.Session() as session:
        handle = session.partial_run_setup([item])
        monkeypatch.setattr(Mailboxes, "wait", interrupt)
        with pytest.raises(Interrupted):
            session.partial_run(handle, item)
        monkeypatch.undo()
        for thread in threading.enumerate():
            if thread.name.endswith(handle):
                thread.join(10)
        session.run(put)
        assert session.run(size) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is finished"):
            session.partial_run(handle, item)


def test_a_deadline_says_what_is_waited_for(graph: Any) -> None:
    item = tf.FIFOQueue(10, [tf.float32], shapes=[[]], name="items").dequeue()
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=100)) as session:
        handle = session.partial_run_setup([item])
        with pytest.raises(tf.errors.DeadlineExceededError, match="FIFOQueue 'items' is open: size 0"):
            session.partial_run(handle, item)


def test_over_two_tasks(graph: Any) -> None:
    servers = {job: Server.bound(job, 0, "127.0.0.1", b"secret") for job in ("ps", "worker")}
    for server in servers.values():
        server.join_cluster({job: [other.address] for job, other in servers.items()})
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.device("/job:ps/task:0"):
        there = a * 2.0
    with tf.device("/job:worker/task:0"):
        here = there + b
    try:
        with tf.Session(servers["worker"].target) as session:
            handle = session.partial_run_setup([there, here], [a, b])
            assert session.partial_run(handle, there, {a: 3}) == 6
            assert session.partial_run(handle, here, {b: 1}) == 7
    finally:
        for server in servers.values():
            server.stop()
