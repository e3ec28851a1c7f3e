"""The threads that lanes run in, and the meeting of the lanes of one region."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np

Lane = Callable[[list[Any], list[Any], Callable[[int], None], Callable[[int], None]], None]  # (V, X, take, give)


class Abandoned(Exception):
    """Another lane of the region has failed."""


class _Mate:
    """A thread that does one thing after another."""

    def __init__(self, name: str):
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        with np.errstate(all="ignore"):  # as the thread of the step
            while True:
                task = self.tasks.get()
                task()
                del task  # and with it the arrays of the step


class _Mates:
    """Those that have nothing to do. A region gets all that it asks for or none: lanes wait for one another, so two
    regions that each had some of their lanes' threads would wait for ever."""

    def __init__(self) -> None:
        self.lock, self.idle, self.made = Lock(), list[_Mate](), 0

    def take(self, count: int, most: int) -> list[_Mate] | None:
        with self.lock:
            while len(self.idle) < count and self.made < most:
                self.made += 1
                self.idle.append(_Mate(f"sparkflow-lane-{self.made}"))
            if len(self.idle) < count:
                return None
            taken, self.idle = self.idle[:count], self.idle[count:]
            return taken

    def release(self, mate: _Mate) -> None:
        with self.lock:
            self.idle.append(mate)


_mates = _Mates()
_PUT = SimpleQueue[Callable[[], None]].put
_PROCESSORS = os.cpu_count() or 2  # asked once: it takes 20 us


def _after_fork() -> None:
    _mates.__init__()  # type: ignore[misc]  # a fork has none of its parent's threads


os.register_at_fork(after_in_child=_after_fork)


class _Meeting:
    """Values that one lane hands to another: a lock each, held until the value is there."""

    def __init__(self, lines: Collection[int], lanes: int):
        self.errors: list[BaseException] = []
        self.locks = {line: _held() for line in lines}
        self.over = [_held() for _ in range(lanes)]

    def take(self, line: int) -> None:
        lock = self.locks[line]
        lock.acquire()
        lock.release()
        if self.errors:
            raise Abandoned(f"line {line} will not come")

    def give(self, line: int) -> None:
        self.locks[line].release()

    def run(self, lane: Lane, values: list[Any], between: list[Any]) -> None:
        try:
            lane(values, between, self.take, self.give)
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        for lock in self.locks.values():
            with suppress(RuntimeError):  # it was given
                lock.release()

    def wait(self) -> None:
        """Until the other lanes have ended, whatever comes (Ctrl-C): they would go on beside the next step."""
        ended: list[bool] = []
        while len(ended) < len(self.over):
            try:
                ended.extend(map(self.over[len(ended)].acquire, (True,)))
            except BaseException as error:
                self.fail(error)


def _held() -> Any:
    lock = Lock()
    lock.acquire()
    return lock


def meet(values: list[Any], between: list[Any], alone: Lane, lanes: Sequence[Lane], lines: Collection[int]) -> None:
    """Run the lanes side by side, the first in this thread; `alone` where not enough threads are free.

    lines: whose values one lane hands to another. Raises the first error once all lanes have ended.
    """
    others = len(lanes) - 1
    mates = _mates.take(others, max(others, _PROCESSORS - 1))
    if mates is None:
        alone(values, between, _never, _never)
        return
    begun: list[None] = []
    try:
        meeting = _Meeting(lines, others)
        each = zip(mates, lanes[1:], meeting.over)
        tasks = [_task(mate, meeting, lane, over, values, between) for mate, lane, over in each]
        queues = [mate.tasks for mate in mates]
        begun.extend(map(_PUT, queues, tasks))  # all of them or, where an interrupt comes before, none
        meeting.run(lanes[0], values, between)
    except BaseException as error:
        if not begun:
            for mate in mates:
                _mates.release(mate)
            raise
        meeting.fail(error)
    meeting.wait()
    if meeting.errors:
        raise meeting.errors[0]


def _task(
    mate: _Mate, meeting: _Meeting, lane: Lane, over: Any, values: list[Any], between: list[Any]
) -> Callable[[], None]:
    def task() -> None:
        meeting.run(lane, values, between)
        _mates.release(mate)
        over.release()

    return task


def _never(line: int) -> None:
    raise AssertionError(f"line {line} is handed over in a single lane")
