"""What is computed again for the gradients, and what never is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.wire.protos import AttrValue, RewriterConfig

FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
HEURISTICS = {"recompute_cheap": True, "recompute_hints": True}
HINTS = {"recompute_hints": True}


def sized(node: Any, *dims: int) -> Any:
    shape = node.attr["_output_shapes"].list.shape.add()
    for size in dims or (1000, 1000):
        shape.dim.add(size=size)
    node.attr["T"].type = 1
    return node


def chain(node: Any, first: Any = None) -> list[Any]:
    """p = MatMul; h = Tanh(Sigmoid(p)) and what their gradients take."""
    return [
        sized(first or node("p", "MatMul", "x", "x")),
        sized(node("s", "Sigmoid", "p")),
        sized(node("h", "Tanh", "s")),
        sized(node("out", "MatMul", "h", "x")),
        sized(node("gradients/start", "MatMul", "out", "x")),
        sized(node("gradients/dh", "TanhGrad", "h", "gradients/start")),
        sized(node("gradients/ds", "SigmoidGrad", "s", "gradients/dh")),
        sized(node("gradients/dp", "MatMul", "gradients/ds", "x")),
    ]


def rewritten(optimized: Any, graph: Any, **settings: Any) -> dict[str, Any]:
    return optimized(graph, fetches=["gradients/dp:0"], feeds=["x:0"], settings=settings)  # type: ignore[no-any-return]


def test_gradients_take_copies_that_wait_for_them(optimized: Any, node: Any, graph_def: Any) -> None:
    found = rewritten(optimized, graph_def(*chain(node)), **HEURISTICS)
    assert found["gradients/dh"].input[0] == "Recomputed/h" and found["gradients/ds"].input[0] == "Recomputed/s"
    assert list(found["Recomputed/h"].input) == ["Recomputed/s"]
    assert list(found["Recomputed/s"].input) == ["p", "^gradients/start"]
    assert list(found["out"].input) == ["h", "x"], "the forward part keeps its own"
    order = list(found)
    assert order.index("Recomputed/s") == order.index("gradients/start") + 1


def test_what_saves_nothing_is_kept(optimized: Any, node: Any, graph_def: Any) -> None:
    """One value from one that would have to live as long."""
    nodes = [n for n in chain(node) if n.name not in ("s", "gradients/ds")]
    graph = graph_def(*nodes)
    graph.node[1].input[:] = ["p"]
    graph.node[5].input[:] = ["gradients/dh", "x"]
    assert not [n for n in rewritten(optimized, graph, **HEURISTICS) if n.startswith("Recomputed/")]


@pytest.mark.parametrize("op", ["RandomUniform", "QueueDequeueV2", "Print"])
def test_nothing_with_an_effect_is_computed_twice(optimized: Any, node: Any, graph_def: Any, op: str) -> None:
    nodes = chain(node)
    nodes[1].op = op
    for one in nodes:
        one.attr["_recompute_hint"].i = 0
    found = rewritten(optimized, graph_def(*nodes), **HINTS)
    assert "Recomputed/s" not in found and found["Recomputed/h"].input[0] == "s"


def test_hints_alone_choose(optimized: Any, node: Any, graph_def: Any) -> None:
    nodes = chain(node)
    assert not [n for n in rewritten(optimized, graph_def(*nodes), **HINTS) if n.startswith("Recomputed/")]
    nodes[2].attr["_recompute_hint"].i = 0
    found = rewritten(optimized, graph_def(*nodes), **HINTS)
    assert [n for n in found if n.startswith("Recomputed/")] == ["Recomputed/h"]
    assert list(found["Recomputed/h"].input) == ["s", "^gradients/start"]


def test_the_scope_says_which_nodes_are_gradients(optimized: Any, node: Any, graph_def: Any) -> None:
    renamed = graph_def(*chain(node))
    for one in renamed.node:
        one.name = one.name.replace("gradients/", "a/back/")
        one.input[:] = [e.replace("gradients/", "a/back/") for e in one.input]
    found = optimized(
        renamed, fetches=["a/back/dp:0"], feeds=["x:0"], settings={**HEURISTICS, "recompute_for": "back/"}
    )
    assert "Recomputed/h" in found
    found = optimized(renamed, fetches=["a/back/dp:0"], feeds=["x:0"], settings=HEURISTICS)
    assert "Recomputed/h" not in found


def test_a_copy_reads_a_variable_before_it_changes(optimized: Any, node: Any, graph_def: Any) -> None:
    nodes = chain(node)
    nodes[:2] = [
        sized(node("v", "VariableV2")),
        sized(node("read", "Identity", "v")),
        sized(node("p", "MatMul", "x", "x")),
        sized(node("s", "Mul", "p", "read")),
    ]
    update = node("up", "AssignAdd", "v", "gradients/dp")
    found = optimized(
        graph_def(*nodes, update), fetches=["gradients/dp:0"], feeds=["x:0"], targets=["up"], settings=HEURISTICS
    )
    assert list(found["up"].input) == ["v", "gradients/dp", "^Recomputed/s"]
    early = node("up", "AssignAdd", "v", "p")
    at = [n.name for n in nodes].index("h")
    graph = graph_def(*nodes[:at], early, *nodes[at:])
    found = optimized(graph, fetches=["gradients/dp:0"], feeds=["x:0"], targets=["up"], settings=HEURISTICS)
    assert "Recomputed/s" not in found, "what it would read now may be another value"
    assert "Recomputed/h" not in found or found["Recomputed/h"].input[0] == "s"


def test_a_long_chain_keeps_every_so_many(optimized: Any, node: Any, graph_def: Any) -> None:
    count, nodes = 25, [sized(node("p", "MatMul", "x", "x"))]
    for i in range(count):
        nodes.append(sized(node(f"h{i}", "Tanh", f"h{i - 1}" if i else "p")))
    nodes.append(sized(node("gradients/0", "MatMul", f"h{count - 1}", "x")))
    for i in range(count):
        nodes.append(sized(node(f"gradients/{i + 1}", "TanhGrad", f"h{count - 1 - i}", f"gradients/{i}")))
    found = optimized(graph_def(*nodes), fetches=[f"gradients/{count}:0"], feeds=["x:0"], settings=HEURISTICS)
    copies = {n.removeprefix("Recomputed/") for n in found if n.startswith("Recomputed/")}
    assert {f"h{i}" for i in range(count)} - copies == {"h4", "h9", "h14", "h19", "h24"}


def test_shapes_are_looked_at_in_time(optimized: Any, node: Any, graph_def: Any) -> None:
    """Of the value that goes, not of one kept for that."""
    nodes = chain(node)
    nodes.append(sized(node("gradients/shape", "Shape", "h"), 2))
    nodes.append(sized(node("gradients/sum", "Fill", "gradients/shape", "gradients/dp")))
    found = optimized(graph_def(*nodes), fetches=["gradients/sum:0"], feeds=["x:0"], settings=HEURISTICS)
    order = list(found)
    assert list(found["gradients/shape"].input) == ["h"] and order.index("gradients/shape") == order.index("h") + 1


# ---------------------------------------------------------------------- whole steps


def config(option: int) -> Any:
    found = tf.ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = option
    return found


def elementwise(x: Any) -> Any:
    w = tf.get_variable("w", [256], initializer=tf.random_uniform_initializer(0.5, 1.5, seed=1))
    for i in range(30):
        x = tf.tanh(x * w) if i % 2 else tf.sigmoid(x)
    return x


def normed(x: Any) -> Any:
    for i in range(6):
        w = tf.get_variable(f"w{i}", [256, 256], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=i))
        x = tf.matmul(x, w)
        x = (x - tf.reduce_mean(x, 0)) * tf.rsqrt(tf.reduce_mean(tf.square(x), 0) + 1e-3)
        x = tf.nn.dropout(tf.nn.relu(x), rate=0.2, seed=i)
    return x


@pytest.mark.parametrize("model", [elementwise, normed])
def test_a_deep_net_needs_less_and_keeps_its_bits(graph: Any, model: Callable[[Any], Any]) -> None:
    assert fused_machine.wait(120)
    tf.set_random_seed(3)
    x = tf.placeholder(tf.float32, [512, 256])
    loss = tf.reduce_mean(tf.square(model(x)))
    fetches = [tf.train.GradientDescentOptimizer(0.5).minimize(loss), loss]
    feed = {x: np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)}
    bits, planned, traced = [], [], []
    for option in (RewriterConfig.NO_MEM_OPT, RewriterConfig.RECOMPUTATION_HEURISTICS, RewriterConfig.HEURISTICS):
        planned.append(experimental.explain(fetches, [x], config=config(option)).memory[0].num_bytes)
        with tf.Session(config=config(option)) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run(fetches, feed)[1] for _ in range(3)]
            bits.append([np.array(losses).tobytes(), *(v.tobytes() for v in session.run(tf.global_variables()))])
            metadata = tf.RunMetadata()
            session.run(fetches, feed, FULL, metadata)
        spans = [n for d in metadata.step_stats.dev_stats for n in d.node_stats]
        traced.append(max(n.memory[0].allocator_bytes_in_use for n in spans))
    assert bits[0] == bits[1] == bits[2]
    assert max(planned[1:]) < 0.6 * planned[0] and max(traced[1:]) < 0.6 * traced[0]


def test_a_hinted_product_is_computed_again(graph: Any) -> None:
    """By hand everything pure may be: here all but every third layer's output."""
    x = tf.placeholder(tf.float32, [1024, 128])
    h = x
    for i in range(9):
        w = tf.get_variable(f"w{i}", [128, 128], initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=i))
        product = tf.matmul(h, w)
        h = tf.tanh(product)
        for tensor in [product, h] if i % 3 != 2 else [product]:
            tensor.op._set_attr("_recompute_hint", AttrValue(i=0))
    loss = tf.reduce_mean(tf.square(h))
    fetches = [tf.train.GradientDescentOptimizer(0.5).minimize(loss), loss]
    feed = {x: np.random.default_rng(0).normal(size=(1024, 128)).astype(np.float32)}
    found, planned = [], []
    for option in (RewriterConfig.NO_MEM_OPT, RewriterConfig.MANUAL):
        planned.append(experimental.explain(fetches, [x], config=config(option)).memory[0].num_bytes)
        with tf.Session(config=config(option)) as session:
            session.run(tf.global_variables_initializer())
            found.append(np.array([session.run(fetches, feed)[1] for _ in range(3)]).tobytes())
    assert found[0] == found[1] and planned[1] < 0.75 * planned[0]
