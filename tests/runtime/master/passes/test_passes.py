"""Each pass on graphs made by hand: what goes, and what must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.master.passes import Optimizer, Settings
from sparkflow_runtime.wire.attrs import Shape, node_attrs
from sparkflow_runtime.wire.dtypes import float32, float64, int32
from sparkflow_runtime.wire.protos import ConfigProto, OptimizerOptions, RewriterConfig

Made = Any
F = {"T": float32}


@pytest.fixture
def const(node: Made) -> Made:
    def make(name: str, value: Any, *inputs: str, dtype: Any = np.float32, **attrs: Any) -> Any:
        return node(name, "Const", *inputs, value=np.array(value, dtype), **attrs)

    return make


def value(found: Any) -> Any:
    return node_attrs(found)["value"]


def shaped(*dims: int | None) -> list[Shape]:
    return [Shape(dims)]


# ---------------------------------------------------------------------- constant folding


def test_constants_are_folded(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    graph = graph_def(const("a", 2), const("b", [3, 4]), node("c", "Mul", "a", "b", **F), node("d", "Neg", "c", **F))
    found = optimized(graph, "constant_folding", fetches=["d:0"])
    assert list(found) == ["d"] and value(found["d"]).tolist() == [-6, -8]


def test_what_is_fed_stateful_or_ordered_is_not_folded(
    node: Made, graph_def: Made, const: Made, optimized: Made
) -> None:
    graph = graph_def(
        const("a", 2),
        node("fed", "Neg", "a", **F),
        node("of_fed", "Neg", "fed", **F),
        node("random", "RandomUniform", "a"),
        node("later", "Neg", "a", "^random", **F),
    )
    found = optimized(graph, "constant_folding", fetches=["of_fed:0", "later:0"], feeds=["fed:0"])
    assert found["of_fed"].op == "Neg" and found["later"].op == "Neg" and "random" in found


def test_a_fold_that_fails_or_grows_is_left_to_the_run(
    node: Made, graph_def: Made, const: Made, optimized: Made
) -> None:
    graph = graph_def(
        const("a", [1, 2, 3]),
        const("wrong", [2, 2], dtype=np.int32),
        const("big", [4000, 4000], dtype=np.int32),
        const("one", 1),
        node("bad", "Reshape", "a", "wrong", **F),
        node("huge", "Fill", "big", "one", **F),
        node("uses", "Neg", "huge", **F),
    )
    found = optimized(graph, "constant_folding", fetches=["bad:0", "uses:0"])
    assert {n: found[n].op for n in ("bad", "huge", "uses")} == {"bad": "Reshape", "huge": "Fill", "uses": "Neg"}


def test_known_shapes_are_folded(node: Made, graph_def: Made, optimized: Made) -> None:
    x = node("x", "Placeholder", dtype=float32, shape=Shape((None, 3)), _output_shapes=shaped(None, 3))
    graph = graph_def(
        node("y", "Neg", "x", _output_shapes=shaped(None, 3), **F),
        node("rank", "Rank", "y"),
        node("size", "Size", "y", out_type=int32),
        node("two", "VariableV2", dtype=float32, shape=Shape((2, 5)), _output_shapes=shaped(2, 5)),
        node("shape", "Shape", "two", out_type=int32),
    )
    found = optimized(
        graph,
        "constant_folding",
        fetches=["rank:0", "size:0", "shape:0"],
        feeds=["x:0"],
        sources={"x": x},
    )
    assert value(found["rank"]) == 2 and value(found["shape"]).tolist() == [2, 5]
    assert found["size"].op == "Size" and "two" not in found


def test_unknown_sizes_may_be_known_to_be_equal(node: Made, graph_def: Made, optimized: Made) -> None:
    """The gradient of x * f(x): neither side was broadcast, whatever the batch's size."""
    batch = shaped(None, 3)
    x = node("x", "Placeholder", dtype=float32, shape=Shape((None, 3)), _output_shapes=batch)
    graph = graph_def(
        node("y", "Exp", "x", _output_shapes=batch, **F),
        node("s0", "Shape", "x", out_type=int32),
        node("s1", "Shape", "y", out_type=int32),
        node("axes", "BroadcastGradientArgs", "s0", "s1", T=int32),
        node("sum", "Sum", "y", "axes", _output_shapes=batch, **F),
        node("back", "Reshape", "sum", "s0", _output_shapes=batch, **F),
        node("out", "Neg", "back", _output_shapes=batch, **F),
    )
    options = {"fetches": ["out:0"], "feeds": ["x:0"], "sources": {"x": x}}
    found = optimized(graph, "constant_folding", "arithmetic", **options)
    assert list(found) == ["y", "out"] and list(found["out"].input) == ["y"]


def test_folded_values_are_remembered(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    graph = graph_def(const("a", 2), node("b", "Neg", "a", **F))
    optimizer = Optimizer(Settings())
    optimized(graph, fetches=["b:0"], optimizer=optimizer)
    optimizer.folder.values["b"] = [np.float32(7)]
    assert value(optimized(graph, fetches=["b:0"], optimizer=optimizer)["b"]) == 7
    assert value(optimized(graph, "constant_folding", fetches=["b:0"])["b"]) == -2


# ---------------------------------------------------------------------- common subexpressions


def test_what_is_asserted_twice_is_asserted_once(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    """Who waits for the second waits for the first, and so may be the same as who does; one that is run by name, or
    waits for something itself, stays."""
    asserting = {"T": [float32], "summarize": 3}
    graph = graph_def(
        node("sure", "Placeholder", dtype=float32, shape=Shape(())),
        const("a", "one", dtype=object),
        const("b", "other", dtype=object),
        node("first", "Assert", "sure", "a", **asserting),
        node("again", "Assert", "sure", "b", **asserting),
        node("named", "Assert", "sure", "b", **asserting),
        node("later", "Assert", "sure", "b", "^first", **asserting),
        const("x", 2),
        node("p", "Neg", "x", "^first", **F),
        node("q", "Neg", "x", "^again", **F),
        node("r", "Neg", "x", "^again", "^later", **F),
        node("s", "AddN", "p", "q", "r", N=3, **F),
    )
    found = optimized(graph, "common_subexpressions", fetches=["s:0"], targets=["named"], feeds=["sure:0"])
    assert [n.name for n in found.values() if n.op == "Assert"] == ["first", "named", "later"]
    assert list(found["s"].input) == ["p", "p", "r"] and list(found["r"].input) == ["x", "^first", "^later"]


def test_equal_nodes_become_one(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("a", "Neg", "x", **F),
        node("b", "Neg", "x", **F),
        node("c", "Neg", "x", T=float64),
        node("d", "Neg", "x", "^a", **F),
        node("sum", "AddN", "a", "b", "c", "d", N=4, **F),
        node("random", "RandomUniform", "x"),
        node("other", "RandomUniform", "x"),
        node("both", "AddN", "random", "other", N=2, **F),
    )
    found = optimized(graph, "common_subexpressions", fetches=["sum:0", "both:0"])
    assert list(found["sum"].input) == ["a", "a", "c", "d"] and "b" not in found
    assert list(found["both"].input) == ["random", "other"], "each draws its own numbers"


def test_nodes_for_different_devices_stay_apart(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("a", "Neg", "x", device="/job:ps/task:0", **F),
        node("b", "Neg", "x", device="/job:ps/task:1", **F),
        node("sum", "AddN", "a", "b", N=2, **F),
    )
    found = optimized(graph, "common_subexpressions", fetches=["sum:0"], one_device=False)
    assert list(found["sum"].input) == ["a", "b"]


@pytest.mark.parametrize("device, stay", [("/job:ps/task:0", "a a"), ("/job:ps", "a b"), ("", "a b")])
def test_what_a_device_says_whole_needs_no_company(
    node: Made, graph_def: Made, optimized: Made, device: str, stay: str
) -> None:
    """As the constants of all initializers of one server, each beside its own variable."""
    nodes = [node(v, "VariableV2", device=device, dtype=float32) for v in ("v", "w")]
    nodes += [node("x", "Placeholder", dtype=float32)]
    for name, v in (("a", "v"), ("b", "w")):
        nodes.append(node(name, "Neg", "x", device=device, _class=[f"loc:@{v}".encode()], **F))
    graph = graph_def(*nodes, node("sum", "AddN", "a", "b", N=2, **F))
    found = optimized(graph, "common_subexpressions", fetches=["sum:0"], one_device=False)
    assert list(found["sum"].input) == stay.split()


def test_a_fetched_twin_keeps_its_name(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32),
        node("a", "Neg", "x", **F),
        node("b", "Neg", "x", **F),
        node("c", "Exp", "b", **F),
    )
    found = optimized(graph, "common_subexpressions", fetches=["b:0", "c:0"])
    assert "b" in found and list(found["c"].input) == ["a"]


# ---------------------------------------------------------------------- arithmetic


def one_input(node: Made, graph_def: Made, *nodes: Any) -> Any:
    return graph_def(node("x", "Placeholder", dtype=float32, _output_shapes=shaped(None, 3)), *nodes)


@pytest.mark.parametrize(
    ("op", "constant", "goes"),
    [
        ("Mul", 1, True),
        ("Mul", 2, False),
        ("RealDiv", 1, True),
        ("Sub", 0, True),
        ("AddV2", -0.0, True),
        ("AddV2", 0, False),
    ],
)
def test_neutral_elements(
    node: Made, graph_def: Made, const: Made, optimized: Made, op: str, constant: float, goes: bool
) -> None:
    """x + 0 is not x where x is -0."""
    same = shaped(None, 3)
    made = node("y", op, "x", "k", _output_shapes=same, **F), node("out", "Exp", "y", _output_shapes=same, **F)
    found = optimized(one_input(node, graph_def, const("k", constant), *made), "arithmetic", fetches=["out:0"])
    assert list(found["out"].input) == ["x" if goes else "y"]


def test_a_neutral_element_that_widens_stays(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    made = node("y", "Mul", "x", "k", _output_shapes=shaped(2, None, 3), **F), node("out", "Exp", "y", **F)
    graph = one_input(node, graph_def, const("k", np.ones((2, 1, 1))), *made)
    assert list(optimized(graph, "arithmetic", fetches=["out:0"])["out"].input) == ["y"]


def test_one_op_undoes_another(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    graph = one_input(
        node,
        graph_def,
        node("n1", "Neg", "x", **F),
        node("n2", "Neg", "n1", **F),
        const("s1", [-1], dtype=np.int32),
        const("s2", [3, 1], dtype=np.int32),
        node("r1", "Reshape", "n2", "s1", **F),
        node("r2", "Reshape", "r1", "s2", **F),
        node("wide", "Cast", "r2", SrcT=float32, DstT=float64),
        node("back", "Cast", "wide", SrcT=float64, DstT=float32),
        node("minus", "AddV2", "back", "n1", **F),
    )
    found = optimized(graph, "arithmetic", fetches=["minus:0"])
    assert found["minus"].op == "Sub" and list(found["minus"].input) == ["r2", "x"]
    assert list(found["r2"].input) == ["x", "s2"] and not {"wide", "back", "r1", "n2", "n1"} & set(found)


@pytest.mark.parametrize(
    ("wanted", "goes"), [([-1, 16], True), ([-1], False), ([-1, -1], False), ([16, -1], False), ([2, 16], False)]
)
def test_a_reshape_to_what_is_known_anyway(
    node: Made, graph_def: Made, const: Made, optimized: Made, wanted: list[int], goes: bool
) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float32, _output_shapes=shaped(None, 16)),
        const("s", wanted, dtype=np.int32),
        node("r", "Reshape", "x", "s", **F),
        node("out", "Neg", "r", **F),
    )
    found = optimized(graph, "arithmetic", fetches=["out:0"])
    assert list(found["out"].input) == ["x" if goes else "r"]


@pytest.mark.parametrize(
    ("masks", "strides", "goes"),
    [
        ({"new_axis_mask": 2, "begin_mask": 5, "end_mask": 5}, [1, 1, 1], True),
        ({"new_axis_mask": 2, "ellipsis_mask": 1}, [1, 1], True),
        ({"new_axis_mask": 2, "begin_mask": 5, "end_mask": 5}, [1, 1, -1], False),
        ({"new_axis_mask": 2, "begin_mask": 5, "end_mask": 1}, [1, 1, 1], False),
        ({"shrink_axis_mask": 2, "begin_mask": 1, "end_mask": 1}, [1, 1], False),
        ({"new_axis_mask": 3, "ellipsis_mask": 1}, [1, 1], True),  # an ellipsis goes before a new axis
    ],
)
def test_the_gradient_of_new_axes_is_a_reshape(
    node: Made, graph_def: Made, const: Made, optimized: Made, masks: dict[str, int], strides: list[int], goes: bool
) -> None:
    some = [const(name, [0] * len(strides), dtype=np.int32) for name in ("begin", "end")]
    graph = graph_def(
        node("dy", "Placeholder", dtype=float32),
        const("sizes", [2, 3], dtype=np.int32),
        const("strides", strides, dtype=np.int32),
        *some,
        node("g", "StridedSliceGrad", "sizes", "begin", "end", "strides", "dy", Index=int32, **F, **masks),
    )
    found = optimized(graph, "arithmetic", fetches=["g:0"])["g"]
    assert (found.op, list(found.input)) == (
        ("Reshape", ["dy", "sizes"]) if goes else ("StridedSliceGrad", ["sizes", "begin", "end", "strides", "dy"])
    )


def test_narrow_casts_stay(node: Made, graph_def: Made, optimized: Made) -> None:
    graph = graph_def(
        node("x", "Placeholder", dtype=float64),
        node("a", "Cast", "x", SrcT=float64, DstT=float32),
        node("b", "Cast", "a", SrcT=float32, DstT=float64),
    )
    assert set(optimized(graph, "arithmetic", fetches=["b:0"])) == {"x", "a", "b"}


def test_division_by_a_power_of_two_only(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    graph = one_input(
        node,
        graph_def,
        const("four", 4),
        const("three", 3),
        node("a", "RealDiv", "x", "four", **F),
        node("b", "RealDiv", "x", "three", **F),
    )
    found = optimized(graph, "arithmetic", fetches=["a:0", "b:0"])
    assert found["a"].op == "Mul" and value(found["a/reciprocal"]) == 0.25 and found["b"].op == "RealDiv"
    assert optimized(graph, "arithmetic", fetches=["b:0"], settings={"aggressive": True})["b"].op == "Mul"


@pytest.mark.parametrize(("dtype", "by", "goes"), [(int32, 1, True), (int32, 2, False), (float32, 1, False)])
def test_a_whole_number_divided_by_one(
    node: Made, graph_def: Made, const: Made, optimized: Made, dtype: Any, by: int, goes: bool
) -> None:
    """FloorDiv of 1.5 by 1 is 1."""
    graph = graph_def(
        node("x", "Placeholder", dtype=dtype, _output_shapes=shaped()),
        const("k", by, dtype=dtype.np),
        node("y", "FloorDiv", "x", "k", T=dtype, _output_shapes=shaped()),
        node("out", "Neg", "y", T=dtype),
    )
    assert list(optimized(graph, "arithmetic", fetches=["out:0"])["out"].input) == ["x" if goes else "y"]


SPREAD = {  # what a scalar is brought to x's shape by
    "BroadcastTo": ["small", "sizes"],
    "Fill": ["sizes", "scalar"],
}


@pytest.mark.parametrize("op", SPREAD)
@pytest.mark.parametrize(
    ("of", "other", "goes"), [("x", "x", True), ("x", "unknown", False), ("unknown", "x", False), ("x", "row", False)]
)
def test_what_is_spread_by_an_op_is_not_spread_before_it(
    node: Made, graph_def: Made, const: Made, optimized: Made, op: str, of: str, other: str, goes: bool
) -> None:
    """Only beside an input that is known to have the result's shape."""
    graph = graph_def(
        node("x", "Placeholder", dtype=float32, _output_shapes=shaped(None, 3)),
        node("row", "Placeholder", dtype=float32, _output_shapes=shaped(1, 3)),
        node("unknown", "Placeholder", dtype=float32),
        node("scalar", "Placeholder", dtype=float32, _output_shapes=shaped()),
        const("ones", [1, 1], dtype=np.int32),
        node("small", "Reshape", "scalar", "ones", _output_shapes=shaped(1, 1), **F),
        node("sizes", "Shape", of, _output_shapes=shaped(2 if of == "x" else None), **F),
        node("wide", op, *SPREAD[op], _output_shapes=shaped(None, 3) if of == "x" else [Shape(None)], **F),
        node("out", "Mul", other, "wide", **F),
    )
    assert list(optimized(graph, "arithmetic", fetches=["out:0"])["out"].input) == [other, "scalar" if goes else "wide"]


@pytest.mark.parametrize(("of", "goes"), [("scalar", True), ("v/read", False)])
def test_what_a_variable_holds_is_read_where_it_was(
    node: Made, graph_def: Made, const: Made, optimized: Made, of: str, goes: bool
) -> None:
    """An update may come between the node that reads it and the one that uses what that gives."""
    graph = graph_def(
        node("x", "Placeholder", dtype=float32, _output_shapes=shaped(None, 3)),
        node("scalar", "Placeholder", dtype=float32, _output_shapes=shaped()),
        node("v", "VariableV2", dtype=float32, _output_shapes=shaped()),
        node("v/read", "Identity", "v", _output_shapes=shaped(), **F),
        node("sizes", "Shape", "x", **F),
        node("wide", "BroadcastTo", of, "sizes", _output_shapes=shaped(None, 3), **F),
        node("negative", "Neg", of, _output_shapes=shaped(), **F),
        node("out", "Mul", "x", "wide", **F),
        node("less", "AddV2", "x", "negative", **F),
    )
    found = optimized(graph, "arithmetic", fetches=["out:0", "less:0"])
    assert list(found["out"].input) == ["x", of if goes else "wide"]
    assert (found["less"].op, found["less"].input[1]) == (("Sub", of) if goes else ("AddV2", "negative"))


# ---------------------------------------------------------------------- layout


def transposed(node: Made, const: Made, name: str, source: str, *perm: int) -> list[Any]:
    return [const(f"{name}/perm", perm, dtype=np.int32), node(name, "Transpose", source, f"{name}/perm", **F)]


def test_transposes_cancel_across_elementwise_ops(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    graph = one_input(
        node,
        graph_def,
        *transposed(node, const, "t1", "x", 0, 2, 3, 1),
        node("relu", "Relu", "t1", _output_shapes=shaped(1, 2, 3, 4), **F),
        *transposed(node, const, "t2", "relu", 0, 3, 1, 2),
        node("out", "Exp", "t2", **F),
    )
    found = optimized(graph, "layout", fetches=["out:0"])
    assert set(found) == {"x", "relu", "out"} and "_output_shapes" not in found["relu"].attr
    assert set(optimized(graph, "layout", fetches=["out:0", "relu:0"])) == {n.name for n in graph.node}
    assert optimized(graph, "layout", fetches=["t2:0"])["t2"].op == "Transpose"


def test_transposes_are_joined(node: Made, graph_def: Made, const: Made, optimized: Made) -> None:
    first, second = transposed(node, const, "t1", "x", 1, 2, 0), transposed(node, const, "t2", "t1", 0, 2, 1)
    found = optimized(one_input(node, graph_def, *first, *second), "layout", fetches=["t2:0"])
    assert list(found["t2"].input) == ["x", "t2/perm_of_both"] and value(found["t2/perm_of_both"]).tolist() == [1, 0, 2]


def test_what_took_over_the_users_of_a_transpose_keeps_its_meaning(
    node: Made, graph_def: Made, const: Made, optimized: Made
) -> None:
    """t2 stays, for it is fetched; once t3 is what relu gives, t4 must not turn relu around under t2."""
    graph = one_input(
        node,
        graph_def,
        *transposed(node, const, "t1", "x", 1, 0),
        node("relu", "Relu", "t1", **F),
        *transposed(node, const, "t2", "relu", 1, 0),
        *transposed(node, const, "t3", "t2", 1, 0),
        *transposed(node, const, "t4", "t3", 1, 0),
        node("out", "Exp", "t4", **F),
    )
    found = optimized(graph, "layout", fetches=["t2:0", "out:0"])
    assert [list(found[name].input)[:1] for name in ("relu", "t2")] == [["t1"], ["relu"]]
    assert found["out"].input[0] in ("t2", "t4")


# ---------------------------------------------------------------------- settings


def test_settings_are_read_as_tensorflow_reads_them() -> None:
    assert Settings.of(None) == Settings.of(ConfigProto()) == Settings()
    config = ConfigProto()
    config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
    config.graph_options.rewrite_options.arithmetic_optimization = RewriterConfig.AGGRESSIVE
    found = Settings.of(config)
    assert not found.constant_folding and found.aggressive and found.fusion
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    assert Settings.of(config) == Settings.none()
    config = ConfigProto()
    config.graph_options.rewrite_options.optimizers.extend(["embeddings", "constfold"])
    assert Settings.of(config) == replace(Settings.none(), embeddings=True, constant_folding=True)
    assert not Settings.of(config).recomputation and not Settings.of(config).swaps
    config.graph_options.rewrite_options.optimizers.append("memory")
    assert Settings.of(config).swap_hints and Settings.of(config).recompute_hints and not Settings.of(config).scheduling
    config = ConfigProto()
    config.graph_options.optimizer_options.opt_level = OptimizerOptions.L0
    assert Settings.of(config) == Settings.none()
    config.graph_options.optimizer_options.do_constant_folding = True
    assert Settings.of(config).constant_folding and not Settings.of(config).arithmetic


@pytest.mark.parametrize(
    ("option", "on"),
    [
        ("DEFAULT_MEM_OPT", "scheduling swapping swap_hints"),
        ("NO_MEM_OPT", ""),
        ("MANUAL", "swap_hints recompute_hints"),
        ("SWAPPING_HEURISTICS", "swapping swap_hints"),
        ("RECOMPUTATION_HEURISTICS", "recompute_cheap recompute_hints"),
        ("SCHEDULING_HEURISTICS", "scheduling"),
        ("HEURISTICS", "scheduling swapping swap_hints recompute_cheap recompute_hints"),
    ],
)
def test_options_for_memory(option: str, on: str) -> None:
    config = ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.memory_optimization = RewriterConfig.MemOptType.Value(option)
    names = ["scheduling", "swapping", "swap_hints", "recompute_cheap", "recompute_hints"]
    found = Settings.of(config)
    assert [n for n in names if getattr(found, n)] == on.split()
    assert found.recompute_for == "gradients/" and found.fusion
    rewrite.memory_optimizer_target_node_name_scope = "back/"
    assert Settings.of(config).recompute_for == "back/"
