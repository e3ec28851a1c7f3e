"""Functions of tensors, of RaggedTensors; and further methods of these. Values beside TensorFlow's: tests/oracle."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def _ragged() -> Any:
    return tf.ragged.constant([[1, 2], [], [3]])


def test_functions_keep_the_rows(graph: tf.Graph) -> None:
    r = _ragged()
    with tf.Session() as session:
        assert session.run(tf.square(r)).to_list() == [[1, 4], [], [9]]
        assert session.run(tf.add(r, [[10], [20], [30]])).to_list() == [[11, 12], [], [33]]
        assert session.run(tf.subtract(x=r, y=r)).to_list() == [[0, 0], [], [0]]
        assert session.run(tf.stack([r, r], 1)).to_list() == [[[1, 2], [1, 2]], [[], []], [[3], [3]]]
        assert session.run(tf.reverse(r, [-1])).to_list() == [[2, 1], [], [3]]
        words = tf.strings.lower(tf.ragged.constant([["A"], ["B", "C"]]))
        assert session.run(tf.strings.reduce_join(words, axis=1, separator="-", keepdims=True)).tolist() == [
            [b"a"],
            [b"b-c"],
        ]
        assert session.run(tf.strings.to_number(tf.ragged.constant([["1"], []]))).to_list() == [[1.0], []]
        assert session.run(tf.reduce_sum(r, 1, keepdims=True)).tolist() == [[3], [0], [3]]


def test_what_a_ragged_tensor_cannot_be_taken_for_is_refused(graph: tf.Graph) -> None:
    r = _ragged()
    with pytest.raises(tf.errors.UnimplementedError, match="known multiples"):
        tf.tile(r, tf.placeholder(tf.int32, [2]))
    with pytest.raises(ValueError, match="say which axes"):
        tf.squeeze(r)
    with pytest.raises(tf.errors.UnimplementedError, match="axis can be -1"):
        tf.strings.reduce_join(tf.ragged.constant([["a"]]), axis=0)
    with pytest.raises(ValueError, match="takes both x and y"):
        tf.where(r > 1, r)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="axis 1 must be of size 1"):
        session.run(tf.squeeze(r, [1]))


def test_functions_are_mapped_over_rows(graph: tf.Graph) -> None:
    r = _ragged()
    total = tf.map_fn(lambda row: tf.cast(tf.reduce_sum(row), tf.float32), r, dtype=tf.float32)
    fed = tf.ragged.placeholder(tf.float32, 1)
    longest = tf.foldl(lambda most, row: tf.maximum(most, tf.reduce_sum(row)), fed, initializer=0.0)
    with tf.Session() as session:
        assert session.run(total).tolist() == [3.0, 0.0, 3.0] and total.shape.as_list() == [3]
        assert session.run(longest, {fed: tf.ragged.constant_value([[1.0, 1.5], [2.0]], dtype=tf.float32)}) == 2.5


def test_rows_of_one_length_are_known(graph: tf.Graph) -> None:
    uniform = tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2)
    assert uniform.shape.as_list() == [2, 2] and (uniform + 1).shape.as_list() == [2, 2]
    assert _ragged().uniform_row_length is None
    with pytest.raises(ValueError, match="5 values do not make rows of 2 each"):
        tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4, 5], 2)
    with pytest.raises(ValueError, match="4 values do not make 3 rows of 2 each"):
        tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2, nrows=3)
    with pytest.raises(ValueError, match="0 or more"):
        tf.RaggedTensor.from_uniform_row_length([1], -1)


def test_arguments_that_do_not_fit_are_refused(graph: tf.Graph) -> None:
    r = _ragged()
    with pytest.raises(ValueError, match="outer_axis"):
        r.merge_dims(1, 0)
    with pytest.raises(ValueError, match="out of bounds"):
        r.merge_dims(0, 2)
    with pytest.raises(ValueError, match="int32 or int64"):
        r.with_row_splits_dtype(tf.float32)
    with pytest.raises(ValueError, match="nested_nrows"):
        tf.RaggedTensor.from_nested_value_rowids([1], [[0]], [1, 2])
    with pytest.raises(ValueError, match=r"compatible"):
        tf.RaggedTensor.from_nested_value_rowids([1, 2, 3], [[0, 0, 1], [0, 0, 1]], [3, 4])
    with pytest.raises(ValueError, match="must have 2 axes"):
        r.to_tensor(shape=[3])
    for method in (r.numpy, r.to_list):
        with pytest.raises(ValueError, match="no values while the graph is built"):
            method()


def test_a_value_shows_its_rows(graph: tf.Graph) -> None:
    with tf.Session() as session:
        value = session.run(_ragged())
    assert str(value) == "<tf.RaggedTensorValue [[1, 2], [], [3]]>"
    assert repr(value).startswith("tf.RaggedTensorValue(values=array([1, 2, 3]")


def test_splits_are_of_rows_or_of_what_is_even(graph: tf.Graph) -> None:
    r, even = _ragged(), tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    with tf.Session() as session:
        assert [p.to_list() for p in session.run(tf.split(r, 3))] == [[[1, 2]], [[]], [[3]]]
        assert [p.to_list() for p in session.run(tf.split(r, [1, -1]))] == [[[1, 2]], [[], [3]]]
        assert [p.to_list() for p in session.run(tf.split(even, 2, -1))] == [[[[1], [3]], [[5]]], [[[2], [4]], [[6]]]]
        assert session.run(tf.stop_gradient(r)).to_list() == [[1, 2], [], [3]]
    with pytest.raises(ValueError, match="axis 1 is ragged"):
        tf.split(r, 2, axis=1)
    with pytest.raises(TypeError, match=r"give its \.flat_values"):
        tf.cumsum(r, 1)
