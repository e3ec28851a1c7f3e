"""A process that comes to the end of its program while peers wait for its answers."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from sparkflow_runtime.wire.errors import UnavailableError

from .conftest import WAIT_S, Net

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
