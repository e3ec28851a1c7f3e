"""A loop whose body is in two processes: its values, and its end when one of them dies."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.server import Server
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import AbortedError, DeadlineExceededError, UnavailableError

WORKER, PS = "/job:worker/task:0", "/job:ps/task:0"
PS_PROGRAM = """
import sys
from sparkflow_runtime.server import Server
server = Server("ps", 0, "127.0.0.1:0", b"secret", keepalive_s=3.0)
print(server.address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def task() -> Iterator[tuple[Any, subprocess.Popen[str]]]:
    """(the worker's server in this process, the process of the parameter server)."""
    ps = subprocess.Popen([sys.executable, "-c", PS_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert ps.stdout is not None
    address = ps.stdout.readline().strip()
    server = Server("worker", 0, "127.0.0.1:0", b"secret", keepalive_s=3.0)
    server.join_cluster(ClusterSpec({"worker": [server.address], "ps": [address]}))
    yield server, ps
    server.stop()
    ps.send_signal(signal.SIGCONT)
    ps.kill()
    ps.communicate()


def _loop(iterations: Any) -> tuple[Any, Any, Any]:
    """Half of each iteration is on the parameter server, where a variable counts them."""
    with tf.device(PS):
        count = tf.Variable(np.int64(0), name="count")
    with tf.device(WORKER):
        x = tf.placeholder(tf.float64, [8])

        def body(i: Any, y: Any) -> Any:
            with tf.device(PS), tf.control_dependencies([tf.assign_add(count, 1)]):
                z = tf.sin(y) * x
            return i + 1, z + y * 0.5

        _, y = tf.while_loop(lambda i, _: i < iterations, body, [tf.constant(0), x])
        (dx,) = tf.gradients(y, x)
    return x, y, dx


def _value(x: Any, iterations: int) -> Any:
    y = x
    for _ in range(iterations):
        y = np.sin(y) * x + y * 0.5
    return y


def test_values_and_gradients(task: tuple[Any, Any]) -> None:
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [])
        x, y, dx = _loop(n)
        fed = np.linspace(0.2, 1.0, 8)
        with tf.Session(task[0].target) as session:
            session.run(tf.global_variables_initializer())
            for k in (0, 1, 30):
                value, slope = session.run([y, dx], {x: fed, n: k})
                np.testing.assert_allclose(value, _value(fed, k), rtol=1e-12)
                wanted = (_value(fed + 1e-6, k) - _value(fed - 1e-6, k)) / 2e-6
                np.testing.assert_allclose(slope, wanted, rtol=1e-6)
            assert session.run(tf.global_variables()[0]) == 31


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_in_an_iteration_ends_the_step(task: tuple[Any, subprocess.Popen[str]], how: Any) -> None:
    server, ps = task
    with tf.Graph().as_default():
        x, y, _ = _loop(10_000_000)
        with tf.Session(server.target) as session:
            session.run(tf.global_variables_initializer())
            begun = session.run(y.graph.get_tensor_by_name("count/read:0"))
            assert begun == 0
            threading.Timer(1.0, ps.send_signal, [how]).start()
            begun_s = time.monotonic()
            with pytest.raises((UnavailableError, AbortedError), match="/job:ps"):
                session.run(y, {x: np.ones(8)})
            assert time.monotonic() - begun_s < 30


def test_a_deadline_ends_all_shares_of_a_loop(task: tuple[Any, Any]) -> None:
    with tf.Graph().as_default():
        x, y, _ = _loop(10_000_000)
        count = tf.global_variables()[0]
        with tf.Session(task[0].target) as session:
            session.run(tf.global_variables_initializer())
            with pytest.raises(DeadlineExceededError):
                session.run(y, {x: np.ones(8)}, options=tf.RunOptions(timeout_in_ms=700))
            time.sleep(0.5)  # the message that tells the other task is on its way
            first = session.run(count)
            time.sleep(0.3)
            assert first > 0 and session.run(count) == first
