"""tf.contrib.graph_editor: parts of a graph chosen, copied, and laid on other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ge = tf.contrib.graph_editor
pytestmark = pytest.mark.usefixtures("graph")


def names(things: Any) -> list[str]:
    return [thing.name for thing in things]


def test_choosing(graph: tf.Graph) -> None:
    with tf.name_scope("s"):
        a = tf.constant(1.0, name="a")
        b = tf.add(a, a, name="MatMul_like")
    tf.negative(b, name="c")
    assert names(ge.select_ops("s/.*", graph=graph)) == ["s/a", "s/MatMul_like"]
    assert names(ge.filter_ts([b.op], True)) == ["s/a:0", "s/MatMul_like:0"]
    assert names(ge.filter_ts_from_regex(graph, "MatMul")) == ["s/MatMul_like:0"]
    assert names(ge.filter_ops(graph, lambda op: op.type == "Neg")) == ["c"]
    with pytest.raises(ValueError, match="'graph' to use regex"):
        ge.select_ops("s/.*")


def test_a_part_is_copied_and_takes_other_inputs(graph: tf.Graph) -> None:
    x, other = tf.constant([1.0, 2.0]), tf.constant([10.0, 20.0])
    with tf.control_dependencies([tf.no_op(name="before")]):
        y = tf.multiply(x, 3.0, name="y")
    z = tf.placeholder_with_default(tf.add(y, 1.0, name="z"), [None], name="open")
    view = ge.sgv([y.op, z.op.inputs[0].op, z.op])
    assert view.graph is graph and x in view.inputs and view.outputs == []
    copied, info = ge.copy_with_input_replacements(view, {x: other}, "again")
    made = info.transformed(z)
    assert made.name == "again/open:0" and made.shape.ndims == 1 and len(copied.ops) == 3
    assert info.transformed(x) is None and info.transformed(x, lambda t: t) is x
    assert names(info.transformed(y).op.control_inputs) == ["before"]
    with tf.Session() as session:
        assert [v.tolist() for v in session.run([z, made])] == [[4, 7], [31, 61]]
    _, second = ge.copy(view)
    assert second.transformed(y).name == "y_1:0"


def test_loops_are_copied(graph: tf.Graph) -> None:
    x = tf.placeholder_with_default(2.0, [])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * x), [0, 1.0])
    made = ge.graph_replace(y, {x: tf.constant(3.0)})
    with tf.Session() as session:
        assert session.run([y, made]) == [8, 27]


def test_a_graph_is_computed_as_if_a_tensor_were_another() -> None:
    """As unrolled optimization does: the loss after a step, with a slope through it."""
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    value = w.value()
    loss = tf.reduce_sum(tf.square(value) * [1.0, 2.0], name="loss")
    aside = tf.constant(5.0)
    after, same = ge.graph_replace([loss, aside], {value: value - 0.25 * tf.gradients(loss, value)[0]})
    assert same is aside
    (slope,) = tf.gradients(after, w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([loss, after]) == [3, 0.25]
        np.testing.assert_allclose(session.run(slope), [0.5, 0])
    with pytest.raises(ValueError, match="not connected"):
        ge.graph_replace(aside, {value: value})


def test_edges_are_laid_elsewhere() -> None:
    a, b = tf.constant(1.0), tf.constant(10.0)
    c, d = tf.negative(a, name="c"), tf.add(a, a, name="d")
    assert ge.reroute_ts([b], {a: 0}.keys(), can_modify=[d.op]) == 2
    assert ge.reroute_ts(b, a, cannot_modify=c.op) == 0
    ge.add_control_inputs(d.op, [c.op])
    with pytest.raises(ValueError, match="d is already a control_input of c"):
        ge.add_control_inputs(d.op, c.op)
    with tf.Session() as session:
        assert session.run([c, d]) == [-1, 20]
