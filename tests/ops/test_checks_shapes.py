"""assert_shapes, and what counts as a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

check = tf.debugging.assert_shapes


def test_sizes_that_agree(graph: Any) -> None:
    x, y = tf.zeros([2, 3]), tf.zeros([4, 5, 3])
    with tf.Session() as session:
        session.run(check([(x, ("N", "Q")), (y, ("*", "Q")), (tf.constant(1.0), ()), (x, "NQ"), (x, (2, None))]))
        session.run(check({x: (..., "Q")}))


@pytest.mark.parametrize("wanted", [("N", "N"), (2, 4), ("A",), ("*", "A", "B", "C")])
def test_static_sizes_that_do_not(graph: Any, wanted: Any) -> None:
    with pytest.raises(ValueError, match=r"must have|rank"):
        check([(tf.zeros([2, 3]), wanted)])


@pytest.mark.parametrize("dims", [[None, None], None])
def test_sizes_at_run_time(graph: Any, dims: Any) -> None:
    x, y = tf.placeholder(tf.float32, dims), tf.placeholder(tf.float32, dims)
    agree = check([(x, ("N", "D")), (y, ("N", 3))], message="of rows ")
    with tf.Session() as session:
        session.run(agree, {x: np.zeros((2, 4)), y: np.zeros((2, 3))})
        for wrong in ((3, 3), (2, 4), (2,)):
            feeds = {x: np.zeros((2, 4)), y: np.zeros(wrong)}
            with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
                session.run(agree, feeds)


def test_proper_iterables(graph: Any) -> None:
    for fine in ([1], (2,), {3}, {4: 5}, iter("a")):
        tf.assert_proper_iterable(fine)
    for wrong in (tf.zeros([2]), np.zeros(2), "text", 3, tf.SparseTensor([[0]], [1], [2])):
        with pytest.raises(TypeError, match="proper"):
            tf.assert_proper_iterable(wrong)
