"""Control edges and identities go; the order of effects and of reads of variables stays. Control flow is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import bool_, float32

F = {"T": float32}
V = {"dtype": float32, "shape": Shape(())}
Made = Any


def gradients(node: Made) -> list[Any]:
    """Two products that a tuple gates; the first reads the variable that the second one's gradient updates."""
    return [
        node("w", "VariableV2", **V),
        node("w/read", "Identity", "w", **F),
        node("x", "Placeholder", dtype=float32),
        node("dy", "Exp", "x", **F),
        node("dx", "MatMul", "dy", "w/read", **F),
        node("dw", "MatMul", "x", "dy", **F),
        node("group", "NoOp", "^dx", "^dw"),
        node("dx/gated", "Identity", "dx", "^group", **F),
        node("dw/gated", "Identity", "dw", "^group", **F),
        node("update", "AssignSub", "w", "dw/gated", **F),
        node("out", "Neg", "dx/gated", **F),
    ]


def test_an_update_still_waits_for_the_last_read(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*gradients(node)), "dependencies", fetches=["out:0"], targets=["update"])
    assert set(found) == {"w", "w/read", "x", "dy", "dx", "dw", "update", "out"}
    assert list(found["update"].input) == ["w", "dw", "^dx"]
    assert list(found["out"].input) == ["dx"]


def test_order_of_effects_stays(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("v", "VariableV2", **V),
        node("one", "Const", value=np.ones((), np.float32)),
        node("add", "AssignAdd", "v", "one", **F),
        node("old", "Identity", "v", **F),
        node("new", "Identity", "v", "^add", **F),
        node("sum", "Add", "old", "new", **F),
        node("copy", "Identity", "sum", "^add", **F),
        node("out", "Neg", "copy", **F),
    )
    found = optimized(graph, "dependencies", fetches=["out:0"])
    assert list(found["new"].input) == ["v", "^add"], "a read stays where it was put"
    assert list(found["out"].input) == ["sum"], "what comes after the read comes after the update anyway"


def test_an_identity_that_is_fetched_or_fed_stays(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("y", "Exp", "x", **F),
        node("a", "Identity", "y", **F),
        node("b", "Identity", "a", **F),
        node("out", "Neg", "b", **F),
    )
    assert set(optimized(graph, "dependencies", fetches=["out:0", "b:0"])) == {"x", "y", "b", "out"}
    fed = optimized(graph, "dependencies", fetches=["out:0"], feeds=["a:0"])
    assert list(fed["out"].input) == ["a"], "the fed value, not what would have made it"


def test_an_identity_between_devices_stays(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("y", "Exp", "x", device="/job:ps/task:0", **F),
        node("there", "Identity", "y", device="/job:ps/task:1", **F),
        node("out", "Neg", "there", **F),
    )
    assert "there" in optimized(graph, "dependencies", fetches=["out:0"], one_device=False)
    assert "there" not in optimized(graph, "dependencies", fetches=["out:0"])


ALL = ("dependencies", "constant_folding", "arithmetic", "common_subexpressions", "layout", "fusion")


def test_a_cond_is_left_alone(node: Made, graph_def: Made, optimized: Made) -> None:

    graph = graph_def(
        node("p", "Placeholder", dtype=bool_),
        node("x", "Placeholder", dtype=float32),
        node("switch", "Switch", "x", "p", **F),
        node("pivot", "Identity", "switch:1", **F),
        node("one", "Const", "^pivot", value=np.ones((), np.float32)),
        node("also_one", "Const", "^pivot", value=np.ones((), np.float32)),
        node("two", "Add", "one", "also_one", **F),
        node("yes", "Add", "pivot", "two", **F),
        node("no", "Identity", "switch", **F),
        node("merge", "Merge", "no", "yes", N=2, **F),
        node("after", "Identity", "merge", **F),
        node("out", "Neg", "after", **F),
    )
    found = optimized(graph, *ALL, fetches=["out:0"])
    inside = {"switch", "pivot", "one", "also_one", "two", "yes", "no", "merge"}
    assert inside <= set(found)
    assert all(found[n.name] == n for n in graph.node if n.name in inside)


def test_a_loop_is_left_alone(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("limit", "Placeholder", dtype=float32),
        node("enter", "Enter", "x", frame_name="loop", is_constant=False, **F),
        node("outer", "Enter", "limit", frame_name="loop", is_constant=True, **F),
        node("merge", "Merge", "enter", "next", N=2, **F),
        node("less", "Less", "merge", "outer", **F),
        node("cond", "LoopCond", "less"),
        node("switch", "Switch", "merge", "cond", **F),
        node("body", "Identity", "switch:1", **F),
        node("twice", "Add", "body", "body", **F),
        node("more", "Neg", "twice", **F),
        node("next", "NextIteration", "more", **F),
        node("exit", "Exit", "switch", **F),
        node("a", "Neg", "exit", **F),
        node("b", "Neg", "exit", **F),
        node("out", "Add", "a", "b", **F),
    )
    found = optimized(graph, *ALL, fetches=["out:0"])
    after = {"a", "b", "out"}
    assert all(found[n.name] == n for n in graph.node if n.name not in after)
    assert "b" not in found, "what comes after the loop is not in it"
