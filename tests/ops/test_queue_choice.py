"""QueueBase.from_list: a queue that each step chooses; and sizes that no queue has."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


def test_each_step_takes_from_the_queue_of_its_index() -> None:
    queues = [tf.FIFOQueue(10, [tf.int32], [[]]) for _ in range(3)]
    index = tf.placeholder(tf.int64, [])
    chosen = tf.QueueBase.from_list(index, queues)
    taken, put = chosen.dequeue(), chosen.enqueue(7)
    assert taken.shape.as_list() == []
    with tf.Session() as sess:
        sess.run([q.enqueue_many([[10 * i, 10 * i + 1]]) for i, q in enumerate(queues)])
        sess.run(put, {index: 1})
        assert [sess.run(taken, {index: i}).item() for i in (2, 0, 1, 2, 1, 1)] == [20, 0, 10, 21, 11, 7]
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(taken, {index: 3})


def test_shapes_are_what_all_queues_say() -> None:
    a = tf.FIFOQueue(1, [tf.int32, tf.int32], [[2], [3, 4]])
    b = tf.FIFOQueue(1, [tf.int32, tf.int32], [[], [3, 5]])
    assert [s.ndims for s in tf.QueueBase.from_list(0, [a, b]).shapes] == [None, 2]
    assert tf.QueueBase.from_list(0, [a, b]).shapes[1].as_list() == [3, None]
    assert tf.QueueBase.from_list(0, [a, a]).shapes == a.shapes


@pytest.mark.parametrize("other", [tf.FIFOQueue(1, [tf.float32]), tf.FIFOQueue(1, [tf.int32], names=["a"]), None])
def test_queues_that_differ_are_refused(other: object) -> None:
    with pytest.raises(TypeError):
        tf.QueueBase.from_list(0, [tf.FIFOQueue(1, [tf.int32]), other])
    with pytest.raises(TypeError, match="list"):
        tf.QueueBase.from_list(0, [])


@pytest.mark.parametrize("wrong", ["10", "text", [3]])
def test_sizes_that_are_no_number_are_refused_as_the_queue_is_made(wrong: Any, graph: Any) -> None:
    for make in (tf.FIFOQueue, lambda n, kind: tf.RandomShuffleQueue(n, 1, kind)):
        with pytest.raises(TypeError, match=r"Expected int for argument 'capacity' not ['\[]"):
            make(wrong, tf.float32)
    with pytest.raises(TypeError, match="Expected int for argument 'min_after_dequeue'"):
        tf.RandomShuffleQueue(10, wrong, tf.float32)
    assert tf.FIFOQueue(None, tf.float32).queue_ref.op.get_attr("capacity") == -1
    assert tf.RandomShuffleQueue(7.5, None, tf.float32).queue_ref.op.get_attr("capacity") == 7
