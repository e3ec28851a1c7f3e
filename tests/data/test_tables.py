"""Tables that a dataset fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

Dataset = tf.data.Dataset


def looked_up(table: Any, keys: Any) -> tuple[list[int], int]:
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return session.run(table.lookup(tf.constant(keys))).tolist(), session.run(table.size())


def pairs() -> Any:
    return Dataset.from_tensor_slices((["a", "b", "c"], np.array([4, 5, 6])))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, [4, -1, 6]),
        ({"default_value": 9}, [4, 9, 6]),
        ({"vocab_size": 2}, [4, -1, -1]),
        ({"num_oov_buckets": 2}, [4, 3, 6]),  # as TensorFlow
    ],
)
def test_pairs(graph: Any, options: Any, found: list[int]) -> None:
    table = tf.data.experimental.table_from_dataset(pairs(), **options)
    size = 3 + options.get("num_oov_buckets", 0) - ("vocab_size" in options)
    assert looked_up(table, ["a", "zz", "c"]) == (found, size)


def test_places(graph: Any) -> None:
    words = Dataset.from_tensor_slices(["a", "b", "c"]).concatenate(Dataset.from_tensors("d"))
    table = tf.data.experimental.index_table_from_dataset(words)
    assert looked_up(table, ["d", "x", "a"]) == ([3, -1, 0], 4)
    numbers = Dataset.from_tensor_slices(np.array([30, 10], np.int64))
    table = tf.data.experimental.index_table_from_dataset(numbers, key_dtype=tf.int64)
    assert looked_up(table, np.array([10, 30, 5])) == ([1, 0, -1], 2)
    assert looked_up(tf.data.experimental.index_table_from_dataset(numbers.take(0)), np.array([10])) == ([-1], 0)


def test_of_what_is_known_when_it_runs(graph: Any) -> None:
    """Words with values of one's own, from a tensor and a generator."""
    count = tf.placeholder_with_default(np.int64(3), [])
    rows = Dataset.range(count).map(lambda i: (tf.as_string(i), tf.cast(i, tf.float32) / 2))
    table = tf.lookup.StaticHashTable(tf.data.experimental.DatasetInitializer(rows), -1.0)
    assert looked_up(table, ["1", "2", "3"]) == ([0.5, 1.0, -1.0], 3)


def test_two_values_of_a_key(graph: Any) -> None:
    table = tf.data.experimental.table_from_dataset(Dataset.from_tensor_slices((["a", "a"], np.array([4, 5]))))
    with pytest.raises(tf.errors.FailedPreconditionError, match="different value for same key"):
        looked_up(table, ["a"])


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda t: t(None), TypeError, r"must be a tf.data.Dataset of keys and values, got None"),
        (lambda t: t(Dataset.range(3)), ValueError, "pairs of a key and a value"),
        (lambda t: t(pairs().batch(2)), ValueError, r"must be scalars, got shapes \(\?,?\)"),
        (lambda t: t(pairs(), num_oov_buckets=-1), ValueError, "greater than or equal to 0, got -1"),
        (lambda t: t(pairs(), vocab_size=0), ValueError, "greater than 0, got 0"),
        (lambda t: t(pairs().map(lambda k, v: (k, k))), ValueError, "`default_value` must be specified"),
        (lambda t: t(pairs().repeat()), ValueError, r"never ends: take\(\) a part"),
    ],
)
def test_refusals(graph: Any, build: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build(tf.data.experimental.table_from_dataset)
