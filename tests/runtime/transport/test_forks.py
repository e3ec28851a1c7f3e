"""A process that was forked from one with connections: by a pool that makes batches, say."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import dial, listen, shared
from sparkflow_runtime.wire.errors import OpError

from .conftest import WAIT_S, Net, Recorder

FORK = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def _forked(work: Callable[[], Any]) -> Any:
    """What a fork's `work()` returns, or the text of what it raises."""

    def run() -> None:
        try:
            here.send(work())
        except OpError as error:
            here.send(error.message)

    there, here = FORK.Pipe(False)
    child = FORK.Process(target=run)
    child.start()
    try:
        assert there.poll(WAIT_S), "the fork waits"
        return there.recv()
    finally:
        child.kill()
        child.join()


def test_a_forks_close_closes_nothing_of_its_parents(net: Net) -> None:
    listener = net.listen(Recorder())
    there = net.dial(listener.url)

    def close() -> None:
        there.close()
        listener.close()

    _forked(close)
    assert there.call(1, b"on", (), WAIT_S)[0] == b"on"
    assert net.dial(listener.url).call(1, b"another", (), WAIT_S)[0] == b"another"


def test_a_forks_call_is_refused_and_its_own_connections_serve(net: Net) -> None:
    listener = net.listen(Recorder())
    there = net.dial(listener.url)
    assert "the process that this one was forked from" in _forked(lambda: there.call(1, b"", (), WAIT_S))
    assert _forked(lambda: dial(listener.url).call(1, b"own", (), WAIT_S)[0]) == b"own"
    assert there.call(1, b"on", (), WAIT_S)[0] == b"on"


def test_a_process_that_dies_is_missed_at_once_whatever_forks_it_leaves(tcp: Net) -> None:
    def serve() -> None:
        listener = listen("tcp://127.0.0.1:0", Recorder())
        orphan = FORK.Process(target=signal.pause)
        orphan.start()
        here.send((listener.url, orphan.pid))
        signal.pause()

    there, here = FORK.Pipe(False)
    server = FORK.Process(target=serve)
    server.start()
    url, orphan = there.recv()
    try:
        tcp.dial(url, handler := Recorder())
        server.kill()
        assert "closed the connection or died" in handler.close_error().message
        server.join()
        with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))):
            pass  # whoever comes in its place finds the port free
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.skipif(not shared.AVAILABLE, reason="this system has no sealed anonymous files")
def test_a_fork_has_its_own_copy_of_what_came_in_shared_memory(unix: Net) -> None:
    """Its parent lets go of a payload, and the next one is written there; a fork that lets go of it gives nothing
    back, as its parent may still look at it."""
    there = unix.pair()
    held = [there.call(1, b"", [np.full(1 << 18, n, np.float32)], WAIT_S)[1][0] for n in (1, 2)]
    assert there.counters["bytes_borrowed"] == 2 << 20
    (told, tell), (heard, answer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        held.pop()
        os.write(answer, b".")
        os.read(told, 1)
        os.write(answer, b"y" if (held[0] == 1).all() else b"n")
        os._exit(0)
    assert os.read(heard, 1) == b"."
    del held[0]
    for n in range(3, 6):
        assert (there.call(1, b"", [np.full(1 << 18, n, np.float32)], WAIT_S)[1][0] == n).all()
    assert (held[0] == 2).all()
    os.write(tell, b".")
    assert os.read(heard, 1) == b"y"
    os.waitpid(child, 0)
    for descriptor in (told, tell, heard, answer):
        os.close(descriptor)
