"""A process that may open no more files, or begin no more threads, or is interrupted while it begins one."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from sparkflow_runtime.transport import dial, keepalive, listen, peers, sockets
from sparkflow_runtime.wire.errors import ResourceExhaustedError

from .conftest import WAIT_S, Net, eventually


def test_no_descriptor_for_a_connection(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = net.listen()

    def none_left(*args: Any) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", none_left)
        with pytest.raises(ResourceExhaustedError, match=r"Too many open files.*Allow this process more"):
            dial(listener.url, timeout_s=WAIT_S)
    assert net.dial(listener.url).call(1, b"again", (), WAIT_S)[0] == b"again"


def test_no_thread_to_read_a_connection(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody watches over it then, nor counts it."""
    listener, start = net.listen(), threading.Thread.start
    before = len(keepalive.MONITOR._pulses), len(peers._standing)

    def none_left(thread: threading.Thread) -> None:
        if thread.name.startswith("sparkflow-read") and threading.current_thread() is threading.main_thread():
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(ResourceExhaustedError, match="can't start new thread"):
            dial(listener.url, timeout_s=WAIT_S)
    there = net.dial(listener.url)
    assert there.call(1, b"again", (), WAIT_S)[0] == b"again"
    there.close()
    listener.close()
    eventually(lambda: (len(keepalive.MONITOR._pulses), len(peers._standing)) == before)


def test_no_descriptor_to_accept_with(
    net: Net, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may last for hours: it is tried on, and said once a minute."""
    listener, tried = net.listen(), list[int]()

    class Full:
        def accept(self) -> Any:
            tried.append(1)
            raise OSError(24, "Too many open files")

        def __getattr__(self, name: str) -> Any:
            return getattr(own, name)

    monkeypatch.setattr(sockets, "_ACCEPT_PAUSE_S", 0.001)
    own = listener._sock  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(listener, "_sock", Full())
        first = net.dial(listener.url)  # for whom it waited until now
        eventually(lambda: len(tried) > 20)
    assert sum("Too many open files" in text for text in caplog.messages) == 1
    for channel in (first, net.dial(listener.url)):
        assert channel.call(1, b"again", (), WAIT_S)[0] == b"again"


def test_a_listener_whose_start_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the thread starts: nobody has the listener yet, which accepted for as long as the process
    lived."""
    start, accepting = threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        accepting.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            listen("tcp://127.0.0.1:0", secret=b"secret")
    (thread,) = accepting
    thread.join(WAIT_S)
    assert not thread.is_alive()
