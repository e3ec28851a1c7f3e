"""Resizing, against interpolation written out and values that TensorFlow gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.ops import array, image
from sparkflow_runtime.wire.errors import InvalidArgumentError

ROW = np.array([0.0, 10.0, 20.0, 40.0], np.float32).reshape(1, 1, 4, 1)


@pytest.mark.parametrize(
    "corners, centers, want",
    [
        (False, False, [0, 20 / 3, 40 / 3, 20, 100 / 3, 40]),
        (True, False, [0, 6, 12, 18, 28, 40]),
        (False, True, [0, 5, 35 / 3, 55 / 3, 30, 40]),
    ],
)
def test_bilinear(evaluate: Any, corners: bool, centers: bool, want: list[float]) -> None:
    def build(x: Any) -> Any:
        return image.resize_bilinear(x, [1, 6], corners, half_pixel_centers=centers)

    np.testing.assert_allclose(evaluate(build, ROW).ravel(), want, rtol=1e-5, atol=1e-5)
    whole = evaluate(build, ROW.astype(np.uint8))
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole.ravel(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "corners, centers, want", [(False, False, [0, 1, 2]), (True, False, [0, 2, 3]), (False, True, [0, 2, 3])]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float64])
def test_nearest(evaluate: Any, dtype: Any, corners: bool, centers: bool, want: list[int]) -> None:
    x = ROW.astype(dtype)

    def build(t: Any) -> Any:
        return image.resize_nearest_neighbor(t, [2, 3], corners, half_pixel_centers=centers)

    got = evaluate(build, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got[0, :, :, 0], x[0, :, want, 0].T.repeat(2, 0))


def test_resize_images(evaluate: Any, graph: Graph) -> None:
    x = np.arange(24.0).reshape(2, 4, 3).astype(np.float32)
    got = evaluate(lambda t: image.resize_images(t, [4, 2], image.ResizeMethod.NEAREST_NEIGHBOR), x)
    np.testing.assert_array_equal(got, x.repeat(2, 0)[:, ::2])
    assert evaluate(lambda t: image.resize_images(t, [4, 8]), x).shape == (4, 8, 3)
    same = array.placeholder("float32", [None, 4, 5, 3])
    assert image.resize_images(same, [4, 5]) is same
    assert image.resize_images(same, array.placeholder("int32", [2])).shape.as_list() == [None, None, None, 3]
    with pytest.raises(ValueError, match="rank 3 or 4"):
        image.resize_images(array.zeros([3, 3]), [4, 4])
    with pytest.raises(ValueError, match="Resize method"):
        image.resize_images(same, [4, 4], "lanczos")
    with pytest.raises(ValueError, match="exclude each other"):
        image.resize_bilinear(same, [4, 4], True, half_pixel_centers=True)
    with pytest.raises(InvalidArgumentError, match="size must be two numbers above 0"):
        image.resize_bilinear(same, [4, 0])
