"""Staging areas: order, limits, waiting, cancelling."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops.staging import StagingArea
from sparkflow_runtime.resources.staging import StagingArea as Area
from sparkflow_runtime.wire.errors import CancelledError, ResourceExhaustedError


class Call:
    """One operation: its error and outputs once it is done, and the step it runs in."""

    def __init__(self):
        self.count, self.error, self.outputs, self.callbacks = 0, None, None, {}

    def done(self, error, outputs):
        self.count, self.error, self.outputs = self.count + 1, error, outputs

    def on_cancel(self, callback):
        self.callbacks[id(callback)] = callback
        return id(callback)

    def off_cancel(self, token):
        del self.callbacks[token]

    def cancel(self, error):
        for callback in list(self.callbacks.values()):
            callback(error)


def put(area, *values):
    call = Call()
    area.put(tuple(map(np.asarray, values)), call.done, call)
    return call


def get(area):
    call = Call()
    area.get(call.done, call)
    return call


def peek(area, index):
    call = Call()
    area.peek(index, call.done, call)
    return call


def test_first_in_first_out_and_a_peek_leaves_it():
    area = Area("a")
    early, later = get(area), peek(area, 1)
    put(area, 1, 2)
    assert [int(v) for v in early.outputs] == [1, 2] and not early.callbacks
    put(area, 3, 4)
    assert later.count == 0
    put(area, 5, 6)
    assert int(later.outputs[0]) == 5 and area.size == 2 and not later.callbacks
    assert int(get(area).outputs[0]) == 3


def test_a_full_area_makes_puts_wait_in_their_order():
    area = Area("a", capacity=1)
    calls = [put(area, i) for i in range(3)]
    assert [call.count for call in calls] == [1, 0, 0]
    calls[1].cancel(CancelledError("enough"))
    assert isinstance(calls[1].error, CancelledError)
    assert int(get(area).outputs[0]) == 0 and calls[2].count == 1
    put(area, 9)
    area.clear()
    assert area.size == 1 and int(get(area).outputs[0]) == 9


def test_memory_is_limited_by_bytes():
    area = Area("a", memory_limit=20)
    with pytest.raises(ResourceExhaustedError, match="may hold 20 bytes; the values to put have 24"):
        put(area, np.zeros(3))
    put(area, np.zeros(2))
    waiting = put(area, np.zeros(1))
    assert waiting.count == 0
    get(area)
    assert waiting.count == 1


def test_a_dropped_container_ends_its_waiters():
    area = Area("a")
    waiting = get(area)
    area.close()
    assert isinstance(waiting.error, CancelledError) and not waiting.callbacks


def test_the_next_batch_is_staged_while_this_one_is_used():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2])
        area = StagingArea([tf.float32, tf.int32], [[2], []], names=["x", "n"], capacity=1)
        stage, taken, size = area.put({"x": x, "n": 3}), area.get(), area.size()
        assert taken["x"].shape.as_list() == [2]
        fed = np.float32([1, 2])
        sess.run(stage, {x: fed})
        fed[:] = -1
        got, _ = sess.run([taken, stage], {x: [5, 6]})
        assert got["x"].tolist() == [1, 2] and got["n"] == 3
        thread = threading.Timer(0.02, lambda: sess.run(taken))
        thread.start()
        sess.run(stage, {x: [7, 8]})
        thread.join()
        assert sess.run([area.peek(0)["x"], size])[1] == 1
        sess.run(area.clear())
        assert sess.run(size) == 0


def test_refusals():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="as many as dtypes, 1"):
            StagingArea([tf.float32], [[], []])
        with pytest.raises(ValueError, match="0 or more, got -1"):
            StagingArea([tf.float32], capacity=-1)
        area = StagingArea([tf.float32, tf.float32], names=["a", "b"])
        with pytest.raises(ValueError, match=r"takes a dictionary of \['a', 'b'\], got \['a'\]"):
            area.put({"a": 1.0})
        with pytest.raises(ValueError, match="takes 2 tensors, got 1"):
            StagingArea([tf.float32, tf.float32]).put([1.0])
        with pytest.raises(ValueError, match=r"incompatible|not compatible"):
            StagingArea([tf.float32], [[2]]).put([[1.0]])
