"""What is away between two uses, when it comes back, and that its bits do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow_runtime.master.passes.settings import Settings
from sparkflow_runtime.master.passes.swap import swap
from sparkflow_runtime.memory import LIMIT
from sparkflow_runtime.resources import swap_file
from sparkflow_runtime.wire.errors import InvalidArgumentError, ResourceExhaustedError
from sparkflow_runtime.wire.protos import AttrValue, GraphDef, RewriterConfig

MIB = 1 << 20
FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


def sized(node: Any, num_bytes: int = 4 * MIB) -> Any:
    node.attr["_output_shapes"].list.shape.add().dim.add(size=num_bytes // 4)
    node.attr["T"].type = 1
    return node


def there_and_back(node: Any, graph_def: Any) -> GraphDef:
    """a, b, c, d, then the gradients that use them the other way round."""
    nodes = [sized(node("a", "RandomUniform"))]
    nodes += [sized(node(name, "Exp", before)) for name, before in (("b", "a"), ("c", "b"), ("d", "c"))]
    nodes += [sized(node(f"m{i}", "Sqrt", f"m{i - 1}" if i else "d")) for i in range(8)]
    before = "m7"
    for name in "dcba":
        nodes.append(sized(node(f"g{name}", "Mul", before, name)))
        before = f"g{name}"
    return graph_def(*nodes)  # type: ignore[no-any-return]


def swapped(graph: GraphDef, limit_bytes: int = 0, **settings: Any) -> dict[str, Any]:
    before = graph.SerializeToString()
    found = swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=limit_bytes, **settings))
    assert graph.SerializeToString() == before
    return {n.name: n for n in found.node}


def test_only_what_does_not_fit_is_swapped(node: Any, graph_def: Any) -> None:
    graph = there_and_back(node, graph_def)
    assert swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=64 * MIB)) is graph
    assert swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=18 * MIB, swapping=False)) is graph
    found = swapped(graph, 18 * MIB)
    assert len([n for n in found.values() if n.op == "_SwapOut"]) == 1


def test_what_lies_on_a_gpu_is_not_in_the_hosts_memory(node: Any, graph_def: Any) -> None:
    graph = there_and_back(node, graph_def)
    for one in graph.node:
        one.device = "/job:localhost/replica:0/task:0/device:GPU:0"
    assert swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=8 * MIB)) is graph
    for one in graph.node[:4]:
        one.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=16 * MIB)) is graph
    assert [n.name for n in swapped(graph, 12 * MIB).values() if n.op == "_SwapOut"] == ["Swapped/a/out"]


def test_a_tensor_goes_when_it_is_made_and_comes_back_before_its_use(node: Any, graph_def: Any) -> None:
    found = swapped(there_and_back(node, graph_def), 12 * MIB)
    order = list(found)
    out = found["Swapped/a/out"]
    assert list(out.input) == ["a"] and order.index(out.name) == order.index("a") + 1
    assert list(found["b"].input) == ["a"], "the forward part has it"
    back = next(n for n in found.values() if n.op == "_SwapIn" and n.name == found["ga"].input[1])
    ahead = found[back.input[0]]
    assert ahead.op == "_SwapAhead" and ahead.input[0] == out.name and ahead.input[1].startswith("^")
    assert order.index("d") < order.index(ahead.name) < order.index("gb") < order.index(back.name)
    assert order.index(back.name) + 1 == order.index("ga")


def test_hints_number_the_inputs(node: Any, graph_def: Any) -> None:
    graph = there_and_back(node, graph_def)
    graph.node[-1].attr["_swap_to_host"].i = 1
    found = swapped(graph)
    assert [n.name for n in found.values() if n.op == "_SwapOut"] == ["Swapped/a/out"]
    assert found["ga"].input[1].startswith("Swapped/a/") and "_swap_to_host" not in found["ga"].attr
    assert swap(graph, (), (), Settings(swap_hints=False)) is graph
    graph.node[-1].attr["_swap_to_host"].list.i.extend([0, 1])
    assert len([n for n in swapped(graph).values() if n.op == "_SwapOut"]) == 1, "gb has just been made"
    graph.node[-1].attr["_swap_to_host"].i = 2
    with pytest.raises(InvalidArgumentError, match=r"'ga'.*2 inputs.*none numbered 2"):
        swapped(graph)


def test_feeds_fetches_variables_and_views_stay(node: Any, graph_def: Any) -> None:
    """Of a buffer that another tensor still looks at nothing would be free."""
    graph = there_and_back(node, graph_def)
    views = [node("view", "Reshape", "a", "shape"), node("shape", "Const"), node("late", "Exp", "view")]
    graph.node.extend(views)
    found = swap(graph, ("b:0",), ("ga:0", "c:0", "late:0"), Settings(memory_limit_bytes=8 * MIB))
    assert {n.name for n in found.node if n.op == "_SwapOut"} <= {"Swapped/d/out"}


def test_graphs_with_branches_stay_and_say_so(node: Any, graph_def: Any, caplog: pytest.LogCaptureFixture) -> None:
    graph = graph_def(node("s", "Switch", "x", "p"), node("m", "Merge", "s", "s:1"))
    graph.node[1].attr["_swap_to_host"].i = 0
    with caplog.at_level(logging.WARNING, "sparkflow_runtime"):
        assert swap(graph, (), (), Settings()) is graph
    assert "_swap_to_host of m is not followed" in caplog.text


def test_open_sizes_count_only_where_swapping_was_asked_for(node: Any, graph_def: Any) -> None:
    graph = there_and_back(node, graph_def)
    for one in graph.node:
        one.attr["_output_shapes"].list.shape[0].dim.add(size=-1)
    assert swap(graph, (), ("ga:0",), Settings(memory_limit_bytes=64 * MIB)) is graph
    assert "Swapped/a/out" in swapped(graph, 64 * MIB, open_size=128)
    config_ = config(RewriterConfig.SWAPPING_HEURISTICS)
    assert Settings.of(config_).open_size == 128 and Settings.of(None).open_size == 1


# ---------------------------------------------------------------------- whole steps


def layers(hint: bool) -> tuple[list[Any], Any]:
    x = tf.placeholder(tf.float32, [2048, 256])
    h = x
    for i in range(8):
        w = tf.get_variable(f"w{i}", [256, 256], initializer=tf.random_uniform_initializer(-0.2, 0.2, seed=i))
        h = tf.tanh(tf.matmul(h, w))
    loss = tf.reduce_mean(tf.square(h))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    for op in x.graph.get_operations() if hint else ():
        if op.type == "MatMul" and op.name.startswith("gradients/") and op.get_attr("transpose_a"):
            op._set_attr("_swap_to_host", AttrValue(i=0))
    return [train, loss], x


def config(option: int) -> Any:
    found = tf.ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = option
    return found


def stepped(fetches: Any, feed: Any, option: int) -> tuple[list[bytes], int, set[str]]:
    """(the bits of three steps, the peak of a traced one, the ops that ran)."""
    with tf.Session(config=config(option)) as session:
        session.run(tf.global_variables_initializer())
        losses = np.array([session.run(fetches, feed)[1] for _ in range(3)])
        metadata = tf.RunMetadata()
        session.run(fetches, feed, FULL, metadata)
        spans = [n for d in metadata.step_stats.dev_stats for n in d.node_stats]
        bits = [losses.tobytes(), *(v.tobytes() for v in session.run(tf.global_variables()))]
    ops = {n.timeline_label.split(" = ")[1].split("(")[0] for n in spans}
    return bits, max(n.memory[0].allocator_bytes_in_use for n in spans), ops


@pytest.fixture
def feed_of() -> Any:
    return lambda x: {x: np.random.default_rng(0).normal(size=(2048, 256)).astype(np.float32)}


@pytest.mark.parametrize("option", [RewriterConfig.SWAPPING_HEURISTICS, RewriterConfig.DEFAULT_MEM_OPT])
def test_a_step_that_would_not_fit_is_swapped(
    graph: Any, option: int, feed_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARKFLOW_SWAP_DIR", str(tmp_path))
    fetches, x = layers(False)
    plain = stepped(fetches, feed_of(x), RewriterConfig.NO_MEM_OPT)
    assert "_SwapOut" not in plain[2] and not stepped(fetches, feed_of(x), option)[2] & {"_SwapOut"}
    monkeypatch.setenv(LIMIT, str(14 * MIB))
    peak = experimental.explain(fetches, [x], config=config(option)).memory[0]
    found = stepped(fetches, feed_of(x), option)
    assert {"_SwapOut", "_SwapAhead", "_SwapIn"} <= found[2]
    assert found[0] == plain[0] and found[1] < 0.75 * plain[1]
    assert peak.num_bytes + sum(peak.outside.values()) <= 14 * MIB


def test_hinted_inputs_are_swapped(graph: Any, feed_of: Any) -> None:
    fetches, x = layers(True)
    plain, found = (stepped(fetches, feed_of(x), o) for o in (RewriterConfig.NO_MEM_OPT, RewriterConfig.MANUAL))
    assert "_SwapIn" in found[2] and "_SwapIn" not in plain[2] and found[0] == plain[0]


def test_a_step_on_a_full_disk_names_the_tensor(graph: Any, feed_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    fetches, x = layers(True)
    with tf.Session(config=config(RewriterConfig.MANUAL)) as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, feed_of(x))
        monkeypatch.setattr(swap_file.os, "posix_fallocate", full)
        monkeypatch.setattr(swap_file._Shared, "file", None)
        with pytest.raises(ResourceExhaustedError, match=r"Swapping '.*No space left[^$]*_SwapIn"):
            session.run(fetches, feed_of(x))
        monkeypatch.undo()
        monkeypatch.setattr(swap_file._Shared, "file", None)
        session.run(fetches, feed_of(x))
