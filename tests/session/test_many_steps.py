"""Many steps of one client at once: other clients do not notice."""

from __future__ import annotations

import time
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.runners import Runners
from sparkflow_runtime.server import Server
from sparkflow_runtime.transport import dial
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.cluster import ClusterSpec


def test_a_client_with_too_many_steps_keeps_no_other_out(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it may have at once is its own; when it is gone, so are its steps."""
    own = Runners.__init__
    monkeypatch.setattr(Runners, "__init__", lambda self, name, most=3: own(self, name, most))
    server = Server("worker", 0, "127.0.0.1:0", b"secret")
    server.join_cluster(ClusterSpec({"worker": [server.address]}))
    channels = [dial(f"tcp://{server.address}", None, b"secret", f"client {i}") for i in range(2)]
    try:
        with tf.device("/job:worker/task:0"):
            queue = tf.FIFOQueue(1, [tf.float32])
            waiting, quick = queue.dequeue(), tf.constant(1.0) + 1
        written = np.frombuffer(graph.as_graph_def().SerializeToString(), np.uint8)
        for channel in channels:
            channel.call(sessions.OPEN, b"", (), 20.0)
            channel.call(sessions.EXTEND, b"", [written], 20.0)

        def ask(client: int, step: int, fetched: Any, done: Any) -> None:
            signature = sessions.Signature((), (fetched.name,), ()).encode()
            request = sessions.StepRequest(step, step, b"", signature)
            channels[client].call_async(sessions.STEP, request.encode(), (), done)

        ended: SimpleQueue[Any] = SimpleQueue()
        for step in range(4):
            ask(0, step, waiting, lambda error, meta, tensors: ended.put(error))
        assert isinstance(ended.get(timeout=20), tf.errors.ResourceExhaustedError) and ended.empty()
        answered: SimpleQueue[Any] = SimpleQueue()
        ask(1, 9, quick, lambda error, meta, tensors: answered.put(error or tensors))
        assert answered.get(timeout=20)[0] == 2
        steps = server.worker.rendezvous._steps
        channels[0].close()
        until = time.monotonic() + 20
        while steps and time.monotonic() < until:
            time.sleep(0.01)
        assert not steps, "they end with their client"
    finally:
        for channel in channels:
            channel.close()
        server.stop()
