"""A process that comes to the end of its program while peers wait for its answers."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from sparkflow_runtime.transport import handshake
from sparkflow_runtime.wire.errors import UnavailableError

from .conftest import WAIT_S, Net, eventually

ENDS_WHEN_ASKED = """
import sys, time
from threading import Event
from sparkflow_runtime.transport import NoHandler, listen

asked = Event()

class Slow(NoHandler):
    def on_message(self, channel, method, meta, tensors, reply):
        asked.set()
        time.sleep(float(meta))
        reply(b"it is " + meta)

print(listen("tcp://127.0.0.1:0", Slow()).url, flush=True)
asked.wait()
"""


@pytest.fixture
def ending() -> Any:
    with subprocess.Popen([sys.executable, "-c", ENDS_WHEN_ASKED], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_what_it_was_asked_is_answered_first(tcp: Net, ending: Any) -> None:
    """As by a parameter server whose program waits for the last worker's token: the worker's step is over, too."""
    there = tcp.dial(ending.stdout.readline().strip())
    assert there.call(1, b"0.1", (), WAIT_S)[0] == b"it is 0.1"
    assert ending.wait(WAIT_S) == 0


def test_an_answer_that_takes_long_is_not_waited_for(tcp: Net, ending: Any) -> None:
    there, begun_s = tcp.dial(ending.stdout.readline().strip()), time.monotonic()
    with pytest.raises(UnavailableError, match="closed the connection or died"):
        there.call(1, b"60", (), WAIT_S)
    assert ending.wait(WAIT_S) == 0 and time.monotonic() - begun_s < WAIT_S


def test_who_dials_as_the_listener_closes_is_no_matter_for_the_log(
    net: Net, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As tasks of one job do, that end at about the same time; a warning is for strangers."""
    listener = net.listen()
    accept, accepting, closed = handshake.accept, Event(), Event()

    def late(*arguments: Any) -> Any:
        accepting.set()
        closed.wait(WAIT_S)
        return accept(*arguments)

    monkeypatch.setattr(handshake, "accept", late)

    def dialled() -> None:
        with contextlib.suppress(UnavailableError):
            net.dial(listener.url)

    with ThreadPoolExecutor(1) as threads:
        dialling = threads.submit(dialled)
        assert accepting.wait(WAIT_S)
        listener.close()
        closed.set()
        dialling.result(WAIT_S)
    eventually(lambda: not listener._strangers)  # type: ignore[attr-defined]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
