"""Floats as integers of few bits: the numbers are TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.errors import InvalidArgumentError

X = np.array([-1.2, -0.7, 0, 0.013, 0.5, 1, 3], np.float32)


def _there_and_back(dtype: Any, **how: Any) -> list[Any]:
    q, low, high = tf.quantize(X, -1.0, 2.0, dtype, **how)
    assert q.dtype == dtype and q.shape == X.shape and low.shape == high.shape == ()
    with tf.Session() as session:
        return session.run([q, low, high, tf.dequantize(q, low, high, mode=how.get("mode", "MIN_COMBINED"))])


@pytest.mark.parametrize(
    "dtype, mode, want",
    [
        (tf.qint8, "MIN_COMBINED", [-128, -103, -43, -42, -1, 42, 127]),
        (tf.qint8, "MIN_FIRST", [-128, -103, -43, -42, 0, 42, 127]),
        (tf.qint8, "SCALED", [-76, -44, 0, 1, 32, 64, 127]),
        (tf.quint8, "MIN_COMBINED", [0, 26, 85, 86, 128, 170, 255]),
        (tf.quint8, "MIN_FIRST", [0, 25, 85, 86, 128, 170, 255]),
        (tf.quint8, "SCALED", [0, 0, 0, 2, 64, 128, 255]),
        (tf.qint32, "MIN_FIRST", [-(2**31), -1717986816, -715827840, -697216320, 64, 715827968, 2147483520]),
    ],
)
def test_there_and_back(graph: Any, dtype: Any, mode: str, want: list[int]) -> None:
    found, low, high, back = _there_and_back(dtype, mode=mode)
    assert found.tolist() == want and found.dtype == dtype.np
    unsigned_scaled = mode == "SCALED" and dtype is tf.quint8
    step = 0.01 if dtype.size == 1 else 1e-5
    np.testing.assert_allclose(back, X.clip(0 if unsigned_scaled else low, high), atol=step)


def test_half_a_step_goes_to_the_even_one_if_told(graph: Any) -> None:
    x = tf.constant([0.5, 1.5, 2.5, -0.5, -1.5])
    with tf.Session() as session:
        for mode, want in (("HALF_TO_EVEN", [0, 2, 2, 0, -2]), ("HALF_AWAY_FROM_ZERO", [1, 2, 3, -1, -2])):
            q, *_ = tf.quantize(x, -127.0, 127.0, tf.qint8, mode="SCALED", narrow_range=True, round_mode=mode)
            assert session.run(q).tolist() == want


def test_ranges_along_an_axis(graph: Any) -> None:
    x = np.array([[0.5, 50], [-1, 100]], np.float32)
    q, low, high = tf.quantization.quantize(x, [-1.0, -100.0], [1.0, 100.0], tf.qint16, mode="SCALED", axis=1)
    assert low.shape == [2]
    with tf.Session() as session:
        back = session.run(tf.dequantize(q, low, high, mode="SCALED", axis=1))
    np.testing.assert_allclose(back, x, rtol=1e-4)


def test_parts_of_several_ranges_are_joined_in_one(graph: Any) -> None:
    parts = [tf.quantize(tf.constant([0.0, top]), 0.0, top, tf.quint8) for top in (1.0, 5.1)]
    values, low, high = tf.quantized_concat(0, *zip(*parts, strict=True))
    with tf.Session() as session:
        found = session.run([values, low, high])
    assert found[0].tolist() == [0, 50, 0, 255] and found[1:] == [0, np.float32(5.1)]


def test_relu_of_integers(graph: Any) -> None:
    q, low, high = tf.quantize(X, -1.0, 2.0, tf.quint8)
    with tf.Session() as session:
        assert session.run(tf.nn.quantized_relu_x(q, 0.7, low, high))[0].tolist() == [85, 85, 85, 86, 128, 144, 144]
        named = {"min_features": low, "max_features": high, "out_type": tf.quint8}
        for make in (tf.raw_ops.QuantizedRelu, tf.raw_ops.QuantizedRelu6):  # 2 is the most here, and less than 6
            assert session.run(make(features=q, **named))[0].tolist() == [85, 85, 85, 86, 128, 170, 255]


def test_a_relu_gives_the_type_it_is_given(graph: Any) -> None:
    q, low, high = tf.quantize(X, -1.0, 2.0, tf.qint32)
    with pytest.raises(InvalidArgumentError, match="out_type must be the type of the features, qint32, got quint8"):
        tf.nn.quantized_relu_x(q, 0.7, low, high)


def test_a_quantized_type_has_no_extremes_and_feeds_as_integers(graph: Any) -> None:
    assert tf.quint8.is_quantized and not tf.quint8.is_integer and not tf.uint8.is_quantized
    with pytest.raises(TypeError, match="quint8"):
        _ = tf.quint8.max
    given = tf.placeholder(tf.quint8, [2])
    held = tf.Variable(tf.constant(np.array([1, 2], np.uint8), tf.quint8))
    with tf.Session() as session:
        session.run(held.initializer)
        assert session.run(tf.dequantize(given, 0.0, 255.0), {given: [3, 4]}).tolist() == [3, 4]
        assert session.run(tf.bitcast(held, tf.int8)).tolist() == [1, 2]


def test_bad_modes_and_ranges_are_refused(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="HALF_TO_EVEN"):
        tf.quantize(X, 0.0, 1.0, tf.quint8, round_mode="HALF_TO_EVEN")
    with pytest.raises(ValueError, match="MIN_MAX"):
        tf.quantize(X, 0.0, 1.0, tf.quint8, mode="MIN_MAX")
    with pytest.raises(TypeError, match="uint8"):
        tf.quantize(X, 0.0, 1.0, tf.uint8)
    q, *_ = tf.quantize(X, 2.0, 1.0, tf.quint8)
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match="larger"):
        session.run(q)


@pytest.mark.parametrize("kind", [tf.quint8, tf.qint8, tf.qint32], ids=str)
def test_a_variable_of_a_quantized_type_is_saved_as_it(kind: Any, graph: Any, tmp_path: Path) -> None:
    """Its array says no more than that it is of integers."""
    quantized, least, most = tf.quantize(np.float32([[-1.0, 0.0, 2.0]]), -3.0, 3.0, kind)
    variable = tf.Variable(quantized, name="v")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(variable)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        session.run(variable.assign(tf.quantize(np.zeros((1, 3), np.float32), -3.0, 3.0, kind)[0]))
        tf.train.Saver().restore(session, path)
        assert session.run(variable).tolist() == before.tolist()
        np.testing.assert_allclose(session.run(tf.dequantize(variable, least, most)), [[-1.0, 0.0, 2.0]], atol=0.02)
    assert tf.train.load_checkpoint(path).get_variable_to_dtype_map() == {"v": kind}
