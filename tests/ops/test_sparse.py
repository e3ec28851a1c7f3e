"""SparseTensors: fed and fetched, and their ops against dense numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

AT = np.array([[0, 1], [1, 0], [1, 3], [3, 2]], np.int64)
V = np.array([1.0, -2.0, 3.0, 4.0])
VALUE = tf.SparseTensorValue(AT, V, np.array([4, 5], np.int64))
DENSE = np.zeros((4, 5))
DENSE[tuple(AT.T)] = V


def _run(build: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        sp = tf.sparse_placeholder(tf.float64)
        return session.run(build(sp), {sp: VALUE})


def _whole(value: Any) -> np.ndarray:
    out = np.zeros(value.dense_shape)
    out[tuple(value.indices.T)] = value.values
    return out


def test_fed_and_fetched() -> None:
    found = _run(lambda sp: sp)
    assert isinstance(found, tf.SparseTensorValue)
    np.testing.assert_array_equal(_whole(found), DENSE)


def test_placeholders_of_partly_known_sizes(graph: Any) -> None:
    partly, known = tf.sparse_placeholder(tf.float64, [None, 5]), tf.sparse_placeholder(tf.float64, [4, 5], "sp")
    assert partly.shape.as_list() == [None, 5] and known.shape.as_list() == [4, 5]
    assert known.indices.name == "sp/indices:0" and tf.sparse_placeholder(tf.int32).shape.ndims is None
    with tf.Session() as session:
        for sp in (partly, known):
            np.testing.assert_array_equal(session.run(tf.sparse_tensor_to_dense(sp), {sp: VALUE}), DENSE)


DENSE_RESULTS = [
    ("shape", tf.shape, np.array([4, 5])),
    ("size", tf.size, 20),
    ("rank", tf.rank, 2),
    ("to_dense", tf.sparse_tensor_to_dense, DENSE),
    ("sum", tf.sparse_reduce_sum, DENSE.sum()),
    ("sum 1", lambda s: tf.sparse_reduce_sum(s, 1, keep_dims=True), DENSE.sum(1, keepdims=True)),
    ("matmul", lambda s: tf.sparse_tensor_dense_matmul(s, np.eye(5)), DENSE),
    (
        "matmul adjoint",
        lambda s: tf.sparse_tensor_dense_matmul(s, np.ones((4, 2)), adjoint_a=True),
        DENSE.T @ np.ones((4, 2)),
    ),
    ("add dense", lambda s: tf.sparse_add(s, np.ones((4, 5))), DENSE + 1),
]
SPARSE_RESULTS = [
    ("transpose", tf.sparse_transpose, DENSE.T),
    ("reshape", lambda s: tf.sparse_reshape(s, [2, -1]), DENSE.reshape(2, 10)),
    ("slice", lambda s: tf.sparse_slice(s, [1, 0], [2, 4]), DENSE[1:3, :4]),
    ("concat", lambda s: tf.sparse_concat(1, [s, s]), np.concatenate([DENSE, DENSE], 1)),
    ("add", lambda s: tf.sparse_add(s, s), 2 * DENSE),
    ("maximum", lambda s: tf.sparse_maximum(s, tf.sparse_add(s, s)), np.maximum(DENSE, 2 * DENSE)),
    ("retain", lambda s: tf.sparse_retain(s, [True, False, False, True]), DENSE * (np.arange(4) % 3 == 0)[:, None]),
    ("reset", tf.sparse_reset_shape, DENSE[:, :4]),
    ("sum", lambda s: tf.sparse_reduce_sum_sparse(s, 1), DENSE.sum(1)),
    (
        "fill",
        lambda s: tf.sparse_fill_empty_rows(s, 9.0)[0],
        DENSE + 9 * np.eye(4, 5, k=-2) * (np.arange(4) == 2)[:, None],
    ),
]


@pytest.mark.parametrize("name, build, expected", DENSE_RESULTS, ids=[r[0] for r in DENSE_RESULTS])
def test_dense(name: str, build: Any, expected: Any) -> None:
    np.testing.assert_allclose(_run(build), expected)


@pytest.mark.parametrize("name, build, expected", SPARSE_RESULTS, ids=[r[0] for r in SPARSE_RESULTS])
def test_sparse(name: str, build: Any, expected: Any) -> None:
    np.testing.assert_allclose(_whole(_run(build)), expected)


def test_split_and_softmax() -> None:
    parts = _run(lambda s: tf.sparse_split(sp_input=s, num_split=2, axis=1))
    np.testing.assert_array_equal(np.concatenate([_whole(p) for p in parts], 1), DENSE)
    soft = _run(tf.sparse_softmax)
    np.testing.assert_allclose(_whole(soft).sum(1), [1, 1, 0, 1])


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="not compatible"):
        tf.SparseTensor([[0, 1]], [1.0, 2.0], [2, 2])
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.sparse_reorder([1.0])
    outside = tf.sparse_tensor_to_dense(tf.SparseTensor([[5, 0]], [1.0], [2, 2]))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        session.run(outside)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embedding_bags(graph: Any, combiner: str) -> None:
    table = np.arange(12.0).reshape(6, 2)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], np.array([1, 4, 2]), [3, 2])
    plain = tf.nn.embedding_lookup_sparse(tf.constant(table), ids, None, combiner=combiner)
    safe = tf.nn.safe_embedding_lookup_sparse([tf.constant(table)], ids, combiner=combiner)
    with tf.Session() as session:
        found, guarded = session.run([plain, safe])
    scale = {"sum": 1, "mean": 2, "sqrtn": 2**0.5}[combiner]
    np.testing.assert_allclose(guarded, [(table[1] + table[4]) / scale, [0, 0], table[2]])
    np.testing.assert_allclose(found[[0, 2]], guarded[[0, 2]])


def test_strings(evaluate: Any) -> None:
    text = np.array([b"a b", b"", b"c  d e"], object)
    assert evaluate(lambda s: tf.string_split(s).values, text).tolist() == [b"a", b"b", b"c", b"d", b"e"]
    assert evaluate(lambda s: tf.regex_replace(s, "[a-c]", "x"), text).tolist() == [b"x x", b"", b"x  d e"]
    assert evaluate(lambda s: tf.decode_base64(tf.encode_base64(s)), text).tolist() == text.tolist()
    assert evaluate(lambda s: tf.string_to_hash_bucket_fast(s, 10), np.array([b"hello"], object)).tolist() == [6]
    assert evaluate(lambda x: tf.string_to_number(tf.as_string(x), tf.int32), np.array([4, -5])).tolist() == [4, -5]
    assert evaluate(lambda s: tf.reduce_join(s, separator="|"), text) == b"a b||c  d e"
    assert evaluate(lambda s: tf.substr(s, 0, 1), np.array([b"xy"], object)).tolist() == [b"x"]
    assert evaluate(lambda s: tf.decode_raw(s, tf.uint8), np.array(b"ab", object)).tolist() == [97, 98]


def test_a_sparse_tensor_times_and_over_a_dense_one(graph: Any) -> None:
    """Its values with those of the other at their places, which is broadcast to its shape."""
    sp = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, -2.0, 3.0], [2, 3])
    dense = tf.constant(np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3))
    expected = {
        sp * 2.0: [2, -4, 6], sp * dense: [2, -8, 18], dense * sp: [2, -8, 18], 2.0 * sp: [2, -4, 6],
        sp / [1.0, 2.0, 4.0]: [0.5, -2, 0.75], tf.negative(sp): [-1, 2, -3], tf.abs(sp): [1, 2, 3],
        tf.square(sp): [1, 4, 9], tf.sign(sp): [1, -1, 1], tf.cast(sp, tf.int32): [1, -2, 3],
    }  # fmt: skip
    with tf.Session() as session:
        for found, values in expected.items():
            assert isinstance(found, tf.SparseTensor)
            np.testing.assert_allclose(session.run(found).values, values)
        grads = session.run(tf.gradients((sp * dense).values, [sp.values, dense]))
    np.testing.assert_allclose(grads[0], [2, 4, 6])
    np.testing.assert_allclose(grads[1], [[0, 1, 0], [-2, 0, 3]])


@pytest.mark.parametrize("size", [10, 2**62])
def test_reorder_by_rows_whatever_the_columns_are(graph: Any, size: int) -> None:
    """A place outside the shape is none of the next row; nor do places run into each other where shapes are huge."""
    at = np.array([[8, 1], [1, 1], [0, 12], [1, 0]], np.int64)
    found = tf.sparse_reorder(tf.SparseTensor(at, [0, 1, 2, 3], [9, size]))
    with tf.Session() as session:
        assert session.run(found).indices.tolist() == [[0, 12], [1, 0], [1, 1], [8, 1]]


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_sums_and_extremes_where_places_meet(graph: Any, alike: bool, ordered: bool) -> None:
    """Whether both have the same places or some, in row order or not."""
    rng = np.random.default_rng(0)
    flat = [rng.choice(60, 20, replace=False) for _ in range(2)]
    flat = [np.sort(f) if ordered else f for f in flat]
    flat[1] = flat[0] if alike else flat[1]
    values = [rng.integers(-9, 9, 20).astype(np.float32) for _ in range(2)]
    a, b = [tf.SparseTensor(np.stack(np.divmod(f, 6), 1), v, [10, 6]) for f, v in zip(flat, values)]
    dense = np.zeros((2, 60), np.float32)
    dense[0, flat[0]], dense[1, flat[1]] = values
    places = np.unique(np.concatenate(flat))
    with tf.Session() as session:
        for made, wanted in ((tf.sparse_add(a, b), dense.sum(0)), (tf.sparse_maximum(a, b), dense.max(0))):
            found = session.run(made)
            assert (found.indices @ [6, 1]).tolist() == places.tolist()
            assert found.values.tolist() == wanted[places].tolist()


@pytest.mark.parametrize("wrong", [[0, 2, 2], [0, 1, 3], [-1, 0, 1], [1, 1, 1]])
def test_no_permutation(graph: Any, wrong: list[int]) -> None:
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"is no permutation of 0 \.\.\. 2"),
    ):
        session.run(tf.invert_permutation(tf.constant(wrong)))
