"""What a step over several tasks does without: messages, and gates between servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.remote_task import RemoteTask
from sparkflow_runtime.wire.bundles import encode_table
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def received(servers: Any, run: Callable[[], Any], times: int = 10) -> int:
    """Frames that worker 0 has of the server while `run` runs so often."""
    run()
    channel = servers["worker0"]._runtime.channel("/job:ps/replica:0/task:0")
    before = channel.counters["frames_received"]
    for _ in range(times):
        run()
    return int(channel.counters["frames_received"]) - before


def test_the_last_tensors_for_who_asks_come_with_the_reply(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        v = tf.Variable([1.0, 2.0])
        words, nothing = tf.constant([b"a", b""]), tf.zeros([0, 3])
        queue = tf.FIFOQueue(100, [tf.int32], shapes=[[]])
        put, token = queue.enqueue_many([np.arange(50, dtype=np.int32)]), queue.dequeue()
    with tf.device(WORKER):
        more = [v + 1.0, tf.strings.join([words, words]), tf.shape(nothing)]
        ticket = token + 100
    with tf.Session(servers["worker0"].target) as session:
        session.run([tf.global_variables_initializer(), put])
        assert 10 <= received(servers, lambda: session.run(more)) <= 12, "but for heartbeats"
        assert [a.tolist() for a in session.run(more)] == [[2, 3], [b"aa", b""], [0, 3]]
        tickets: list[int] = []
        assert 10 <= received(servers, lambda: tickets.append(session.run(ticket))) <= 12
        assert tickets == list(range(100, 111))


def test_what_is_fetched_comes_with_them(cluster: Any, graph: Any) -> None:
    """One that travels shortened, one that is dead, and a value of the server itself."""
    servers = cluster(ps=1, worker=1)
    on = tf.placeholder(tf.bool, [])
    with tf.device(PS):
        v = tf.Variable(np.float32([1.5, 2.5]))
        twice = v * 2.0
        taken = tf.cond(on, lambda: v + 1.0, lambda: v - 1.0)
    with tf.device(WORKER):
        here = twice + taken
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        for said, want in ((True, [5.5, 8.5]), (False, [3.5, 6.5])):
            found, own = session.run([here, twice], {on: said})
            assert found.tolist() == want and own.tolist() == [3, 5]


def test_an_error_of_the_server_is_told_with_no_tensors(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [None])
        checked = tf.check_numerics(x, "not a number")
    with tf.device(WORKER):
        y = checked + 1.0
    with tf.Session(servers["worker0"].target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
            session.run(y, {x: [np.nan]})
        assert session.run(y, {x: [1.0]}).tolist() == [2]


def test_a_reply_whose_table_is_wrong_fails_the_step() -> None:
    """And is not dropped, or its session would wait for ever."""
    heard: list[tuple[OpError | None, Any]] = []

    class Channel:
        def call_async(self, method: int, meta: bytes, tensors: Any, done: Any, deadline: Any = None) -> int:
            done(None, encode_table([(7, [np.zeros(2)] * 3)]), [np.zeros(2)])
            return 1

        def take_answer(self, call_id: int, until: float) -> None:
            raise AssertionError("it is here")

    class Server:
        def open_channel(self, task: str) -> Channel:
            return Channel()

    RemoteTask(Server(), "/job:ps/replica:0/task:0").start(1, 2, [], lambda *said: heard.append(said))  # type: ignore[arg-type]
    [(error, _)] = heard
    assert isinstance(error, InvalidArgumentError) and "1 came" in error.message


def test_each_server_hears_by_itself_that_all_averages_are_there(graph: Any) -> None:
    """A synchronous update begins when they are, and not when a server that waited for them has made its own."""
    with tf.device(tf.train.replica_device_setter(3, worker_device=WORKER)):
        step = tf.train.get_or_create_global_step()
        held = [tf.Variable(float(i)) for i in range(5)]
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1)
        optimizer.minimize(tf.add_n(held), step)

    def before(op: Any) -> set[Any]:
        seen, todo = set(), [op]
        while todo:
            found = todo.pop()
            sources = {*(t.op for t in found.inputs), *found.control_inputs} - seen
            seen |= sources
            todo += sources
        return seen

    takes = {op for op in graph.get_operations() if op.type == "AccumulatorTakeGradient"}
    updates = {op for op in graph.get_operations() if op.type == "ApplyGradientDescent"}
    assert len(takes) == len(updates) == 5 and len({op.device for op in updates}) == 3
    for update in updates:
        first = before(update)
        assert takes <= first and not updates & first
        waits = {op.device for op in first if len({take.device for take in takes & before(op)}) > 1}
        assert waits == {update.device}
