"""Pooling against windows written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.ops import array, nn_pool
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

RNG = np.random.default_rng(5)


def pooled(x: np.ndarray, size: int, stride: int, before: int, reduce: Any) -> np.ndarray:
    """NHWC with `before` cells of padding at the top and left and as many as fit behind; they never count."""
    out = [-(-n // stride) for n in x.shape[1:3]]
    y = np.empty((len(x), *out, x.shape[3]))
    for i, j in np.ndindex(*out):
        (a, b), (c, d) = ((max(0, s), s + size) for s in (i * stride - before, j * stride - before))
        y[:, i, j] = reduce(x[:, a:b, c:d], (1, 2))
    return y


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_pools(evaluate: Any, dtype: Any) -> None:
    x = (RNG.standard_normal((2, 7, 7, 3)) * 8).astype(dtype)
    got = evaluate(lambda a: nn_pool.max_pool(a, 3, 2, "SAME"), x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, pooled(x, 3, 2, 1, np.max))
    if dtype != np.int32:
        got = evaluate(lambda a: nn_pool.avg_pool(a, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"), x)
        np.testing.assert_allclose(
            got, pooled(x.astype("f8"), 3, 2, 1, np.mean), rtol=5e-3 if dtype == np.float16 else 1e-5, atol=1e-6
        )


def test_layouts_and_axes(evaluate: Any) -> None:
    x = RNG.standard_normal((2, 5, 6, 3))
    for pool, pool1d, pool3d in (
        (nn_pool.max_pool, nn_pool.max_pool1d, nn_pool.max_pool3d),
        (nn_pool.avg_pool, nn_pool.avg_pool1d, nn_pool.avg_pool3d),
    ):
        want = evaluate(lambda a, p=pool: p(a, [2, 3], [2, 1], "VALID"), x)
        first = evaluate(lambda a, p=pool: p(a, [2, 3], [2, 1], "VALID", "NCHW"), np.moveaxis(x, 3, 1).copy())
        np.testing.assert_allclose(np.moveaxis(first, 1, 3), want)
        deep = evaluate(lambda a, p=pool3d: p(a, [1, 2, 3], [1, 2, 1], "VALID"), x[:, None])
        np.testing.assert_allclose(deep[:, 0], want)
        flat = evaluate(lambda a, p=pool1d: p(a, 3, 1, "VALID"), x[:, 0])
        np.testing.assert_allclose(flat, evaluate(lambda a, p=pool: p(a, [1, 3], 1, "VALID"), x[:, :1])[:, 0])


def test_nan_is_the_largest_and_infinity_not_the_least(evaluate: Any) -> None:
    x = np.array([1.0, np.nan, 3.0, -np.inf, -np.inf, -np.inf]).reshape(1, 1, 6, 1)
    got = evaluate(lambda a: nn_pool.max_pool(a, [1, 3], [1, 3], "VALID"), x)
    np.testing.assert_array_equal(got.ravel(), [np.nan, np.finfo(np.float64).min])


def test_argmax(evaluate: Any) -> None:
    x = np.array([[1, 5, 5, 2], [9, 0, 5, 3]], np.float32).reshape(1, 2, 4, 1).repeat(2, 0)
    values, places = evaluate(lambda a: nn_pool.max_pool_with_argmax(a, 2, 2, "VALID"), x)
    assert values[0].ravel().tolist() == [9, 5] and places.dtype == np.int64
    assert places.reshape(2, 2).tolist() == [[4, 2], [4, 2]]

    def in_batch(a: Any) -> Any:
        return nn_pool.max_pool_with_argmax(a, 2, 2, "VALID", Targmax="int32", include_batch_in_index=True)

    _, places = evaluate(in_batch, x)
    assert places.reshape(2, 2).tolist() == [[4, 2], [12, 10]] and places.dtype == np.int32


@pytest.mark.parametrize("rank, kind", [(r, k) for r in (3, 4, 5) for k in ("MAX", "AVG")])
def test_pool_by_rank(evaluate: Any, rank: int, kind: str) -> None:
    x = RNG.standard_normal((2, *[4] * (rank - 2), 3))
    assert evaluate(lambda a: nn_pool.pool(a, [2] * (rank - 2), kind, "VALID"), x).shape == (2, *[3] * (rank - 2), 3)


@pytest.mark.parametrize("kind", ["MAX", "AVG"])
@pytest.mark.parametrize("planar", [False, True])
def test_cells_of_a_window_may_be_apart(evaluate: Any, kind: str, planar: bool) -> None:
    x = RNG.standard_normal((2, 8, 7, 3))
    near, far = x[:, :-2], x[:, 2:]  # of a window of 2 rows, 2 apart, and of 3 columns, 1 apart
    cells = [part[:, :, i : i + 5] for part in (near, far) for i in range(3)]
    expected = np.max(cells, 0) if kind == "MAX" else np.mean(cells, 0)
    order, back = ([0, 3, 1, 2], [0, 2, 3, 1]) if planar else ([0, 1, 2, 3], [0, 1, 2, 3])
    found = evaluate(
        lambda a: nn_pool.pool(a, [2, 3], kind, "VALID", [2, 1], data_format="NCHW" if planar else "NHWC"),
        x.transpose(order),
    )
    np.testing.assert_allclose(found.transpose(back), expected, rtol=1e-12)
    with Graph().as_default():
        known = nn_pool.pool(array.zeros([2, 8, 7, 3]), [2, 3], kind, "VALID", [2, 1])
        assert known.shape.as_list() == list(expected.shape)


def test_static_shapes_and_refusals(graph: Graph) -> None:
    x = array.placeholder("float32", [None, 7, None, 3])
    assert nn_pool.max_pool(x, 2, 2, "SAME").shape.as_list() == [None, 4, None, 3]
    assert nn_pool.avg_pool(x, 2, 2, "VALID").shape.as_list() == [None, 3, None, 3]
    with pytest.raises(ValueError, match="ksize must hold 1, 2 or 4 numbers"):
        nn_pool.max_pool(x, [1, 2, 3], 1, "SAME")
    with pytest.raises(InvalidArgumentError, match="does not fit an axis of 7"):
        nn_pool.max_pool(x, 9, 1, "VALID")
    for padding, strides in (("SAME", None), ("VALID", [2, 1])):
        with pytest.raises(ValueError, match="dilations above 1 need padding VALID and strides of 1"):
            nn_pool.pool(x, [2, 2], "MAX", padding, dilation_rate=[2, 2], strides=strides)


def test_pooling_channels_is_refused(evaluate: Any) -> None:
    with pytest.raises(UnimplementedError, match="pooling over batch or channels"):
        evaluate(lambda a: nn_pool.max_pool(a, [1, 1, 1, 3], [1, 1, 1, 1], "SAME"), np.zeros((1, 2, 2, 3)))
