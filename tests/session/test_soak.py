"""A million runs of one session: what the process holds stays where it was."""

from __future__ import annotations

import gc
from typing import Any

import psutil
import pytest

import sparkflow as tf

RUNS, ROUNDS = 1_000_000, 10
SLACK_BYTES = 4 << 20  # of the allocator's own movement; a leak of 16 bytes a run shows


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.soak
def test_a_million_steps_leave_memory_flat(graph: Any) -> None:
    """Fed steps, steps that wait in a queue, variables that change, errors."""
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable([0.0, 1.0])
    queue = tf.FIFOQueue(10, [tf.float32])
    put, get = queue.enqueue([x]), queue.dequeue()
    step, index = tf.assign_add(v, [1.0, 1.0]).op, tf.placeholder(tf.int32, [])
    row, more = tf.gather(v, index), x + 1
    graph.finalize()
    with tf.Session() as session:
        session.run(v.initializer)
        call = session.make_callable(more, [x])

        def work(times: int) -> None:
            for i in range(times // 5):
                session.run([more, {"a": v}], {x: 1.0})
                session.run(step)
                session.run(put, {x: float(i)})
                assert session.run(get) == i
                call(2.0)
                if not i % 100:
                    with pytest.raises(tf.errors.InvalidArgumentError):
                        session.run(row, {index: 7})

        work(RUNS // ROUNDS)
        before = resident_bytes()
        for _ in range(ROUNDS - 1):
            work(RUNS // ROUNDS)
        assert resident_bytes() - before < SLACK_BYTES


@pytest.mark.soak
def test_ever_new_signatures_leave_memory_flat(graph: Any) -> None:
    """Each run fetches other tensors, so each is compiled; the oldest are given up."""
    tensors = [tf.constant(float(i)) for i in range(400)]
    pairs = [(a, b) for a in tensors for b in tensors[:60]]  # more than are kept
    with tf.Session() as session:

        def work(count: int) -> None:
            for a, b in pairs[:count]:
                session.run([a, b, {"sum": a}])

        work(len(pairs) // 2)
        held = len(session._runtime._master._compiled)
        before = resident_bytes()
        for _ in range(2):
            work(len(pairs))
        assert len(session._runtime._master._compiled) <= held
        assert resident_bytes() - before < 4 * SLACK_BYTES
