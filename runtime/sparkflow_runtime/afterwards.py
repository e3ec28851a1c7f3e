"""What finalizers want done, by a thread of its own.

What nobody can reach any more is finalized by whichever thread makes the next object, at whatever point: it may hold
the very lock that the finalizer would wait for, and would wait for itself. So what is to be said to other tasks when a
session or a signature is gone, this thread says.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

_log = logging.getLogger(__name__)


class Afterwards:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new. What a fork inherits is its parent's to end."""
        self._lock = Lock()
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self) -> None:
        """For whoever has a finalizer that will call `later`, beforehand: to start a thread is nothing for it."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, args=(self._work,), name="sparkflow-afterwards", daemon=True)
                self._thread.start()

    def later(self, work: Callable[[], None]) -> None:
        """Have `work()` called soon; at any point of any thread, as a call that may interrupt itself."""
        self._work.put(work)

    @staticmethod
    def _run(todo: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            work = todo.get()
            try:
                work()
            except Exception:
                _log.exception("What was left to do for something that is gone failed")
            del work


AFTERWARDS = Afterwards()
os.register_at_fork(after_in_child=AFTERWARDS.reset)
