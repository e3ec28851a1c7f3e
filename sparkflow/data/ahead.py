"""Elements made in threads: several calls of a function at once, and elements before they are asked for.

Threads pay where an element takes long and not between Python's own steps: decoding, reading, large arrays. So the
first elements are made by whoever asks, and threads begin where those took long. Order and elements are the same.
"""

from __future__ import annotations

import atexit
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import perf_counter
from typing import Any
from weakref import WeakSet

from sparkflow.session.environment import processors

CALL_S, ELEMENT_S = 2e-4, 2e-3  # a call of a function, and an element made ahead, from where a thread pays
_TASK_S = 4e-3  # what a thread takes at once: to wake one costs up to 0.1 ms
_MOST = 16  # elements of that
_CALLS, _TRIED, _ELEMENTS = 8, 64, 3  # so many calls in a row, of so many at the beginning; so many elements
_SWITCH_S = 5e-4
AUTOTUNE = -1


def switch_often() -> None:
    """Let no thread that makes elements keep the GIL from a step for longer, which Python's 5 ms would allow."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))


def threads_of(num_parallel_calls: Any) -> int:
    """1: none but the caller's."""
    if num_parallel_calls is None or not isinstance(num_parallel_calls, int):
        return 1 if num_parallel_calls is None else processors()
    return processors() if num_parallel_calls == AUTOTUNE else max(1, min(num_parallel_calls, 4 * processors()))


class _Slow:
    """Whether so many in a row took long; the first call of a function compiles it and says nothing."""

    def __init__(self, least_s: float, wanted: int):
        self._least_s, self._wanted, self._seen = least_s, wanted, -1
        self.last_s = 0.0

    def timed(self, make: Callable[[], Any]) -> Any:
        begun = perf_counter()
        made = make()
        self.last_s = perf_counter() - begun
        self._seen = self._seen + 1 if self._seen < 0 or self.last_s >= self._least_s else 0
        return made

    def __bool__(self) -> bool:
        return self._seen >= self._wanted


def calls(call: Callable[[Any], Any], rows: Iterable[Any], threads: int) -> Iterator[Any]:
    """call(row) of each, in order; up to `threads` of them at once where they take long."""
    source, slow = iter(rows), _Slow(CALL_S, _CALLS)
    for row in islice(source, _TRIED):
        yield slow.timed(lambda row=row: call(row))  # type: ignore[misc]
        if slow:
            break
    if not slow:
        yield from map(call, source)
        return
    switch_often()
    many = max(1, min(_MOST, round(_TASK_S / slow.last_s)))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sparkflow-map")
    try:
        for made, error in _in_order(pool, call, _grouped(source, many), threads + 1):
            yield from made
            if error is not None:
                raise error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


Made = tuple[list[Any], Exception | None]  # what there is, and what came then instead of more


def _tried(elements: Iterable[Any]) -> Made:
    made: list[Any] = []
    try:
        made.extend(elements)
    except Exception as error:
        return made, error
    return made, None


def _grouped(source: Iterator[Any], many: int) -> Iterator[Made]:
    error = None
    while error is None:
        rows, error = _tried(islice(source, many))
        if not rows and error is None:
            return
        yield rows, error


def _in_order(
    pool: ThreadPoolExecutor, call: Callable[[Any], Any], groups: Iterator[Made], most: int
) -> Iterator[Made]:
    """An error of the source comes behind the elements before it."""

    def work(rows: list[Any], failed: Exception | None) -> Made:
        made, error = _tried(map(call, rows))
        return made, error or failed

    running: deque[Any] = deque()
    for rows, failed in groups:
        running.append(pool.submit(work, rows, failed))
        if len(running) >= most:
            yield running.popleft().result()
    for future in running:
        yield future.result()


# ---------------------------------------------------------------------- prefetch

_END = object()
_RUNNING: WeakSet[_Ahead] = WeakSet()


class _Ahead:
    """A thread that fills a queue with what an iterator gives, until it ends or `stop`."""

    def __init__(self, source: Iterator[Any], most: int):
        self._source, self.made = source, queue.Queue[Any](most)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sparkflow-prefetch", daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    def _work(self) -> None:
        try:
            for row in self._source:
                if not self._given((row, None)):
                    return
            self._given((_END, None))
        except BaseException as error:
            self._given((_END, error))

    def _given(self, item: Any) -> bool:
        """False when it was stopped."""
        self.made.put(item)
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Returns when the thread has ended and what it took from is closed."""
        self._stopped.set()
        while self._thread.is_alive():
            while not self.made.empty():  # it waits for room
                self.made.get()
            self._thread.join(0.01)
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


def _stop_all() -> None:
    for running in list(_RUNNING):
        running.stop()


atexit.register(_stop_all)


def prefetched(rows: Iterable[Any], most: int) -> Iterator[Any]:
    """The same elements, up to `most` of them made before they are asked for where they take long."""
    source, slow = iter(rows), _Slow(ELEMENT_S, _ELEMENTS)
    while not slow:
        row = slow.timed(lambda: next(source, _END))
        if row is _END:
            return
        yield row
    switch_often()
    ahead = _Ahead(source, most)
    try:
        while True:
            row, error = ahead.made.get()
            if error is not None:
                raise error
            if row is _END:
                return
            yield row
    finally:
        ahead.stop()
