"""Gradients of gradients through branches and loops equal those of the same program unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph

Step = Callable[..., Any]
VALUES = {"x": [0.5, 0.7], "w": [0.3, 0.2], "table": [[0.5, 0.7], [0.1, 0.2], [0.3, 0.6]]}


def _repeat(looped: bool, n: int, step: Step, start: Any) -> Any:
    """step(i, y) n times, in a loop or unrolled."""
    if looped:
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, step(i, y)), [0, start])[1]
    y = start
    for i in range(n):
        y = step(tf.constant(i), y)
    return y


def power(looped: bool, x: Any, w: Any, table: Any) -> Any:
    return _repeat(looped, 4, lambda i, y: y * x, tf.ones_like(x))


def recurrence(looped: bool, x: Any, w: Any, table: Any) -> Any:
    return _repeat(looped, 3, lambda i, y: tf.tanh(y * w + tf.reduce_sum(tf.sin(y) * x)), x)


def nested(looped: bool, x: Any, w: Any, table: Any) -> Any:
    inner: Step = lambda j, z: z * w + tf.sin(z)  # noqa: E731
    return _repeat(looped, 3, lambda i, y: _repeat(looped, 2, inner, y) * x, x)


def branches(looped: bool, x: Any, w: Any, table: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        return tf.cond(tf.equal(i % 2, 0), lambda: tf.exp(-y * x) * y, lambda: tf.sin(y) * w + y * y)

    return _repeat(looped, 4, step, x)


def one_after_the_other(looped: bool, x: Any, w: Any, table: Any) -> Any:
    y = _repeat(looped, 2, lambda i, y: y * x, x)
    return _repeat(looped, 3, lambda i, z: tf.sin(z) * y * w, y)


def rows(looped: bool, x: Any, w: Any, table: Any) -> Any:
    return _repeat(looped, 3, lambda i, y: tf.sin(y) * tf.gather(table, i), x)


def arrays(looped: bool, x: Any, w: Any, table: Any) -> Any:
    step: Step = lambda a, row: tf.sin(a) * row + a * a  # noqa: E731
    if looped:
        return tf.scan(step, table)
    a = table[0]
    b = step(a, table[1])
    return tf.stack([a, b, step(b, table[2])])


PROGRAMS = [power, recurrence, nested, branches, one_after_the_other, rows, arrays]


def _derivatives(program: Callable[..., Any], looped: bool) -> list[Any]:
    """[y, and the gradients of first, second and third order]."""
    with Graph().as_default() as graph:
        inputs = {key: tf.placeholder(tf.float64, np.shape(v), name=key) for key, v in VALUES.items()}
        y = program(looped, **inputs)
        fetches, last = [y], [tf.sin(y * y)]
        for _ in range(3):
            found = [g for g in tf.gradients(last, list(inputs.values())) if g is not None]
            last = [tf.sin(tf.convert_to_tensor(g)) for g in found]
            fetches += [tf.convert_to_tensor(g) for g in found]
        with tf.Session(graph=graph) as session:
            return session.run(fetches, {inputs[key]: v for key, v in VALUES.items()})


@pytest.mark.parametrize("program", PROGRAMS)
def test_third_order(program: Callable[..., Any]) -> None:
    looped, unrolled = _derivatives(program, True), _derivatives(program, False)
    assert len(looped) == len(unrolled) > 3
    for a, b in zip(looped, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("program", [recurrence, nested, branches, rows])
def test_random_direction(check_gradient: Any, program: Callable[..., Any], known_shapes: bool) -> None:
    """A loop in a branch; its state's shape is known or not."""

    def build(x: Any, w: Any, table: Any) -> Any:
        start = x if known_shapes else tf.placeholder_with_default(tf.zeros([2], tf.float64), None) + x
        y = tf.cond(tf.reduce_sum(x) > -100.0, lambda: program(True, start, w, table), lambda: x * w)
        return y * 2.0 + x * w + table[1]

    check_gradient(build, *(np.array(VALUES[key]) for key in ("x", "w", "table")))


def test_gradient_of_a_looked_up_table_stays_rows(graph: Graph) -> None:
    table, p = tf.placeholder(tf.float64, [100, 2]), tf.placeholder(tf.bool, [])
    y = _repeat(True, 3, lambda i, y: y + tf.gather(table, [i, 7]), tf.zeros([2, 2], tf.float64))
    z = tf.cond(p, lambda: tf.gather(table, [5]), lambda: tf.zeros([1, 2], tf.float64))
    (looped,), (branched,) = tf.gradients(y, table), tf.gradients(z, table)
    assert isinstance(looped, tf.IndexedSlices) and isinstance(branched, tf.IndexedSlices)
    with tf.Session() as session:
        feed = {table: np.ones([100, 2])}
        assert sorted(session.run(looped, feed).indices.tolist()) == [0, 1, 2, 7, 7, 7]
        assert session.run(branched, {p: True, **feed}).indices.tolist() == [5]
        assert session.run(branched, {p: False, **feed}).indices.tolist() == []


@pytest.mark.parametrize("known_shapes", [True, False])
def test_rows_at_constant_places_in_branches(check_gradient: Any, known_shapes: bool) -> None:
    """The places are constants, alive on both sides; TensorFlow 2.21 fails here."""

    def build(table: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            late = lambda: tf.cond(i > 2, lambda: y * tf.gather(table, [1, 2]), lambda: tf.sin(y))  # noqa: E731
            return tf.cond(tf.equal(i % 2, 1), late, lambda: y + tf.gather(table, [0, 0]))

        return _repeat(True, 5, step, tf.reshape(tf.ones([4], tf.float64), [2, 2]))

    check_gradient(build, np.array(VALUES["table"]))


def test_no_node_for_what_leads_nowhere(graph: Graph) -> None:
    """A gradient by the weights adds nothing for the inputs: no list of gradients, no push of what is not needed."""
    x, w = tf.placeholder(tf.float64, [3, 2]), tf.placeholder(tf.float64, [2])
    y = tf.foldl(lambda a, row: a + row * w, x, initializer=tf.zeros([2], tf.float64))
    before = graph.version
    tf.gradients(y, w)
    added = [op.type for op in graph.get_operations()[before:]]
    assert "TensorArrayGradV3" not in added and added.count("StackPushV2") == 1


def test_gradients_of_a_branch_not_connected(graph: Graph) -> None:
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float64, [2])
    y = tf.cond(p, lambda: tf.stop_gradient(x), lambda: tf.ones([2], tf.float64))
    assert tf.gradients(y, x) == [None]


def test_gradient_of_switch_and_merge_made_by_hand(graph: Graph) -> None:
    from sparkflow.ops.control_flow_nodes import merge, switch

    x = tf.placeholder(tf.float64, [2])
    no, yes = switch(x, tf.reduce_sum(x) > 1.0)
    y, index = merge([no * 3.0, yes * yes])
    (dx,) = tf.gradients(y, x)
    with tf.Session() as session:
        assert session.run([index, dx], {x: [0.1, 0.2]})[1].tolist() == [3, 3]
        taken, found = session.run([index, dx], {x: [1.0, 2.0]})
        assert taken == 1 and found.tolist() == [2, 4]
