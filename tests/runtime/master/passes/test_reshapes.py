"""A change of shape behind another: the error of one that does not fit stays, with graph passes as without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

CASES: list[tuple[Callable[[Any], Any], tuple[int, ...], str]] = [
    (lambda x: tf.squeeze(x, [1]), (3, 2), "must all have size 1"),
    (lambda x: tf.reshape(x, [-1, 4]), (3, 2), "do not fit"),
    (lambda x: tf.reshape(x, [2, 4]), (3, 2), "do not fit"),
    (lambda x: tf.squeeze(x, [1]), (3, 1), ""),
    (lambda x: tf.reshape(x, [-1, 4]), (2, 2), ""),
    (lambda x: tf.expand_dims(x, 1), (2, 2), ""),
]


@pytest.mark.parametrize(("inner", "given", "error"), CASES)
def test_the_error_of_one_that_does_not_fit_stays(
    inner: Callable[[Any], Any], given: tuple[int, ...], error: str
) -> None:
    x = tf.placeholder(tf.float32, [None, None])
    flat = tf.reshape(inner(x), [-1])
    with tf.Session() as session:
        if error:
            with pytest.raises(tf.errors.InvalidArgumentError, match=error):
                session.run(flat, {x: np.ones(given)})
        else:
            assert session.run(flat, {x: np.ones(given)}).shape == (np.prod(given),)


@pytest.mark.parametrize(
    ("last", "inner", "goes"), [(16, [-1, 4, 4], True), (None, [-1, 1], True), (16, [-1, 32], False)]
)
def test_one_that_always_fits_goes(last: int | None, inner: list[int], goes: bool) -> None:
    x = tf.placeholder(tf.float32, [None, last])
    between = tf.reshape(x, inner)
    flat = tf.reshape(between, [-1])
    with tf.Session() as session:
        parts = _partitions(session, flat, {x: np.ones((2, last or 3))})
    assert (between.op.name in {node.name for part in parts for node in part.node}) != goes


def _partitions(session: Any, fetch: Any, feeds: dict[Any, Any]) -> Any:
    metadata = tf.RunMetadata()
    session.run(fetch, feeds, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return metadata.partition_graphs
