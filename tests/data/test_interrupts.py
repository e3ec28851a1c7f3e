"""Ctrl-C, or an interrupted notebook, while a dataset is iterated over: as in TensorFlow, it goes on afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.data import interrupts


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """As at a terminal: a shell has what it starts in the background ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # it is heard now


def _numbers(at: dict[int, Callable[[], None]]) -> Callable[[], Iterator[int]]:
    def numbers() -> Iterator[int]:
        for i in range(10):
            at.get(i, lambda: None)()
            yield i

    return numbers


CHAINS: dict[str, Callable[[Any], Any]] = {
    "generator": lambda ds: ds,
    "map, batch": lambda ds: ds.map(lambda x: x + 0).batch(1).map(lambda x: x[0]),
    "flat_map": lambda ds: ds.flat_map(tf.data.Dataset.from_tensors),
    "repeat": lambda ds: ds.repeat(1),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_an_interrupted_iterator_goes_on(chain: Any, graph: Any) -> None:
    """It said that its data were at their end, which ends a training without a word."""
    taken = chain(tf.data.Dataset.from_generator(_numbers({3: _interrupt, 6: _interrupt}), tf.int64, []))
    element = taken.make_one_shot_iterator().get_next()
    handler, got = signal.getsignal(signal.SIGINT), []
    with tf.Session() as session:
        for at in (3, 6):
            with pytest.raises(KeyboardInterrupt):
                while True:
                    got.append(int(session.run(element)))
            assert got == list(range(at)), "the element that was being made is given afterwards"
            assert signal.getsignal(signal.SIGINT) is handler
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                got.append(int(session.run(element)))
    assert got == list(range(10))


@pytest.mark.parametrize("again", [True, False], ids=["again", "too long"])
def test_an_element_that_does_not_come_is_not_waited_for(
    again: bool, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the generators are over; it is said, and is no end of the data."""
    monkeypatch.setattr(interrupts, "_PATIENCE_S", 30.0 if again else 0.2)

    def hang() -> None:
        _interrupt()
        if again:
            _interrupt()
        time.sleep(10)

    dataset = tf.data.Dataset.from_generator(_numbers({2: hang}), tf.int64, [])
    iterator = dataset.make_initializable_iterator()
    element, start_s = iterator.get_next(), time.monotonic()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(KeyboardInterrupt):
            while True:
                session.run(element)
        assert time.monotonic() - start_s < 5
        for _ in range(2):
            with pytest.raises(tf.errors.FailedPreconditionError, match=r"interrupted .* run its initializer"):
                session.run(element)
        session.run(iterator.initializer)
        assert session.run(element) == 0


def test_what_goes_wrong_beside_an_interrupt_does_not_hide_it(graph: Any) -> None:
    def fail(x: Any) -> Any:
        _interrupt()
        raise ValueError("bad")

    dataset = tf.data.Dataset.range(3).map(lambda x: tf.py_func(fail, [x], tf.int64))
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(KeyboardInterrupt):
        session.run(element)


def test_other_threads_and_other_handlers(graph: Any) -> None:
    """A thread hears no signals; a program may have its own handler, or none."""
    element = tf.data.Dataset.range(10).make_one_shot_iterator().get_next()
    heard: list[int] = []
    with tf.Session() as session:
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(session.run(element)))
        thread.start()
        thread.join(10)
        before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        try:
            got.append(session.run(element))
            own = tf.data.Dataset.from_generator(_numbers({1: _interrupt}), tf.int64, [])
            values = own.make_one_shot_iterator().get_next()
            assert [int(session.run(values)) for _ in range(3)] == [0, 1, 2] and heard == [signal.SIGINT]
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            got.append(session.run(element))
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, before)
    np.testing.assert_array_equal(got, [0, 1, 2])
