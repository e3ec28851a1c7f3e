"""Crosses and buckets: the loop and its numpy version, rows of one category each and of several."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import cross_loops, feature


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_both_versions_of_crosses(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(rows)
    at = np.stack([np.arange(rows), np.zeros(rows, int)], 1)
    words = np.fromiter((bytes(drawn.integers(0, 256, n)) for n in drawn.integers(0, 90, rows)), object, rows)
    numbers, shape = drawn.integers(-(2**62), 2**62, rows), np.array([rows, 1])
    given = at, at, words, numbers, shape, shape, words[::-1, None], numbers[:, None]
    attrs = {"N": 2, "hashed_output": True, "num_buckets": 1000, "hash_key": 0xDECAFCAFFE}
    found = []
    for loop in (cross_loops.cross_rows.compile(), cross_loops.cross_rows.numpy):
        monkeypatch.setattr(cross_loops.cross_rows, "_call", loop)
        found.append([out.tolist() for out in feature._sparse_cross(np, *given, **attrs)])
    assert found[0] == found[1]
    assert len({*found[0][1]}) >= rows * 0.8 and all(0 <= one < 1000 for one in found[0][1])


@pytest.mark.parametrize("wrong", [(0, "text"), (0, None), (1, np.array([[2], [1], [0]])), (4, np.array([2, 1]))])
def test_what_does_not_fit_a_cross(wrong: tuple[int, object]) -> None:
    cross_loops.cross_rows.wait(60)
    given = [np.stack([np.arange(3), np.zeros(3, int)], 1), np.array([b"a", b"b", b"c"], object), np.array([3, 1])]
    inputs = [given[0], given[0], given[1], given[1], given[2], given[2]]
    at, value = wrong
    inputs[at] = value if isinstance(value, np.ndarray) else inputs[at]
    if at == 0:
        inputs[2] = np.array([b"a", value, b"c"], object)
    with pytest.raises(tf.errors.InvalidArgumentError):
        feature._sparse_cross(np, *inputs, N=2, hashed_output=True, num_buckets=10, hash_key=1)


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
