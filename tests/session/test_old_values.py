"""What was computed from a variable before an update of the same step has the old value after it, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.worker import plan

PARTS: dict[str, Callable[[Any], Any]] = {
    "slice of rows": lambda v: v[:1],
    "slice of columns": lambda v: v[:, 1:3],
    "Slice": lambda v: tf.slice(v, [0, 0], [1, 4]),
    "one row": lambda v: v[0],
    "transpose": tf.transpose,
    "reverse": lambda v: tf.reverse(v, [1]),
    "broadcast": lambda v: tf.broadcast_to(v, [3, 2, 4]),
    "split": lambda v: tf.split(v, 2)[0],
    "split of columns": lambda v: tf.split(v, [1, 3], 1)[1],
    "unstack": lambda v: tf.unstack(v)[1],
    "a view of a view": lambda v: tf.reshape(tf.transpose(v)[1:], [-1])[2:],
    "in a branch": lambda v: tf.cond(tf.constant(True), lambda: v[0], lambda: v[1]),
    "negative": lambda v: -v,
    "product": lambda v: v * 1.5,
}
UPDATES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: tf.assign(v, tf.fill([2, 4], 5.0)),
    "assign_add": lambda v: tf.assign_add(v, tf.fill([2, 4], 4.0)),
    "scatter_update": lambda v: tf.scatter_update(v, [0, 1], tf.fill([2, 4], 5.0)),
    "optimizer": lambda v: tf.train.GradientDescentOptimizer(4.0).minimize(-tf.reduce_sum(v.read_value())),
}


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The views that plans make copies of."""
    found: list[str] = []

    class Watched(plan.OldValues):
        def to_copy(self, fetched: set[str]) -> set[str]:
            names = super().to_copy(fetched)
            found.extend(names)
            return names

    monkeypatch.setattr(plan, "OldValues", Watched)
    return found


def _variable(resource: bool = False) -> Any:
    return tf.get_variable("v", [2, 4], initializer=tf.constant_initializer(1.0), use_resource=resource)


def _weights(*shape: int) -> Any:
    return tf.get_variable("w", shape, initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=1))


def _started() -> Any:
    session = tf.Session()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_keeps_its_value(graph: Any, part: str, update: str) -> None:
    v = _variable()
    before = PARTS[part](v)
    with tf.control_dependencies([before]):
        updated = UPDATES[update](v)
    with tf.control_dependencies([updated]):
        zero = tf.zeros_like(before)
        after = zero + before
        less = tf.constant(8.0) - before  # a Neg before it may become a sum
    with _started() as session:
        if part != "negative":
            found, fetched, _ = session.run([after, before, updated])
            assert np.all(found == (1.5 if part == "product" else 1.0)) and np.array_equal(found, fetched)
        else:
            found, rest = session.run([after, less])
            assert np.all(found == -1) and np.all(rest == 9)


def test_a_read_itself_sees_the_update(graph: Any) -> None:
    """As a reference variable of TensorFlow does."""
    v = _variable()
    before = tf.identity(v)
    with tf.control_dependencies([before]):
        updated = tf.assign_add(v, tf.ones([2, 4]))
    with tf.control_dependencies([updated]):
        after = before + tf.zeros([2, 4])
    with _started() as session:
        assert np.all(session.run(after) == 2)


READS: dict[str, Callable[[Any], Any]] = {
    "identity": tf.identity,
    "read_value": lambda v: v.read_value(),
    "value": lambda v: v.value(),
    "reshape": lambda v: tf.reshape(v, [4, 2]),
    "squeeze": lambda v: tf.squeeze(tf.expand_dims(v, 0)),
    "in a branch": lambda v: tf.cond(tf.constant(True), lambda: tf.identity(v), lambda: v - 1.0),
}


@pytest.mark.parametrize("update", [u for u in UPDATES if u != "optimizer"])
@pytest.mark.parametrize("read", READS)
def test_a_read_of_a_resource_variable_keeps_its_value(graph: Any, read: str, update: str) -> None:
    v = _variable(True)
    before = READS[read](v)
    with tf.control_dependencies([before]):
        updated = UPDATES[update](v)
    with tf.control_dependencies([updated]):
        after, new = before + tf.zeros_like(before), v + 0.0
    with _started() as session:
        found, fetched, now = session.run([after, before, new])
        assert np.all(found == 1) and np.all(fetched == 1) and np.all(now == 5), "what reads it anew sees the update"


@pytest.mark.parametrize("way", ["argument", "scope", "set_use_resource", "default"])
def test_who_says_that_a_variable_is_a_resource(graph: Any, way: str) -> None:
    if way == "default":
        tf.enable_resource_variables()
    try:
        assert tf.resource_variables_enabled() is (way == "default")
        with tf.variable_scope("s", use_resource=True if way == "scope" else None) as scope:
            if way == "set_use_resource":
                scope.set_use_resource(True)
            assert scope.use_resource is (True if way in ("scope", "set_use_resource") else None)
            with tf.variable_scope("inner"):
                v = tf.get_variable("v", [], use_resource=True if way == "argument" else None)
        plain = tf.get_variable("plain", [], use_resource=False)
    finally:
        tf.disable_resource_variables()
    assert v.value() is not v.value() and plain.value() is plain.value()
    assert tf.get_variable("later", []).value().op.get_attr("T") == tf.float32
    (again,) = [w for w in tf.global_variables() if w.name == v.name]
    copy = tf.Graph()
    with copy.as_default():
        tf.train.import_meta_graph(tf.train.export_meta_graph(graph=graph))
        kept = {w.op.name: w.value() is not w.value() for w in tf.global_variables()}
    assert again is v and kept == {"s/inner/v": True, "plain": False, "later": False}


@pytest.mark.parametrize("native", [True, False])
def test_in_a_loop(graph: Any, copied: list[str], native: bool) -> None:
    """By generated code, and by the general executor."""
    v = _variable()

    def body(t: Any, total: Any) -> Any:
        row = v[0]
        with tf.control_dependencies([row]):
            updated = tf.assign_add(v, tf.ones([2, 4]))
        with tf.control_dependencies([updated]):
            return t + 1, total + row

    _, total = tf.while_loop(lambda t, total: t < 3, body, [tf.constant(0), tf.zeros([4])], parallel_iterations=1)
    with _started() as session:
        session._runtime._master._own.native_loops = native
        assert session.run(total).tolist() == [6.0] * 4  # 1 + 2 + 3
    assert bool(copied) is native


def test_across_a_wait(graph: Any, copied: list[str]) -> None:
    v, queue = _variable(), tf.FIFOQueue(3, [tf.float32], [[]])
    old = v[0]
    with tf.control_dependencies([old]):
        got = queue.dequeue()
    with tf.control_dependencies([tf.assign_add(v, tf.fill([2, 4], got))]):
        change = v.read_value()[0] - old
    with _started() as session:
        session.run(queue.enqueue(3.0))
        assert session.run(change).tolist() == [3.0] * 4
    assert copied


def _of_a_resource() -> tuple[Any, Any]:
    w = tf.get_variable("w", [8, 8], initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=1), use_resource=True)
    x = tf.placeholder(tf.float32, [None, 8])
    return tf.reduce_sum(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w)), tf.transpose(w) + w))), x


def _slices() -> tuple[Any, Any]:
    w, x = _weights(16, 8), tf.placeholder(tf.float32, [None, 8])
    return tf.reduce_sum(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w[:8])), tf.transpose(w[8:])))), x


def _gates() -> tuple[Any, Any]:
    w, x = _weights(8, 32), tf.placeholder(tf.float32, [None, 8])
    h = tf.zeros_like(x)
    for _ in range(3):
        a, b, c, _ = tf.split(w, 4, 1)
        h = tf.tanh(tf.matmul(x, a) + tf.matmul(h, b)) * tf.sigmoid(tf.matmul(h, c))
    return tf.reduce_sum(h), x


def _looped() -> tuple[Any, Any]:
    w, x = _weights(16, 8), tf.placeholder(tf.float32, [None, 8])
    step = lambda t, h: (t + 1, tf.tanh(tf.matmul(x, w[:8]) + tf.matmul(h, w[8:])))  # noqa: E731
    return tf.reduce_sum(tf.while_loop(lambda t, h: t < 5, step, [tf.constant(0), x])[1]), x


def _queued() -> tuple[Any, Any]:
    queue, x = tf.FIFOQueue(10, [tf.float32], [[8]]), tf.placeholder(tf.float32, [None, 8])
    w = _weights(16, 8)
    with tf.control_dependencies([queue.enqueue_many([x])]):
        got = queue.dequeue_many(4)
    return tf.reduce_sum(tf.matmul(tf.matmul(got, tf.transpose(w[:8])), w[8:])), x


@pytest.mark.parametrize("make", [_slices, _gates, _looped, _queued, _of_a_resource])
def test_a_training_step_copies_nothing(graph: Any, copied: list[str], make: Any) -> None:
    loss, x = make()
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    with _started() as session:
        losses = [session.run([loss, train], {x: np.ones((4, 8))})[0] for _ in range(4)]
    assert losses[-1] != losses[0] and not copied
