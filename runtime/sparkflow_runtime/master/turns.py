"""Turns: who compiles in a session. One at a time, and between two passes the latest to come goes first.

A chief's thread for synchronous updates compiles a graph of thousands of nodes for which nothing has come yet, while
the program's own first run, which is small, would wait for it: the session would be ready 0.3 s later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from threading import TIMEOUT_MAX, Condition, Lock, get_ident
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sparkflow_runtime.wire import waiting
from sparkflow_runtime.wire.errors import DeadlineExceededError

T = TypeVar("T")


class Turns:
    """A lock (`with turns:`) whose holder may `give_way`.

    An exception from a signal's handler (Ctrl-C) may come at the beginning of any function and after any call into C.
    So what takes the lock, and what gives it back, is one such call.
    """

    def __init__(self) -> None:
        self._lock, self._guard = Lock(), Lock()
        self._changed = Condition(self._guard)
        self._asking: dict[int, None] = {}  # threads that have come and had no turn yet
        self._making: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()  # locks, for as long as one is used

    def __enter__(self) -> None:
        held: list[bool] = []
        try:
            self._asking[get_ident()] = None
            with waiting.wait(TIMEOUT_MAX) as most_s:
                held.extend(map(self._lock.acquire, (True,), (most_s,)))
            _check(held[0])
            self._asks_no_more()
        except BaseException:
            if any(held):
                self._lock.release()
            self._asks_no_more()
            raise

    @property
    def __exit__(self) -> Callable[..., Any]:  # noqa: PLE0302 - C's own
        return self._lock.__exit__

    def _asks_no_more(self) -> None:
        with self._guard:
            self._asking.pop(get_ident(), None)
            if not self._asking:
                self._changed.notify_all()

    def give_way(self) -> None:
        """By the holder, where nothing is half done: let who has come since have the lock, and go on after them."""
        if not self._asking:
            return
        released: list[Any] = []
        try:
            self._asks_no_more()  # an earlier time, that was interrupted
            released.extend(map(methodcaller("release"), (self._lock,)))
            with self._guard:
                self._changed.wait_for(lambda: not self._asking)
        finally:
            if released:
                self._lock.acquire()

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """A turn for who is waited for by nobody: everybody else goes first, at the start and between passes."""
        self._lock.acquire()
        try:
            self.give_way()
            yield
        finally:
            self._lock.release()

    def once(self, key: Hashable, known: Callable[[], T | None], make: Callable[[], T]) -> T:
        """What is `known()`, or else made now, by one thread at a time for one key; `make` takes its turn itself."""
        with self._guard:
            making = self._making.setdefault(key, Lock())
        held: list[bool] = []
        try:
            with waiting.wait(TIMEOUT_MAX) as most_s:
                held.extend(map(making.acquire, (True,), (most_s,)))
            _check(held[0])
            found = known()
            return make() if found is None else found
        finally:
            if any(held):
                making.release()


def _check(in_time: bool) -> None:
    if not in_time:
        raise DeadlineExceededError(f"Another run of this session compiles, and was not done {waiting.told()}")


class Latch:
    """An Event that is set once, and that an interrupted `set` leaves whole."""

    def __init__(self) -> None:
        self._lock, self._is_set = Lock(), False
        self._changed = Condition(self._lock)

    def set(self) -> None:
        self._is_set = True
        with self._lock:
            self._changed.notify_all()

    def wait(self) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._is_set)
