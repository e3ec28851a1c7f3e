"""A session whose first run was interrupted (Ctrl-C) goes on with the next one, and one that was not opened is gone."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.master import step_run
from sparkflow_runtime.remote_session import RemoteSession
from sparkflow_runtime.server import Server
from sparkflow_runtime.transport.channel import SocketChannel
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.patience import Patience
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from tests.interrupts import Interrupted, interrupted


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that came in a finalizer
@pytest.mark.parametrize("event", range(0, 120, 3))
def test_a_run_after_one_that_was_interrupted_while_the_graph_was_told(graph: Any, event: int) -> None:
    v = tf.Variable(2.0)
    more = v + 1.0
    with tf.Session() as session:
        interrupted(session._begin, event)
        session.run(tf.global_variables_initializer())
        assert session.run(more) == 3


@pytest.fixture
def server() -> Any:
    made = Server("worker", 0, "127.0.0.1:0")
    made.join_cluster(ClusterSpec({"worker": [made.address]}))
    yield made
    made.stop()


def _interrupted_after(method: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the first call of a method has come, and nobody hears it."""
    call = SocketChannel.call

    def interrupt(channel: Any, asked: int, *given: Any) -> Any:
        found = call(channel, asked, *given)
        if asked == method:
            monkeypatch.undo()
            raise Interrupted
        return found

    monkeypatch.setattr(SocketChannel, "call", interrupt)


def _nodes(*names: str) -> GraphDef:
    return GraphDef(node=[NodeDef(name=name, op="NoOp") for name in names])


def test_a_graph_whose_master_was_told_and_nobody_heard_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    session = RemoteSession(server.target)
    try:
        _interrupted_after(sessions.EXTEND, monkeypatch)
        with pytest.raises(Interrupted):
            session.extend(_nodes("a", "b"))
        with pytest.raises(InvalidArgumentError, match="two nodes are called 'a'"):
            session.extend(_nodes("a"))
        session.extend(_nodes("a", "b", "c"), again=True)
        session.run({}, [], ["a", "b", "c"])
    finally:
        session.close()


def test_a_session_that_was_interrupted_while_it_was_opened_is_over(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupted_after(sessions.OPEN, monkeypatch)
    with pytest.raises(Interrupted):
        RemoteSession(server.target)
    session = RemoteSession(server.target)
    session.extend(_nodes("a"))
    session.run({}, [], ["a"])  # the end of the other has been read by now, or is next
    session.close()
    channels = [c for listener in (server._listener, server._near) for c in listener.channels()]
    for channel in channels:
        channel._reader.join(20)  # type: ignore[attr-defined]
    assert not server._clients._sessions


def test_a_step_that_is_interrupted_twice_takes_nothing_any_more(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time as it ends because of the first."""
    queue = tf.FIFOQueue(2, tf.int32, [[]])
    taken, more, size = queue.dequeue(), queue.enqueue(7), queue.size()
    ends = 0

    def again(self: Any, error: Any) -> None:
        nonlocal ends
        ends += 1
        raise Interrupted

    def first(self: Any, *given: Any) -> None:
        raise Interrupted

    monkeypatch.setattr(step_run.StepRun, "abort", again)
    monkeypatch.setattr(Patience, "at_most", first)  # as it begins to wait
    with tf.Session() as session:
        with pytest.raises(Interrupted):
            session.run(taken)
        monkeypatch.undo()
        session.run(more)
        assert ends == 1 and session.run(size) == 1
        assert session.run(taken) == 7
