"""Look-ups and columns by the names that they have in tf.contrib alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

layers = tf.contrib.layers


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches)


@pytest.mark.parametrize("strategy, parts", [("mod", None), ("mod", 2), ("div", 3)])
def test_each_id_is_looked_up_once(graph: Any, strategy: str, parts: int | None) -> None:
    cut = None if parts is None else tf.fixed_size_partitioner(parts)
    table = tf.get_variable("t", [7, 3], partitioner=cut, initializer=tf.random_normal_initializer(seed=1))
    ids = tf.constant([[3, 1, 3], [6, 6, 0]])
    found = layers.embedding_lookup_unique(table, ids, strategy)
    assert found.shape.as_list() == [2, 3, 3]
    taken, plain = run([found, tf.nn.embedding_lookup(table, ids, strategy)])
    np.testing.assert_array_equal(taken, plain)


def test_bags_without_ids_are_zeros(graph: Any) -> None:
    table = tf.get_variable("t", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, -1], tf.int64), [3, 2])
    mean, total, first = run(
        [
            layers.safe_embedding_lookup_sparse([table], ids),
            layers.safe_embedding_lookup_sparse(table, ids, combiner="sum"),
            layers.safe_embedding_lookup_sparse(table, ids, None, "sum", 2),
        ]
    )
    assert mean.tolist() == [[4, 5], [0, 0], [0, 0]] and total.tolist() == [[8, 10], [0, 0], [0, 0]]
    assert first.tolist() == [[8, 10], [4, 5], [4, 5]]


def test_a_linear_model_of_examples(graph: Any) -> None:
    color, age = layers.sparse_column_with_keys("color", ["red", "blue"]), layers.real_valued_column("age")
    made = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "color": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word])),
                    "age": tf.train.Feature(float_list=tf.train.FloatList(value=[number])),
                }
            )
        ).SerializeToString()
        for word, number in ((b"blue", 2.0), (b"green", 3.0))
    ]
    features = layers.parse_feature_columns_from_examples(made, [color, age])
    found, held, bias = layers.weighted_sum_from_feature_columns(features, [color, age], 2, scope="wide")
    assert set(held) == {color, age} and bias.op.name == "wide/linear_model/bias_weights"
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        held[color][0].load([[1, 2], [10, 20]], session)
        held[age][0].load([[0.5, 1]], session)
        bias.load([100, 200], session)
        assert session.run(found).tolist() == [[111, 222], [101.5, 203]]


def test_columns_of_one_table(graph: Any) -> None:
    columns = [layers.sparse_column_with_integerized_feature(name, 5) for name in ("a", "b")]
    shared = layers.shared_embedding_columns(columns, 3, shared_embedding_name="both")
    ids = {"a": tf.constant([[1], [2]], tf.int64), "b": tf.constant([[2], [1]], tf.int64)}
    rows = run(layers.input_from_feature_columns(ids, shared))
    assert len(tf.global_variables()) == 1
    np.testing.assert_array_equal(rows[0, :3], rows[1, 3:])


def test_what_an_example_has_once_beside_its_steps(graph: Any) -> None:
    once, steps = tf.constant([[1.0], [2.0]]), tf.placeholder(tf.float32, [2, None, 2])
    both = tf.contrib.feature_column.concatenate_context_input(once, steps)
    with tf.Session() as session:
        found = session.run(both, {steps: np.zeros((2, 3, 2))})
    assert both.shape.as_list() == [2, None, 3] and found[:, :, 2].tolist() == [[1, 1, 1], [2, 2, 2]]
    with pytest.raises(ValueError, match="sequence_input must have 3 dimensions"):
        tf.contrib.feature_column.concatenate_context_input(once, once)


def test_bags_of_words(graph: Any) -> None:
    """Ids of 0 are no words, and where there is none the row of 0 stands: as TensorFlow 1 has it."""
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    start = tf.constant_initializer(table)
    ids = tf.constant([[1, 0, 3], [0, 0, 0]], tf.int64)
    sparse = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, 0], tf.int64), [1, 2])
    words = layers.bow_encoder(ids, 4, 2, initializer=start, scope="bow")
    every = layers.bow_encoder(ids, 4, 2, False, scope="bow", reuse=True)
    given = layers.bow_encoder(sparse, 4, 2, scope="bow", reuse=True)
    assert [v.op.name for v in tf.model_variables()] == ["bow/embeddings"]
    found = run([words, every, given])
    np.testing.assert_allclose(found[0], [table[[1, 3]].mean(0), table[0]])
    np.testing.assert_allclose(found[1], [table[[1, 0, 3]].mean(0), table[0]])
    np.testing.assert_allclose(found[2], [table[[0, 1]].mean(0)])
    with pytest.raises(TypeError, match="bow_encoder: ids must be a dense Tensor"):
        layers.bow_encoder(sparse, 4, 2, False)
