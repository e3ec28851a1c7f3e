"""Runners: threads for what may wait or take long; as many as are needed at once, and kept for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from sparkflow_runtime.wire.errors import ResourceExhaustedError

_IDLE_S = 10.0
_log = logging.getLogger(__name__)


class Runners:
    """name: of the threads. most: at one time; beyond it `submit` raises ResourceExhaustedError.

    The threads are daemons: a process that ends waits for none of them.
    """

    def __init__(self, name: str, most: int = 1024):
        self._name, self._most = name, most
        self._lock = Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None: the thread may end
        self._idle = self._count = 0
        self._kept = True

    def submit(self, work: Callable[[], None]) -> None:
        """Have `work()` called, now, by a thread that does nothing else meanwhile. It must not raise."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._work.put(work)
                return
            if self._count >= self._most:
                raise ResourceExhaustedError(f"{self._name}: {self._count} things run at once already, more may not")
            self._count += 1
        try:
            Thread(target=self._run, args=(work,), name=self._name, daemon=True).start()
        except RuntimeError as error:  # no thread to be had
            with self._lock:
                self._count -= 1
            raise ResourceExhaustedError(f"{self._name}: {error}; {self._count} run already") from None

    def let_go(self) -> None:
        """From now on a thread that has nothing to do ends at once."""
        with self._lock:
            self._kept = False
            for _ in range(self._idle):
                self._work.put(None)
            self._count -= self._idle
            self._idle = 0

    def _run(self, work: Callable[[], None]) -> None:
        found: Callable[[], None] | None = work
        while found is not None:
            try:
                found()
            except Exception:
                _log.exception("%s failed", self._name)
            del found
            found = self._next()

    def _next(self) -> Callable[[], None] | None:
        """What to do next; None after some time without, and this thread counts no more."""
        with self._lock:
            if not self._kept:
                self._count -= 1
                return None
            self._idle += 1
        try:
            return self._work.get(timeout=_IDLE_S)
        except Empty:
            with self._lock:
                try:
                    return self._work.get_nowait()  # put at the last moment, and no other thread was faster
                except Empty:
                    self._idle -= 1
                    self._count -= 1
            return None
