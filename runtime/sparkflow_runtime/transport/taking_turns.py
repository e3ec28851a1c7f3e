"""Who reads a channel by which this end only calls: its reader thread, or a caller that waits for its own answer.

A caller that reads what it waits for saves itself a hand-over between two threads, which takes as long as the rest of a
small call. So the reader thread steps aside once nothing is asked any more, and comes back when a caller asks while
another one reads, when what came is no caller's to take, and when nobody has called for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from queue import Empty, SimpleQueue

from sparkflow_runtime.transport.receiving import Message, Receiver
from sparkflow_runtime.wire.errors import OpError

_AWAY_S = 0.02  # at most twice that long nobody reads a channel by which nobody calls


class TakingTurns:
    """pending: the calls that wait for an answer. A call is among them before it is sent."""

    def __init__(self, pending: Collection[int]):
        self._pending = pending
        self._right = threading.Lock()  # who holds it reads
        self._wanted: SimpleQueue[bool] = SimpleQueue()  # not empty: the reader thread is; no signal leaves it locked
        self._calls = 0

    @property
    def somebody_reads(self) -> bool:
        return self._right.locked()

    def begin(self) -> None:
        """By the reader thread, before it first reads."""
        self._right.acquire()

    def step_aside(self) -> None:
        """By the reader thread, after a frame: where nothing is asked, callers may read until it is wanted."""
        while self._is_wanted(0.0):
            pass
        if self._pending:
            return
        self._right.release()
        seen = -1
        while not self._is_wanted(_AWAY_S) and (self._right.locked() or self._calls != seen):
            seen = self._calls
        self._right.acquire()

    def call_back(self) -> None:
        """Have the reader thread read again."""
        if self._wanted.empty():
            self._wanted.put(True)

    def _is_wanted(self, timeout_s: float) -> bool:
        try:
            return self._wanted.get(timeout=timeout_s)
        except Empty:
            return False

    def answer(self, receiver: Receiver, call_id: int, deadline: float | None) -> Message | None:
        """The answer to a call, read by its caller; None where the reader thread has it, or is to read it."""
        found = None
        held: list[bool] = []
        try:  # an exception from a signal's handler comes after any call: the right is given back all the same
            held.extend(map(self._right.acquire, (False,)))
            if held[0] and call_id in self._pending:  # else the reader thread has had it before it stepped aside
                self._calls += 1
                found = receiver.answer(call_id, deadline)
        except OpError:
            pass  # a bad frame: the reader thread meets it, too, and ends the channel
        finally:
            if held and held[0]:
                self._right.release()
        if found is None and call_id in self._pending:
            self.call_back()
        return found
