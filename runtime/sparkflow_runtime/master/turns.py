"""Turns: who compiles in a session. One at a time, and between two passes the latest to come goes first.

A chief's thread for synchronous updates compiles a graph of thousands of nodes for which nothing has come yet, while
the program's own first run, which is small, would wait for it: the session would be ready 0.3 s later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Condition, Event, Lock
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """A lock (`with turns:`) whose holder may `give_way`."""

    def __init__(self) -> None:
        self._lock, self._changed = Lock(), Condition()
        self._asking = 0  # those that have come and had no turn yet
        self._making: dict[Hashable, Event] = {}

    def __enter__(self) -> None:
        self._count(1)
        try:
            self._lock.acquire()
        finally:
            self._count(-1)

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _count(self, more: int) -> None:
        with self._changed:
            self._asking += more
            if not self._asking:
                self._changed.notify_all()

    def give_way(self) -> None:
        """By the holder, where nothing is half done: let who has come since have the lock, and go on after them."""
        if not self._asking:
            return
        self._lock.release()
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._asking)
        finally:
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
        while True:
            with self._changed:
                begun = self._making.get(key)
                if begun is None:
                    mine = self._making[key] = Event()
                    break
            begun.wait()
            found = known()
            if found is not None:
                return found
        try:
            found = known()
            return make() if found is None else found
        finally:
            with self._changed:
                del self._making[key]
            mine.set()
