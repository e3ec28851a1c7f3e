"""The nodes of while_loop and what it refuses. Values: test_control_flow_programs."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.ops.control_flow_while import WhileContext

# As TensorFlow 2.21 (control flow v1) names and joins them.
NODES = """
while/Enter Enter i
while/Enter_1 Enter s
while/Merge Merge while/Enter while/NextIteration
while/Merge_1 Merge while/Enter_1 while/NextIteration_1
while/Less/y Const ^while/Merge
while/Less Less while/Merge while/Less/y
while/LoopCond LoopCond while/Less
while/Switch Switch while/Merge while/LoopCond
while/Switch_1 Switch while/Merge_1 while/LoopCond
while/Identity Identity while/Switch:1
while/Identity_1 Identity while/Switch_1:1
while/add/y Const ^while/Identity
while/add AddV2 while/Identity while/add/y
while/add_1/Enter Enter x
while/add_1 AddV2 while/Identity_1 while/add_1/Enter
while/NextIteration NextIteration while/add
while/NextIteration_1 NextIteration while/add_1
while/Exit Exit while/Switch
while/Exit_1 Exit while/Switch_1
"""


def _count(n: int = 3, **how: Any) -> Any:
    return tf.while_loop(lambda i: i < n, lambda i: i + 1, [0], **how)


def test_nodes(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    first = [tf.constant(0, name="i"), tf.constant(0.0, name="s")]
    tf.while_loop(lambda i, s: i < 10, lambda i, s: (i + 1, s + x), first, parallel_iterations=7)
    nodes = [" ".join([n.name, n.op, *n.input]) for n in graph.as_graph_def().node][3:]
    assert nodes == NODES.split("\n")[1:-1]
    enter = graph.get_operation_by_name("while/add_1/Enter")
    assert enter.attrs["is_constant"] and enter.attrs["parallel_iterations"] == 7
    assert enter.attrs["frame_name"] == "while/while_context"


def test_context(graph: Graph) -> None:
    inside: list[Any] = []
    out = tf.while_loop(lambda i: i < 2, lambda i: inside.append(i * 2) or i + 1, [0], swap_memory=True)
    context = inside[0].op._get_control_flow_context()
    assert isinstance(context, WhileContext) and graph.get_collection(tf.GraphKeys.WHILE_CONTEXT) == [context]
    assert context.swap_memory and context.back_prop and context.loop_exits == [out]
    assert [t.op.type for t in context.loop_enters] == ["Enter"]
    assert not graph.is_fetchable(inside[0]) and graph.is_fetchable(out)


def test_what_is_returned_follows_the_body(graph: Graph) -> None:
    assert isinstance(_count(), tf.Tensor)
    assert isinstance(_count(return_same_structure=True), list)
    pair = tf.while_loop(lambda i, j: i < 2, lambda i, j: [i + 1, j], (0, 1))
    assert isinstance(pair, list)
    with tf.Session() as session:
        assert session.run([_count(4), _count(4, maximum_iterations=2), pair]) == [4, 2, [2, 1]]


def test_variables_and_slices_as_loop_variables(graph: Graph) -> None:
    v = tf.Variable([1.0, 2.0])
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))

    def body(i: Any, x: Any, s: Any) -> Any:
        return i + 1, x * 2.0, tf.IndexedSlices(tf.concat([s.values, s.values], 0), tf.concat([s.indices, [9]], 0))

    invariants = [tf.TensorShape([]), tf.TensorShape([2]), tf.TensorShape([None, 2])]
    _, x, s = tf.while_loop(lambda i, *_: i < 1, body, [0, v, slices], invariants)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(x).tolist() == [2, 4]
        assert session.run(s.indices).tolist() == [0, 9]


def test_a_variable_changed_in_each_iteration(graph: Graph) -> None:
    v = tf.Variable(0.0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(v, 2.0)]):
            return i + 1

    n = tf.while_loop(lambda i: i < 5, body, [0])
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(n) == 5 and session.run(v) == 10


def test_the_condition_may_read_a_variable(graph: Graph) -> None:
    v = tf.Variable(3)
    n = tf.while_loop(lambda i: i < v, lambda i: i + 1, [0])
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(n) == 3


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda x: tf.while_loop(x, lambda i: i, [0]), TypeError, "cond must be callable"),
        (lambda x: tf.while_loop(lambda i: True, x, [0]), TypeError, "body must be callable"),
        (lambda x: tf.while_loop(lambda: True, lambda: [], []), ValueError, "No loop variables"),
        (lambda x: _count(parallel_iterations=0), TypeError, "positive integer"),
        (lambda x: _count(maximum_iterations=[1]), ValueError, "must be a scalar"),
        (lambda x: tf.while_loop(lambda i: i < 1, lambda i: (i, i), [0]), ValueError, "same nested structure"),
        (lambda x: tf.while_loop(lambda i: i < 1, lambda i: 0.5, [0]), TypeError, "dtype int32 when it enters"),
        (
            lambda x: tf.while_loop(lambda y: True, lambda y: tf.concat([y, y], 0), [x]),
            ValueError,
            r"enters the loop with shape \(2,\), but has shape \(4,\) after one iteration",
        ),
        (
            lambda x: tf.while_loop(lambda y: True, lambda y: y, [x], [tf.TensorShape([3])]),
            ValueError,
            "not compatible with the initial shape",
        ),
        (
            lambda x: tf.while_loop(lambda y: True, lambda y: y, [x], [tf.TensorShape([2])] * 2),
            ValueError,
            "1 loop variables, but 2 shape invariants",
        ),
    ],
)
def test_refusals(graph: Graph, make: Any, error: type[Exception], words: str) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    with pytest.raises(error, match=words):
        make(x)
    assert graph._get_control_flow_context() is None


def test_what_is_inside_stays_inside(graph: Graph) -> None:
    inside: list[Any] = []
    tf.while_loop(lambda i: i < 2, lambda i: inside.append(i * 2) or i + 1, [0])
    with pytest.raises(ValueError, match="because 'while/mul' is in a while loop"):
        tf.identity(inside[0])
    with tf.Session() as session, pytest.raises(ValueError, match="not fetchable"):
        session.run(inside[0])


def test_constants_are_known_inside(graph: Graph) -> None:
    """Static shapes see through Enter: the axis is a constant from outside."""
    axis, x = tf.constant(1), tf.zeros([2, 3])
    seen: list[Any] = []
    tf.while_loop(lambda i: i < 1, lambda i: seen.append(tf.concat([x, x], axis)) or i + 1, [0])
    assert seen[0].shape.as_list() == [2, 6]


def test_an_invariant_of_none_is_the_shape_at_the_start(graph: Graph) -> None:
    grows = lambda i, x: (i + 1, tf.concat([x, x], 0))  # noqa: E731
    with pytest.raises(ValueError, match=r"enters the loop with shape \(1,\), but has shape \(2,\)"):
        tf.while_loop(lambda i, x: i < 3, grows, [0, tf.ones([1])], shape_invariants=[tf.TensorShape([]), None])


def test_stacks_of_gradients_are_handles_as_tensorflow_sizes_them(graph: Any) -> None:
    """TensorFlow refuses to import a graph whose `_output_shapes` say anything else."""
    x = tf.constant(2.0)
    y = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * x), [0, x])[1]
    tf.gradients(y, x)
    stacks = [op for op in graph.get_operations() if op.type == "StackV2"]
    assert stacks and all(op.outputs[0].shape.as_list() == [2] for op in stacks)
