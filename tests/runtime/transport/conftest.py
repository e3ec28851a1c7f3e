"""Listeners and channels that are closed after each test, and a child process to dial."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import Channel, Handler, Listener, Options, dial, listen
from sparkflow_runtime.wire.errors import OpError

DEFAULT = Options()
WAIT_S = 10.0  # for what must come; no test is meant to use it up


class Recorder:
    """A handler that keeps what it was told, and answers calls through `answer` (an echo where there is none)."""

    def __init__(self, answer: Callable[..., None] | None = None):
        self.messages: SimpleQueue[tuple[Channel, int, bytes, list[np.ndarray]]] = SimpleQueue()
        self.closed: SimpleQueue[OpError] = SimpleQueue()
        self.answer = answer or (lambda channel, method, meta, tensors, reply: reply and reply(meta, tensors))

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Any) -> None:
        self.messages.put((channel, method, meta, tensors))
        self.answer(channel, method, meta, tensors, reply)

    def on_close(self, channel: Channel, error: OpError) -> None:
        self.closed.put(error)

    def message(self) -> tuple[Channel, int, bytes, list[np.ndarray]]:
        return self.messages.get(timeout=WAIT_S)

    def close_error(self) -> OpError:
        return self.closed.get(timeout=WAIT_S)


class Net:
    """Makes listeners and channels, and closes them in the end."""

    def __init__(self, stack: ExitStack, url: str):
        self._stack, self._url = stack, url

    def listen(self, handler: Handler | None = None, url: str = "", **kwargs: Any) -> Listener:
        listener = listen(url or self._url, handler or Recorder(), **kwargs)
        self._stack.callback(listener.close)
        return listener

    def dial(self, url: str, handler: Handler | None = None, **kwargs: Any) -> Channel:
        channel = dial(url, handler or Recorder(), **kwargs)
        self._stack.callback(channel.close)
        return channel

    def pair(self, server: Handler | None = None, client: Handler | None = None, **kwargs: Any) -> Channel:
        return self.dial(self.listen(server, **kwargs).url, client, **kwargs)

    def child(self, options: Options = DEFAULT) -> tuple[subprocess.Popen[str], Channel, Recorder]:
        """A process that echoes, and a channel to it."""
        script = str(Path(__file__).with_name("echo_child.py"))
        command = [sys.executable, script, str(options.keepalive_s), self._url]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        self._stack.enter_context(process)  # closes its pipes and waits for it
        self._stack.callback(process.kill)
        handler = Recorder()
        url = process.stdout.readline().strip()
        return process, self.dial(url, handler, identity="/job:test", options=options), handler


def eventually(condition: Callable[[], bool]) -> None:
    """For what happens in another thread and tells nobody."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.001)


@pytest.fixture(params=["tcp", "unix", "abstract"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Net]:
    urls = {"tcp": "tcp://127.0.0.1:0", "unix": f"unix://{tmp_path}/s", "abstract": f"unix://@{uuid.uuid4()}"}
    with ExitStack() as stack:
        yield Net(stack, urls[request.param])


@pytest.fixture
def unix() -> Iterator[Net]:
    with ExitStack() as stack:
        yield Net(stack, f"unix://@{uuid.uuid4()}")


@pytest.fixture
def tcp() -> Iterator[Net]:
    with ExitStack() as stack:
        yield Net(stack, "tcp://127.0.0.1:0")
