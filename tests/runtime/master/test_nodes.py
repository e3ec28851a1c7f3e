"""The nodes of a session: written when they are needed, and as a whole graph for whoever is far away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.master.nodes import Nodes
from sparkflow_runtime.master.placement import Placement
from sparkflow_runtime.master.prune import prune
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


@pytest.mark.parametrize("more", [0, 7])
def test_few_and_many_names_come_in_the_order_of_the_graph(more: int) -> None:
    nodes = Nodes()
    nodes.add_unwritten([f"n{i}" for i in range(50)], _writing([]))
    assert nodes.in_order({"n40", "n3"}) == ["n3", "n40"]
    nodes.add_unwritten([f"a{i}" for i in range(50)], _writing([]))  # the graph grows
    names = {"a1", "n49", "n2", "a30", *(f"n{i}" for i in range(10, 10 + 3 * more))}
    assert nodes.in_order(names) == [name for name in nodes if name in names]
    assert list(prune(nodes, (), (), ("a1", "n7")).node) == [nodes["n7"], nodes["a1"]]


def test_a_run_has_the_nodes_themselves_and_leaves_them_as_they_are() -> None:
    nodes = Nodes()
    nodes.add(GraphDef(node=[NodeDef(name="v", op="VariableV2"), NodeDef(name="u", op="Assign", input=["v"])]))
    nodes["u"].device = device = "/job:ps/replica:0/task:0/device:CPU:0"
    placement = Placement(["/job:worker/replica:0/task:0/device:CPU:0", device], False, None)
    placement.learn((n.name, n.op, n.device) for n in nodes.values())
    pruned = prune(nodes, (), (), ("u",))
    assert pruned.node[0] is nodes["v"] and pruned.node[1] is nodes["u"]
    placement.settle(pruned, nodes)
    assert [n.device for n in pruned.node] == [device, device] and not nodes["v"].device
    assert [n.device for n in placement.place(pruned, None).node] == [device, device] and not nodes["v"].device


def test_few_nodes_are_found_without_a_look_at_all_names() -> None:
    class Counting(Nodes):
        looked = 0

        def __iter__(self) -> Iterator[str]:
            Counting.looked += 1
            return super().__iter__()

    nodes = Counting()
    nodes.add_unwritten([f"n{i}" for i in range(500)], _writing([]))
    prune(nodes, (), (), ("n3",))
    assert not Counting.looked


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


def test_what_names_its_task_is_not_written_to_be_placed() -> None:
    seen: list[str] = []
    devices = ["/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"]
    nodes, placement = Nodes(), Placement(devices, False, None)
    ops = [("a", "VariableV2", "/job:ps/task:0"), ("b", "Assign", "/job:ps/task:0/device:CPU:0")]
    nodes.add_unwritten([name for name, _, _ in ops], _writing(seen))
    placement.learn(ops)
    placement.settle(GraphDef(), nodes)
    assert not seen
    nodes.add_unwritten(["c"], _writing(seen))
    placement.learn([("c", "VariableV2", "/job:ps")])
    placement.settle(GraphDef(), nodes)
    assert "c" in seen


def test_partial_runs_know_all_nodes(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.exp(tf.negative(x))
    with tf.Session() as session:
        handle = session.partial_run_setup([y], [x])
        assert session.partial_run(handle, y, {x: 0.0}) == 1.0


def test_nodes_are_written_ahead_for_as_long_as_one_waits() -> None:
    nodes, seen = Nodes(), list[str]()
    nodes.add(GraphDef(node=[NodeDef(name="a", op="NoOp")]))
    nodes.add_unwritten([f"n{i}" for i in range(100)], _writing(seen))
    nodes["n7"]
    asked = iter([False, False, True])
    nodes.write_ahead(lambda: next(asked))
    assert seen == ["n7", *(f"n{i}" for i in range(63) if i != 7)]
    assert nodes["n3"].name == "n3" and nodes["a"].op == "NoOp"
    nodes.write_ahead(lambda: False)
    assert len(seen) == 100 and len(set(seen)) == 100 and list(nodes)[1:] == [f"n{i}" for i in range(100)]


def test_what_cannot_be_written_fails_only_who_asks_for_it() -> None:
    nodes, seen = Nodes(), list[str]()

    def bad(name: str, node: NodeDef) -> None:
        raise InvalidArgumentError("No attribute can hold it")

    nodes.add_unwritten(["a"], bad)
    nodes.add_unwritten(["b"], _writing(seen))
    nodes.write_ahead(lambda: False)
    assert seen == ["b"]
    with pytest.raises(InvalidArgumentError, match="No attribute"):
        nodes["a"]
