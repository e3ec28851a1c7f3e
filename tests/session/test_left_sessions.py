"""Sessions that ended while nobody could be told: they are forgotten all the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.server import Server
from sparkflow_runtime.transport.base import Channel, dial
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import UnavailableError
from sparkflow_runtime.wire.protos import ConfigProto

PS = "/job:ps/task:0"


def _until(true: Any) -> None:
    ends = time.monotonic() + 20
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_a_client_that_goes_before_its_server_knows_the_cluster_leaves_no_session() -> None:
    server = Server("worker", 0, "127.0.0.1:0")
    try:
        answers: list[Any] = []
        client = dial(f"tcp://{server.address}")
        asked = client.call_async(sessions.OPEN, ConfigProto().SerializeToString(), (), lambda *a: answers.append(a))
        assert asked
        client.close()
        _until(lambda: answers and all(channel.error for channel in server._listener.channels()))
        server.join_cluster(ClusterSpec({"worker": [server.address]}))
        other = dial(f"tcp://{server.address}")
        other.call(sessions.OPEN, ConfigProto().SerializeToString(), (), 20)
        _until(lambda: len(server._clients._sessions) == 1)
        other.close()
        _until(lambda: not server._clients._sessions)
    finally:
        server.stop()


def test_a_task_hears_of_ended_sessions_though_it_was_not_told_at_once(
    cluster: Any, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told of with the next part that it is to register; where that is lost, with the one after."""
    servers = cluster(ps=1, worker=1)
    ps, worker = servers["ps0"]._runtime, servers["worker0"]._runtime
    with tf.device(PS):
        x = tf.placeholder_with_default(3.0, [])
        out, more = tf.constant([1.0, 2.0]) * x, tf.constant([1.0, 2.0]) + x
    with tf.Session(worker.target) as session:
        session.run(out)
        worker.open_channel(ps.name).close("cut")
        _until(lambda: worker.open_channel(ps.name) is None)
    assert worker.untold
    channel: type[Channel] = type(worker.channel(ps.name))

    def lost(*args: Any) -> Any:
        raise UnavailableError("lost while sending")

    with tf.Session(worker.target) as session:
        with monkeypatch.context() as patch:
            patch.setattr(channel, "call_async", lost)
            with pytest.raises(tf.errors.UnavailableError, match="lost while sending"):
                session.run(more)
        session.run(more)
    _until(lambda: not ps.worker._parts and not worker.untold)
