"""Variables that wait before they travel: which ones, for what, and where nothing waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes.delay import delay
from sparkflow_runtime.wire.edges import is_control, verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
BIG = 8 << 20


def _placed(node: Any, device: str, num_bytes: int = BIG) -> Any:
    node.device = f"{device}/device:CPU:0"
    node.attr["_output_shapes"].list.shape.add().dim.add(size=num_bytes // 4)
    node.attr["dtype" if node.op == "VariableV2" else "T"].type = 1
    return node


def _layers(node: Any, graph_def: Any, count: int, *more: Any, num_bytes: int = BIG) -> GraphDef:
    """x0 -> x1 -> ..., on the worker, each with a variable of the server."""
    nodes = [_placed(node("x0", "Placeholder"), WORKER, 4)]
    for i in range(count):
        nodes.append(_placed(node(f"w{i}", "VariableV2"), PS, num_bytes))
        nodes.append(_placed(node(f"r{i}", "Identity", f"w{i}"), PS, num_bytes))
        nodes.append(_placed(node(f"x{i + 1}", "Mul", f"x{i}", f"r{i}"), WORKER, 4))
    return verify(graph_def(*nodes, *more), ())  # type: ignore[no-any-return]


def _triggers(graph: GraphDef) -> dict[str, str]:
    """What each user of a delayed variable waits for."""
    late = {n.name: n for n in graph.node if n.name.startswith("Delayed/")}
    found = {}
    for n in graph.node:
        for e in n.input:
            if e in late:
                assert late[e].device == f"{PS}/device:CPU:0"
                found[n.name] = next(c[1:] for c in late[e].input if is_control(c))
    return found


def test_a_variable_leaves_when_the_one_before_its_predecessor_was_used(node: Any, graph_def: Any) -> None:
    found = delay(_layers(node, graph_def, 6), ["x0:0"])
    verify(found)
    assert _triggers(found) == {"x3": "x1", "x4": "x2", "x5": "x3", "x6": "x4"}


@pytest.mark.parametrize(("count", "num_bytes"), [(2, BIG), (3, 4 << 20), (6, 1 << 20)])
def test_nothing_waits_where_little_is_won(node: Any, graph_def: Any, count: int, num_bytes: int) -> None:
    graph = _layers(node, graph_def, count, num_bytes=num_bytes)
    assert delay(graph, ["x0:0"]) is graph


def test_what_is_used_again_at_the_end_is_there_all_the_time(node: Any, graph_def: Any) -> None:
    """As in training: the gradients need all weights once more."""
    again = [_placed(node(f"g{i}", "Mul", "x6", f"r{i}"), WORKER, 4) for i in range(6)]
    graph = _layers(node, graph_def, 6, *again)
    assert delay(graph, ["x0:0"]) is graph


def test_one_task_has_no_transfers(node: Any, graph_def: Any) -> None:
    graph = _layers(node, graph_def, 6)
    for n in graph.node:
        n.device = f"{PS}/device:CPU:0"
    assert delay(graph, ["x0:0"]) is graph


def test_a_variable_that_the_step_changes_is_read_before(node: Any, graph_def: Any) -> None:
    """w4's change could overtake a late reading; w5's needs what its reader computes."""
    changes = [
        _placed(node("c4", "AssignAdd", "w4", "x1"), PS),
        _placed(node("c5", "AssignAdd", "w5", "x6"), PS),
    ]
    assert _triggers(delay(_layers(node, graph_def, 6, *changes), ["x0:0"])) == {"x3": "x1", "x4": "x2", "x6": "x4"}


@pytest.mark.parametrize("on", [True, False])
def test_a_deep_model_gives_the_same_and_says_what_waited(cluster: Any, on: bool) -> None:
    size, config = 1100, tf.ConfigProto()  # 4.6 MiB a layer
    if not on:
        config.graph_options.rewrite_options.memory_optimization = RewriterConfig.NO_MEM_OPT
    servers = cluster(ps=1, worker=1)
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 0.03, (size, size)).astype(np.float32) for _ in range(8)]
    with tf.Graph().as_default() as g:
        with tf.device(PS):
            held = [tf.Variable(w) for w in weights]
        with tf.device(WORKER):
            x = y = tf.placeholder(tf.float32, [3, size])
            for w in held:
                y = tf.tanh(tf.matmul(y, w))
        with tf.Session(servers["worker0"].target, g, config) as session:
            session.run(tf.global_variables_initializer())
            fed, metadata = rng.normal(size=(3, size)).astype(np.float32), tf.RunMetadata()
            traced = tf.RunOptions(output_partition_graphs=True)
            got = session.run(y, {x: fed}, options=traced, run_metadata=metadata)
            assert np.array_equal(got, session.run(y, {x: fed}))
    expected = fed
    for w in weights:
        expected = np.tanh(expected @ w)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    nodes = [n for part in metadata.partition_graphs for n in part.node]
    late = [n.name for n in nodes if n.op == "Identity" and n.name.startswith("Delayed/")]
    assert len(late) == (6 if on else 0)
