"""Crosses and buckets: the loop and its numpy version, rows of one category each and of several."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import feature


def test_both_versions_of_joined_hashes() -> None:
    drawn = np.random.default_rng(1)
    more = drawn.integers(0, 2**64, 50, np.uint64, endpoint=False)
    found = []
    for loop in (feature.join_hashes.compile(), feature.join_hashes.numpy):
        found.append(np.arange(50, dtype=np.uint64) * np.uint64(2**58 + 1))
        loop(found[-1], more)
    assert found[0].tobytes() == found[1].tobytes()
    assert len({*found[0].tolist()}) == 50


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_cross_of_single_categories_is_that_of_bags(rows: int) -> None:
    """A row more that has two of one leaves the others as they are."""
    words, numbers = np.array([b"w%d" % i for i in range(rows)], object)[:, None], np.arange(rows)[:, None]
    one = tf.placeholder(tf.string, [None, 1]), tf.placeholder(tf.int64, [None, 1])
    bags = tf.sparse_placeholder(tf.string), tf.sparse_placeholder(tf.int64)
    at = np.stack([np.arange(rows), np.zeros(rows, int)], 1)
    more = np.concatenate([at, [[rows, 0], [rows, 1]]])
    with tf.Session() as session:
        single = session.run(
            [tf.sparse.cross_hashed(one, 1000), tf.sparse.cross(one)], {one[0]: words, one[1]: numbers}
        )
        texts = np.array([*words[:, 0], b"x", b"y"], object)
        fed = {bags[0]: (more, texts, [rows + 1, 2]), bags[1]: (more[:-1], np.arange(rows + 1), [rows + 1, 1])}
        several = session.run([tf.sparse.cross_hashed(bags, 1000), tf.sparse.cross(bags)], fed)
    for alone, among in zip(single, several):
        assert alone.dense_shape.tolist() == [rows, min(rows, 1)]
        assert alone.indices.tolist() == at.tolist()
        assert alone.values.tolist() == among.values.tolist()[:rows]


def test_boundaries_that_do_not_ascend_are_said_when_they_are_used() -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.Session() as session:
        assert session.run(tf.raw_ops.Bucketize(input=x, boundaries=[1.0, 2.0]), {x: [0.5, 1, 3]}).tolist() == [0, 1, 2]
        wrong = tf.raw_ops.Bucketize(input=x, boundaries=[2.0, 1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected sorted boundaries"):
            session.run(wrong, {x: [1.0]})
