"""StagingArea: tuples of tensors handed from step to step, first in, first out; nothing is copied or checked.

Whoever has to wait is parked, as with a queue (queues.py), and completed by the step that makes room or brings values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from sparkflow_runtime.wire.errors import CancelledError, OpError, ResourceExhaustedError

Done = Callable[[OpError | None, Sequence[Any]], None]
Values = tuple[Any, ...]


class _Waiting:
    """`attempt()` gives the outputs, or None; the area's lock is held. `token`: of the step's on_cancel."""

    def __init__(self, attempt: Callable[[], Values | None], done: Done, step: Any):
        self.attempt, self.done, self.step, self.token = attempt, done, step, None
        self.over = False


class StagingArea:
    """capacity: in tuples, memory_limit: in bytes; 0 for no limit."""

    def __init__(self, name: str, capacity: int = 0, memory_limit: int = 0):
        self.name, self.capacity, self.memory_limit = name, capacity, memory_limit
        self._lock = Lock()
        self._held: deque[Values] = deque()
        self._bytes = 0
        self._puts: deque[_Waiting] = deque()
        self._takes: deque[_Waiting] = deque()

    @property
    def size(self) -> int:
        return len(self._held)

    def put(self, values: Values, done: Done, step: Any = None) -> None:
        """Raises ResourceExhaustedError where the values alone are more than the area may hold."""
        nbytes = _bytes_of(values)
        if 0 < self.memory_limit < nbytes:
            raise ResourceExhaustedError(
                f"Staging area {self.name!r} may hold {self.memory_limit} bytes; the values to put have {nbytes}"
            )

        def attempt() -> Values | None:
            full = self.capacity and len(self._held) >= self.capacity
            if full or (self.memory_limit and self._bytes + nbytes > self.memory_limit):
                return None
            self._held.append(values)
            self._bytes += nbytes
            return ()

        self._submit(_Waiting(attempt, done, step), self._puts)

    def get(self, done: Done, step: Any = None) -> None:
        """Take the oldest tuple."""

        def attempt() -> Values | None:
            if not self._held:
                return None
            values = self._held.popleft()
            self._bytes -= _bytes_of(values)
            return values

        self._submit(_Waiting(attempt, done, step), self._takes)

    def peek(self, index: int, done: Done, step: Any = None) -> None:
        """The tuple at that place, the oldest being 0, which stays."""
        self._submit(_Waiting(lambda: self._held[index] if index < len(self._held) else None, done, step), self._takes)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0
            ready = self._advanced()
        _deliver(ready)

    def close(self, cancel_pending: bool = True) -> None:
        """Its container is dropped: nobody will put or take any more."""
        with self._lock:
            waiting = [*self._puts, *self._takes]
            self._puts.clear()
            self._takes.clear()
            for one in waiting:
                one.over = True
        gone = CancelledError(f"Staging area {self.name!r} was dropped with its container")
        for one in waiting:
            _end(one, gone, ())

    # ------------------------------------------------------------------ waiting

    def _submit(self, one: _Waiting, line: deque[_Waiting]) -> None:
        with self._lock:
            line.append(one)
            ready = self._advanced()
            parked = not one.over
        _deliver(ready)
        if parked and one.step is not None:
            self._watch(one, line)

    def _watch(self, one: _Waiting, line: deque[_Waiting]) -> None:
        token = one.step.on_cancel(lambda error: self._withdraw(one, line, error))
        with self._lock:
            one.token, over = token, one.over
        if over:  # completed before it was watched
            one.step.off_cancel(token)

    def _withdraw(self, one: _Waiting, line: deque[_Waiting], error: OpError) -> None:
        with self._lock:
            if one.over:
                return
            one.over = True
            line.remove(one)
            ready = self._advanced()
        _deliver(ready)
        one.done(error, ())

    def _advanced(self) -> list[tuple[_Waiting, Values]]:
        """Those that can be completed now, with their outputs. Puts keep their order, and takes theirs."""
        ready: list[tuple[_Waiting, Values]] = []
        while self._first_of(self._puts, ready) or self._first_of(self._takes, ready):
            pass
        return ready

    @staticmethod
    def _first_of(line: deque[_Waiting], ready: list[tuple[_Waiting, Values]]) -> bool:
        outputs = line[0].attempt() if line else None
        if outputs is None:
            return False
        one = line.popleft()
        one.over = True
        ready.append((one, outputs))
        return True


def _bytes_of(values: Values) -> int:
    return sum(getattr(value, "nbytes", 0) for value in values)


def _deliver(ready: list[tuple[_Waiting, Values]]) -> None:
    for one, outputs in ready:
        _end(one, None, outputs)


def _end(one: _Waiting, error: OpError | None, outputs: Values) -> None:
    if one.token is not None:
        one.step.off_cancel(one.token)
    one.done(error, outputs)
