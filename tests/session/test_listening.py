"""Where a Server listens: at a port, and on its own host under a name made of it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime import dialling
from sparkflow_runtime.dialling import near_url
from sparkflow_runtime.server import Server


def test_a_port_whose_name_another_process_still_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another port is found where any would do; a port that was asked for is let go of."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    names: list[str] = []

    def taken_at_first(far: str) -> str:
        names.append(far)
        return near_url(address if len(names) == 1 else far)

    with socket.socket(socket.AF_UNIX) as other:
        other.bind(near_url(address).replace("unix://@", "\0"))
        with pytest.raises(tf.errors.UnavailableError, match="Cannot listen at unix://"):
            Server("worker", 0, address, b"secret")
        with socket.socket() as again:
            again.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        monkeypatch.setattr(dialling, "near_url", taken_at_first)
        server = Server("worker", 0, "127.0.0.1:0", b"secret")
        server.stop()
    assert len(names) == 2 and server.address == names[1] != names[0]


def test_the_name_of_a_port_goes_before_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets the port next listens under its name, too."""
    server, closed = Server("worker", 0, "127.0.0.1:0", b"secret"), []
    for listener in (server._listener, server._near):

        def close(listener: Any = listener, close: Any = listener.close) -> None:
            closed.append(listener.url)
            close()

        monkeypatch.setattr(listener, "close", close)
    server.stop()
    assert closed == [near_url(server.address), f"tcp://{server.address}"]
