"""Elements that threads make: the same ones, in order, and no thread is left."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.data import ahead

D = tf.data.Dataset


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything takes long."""
    monkeypatch.setattr(ahead, "CALL_S", 0.0)
    monkeypatch.setattr(ahead, "ELEMENT_S", 0.0)
    monkeypatch.setattr(ahead, "switch_often", lambda: None)


def own_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("sparkflow-map", "sparkflow-prefetch"))]


def numbers(count: int, fails_at: int | None = None) -> Iterator[int]:
    for i in range(count):
        if i == fails_at:
            raise ValueError(f"number {i}")
        yield i


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("count", [0, 1, 4, 5, 100, 333])
def test_order(count: int) -> None:
    assert list(ahead.calls(lambda x: x * 2, numbers(count), 3)) == [2 * i for i in range(count)]
    assert list(ahead.prefetched(numbers(count), 2)) == list(range(count))
    assert not own_threads()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("at", [0, 3, 50, 99])
def test_an_error_comes_in_its_place(at: int) -> None:
    def refuse(x: int) -> int:
        if x == at:
            raise ValueError(f"number {x}")
        return x

    for made in (
        ahead.calls(refuse, numbers(100), 2), ahead.calls(lambda x: x, numbers(100, at), 2),
        ahead.prefetched(numbers(100, at), 4),
    ):  # fmt: skip
        seen = []
        with pytest.raises(ValueError, match=f"number {at}"):
            for x in made:
                seen.append(x)
        assert seen == list(range(at))
        made.close()
    assert not own_threads()


@pytest.mark.usefixtures("eager")
def test_what_comes_behind_an_error() -> None:
    """Elements that fail leave the next ones as they are, in threads too."""

    def odd(x: int) -> int:
        if x % 2:
            raise ValueError(f"number {x}")
        return x

    for made in (ahead.calls(odd, range(100), 2), ahead.prefetched(map(odd, range(100)), 2)):
        found: list[Any] = []
        while len(found) < 100:
            try:
                found.append(next(made))
            except ValueError as error:
                found.append(str(error))
        assert found == [f"number {i}" if i % 2 else i for i in range(100)]
        with pytest.raises(StopIteration):
            next(made)
    assert not own_threads()


@pytest.mark.usefixtures("eager")
def test_threads_end_with_what_asks() -> None:
    for made in (ahead.calls(lambda x: x, iter(int, 1), 2), ahead.prefetched(iter(int, 1), 3)):
        for _ in range(20):
            next(made)
        assert own_threads()
        made.close()
        assert not own_threads()


def test_quick_elements_take_no_thread() -> None:
    made = ahead.prefetched(ahead.calls(lambda x: x, iter(int, 1), 4), 2)
    for _ in range(200):
        next(made)
    assert not own_threads()
    made.close()


def test_a_few_slow_calls_take_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does other work is no reason."""
    slow, clock = {3, 4, 5, 6, 20, 21, 22}, [0.0]
    monkeypatch.setattr(ahead, "perf_counter", lambda: clock[0])

    def call(x: int) -> int:
        clock[0] += 3 * ahead.CALL_S if x in slow else 0.0
        return x

    made = ahead.calls(call, iter(range(300)), 2)
    for i in range(200):
        assert next(made) == i
    assert not own_threads() and list(made) == list(range(200, 300))


def test_calls_run_at_the_same_time(graph: Any) -> None:
    """Each waits for another: one thread alone would wait for ever."""
    both, seen = threading.Barrier(2), threading.Event()

    def meet(x: Any) -> Any:
        time.sleep(ahead.CALL_S)
        if x >= 16:
            both.wait(30)
            seen.set()
        return x

    dataset = D.range(200).map(lambda x: tf.py_func(meet, [x], tf.int64), num_parallel_calls=2).take(160).batch(16)
    element = dataset.make_one_shot_iterator().get_next()
    if ahead.processors() < 2:
        pytest.skip("one processor")
    with tf.Session() as session:
        found = [session.run(element).tolist() for _ in range(3)]
        both.abort()
    assert [x for batch in found for x in batch] == list(range(48)) and seen.is_set()


@pytest.mark.usefixtures("eager")
def test_a_session_ends_its_threads(graph: Any) -> None:
    slow = D.range(10**6).map(lambda x: tf.py_func(lambda v: v, [x], tf.int64), num_parallel_calls=ahead.AUTOTUNE)
    iterator = slow.batch(4).prefetch(2).make_initializable_iterator()
    element = iterator.get_next()
    for _ in range(2):
        with tf.Session() as session:
            for _ in range(2):
                session.run(iterator.initializer)
                found = [session.run(element) for _ in range(12)]
                np.testing.assert_array_equal(np.concatenate(found), np.arange(48))
            assert own_threads()
        assert not own_threads()


@pytest.mark.parametrize("end", ["", "session.close()"])
def test_a_program_ends_while_a_generator_waits(end: str) -> None:
    program = f"""
import threading, time
import sparkflow as tf
def slow():
    for i in range(8):
        time.sleep(0.01)
        yield i
    threading.Event().wait()
element = tf.data.Dataset.from_generator(slow, tf.int32, []).prefetch(2).make_one_shot_iterator().get_next()
session = tf.Session()
print([int(session.run(element)) for _ in range(8)])
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == f"{list(range(8))}\n" and not done.stderr


def test_a_program_ends_while_elements_elements_are_made() -> None:
    program = """
import time
import sparkflow as tf
def slow():
    while True:
        time.sleep(0.01)
        yield 1
element = tf.data.Dataset.from_generator(slow, tf.int32, []).prefetch(2).make_one_shot_iterator().get_next()
session = tf.Session()
for _ in range(8):
    session.run(element)
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == "ended\n" and not done.stderr


def test_who_stops_a_thread_does_not_wait_for_what_another_has_just_taken() -> None:
    """At the end of a program the consumer's thread may still take elements."""

    class Taken(queue.Queue[Any]):
        def empty(self) -> bool:
            return False

    release = threading.Event()

    def slow() -> Iterator[int]:
        release.wait(30)
        yield 1

    made = ahead._Ahead(slow(), 2)
    made.made = Taken(2)
    stopping = threading.Thread(target=made.stop, daemon=True)
    stopping.start()
    stopping.join(20)
    release.set()
    assert not stopping.is_alive()
