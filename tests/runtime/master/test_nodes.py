"""The nodes of a session: written when they are needed, and as a whole graph for whoever is far away."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.master.nodes import Nodes
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


def _writing(seen: list[str]) -> Any:
    def write(name: str, node: NodeDef) -> None:
        seen.append(name)
        node.name, node.op = name, "NoOp"

    return write


def test_nodes_are_written_once_and_when_asked_for() -> None:
    nodes, seen = Nodes(), list[str]()
    nodes.add(GraphDef(node=[NodeDef(name="a", op="NoOp")]))
    nodes.add_unwritten(["b", "c"], _writing(seen))
    nodes.add(GraphDef(node=[NodeDef(name="d", op="NoOp", input=["^c"])]))
    assert list(nodes) == ["a", "b", "c", "d"] and len(nodes) == 4 and "c" in nodes and "e" not in nodes
    assert not seen
    assert nodes["c"] is nodes["c"] and nodes["c"].name == "c"
    assert seen == ["c"]
    with pytest.raises(KeyError):
        nodes["e"]


def test_a_name_is_taken_once() -> None:
    nodes = Nodes()
    nodes.add_unwritten(["a", "b"], _writing([]))
    with pytest.raises(InvalidArgumentError, match="'b'"):
        nodes.add_unwritten(["c", "b"], _writing([]))
    with pytest.raises(InvalidArgumentError, match="'a'"):
        nodes.add(GraphDef(node=[NodeDef(name="a", op="NoOp")]))
    assert "c" not in nodes


def test_what_could_not_be_written_is_asked_for_again() -> None:
    nodes, bad = Nodes(), [True]

    def write(name: str, node: NodeDef) -> None:
        if bad.pop():
            raise InvalidArgumentError("No attribute can hold it")
        node.name = name

    bad[:] = [False, True]
    nodes.add_unwritten(["a"], write)
    with pytest.raises(InvalidArgumentError, match="hold"):
        nodes["a"]
    assert nodes["a"].name == "a"


def test_a_run_writes_what_it_needs(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = tf.Graph.write_node
    monkeypatch.setattr(tf.Graph, "write_node", lambda g, name, node: (written.append(name), write(g, name, node))[1])
    a = tf.constant(2.0, name="a")
    tf.exp(a, name="not_needed")
    b = tf.multiply(a, a, name="b")
    with tf.Session() as session:
        assert session.run(b) == 4
        assert sorted(written) == ["a", "b"]
        c = tf.add(b, a, name="c")  # the graph grows
        assert session.run(c) == 6
        assert sorted(written) == ["a", "b", "c"]


def test_partial_runs_know_all_nodes(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.exp(tf.negative(x))
    with tf.Session() as session:
        handle = session.partial_run_setup([y], [x])
        assert session.partial_run(handle, y, {x: 0.0}) == 1.0
