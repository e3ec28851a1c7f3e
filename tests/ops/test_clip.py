"""Clipping by value and by norm, of tensors and of slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array, clip
from sparkflow_runtime.wire.errors import InvalidArgumentError

X = np.array([[-3.0, 4.0], [0.0, 0.0]], np.float32)


def test_by_value(evaluate: Any) -> None:
    got = evaluate(lambda x: clip.clip_by_value(x, -1, 2), X)
    assert got.dtype == np.float32 and got.tolist() == [[-1, 2], [0, 0]]
    got = evaluate(lambda x: clip.clip_by_value(x, [-1, 1], [5, 2]), X.astype(np.int32))
    assert got.dtype == np.int32 and got.tolist() == [[-1, 2], [0, 1]]


def test_by_value_must_not_grow(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="not compatible"):
        clip.clip_by_value(array.zeros([2]), array.zeros([3, 2]), 1.0)


def test_by_norm(evaluate: Any) -> None:
    np.testing.assert_allclose(evaluate(lambda x: clip.clip_by_norm(x, 2.5), X), X / 2)
    np.testing.assert_array_equal(evaluate(lambda x: clip.clip_by_norm(x, 6.0), X), X)
    np.testing.assert_allclose(evaluate(lambda x: clip.clip_by_norm(x, 1.0, axes=[1]), X), X / 5, rtol=1e-6)


def test_global_norm(evaluate: Any) -> None:
    assert evaluate(lambda x: clip.global_norm([x, None, x]), X) == pytest.approx(50**0.5)
    with pytest.raises(TypeError, match="takes a list"):
        clip.global_norm(3.0)  # type: ignore[arg-type]


def test_the_norm_of_nothing_is_nothing(graph: Any) -> None:
    (none,), norm = clip.clip_by_global_norm([None], 1.0)
    with tf.Session() as session:
        assert none is None and session.run([norm, clip.global_norm([None]), clip.global_norm([])]) == [0, 0, 0]


def test_by_global_norm(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        (first, none, second), norm = clip.clip_by_global_norm([x, None, x * 2.0], 1.0)
        assert none is None
        return [first, second, norm]

    first, second, norm = evaluate(build, X)
    assert norm == pytest.approx(125**0.5)
    np.testing.assert_allclose(first, X / 125**0.5, rtol=1e-6)
    np.testing.assert_allclose(second, 2 * X / 125**0.5, rtol=1e-6)


def test_an_infinite_norm_is_seen(evaluate: Any) -> None:
    got = evaluate(lambda x: clip.clip_by_global_norm([x], 1.0)[0][0], np.array([np.inf, 1], np.float32))
    assert np.isnan(got).all()


def test_slices_stay_slices(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        slices = IndexedSlices(x, array.zeros([2], "int32"))
        clipped = [clip.clip_by_norm(slices, 1.0), clip.clip_by_global_norm([slices], 1.0)[0][0]]
        assert all(isinstance(c, IndexedSlices) and c.indices is slices.indices for c in clipped)
        return [c.values for c in clipped]

    for got in evaluate(build, X):
        np.testing.assert_allclose(got, X / 5, rtol=1e-6)
