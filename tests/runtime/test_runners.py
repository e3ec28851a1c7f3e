"""Runners: threads for what may wait or take long."""

from __future__ import annotations

import threading
import time
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from sparkflow_runtime.runners import Runners
from sparkflow_runtime.wire.errors import ResourceExhaustedError


class Snatched(SimpleQueue[Any]):
    """A thread's time is over; then there is work, which another thread takes before it can."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if timeout is not None:
            raise Empty
        return super().get()

    def empty(self) -> bool:
        return False


def test_a_thread_whose_last_work_another_one_takes_just_ends() -> None:
    runners = Runners("test")
    runners._work = Snatched()
    for _ in range(2):
        done = threading.Event()
        threading.Thread(target=runners.submit, args=(done.set,), daemon=True).start()
        assert done.wait(10), "a thread waits for work with the lock held"
        deadline = time.monotonic() + 10
        while runners._count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert (runners._count, runners._idle) == (0, 0)


def test_a_thread_that_is_not_to_be_had_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runners, done = Runners("test", most=1), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(ResourceExhaustedError, match="can't start new thread"):
            runners.submit(done.set)
    runners.submit(done.set)
    assert done.wait(10)


def test_threads_that_are_let_go_end_when_they_have_nothing_to_do() -> None:
    runners, go, told = Runners("let go"), threading.Event(), SimpleQueue[int]()

    def work(number: int) -> None:
        if number:
            go.wait(10)
        told.put(number)

    for number in range(4):
        runners.submit(partial(work, number))
    assert told.get(timeout=10) == 0
    runners.let_go()
    _gone(runners, 3)  # the idle one
    go.set()
    assert {told.get(timeout=10) for _ in range(3)} == {1, 2, 3}
    _gone(runners, 0)
    runners.submit(partial(work, 0))  # which was asked for as the end came
    assert told.get(timeout=10) == 0
    _gone(runners, 0)


def _gone(runners: Runners, but: int) -> None:
    """Until so many of its threads live."""
    deadline = time.monotonic() + 5
    while sum(thread.name == "let go" for thread in threading.enumerate()) != but or runners._count != but:
        assert time.monotonic() < deadline
        time.sleep(0.001)
