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


def _dense(x: Any, units: int) -> Any:
    w = tf.reshape(tf.range(x.shape.as_list()[-1] * units, dtype=tf.float32), [-1, units])
    return tf.tensordot(x, w, axes=[[x.shape.ndims - 1], [0]])


def _heads(x: Any) -> Any:
    batch, steps = tf.unstack(tf.shape(x)[:2])
    split = tf.transpose(tf.reshape(x, tf.stack([batch, steps, 2, 3])), [0, 2, 1, 3])
    return tf.reshape(tf.transpose(split, [0, 2, 1, 3]), tf.concat([tf.shape(x)[:2], [6]], 0))


SHAPED: dict[str, tuple[Callable[[Any], Any], list[int | None], int]] = {  # and how many Reshapes are left
    "tensordot of a matrix": (lambda x: _dense(x, 4), [None, 6], 0),
    "tensordot of a sequence": (lambda x: _dense(x, 4), [None, None, 6], 2),
    "two of them": (lambda x: _dense(tf.nn.relu(_dense(x, 4)), 3), [None, 6], 0),
    "flat and back": (lambda x: tf.reshape(tf.reshape(x, [-1]), tf.shape(x)) * 2, [None, None, 6], 0),
    "flat but for the batch": (lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), [None, 6], 0),
    "an axis of one": (lambda x: tf.reshape(tf.expand_dims(x, 1), tf.stack([-1, x.shape[1]])) + 1, [None, 6], 0),
    "heads": (_heads, [None, None, 6], 2),
    "its own sizes, packed": (lambda x: tf.reshape(x + 1, tf.stack([tf.shape(x)[0], 6])), [None, 6], 0),
    "another tensor's": (lambda x: tf.reshape(x, tf.shape(tf.transpose(x))), [None, None], 1),
    "sizes in another order": (lambda x: tf.reshape(x, tf.gather(tf.shape(x), [1, 0])), [None, None], 1),
    "the product of two": (
        lambda x: tf.reshape(tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:2]), 6]), tf.shape(x)),
        [None, None, 6],
        0,
    ),
    "one size less": (lambda x: tf.reshape(x[1:], [tf.shape(x)[0] - 1, 6]), [None, 6], 1),
}


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("name", SHAPED)
def test_one_to_the_shape_that_it_has_goes(graph: Any, name: str, rows: int) -> None:
    program, dims, left = SHAPED[name]
    x = tf.placeholder(tf.float32, dims)
    y = tf.identity(program(x))
    fetches = [y, *tf.gradients(tf.reduce_sum(tf.square(y)), x)]
    given = [rows if i == 0 else d or 3 for i, d in enumerate(dims)]
    feeds = {x: np.random.default_rng(0).standard_normal(given).astype(np.float32)}
    off = tf.ConfigProto()
    off.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Session(config=off) as session:
        expected = session.run(fetches, feeds)
    with tf.Session() as session:
        for got, want in zip(session.run(fetches, feeds), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)
        parts = _partitions(session, y, feeds)
    assert sum(node.op == "Reshape" for part in parts for node in part.node) == left


@pytest.mark.parametrize(
    ("program", "dims", "given"),
    [
        (lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0], 5])), [None, None], (2, 3)),
        (lambda x: tf.reshape(x, [-1, 5]), [None, None], (2, 3)),
        (lambda x: tf.reshape(x, tf.shape(x)[:1]), [None, None], (2, 3)),
        (lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] * 2]), [None, None], (2, 3)),
    ],
)
def test_one_to_another_shape_says_so(graph: Any, program: Any, dims: Any, given: Any) -> None:
    x = tf.placeholder(tf.float32, dims)
    y = program(x) + 1
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="do not fit"):
        session.run(y, {x: np.ones(given)})
