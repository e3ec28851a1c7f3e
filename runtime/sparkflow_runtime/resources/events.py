"""A thread that does, one after the other, what others put into its queue, and what time alone brings about."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

_CLOSE_S = 1.0

_log = logging.getLogger(__name__)


class Events:
    """look(): after each event, and when `next_look_s()` seconds have passed without one (None: never)."""

    def __init__(self, name: str, look: Callable[[], None], next_look_s: Callable[[], float | None]):
        self._name, self._look, self._next_look_s = name, look, next_look_s
        self._events: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = SimpleQueue()
        self._lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.closed = False

    @property
    def running(self) -> bool:
        return self.thread is not None

    def put(self, handler: Callable[..., None], *arguments: Any) -> None:
        with self._lock:  # else the thread could end, of one that is closed, before it has seen this
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self.thread.start()
            self._events.put((handler, arguments))

    def close(self, last: Callable[[], None]) -> None:
        """Do `last` and end. Waits for that a second at most."""
        with self._lock:
            thread, done = self.thread, threading.Event()
            if thread is None:
                self.closed = True
                return
            self._events.put((self._close, (last, done)))
        if thread is not threading.current_thread():
            done.wait(_CLOSE_S)

    def _close(self, last: Callable[[], None], done: threading.Event) -> None:
        self.closed = True
        try:
            last()
        finally:
            done.set()

    def _run(self) -> None:
        np.seterr(all="ignore")  # of this thread: sums of what is not finite are no warnings, as in steps
        while not self._is_over():
            try:
                event = self._events.get(timeout=self._next_look_s())
            except Empty:
                self._do(self._look)
                continue
            handler, arguments = event
            self._do(handler, *arguments)
            del event, arguments  # the memory of a chunk goes back to its sender now
            self._do(self._look)

    def _do(self, work: Callable[..., None], *arguments: Any) -> None:
        """Whatever it raises, what comes next is done: nobody else would do it."""
        try:
            work(*arguments)
        except Exception:
            _log.exception("%s: %s failed", self._name, getattr(work, "__name__", work))

    def _is_over(self) -> bool:
        """Closed, and nothing is left to do: the thread ends. What may come yet gets another."""
        if not (self.closed and self._events.empty()):
            return False
        with self._lock:
            over = self._events.empty()
            if over:
                self.thread = None
        return over
