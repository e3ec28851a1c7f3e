"""A queue of events: who does them, in which order, and that no error, and no Ctrl-C, ends it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sparkflow_runtime.resources.events import Events
from tests.interrupts import interrupted


def test_an_error_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Be it of an event or of a look: who waits for what comes next would wait without end."""
    looks, done, looked = list[int](), threading.Event(), threading.Event()

    def look() -> float:
        looks.append(1)
        if len(looks) < 4:
            raise ValueError(f"look {len(looks)}")
        looked.set()
        return math.inf

    def fails() -> None:
        raise ValueError("an event")

    events = Events("events of a test", look, lambda: None)
    events.put(fails)
    events.put(done.set)
    assert done.wait(20) and looked.wait(20)
    events.close(lambda: None)
    said = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert sorted(said) == ["an event", "look 1", "look 2", "look 3"]


def test_what_is_short_is_done_by_who_brings_it() -> None:
    """And by the thread, in the order of the calls, while another event is being done."""
    events, done, began, go_on = Events("e", lambda: math.inf, lambda: None), list[Any](), *map(_event, range(2))

    def note(what: str) -> None:
        done.append((what, threading.current_thread() is events.thread))

    def long() -> None:
        began.set()
        go_on.wait(20)

    events.put_short(note, "first")
    events.put_short(lambda: events.put_short(note, "within"))
    assert done == [("first", False), ("within", False)]
    events.put(long)
    assert began.wait(20)
    for what in ("second", "third"):
        events.put_short(note, what)
    assert len(done) == 2
    go_on.set()
    over = threading.Event()
    events.put(over.set)
    assert over.wait(20)
    assert done[2:] == [("second", True), ("third", True)]
    events.close(lambda: None)


def test_the_thread_does_what_is_long_meanwhile() -> None:
    """Who does short ones on its way is not kept by others' long ones."""
    events, mine, took = Events("e", lambda: math.inf, lambda: None), threading.current_thread(), list[Any]()
    over = threading.Event()

    def long() -> None:
        took.append(threading.current_thread())
        over.set()

    events.put_short(lambda: events.put(long))
    assert over.wait(20)
    assert took == [events.thread] and events.thread is not mine
    events.close(lambda: None)


def test_a_look_that_a_short_event_moves_ahead_comes_in_time() -> None:
    due, seen = [time.monotonic() + 1000], threading.Event()

    def look() -> float:
        if time.monotonic() >= due[0]:
            due[0] = math.inf
            seen.set()
        return due[0]

    events = Events("e", look, lambda: None)
    events.put(lambda: None)
    time.sleep(0.05)  # the thread sleeps for 1000 s now
    events.put_short(lambda: due.__setitem__(0, time.monotonic() + 0.05))
    assert seen.wait(20)
    events.close(lambda: None)


def test_ctrl_c_in_a_short_event_is_told() -> None:
    """Whatever it broke off: what comes later is still done."""
    told, after = threading.Event(), threading.Event()

    def cut() -> None:
        raise KeyboardInterrupt

    events = Events("e", lambda: math.inf, told.set)
    with pytest.raises(KeyboardInterrupt):
        events.put_short(cut)
    assert told.wait(20)
    events.put_short(after.set)
    assert after.wait(20)
    events.close(lambda: None)


def test_many_threads_lose_nothing() -> None:
    events, counts = Events("e", lambda: math.inf, lambda: None), dict.fromkeys(range(8), 0)
    inside = threading.Lock()
    wrong = list[int]()

    def count(i: int, number: int) -> None:
        if not inside.acquire(blocking=False):
            wrong.append(i)  # two at once
        if counts[i] != number:
            wrong.append(i)  # not in the order of the calls
        counts[i] = number + 1
        inside.release()

    def bring(i: int) -> None:
        for number in range(2000):
            (events.put_short if (number + i) % 3 else events.put)(count, i, number)

    threads = [threading.Thread(target=bring, args=(i,)) for i in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over = threading.Event()
    events.put(over.set)
    assert over.wait(20)
    assert not wrong and set(counts.values()) == {2000}
    events.close(lambda: None)


def _event(_: int) -> threading.Event:
    return threading.Event()


@pytest.mark.parametrize("way", ["put", "put_short"])
@pytest.mark.parametrize("sleeps", [False, True])
def test_ctrl_c_anywhere_leaves_no_lock_taken_and_nothing_asleep(way: str, sleeps: bool) -> None:
    """Wherever the interpreter looks for signals: where a function begins, and after a call into C."""
    for at in range(1000):
        events, over, done = Events("e", lambda: math.inf, lambda: None), threading.Event(), list[int]()
        if sleeps:
            events.put(over.set)
            assert over.wait(20)
            over.clear()

        def bring(events: Events = events, done: list[int] = done) -> None:
            getattr(events, way)(_nothing)
            done.append(1)

        with suppress(RuntimeError):  # such as Thread.start makes of it
            interrupted(bring, at)
        assert _until(lambda events=events: not events._events), f"call {at}: what was put is not done"  # type: ignore[misc]
        other = threading.Thread(target=events.put_short, args=(over.set,), daemon=True)
        other.start()
        assert over.wait(5), f"call {at}: a lock is taken"
        events.close(lambda: None)
        assert _until(lambda events=events: events.thread is None), f"call {at}: the thread has not ended"  # type: ignore[misc]
        if done:
            return
    raise AssertionError("it was never done without being interrupted")


def test_the_thread_ends_where_something_short_comes_to_one_that_is_closed() -> None:
    events = Events("e", lambda: math.inf, lambda: None)
    events.put(_nothing)
    events.close(lambda: None)
    assert _until(lambda: events.thread is None)
    events.put_short(time.sleep, 0.1)  # meanwhile another thread starts
    assert _until(lambda: events.thread is None)


def test_a_look_in_a_million_years_is_waited_for() -> None:
    events, over = Events("e", lambda: time.monotonic() + 3e13, lambda: None), threading.Event()
    events.put(_nothing)
    time.sleep(0.05)  # the thread goes to sleep
    events.put(over.set)
    assert over.wait(5)
    events.close(lambda: None)


def _nothing() -> None:
    """An event."""


def _until(holds: Callable[[], bool], within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.001)
    return held
