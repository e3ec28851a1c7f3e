"""Datasets whose elements have RaggedTensors: batches of arrays of any size, batches and rows of ragged ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def listed(dataset: Any) -> list[Any]:
    """The elements, RaggedTensors and arrays as lists."""
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    found: list[Any] = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return [_plain(one) for one in found]


def _plain(value: Any) -> Any:
    if hasattr(value, "to_list"):
        return value.to_list()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else np.asarray(value).tolist()


def of_lengths() -> Any:
    return tf.data.Dataset.range(4).map(lambda x: tf.fill([x], x))


def test_arrays_of_different_sizes_are_a_ragged_batch(graph: tf.Graph) -> None:
    for batches in (of_lengths().ragged_batch(3), of_lengths().apply(tf.data.experimental.dense_to_ragged_batch(3))):
        assert listed(batches) == [[[], [1], [2, 2]], [[3, 3, 3]]]
    assert batches.output_shapes.as_list() == [None, None] and batches.output_types == tf.int64
    assert batches.output_classes is tf.RaggedTensor and batches.element_spec.ragged_rank == 1


def test_what_has_a_fixed_size_stays_dense(graph: tf.Graph) -> None:
    rows = tf.data.Dataset.range(4).map(lambda x: {"n": x, "v": tf.fill([x, 2], "a"), "w": tf.zeros([2, x])})
    batches = rows.ragged_batch(2, drop_remainder=True, row_splits_dtype=tf.int32)
    spec = batches.element_spec
    assert spec["n"].shape.as_list() == [2] and spec["v"].shape.as_list() == [2, None, 2]
    assert spec["w"].ragged_rank == 2 and spec["w"].row_splits_dtype == tf.int32
    first, second = listed(batches)
    assert first == {"n": [0, 1], "v": [[], [[b"a", b"a"]]], "w": [[[], []], [[0.0], [0.0]]]}
    assert second["n"] == [2, 3] and second["w"][1] == [[0.0] * 3] * 2


def test_ragged_elements_are_batched_to_one_axis_more(graph: tf.Graph) -> None:
    ragged = tf.data.Dataset.range(3).map(lambda x: (x, tf.ragged.range([x, 1])))
    assert listed(ragged.batch(2)) == [
        ([0, 1], [[[], [0]], [[0], [0]]]),
        ([2], [[[0, 1], [0]]]),
    ]
    assert ragged.batch(2).output_shapes[1].as_list() == [None, None, None]


def test_rows_of_ragged_tensors_are_elements(graph: tf.Graph) -> None:
    deep = tf.ragged.constant([[[1, 2], []], [], [[3], [4, 5]]])
    dataset = tf.data.Dataset.from_tensor_slices((deep, [7, 8, 9]))
    assert listed(dataset) == [([[1, 2], []], 7), ([], 8), ([[3], [4, 5]], 9)]
    flat = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([["a"], [], ["b", "c"]]))
    assert flat.output_shapes.as_list() == [None] and listed(flat) == [[b"a"], [], [b"b", b"c"]]
    assert listed(flat.ragged_batch(3)) == [[[b"a"], [], [b"b", b"c"]]]
    one = tf.data.Dataset.from_tensors(deep)
    assert listed(one.map(lambda r: tf.reduce_sum(r, 2))) == [[[3, 0], [], [3, 9]]]


def test_rows_of_a_sparse_tensor_come_in_parts(graph: tf.Graph) -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1, 2], [2, 3])
    assert listed(tf.data.Dataset.from_sparse_tensor_slices(sparse)) == [([[0]], [1], [3]), ([[2]], [2], [3])]
    with pytest.raises(TypeError, match="must be a SparseTensor"):
        tf.data.Dataset.from_sparse_tensor_slices([1])


def test_what_cannot_be_ragged_is_refused(graph: tf.Graph) -> None:
    sparse = tf.data.Dataset.from_tensor_slices(tf.SparseTensor([[0, 0]], [1], [2, 3]))
    with pytest.raises(TypeError, match="no SparseTensors"):
        sparse.ragged_batch(2)
    with pytest.raises(ValueError, match="int32 or int64"):
        tf.data.experimental.dense_to_ragged_batch(2, row_splits_dtype=tf.float32)
    with pytest.raises(TypeError, match="to_tensor"):
        of_lengths().ragged_batch(2).padded_batch(2)


def test_a_snapshot_can_be_a_method(graph: tf.Graph, tmp_path: Any) -> None:
    kept = tf.data.Dataset.range(3).snapshot(str(tmp_path))
    assert listed(kept) == [0, 1, 2] == listed(kept) and list(tmp_path.iterdir())
