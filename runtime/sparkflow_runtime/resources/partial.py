"""What a partial run's caller and its step give each other: values by name, each of them once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Lock, RLock
from typing import Any

from sparkflow_runtime.wire.errors import DeadlineExceededError, OpError


class Mailboxes:
    """Of one step. Feeds wait here for the caller or for the step, whoever is later; fetches for the caller."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._changed = Condition(self._lock)  # of which `with` may be interrupted and leave the lock taken
        self._feeds: dict[str, Any] = {}
        self._takers: dict[str, Callable[[Any], None]] = {}
        self._fetched: dict[str, Any] = {}
        self._error: OpError | None = None

    def give(self, name: str, value: Any) -> None:
        """The caller's feed, for whoever waits for it or comes for it later."""
        with self._lock:
            taker = self._takers.pop(name, None)
            if taker is None:
                self._feeds[name] = value
        if taker is not None:
            taker(value)

    def take_later(self, name: str, taker: Callable[[Any], None]) -> None:
        """Have `taker(value)` called with the feed: now, or by whoever gives it."""
        with self._lock:
            if name not in self._feeds:
                self._takers[name] = taker
                return
            value = self._feeds.pop(name)
        taker(value)

    def withdraw(self, name: str) -> bool:
        """Forget who waits for the feed; whether somebody did."""
        with self._lock:
            return self._takers.pop(name, None) is not None

    def put(self, name: str, value: Any) -> None:
        """The step's value of a fetch."""
        with self._lock:
            self._fetched[name] = value
            self._changed.notify_all()

    def fail(self, error: OpError) -> None:
        """The step has ended before its time."""
        with self._lock:
            self._error = error
            self._changed.notify_all()

    def wait(self, name: str, timeout_s: float | None) -> Any:
        """The value of a fetch. Raises the step's error, DeadlineExceededError after `timeout_s`."""
        with self._lock:
            if not self._changed.wait_for(lambda: name in self._fetched or self._error is not None, timeout_s):
                raise DeadlineExceededError(f"Partial run: {name!r} was not computed in {timeout_s:g} s")
            if name not in self._fetched:
                raise self._error  # type: ignore[misc]
            return self._fetched.pop(name)


class PartialSteps:
    """Step id -> its mailboxes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._boxes: dict[int, Mailboxes] = {}

    def of(self, step_id: int) -> Mailboxes:
        with self._lock:
            return self._boxes.setdefault(step_id, Mailboxes())

    def end(self, step_id: int) -> None:
        with self._lock:
            self._boxes.pop(step_id, None)
