"""Arguments that would be taken silently, or fail far from the call: refused where they are given, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sparkflow as tf


def _refused(error: type[Exception], message: str, call: Callable[[], Any]) -> Any:
    return pytest.param(error, message, call, id=message)


OPS = [
    _refused(TypeError, "range: start, limit and delta are", lambda: tf.range("a")),
    _refused(TypeError, "range: .*bool", lambda: tf.range(True)),
    _refused(ValueError, "shape must be of rank 1", lambda: tf.random_uniform(2)),
    _refused(ValueError, "TruncatedNormal: shape must be", lambda: tf.truncated_normal(2)),
    _refused(ValueError, "perm .1. is no permutation", lambda: tf.transpose([1, 2], [1])),
    _refused(TypeError, "Expected int32, got .a. of type .str.", lambda: tf.concat([[1]], "a")),
    _refused(TypeError, "Expected int for argument 'axis' not 'a'", lambda: tf.squeeze([1], "a")),
    _refused(TypeError, "Cannot convert 'a' to a DType", lambda: tf.cast([1], "a")),
    _refused(TypeError, "Cannot convert 'f4' to a DType", lambda: tf.placeholder("f4")),
    _refused(ValueError, "Dimension -1 must be >= 0", lambda: tf.Dimension(-1)),
    _refused(ValueError, "n, the number of elements", lambda: tf.FIFOQueue(1, tf.int32, [[]]).dequeue_many(-1)),
    _refused(ValueError, "`constraint` argument must be a callable", lambda: tf.Variable(1.0, constraint=1)),
    _refused(ValueError, "must be a list, tuple, or set", lambda: tf.get_variable("a", [1], collections=1)),
]


@pytest.mark.parametrize(("error", "message", "call"), OPS)
def test_of_an_op(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=message):
        call()


def test_what_still_stands_for_a_size_that_is_not_known() -> None:
    assert tf.TensorShape([-1, 2]).as_list() == [None, 2] and tf.Dimension(None).value is None
    assert tf.range(2.0, dtype=tf.float64).dtype is tf.float64
