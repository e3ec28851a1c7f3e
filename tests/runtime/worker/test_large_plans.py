"""Plans of many waits, of large loop bodies and of deep branches: compiled in time that grows as the graph does."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.fetches import FetchPlan


def _seconds(build: Callable[[int], Any], count: int) -> float:
    """Of this thread: what a first run takes, most of which is compiling."""
    with tf.Graph().as_default(), tf.Session() as session:
        made = build(count)
        session.run(tf.global_variables_initializer())
        begin = time.thread_time()
        session.run(made)
        return time.thread_time() - begin


def _growth(measure: Callable[[int], float], few: int) -> float:
    """How much more five times as many take: of three tries the one that other work disturbed least."""
    tries = []
    gc.disable()  # what it takes depends on what other tests have left
    try:
        while not tries or (min(tries) >= 10 and len(tries) < 3):
            tries.append(measure(5 * few) / measure(few))
    finally:
        gc.enable()
    return min(tries)


def _queues(count: int) -> Any:
    return [tf.FIFOQueue(2, [tf.float32], [[]]).enqueue(1.0) for _ in range(count)]


def _body(count: int) -> Any:
    def body(i: Any, x: Any) -> Any:
        for _ in range(count):
            x = tf.tanh(x + 0.5)
        return i + 1, x

    v = tf.get_variable("v", [2])
    return tf.gradients(tf.while_loop(lambda i, x: i < 2, body, [0, v])[1], v)


@pytest.mark.slow
@pytest.mark.parametrize("build, few", [(_queues, 1200), (_body, 400)])
def test_compiling_is_linear(build: Callable[[int], Any], few: int) -> None:
    _seconds(build, 10)
    ratio = _growth(lambda count: _seconds(build, count), few)
    assert ratio < 10, f"5 times the ops took {ratio:.1f} times as long"


def _fed_and_fetched(count: int) -> float:
    with tf.Graph().as_default(), tf.Session() as session:
        places = [tf.placeholder(tf.float32, []) for _ in range(count)]
        begin = time.thread_time()
        assert session.run(places, dict.fromkeys(places, 1.5)) == [1.5] * count
        return time.thread_time() - begin


def _planned(count: int) -> float:
    with tf.Graph().as_default() as graph:
        operations = [tf.no_op() for _ in range(count)]
    begin = time.thread_time()
    assert len(FetchPlan(graph, [*operations, operations[0]]).targets) == count
    return time.thread_time() - begin


def test_operations_are_asked_for_in_linear_time() -> None:
    ratio = _growth(_planned, 4000)
    assert ratio < 12, f"5 times the operations took {ratio:.1f} times as long"


def test_fetches_among_feeds_are_found_in_linear_time() -> None:
    ratio = _growth(_fed_and_fetched, 4000)
    assert ratio < 12, f"5 times the fetches took {ratio:.1f} times as long"


@pytest.mark.parametrize("loops", [0, pytest.param(15, marks=pytest.mark.slow)])
def test_branches_deeper_than_python_nests(loops: int) -> None:
    def nest(depth: int, y: Any) -> Any:
        if depth == 0:
            return 3.0 * y
        if depth <= loops:
            return tf.while_loop(lambda i, _: i < 1, lambda i, z: (i + 1, nest(depth - 1, z)), [0, y])[1]
        return tf.cond(y > -depth, lambda: nest(depth - 1, y), lambda: -y)

    x = tf.placeholder(tf.float32, [])
    y = nest(105, x)
    slope = tf.gradients(y, x)[0]
    with tf.Session() as session:
        assert session.run([y, slope], {x: 2.0}) == [6.0, 3.0]
        assert session.run([y, slope], {x: -50.5}) == [np.float32(50.5), -1.0]
