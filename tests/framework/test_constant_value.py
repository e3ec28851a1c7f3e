"""What is known of shapes, permutations and axes that a program computes while it builds its graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape


def _open() -> Any:
    return tf.placeholder(tf.float32, [None, 4, 6])


def _matrix() -> Any:
    return tf.placeholder(tf.float32, [2, 3])


SHAPES = [
    (lambda: tf.reshape(_open(), tf.concat([tf.shape(_open())[:1], [24]], 0)), [None, 24]),
    (lambda: tf.zeros(tf.concat([tf.shape(_open())[:2], [5]], 0)), [None, 4, 5]),
    (lambda: tf.zeros(tf.cast(tf.shape(_open(), out_type=tf.int64), tf.int32)), [None, 4, 6]),
    (lambda: tf.zeros(tf.shape(_open())[::-1]), [6, 4, None]),
    (lambda: tf.transpose(_open(), tf.concat([[1, 0], tf.range(2, tf.rank(_open()))], 0)), [4, None, 6]),
    (lambda: tf.transpose(_matrix(), [-1, -2] % tf.rank(_matrix())), [3, 2]),
    (lambda: tf.reduce_mean(_open(), tf.range(1, tf.rank(_open()))), [None]),
    (lambda: tf.zeros([tf.shape(_matrix())[1] // 2, tf.maximum(tf.shape(_matrix())[0], 5)]), [1, 5]),
    (lambda: tf.zeros([tf.reduce_prod(tf.shape(_matrix())), tf.size(_matrix())]), [6, 6]),
    (lambda: tf.zeros(tf.gather(tf.shape(_matrix()), [1, 1, 0])), [3, 3, 2]),
    (lambda: tf.zeros(tf.reshape([tf.shape(_matrix())], [2])), [2, 3]),
    (lambda: tf.zeros(tf.squeeze(tf.expand_dims(tf.shape(_matrix()), 0), 0)), [2, 3]),
    (lambda: tf.sequence_mask([1, 2]), [2, 2]),
    (lambda: tf.zeros(tf.constant(3)), [3]),
    (lambda: tf.zeros(-tf.constant([-2, -1])), [2, 1]),
    (lambda: tf.zeros(tf.range(2, 1000000)[:2]), [None, None]),
]


@pytest.mark.parametrize("build, expected", SHAPES)
def test_shapes(graph: Any, build: Any, expected: list[int | None]) -> None:
    assert build().shape.as_list() == expected


def test_what_an_op_refuses_is_left_to_it(graph: Any) -> None:
    assert constant_value(tf.constant(1) // tf.constant(0)) is None
    assert constant_value(tf.gather(tf.constant([1]), tf.placeholder_with_default(7, []))) is None
    assert constant_value_as_shape(tf.placeholder(tf.int32, [2])) == (None, None)


def test_an_op_that_is_there_by_many_ways_is_asked_once(graph: Any) -> None:
    x = tf.constant([1])
    for _ in range(40):
        x = tf.maximum(x, x)
    assert constant_value(x) == np.array([1])
    for _ in range(3000):
        x = x + 0
    assert constant_value(x) is None, "too far away"
