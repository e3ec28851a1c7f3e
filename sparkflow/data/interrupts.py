"""Ctrl-C while an iterator makes an element: the generators that make it would be over, and the iterator at its end.

So it is heard when the element is there, which the iterator then gives the next time; or at once, where it comes again
or the element takes too long. Python's own `signal.signal` takes ten times as long as what it calls.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
import time
from _thread import start_new_thread
from collections.abc import Iterator
from itertools import chain
from types import FrameType
from typing import Any

from sparkflow_runtime.wire.errors import FailedPreconditionError

_PATIENCE_S = 2.0
_SIGINT = int(signal.SIGINT)


class _Held:
    """Entered by the main thread, which alone runs handlers."""

    __slots__ = ("_before", "_over", "came", "forced")

    def __init__(self, before: Any):
        self._before = before
        self._over = self.came = self.forced = False

    def __enter__(self) -> None:
        _signal.signal(_SIGINT, self._hear)

    def __exit__(self, *_: object) -> None:
        _signal.signal(_SIGINT, self._before)
        self._over = True
        if self.came and not self.forced:
            self._before(_SIGINT, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            self.forced = True
            self._before(number, frame)
        else:
            self.came = True
            start_new_thread(self._remind, (threading.get_ident(),))  # a Thread takes locks that may be held here

    def _remind(self, main: int) -> None:
        time.sleep(_PATIENCE_S)
        if not self._over:
            signal.pthread_kill(main, _SIGINT)


class _Broken:
    """What is left of an iterator whose generators were interrupted."""

    def __iter__(self) -> _Broken:
        return self

    def __next__(self) -> Any:
        raise FailedPreconditionError(
            "The iterator was interrupted while it made an element (by Ctrl-C twice, or once while that took more than "
            f"{_PATIENCE_S:g} s), and cannot go on: run its initializer, or get elements in a new Session"
        )


def next_row(state: dict[str, Any]) -> list[Any] | None:
    """The next of state["rows"]; None at the end. At Ctrl-C, state["rows"] goes on with what was not given; behind an
    error, with what `iter` of state["source"] gives."""
    rows: Iterator[Any] = state["rows"]
    here = threading.get_ident() == threading.main_thread().ident
    before = _signal.getsignal(_SIGINT) if here else None
    if not callable(before):  # SIG_DFL and SIG_IGN are numbers here
        try:
            return next(rows, None)
        except Exception:
            state["rows"] = iter(state["source"])
            raise
    held, row = _Held(before), None
    try:
        with held:
            row = next(rows, None)
    except BaseException as error:
        if isinstance(error, Exception) and row is None and not held.forced:
            state["rows"] = iter(state["source"])
        elif row is not None:
            state["rows"] = chain((row,), rows)
        elif held.forced:
            state["rows"] = state["source"] = _Broken()
        raise
    return row
