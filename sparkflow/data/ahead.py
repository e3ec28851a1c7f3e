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
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from time import perf_counter
from typing import Any
from weakref import WeakSet

from sparkflow.data.elements import check_whole
from sparkflow.data.lasting import Pair, lasting, pairs
from sparkflow.framework.graph import Tensor
from sparkflow.session.environment import processors
from sparkflow_runtime.wire.errors import InvalidArgumentError

CALL_S, ELEMENT_S = 2e-4, 2e-3  # a call of a function, and an element made ahead, from where a thread pays
_TASK_S = 4e-3  # what a thread takes at once: to wake one costs up to 0.1 ms
_MOST = 16  # elements of that
_CALLS, _TRIED, _ELEMENTS = 8, 64, 3  # so many calls in a row, of so many at the beginning; so many elements
_SWITCH_S, _STOP_S = 5e-4, 1.0
AUTOTUNE = -1


def switch_often() -> None:
    """Let no thread that makes elements keep the GIL from a step for longer, which Python's 5 ms would allow."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))


def check_calls(num_parallel_calls: Any) -> None:
    """Raises TypeError on what is no whole number (nor a tensor), InvalidArgumentError on one that is no number of
    calls."""
    if num_parallel_calls is None or isinstance(num_parallel_calls, (Tensor, bool)):
        return
    check_whole(num_parallel_calls)
    if num_parallel_calls < 1 and num_parallel_calls != AUTOTUNE:
        raise InvalidArgumentError(
            f"num_parallel_calls must be greater than zero, or tf.data.experimental.AUTOTUNE, got {num_parallel_calls}"
        )


def threads_of(num_parallel_calls: Any) -> int:
    """1: none but the caller's. Raises TypeError on what is no number, InvalidArgumentError on one below 1."""
    check_calls(num_parallel_calls)
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


class Elements:
    """Of pairs; where an error is in the place of an element, it is raised, and the next ones follow."""

    def __init__(self, made: Generator[Pair, None, None]):
        self._pairs = made

    def __iter__(self) -> Elements:
        return self

    def __next__(self) -> Any:
        value, error = next(self._pairs)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Its threads end."""
        self._pairs.close()


def _tried(make: Callable[[], Any]) -> Pair:
    try:
        return make(), None
    except StopIteration:
        raise
    except Exception as error:
        return None, error


def calls(call: Callable[[Any], Any], rows: Iterable[Any], threads: int) -> Elements:
    """call(row) of each, in order; up to `threads` of them at once where they take long."""
    return Elements(_calls(call, rows, threads))


def _calls(call: Callable[[Any], Any], rows: Iterable[Any], threads: int) -> Generator[Pair, None, None]:
    def made(row: Pair) -> Pair:
        return row if row[1] is not None else _tried(lambda: call(row[0]))

    source, slow = pairs(rows), _Slow(CALL_S, _CALLS)
    for row in islice(source, _TRIED):
        yield slow.timed(lambda row=row: made(row))  # type: ignore[misc]
        if slow:
            break
    if not slow:
        yield from map(made, source)
        return
    switch_often()
    many = max(1, min(_MOST, round(_TASK_S / slow.last_s)))
    groups = iter(lambda: list(islice(source, many)), [])
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sparkflow-map")
    running: deque[Any] = deque()
    try:
        for group in groups:
            running.append(pool.submit(lambda group=group: list(map(made, group))))  # type: ignore[misc]
            if len(running) > threads:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if not wait(running, _STOP_S).not_done:  # else one waits for something outside
            pool.shutdown(wait=True)


# ---------------------------------------------------------------------- prefetch

_END = object()
_RUNNING: WeakSet[_Ahead] = WeakSet()


class _Ahead:
    """A thread that fills a queue with what an iterator gives, until it ends or `stop`."""

    def __init__(self, source: Iterable[Any], most: int):
        self._source, self.made = source, queue.Queue[Any](most)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sparkflow-prefetch", daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    def _work(self) -> None:
        for pair in pairs(self._source):
            if not self._given(pair):
                return
        self._given((_END, None))

    def _given(self, item: Any) -> bool:
        """False when it was stopped."""
        self.made.put(item)
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Returns when the thread has ended and what it took from is closed; one that waits for something outside (a
        generator for messages) is left alone after a second, and ends with what it waits for or with the process."""
        self._stopped.set()
        last_s = perf_counter() + _STOP_S
        while self._thread.is_alive():
            if perf_counter() > last_s:
                return
            with suppress(queue.Empty):  # it waits for room
                while True:
                    self.made.get_nowait()
            self._thread.join(0.01)
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


def _stop_all() -> None:
    for running in list(_RUNNING):
        running.stop()


atexit.register(_stop_all)


def prefetched(rows: Iterable[Any], most: int) -> Elements:
    """The same elements, up to `most` of them made before they are asked for where they take long."""
    return Elements(_prefetched(lasting(rows), most))


def _prefetched(source: Iterable[Any], most: int) -> Generator[Pair, None, None]:
    made, slow = pairs(source), _Slow(ELEMENT_S, _ELEMENTS)
    while not slow:
        pair = slow.timed(lambda: next(made, None))
        if pair is None:
            return
        yield pair
    switch_often()
    ahead = _Ahead(source, most)
    try:
        while (pair := ahead.made.get())[0] is not _END:
            yield pair
    finally:
        ahead.stop()
