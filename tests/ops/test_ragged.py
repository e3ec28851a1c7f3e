"""RaggedTensors by hand: parts, feeding, models; tests/oracle/test_ragged.py has every function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ragged = tf.ragged


@pytest.fixture(autouse=True)
def _graph(graph: Any) -> None: ...


def _run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_rows_are_values_and_splits() -> None:
    rows = tf.RaggedTensor.from_nested_row_splits([1, 2, 3], [[0, 1, 3], [0, 2, 2, 3]])
    assert rows.ragged_rank == 2 and rows.shape.as_list() == [2, None, None] and rows.dtype == tf.int32
    value = _run(rows)
    assert value.to_list() == [[[1, 2]], [[], [3]]] and value.ragged_rank == 2
    assert value.flat_values.tolist() == [1, 2, 3] and value.row_splits.tolist() == [0, 1, 3]
    assert [splits.tolist() for splits in value.nested_row_splits] == [[0, 1, 3], [0, 2, 2, 3]]
    assert value.shape == (2, None, None) and value.values.shape == (3, None)
    assert [x.to_list() for x in _run([rows, rows.values])] == [[[[1, 2]], [[], [3]]], [[1, 2], [], [3]]]


def test_a_placeholder_is_fed_with_a_value() -> None:
    x = ragged.placeholder(tf.float32, 2, [])
    fed = ragged.constant_value([[[1.0], [2.0, 3.0]], []], dtype="float32")
    assert _run(x * 2, {x: fed}).to_list() == [[[2], [4, 6]], []]


def test_bags_of_embeddings_are_trained() -> None:
    table = tf.get_variable("table", initializer=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    bags = ragged.placeholder(tf.int64, 1, [])
    loss = tf.reduce_sum(tf.reduce_mean(tf.nn.embedding_lookup(table, bags), axis=1) * [[1.0], [10.0]])
    (dense,) = tf.gradients(loss, [table])
    feed = {bags: ragged.constant_value([[0, 2], [2]], dtype=np.int64)}
    got = _run([loss, tf.convert_to_tensor(dense)], feed)
    assert got[0] == 21.5
    np.testing.assert_allclose(got[1], [[0.5, 0.5], [0, 0], [10.5, 10.5]])


def test_refusals() -> None:
    a = ragged.constant([[1.0, 2.0], []])
    with pytest.raises(ValueError, match="at one depth"):
        ragged.constant([[1, 2], 3])
    with pytest.raises(ValueError, match="int32 or int64"):
        tf.RaggedTensor.from_row_splits([1], [0.0, 1.0])
    with pytest.raises(ValueError, match="not both"):
        tf.RaggedTensor.from_tensor([[1]], lengths=[1], padding=0)
    with pytest.raises(tf.errors.UnimplementedError, match="keepdims"):
        tf.reduce_sum(a, keepdims=True)
    with pytest.raises(tf.errors.UnimplementedError, match="a step of 2"):
        _ = a[:, ::2]
    with pytest.raises(tf.errors.UnimplementedError, match="only 0"):
        ragged.stack([a, a], axis=1)
    with pytest.raises(ValueError, match="result_type"):
        tf.strings.split(tf.constant(["a b"]), result_type="List")
    with pytest.raises(tf.errors.InvalidArgumentError, match="same row splits"):
        _run(a + ragged.constant([[1.0], [2.0]]))


def test_dense_tensors_beside_ragged_ones(graph: Any) -> None:
    a = tf.ragged.constant([[1, 2], [], [3]])
    deep = tf.ragged.constant([[[1.0, 2.0], [3.0]], [[4.0]]])
    pairs = tf.RaggedTensor.from_row_lengths(np.arange(6.0).reshape(3, 2), [1, 2])
    with tf.Session() as session:
        assert session.run(a + tf.constant([[10], [20], [30]])).to_list() == [[11, 12], [], [33]]
        assert session.run(a * tf.constant([[2]])).to_list() == session.run(a * tf.constant([2])).to_list()
        assert session.run(deep - np.ones((2, 1, 1), "f")).to_list() == [[[0, 1], [2]], [[3]]]
        assert session.run(deep + np.array([[[10.0]], [[20.0]]], "f")).to_list() == [[[11, 12], [13]], [[24]]]
        assert session.run(pairs + tf.constant([10.0, 20.0], tf.float64)).to_list() == [
            [[10, 21]],
            [[12, 23], [14, 25]],
        ]
        shifted = pairs + tf.constant([[[1.0, 2.0]], [[3.0, 4.0]]], tf.float64)
        assert session.run(shifted).to_list() == [[[1, 3]], [[5, 7], [7, 9]]]
        assert session.run(tf.cast(a, tf.float32)).to_list() == [[1.0, 2.0], [], [3.0]]
    for wrong in ([[1, 2], [3, 4], [5, 6]], [1, 2, 3], [[[1]]]):
        with pytest.raises(tf.errors.UnimplementedError, match="size 1 along ragged axes"):
            _ = a + tf.constant(wrong)


def test_parts_that_form_no_ragged_tensor(graph: Any) -> None:
    for splits in ([1, 1, 3], [0, 2, 1, 3], [0, 2], []):
        with pytest.raises(tf.errors.InvalidArgumentError, match="valid RaggedTensor"):
            tf.RaggedTensor.from_row_splits([1, 2, 3], np.array(splits, np.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="valid RaggedTensor"):
        tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 2])
    assert tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2], validate=False).ragged_rank == 1
    with pytest.raises(ValueError, match="inner ragged dimension"):
        _ = tf.ragged.constant([[1], []])[:, 0]
