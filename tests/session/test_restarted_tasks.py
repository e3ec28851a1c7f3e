"""Tasks that were started again, as sessions see them that had made something there: in time, and all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.server import Server as RuntimeServer
from sparkflow_runtime.wire.tasks import are_of_one_life, new_handles

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
QUICK = tf.ConfigProto(operation_timeout_in_ms=3000)


@pytest.fixture
def servers(cluster: Any) -> dict[str, Server]:
    return cluster(ps=1, worker=2)


@pytest.fixture
def restart(servers: dict[str, Server]) -> Iterator[Callable[[], None]]:
    """The parameter server, in another's place at its address."""
    made: list[RuntimeServer] = []

    def again() -> None:
        old = servers["ps0"]._runtime
        assert old is not None
        old.stop()
        made.append(RuntimeServer("ps", 0, old.address, b"secret"))
        made[-1].join_cluster(old.cluster)

    yield again
    for server in made:
        server.stop()


def test_what_a_session_first_asks_of_it(servers: dict[str, Server], restart: Callable[[], None], graph: Any) -> None:
    """A graph that was new to the task ran there, without the variables and queues that the session had made."""
    with tf.device(PS):
        v = tf.Variable(2.0)
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="queue")
        size = queue.size()
    with tf.Session(servers["worker0"].target, config=QUICK) as session:
        session.run([v.initializer, queue.enqueue(1.0)])
        restart()
        for fetched in (size, v.initializer, v, size):
            with pytest.raises(tf.errors.AbortedError, match=r"ps.*was restarted"):
                session.run(fetched)
        with tf.device(WORKER):
            assert session.run(tf.constant(1.0) + 1.0) == 2.0


def test_a_graph_of_another_session_is_not_run(
    servers: dict[str, Server], restart: Callable[[], None], graph: Any
) -> None:
    """Both were its second: who asked for the first one's got what the other would have computed, or nothing."""

    def ask(worker: str, value: float) -> tuple[tf.Session, Any]:
        with tf.Graph().as_default() as made:
            with tf.device(PS):
                v = tf.Variable(value)
            with tf.device(worker):
                read = v + 0.0
            session = tf.Session(servers[f"worker{worker[-1]}"].target, made, QUICK)
            session.run(v.initializer)
            assert session.run(read) == value
            return session, read

    first, read = ask(WORKER, 1.0)
    restart()
    other, theirs = ask(OTHER, 2.0)
    with pytest.raises(tf.errors.AbortedError, match="it was restarted"):
        first.run(read)
    first.close()
    assert other.run(theirs) == 2.0
    other.close()


def test_a_monitored_session_begins_anew(servers: dict[str, Server], restart: Callable[[], None], graph: Any) -> None:
    with tf.device(PS):
        v, step = tf.Variable(1.0), tf.train.get_or_create_global_step()
        add, twice = v.assign_add(1.0), 2.0 * v
    assert step is not None
    with tf.train.MonitoredTrainingSession(servers["worker0"].target, config=QUICK) as session:
        assert session.run(add) == 2.0
        restart()
        assert session.run(twice) == 2.0


def test_a_task_that_another_reset(servers: dict[str, Server], graph: Any) -> None:
    with tf.device(PS):
        v = tf.Variable(2.0)
    with tf.Session(servers["worker0"].target, config=QUICK) as session:
        session.run(v.initializer)
        tf.Session.reset(servers["worker1"].target, config=tf.ConfigProto(device_filters=["/job:ps"]))
        with pytest.raises(tf.errors.AbortedError, match=r"ps.*was restarted or reset"):
            session.run(v.assign_add(1.0))


def test_handles_say_whose_they_are() -> None:
    one, other = new_handles(), new_handles()
    assert are_of_one_life(next(one), next(one)) and not are_of_one_life(next(one), next(other))
