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
