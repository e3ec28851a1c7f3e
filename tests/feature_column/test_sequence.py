"""Columns of sequences, by hand; tests with TensorFlow 1.15 gave the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

fc = tf.feature_column
layer = tf.contrib.feature_column.sequence_input_layer


def _sparse(rows: list[list[Any]], dtype: Any) -> Any:
    where = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    return tf.SparseTensor(
        where, tf.constant([v for row in rows for v in row], dtype), [len(rows), max(map(len, rows))]
    )


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches)


@pytest.fixture(autouse=True)
def _graph(graph: Any) -> None: ...


def test_steps_of_all_kinds_beside_one_another() -> None:
    features = {
        "id": _sparse([[0, 2], [], [1]], tf.int64),
        "word": _sparse([["x", "q"], [], ["z"]], tf.string),
        "x": _sparse([[1, 2, 3, 4], [], [5, 6]], tf.float32),
    }
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ids = fc.sequence_categorical_column_with_identity("id", 3)
    words = fc.sequence_categorical_column_with_vocabulary_list("word", ["x", "z"], num_oov_buckets=1)
    columns = [
        fc.embedding_column(ids, 2, initializer=lambda shape, dtype, **_: tf.constant(table, dtype)),
        fc.indicator_column(words),
        fc.sequence_numeric_column("x", shape=[2]),
    ]
    out, lengths = layer(features, columns)
    assert [v.op.name for v in tf.global_variables()] == ["sequence_input_layer/id_embedding/embedding_weights"]
    values, steps = _run([out, lengths])
    assert steps.tolist() == [2, 0, 1] and out.shape.as_list() == [3, 2, 7]
    assert values[0].tolist() == [[1, 2, 1, 0, 0, 1, 2], [5, 6, 0, 0, 1, 3, 4]]
    assert not values[1].any() and values[2, 0].tolist() == [3, 4, 0, 1, 0, 5, 6] and not values[2, 1].any()


def test_a_bag_for_each_step() -> None:
    bags = tf.SparseTensor([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]], tf.constant([0, 1, 2, 2], tf.int64), [2, 2, 2])
    ids = fc.sequence_categorical_column_with_identity("id", 3)
    table = fc.embedding_column(ids, 1, "sum", initializer=lambda *_, **__: tf.constant([[1.0], [10.0], [100.0]]))
    out, lengths = layer({"id": bags}, [table])
    values, steps = _run([out, lengths])
    assert values[..., 0].tolist() == [[11, 100], [100, 0]] and steps.tolist() == [2, 1]


def test_refusals() -> None:
    ids = fc.sequence_categorical_column_with_identity("id", 3)
    features = {"id": _sparse([[0, 2]], tf.int64), "x": _sparse([[1.0]], tf.float32)}
    with pytest.raises(ValueError, match="use sequence_input_layer"):
        fc.input_layer(features, fc.indicator_column(ids))
    with pytest.raises(ValueError, match="must be dense columns of sequences"):
        layer(features, [fc.numeric_column("x")])
    with pytest.raises(ValueError, match="must be dense columns of sequences"):
        layer(features, [ids])
    _, lengths = layer(features, [fc.indicator_column(ids), fc.sequence_numeric_column("x")])
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(lengths)
    with pytest.raises(ValueError, match="must be a SparseTensor"):
        layer({"x": tf.ones([2, 2])}, [fc.sequence_numeric_column("x")])


def test_lookups_of_more_axes_combine_the_last() -> None:
    ids = tf.SparseTensor([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1]], tf.constant([1, 0, 2, -1], tf.int64), [2, 2, 2])
    weights = tf.SparseTensor(ids.indices, [1.0, 3.0, 1.0, 1.0], ids.dense_shape)
    out = tf.nn.safe_embedding_lookup_sparse([tf.constant([[1.0], [2.0], [5.0]])], ids, weights, combiner="mean")
    assert out.shape.as_list() == [2, 2, 1]
    np.testing.assert_allclose(_run(out)[..., 0], [[2, 2], [0, 0]])
