"""Which nodes become one, and what the one is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.fused_steps import RECIPES
from sparkflow_runtime.master.passes.fuse import ELEMENTWISE
from sparkflow_runtime.wire.attrs import Shape, node_attrs
from sparkflow_runtime.wire.dtypes import float32
from sparkflow_runtime.wire.protos import RewriterConfig

F = {"T": float32}
Made = Any


def rows(*dims: int | None) -> dict[str, Any]:
    return {"T": float32, "_output_shapes": [Shape(dims)]}


def parts(node: Any) -> list[str]:
    return node_attrs(node)["_fused_from"]


def test_the_pass_and_the_machine_know_the_same_ops() -> None:
    assert set(RECIPES) == ELEMENTWISE


def chain(node: Made, *more: Any) -> list[Any]:
    x = node("x", "Placeholder", dtype=float32, _output_shapes=[Shape((None, 3))])
    a, b, c = (
        node("a", "Neg", "x", **rows(None, 3)),
        node("b", "Exp", "a", **rows(None, 3)),
        node("c", "Mul", "b", "a", **rows(None, 3)),
    )
    return [x, a, b, c, *more]


def test_a_chain_becomes_its_last_node(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*chain(node)), "fusion", fetches=["c:0"])
    assert set(found) == {"x", "c"} and found["c"].op == "_Fused"
    assert list(found["c"].input) == ["x"] and parts(found["c"]) == ["a", "b", "c"]


def test_a_value_that_others_need_is_a_further_output(node: Made, graph_def: Made, optimized: Made) -> None:
    more = node("sum", "Sum", "b", "axes", **F), node("axes", "Placeholder", dtype=float32)
    found = optimized(graph_def(*chain(node, *more)), "fusion", fetches=["c:0", "sum:0"])
    assert parts(found["c"]) == ["a", "b", "c"] and list(found["sum"].input) == ["c:1", "axes"]


def test_what_is_fetched_keeps_its_name(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*chain(node)), "fusion", fetches=["c:0", "b:0"])
    assert found["b"].op == "_Fused" and parts(found["b"]) == ["a", "b"]
    assert found["c"].op == "Mul" and list(found["c"].input) == ["b", "b:1"]


def test_what_is_fed_is_not_computed(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*chain(node)), "fusion", fetches=["c:0"], feeds=["b:0"])
    assert found["c"].op == "Mul" and list(found["c"].input) == ["b", "a"]


def test_no_path_leaves_a_group_and_returns(node: Made, graph_def: Made, optimized: Made) -> None:
    product = node("m", "MatMul", "b", "b", **rows(None, 3)), node("d", "Add", "m", "c", **rows(None, 3))
    found = optimized(graph_def(*chain(node, *product)), "fusion", fetches=["d:0"])
    assert parts(found["c"]) == ["a", "b", "c"] and list(found["m"].input) == ["c:1", "c:1"]
    assert found["d"].op == "Add", "it comes after the product, which comes after the group"


def test_a_group_does_not_wait_for_what_may_wait_for_it(node: Made, graph_def: Made, optimized: Made) -> None:
    """The element that is dequeued may be the one that is enqueued: no edge says so."""
    more = [
        node("queue", "FIFOQueueV2"),
        node("take", "QueueDequeueV2", "queue", _output_shapes=[Shape((None, 3))]),
        node("d", "Add", "c", "take", **rows(None, 3)),
        node("put", "QueueEnqueueV2", "queue", "c"),
    ]
    found = optimized(graph_def(*chain(node, *more)), "fusion", fetches=["d:0"], targets=["put"])
    assert parts(found["c"]) == ["a", "b", "c"] and found["d"].op == "Add"


def test_nodes_that_order_others_stay(node: Made, graph_def: Made, optimized: Made) -> None:
    more = node("v", "VariableV2", dtype=float32, shape=Shape(())), node("new", "AssignAdd", "v", "c", "^b", **F)
    found = optimized(graph_def(*chain(node, *more)), "fusion", targets=["new"])
    assert found["b"].op == "Exp" and list(found["new"].input) == ["v", "c", "^b"]


def test_shapes_and_devices_must_agree(node: Made, graph_def: Made, optimized: Made) -> None:
    wide = node("w", "Placeholder", dtype=float32, _output_shapes=[Shape((7, None, 3))])
    other = node("d", "Add", "c", "w", **rows(7, None, 3))
    assert optimized(graph_def(*chain(node, wide, other)), "fusion", fetches=["d:0"])["d"].op == "Add"
    there = node("d", "Exp", "c", device="/job:ps/task:0", **rows(None, 3))
    assert optimized(graph_def(*chain(node, there)), "fusion", fetches=["d:0"], one_device=False)["d"].op == "Exp"


def test_a_long_chain_is_cut(node: Made, graph_def: Made, optimized: Made) -> None:
    nodes = [node("n0", "Placeholder", dtype=float32, _output_shapes=[Shape((3,))])]
    nodes += [node(f"n{i + 1}", "Neg", f"n{i}", **rows(3)) for i in range(200)]
    found = optimized(graph_def(*nodes), "fusion", fetches=["n200:0"])
    assert [len(parts(n)) for n in found.values() if n.op == "_Fused"] == [64, 64, 64, 8]


def test_few_small_ops_stay(node: Made, graph_def: Made, optimized: Made) -> None:
    """A fused call costs more than three of them."""
    for count, size, fused in ((3, 8, False), (4, 8, True), (2, 100000, True)):
        nodes = [node("n0", "Placeholder", dtype=float32, _output_shapes=[Shape((size,))])]
        nodes += [node(f"n{i + 1}", "Neg", f"n{i}", **rows(size)) for i in range(count)]
        found = optimized(graph_def(*nodes), "fusion", fetches=[f"n{count}:0"])
        assert (found[f"n{count}"].op == "_Fused") is fused


def layer(node: Made, add: str = "Add", bias: tuple[int, ...] = (4,)) -> list[Any]:
    return [
        node("x", "Placeholder", dtype=float32, _output_shapes=[Shape((None, 3))]),
        node("w", "Placeholder", dtype=float32, _output_shapes=[Shape((3, 4))]),
        node("b", "Placeholder", dtype=float32, _output_shapes=[Shape(bias)]),
        node("product", "MatMul", "x", "w", **rows(None, 4)),
        node("biased", add, "product", "b", **rows(None, 4)),
        node("relu", "Relu", "biased", **rows(None, 4)),
    ]


def test_a_layer_becomes_one_node(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*layer(node, "BiasAdd")), "fusion", fetches=["relu:0"])
    assert found["relu"].op == "_FusedMatMul" and list(found["relu"].input) == ["x", "w", "b"]
    found = optimized(graph_def(*layer(node)), "fusion", fetches=["relu:0", "biased:0"])
    assert found["biased"].op == "_FusedMatMul" and found["relu"].op == "Relu"
    found = optimized(graph_def(*layer(node)), "fusion", fetches=["relu:0", "product:0"])
    assert found["product"].op == "MatMul" and found["relu"].op == "_Fused"


@pytest.mark.parametrize("layout, op", [("NHWC", "_FusedConv2D"), ("NCHW", "Relu")])
def test_a_convolution_takes_its_bias_along(node: Made, graph_def: Made, optimized: Made, layout: str, op: str) -> None:
    image = {"T": float32, "_output_shapes": [Shape((None, 5, 5, 5))]}
    window = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": layout}
    nodes = [
        node("x", "Placeholder", dtype=float32, _output_shapes=[Shape((None, 5, 5, 5))]),
        node("w", "Placeholder", dtype=float32, _output_shapes=[Shape((3, 3, 5, 5))]),
        node("b", "Placeholder", dtype=float32, _output_shapes=[Shape((5,))]),
        node("conv", "Conv2D", "x", "w", **image, **window),
        node("biased", "BiasAdd", "conv", "b", data_format=layout, **image),
        node("relu", "Relu", "biased", **image),
    ]
    found = optimized(graph_def(*nodes), "fusion", fetches=["relu:0"])
    assert found["relu"].op == op


@pytest.mark.parametrize("layout, op", [("NDHWC", "_FusedConv3D"), ("NCDHW", "Relu")])
def test_so_does_one_over_depth(node: Made, graph_def: Made, optimized: Made, layout: str, op: str) -> None:
    volume = {"T": float32, "_output_shapes": [Shape((None, 5, 5, 5, 5))]}
    nodes = [
        node("x", "Placeholder", dtype=float32, _output_shapes=[Shape((None, 5, 5, 5, 5))]),
        node("w", "Placeholder", dtype=float32, _output_shapes=[Shape((3, 3, 3, 5, 5))]),
        node("b", "Placeholder", dtype=float32, _output_shapes=[Shape((5,))]),
        node("conv", "Conv3D", "x", "w", strides=[1] * 5, padding="SAME", data_format=layout, **volume),
        node("biased", "BiasAdd", "conv", "b", data_format="NHWC" if layout == "NDHWC" else "NCHW", **volume),
        node("relu", "Relu", "biased", **volume),
    ]
    found = optimized(graph_def(*nodes), "fusion", fetches=["relu:0"])
    assert found["relu"].op == op


def on_and_off(shape: list[int | None], images: np.ndarray, make: Any) -> None:
    """make(x) -> tensors has the same bits with the pass and without it."""
    values = []
    for toggle in (RewriterConfig.ON, RewriterConfig.OFF):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, shape)
            config = tf.ConfigProto()
            config.graph_options.rewrite_options.remapping = toggle
            with tf.Session(config=config) as session:
                values.append(session.run(make(x), {x: images}))
    for fused, apart in zip(*values):
        assert fused.tobytes() == apart.tobytes()


@pytest.mark.parametrize("channels", [3, 24])
def test_a_fused_convolution_over_depth_has_the_same_bits(channels: int) -> None:
    rng = np.random.default_rng(0)

    def make(x: Any) -> Any:
        w = tf.constant(np.sin(np.arange(27 * channels * 20)).reshape(3, 3, 3, channels, 20).astype(np.float32))
        bias = tf.constant(np.cos(np.arange(20)).astype(np.float32))
        return [
            tf.nn.relu(tf.nn.bias_add(tf.nn.conv3d(x, w, [1, 1, stride, stride, 1], "SAME"), bias)) for stride in (1, 2)
        ]

    on_and_off([None, 4, 12, 12, channels], rng.standard_normal((2, 4, 12, 12, channels)).astype(np.float32), make)


@pytest.mark.parametrize("channels, edge", [(3, 3), (3, 40), (3, 0), (24, 13), (24, 40)])
@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6, tf.tanh, tf.identity])
def test_a_fused_convolution_has_the_same_bits(channels: int, edge: int, activation: Any) -> None:
    rng = np.random.default_rng(0)

    def make(x: Any) -> Any:
        w = tf.constant(np.sin(np.arange(9 * channels * 70)).reshape(3, 3, channels, 70).astype(np.float32))
        y = activation(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), tf.constant(np.cos(np.arange(70)), tf.float32)))
        return [y, tf.gradients(y, x)[0]]

    images = rng.normal(size=(3, edge, edge, channels)).astype(np.float32)
    on_and_off([None, None, None, channels], images, make)


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6, tf.identity])
@pytest.mark.parametrize("edge, dtype", [(3, tf.float32), (60, tf.float32), (5, tf.float16)])
def test_a_fused_normalisation_has_the_same_bits(edge: int, dtype: Any, activation: Any) -> None:
    rng = np.random.default_rng(1)

    def make(x: Any) -> Any:
        mean, ones = tf.constant(np.cos(np.arange(24)), tf.float32), tf.ones(24)  # scale and variance: one constant
        norm = tf.nn.fused_batch_norm(tf.cast(x, dtype), ones, mean, mean, ones, is_training=False)[0]
        return [
            activation(norm),
            activation(tf.nn.fused_batch_norm(x * 2, ones, mean, mean, ones + 1, is_training=False)[0]),
        ]

    on_and_off([None, None, None, 24], rng.normal(size=(3, edge, edge, 24)).astype(np.float32), make)


@pytest.mark.parametrize(
    "layout, training, fetch, op",
    [
        ("NHWC", False, "relu:0", "_FusedBatchNorm"),
        ("NCHW", False, "relu:0", "FusedBatchNormV3"),
        ("NHWC", True, "relu:0", "FusedBatchNormV3"),
        ("NHWC", False, "norm:1", "FusedBatchNormV3"),
    ],
)
def test_a_normalisation_takes_its_activation_along(
    node: Made, graph_def: Made, optimized: Made, layout: str, training: bool, fetch: str, op: str
) -> None:
    image, vector = Shape((None, 5, 5, 5)), Shape((5,))
    nodes = [node("x", "Placeholder", dtype=float32, _output_shapes=[image])]
    nodes += [node(name, "Placeholder", dtype=float32, _output_shapes=[vector]) for name in "abcd"]
    attrs = {"T": float32, "U": float32, "data_format": layout, "is_training": training}
    nodes.append(node("norm", "FusedBatchNormV3", "x", *"abcd", _output_shapes=[image, *[vector] * 5], **attrs))
    nodes.append(node("relu", "Relu", "norm", T=float32, _output_shapes=[image]))
    found = optimized(graph_def(*nodes), "fusion", fetches=["relu:0", fetch])
    assert op in {n.op for n in found.values()} and ("norm" in found) == (op == "FusedBatchNormV3")


def test_a_matrix_is_no_bias(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*layer(node, bias=(1, 4))), "fusion", fetches=["relu:0"])
    assert found["product"].op == "MatMul" and parts(found["relu"]) == ["biased", "relu"]


def steps(node: Made, *more: Any, **attrs: Any) -> list[Any]:
    """The gradient of a weight by five steps: x_i of 20 x 90 turned, by dy_i of 20 x 120, and the sum."""
    made = []
    for i in range(5):
        made += [node(f"x{i}", "Placeholder", dtype=float32, _output_shapes=[Shape((20, 90))])]
        made += [node(f"dy{i}", "Placeholder", dtype=float32, _output_shapes=[Shape((20, 120))])]
        made += [node(f"dw{i}", "MatMul", f"x{i}", f"dy{i}", transpose_a=True, transpose_b=False, **rows(90, 120))]
    total = node("sum", "AddN", *(f"dw{i}" for i in range(5)), N=5, **attrs, **rows(90, 120))
    return [*made, total, *more]


def test_products_that_are_added_become_one(node: Made, graph_def: Made, optimized: Made) -> None:
    found = optimized(graph_def(*steps(node)), "fusion", fetches=["sum:0"])
    assert found["sum"].op == "_FusedSum" and parts(found["sum"]) == [*(f"dw{i}" for i in range(5)), "sum"]
    assert "dw0" not in found and list(found["sum"].input)[:2] == ["x0", "dy0"]


def test_products_that_others_see_are_added_by_themselves(node: Made, graph_def: Made, optimized: Made) -> None:
    for fetches, more in (
        (["sum:0", "dw3:0"], []),
        (["sum:0", "other:0"], [node("other", "Neg", "dw2", **rows(90, 120))]),
        (["sum:0", "other:0"], [node("other", "Neg", "x0", "^dw2", **rows(20, 90))]),
    ):
        found = optimized(graph_def(*steps(node, *more)), "fusion", fetches=fetches)
        assert found["sum"].op == "AddN"
    fed = optimized(graph_def(*steps(node)), "fusion", fetches=["sum:0"], feeds=["dw1:0"])
    assert fed["sum"].op == "AddN"


@pytest.mark.parametrize("shape, batch", [([None, 6, 24], 20), ([20, 6, 24], 20), ([None, 6, 24], 300)])
def test_a_cell_that_is_written_out_has_the_same_bits(shape: list[int | None], batch: int) -> None:
    """With a bias, and with a variable that the products read and the step then changes."""
    found = []
    for toggle in (RewriterConfig.ON, RewriterConfig.OFF):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, shape)
            draw = tf.random_uniform_initializer(-0.3, 0.3, seed=1)
            w = tf.get_variable("w", [124, 100], initializer=draw)
            b = tf.get_variable("b", [100], initializer=draw)
            h = tf.zeros_like(x[:, 0, :1]) + tf.zeros([100])
            for t in range(6):
                h = tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), w) + b)
            loss = tf.reduce_mean(tf.square(h - 0.1))
            train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            config = tf.ConfigProto()
            config.graph_options.rewrite_options.remapping = toggle
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                fed = {x: np.random.default_rng(0).normal(size=(batch, 6, 24))}
                losses = [session.run([loss, train], fed)[0] for _ in range(4)]
                found.append([np.array(losses).tobytes(), *(v.tobytes() for v in session.run([w, b]))])
    assert found[0] == found[1]
