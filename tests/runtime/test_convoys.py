"""Threads that come to a lock which another has: nobody stands in its line, unless it is held for long."""

from __future__ import annotations

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
    lock = threading.Lock()
    with lock:
        convoys.stand_back(lock)
        assert lock.locked()
    convoys.stand_back(lock)
