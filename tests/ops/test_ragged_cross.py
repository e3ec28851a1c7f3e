"""Products of the features of rows of different lengths."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def _both(inputs: Any, **given: Any) -> list[Any]:
    with tf.Session() as session:
        return [x.to_list() for x in session.run([tf.ragged.cross(inputs), tf.ragged.cross_hashed(inputs, **given)])]


def test_products(graph: Any) -> None:
    left, right = tf.ragged.constant([["a"], ["b", "c"], []]), [["d"], ["e"], ["f"]]
    joined, hashed = _both([left, right], num_buckets=100)
    assert joined == [[b"a_X_d"], [b"b_X_e", b"c_X_e"], []]
    assert hashed[0] == [82] and [len(row) for row in hashed] == [1, 2, 0]  # TensorFlow's
    assert tf.ragged.cross([left, right]).shape.as_list() == [3, None]


def test_inputs_keep_their_order(graph: Any) -> None:
    sparse = tf.SparseTensor([[0, 1]], [7], [1, 3])
    inputs = [tf.constant([["x", ""]]), tf.ragged.constant([["a"]]), sparse]
    assert _both(inputs)[0] == [[b"x_X_a_X_7", b"_X_a_X_7"]]


def test_row_splits(graph: Any) -> None:
    small = tf.ragged.constant([[1]], row_splits_dtype=tf.int32)
    for others, wanted in (([[["a"]]], tf.int32), ([tf.ragged.constant([["a"]])], tf.int64), ([], tf.int32)):
        assert tf.ragged.cross([small, *others]).row_splits.dtype == wanted
    assert _both([]) == [[], []]


def test_what_cannot_be_crossed(graph: Any) -> None:
    ragged = tf.ragged.constant([["a"], ["b"]])
    for inputs, text in (
        ([ragged, [["a"]]], "equally many rows"), ([["a", "b"]], "rank 2, got 1"), ([[[0.5]]], "got float32"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            tf.ragged.cross(inputs)
    with pytest.raises(ValueError, match="negative, got -1"):
        tf.ragged.cross_hashed([ragged], -1)
    with pytest.raises(TypeError, match="must be a list"):
        tf.ragged.cross(ragged)
