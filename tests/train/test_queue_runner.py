"""Coordinator and QueueRunner: threads that end together, and whose errors are not lost."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_threads_stop_together() -> None:
    coord, turns = tf.train.Coordinator(), []

    def work(k: int) -> None:
        while not coord.should_stop():
            turns.append(k)
            if len(turns) > 50:
                coord.request_stop()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    coord.join(threads)
    assert coord.joined and coord.should_stop() and not any(t.is_alive() for t in threads)


def test_join_raises_the_first_error() -> None:
    coord = tf.train.Coordinator()

    def work() -> None:
        with coord.stop_on_exception():
            raise ValueError("first")

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(ValueError, match="first"):
        coord.join([thread])
    coord.clear_stop()
    assert not coord.should_stop()
    coord.request_stop(tf.errors.OutOfRangeError("the end of the data is no error"))
    coord.join()
    with pytest.raises(ValueError, match="too late"):
        coord.request_stop(ValueError("too late"))


def test_join_names_the_threads_that_go_on() -> None:
    coord, release = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn")
    thread.start()
    coord.register_thread(thread)
    coord.request_stop()
    with pytest.raises(RuntimeError, match=r"still running after 0.05 s: stubborn"):
        coord.join(stop_grace_period_secs=0.05)
    release.set()
    thread.join()


def test_a_join_without_a_stop_waits_for_the_threads() -> None:
    coord = tf.train.Coordinator()
    thread = threading.Thread(target=time.sleep, args=(0.1,))
    thread.start()
    coord.join([thread])
    assert not thread.is_alive() and not coord.should_stop()


def test_a_runner_fills_its_queue_until_the_coordinator_stops(graph: Any) -> None:
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[2]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([[1.0, 2.0]])] * 2))
    batch = queue.dequeue_many(4)
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        assert len(threads) == 3 and tf.train.start_queue_runners(session, coord) == []
        for _ in range(20):
            assert session.run(batch).tolist() == [[1, 2]] * 4
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=5)


def test_the_end_of_one_queue_ends_the_next(graph: Any) -> None:
    """Numbers by one queue, their squares by another: OutOfRangeError arrives after the last square."""
    numbers, squares = tf.FIFOQueue(100, [tf.int32], [[]]), tf.FIFOQueue(3, [tf.int32], [[]])
    fill, close = numbers.enqueue_many([np.arange(10, dtype=np.int32)]), numbers.close()
    square = squares.enqueue(tf.square(numbers.dequeue()))
    runner, out = tf.train.QueueRunner(squares, [square] * 2), squares.dequeue()
    with tf.Session() as session:
        session.run(fill)
        session.run(close)
        coord, found = tf.train.Coordinator(), []
        runner.create_threads(session, coord, start=True)
        with pytest.raises(tf.errors.OutOfRangeError, match=r"is closed and has insufficient elements"):
            while True:
                found.append(session.run(out))
        coord.request_stop()
        coord.join()
    assert sorted(found) == [k * k for k in range(10)]


def test_a_runners_error_reaches_the_caller(graph: Any) -> None:
    queue, x = tf.FIFOQueue(10, [tf.float32], [[]]), tf.placeholder(tf.float32, [])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(x)])
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        runner.create_threads(session, coord, start=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"[Pp]laceholder"):
            coord.join()
        [thread] = runner.create_threads(session)
        thread.start()
        thread.join()
        assert [type(e) for e in runner.exceptions_raised] == [tf.errors.InvalidArgumentError]


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="at least one enqueue op"):
        tf.train.QueueRunner(tf.FIFOQueue(1, tf.int32), [])
    with pytest.raises(ValueError, match="no default session"):
        tf.train.start_queue_runners()


def test_a_looper_turns_at_once_and_until_it_is_told_to_stop() -> None:
    coord, turns = tf.train.Coordinator(), []

    def turn(name: str) -> None:
        turns.append(name)
        if len(turns) == 3:
            coord.request_stop()

    tf.train.LooperThread.loop(coord, 0.001, turn, ("x",))
    coord.join()
    assert turns == ["x"] * 3
    first = tf.train.Coordinator()
    tf.train.LooperThread.loop(first, 3600, turns.append, kwargs=None, args=("now",))
    while len(turns) < 4:
        pass
    first.request_stop()
    first.join()
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread("coord", 1.0)  # type: ignore[arg-type]
