"""Reductions, running sums, positions and segments against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from sparkflow.framework.graph import Graph
from sparkflow.ops import array, math_reduce
from sparkflow_runtime.wire.errors import InvalidArgumentError

REDUCTIONS = [
    (math_reduce.reduce_sum, np.sum),
    (math_reduce.reduce_prod, np.prod),
    (math_reduce.reduce_mean, np.mean),
    (math_reduce.reduce_max, np.max),
    (math_reduce.reduce_min, np.min),
]
X = np.arange(-6, 18).reshape(2, 3, 4)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2], [], [0, 1, 2]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("build, expected", REDUCTIONS)
def test_reductions(evaluate: Any, build: Any, expected: Any, dtype: Any, axis: Any, keep: bool) -> None:
    x = (X % 2 + 1).astype(dtype)
    got = evaluate(lambda t: build(t, axis, keep), x)
    want = expected(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keep)
    if expected is np.mean and np.issubdtype(dtype, np.integer):
        want = np.trunc(want)
    assert got.dtype == dtype and np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want.astype(dtype), rtol=1e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("axis", [None, 0, [1]])
def test_all_and_any(evaluate: Any, axis: Any) -> None:
    x = np.array([[True, False], [True, True]])
    where = tuple(axis) if isinstance(axis, list) else axis
    assert (evaluate(lambda t: math_reduce.reduce_all(t, axis), x) == x.all(where)).all()
    assert (evaluate(lambda t: math_reduce.reduce_any(t, axis), x) == x.any(where)).all()


def test_mean_of_integers_is_cut_towards_zero(evaluate: Any) -> None:
    assert evaluate(math_reduce.reduce_mean, np.array([-3, -4], np.int32)) == -3


def test_of_nothing(evaluate: Any) -> None:
    x = np.zeros((0, 2), np.float32)
    assert evaluate(lambda t: math_reduce.reduce_sum(t, 0), x).tolist() == [0, 0]
    assert evaluate(lambda t: math_reduce.reduce_max(t, 0), x).tolist() == [-np.inf] * 2
    assert evaluate(lambda t: math_reduce.reduce_min(t, 0), x.astype(np.int32)).tolist() == [2**31 - 1] * 2
    assert np.isnan(evaluate(math_reduce.reduce_mean, x))


def test_sum_of_halves_does_not_stop_counting(evaluate: Any) -> None:
    assert evaluate(math_reduce.reduce_mean, np.ones(100_000, np.float16)) == 1


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_logsumexp(evaluate: Any, axis: Any) -> None:
    x = np.array([[1000.0, 1000.0], [-1000.0, 0.0]])
    got = evaluate(lambda t: math_reduce.reduce_logsumexp(t, axis), x)
    np.testing.assert_allclose(got, special.logsumexp(x, axis))
    assert evaluate(math_reduce.reduce_logsumexp, np.full(2, -np.inf)) == -np.inf


def test_old_names_of_arguments(evaluate: Any) -> None:
    x = np.ones((2, 3))
    assert evaluate(lambda t: math_reduce.reduce_sum(t, reduction_indices=[1], keep_dims=True), x).shape == (2, 1)
    with pytest.raises(ValueError, match="axis once"):
        math_reduce.reduce_sum(array.zeros([2]), 0, reduction_indices=0)


def test_axes_out_of_range(graph: Graph, evaluate: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"axis 2 is out of range for rank 2"):
        math_reduce.reduce_sum(array.zeros([2, 2]), 2)
    with pytest.raises(InvalidArgumentError, match=r"out of range for shape \(2,\)"):
        evaluate(lambda t: math_reduce.reduce_sum(t, 1), np.ones(2), known_shapes=False)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("axis", [None, 1, -1])
def test_positions(evaluate: Any, axis: Any, dtype: Any) -> None:
    x = np.array([[1, 5, 5], [7, 0, 0]], dtype)
    got = evaluate(lambda t: math_reduce.argmax(t, axis), x)
    assert got.dtype == np.int64 and got.tolist() == np.argmax(x, axis or 0).tolist()
    got = evaluate(lambda t: math_reduce.argmin(t, axis, output_type="int32"), x)
    assert got.dtype == np.int32 and got.tolist() == np.argmin(x, axis or 0).tolist()


@pytest.mark.parametrize(
    "exclusive, reverse, sums, products",
    [
        (False, False, [1, 3, 6], [1, 2, 6]),
        (True, False, [0, 1, 3], [1, 1, 2]),
        (False, True, [6, 5, 3], [6, 6, 3]),
        (True, True, [5, 3, 0], [6, 3, 1]),
    ],
)
def test_running(evaluate: Any, exclusive: bool, reverse: bool, sums: Any, products: Any) -> None:
    x = np.array([[1, 2, 3]], np.int32)
    got = evaluate(lambda t: math_reduce.cumsum(t, 1, exclusive, reverse), x)
    assert got.dtype == np.int32 and got.tolist() == [sums]
    assert evaluate(lambda t: math_reduce.cumprod(t, -1, exclusive, reverse), x).tolist() == [products]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.complex64])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_along_any_axis(evaluate: Any, dtype: Any, axis: int, exclusive: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 5, 4)).astype(dtype)
    want = np.cumsum(x, axis, dtype) - (x if exclusive else 0)
    got = evaluate(lambda t: math_reduce.cumsum(t, axis, exclusive), x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)
    back = evaluate(lambda t: math_reduce.cumsum(t, axis, exclusive, reverse=True), np.flip(x, axis))
    np.testing.assert_array_equal(back, np.flip(want, axis))


def test_running_sums_of_nothing_or_along_no_axis(evaluate: Any) -> None:
    for shape, axis in (((0, 3), 0), ((2, 0), 1)):
        assert evaluate(lambda t, a=axis: math_reduce.cumsum(t, a, exclusive=True), np.zeros(shape)).shape == shape
    axis = np.array(2, np.int32)
    with pytest.raises(InvalidArgumentError, match=r"Cumsum: axis 2 is out of range for shape \(2, 3\)"):
        evaluate(math_reduce.cumsum, np.zeros((2, 3)), axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_unsorted_segment_sum(evaluate: Any, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    ids, data = rng.integers(-1, 5, (40, 2)), rng.integers(0, 9, (40, 2, 3)).astype(dtype)
    want = np.zeros((5, 3), dtype)
    np.add.at(want, ids[ids >= 0], data[ids >= 0])
    got = evaluate(lambda d, i: math_reduce.unsorted_segment_sum(d, i, 5), data, ids)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)


def test_segments_that_do_not_fit(evaluate: Any) -> None:
    data = np.ones((3, 2))
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 7 is not in \[0, 5\)"):
        evaluate(lambda d: math_reduce.unsorted_segment_sum(d, [0, 7, 1], 5), data)
    with pytest.raises(InvalidArgumentError, match="must not decrease"):
        evaluate(lambda d: math_reduce.segment_sum(d, [0, 2, 1]), data)


def test_segment_sum(evaluate: Any) -> None:
    got = evaluate(lambda d: math_reduce.segment_sum(d, [0, 0, 2]), np.array([[1, 2], [3, 4], [5, 6]], np.int32))
    assert got.tolist() == [[4, 6], [0, 0], [5, 6]]
