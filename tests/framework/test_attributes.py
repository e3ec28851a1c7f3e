"""Attributes and lists that are of another kind than the op's: refused when the op is made, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

WRONG_KINDS: dict[str, Callable[[], Any]] = {
    "Expected bool for argument 'use_locking' not 'no'": lambda: tf.assign(tf.Variable(1.0), 2.0, use_locking="no"),
    "Expected bool for argument 'transpose_a' not 1": lambda: tf.matmul([[1.0]], [[1.0]], transpose_a=1),
    "Expected bool for argument 'cancel_pending_enqueues' not 'a'": lambda: tf.FIFOQueue(1, tf.int32).close("a"),
    "Expected string for argument 'shared_name' not 1": lambda: tf.FIFOQueue(1, tf.int32, shared_name=1),
    "Expected int for argument 'precision' not 'a'": lambda: tf.as_string([1.5], precision="a"),
    "Expected bool for argument 'validate_shape' not 'a'": lambda: tf.get_variable("a", [1], validate_shape="a"),
}


@pytest.mark.parametrize("message", WRONG_KINDS)
def test_an_attribute_is_of_its_kind(message: str) -> None:
    with pytest.raises(TypeError, match=message):
        WRONG_KINDS[message]()


def test_numpys_truth_values_and_numbers_are_pythons() -> None:
    product = tf.matmul([[1.0, 2.0]], [[1.0, 2.0]], transpose_b=np.bool_(True))
    assert product.op.get_attr("transpose_b") is True and product.shape.as_list() == [1, 1]
    assert tf.as_string([1.5], precision=np.int64(2)).op.get_attr("precision") == 2


@pytest.mark.parametrize(
    "made",
    [
        lambda: tf.Assert(True, []),
        lambda: tf.identity_n([]),
        lambda: tf.decode_csv(["a"], []),
    ],
)
def test_a_list_of_tensors_has_one(made: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="takes a list of at least one tensor"):
        made()


def test_lists_that_may_be_empty() -> None:
    nothing = tf.py_func(lambda: np.int64(3), [], tf.int64)
    with tf.Session() as session:
        assert session.run(nothing) == 3
