"""import_graph_def of loops, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _loop_def(n: int = 3) -> tuple[Any, str, str]:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [2], name="x")
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, x])
        return graph.as_graph_def(), "x:0", y.name


def test_a_loop_may_stand_in_any_order(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    turned = tf.GraphDef(node=list(graph_def.node)[::-1])
    fed = tf.constant([1.0, 2.0], tf.float64)
    (out,) = tf.import_graph_def(turned, {x: fed}, [y]) or ()
    with tf.Session() as session:
        assert session.run(out).tolist() == [1, 16]


def test_two_copies_of_a_loop_are_two_loops(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    a = tf.import_graph_def(graph_def, {x: tf.constant([2.0, 3.0], tf.float64)}, [y]) or []
    b = tf.import_graph_def(graph_def, {x: a[0]}, [y]) or []
    frames = {op.attrs["frame_name"] for op in graph.get_operations() if op.type == "Enter"}
    assert frames == {"import/while/while_context", "import_1/while/while_context"}
    with tf.Session() as session:
        assert session.run([a[0], b[0]])[1].tolist() == [16.0**4, 81.0**4]


def test_an_imported_loop_has_no_gradient(graph: Graph) -> None:
    graph_def, x, y = _loop_def()
    fed = tf.constant([2.0, 3.0], tf.float64)
    (out,) = tf.import_graph_def(graph_def, {x: fed}, [y]) or ()
    with pytest.raises(LookupError, match="part of a loop that while_loop did not build here"):
        tf.gradients(out, fed)


def test_other_cycles_are_refused(graph: Graph, node: Any, graph_def: Any) -> None:
    a, b = node("a", "Identity", "b", T=tf.float32), node("b", "Identity", "a", T=tf.float32)
    with pytest.raises(InvalidArgumentError, match="lies on a cycle"):
        tf.import_graph_def(graph_def(a, b))
