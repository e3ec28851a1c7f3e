"""Graphs with variables as resources, made by hand, run with variables that ops refer to."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import float32, int32, resource
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from tests.conftest import make_node


def const(name: str, value: np.ndarray) -> NodeDef:
    with tf.Graph().as_default():
        return tf.constant(value, name=name).op.node_def


def graph_def(*more: NodeDef) -> GraphDef:
    start = np.arange(6, dtype=np.float32).reshape(3, 2)
    return GraphDef(
        node=[
            make_node("w", "VarHandleOp", dtype=float32, shape=Shape((3, 2)), container="", shared_name="w"),
            const("start", start),
            const("rows", np.array([2, 0], np.int32)),
            const("ones", np.ones((2, 2), np.float32)),
            const("rate", np.array(0.5, np.float32)),
            make_node("w/Assign", "AssignVariableOp", "w", "start", dtype=float32, validate_shape=False),
            make_node("w/there", "VarIsInitializedOp", "w"),
            make_node("w/Read/ReadVariableOp", "ReadVariableOp", "w", dtype=float32),
            make_node("size", "VariableShape", "w", out_type=int32),
            *more,
        ]
    )


def test_reads_and_updates(graph: tf.Graph) -> None:
    types = {"dtype": float32, "Tindices": int32}
    tf.import_graph_def(
        graph_def(
            make_node("picked", "ResourceGather", "w", "rows", batch_dims=0, validate_indices=True, **types),
            make_node("added", "ResourceScatterAdd", "w", "rows", "ones", **types),
            make_node("all", "AssignAddVariableOp", "w", "start", dtype=float32),
            make_node("less", "ResourceApplyGradientDescent", "w", "rate", "start", T=float32, use_locking=False),
            make_node("copies", "DisableCopyOnRead", "w", "^start"),
        ),
        name="",
    )
    with tf.Session() as sess:
        assert not sess.run("w/there:0")
        sess.run("w/Assign")
        assert sess.run("w/there:0") and sess.run("size:0").tolist() == [3, 2]
        assert sess.run("picked:0").tolist() == [[4, 5], [0, 1]]
        sess.run(["added", "copies"])
        assert sess.run("w/Read/ReadVariableOp:0").tolist() == [[1, 2], [2, 3], [5, 6]]
        sess.run("all")
        sess.run("less")
        assert sess.run("w/Read/ReadVariableOp:0").tolist() == [[1, 2.5], [3, 4.5], [7, 8.5]]


@pytest.mark.parametrize(
    "node",
    [
        make_node("other", "IdentityN", "w", T=[resource]),
        make_node("other", "ResourceGather", "w", "rows", batch_dims=1, dtype=float32, Tindices=int32),
    ],
    ids=["identity", "batches"],
)
def test_where_no_reference_can_go(graph: tf.Graph, node: NodeDef) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"'other' takes the variable 'w' as a resource"):
        tf.import_graph_def(graph_def(node), name="")
    assert not graph.get_operations()


def test_a_variable_is_given_for_a_resource(graph: tf.Graph) -> None:
    """As hub modules are applied: their graphs have a place for each variable, which is made once beside them."""
    types = {"dtype": float32, "Tindices": int32}
    made = graph_def(
        make_node("picked", "ResourceGather", "w", "rows", batch_dims=0, validate_indices=True, **types),
        make_node("same", "Identity", "w", T=resource),
        make_node("through", "ReadVariableOp", "same", dtype=float32),
        make_node("less", "ResourceApplyGradientDescent", "w", "rate", "start", T=float32, use_locking=False),
    )
    made.node[0].CopyFrom(make_node("w", "Placeholder", dtype=resource, shape=Shape((3, 2))))
    variable = tf.get_variable("v", [3, 2], initializer=tf.ones_initializer())
    given = {"w": variable._ref()}
    names = ["picked:0", "through:0", "w/Read/ReadVariableOp:0", "less"]
    picked, through, read, less = tf.import_graph_def(made, given, names, name="module")
    assert picked.shape == [2, 2] and tf.gradients(through, variable)[0] is not None
    assert "VariableV2" not in {op.type for op in graph.get_operations() if op.name.startswith("module/")}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run([picked, through[0]])[0].tolist() == [[1, 1], [1, 1]]
        sess.run(less)
        assert sess.run(variable).tolist() == sess.run(read).tolist() == [[1, 0.5], [0, -0.5], [-1, -1.5]]


def test_a_variable_is_given_where_ops_take_references(graph: tf.Graph) -> None:
    """The graph of a module that was made here."""
    with tf.Graph().as_default() as other:
        w = tf.get_variable("w", [3], initializer=tf.zeros_initializer())
        tf.multiply(tf.gather(tf.identity(w), [1]), 3.0, name="y")
    made = other.as_graph_def()
    for node in made.node:
        if node.op == "VariableV2":
            node.CopyFrom(make_node("w", "Placeholder", dtype=resource, shape=Shape((3,))))
    variable = tf.get_variable("v", [3], initializer=tf.ones_initializer())
    (y,) = tf.import_graph_def(made, {"w:0": variable._ref()}, ["y:0"])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(y).tolist() == [3]
