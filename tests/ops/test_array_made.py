"""Masks, counts, orders, and other homes of the same names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.array([[3.0, 0.0, 2.0], [1.0, 5.0, 0.0]])


def test_masks_and_counts(evaluate: Any) -> None:
    np.testing.assert_array_equal(evaluate(tf.sequence_mask, np.array([1, 3])), [[1, 0, 0], [1, 1, 1]])
    assert evaluate(lambda n: tf.sequence_mask(n, 4, tf.float32), np.array([2])).tolist() == [[1, 1, 0, 0]]
    assert evaluate(lambda x: tf.count_nonzero(x, 1), X).tolist() == [2, 2]
    found = evaluate(lambda a, b: tf.confusion_matrix(a, b), np.array([0, 1, 1]), np.array([0, 2, 1]))
    assert found.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_orders(evaluate: Any) -> None:
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(evaluate(lambda x, a=axis: tf.sort(x, a), X), np.sort(X, axis))
        np.testing.assert_array_equal(evaluate(lambda x, a=axis: tf.argsort(x, a), X), np.argsort(X, axis))
    assert evaluate(lambda x: tf.sort(x, direction="DESCENDING"), X[0]).tolist() == [3, 2, 0]
    with pytest.raises(ValueError, match="Direction"):
        tf.sort([1.0], direction="UP")


def test_homes(graph: Any) -> None:
    import sparkflow.compat.v1 as v1

    assert v1 is tf and tf.compat.v1 is tf
    tf.disable_v2_behavior()
    assert tf.broadcast_static_shape([2, 1], [3]).as_list() == [2, 3]
    assert tf.is_tensor(tf.constant(1)) and not tf.is_tensor(1)
