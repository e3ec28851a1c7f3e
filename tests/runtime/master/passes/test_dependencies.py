"""Control edges and identities go; the order of effects and of reads of variables stays, and so does control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import bool_, float32, int32

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


@pytest.mark.parametrize(("popped", "waits"), [("kept", True), ("other", False)])
def test_what_comes_off_a_stack_that_holds_a_variable(
    node: Made, graph_def: Made, optimized: Made, popped: str, waits: bool
) -> None:
    """A product with it is a read that an update has to wait for; one with another stack's value is none."""
    graph = graph_def(
        node("w", "VariableV2", **V),
        node("x", "Placeholder", dtype=float32),
        node("y", "Exp", "x", **F),
        node("size", "Const", value=np.array(-1, np.int32), dtype=int32),
        *(node(name, "StackV2", "size", elem_type=float32) for name in ("kept", "other")),
        node("push", "StackPushV2", "kept", "w", **F),
        node("push_other", "StackPushV2", "other", "y", **F),
        node("pop", "StackPopV2", popped, "^push", "^push_other", elem_type=float32),
        node("product", "Mul", "pop", "x", **F),
        node("out", "Neg", "product", **F),
        node("gate", "NoOp", "^product"),
        node("step", "Mul", "y", "x", "^gate", **F),
        node("update", "AssignSub", "w", "step", **F),
    )
    found = optimized(graph, "dependencies", fetches=["out:0"], targets=["update"])
    assert ("^product" in [*found["update"].input, *found["step"].input]) == waits


@pytest.mark.parametrize("unused", ["Exp", "CheckNumerics"])
def test_a_gradient_that_nobody_takes(node: Made, graph_def: Made, optimized: Made, unused: str) -> None:
    """It goes, with the edge that says to wait for it; one that is there for its error stays."""
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("a", unused, "x", **F, **({"message": b""} if unused == "CheckNumerics" else {})),
        node("b", "Neg", "x", **F),
        node("group", "NoOp", "^a", "^b"),
        node("b/gated", "Identity", "b", "^group", **F),
        node("out", "Square", "b/gated", **F),
    )
    found = optimized(graph, "dependencies", fetches=["out:0"])
    assert ("a" in found) == (unused == "CheckNumerics")
    assert found["out"].input[0] == "b"


@pytest.mark.parametrize(("source", "stays"), [(b"bfloat16", False), (b"float32", True), (None, True)])
def test_an_identity_that_travels_otherwise_stays(
    node: Made, graph_def: Made, optimized: Made, source: bytes | None, stays: bool
) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("a", "Neg", "x", **F, **({} if source is None else {"_carried_as": source})),
        node("b", "Identity", "a", **F, _carried_as=b"bfloat16"),
        node("out", "Square", "b", **F),
    )
    assert ("b" in optimized(graph, "dependencies", fetches=["out:0"])) == stays


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


def test_the_shape_of_a_cond_is_left_alone(node: Made, graph_def: Made, optimized: Made) -> None:
    """Only what is computed within a branch becomes less, and stays within it."""
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
    assert all(found[n.name] == n for n in graph.node if n.name in {"switch", "pivot", "yes", "no", "merge"})
    assert found["two"].op == "Const" and list(found["two"].input) == ["^pivot"]
    assert not found.keys() & {"one", "also_one"}


def _loop(node: Made, *body: Any) -> list[Any]:
    """`x` goes into a loop as `body`; `more` is its next value, `out` the last one."""
    return [
        node("x", "Placeholder", dtype=float32),
        node("p", "Placeholder", dtype=bool_),
        node("enter", "Enter", "x", frame_name="loop", is_constant=False, **F),
        node("merge", "Merge", "enter", "next", N=2, **F),
        node("again", "Enter", "p", frame_name="loop", is_constant=True, T=bool_),
        node("cond", "LoopCond", "again"),
        node("switch", "Switch", "merge", "cond", **F),
        node("body", "Identity", "switch:1", **F),
        *body,
        node("next", "NextIteration", "more", **F),
        node("exit", "Exit", "switch", **F),
        node("out", "Neg", "exit", **F),
    ]


def test_constants_of_a_loop_are_folded_inside_of_it(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        *_loop(
            node,
            node("two", "Const", "^body", value=np.full((), 2, np.float32)),
            node("three", "Const", "^body", value=np.full((), 3, np.float32)),
            node("six", "Mul", "two", "three", **F),
            node("more", "Mul", "body", "six", **F),
        )
    )
    found = optimized(graph, "constant_folding", fetches=["out:0"])
    assert found["six"].op == "Const" and list(found["six"].input) == ["^body"]
    assert not found.keys() & {"two", "three"}


def test_shapes_known_inside_of_a_loop_are_folded(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        *_loop(
            node,
            node("wide", "Mul", "body", "body", _output_shapes=[Shape((4, 1))], **F),
            node("tall", "Neg", "body", _output_shapes=[Shape((1, 3))], **F),
            node("shape_w", "Shape", "wide", T=float32, out_type=int32),
            node("shape_t", "Shape", "tall", T=float32, out_type=int32),
            node("axes", "BroadcastGradientArgs", "shape_w", "shape_t", T=int32),
            node("over_w", "Sum", "wide", "axes", Tidx=int32, keep_dims=False, **F),
            node("over_t", "Sum", "tall", "axes:1", Tidx=int32, keep_dims=False, **F),
            node("more", "Add", "over_w", "over_t", **F),
        )
    )
    found = optimized(graph, "constant_folding", fetches=["out:0"])
    assert not found.keys() & {"shape_w", "shape_t", "axes"}
    axes = [found[found[name].input[1]] for name in ("over_w", "over_t")]
    assert [(a.op, list(a.input)) for a in axes] == [("Const", ["^body"])] * 2


def test_what_is_equal_or_neutral_in_a_loop_goes(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        *_loop(
            node,
            node("one", "Const", "^body", value=np.full((), 1, np.float32)),
            node("a", "Tanh", "body", _output_shapes=[Shape((3,))], **F),
            node("b", "Tanh", "body", _output_shapes=[Shape((3,))], **F),
            node("times", "Mul", "b", "one", _output_shapes=[Shape((3,))], **F),
            node("more", "Add", "a", "times", _output_shapes=[Shape((3,))], **F),
        )
    )
    found = optimized(graph, "arithmetic", "common_subexpressions", fetches=["out:0"])
    assert list(found["more"].input) == ["a", "a"]
    assert not found.keys() & {"b", "times", "one"}


def test_a_constant_that_waits_for_an_effect_stays(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        *_loop(
            node,
            node("said", "Print", "body", T=float32, message=b"", first_n=-1, summarize=3),
            node("one", "Const", "^said", value=np.full((), 1, np.float32)),
            node("two", "Add", "one", "one", **F),
            node("times", "Mul", "body", "one", _output_shapes=[Shape(())], **F),
            node("more", "Mul", "times", "two", _output_shapes=[Shape(())], **F),
        )
    )
    found = optimized(graph, "constant_folding", "arithmetic", "common_subexpressions", fetches=["out:0"])
    assert {"said", "one", "two", "times"} <= found.keys()


def test_branches_do_not_share_what_they_compute(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("p", "Placeholder", dtype=bool_),
        node("x", "Placeholder", dtype=float32),
        node("switch", "Switch", "x", "p", **F),
        node("no", "Tanh", "switch", **F),
        node("yes", "Tanh", "switch:1", **F),
        node("merge", "Merge", "no", "yes", N=2, **F),
        node("out", "Neg", "merge", **F),
    )
    assert {"no", "yes"} <= optimized(graph, *ALL, fetches=["out:0"]).keys()


def test_the_shape_of_a_loop_is_left_alone(node: Made, graph_def: Made, optimized: Made) -> None:
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
