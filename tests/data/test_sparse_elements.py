"""Datasets whose elements have SparseTensors: parsed features of any length, batched, mapped and given out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError

ROWS = [[1, 2, 3], [], [7], [4, 4, 4, 4, 9]]
SPEC = {
    "ids": tf.VarLenFeature(tf.int64),
    "words": tf.VarLenFeature(tf.string),
    "y": tf.FixedLenFeature([], tf.float32),
}


def messages() -> list[bytes]:
    def one(i: int, ids: list[int]) -> bytes:
        words = [b"w%d" % k for k in ids[:2]]
        feature = {
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
            "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
            "y": tf.train.Feature(float_list=tf.train.FloatList(value=[float(i)])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    return [one(i, ids) for i, ids in enumerate(ROWS)]


def first(dataset: Any, count: int = 1) -> list[Any]:
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        return [session.run(following) for _ in range(count)]


def by_one() -> Any:
    return tf.data.Dataset.from_tensor_slices(messages()).map(lambda m: tf.parse_single_example(m, SPEC))


def by_batch() -> Any:
    return tf.data.Dataset.from_tensor_slices(messages()).batch(3).map(lambda m: tf.parse_example(m, SPEC))


def same(a: Any, b: Any) -> None:
    for one, other in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


def test_a_batch_of_parsed_messages_is_the_parsed_batch() -> None:
    with tf.Graph().as_default():
        one, many = first(by_one().batch(3), 2), first(by_batch(), 2)
    same(one, many)
    assert one[0]["ids"].indices.tolist() == [[0, 0], [0, 1], [0, 2], [2, 0]]
    assert one[0]["ids"].dense_shape.tolist() == [3, 3] and one[1]["ids"].dense_shape.tolist() == [1, 5]
    assert one[1]["words"].values.tolist() == [b"w4", b"w4"]


def test_what_they_are() -> None:
    with tf.Graph().as_default():
        dataset = by_one()
        assert dataset.output_classes == {"ids": tf.SparseTensor, "words": tf.SparseTensor, "y": tf.Tensor}
        assert dataset.output_types == {"ids": tf.int64, "words": tf.string, "y": tf.float32}
        assert dataset.output_shapes["ids"].as_list() == [None] and dataset.batch(2).output_shapes["ids"].ndims == 2
        found = dataset.batch(2).make_one_shot_iterator().get_next()
        assert isinstance(found["ids"], tf.SparseTensor) and found["ids"].shape.ndims == 2


def test_functions_take_and_give_them() -> None:
    with tf.Graph().as_default():
        dataset = by_one().shuffle(1).repeat(2).filter(lambda d: tf.size(d["ids"].values) > 0)
        dataset = dataset.map(lambda d: (tf.sparse_tensor_to_dense(d["ids"]) * 2, d["ids"], d["y"]))
        dense, sparse, y = first(dataset.prefetch(1))[0]
        assert dense.tolist() == [2, 4, 6] and sparse.values.tolist() == [1, 2, 3] and y == 0
        pairs = by_one().skip(2).map(lambda d: (d["y"], d["ids"], d["y"])).batch(2)
        (_, ids, ys), number = first(tf.data.Dataset.zip((pairs, tf.data.Dataset.range(9))))[0]
        assert ids.dense_shape.tolist() == [2, 5] and ys.tolist() == [2, 3] and number == 0


def test_iterators_of_their_kind() -> None:
    with tf.Graph().as_default():
        dataset = by_batch()
        iterator = tf.data.Iterator.from_structure(
            dataset.output_types, dataset.output_shapes, output_classes=dataset.output_classes
        )
        following, begin = iterator.get_next(), iterator.make_initializer(dataset)
        with tf.Session() as session:
            session.run(begin)
            assert session.run(following)["ids"].values.tolist() == [1, 2, 3, 7]


def test_feature_columns_take_them() -> None:
    with tf.Graph().as_default():
        features = by_batch().make_one_shot_iterator().get_next()
        column = tf.feature_column.categorical_column_with_identity("ids", 10)
        table = tf.feature_column.input_layer(features, [tf.feature_column.indicator_column(column)])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(table).sum(1).tolist() == [3, 0, 1]


def test_what_is_refused() -> None:
    with tf.Graph().as_default():
        for call in (lambda d: d.padded_batch(2), lambda d: d.unbatch()):
            with pytest.raises(TypeError, match="sparse_tensor_to_dense"):
                call(by_one())

        def of_rank(n: Any) -> Any:
            places = tf.zeros([1, n + 1], tf.int64)
            return tf.SparseTensor(places, [1.0], tf.ones([n + 1], tf.int64))

        uneven = tf.data.Dataset.range(2).map(of_rank).batch(2)
        with pytest.raises(InvalidArgumentError, match="different ranks"):
            first(uneven)


def test_messages_of_a_batch_are_parsed_at_once() -> None:
    with tf.Graph().as_default():
        assert by_one()._step is not None
        doubled = by_one().map(lambda d: d["ids"])
        assert doubled._step is None and first(doubled.batch(4))[0].dense_shape.tolist() == [4, 5]
        raw = tf.data.Dataset.from_tensor_slices(messages())
        mixed = raw.map(lambda m: (tf.parse_single_example(m, SPEC)["ids"], tf.strings.length(m)))
        ids, lengths = first(mixed.batch(2))[0]
        assert ids.values.tolist() == [1, 2, 3] and lengths.tolist() == [len(m) for m in messages()[:2]]
        used = raw.map(lambda m: tf.size(tf.parse_single_example(m, SPEC)["ids"].values))
        assert used._step is None and first(used.batch(4))[0].tolist() == [3, 0, 1, 5]


def test_a_wrong_message_of_a_batch_is_named() -> None:
    with tf.Graph().as_default():
        raw = tf.data.Dataset.from_tensor_slices([*messages(), b"\xff"])
        parsed = raw.map(lambda m: tf.parse_single_example(m, SPEC)).batch(8)
        with pytest.raises(InvalidArgumentError, match="Could not parse"):
            first(parsed)
