"""The order of a step's nodes: what it must keep, and what it lowers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow_runtime.master.passes.schedule import _at_most, _Constraints, schedule
from sparkflow_runtime.wire.protos import RewriterConfig

BIG = 32 << 20  # bytes: an order is looked for where tensors are large


def sized(node: Any, num_bytes: int) -> Any:
    node.attr["_output_shapes"].list.shape.add().dim.add(size=num_bytes // 4)
    node.attr["T"].type = 1
    return node


def order_of(graph: Any, *fetches: str) -> list[str]:
    return [n.name for n in schedule(graph, (), fetches).node]


def test_an_update_runs_as_soon_as_its_gradient_is_there(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("v", "VariableV2"),
        node("w", "VariableV2"),
        sized(node("g1", "RandomUniform"), BIG),
        sized(node("g2", "RandomUniform", "^g1"), BIG),
        node("rate", "Const"),
        node("up1", "ApplyGradientDescent", "v", "rate", "g1"),
        node("up2", "ApplyGradientDescent", "w", "rate", "g2"),
        node("train", "NoOp", "^up1", "^up2"),
    )
    assert order_of(graph) == ["v", "w", "rate", "g1", "up1", "g2", "up2", "train"]


def test_who_reads_a_variable_before_its_update_still_does(node: Any, graph_def: Any) -> None:
    """Through any number of nodes that hand its memory on, and though no edge says so."""
    graph = graph_def(
        node("v", "VariableV2"),
        sized(node("g", "RandomUniform"), BIG),
        node("read", "Identity", "v"),
        node("flat", "Reshape", "read", "shape"),
        node("shape", "Const"),
        sized(node("before", "Exp", "flat"), BIG),
        node("rate", "Const"),
        node("up", "ApplyGradientDescent", "v", "rate", "g"),
        sized(node("after", "Exp", "flat"), BIG),
    )
    order = order_of(graph, "before:0", "after:0")
    assert order.index("before") < order.index("up") < order.index("after")


def test_other_effects_keep_their_order(node: Any, graph_def: Any) -> None:
    graph = graph_def(
        node("v", "VariableV2"),
        sized(node("a", "RandomUniform"), BIG),
        sized(node("b", "RandomUniform"), BIG),
        sized(node("c", "RandomUniform"), BIG),
        node("up", "AssignAdd", "v", "a"),
    )
    order = order_of(graph, "b:0", "c:0")
    assert [n for n in order if n in "abc"] == ["a", "b", "c"]
    constraints = _Constraints(graph, ())
    assert constraints.after["a"] == ["b", "up"] or constraints.after["a"] == ["up", "b"]


def test_a_large_gradient_is_made_when_the_peak_is_over(node: Any, graph_def: Any) -> None:
    """g needs little and is needed by its update alone; the activations die one by one."""
    nodes = [node("v", "VariableV2"), node("rate", "Const"), sized(node("x", "RandomUniform"), BIG)]
    for i in range(4):
        nodes.append(sized(node(f"a{i}", "Exp", f"a{i - 1}" if i else "x"), BIG))
    nodes += [sized(node("small", "Sum", "a3", "rate"), 4), sized(node("g", "Fill", "rate", "small"), 4 * BIG)]
    nodes += [node("up", "ApplyGradientDescent", "v", "rate", "g")]
    back = "small"
    for i in reversed(range(4)):
        nodes.append(sized(node(f"b{i}", "Mul", f"a{i}", back), BIG))
        back = f"b{i}"
    nodes.append(sized(node("last", "Mul", "x", back), 4))
    order = order_of(graph_def(*nodes), "last:0")
    assert order.index("g") > order.index("b0") and order.index("up") == order.index("g") + 1


@pytest.mark.parametrize("nodes", [["Tan"], ["Switch", "Merge", "AssignAdd"]])
def test_graphs_without_updates_or_with_branches_stay(node: Any, graph_def: Any, nodes: list[str]) -> None:
    graph = graph_def(*(sized(node(f"n{i}", op), BIG) for i, op in enumerate(nodes)))
    assert schedule(graph) is graph


def test_small_graphs_stay(node: Any, graph_def: Any) -> None:
    graph = graph_def(node("v", "VariableV2"), node("one", "Const"), node("up", "AssignAdd", "v", "one"))
    assert schedule(graph) is graph


def test_initializers_that_free_what_they_make_stay(node: Any, graph_def: Any) -> None:
    """All tables together are large, and never there at once; where a view keeps them they are searched."""
    nodes = [node("axes", "Const")]
    for i in range(8):
        given = sized(node(f"value{i}", "RandomUniform"), BIG // 8)
        nodes += [given, node(f"table{i}", "VariableV2"), node(f"set{i}", "Assign", f"table{i}", f"value{i}")]
    graph = graph_def(*nodes)
    made = [BIG // 8 * (n.op == "RandomUniform") for n in nodes]
    assert _at_most(graph, made, ()) == BIG // 8 and schedule(graph) is graph
    assert _at_most(graph, made, ["value0:0"]) == 2 * BIG // 8
    views = [node(f"view{i}", "Reshape", f"value{i}", "axes") for i in range(8)]
    assert _at_most(graph_def(*nodes, *views), [*made, *[0] * 8], ()) == BIG


def config(option: int) -> Any:
    found = tf.ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = option
    found.graph_options.rewrite_options.remapping = RewriterConfig.OFF  # else gradients are never there
    return found


def test_a_step_needs_less_and_trains_to_the_same_bits(graph: Any) -> None:
    """Layers of unlike sizes, momentum, and a variable that is read after the step's updates were built."""
    x = tf.placeholder(tf.float32, [64, 512])
    h = x
    for i, units in enumerate((1024, 4096, 1024, 8)):
        start = tf.random_uniform_initializer(-0.05, 0.05, seed=i)
        w = tf.get_variable(f"w{i}", [int(h.shape[1]), units], initializer=start)
        h = tf.tanh(tf.matmul(h, w))
    loss = tf.reduce_mean(tf.square(h))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    norm = tf.nn.l2_loss(w)
    feed = {x: np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)}
    fetches, found, peaks = [train, loss, norm], [], []
    for option in (RewriterConfig.NO_MEM_OPT, RewriterConfig.SCHEDULING_HEURISTICS):
        peaks.append(experimental.explain(fetches, [x], config=config(option)).memory[0].num_bytes)
        with tf.Session(config=config(option)) as session:
            session.run(tf.global_variables_initializer())
            steps = [session.run(fetches, feed)[1:] for _ in range(3)]
            found.append([np.array(steps).tobytes(), *(v.tobytes() for v in session.run(tf.global_variables()))])
    assert found[0] == found[1]
    assert peaks[1] < 0.6 * peaks[0], peaks
