"""CriticalSection: one part at a time, whatever else happens."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.resources.mutexes import Mutex


def counting(v: Any) -> Any:
    """Reads, waits a little, and writes what it read plus 1: two at a time would lose counts."""
    new = tf.py_func(lambda x: (time.sleep(0.002), x)[1], [v.read_value()], tf.float32) + 1
    with tf.control_dependencies([v.assign(new)]):
        return tf.identity(new)


def all_run(*runs: Any) -> None:
    threads = [threading.Thread(target=run) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_no_count_is_lost(graph: Any) -> None:
    section, v = tf.CriticalSection(name="mine"), tf.get_variable("v", [], initializer=tf.zeros_initializer())
    counts = [section.execute(lambda: counting(v)) for _ in range(4)]
    assert section.name == "mine" and tf.get_collection("critical_sections") == [section]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        all_run(*[lambda: session.run(counts)] * 3)
        assert session.run(v) == 12 and sorted(session.run(counts)) == [13, 14, 15, 16]


def test_sections_of_one_name_are_one_over_sessions(graph: Any) -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    first, second = (tf.CriticalSection(shared_name="shared").execute(lambda: counting(v)) for _ in range(2))
    target = tf.train.Server.create_local_server().target
    with tf.Session(target) as one, tf.Session(target) as other:
        one.run(tf.global_variables_initializer())
        all_run(*[lambda: one.run(first), lambda: other.run(second)] * 4)
        assert one.run(v) == 8


def test_a_part_that_fails_lets_the_others_in(graph: Any) -> None:
    section, x = tf.CriticalSection(), tf.placeholder(tf.float32, [])

    def part() -> Any:
        with tf.control_dependencies([tf.assert_positive(x)]):
            return x * 2

    out = section.execute(part)
    with tf.Session() as session:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="x > 0"):
                session.run(out, {x: -1})
            assert session.run(out, {x: 2}) == 4


def test_who_waits_can_be_timed_out(graph: Any) -> None:
    """The one that holds the section goes on; the other leaves the line."""
    section, queue = tf.CriticalSection(), tf.FIFOQueue(1, tf.int32, [[]])
    slow, quick = section.execute(queue.dequeue), section.execute(lambda: tf.constant(3))
    with tf.Session() as session:
        found: list[Any] = []
        holder = threading.Thread(target=lambda: found.append(session.run(slow)))
        holder.start()
        steps = session._runtime._worker.rendezvous._steps  # type: ignore[union-attr]
        while not any(step._parked for step in list(steps.values())):  # until it waits for the queue
            holder.join(0.001)
        with pytest.raises(tf.errors.DeadlineExceededError, match="1 wait for it"):
            session.run(quick, options=tf.RunOptions(timeout_in_ms=200))
        session.run(queue.enqueue(7))
        holder.join(30)
        assert found == [7] and session.run(quick) == 3


def test_structures_operations_and_loops(graph: Any) -> None:
    section, v = tf.CriticalSection(), tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    sparse = tf.SparseTensor([[0, 1]], [2.0], [1, 3])
    given = section.execute(lambda: {"a": tf.constant(1), "b": (v.read_value() + 1, tf.sparse_retain(sparse, [True]))})
    bump = section.execute(lambda: v.assign_add([1.0, 2.0]).op)
    loop = tf.while_loop(lambda i: i < 5, lambda i: section.execute(lambda: i + 1), [tf.constant(0)])
    (slope,) = tf.gradients(section.execute(lambda: v * v), [v])
    assert isinstance(bump, tf.Operation)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(bump) is None and session.run(loop) == 5
        found = session.run(given)
        assert found["a"] == 1 and found["b"][0].tolist() == [2, 3] and found["b"][1].values.tolist() == [2]
        np.testing.assert_array_equal(session.run(slope), [2, 4])


def test_waits_for_what_it_takes_from_outside(graph: Any) -> None:
    """One part feeds another through the graph: neither waits for the other's lock."""
    section = tf.CriticalSection()
    first = section.execute(lambda: tf.constant(2.0))
    second = section.execute(lambda: first * 3)
    with tf.Session() as session:
        assert session.run(second) == 6


def test_refusals(graph: Any) -> None:
    section, queue = tf.CriticalSection(), tf.FIFOQueue(3, tf.int32, [[]])
    with pytest.raises(TypeError, match="fn must be callable, got 3"):
        section.execute(3)
    with pytest.raises(ValueError, match="None values not supported"):
        section.execute(lambda: None)
    with pytest.raises(ValueError, match="in which we are already running"):
        section.execute(lambda: section.execute(lambda: tf.constant(1)))
    section.execute(queue.size)
    with pytest.raises(ValueError, match=r"would access resources: .* requested exclusive resource access"):
        tf.CriticalSection().execute(queue.size)
    with pytest.raises(ValueError, match="not supported"):
        tf.CriticalSection(critical_section_def=object())
    other = tf.FIFOQueue(3, tf.int32, [[]])
    for _ in range(2):
        tf.CriticalSection().execute(other.size, exclusive_resource_access=False)


def test_a_lock_that_is_collected_while_its_thread_looks_after_the_line() -> None:
    """The collector may come at any line."""
    mutex, first, second = Mutex("m"), list[Any](), list[Any]()
    mutex.lock(lambda error, found: first.extend(found))
    mutex.lock(lambda error, found: second.extend(found))
    assert first and not second
    with mutex._lock:
        first.clear()
    assert second
