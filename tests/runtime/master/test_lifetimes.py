"""The plan of a step's memory: what is live when, and how near the plan comes to what numpy then allocates."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow_runtime.kernels import compiled, fused_machine, parallel
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.lifetimes import Lifetimes, planned_peaks
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig
from sparkflow_runtime.wire.sizes import output_bytes

SIZE = 4 * 100


def planned(graph_def: GraphDef, *fetches: str, feeds: tuple[str, ...] = (), **options: Any) -> Any:
    (peak,) = planned_peaks(graph_def, feeds, fetches, **options)
    return peak


def shaped(node: Any, shape: list[int | None] | None = None) -> Any:
    """The node with an output of 100 floats, or of that shape."""
    dims = node.attr["_output_shapes"].list.shape.add()
    for size in [100] if shape is None else shape:
        dims.dim.add(size=-1 if size is None else size)
    node.attr["dtype" if node.op in ("Const", "VariableV2") else "T"].type = 1
    return node


def test_a_value_lives_from_its_node_to_its_last_use(node: Any, graph_def: Any) -> None:
    names = [("a", "Softmax"), ("b", "Softmax"), ("c", "Softmax"), ("d", "Softmax")]
    chain = [shaped(node("x", "RandomUniform"))]
    for name, op in names:
        chain.append(shaped(node(name, op, chain[-1].name)))
    peak = planned(graph_def(*chain), "d:0")
    assert peak.num_bytes == 2 * SIZE and peak.at == "a"
    assert dict(peak.live) == {"x": SIZE, "a": SIZE}
    chain.append(shaped(node("sum", "Add", "d", "x")))
    assert planned(graph_def(*chain), "sum:0").num_bytes == 3 * SIZE


def test_what_outlives_the_step_is_told_apart(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        shaped(node("v", "VariableV2")),
        shaped(node("c", "Const")),
        shaped(node("read", "Identity", "v")),
        shaped(node("y", "Add", "read", "x")),
        shaped(node("z", "Mul", "y", "c")),
        shaped(node("up", "AssignAdd", "v", "z")),
    )
    peak = planned(graph, feeds=("x:0",), feed_bytes={"x:0": 7})
    assert peak.outside == {"variables": SIZE, "constants": SIZE, "feeds": 7}
    assert peak.num_bytes == SIZE, "z takes the memory of y, and the variable is updated where it is"
    assert "variables 0.0 MiB" in peak.text() and "takes at most" not in peak.text()


def test_a_view_keeps_what_it_looks_at(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        shaped(node("x", "RandomUniform")),
        shaped(node("shape", "Const"), [2]),
        shaped(node("view", "Reshape", "x", "shape"), [10, 10]),
        shaped(node("other", "RandomUniform")),
        shaped(node("y", "MatMul", "view", "view"), [10, 10]),
    )
    lifetimes = Lifetimes(graph, (), ("y:0",))
    order = [n.name for n in graph.node]
    at = next(i for i, b in enumerate(lifetimes.buffers) if b.tensor == "x")
    assert lifetimes.last_uses(order)[at] == order.index("y")


def test_an_open_dimension_counts_as_asked_for(node: Any) -> None:
    one = shaped(node("x", "Tan", "y"), [None, 3])
    assert output_bytes(one) == (4 * 3 * 128,) and output_bytes(one, 5) == (4 * 3 * 5,)
    assert output_bytes(shaped(node("x", "Less", "y", "y"), [3])) == (3,), "a bool, whatever its inputs are"
    assert output_bytes(node("x", "Tan", "y")) == ()


def test_measured_sizes_win(node: Any, graph_def: Any) -> None:
    from sparkflow_runtime.wire.protos import StepStats

    stats, costs = StepStats(), CostModel()
    span = stats.dev_stats.add(device="d").node_stats.add(node_name="x")
    found = span.output.add(slot=0).tensor_description.allocation_description
    found.requested_bytes = found.allocated_bytes = 5000
    span.memory_stats.temp_memory_size = 300
    costs.record(stats)
    peak = planned(graph_def(shaped(node("x", "RandomUniform"))), "x:0", costs=costs)
    assert peak.num_bytes == 5300 and dict(peak.live) == {"x": 5000, "(scratch memory of x)": 300}


# ---------------------------------------------------------------------- beside what numpy allocates


def dense(h: Any, units: int, name: str) -> Any:
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(h.shape[1]), units], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=1))
        return tf.matmul(h, w) + tf.get_variable("b", [units], initializer=tf.zeros_initializer())


def mlp() -> tuple[Any, Any]:
    x, h = (placeholder := tf.placeholder(tf.float32, [None, 128])), placeholder
    for i in range(6):
        h = tf.tanh(dense(h, 128, f"l{i}"))
    return x, tf.reduce_mean(tf.square(dense(h, 4, "out")))


def conv() -> tuple[Any, Any]:
    x, h = (placeholder := tf.placeholder(tf.float32, [None, 16, 16, 8])), placeholder
    for i in range(3):
        w = tf.get_variable(f"w{i}", [3, 3, 8, 8], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=1))
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, [1, 1, 1, 1], "SAME"), tf.Variable(tf.zeros([8]))))
    return x, tf.reduce_mean(tf.square(dense(tf.reshape(h, [-1, 16 * 16 * 8]), 4, "out")))


def peak_bytes(session: Any, fetches: Any, feed: Any) -> int:
    tracemalloc.start()
    try:
        session.run(fetches, feed)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


OPTIONS = ["NO_MEM_OPT", "DEFAULT_MEM_OPT", "RECOMPUTATION_HEURISTICS", "HEURISTICS"]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("model", [mlp, conv])
def test_the_planned_peak_is_the_measured_one(
    graph: Any, model: Callable[[], tuple[Any, Any]], option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fused_machine.wait(120)
    monkeypatch.setattr(parallel, "_most", lambda: 1)  # scratch memory is a thread's own
    x, loss = model()
    fetches = [tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss]
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.MemOptType.Value(option)
    shape = [1024 if model is mlp else 128, *(int(d) for d in x.shape[1:])]
    feed = {x: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    metadata = tf.RunMetadata()
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, feed)
        assert all(loop.wait(120) for loop in compiled.registered() if loop._asked), "their scratch memory differs"
        session.run(fetches, feed)
        planned, measured, master = [], [], session._runtime._master
        for _ in range(3):  # of which the least counts: other threads of this process may allocate meanwhile
            master.costs = CostModel()  # which keeps the most that was seen
            tracemalloc.start()  # so that the trace sees what kernels hold while they run
            session.run(fetches, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
            tracemalloc.stop()
            measured.append(peak_bytes(session, fetches, feed))
            part = next(p for c in master._compiled.values() if c.one_at_a_time for p in c.graphs.values())
            (peak,) = planned_peaks(part, [x.name], [loss.name], master.costs)
            planned.append(peak.num_bytes)
        (guess,) = planned_peaks(part, [x.name], [loss.name], unknown=shape[0])
    spans = [n for d in metadata.step_stats.dev_stats for n in d.node_stats]
    traced = max(n.memory[0].allocator_bytes_in_use for n in spans)
    assert abs(guess.num_bytes - traced) <= 0.05 * traced, "by static shapes alone, what tensors take"
    assert abs(min(planned) - min(measured)) <= 0.07 * min(measured), "what numpy allocates, scratch memory too"


def test_explain_shows_the_plan(graph: Any) -> None:
    x, loss = mlp()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    report = experimental.explain([train, loss], [x])
    (peak,) = report.memory
    assert peak.outside["variables"] == 6 * (128 * 128 + 128) * 4 + (128 * 4 + 4) * 4
    assert peak.live and sum(n for _, n in peak.live) >= peak.num_bytes
    assert "take at most" in report.text() and report.as_dict()["memory"][0]["at"] == peak.at
