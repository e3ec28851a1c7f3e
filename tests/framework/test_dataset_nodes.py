"""Graphs with an input pipeline of TensorFlow's: what it gives is fed here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.attrs import Shape, encode
from tests.conftest import make_node

SHAPES: dict[str, Any] = {"output_types": [tf.float32, tf.int64], "output_shapes": [Shape((None, 2)), Shape((None,))]}


def _pipeline() -> tf.GraphDef:
    """Rows and labels from an iterator that is to be initialized; y is twice the rows."""
    nodes = [
        make_node("rows", "Const", dtype=tf.float32, value=np.zeros((3, 2), np.float32)),
        make_node("slices", "TensorSliceDataset", "rows", "rows", **SHAPES),
        make_node("mapped", "ParallelMapDatasetV2", "slices", **SHAPES),
        make_node("batches", "BatchDatasetV2", "mapped", "rows", **SHAPES),
        make_node("iterator", "IteratorV2", container="", shared_name="", **SHAPES),
        make_node("handle", "IteratorToStringHandle", "iterator"),
        make_node("start", "MakeIterator", "batches", "iterator"),
        make_node("next", "IteratorGetNext", "iterator", **SHAPES),
        make_node("y", "Add", "next", "next", T=tf.float32),
        make_node("labels", "Identity", "next:1", T=tf.int64),
    ]
    nodes[2].attr["f"].func.name = "not_there"
    nodes[0].attr["value"].CopyFrom(encode(np.zeros((3, 2), np.float32)))
    return tf.GraphDef(node=nodes)


def test_what_an_iterator_gives_is_fed(graph: tf.Graph) -> None:
    found = tf.import_graph_def(_pipeline(), return_elements=["y:0", "labels:0", "next:0", "handle:0"], name="") or []
    assert [t.shape.as_list() for t in found[:3]] == [[None, 2], [None], [None, 2]]
    with tf.Session() as session:
        session.run("start")
        values = session.run(found[:2], {"next:0": [[1.0, 2.0]], "next:1": [7]})
        assert [v.tolist() for v in values] == [[[2, 4]], [7]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"You must feed a value for .*next/component_0"):
            session.run("y:0")


def test_or_mapped(graph: tf.Graph) -> None:
    rows = tf.constant([[1.0, 3.0]])
    [y] = tf.import_graph_def(_pipeline(), {"next:0": rows}, ["y:0"]) or []
    with tf.Session() as session:
        assert session.run(y).tolist() == [[2, 6]]


def test_what_datasets_alone_compute_is_not_known(graph: tf.Graph) -> None:
    graph_def = tf.GraphDef(node=[make_node("sum", "ReduceDataset", **SHAPES)])
    with pytest.raises(tf.errors.NotFoundError, match="ReduceDataset"):
        tf.import_graph_def(graph_def)
