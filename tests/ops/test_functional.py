"""Shapes and refusals of map_fn, scan and the folds. Values: test_control_flow_programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


def test_static_shapes(graph: Graph) -> None:
    known, unknown = tf.zeros([3, 2]), tf.placeholder(tf.float32, [None, 2])
    assert tf.map_fn(lambda r: r[:1], known).shape.as_list() == [3, 1]
    assert tf.map_fn(lambda r: r, unknown).shape.as_list() == [None, 2]
    assert tf.scan(lambda a, r: a + r, known).shape.as_list() == [3, 2]
    assert tf.foldr(lambda a, r: a + r, known).shape.as_list() == [2]


def test_the_types_by_either_name(graph: Graph) -> None:
    halves = tf.map_fn(lambda i: tf.cast(i, tf.float32) / 2, tf.constant([1, 2]), fn_output_signature=tf.float32)
    with tf.Session() as session:
        assert session.run(halves).tolist() == [0.5, 1.0]


def test_no_rows(graph: Graph) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    outs = [tf.map_fn(lambda r: r * 2.0, x), tf.foldl(lambda a, r: a + r, x, initializer=tf.ones([2]))]
    with tf.Session() as session:
        mapped, folded = session.run(outs, {x: np.zeros([0, 2])})
    assert mapped.shape == (0, 2) and folded.tolist() == [1, 1]


def test_rows_of_dicts(graph: Graph) -> None:
    rows = {"a": tf.constant([1, 2]), "b": tf.constant([3, 4])}
    out = tf.map_fn(lambda d: {"sum": d["a"] + d["b"]}, rows, dtype={"sum": tf.int32})
    with tf.Session() as session:
        assert session.run(out)["sum"].tolist() == [4, 6]


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: tf.map_fn(1, [1]), TypeError, "fn must be callable"),
        (lambda: tf.map_fn(lambda x: x, 1.0), ValueError, "not scalars"),
        (lambda: tf.map_fn(lambda x: x, []), ValueError, "no tensors"),
        (lambda: tf.map_fn(lambda x: (x, x), tf.ones([1])), ValueError, "same nested structure"),
        (
            lambda: tf.map_fn(lambda x: x[0], (tf.ones([1]), tf.ones([2]))),
            tf.errors.InvalidArgumentError,
            "not compatible",
        ),
        (lambda: tf.scan(lambda a, x: (a, a), tf.ones([2])), ValueError, "same nested structure"),
    ],
)
def test_refusals(graph: Graph, make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_vectorized_map_finds_types_itself(graph: Any) -> None:
    x = tf.constant(np.arange(6.0).reshape(3, 2))
    squares = tf.vectorized_map(lambda row: tf.reduce_sum(row * row), x)
    pairs = tf.vectorized_map(lambda t: {"n": tf.to_int32(t[0]), "o": t[0][:, None] * t[1][None]}, (x, x))
    assert squares.shape.as_list() == [3] and pairs["o"].shape.as_list() == [3, 2, 2]
    with tf.Session() as session:
        found, both, slope = session.run([squares, pairs, tf.gradients(squares, x)[0]])
    rows = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(found, (rows**2).sum(1))
    np.testing.assert_array_equal(both["n"], rows.astype(np.int32))
    np.testing.assert_allclose(both["o"], rows[:, :, None] * rows[:, None])
    np.testing.assert_allclose(slope, 2 * rows)


def test_rows_that_differ_in_size(graph: tf.Graph) -> None:
    x, rows = tf.placeholder(tf.int32, [None]), tf.RaggedTensorSpec([None], tf.int32)
    counted = tf.map_fn(tf.range, x, fn_output_signature=rows)
    both = tf.map_fn(lambda n: {"to": tf.range(n), "n": n}, x, fn_output_signature={"to": rows, "n": tf.int32})
    nested = tf.map_fn(tf.ragged.range, counted, fn_output_signature=tf.RaggedTensorSpec([None, None], tf.int32))
    with tf.Session() as session:
        assert session.run(counted, {x: [2, 0, 3]}).to_list() == [[0, 1], [], [0, 1, 2]]
        assert session.run(counted, {x: []}).to_list() == []
        assert session.run(both["to"], {x: [1]}).to_list() == [[0]]
        assert session.run(nested, {x: [3, 0]}).to_list() == [[[], [0], [0, 1]], []]
    with pytest.raises(ValueError, match="of ragged_rank 0, and the RaggedTensorSpec of rows says 1"):
        tf.map_fn(tf.range, x, fn_output_signature=tf.RaggedTensorSpec([None, None], tf.int32))


def test_a_map_of_a_ragged_tensors_rows_is_ragged(graph: tf.Graph) -> None:
    flat = tf.placeholder(tf.float32, [None])
    ragged = tf.RaggedTensor.from_row_splits(flat, [0, 2, 2, 3])
    squares = tf.map_fn(lambda row: row * row, ragged)
    with tf.Session() as session:
        found, slopes = session.run([squares, tf.gradients(squares.flat_values, flat)[0]], {flat: [1, 2, 3]})
    assert found.to_list() == [[1, 4], [], [9]] and slopes.tolist() == [2, 4, 6]
