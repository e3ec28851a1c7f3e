"""Hosts with several addresses, and addresses that no host here has."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from sparkflow_runtime.transport import listen
from sparkflow_runtime.transport.addresses import in_url, is_here, towards
from sparkflow_runtime.wire.errors import UnavailableError
from tests.runtime.transport.conftest import WAIT_S, Net


def test_an_address_of_which_nothing_comes_back_leaves_time_for_the_next(
    tcp: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a host with two networks, of which one has no way here."""
    url = tcp.listen().url
    port, asked = int(url.rpartition(":")[2]), socket.getaddrinfo

    def answer(host: str, *args: Any, **kwargs: Any) -> Any:
        hosts = ("127.0.0.9", "127.0.0.1") if host == "two.test" else (host,)
        return [found for one in hosts for found in asked(one, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.9", port), backlog=0))
        for _ in range(3):  # its queue: what else dials is not answered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            assert waiting.connect_ex(full.getsockname()) in (0, errno.EINPROGRESS)
        tcp.dial(f"tcp://two.test:{port}", timeout_s=WAIT_S / 5)


def test_an_address_that_no_host_here_has() -> None:
    with pytest.raises(UnavailableError, match=r"Cannot listen at tcp://192\.0\.2\.7:0: .*0\.0\.0\.0 stands for all"):
        listen("tcp://192.0.2.7:0", secret=b"s")


def test_own_addresses() -> None:
    assert is_here(socket.AF_INET, ("127.0.0.9", 1)) and not is_here(socket.AF_INET, ("192.0.2.7", 1))
    assert towards("127.0.0.1") == "127.0.0.1"
    assert [in_url(host) for host in ("a", "1.2.3.4", "::1", "[::1]")] == ["a", "1.2.3.4", "[::1]", "[::1]"]
