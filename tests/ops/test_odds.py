"""Small functions that stand for themselves."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError

X = np.arange(6.0).reshape(2, 3)


def test_repeat(evaluate: Any) -> None:
    for repeats, axis in ((2, None), (3, 1), ([2, 0, 1], 1), ([0, 4], 0), (2, -1)):
        found = evaluate(lambda x, r=repeats, a=axis: tf.repeat(x, r, a), X)
        np.testing.assert_array_equal(found, np.repeat(X, repeats, axis))


def test_tensors_as_bytes(graph: Any) -> None:
    packed = tf.io.serialize_tensor(tf.constant(X))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.io.parse_tensor(packed, tf.float64)), X)
        with pytest.raises(InvalidArgumentError, match="float32"):
            session.run(tf.io.parse_tensor(packed, tf.float32))
        with pytest.raises(DataLossError):
            session.run(tf.io.decode_compressed(["abc"], "GZIP"))
        assert abs(session.run(tf.timestamp()) - time.time()) < 60


def test_moments_of_parts(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        return tf.nn.normalize_moments(*tf.nn.sufficient_statistics(x, [0, 1], shift=2.0))

    np.testing.assert_allclose(evaluate(build, X), (X.mean(), X.var()))


def test_strings(graph: Any) -> None:
    joined = tf.strings.unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 3, separator="+")
    wide = tf.strings.unicode_transcode(["äb"], "UTF-8", "UTF-16-BE")
    with tf.Session() as session:
        assert session.run(joined).tolist() == [b"b", b"a+c", b""]
        assert session.run(wide)[0].decode("utf-16-be") == "äb"


def test_strings_joined_and_split_as_tensorflow_does(graph: Any) -> None:
    table = tf.constant([["a", "b"], ["c", "d"]])
    joined = [tf.reduce_join(table), tf.reduce_join(table, [0, 1]), tf.reduce_join(table, [1, 0])]
    unknown = tf.reduce_join(tf.placeholder_with_default([["a", "b"], ["c", "d"]], None))
    with tf.Session() as session:
        assert session.run([*joined, unknown]) == [b"abcd", b"acbd", b"abcd", b"abcd"]
        assert session.run(tf.strings.split("a  b")).values.tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("build", "kind", "match"),
    [
        (lambda: tf.concat(0, [[1], [2]]), ValueError, "axis must be a scalar"),
        (lambda: tf.concat([], 0), ValueError, "values is empty"),
        (lambda: tf.split([1, 2], 0), ValueError, "must be at least 1"),
        (lambda: tf.constant([1, 2])[True], ValueError, "mask must have at least one axis"),
        (lambda: tf.Variable(1.0, collections="losses"), ValueError, "list, tuple, or set"),
        (lambda: tf.switch_case(tf.constant(1.0), [lambda: 1]), TypeError, "must be an integer Tensor"),
    ],
)
def test_what_tensorflow_refuses(graph: Any, build: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        build()


def test_a_fill_that_is_none(graph: Any) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="fill must be"):
        session.run(tf.as_string(3.0, fill="x"))


def test_algebra_of_other_types(graph: Any) -> None:
    """Lengths of complex vectors, halves in QR, a dense matrix times a sparse one."""
    z = np.array([[1 + 2j, 3.0]], np.complex64)
    half, (q, r) = np.array([[1, 2], [3, 4], [5, 7]], np.float16), tf.qr(np.array([[1, 2], [3, 4], [5, 7]], np.float16))
    sparse, dense = tf.SparseTensor([[0, 1], [1, 0]], [5.0, 6.0], [2, 3]), np.array([[1, 2], [3, 4]], np.float32)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(tf.nn.l2_normalize(z, 1)), z / 14**0.5, rtol=1e-6)
        np.testing.assert_allclose(np.matmul(*session.run([q, r])), half, atol=0.02)
        assert q.dtype == tf.float16
        found = session.run(tf.sparse_tensor_dense_matmul(dense, sparse))
        np.testing.assert_array_equal(found, dense @ [[0, 5, 0], [6, 0, 0]])
        turned = session.run(tf.sparse_tensor_dense_matmul(dense, sparse, adjoint_a=True, adjoint_b=False))
        np.testing.assert_array_equal(turned, dense.T @ [[0, 5, 0], [6, 0, 0]])


def test_bessel(evaluate: Any) -> None:
    x = np.array([0.0, 1, -2.5, 20, 40])
    np.testing.assert_allclose(evaluate(tf.math.bessel_i0, x), np.i0(x), rtol=1e-12)
    scaled, plain = evaluate(lambda t: (tf.math.bessel_i1e(t), tf.math.bessel_i1(t)), x)
    np.testing.assert_allclose(scaled * np.exp(np.abs(x)), plain, rtol=1e-12)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="known"):
        tf.parallel_stack([tf.placeholder("float32", [None])])
    with pytest.raises(InvalidArgumentError):
        tf.strings.unsorted_segment_join(tf.constant(["a"]), tf.constant([0, 1]), 2)


def test_sparse_of_dense(graph: Any) -> None:
    dense = np.where(X % 2 == 0, X, 0)
    there = tf.sparse.from_dense(dense)
    deeper = tf.sparse.expand_dims(there, 1)
    with tf.Session() as session:
        back, deep, one = session.run([tf.sparse.to_dense(s) for s in (there, deeper, tf.sparse.eye(2, 3))])
    np.testing.assert_array_equal(back, dense)
    np.testing.assert_array_equal(deep, dense[:, None])
    np.testing.assert_array_equal(one, np.eye(2, 3))


def test_strings_of_no_encoding(graph: Any) -> None:
    with tf.Session() as session:
        with pytest.raises(InvalidArgumentError, match=r"UnicodeTranscode: 'NONE-8' is no encoding"):
            session.run(tf.strings.unicode_transcode(["a"], "NONE-8", "UTF-8"))
        with pytest.raises(InvalidArgumentError, match=r"UnicodeTranscode: b'\\xff' is no UTF-8"):
            session.run(tf.strings.unicode_transcode([b"\xff"], "UTF-8", "UTF-8", errors="strict"))
