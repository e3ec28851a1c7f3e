"""Who compiles when several threads want to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.master.turns import Latch, Turns
from tests.interrupts import interrupted

WAIT_S = 20.0


def _thread(work: Any) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_the_holder_gives_way_to_who_came_since() -> None:
    turns, order, held, came = Turns(), [], threading.Event(), threading.Event()

    def first() -> None:
        with turns:
            turns.give_way()  # nobody has come
            order.append("first begins")
            held.set()
            assert came.wait(WAIT_S)
            while not turns._asking:
                came.wait(0.001)
            turns.give_way()
            order.append("first ends")

    one = _thread(first)
    assert held.wait(WAIT_S)
    came.set()
    with turns:
        order.append("second")
    one.join(WAIT_S)
    assert order == ["first begins", "second", "first ends"]


def test_one_thread_makes_what_several_want() -> None:
    turns, made, begun, go = Turns(), [], threading.Event(), threading.Event()

    def make() -> str:
        with turns:
            begun.set()
            assert go.wait(WAIT_S)
            turns.give_way()
            made.append("it")
            return "it"

    found: list[str] = []
    want = lambda: found.append(turns.once("key", lambda: made[0] if made else None, make))  # noqa: E731
    threads = [_thread(want)]
    assert begun.wait(WAIT_S)
    threads += [_thread(want), _thread(want)]
    go.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert made == ["it"] and found == ["it"] * 3


def test_where_making_fails_the_next_one_tries() -> None:
    turns = Turns()

    def fails() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        turns.once("key", lambda: None, fails)
    assert turns.once("key", lambda: None, lambda: "made") == "made"


def _in_turn(turns: Turns) -> None:
    with turns:
        turns.give_way()


def _once(turns: Turns) -> None:
    turns.once("key", lambda: None, lambda: _in_turn(turns))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that came in a finalizer
@pytest.mark.parametrize("event", range(40))
@pytest.mark.parametrize("use", [_in_turn, _once])
def test_an_interrupted_turn_is_over(event: int, use: Callable[[Turns], None]) -> None:
    turns = Turns()
    interrupted(lambda: use(turns), event)
    other = _thread(lambda: _once(turns))
    other.join(WAIT_S)
    assert not other.is_alive()
    use(turns)


@pytest.mark.parametrize("event", range(20))
def test_a_latch_can_be_set_again_where_that_wasinterrupted(event: int) -> None:
    latch = Latch()
    interrupted(latch.set, event)
    waits = _thread(latch.wait)
    latch.set()
    waits.join(WAIT_S)
    assert not waits.is_alive()


def test_a_small_run_does_not_wait_for_a_large_graph(graph: Any) -> None:
    """While one thread compiles, the other's signature is compiled and run."""
    x = tf.placeholder(tf.float32, [], name="x")
    large, small = tf.add_n([x * float(i) for i in range(50)]), x + 1.0
    compiling, order = threading.Event(), []
    with tf.Session() as session:
        master = session._runtime._master  # type: ignore[union-attr]

        def between() -> None:
            """The first pass of the large graph lasts until somebody else has come."""
            if threading.current_thread() is not threading.main_thread():
                compiling.set()
                while not order and not master._turns._asking:
                    compiling.wait(0.001)
                master._turns.give_way()

        master._optimizer.give_way = between

        def run_large() -> None:
            value = session.run(large, {x: 2.0})
            order.append(("large", value))

        thread = _thread(run_large)
        assert compiling.wait(WAIT_S)
        order.append(("small", session.run(small, {x: 2.0})))
        thread.join(WAIT_S)
    assert order == [("small", 3.0), ("large", 2.0 * sum(range(50)))]
