"""The nodes of cond, what it refuses, and case and smart_cond. Values: test_control_flow_programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.ops.control_flow_cond import smart_cond
from sparkflow_runtime.wire.errors import InvalidArgumentError

# As TensorFlow 2.21 (control flow v1) names and joins them.
NODES = """
cond/Switch Switch p p
cond/switch_t Identity cond/Switch:1
cond/switch_f Identity cond/Switch
cond/pred_id Identity p
cond/Add/y Const ^cond/switch_t
cond/Add/Switch Switch x cond/pred_id
cond/Add AddV2 cond/Add/Switch:1 cond/Add/y
cond/Mul/y Const ^cond/switch_f
cond/Mul/Switch Switch x cond/pred_id
cond/Mul Mul cond/Mul/Switch cond/Mul/y
cond/Merge Merge cond/Mul cond/Add
"""


def _inputs() -> tuple[Any, Any]:
    return tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.float32, [], name="x")


def test_nodes(graph: Graph) -> None:
    p, x = _inputs()
    tf.cond(p, lambda: tf.add(x, 1.0), lambda: tf.multiply(x, 3.0))
    nodes = [" ".join([n.name, n.op, *n.input]) for n in graph.as_graph_def().node][2:]
    assert nodes == NODES.split("\n")[1:-1]


def test_contexts(graph: Graph) -> None:
    p, x = _inputs()
    inner: list[Any] = []
    y = tf.cond(p, lambda: inner.append(x * 2.0) or inner[0], lambda: x)
    context = inner[0].op._get_control_flow_context()
    assert (context.branch, context.pred.name, context.outer_context) == (1, "cond/pred_id:0", None)
    assert y.op._get_control_flow_context() is None
    assert graph.get_collection(tf.GraphKeys.COND_CONTEXT)[0] is context
    assert not graph.is_fetchable(inner[0]) and graph.is_fetchable(y)
    with tf.Session() as session, pytest.raises(ValueError, match="not fetchable"):
        session.run(inner[0], {p: True, x: 1.0})


def test_shapes_that_differ_are_left_open(graph: Graph) -> None:
    p, x = _inputs()
    assert tf.cond(p, lambda: tf.zeros([2, 3]), lambda: tf.zeros([2, 4])).shape.as_list() == [2, None]
    assert tf.cond(p, lambda: tf.zeros([2, 3]), lambda: x).shape.ndims is None


def test_only_one_branch_runs(graph: Graph) -> None:
    p, x = _inputs()
    v = tf.Variable(0.0)
    count = lambda: tf.assign_add(v, 1.0).op  # noqa: E731
    done = tf.cond(p, count, tf.no_op)
    checked = tf.cond(p, lambda: x, lambda: tf.check_numerics(x, "only where false"))
    assert done.dtype is tf.bool
    with tf.Session() as session:
        session.run(v.initializer)
        for way in (True, False, True):
            session.run(done, {p: way})
        assert session.run(v) == 2
        assert np.isnan(session.run(checked, {p: True, x: np.nan}))
        with pytest.raises(InvalidArgumentError, match="only where false"):
            session.run(checked, {p: False, x: np.nan})


def test_assert_in_a_branch(graph: Graph) -> None:
    p, x = _inputs()

    def checked() -> Any:
        with tf.control_dependencies([tf.Assert(x > 0.0, ["x is", x])]):
            return tf.identity(x)

    y = tf.cond(p, checked, lambda: -x)
    with tf.Session() as session:
        assert session.run(y, {p: False, x: -3.0}) == 3
        assert session.run(y, {p: True, x: 3.0}) == 3
        with pytest.raises(InvalidArgumentError, match="x is"):
            session.run(y, {p: True, x: -3.0})


def test_slices_and_lists(graph: Graph) -> None:
    p, x = _inputs()
    size = tf.constant([5, 2])
    one = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3]), size)
    two = tf.IndexedSlices(tf.zeros([2, 2]), tf.constant([0, 1]), size)
    out = tf.cond(p, lambda: one, lambda: two)
    assert isinstance(out, tf.IndexedSlices)
    with tf.Session() as session:
        assert session.run(out.indices, {p: True}).tolist() == [3]
        assert session.run(out.indices, {p: False}).tolist() == [0, 1]
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x]), tf.Tensor)
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x], strict=True), list)


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda p, x: tf.cond(True, lambda: x, lambda: x), TypeError, "must not be a Python bool"),
        (lambda p, x: tf.cond(p, lambda: [], lambda: []), ValueError, "at least one result"),
        (lambda p, x: tf.cond(p, lambda: [[x]], lambda: [x]), ValueError, "same nested structure"),
        (lambda p, x: tf.cond([True, False], lambda: x, lambda: x), InvalidArgumentError, "must be a scalar"),
        (lambda p, x: tf.cond(p, x, lambda: x), TypeError, "true_fn must be callable"),
        (lambda p, x: tf.cond(p, lambda: x), TypeError, "false_fn must be callable"),
        (lambda p, x: tf.cond(p, lambda: None, lambda: x), ValueError, "true_fn must have a return value"),
        (lambda p, x: tf.cond(p, lambda: x, lambda: [x, x]), ValueError, "same nested structure"),
        (lambda p, x: tf.cond(p, lambda: x, lambda: 1), ValueError, "Received float32 from true_fn and int32"),
        (lambda p, x: tf.case([]), ValueError, "pred_fn_pairs is empty"),
        (lambda p, x: tf.case([(True, lambda: x)]), TypeError, "pred must be Tensor of type bool"),
        (lambda p, x: tf.case([(p, x)]), TypeError, "must be callable"),
        (lambda p, x: tf.case([p]), TypeError, "must be a 2-tuple"),
        (lambda p, x: smart_cond("yes", lambda: x, lambda: x), TypeError, "must be a Tensor, or a Python bool"),
    ],
)
def test_refusals(graph: Graph, make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make(*_inputs())
    assert graph._get_control_flow_context() is None


def test_case_checks_its_predicates(graph: Graph) -> None:
    p, x = _inputs()
    one = tf.case([(p, lambda: x), (x > 1.0, lambda: x * 2.0)], default=lambda: x * 3.0, exclusive=True)
    none = tf.case({p: lambda: x, x > 1.0: lambda: x * 2.0}, exclusive=True)
    alone = tf.case([(p, lambda: x)])
    with tf.Session() as session:
        assert session.run(one, {p: False, x: 0.5}) == 1.5
        with pytest.raises(InvalidArgumentError, match="more than 1 conditions"):
            session.run(one, {p: True, x: 2.0})
        with pytest.raises(InvalidArgumentError, match="None of the conditions"):
            session.run(none, {p: False, x: 0.0})
        assert session.run(alone, {p: True, x: 7.0}) == 7
        with pytest.raises(InvalidArgumentError, match="None of the conditions"):
            session.run(alone, {p: False, x: 7.0})


def test_smart_cond_makes_no_branch_where_it_need_not(graph: Graph) -> None:
    p, x = _inputs()
    assert smart_cond(True, lambda: 1, lambda: 2) == 1 and smart_cond(0, lambda: 1, lambda: 2) == 2
    assert smart_cond(tf.constant(False), lambda: 1, lambda: 2) == 2
    assert smart_cond(p, lambda: x, lambda: x).op.type == "Merge"


def test_summaries_of_a_branch_run_with_it(graph: Graph) -> None:
    p, x = _inputs()

    def noted() -> Any:
        tf.summary.scalar("inside", x)
        return x * 2.0

    y = tf.cond(p, noted, lambda: x)
    (summary,) = graph.get_collection(tf.GraphKeys.SUMMARIES)
    assert [c.name for c in y.op.inputs[1].op.control_inputs] == [summary.op.name]


def test_the_only_case_is_checked_where_nothing_else_is_left(graph: Graph) -> None:
    """The check is what the constant waits for: folding must not lose it."""
    p = tf.placeholder(tf.bool, [])
    one = tf.case([(p, lambda: tf.constant(1))])
    with tf.control_dependencies([tf.Assert(p, [p])]):
        two = 1 + tf.constant(1)
    with tf.Session() as session:
        assert session.run([one, two], {p: True}) == [1, 2]
        for checked in (one, two):
            with pytest.raises(InvalidArgumentError, match="assertion failed"):
                session.run(checked, {p: False})
