"""tf.graph_util: parts of graphs, and frozen ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def model() -> Any:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=[[1.0], [2.0]])
        b = tf.Variable([3.0], name="b")
        y = tf.identity(tf.matmul(tf.identity(x, name="same"), w) + b, name="y")
        tf.identity(y, name="other")
        session.run(tf.global_variables_initializer())
        yield graph.as_graph_def(), session


def names(graph_def: Any) -> set[str]:
    return {node.name for node in graph_def.node}


def test_a_frozen_graph_needs_no_variables(model: Any) -> None:
    graph_def, session = model
    frozen = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"])
    assert {n.op for n in frozen.node} == {"Placeholder", "Const", "Identity", "MatMul", "Add"} or "AddV2" in {
        n.op for n in frozen.node
    }
    assert "other" not in names(frozen)
    with tf.Graph().as_default(), tf.Session() as other:
        x, y = tf.import_graph_def(frozen, return_elements=["x:0", "y:0"])
        np.testing.assert_array_equal(other.run(y, {x: [[1, 1], [0, 2]]}), [[6], [7]])


def test_some_variables_may_stay(model: Any) -> None:
    graph_def, session = model
    kept = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"], variable_names_blacklist=["w"])
    assert {n.name for n in kept.node if n.op == "VariableV2"} == {"w"}
    only = tf.graph_util.convert_variables_to_constants(session, graph_def, ["y"], variable_names_whitelist=["w"])
    assert {n.name for n in only.node if n.op == "VariableV2"} == {"b"}


def test_training_nodes_go(model: Any) -> None:
    graph_def, _ = model
    part = tf.graph_util.remove_training_nodes(graph_def, protected_nodes=["y"])
    assert "same" not in names(part) and {"y", "w/read", "x"} <= names(part)
    assert next(n for n in part.node if n.op == "MatMul").input[0] == "x"


def test_parts_and_shapes(model: Any) -> None:
    graph_def, session = model
    assert names(tf.graph_util.extract_sub_graph(graph_def, ["same"])) == {"x", "same"}
    with pytest.raises(AssertionError, match="nobody"):
        tf.graph_util.extract_sub_graph(graph_def, ["nobody"])
    with pytest.raises(TypeError):
        tf.graph_util.extract_sub_graph(graph_def, "same")
    shape = tf.graph_util.tensor_shape_from_node_def_name(session.graph, "same")
    assert shape.as_list() == [None, 2]
    assert tf.graph_util.must_run_on_cpu(session.graph.get_operation_by_name("w"), pin_variables_on_cpu=True)
