"""Slices, gathers, scatters, masks and choices, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph
from sparkflow.ops import array, array_select, array_slice, operators  # noqa: F401 - x[0] on tensors
from sparkflow_runtime.wire.errors import InvalidArgumentError

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)

INDICES = [
    *(np.s_[0], np.s_[-1], np.s_[1:], np.s_[:, 1:3], np.s_[..., 0], np.s_[::-1], np.s_[:, None, 2], np.s_[None]),
    *(np.s_[1, ..., ::2], np.s_[0, 1, 2], np.s_[5:], np.s_[-2:-1, 3:0:-2], np.s_[..., None], np.s_[:, -100:100]),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("key", INDICES, ids=str)
def test_getitem(evaluate: Any, key: Any, known_shapes: bool) -> None:
    np.testing.assert_array_equal(evaluate(lambda x: x[key], X, known_shapes=known_shapes), X[key])


def test_getitem_by_tensors(evaluate: Any) -> None:
    for dtype in (np.int32, np.int64):
        got = evaluate(lambda x, i: x[i, i:], X, np.array(1, dtype))
        np.testing.assert_array_equal(got, X[1, 1:])


def test_getitem_refusals(graph: Graph, evaluate: Any) -> None:
    x = array.placeholder("float32", [3, 4])
    for key, error in (
        (4, InvalidArgumentError),
        ((0, 0, 0), InvalidArgumentError),
        ("a", TypeError),
        (1.5, TypeError),
    ):
        with pytest.raises(error):
            x[key]
    with pytest.raises(InvalidArgumentError, match="out of bounds"):
        evaluate(lambda t: t[7], X, known_shapes=False)


def test_python_does_not_go_through_a_tensor() -> None:
    """So that what asks by iter() whether a value is a list is told, as by TensorFlow, that it is none."""
    with pytest.raises(TypeError, match="unstack"):
        list(convert_to_tensor([1, 2]))


def test_slice(evaluate: Any) -> None:
    got = evaluate(lambda x: array_slice.slice_(x, [1, 0, 2], [2, -1, 1]), X)
    np.testing.assert_array_equal(got, X[1:, :, 2:3])
    with pytest.raises(InvalidArgumentError, match="reach past the size 3"):
        evaluate(lambda x: array_slice.slice_(x, [1, 0, 2], [3, -1, 1]), X)
    with pytest.raises(InvalidArgumentError, match="do not lie within"):
        evaluate(lambda x: array_slice.slice_(x, [1, 0, 2], [3, -1, 1]), X, known_shapes=False)


def test_strided_slice(evaluate: Any) -> None:
    got = evaluate(lambda x: array_slice.strided_slice(x, [0, 1], [3, 4], [2, 1], end_mask=1), X)
    np.testing.assert_array_equal(got, X[0::2, 1:4])
    np.testing.assert_array_equal(evaluate(lambda x: array_slice.strided_slice(x, [1], [2]), X), X[1:2])


@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather(evaluate: Any, axis: Any, dtype: Any) -> None:
    ids = np.array([[2, 0], [2, 1]], dtype)
    got = evaluate(lambda x, i: array_slice.gather(x, i, axis=axis), X, ids)
    np.testing.assert_array_equal(got, np.take(X, ids, axis or 0))


@pytest.mark.parametrize("bad", [3, -1])
def test_gather_names_the_bad_index(evaluate: Any, bad: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"indices\[1,0\] = {bad} is not in \[0, 3\)"):
        evaluate(array_slice.gather, X, np.array([[0], [bad]], np.int64))


def test_gather_and_scatter_nd(evaluate: Any) -> None:
    where = np.array([[0, 1], [2, 3], [0, 1]], np.int32)
    picked = evaluate(array_slice.gather_nd, X, where)
    np.testing.assert_array_equal(picked, X[where[:, 0], where[:, 1]])
    got = evaluate(lambda i, u: array_slice.scatter_nd(i, u, [3, 4, 5]), where, picked)
    want = np.zeros_like(X)
    np.add.at(want, (where[:, 0], where[:, 1]), picked)
    np.testing.assert_array_equal(got, want)
    with pytest.raises(InvalidArgumentError, match="is not in"):
        evaluate(array_slice.gather_nd, X, np.array([[0, 9]], np.int32))


@pytest.mark.parametrize("mask", [X[:, 0, 0] > 10, X[:, :, 0] % 2 == 0, X > 30])
def test_boolean_mask(evaluate: Any, mask: np.ndarray) -> None:
    np.testing.assert_array_equal(evaluate(array_slice.boolean_mask, X, mask), X[mask])
    np.testing.assert_array_equal(evaluate(lambda x: x[mask], X), X[mask])


def test_boolean_mask_along_an_axis(evaluate: Any) -> None:
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(evaluate(lambda x: array_slice.boolean_mask(x, mask, axis=1), X), X[:, mask])
    with pytest.raises(InvalidArgumentError, match=r"mask \(4,\) does not fit tensor \(3, 4, 5\) at axis 0"):
        evaluate(lambda x: array_slice.boolean_mask(x, mask), X)


def test_where(evaluate: Any) -> None:
    even = X % 2 == 0
    np.testing.assert_array_equal(evaluate(array_select.where, even), np.argwhere(even))
    assert evaluate(array_select.where, even).dtype == np.int64
    np.testing.assert_array_equal(evaluate(lambda c, x: array_select.where(c, x, -x), even, X), np.where(even, X, -X))
    rows = np.array([True, False, True])
    want = np.where(rows[:, None, None], X, -X)
    np.testing.assert_array_equal(evaluate(lambda c, x: array_select.where(c, x, -x), rows, X), want)
    np.testing.assert_array_equal(evaluate(lambda x: array_select.where(True, x, -x), X), X)
    got = evaluate(lambda c, x: array_select.where_v2(c, x, 0.0), rows[:, None, None], X)
    np.testing.assert_array_equal(got, np.where(rows[:, None, None], X, 0))
    assert got.dtype == np.float32


def test_where_shapes(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match=r"condition \(2,\).*\(3, 4\)"):
        array_select.where(convert_to_tensor([True, False]), array.zeros([3, 4]), array.zeros([3, 4]))
    with pytest.raises(ValueError, match="both x and y"):
        array_select.where([True], [1.0])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_one_hot(evaluate: Any, axis: Any) -> None:
    ids = np.array([[0, 2], [5, -1]], np.int32)
    got = evaluate(lambda i: array_select.one_hot(i, 3, axis=axis), ids)
    want = np.moveaxis(ids[..., None] == np.arange(3), -1, -1 if axis is None else axis)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)
    got = evaluate(lambda i: array_select.one_hot(i, 3, 7, -7, dtype="int64"), ids)
    assert got.dtype == np.int64 and set(got.ravel().tolist()) == {7, -7}


@pytest.mark.parametrize(
    "x", [np.array([5, 3, 5, 1, 3], np.int64), np.array([b"b", b"a", b"b"], object), np.zeros(0, "f4")]
)
def test_unique_keeps_the_order_of_appearance(evaluate: Any, x: np.ndarray) -> None:
    y, idx, count = evaluate(array_select.unique_with_counts, x)
    assert y.tolist() == list(dict.fromkeys(x.tolist()))
    assert y[idx].tolist() == x.tolist() and idx.dtype == np.int32
    assert count.tolist() == [x.tolist().count(v) for v in y.tolist()]
    y, idx = evaluate(lambda t: array_select.unique(t, out_idx="int64"), x)
    assert y[idx].tolist() == x.tolist() and idx.dtype == np.int64


def test_setdiff1d(evaluate: Any) -> None:
    out, idx = evaluate(array_select.setdiff1d, np.array([1, 2, 3, 2, 4]), np.array([2, 9]))
    assert out.tolist() == [1, 3, 4] and idx.tolist() == [0, 2, 4]
    out, idx = evaluate(array_select.setdiff1d, np.arange(100), np.arange(0, 100, 2))
    assert out.tolist() == idx.tolist() == [*range(1, 100, 2)]
    with pytest.raises(InvalidArgumentError, match=r"x must be a vector, got shape \(2, 2\)"):
        evaluate(array_select.setdiff1d, np.ones((2, 2)), np.ones(1))


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_are_indices(use_resource: bool) -> None:
    """A counter that says which row is written next, as replay memories have."""
    with tf.Graph().as_default():
        at = tf.Variable(2, use_resource=use_resource)
        got = [tf.constant(X)[at], tf.constant(X)[1:at], tf.constant(X)[0, at]]
        with tf.Session() as session:
            session.run(at.initializer)
            for one, want in zip(session.run(got), (X[2], X[1:2], X[0, 2])):
                np.testing.assert_array_equal(one, want)
        for wrong in (tf.Variable([1]), tf.Variable(1.0), tf.constant([1]), tf.constant(1.0), 1.5):
            with pytest.raises(TypeError, match="scalar integer tensors are valid indices"):
                tf.constant(X)[wrong]


def test_batch_scatter_update() -> None:
    ids, rows = np.array([[0, 2], [3, 1], [1, 1]]), -1 - np.arange(30, dtype=np.float32).reshape(3, 2, 5)
    with tf.Graph().as_default():
        ref, unknown = tf.Variable(X), tf.placeholder(tf.int32)
        done = tf.batch_scatter_update(ref, tf.placeholder_with_default(ids, [None, 2]), rows)
        with pytest.raises(ValueError, match="known rank"):
            tf.batch_scatter_update(ref, unknown, rows)
        with tf.Session() as session:
            session.run(ref.initializer)
            got = session.run(done)
    want = X.copy()
    for i, (row, at) in enumerate(zip(rows, ids)):
        want[i, at] = row
    np.testing.assert_array_equal(got, want)


def test_sizes_that_are_partly_known() -> None:
    with Graph().as_default():
        n, x = array.placeholder("int32", []), array.placeholder("float32", [None, 5])
        assert array_slice.slice_(x, [0, 1], [n, 2]).shape.as_list() == [None, 2]
        assert array_slice.slice_(x, [0, 1], [n, -1]).shape.as_list() == [None, None]
