"""Mutex: whoever asks for it gets it in turn, one at a time; a step that ends by an error gives it back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from sparkflow_runtime.wire.errors import CancelledError, OpError

Done = Callable[[OpError | None, Sequence[Any]], None]


class Held:
    """That one step has the mutex, until release(): it is handed from node to node as a tensor without elements."""

    __slots__ = ("_done", "_mutex", "_step", "_token")
    shape: tuple[int, ...] = ()

    def __init__(self, mutex: Mutex, done: Done, step: Any):
        self._mutex: Mutex | None = mutex
        self._done, self._step, self._token = done, step, 0

    def release(self) -> None:
        """Once; then it does nothing."""
        mutex, self._mutex = self._mutex, None
        if mutex is not None:
            if self._step is not None:
                self._step.off_cancel(self._token)
            mutex.give_back(self)

    __del__ = release  # of a step that fetched the lock and let go of it by nothing


class Mutex:
    def __init__(self, name: str):
        self.name = name
        self._lock = RLock()  # a Held may be collected, and give back, in a thread that has it
        self._line: deque[Held] = deque()  # the first one has it; Held does not keep itself alive once it has
        self._taken = False

    def lock(self, done: Done, step: Any = None) -> None:
        """done(None, (held,)) once it is this one's turn."""
        held = Held(self, done, step)
        with self._lock:
            self._line.append(held)
        if step is not None:
            held._token = step.on_cancel(lambda error: self._withdraw(held, error), self._describe)
        self._next()

    def give_back(self, held: Held) -> None:
        with self._lock:
            self._taken = False
        self._next()

    def close(self, cancel_pending: bool = True) -> None:
        """Its container is dropped."""
        with self._lock:
            waiting = list(self._line)
            self._line.clear()
        for one in waiting:
            one._mutex = None
            one._done(CancelledError(f"Mutex {self.name!r} was dropped with its container"), ())

    def _next(self) -> None:
        with self._lock:
            if self._taken or not self._line:
                return
            held, self._taken = self._line.popleft(), True
        held._done(None, (held,))

    def _withdraw(self, held: Held, error: OpError) -> None:
        with self._lock:
            waits = held in self._line
            if waits:
                self._line.remove(held)
        if not waits:
            held.release()
            return
        held._mutex = None
        held._done(error, ())

    def _describe(self) -> str:
        return f"Mutex {self.name!r}: {len(self._line)} wait for it"
