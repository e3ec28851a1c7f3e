"""tf.keras.layers.DenseFeatures. Values and names are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

fc = tf.feature_column
pytestmark = pytest.mark.usefixtures("graph")


def columns() -> list[Any]:
    ids = fc.categorical_column_with_identity("c", 3)
    table = tf.constant_initializer(np.arange(6).reshape(3, 2))
    return [fc.numeric_column("n"), fc.embedding_column(ids, 2, initializer=table), fc.indicator_column(ids)]


def features() -> dict[str, Any]:
    sparse = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant([2, 0, 1], tf.int64), [2, 2])
    return {"n": tf.constant([[7.0], [8.0]]), "c": sparse}


def test_columns_in_the_order_of_their_names_with_one_table() -> None:
    layer, parts = tf.keras.layers.DenseFeatures(columns()), dict[Any, Any]()
    first, second = layer(features(), cols_to_output_tensors=parts), layer(features())
    assert [v.name for v in tf.global_variables()] == ["dense_features/c_embedding/embedding_weights:0"]
    assert layer.weights == layer.trainable_weights == tf.trainable_variables() and first.shape[1] == 6
    step = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(first))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wanted = [[4, 5, 0, 0, 1, 7], [1, 2, 1, 1, 0, 8]]
        assert session.run(first).tolist() == session.run(second).tolist() == wanted
        assert {c.name: v.shape for c, v in session.run(parts).items()}["c_indicator"] == (2, 3)
        session.run(step)
        assert session.run(second)[:, :2].tolist() == [[3, 4], [0.5, 1.5]]


def test_one_that_is_not_trained() -> None:
    layer = tf.keras.layers.DenseFeatures(columns(), trainable=False, name="enc")
    layer(features())
    assert [v.name for v in layer.non_trainable_weights] == ["enc/c_embedding/embedding_weights:0"]
    assert not tf.trainable_variables() and not layer.trainable_weights


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="wrap 'c', a categorical one"):
        tf.keras.layers.DenseFeatures([fc.categorical_column_with_identity("c", 3)])
    with pytest.raises(ValueError, match="DenseFeatures: 's' is a column of sequences"):
        tf.keras.layers.DenseFeatures([tf.contrib.feature_column.sequence_numeric_column("s")])


def test_columns_of_sequences_with_one_table() -> None:
    ids = fc.sequence_categorical_column_with_identity("c", 3)
    table = tf.constant_initializer(np.arange(6).reshape(3, 2))
    layer = tf.keras.experimental.SequenceFeatures(
        [fc.sequence_numeric_column("n"), fc.embedding_column(ids, 2, initializer=table)]
    )
    where = [[0, 0], [1, 0], [1, 1]]
    given = {
        "n": tf.SparseTensor(where, [7.0, 8.0, 9.0], [2, 2]),
        "c": tf.SparseTensor(where, tf.constant([2, 0, 1], tf.int64), [2, 2]),
    }
    (found, lengths), (again, _) = layer(given), layer(given)
    assert [v.name for v in tf.global_variables()] == ["sequence_features/c_embedding/embedding_weights:0"]
    assert layer.trainable_weights == tf.trainable_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(lengths).tolist() == [1, 2]
        wanted = [[[4, 5, 7], [0, 0, 0]], [[0, 1, 8], [2, 3, 9]]]
        assert session.run(found).tolist() == session.run(again).tolist() == wanted
    with pytest.raises(ValueError, match="must be dense columns of sequences: 'n'"):
        tf.keras.experimental.SequenceFeatures([fc.numeric_column("n")])
