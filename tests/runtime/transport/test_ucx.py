"""ucx://: the same channels over UCX, where the package ucxx is; elsewhere the error that says what to install."""

from __future__ import annotations

import importlib.util
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.transport import dial, listen
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)

from .conftest import Net, Recorder

HAS_UCXX = importlib.util.find_spec("ucxx") is not None
needs_ucxx = pytest.mark.skipif(not HAS_UCXX, reason="the package ucxx is not installed")
LARGE = np.random.default_rng(0).integers(0, 255, 20 << 20, dtype=np.uint8)
SECRET = uuid.uuid4().bytes
WAIT_S = 60.0


@pytest.fixture
def ucx() -> Iterator[Net]:
    with ExitStack() as stack:
        yield Net(stack, "ucx://127.0.0.1:0")


@pytest.mark.skipif(HAS_UCXX, reason="the package ucxx is installed")
@pytest.mark.parametrize("use", [dial, listen])
def test_without_the_package(use: Any) -> None:
    with pytest.raises(UnimplementedError, match="install ucxx-cu12"):
        use("ucx://127.0.0.1:1", None, SECRET)


@pytest.mark.parametrize("use", [dial, listen])
def test_bad_addresses(use: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expected ucx://host:port"):
        use("ucx://nowhere", None, SECRET)


def test_a_listener_needs_a_secret() -> None:
    with pytest.raises(InvalidArgumentError, match="every interface"):
        listen("ucx://127.0.0.1:0")


@needs_ucxx
@pytest.mark.parametrize("nbytes", [0, 1, 16_000, 17_000, 3 << 20, 20 << 20])
def test_calls_both_ways(ucx: Net, nbytes: int) -> None:
    server = Recorder()
    listener = ucx.listen(server, secret=SECRET, identity="/job:ps")
    there = ucx.dial(listener.url, secret=SECRET, identity="/job:worker")
    assert there.peer == "/job:ps" and listener.url.startswith("ucx://127.0.0.1:")
    meta, (got,) = there.call(7, b"hello", [LARGE[:nbytes]], WAIT_S)
    assert meta == b"hello" and (got == LARGE[:nbytes]).all()
    assert server.message()[0].call(8, b"back", [LARGE[:nbytes]], WAIT_S)[0] == b"back"


@needs_ucxx
def test_many_threads(ucx: Net) -> None:
    there = ucx.dial(ucx.listen(secret=SECRET).url, secret=SECRET)

    def work(i: int) -> bool:
        return bool((there.call(1, b"", [LARGE[: 5000 * i]], WAIT_S)[1][0] == LARGE[: 5000 * i]).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(20)))


@needs_ucxx
def test_endings_and_refusals(ucx: Net) -> None:
    server = Recorder()
    listener = ucx.listen(server, secret=SECRET)
    with pytest.raises(OpError) as refused:
        dial(listener.url, None, b"another")
    assert isinstance(refused.value, UnauthenticatedError)
    there = ucx.dial(listener.url, secret=SECRET)
    assert there.call(1, b"x", (), WAIT_S)[0] == b"x"
    there.close("enough")
    assert isinstance(server.close_error(), UnavailableError)
    listener.close()
    with pytest.raises((UnavailableError, DeadlineExceededError)):
        dial(listener.url, None, SECRET, timeout_s=3)


@needs_ucxx
def test_a_peer_that_does_not_read(ucx: Net) -> None:
    go, server = threading.Event(), Recorder()
    server.answer = lambda channel, method, meta, tensors, reply: go.wait(WAIT_S) if method == 6 else reply(meta)
    there = ucx.dial(ucx.listen(server, secret=SECRET).url, secret=SECRET)
    there.push(6)
    with pytest.raises(DeadlineExceededError):
        there.call(7, b"", [np.concatenate([LARGE] * 3)], 0.5)
    go.set()
    assert there.call(8, b"on", (), WAIT_S)[0] == b"on"
