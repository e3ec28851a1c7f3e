"""Threads that come to a lock which another has: nobody stands in its line, unless it is held for long."""

from __future__ import annotations

import gc
import signal
import threading
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.resources import convoys
from sparkflow_runtime.resources.queue_elements import QueueSpec
from sparkflow_runtime.resources.queues import Queue
from sparkflow_runtime.wire import dtypes

WAIT_S = 10.0


class Slept:
    """A sleep that says that it began, and ends when it is told to."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def sleep(self, duration_s: float) -> None:
        self.begun.set()
        assert self.over.wait(WAIT_S)


def ignore(error: Any, outputs: Any) -> None: ...


ROWS = [np.arange(3, dtype=np.float32)]
CALLS: dict[str, tuple[Any, ...]] = {
    "enqueue_many": (ROWS, ignore),
    "try_enqueue_many": (ROWS,),
    "try_dequeue_many": (2,),
}


@pytest.mark.parametrize("call", CALLS)
def test_who_has_the_lock_gets_it_again(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept, queue = Slept(), Queue("q", QueueSpec("FIFOQueue", (dtypes.float32,), ((),), 10))
    queue.enqueue_many(ROWS, ignore)
    monkeypatch.setattr(convoys, "time", slept)
    with queue._lock:
        other = threading.Thread(target=getattr(queue, call), args=CALLS[call])
        other.start()
        assert slept.begun.wait(WAIT_S)
    assert queue._lock.acquire(False), "the other one stands in the line"
    queue._lock.release()
    slept.over.set()
    other.join(WAIT_S)
    assert queue.size == (1 if call == "try_dequeue_many" else 6)


def test_a_long_hold_is_waited_for() -> None:
    lock, held = threading.Lock(), list[bool]()
    with lock:
        other = threading.Thread(target=convoys.take, args=(lock, held))
        other.start()
        while len(held) < convoys._PAUSES:
            assert other.is_alive()
    other.join(WAIT_S)
    assert held == [False] * convoys._PAUSES + [True] and lock.locked()


def test_a_signal_leaves_no_lock_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes within an operation on a queue."""
    queue = Queue("q", QueueSpec("FIFOQueue", (dtypes.float32,), ((),), 1000))

    class Interrupted(BaseException):
        pass

    def interrupt(*_: Any) -> None:
        raise Interrupted

    gc.disable()  # others have callbacks of it, in which the exception would be lost
    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for k in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + k % 60))
                queue.try_enqueue_many(ROWS)
                queue.try_dequeue_many(3)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            assert not queue._lock.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert interrupted
