"""Ops of TensorFlow 2 for which import puts others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.conftest import make_node

VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)


def _const(name: str, value: Any) -> Any:
    array = np.asarray(value)
    return make_node(name, "Const", dtype=tf.as_dtype(array.dtype), value=array)


def _dense(shape: Any, kinds: Sequence[str], *parts: Any) -> tf.GraphDef:
    """RaggedTensorToTensor of the values, filled up with -1."""
    names = [f"part{i}" for i in range(len(parts))]
    inputs = ["shape", "values", "filling", *names]
    types = {"T": tf.float32, "Tindex": tf.int64, "Tshape": tf.int64, "num_row_partition_tensors": len(parts)}
    return tf.GraphDef(
        node=[
            _const("shape", np.array(shape, np.int64)),
            _const("values", VALUES),
            _const("filling", np.float32(-1).reshape(())),
            *(_const(name, np.array(part, np.int64)) for name, part in zip(names, parts)),
            make_node("dense", "RaggedTensorToTensor", *inputs, row_partition_types=list(kinds), **types),
        ]
    )


SPLITS, ROWS = ["ROW_SPLITS"], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]
CASES = [
    (-1, SPLITS, ([0, 2, 2, 5],), [[1, 2, -1], [-1, -1, -1], [3, 4, 5]]),
    (-1, ROWS, (4, [0, 0, 2, 2, 2]), [[1, 2, -1], [-1, -1, -1], [3, 4, 5], [-1, -1, -1]]),
    ([-1, 2], SPLITS, ([0, 2, 2, 5],), [[1, 2], [-1, -1], [3, 4]]),
    ([2, 4], SPLITS, ([0, 2, 2, 5],), [[1, 2, -1, -1], [-1, -1, -1, -1]]),
    ([4, -1], ROWS, (3, [0, 0, 2, 2, 2]), [[1, 2, -1], [-1, -1, -1], [3, 4, 5], [-1, -1, -1]]),
    ([-1, -1, 1], [*SPLITS, *SPLITS], ([0, 2, 2], [0, 2, 5]), [[[1], [3]], [[-1], [-1]]]),
    (-1, [*ROWS, "VALUE_ROWIDS"], (2, [0, 0], [0, 0, 1, 1, 1]), [[[1, 2, -1], [3, 4, 5]], [[-1] * 3] * 2]),
]


@pytest.mark.parametrize(("shape", "kinds", "parts", "wanted"), CASES)
def test_ragged_rows_are_made_dense(graph: tf.Graph, shape: Any, kinds: Any, parts: Any, wanted: Any) -> None:
    """In a shape that a node says, or that is computed."""
    for computed in [False] if np.ndim(shape) == 0 else [False, True]:
        values = tf.constant(VALUES)
        mapped = {"values": values}
        if computed:
            mapped["shape"] = tf.placeholder_with_default(np.array(shape, np.int64), np.shape(shape))
        [dense] = tf.import_graph_def(_dense(shape, kinds, *parts), mapped, ["dense:0"]) or []
        with tf.Session() as session:
            assert session.run(dense).tolist() == wanted
            kept = sorted(v for v in np.ravel(wanted) if v > 0)
            slope = session.run(tf.gradients(dense * dense, values)[0])
        assert slope.tolist() == [2 * v if v in kept else 0 for v in VALUES]


def test_rows_of_another_kind_are_refused(graph: tf.Graph) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="'dense' has rows by ROW_LIMITS"):
        tf.import_graph_def(_dense(-1, ["ROW_LIMITS"], [2, 5]))


@pytest.mark.parametrize("in_function", [False, True])
def test_draws_by_key_and_counter_are_those_of_the_seed(graph: tf.Graph, in_function: bool) -> None:
    inputs = ["shape:output:0", "k:key:0", "k:counter:0", "alg:alg:0"] if in_function else ["shape", "k", "k:1", "alg"]
    nodes = [
        _const("shape", np.array([4], np.int32)),
        make_node("k", "StatelessRandomGetKeyCounter", "seed", Tseed=tf.int32),
        make_node("alg", "StatelessRandomGetAlg"),
        make_node("drawn", "StatelessRandomUniformV2", *inputs, Tshape=tf.int32),
    ]
    graph_def = tf.GraphDef(node=[_const("seed", np.array([2, 3], np.int32))])
    if in_function:
        function = graph_def.library.function.add(node_def=nodes, ret={"out": "drawn:output:0"})
        function.signature.name = "Draw"
        function.signature.input_arg.add(name="seed", type=tf.int32.as_datatype_enum)
        function.signature.output_arg.add(name="out", type=tf.float32.as_datatype_enum)
        graph_def.node.add(name="drawn", op="Draw", input=["seed"])
    else:
        graph_def.node.extend(nodes)
    [drawn] = tf.import_graph_def(graph_def, return_elements=["drawn:0"]) or []
    with tf.Session() as session:
        found, wanted = session.run([drawn, tf.random.stateless_uniform([4], [2, 3])])
    assert found.tolist() == wanted.tolist() and len(set(found)) == 4


def test_another_generator_is_refused(graph: tf.Graph) -> None:
    nodes = [
        _const("shape", np.array([4], np.int32)),
        _const("seed", np.array([2, 3], np.int32)),
        _const("alg", np.array(2, np.int32)),
        make_node("k", "StatelessRandomGetKeyCounter", "seed", Tseed=tf.int32),
        make_node("drawn", "StatelessRandomNormalV2", "shape", "k", "k:1", "alg", Tshape=tf.int32, dtype=tf.float32),
    ]
    with pytest.raises(tf.errors.UnimplementedError, match="'drawn' draws by algorithm 2"):
        tf.import_graph_def(tf.GraphDef(node=nodes))
