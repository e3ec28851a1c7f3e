"""Ops of TensorFlow 1 and before, for which import puts those of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.conftest import make_node

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _imported(nodes: list[Any], fetches: list[str], inputs: dict[str, Any], *first: str) -> list[Any]:
    """What a graph of these nodes gives, beside inputs that stand for what it has not; first: run before."""
    mapped = {name: tf.constant(value) for name, value in inputs.items()}
    found = tf.import_graph_def(tf.GraphDef(node=nodes), mapped, [*fetches, *first]) or []
    with tf.Session() as session:
        for op in found[len(fetches) :]:
            session.run(op)
        return list(session.run(found[: len(fetches)]))


def test_products_of_batches(graph: tf.Graph) -> None:
    """As graphs have them that were written before 1.14, models of attention among them; they have gradients."""
    node = make_node("y", "BatchMatMul", "x", "x", T=tf.float32, adj_x=False, adj_y=True)
    [found] = _imported([node], ["y:0"], {"x": X})
    np.testing.assert_array_equal(found, X @ X.transpose(0, 2, 1))
    x = tf.constant(X)
    [y] = tf.import_graph_def(tf.GraphDef(node=[node]), {"x": x}, ["y:0"]) or []
    with tf.Session() as session:
        assert session.run(tf.gradients(y, x)[0]).shape == X.shape


def test_products_in_a_function(graph: tf.Graph) -> None:
    graph_def = tf.GraphDef(node=[make_node("y", "Product", "x")])
    function = graph_def.library.function.add(ret={"out": "p:output:0"})
    function.node_def.append(make_node("p", "BatchMatMul", "a", "a", T=tf.float32, adj_y=True))
    function.signature.name = "Product"
    function.signature.input_arg.add(name="a", type=tf.float32.as_datatype_enum)
    function.signature.output_arg.add(name="out", type=tf.float32.as_datatype_enum)
    [y] = tf.import_graph_def(graph_def, {"x": tf.constant(X)}, ["y:0"]) or []
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y), X @ X.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("node", "inputs", "wanted"),
    [
        (
            make_node("y", "Concat", "axis", "x", "x", N=2, T=tf.float32),
            {"axis": np.int32(1)},
            np.concatenate([X, X], 1),
        ),
        (make_node("y", "Inv", "x", T=tf.float32), {"x": X + 1}, 1 / (X + 1)),
        (make_node("y", "Mod", "a", "b", T=tf.int32), {"a": np.int32([-7, 7]), "b": np.int32([3, -3])}, [-1, 1]),
        (make_node("y", "AccumulateNV2", "x", "x", N=2, T=tf.float32), {}, X + X),
        (make_node("y", "BiasAddV1", "x", "b", T=tf.float32), {"b": np.ones(4, np.float32)}, X + 1),
        (make_node("y", "TopK", "x", T=tf.float32, k=2, sorted=True), {}, X[..., :1:-1]),
    ],
    ids=lambda value: getattr(value, "op", ""),
)
def test_values(graph: tf.Graph, node: Any, inputs: dict[str, Any], wanted: Any) -> None:
    [found] = _imported([node], ["y:0"], {"x": X, **inputs} if "x" in node.input else inputs)
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("scaled", [True, False])
def test_normalization_in_one_op(graph: tf.Graph, scaled: bool) -> None:
    x, (m, v, b, g) = X.reshape(1, 2, 3, 4), (np.arange(4, dtype=np.float32) + i for i in (1, 2, 3, 4))
    attrs: dict[str, Any] = {"T": tf.float32, "variance_epsilon": 0.5, "scale_after_normalization": scaled}
    node = make_node("y", "BatchNormWithGlobalNormalization", "x", "m", "v", "b", "g", **attrs)
    [found] = _imported([node], ["y:0"], {"x": x, "m": m, "v": v, "b": b, "g": g})
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 0.5) * (g if scaled else 1) + b, 1e-5)


def test_queues_tables_and_readers_that_had_names(graph: tf.Graph, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("what it says")
    nodes = [
        make_node("queue", "FIFOQueue", component_types=[tf.string], capacity=3),
        make_node("put", "QueueEnqueue", "queue", "file", Tcomponents=[tf.string]),
        make_node("reader", "WholeFileReader"),
        make_node("read", "ReaderRead", "reader", "queue"),
        make_node("table", "HashTable", key_dtype=tf.string, value_dtype=tf.int64),
        make_node("fill", "InitializeTable", "table", "keys", "values", Tkey=tf.string, Tval=tf.int64),
        make_node("found", "LookupTableFind", "table", "asked", "other", Tin=tf.string, Tout=tf.int64),
    ]
    inputs = {
        "file": str(tmp_path / "text"), "keys": ["a", "b"], "values": np.array([5, 6]), "asked": ["b", "z"],
        "other": np.int64(-1),
    }  # fmt: skip
    name, text, found = _imported(nodes, ["read:0", "read:1", "found:0"], inputs, "put", "fill")
    assert (name.decode(), text, found.tolist()) == (str(tmp_path / "text"), b"what it says", [6, -1])


@pytest.mark.parametrize(("producer", "dims"), [(10, None), (21, None), (22, ()), (27, ())])
def test_a_placeholder_of_an_older_graph(graph: tf.Graph, producer: int, dims: Any) -> None:
    """A shape of no dimensions was one that is not known."""
    node = make_node("p", "Placeholder", dtype=tf.float32)
    node.attr["shape"].shape.SetInParent()
    graph_def = tf.GraphDef(node=[node])
    graph_def.versions.producer = producer
    [p] = tf.import_graph_def(graph_def, return_elements=["p:0"]) or []
    assert p.shape.dims == (None if dims is None else [])
    assert not graph_def.node[0].attr["shape"].shape.unknown_rank
