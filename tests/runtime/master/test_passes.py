"""Prune, place and partition: pure functions of GraphDefs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.master.partition import partition
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

PS, W0, W1 = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
DEVICES = [t + "/device:CPU:0" for t in (PS, W0, W1)]


def _nodes(*nodes: Any) -> dict[str, Any]:
    return {n.name: n for n in nodes}


def test_prune_keeps_what_is_needed(node: Any) -> None:
    nodes = _nodes(
        node("a", "Const"), node("b", "Neg", "a"), node("c", "Neg", "b", "^d"), node("d", "Const"), node("e", "Const")
    )
    assert [n.name for n in prune(nodes, [], ["c:0"], []).node] == ["a", "b", "c", "d"]
    assert [n.name for n in prune(nodes, ["b:0"], ["c:0"], []).node] == ["c", "d"]
    assert [n.name for n in prune(nodes, [], [], ["b"]).node] == ["a", "b"]
    assert [n.name for n in prune(nodes, ["b:0"], ["b:0"], []).node] == []


def test_prune_names_what_is_missing(node: Any) -> None:
    with pytest.raises(NotFoundError, match="'x'"):
        prune(_nodes(node("a", "Const")), [], ["x:0"], [])


def test_place_completes_names(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("a", "Const"), node("b", "Neg", "a", device="/job:ps/task:0"), node("c", "Neg", "b", device="/cpu:0")
    )
    placed = place(graph, DEVICES, DEVICES[1])
    assert [n.device for n in placed.node] == [DEVICES[1], DEVICES[0], DEVICES[1]]
    assert graph.node[0].device == "", "a pass never changes its input"


def test_place_follows_colocation_and_references(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("v", "VariableV2", device="/job:ps/task:0"),
        node("i", "Const", _class=["loc:@v"]),
        node("assign", "Assign", "v", "i"),
        node("read", "Identity", "v"),
    )
    devices = {n.name: n.device for n in place(graph, DEVICES, DEVICES[1]).node}
    assert devices == {"v": DEVICES[0], "i": DEVICES[0], "assign": DEVICES[0], "read": DEVICES[1]}


def test_place_refuses_what_cannot_be(node: Any, graph_def: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'a'.*/job:ps/task:7.*the devices are"):
        place(graph_def(node("a", "Const", device="/job:ps/task:7")), DEVICES, DEVICES[1])
    clash = graph_def(
        node("a", "Const", device="/job:ps/task:0"), node("b", "Const", device="/job:worker/task:1", _class=["loc:@a"])
    )
    with pytest.raises(InvalidArgumentError, match="colocated with 'a'"):
        place(clash, DEVICES, DEVICES[1])


def test_soft_placement_replaces_a_missing_gpu(node: Any, graph_def: Any) -> None:
    graph = graph_def(node("a", "Const", device="/job:ps/task:0/device:GPU:0"))
    assert place(graph, DEVICES, DEVICES[1], soft=True).node[0].device == DEVICES[0]
    with pytest.raises(InvalidArgumentError, match="allow_soft_placement"):
        place(graph, DEVICES, DEVICES[1])


def _slots(node: Any, graph_def: Any, count: int) -> Any:
    """`count` tables on the server, gathered by ids from a worker: the shape of a model with many embeddings."""
    nodes = [node("ids", "RandomUniformInt", device=DEVICES[1])]
    for i in range(count):
        nodes.append(node(f"table{i}", "VariableV2", device=DEVICES[0]))
        nodes.append(node(f"rows{i}", "GatherV2", f"table{i}", "ids", device=DEVICES[0]))
        nodes.append(node(f"use{i}", "Neg", f"rows{i}", device=DEVICES[1]))
    return graph_def(*nodes)


def test_partition_coalesces_slots_into_one_bundle_each_way(node: Any, graph_def: Any) -> None:
    parts = partition(_slots(node, graph_def, 50))
    assert set(parts) == {PS, W0}
    for part in parts.values():
        verify(part)
    sends = {task: [n for n in part.node if n.op == "_Send"] for task, part in parts.items()}
    assert len(sends[W0]) == 1, "ids travel once, however many tables use them"
    assert len(sends[PS]) == 50
    assert len({n.attr["_bundle"].i for n in sends[PS]}) == 1, "50 gathered rows leave in one message"


def test_partition_separates_what_leaves_at_different_moments(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("early", "RandomUniform", device=DEVICES[0]),
        node("ids", "RandomUniform", device=DEVICES[1]),
        node("late", "Add", "early", "ids", device=DEVICES[0]),
        node("x", "Add", "early", "late", device=DEVICES[1]),
    )
    sends = [n for n in partition(graph)[PS].node if n.op == "_Send"]
    assert len({n.attr["_bundle"].i for n in sends}) == 2


def test_small_constants_do_not_travel(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("small", "Const", value=np.ones(3, np.float32), device=DEVICES[0]),
        node("large", "Const", value=np.arange(4096.0), device=DEVICES[0]),
        *(node(f"{name}_{i}", "Neg", name, device=DEVICES[1]) for name in ("small", "large") for i in range(2)),
    )
    parts = partition(graph)
    assert [list(n.input) for n in verify(parts[PS]).node if n.op == "_Send"] == [["large"]]
    assert sorted(n.op for n in verify(parts[W0]).node) == ["Const", "Neg", "Neg", "Neg", "Neg", "_Recv"]


def test_partition_sends_feeds_to_their_consumers(node: Any, graph_def: Any) -> None:
    graph = graph_def(node("x", "Placeholder", device=DEVICES[1]), node("y", "Neg", "x", device=DEVICES[0]))
    parts = partition(graph, ["x:0"])
    assert not [n for part in parts.values() for n in part.node if n.op in ("_Send", "_Recv")]


def test_partition_carries_control_edges(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("a", "NoOp", device=DEVICES[0]),
        node("b", "NoOp", "^a", device=DEVICES[1]),
        node("c", "NoOp", "^a", device=DEVICES[1]),
    )
    parts = partition(graph)
    sends = [n for n in parts[PS].node if n.op == "_Send"]
    assert len(sends) == 1 and list(sends[0].input) == ["^a"]
    receive = next(n for n in parts[W0].node if n.op == "_Recv")
    assert {tuple(n.input) for n in parts[W0].node if n.op == "NoOp"} == {(f"^{receive.name}",)}
