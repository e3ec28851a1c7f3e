"""What others put into a queue is done one after the other, and what time alone brings about, too: by a thread of its
own, or at once by who puts it. To wake a thread takes longer than most of these events do."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

_CLOSE_S = 1.0
_AGAIN_S = 0.2
_LONGEST_S = 3600.0  # that the thread sleeps: the clock's types have an end, and a program's deadlines may have none
_IN_A_ROW = 8  # events that a thread does on its way, before it leaves the rest to the one that is there for them

_log = logging.getLogger(__name__)
_OWN = threading.local()
_Event = tuple[Callable[..., None], tuple[Any, ...], bool]


def may_wait() -> bool:
    """Whether this thread does events alone: any other, that does one on its way, has a deadline of its own to keep."""
    return getattr(_OWN, "runs", False)


class Events:
    """look(): what is due; when more will be (time.monotonic; inf: never). It is called after each event, and at that
    time. interrupted(): called after Ctrl-C has ended an event half-way, in a thread that did it on its way."""

    def __init__(self, name: str, look: Callable[[], float], interrupted: Callable[[], None]):
        self._name, self._look, self._interrupted = name, look, interrupted
        self._events: deque[_Event] = deque()
        self._lock = threading.Lock()
        self._calls: SimpleQueue[None] = SimpleQueue()  # wake the thread: one call into C, which Ctrl-C does not cut
        self._owner: object | None = None  # who does an event now
        self._due = self._sleeps_until = math.inf  # what `look` has said last, and had when the thread went to sleep
        self.thread: threading.Thread | None = None
        self.closed = False

    @property
    def running(self) -> bool:
        return self.thread is not None

    def put(self, handler: Callable[..., None], *arguments: Any) -> None:
        """For the thread."""
        with self._lock:  # else the thread could end, of one that is closed, before it has seen this
            self._add((handler, arguments, False))

    def put_short(self, handler: Callable[..., None], *arguments: Any) -> None:
        """As `put`; done before this returns, by this thread, where nobody does anything now."""
        event, me = (handler, arguments, True), object()
        try:
            with self._lock:
                if self._owner is not None or self._events:
                    self._add(event)
                    return
                self._have_thread()
                self._owner = me
            self._do_here(event)
        except BaseException:
            if self._owner is me:
                self._events.appendleft((self._interrupted, (), False))
            raise
        finally:
            if self._owner is me:
                self._owner = None  # first of all: Ctrl-C may come between any two calls
                try:
                    self._hand_over()
                except BaseException:
                    self._hand_over()
                    raise

    def close(self, last: Callable[[], None]) -> None:
        """Do `last` and end. Waits for that a second at most."""
        done = threading.Event()
        with self._lock:
            thread = self.thread
            if thread is None:
                self.closed = True
                return
            self._add((self._close, (last, done), False))
        if thread is not threading.current_thread():
            done.wait(_CLOSE_S)

    def _close(self, last: Callable[[], None], done: threading.Event) -> None:
        self.closed = True
        try:
            last()
        finally:
            done.set()

    def _add(self, event: _Event) -> None:
        self._have_thread()
        if self._owner is None:
            self._call()
        self._events.append(event)  # last, or Ctrl-C may leave it there with nobody awake who waits for the lock

    def _call(self) -> None:
        """The thread, which looks with the lock held, if it is not about to do so."""
        if self._calls.empty():
            self._calls.put(None)

    def _have_thread(self) -> None:
        if self.thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self.thread = thread  # which waits for the lock; Ctrl-C may have come before

    def _do_here(self, event: _Event) -> None:
        """This one and a few more that come meanwhile, if they are short."""
        with np.errstate(all="ignore"):  # sums of what is not finite are no warnings, as in steps
            self._do(event)
            for _ in range(_IN_A_ROW):
                with self._lock:
                    if not (self._events and self._events[0][2]):
                        return
                    event = self._events.popleft()
                self._do(event)

    def _hand_over(self) -> None:
        """Wake the thread, if there is something for it, or less time than it thinks, or it is to end."""
        with self._lock:
            if self._events or self.closed or self._due < self._sleeps_until:
                self._call()

    def _run(self) -> None:
        np.seterr(all="ignore")  # of this thread
        _OWN.runs = True
        with self._lock:
            if self.thread not in (None, threading.current_thread()):
                return
            self.thread = threading.current_thread()
        while (event := self._next()) is not None:
            self._do(event)
            del event  # the memory of a chunk goes back to its sender now
            self._owner = None

    def _next(self) -> _Event | None:
        """Waits for what is to be done; nothing, once it is closed: the thread ends. What may come yet gets another."""
        while True:
            with self._lock:
                left_s = None
                if self._owner is None:
                    left_s = None if self._due == math.inf else max(0.0, self._due - time.monotonic())
                    if self._events or left_s == 0.0:
                        self._owner = self
                        return self._events.popleft() if self._events else (_nothing, (), False)
                    if self.closed:
                        self.thread = None
                        return None
                self._sleeps_until = math.inf if left_s is None else self._due
            with suppress(Empty):
                self._calls.get(timeout=_LONGEST_S if left_s is None else min(left_s, _LONGEST_S))

    def _do(self, event: _Event) -> None:
        """Whatever it raises, what comes next is done: nobody else would do it."""
        try:
            event[0](*event[1])
        except Exception:
            _log.exception("%s: %s failed", self._name, getattr(event[0], "__name__", event[0]))
        try:
            self._due = self._look()
        except Exception:
            _log.exception("%s: its look failed", self._name)
            self._due = time.monotonic() + _AGAIN_S


def _nothing() -> None:
    """Time has come, and no event."""
