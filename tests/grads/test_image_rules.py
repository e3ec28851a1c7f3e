"""The gradients of resizing: linear and float32, hence by the transpose and not by a small step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Graph
from sparkflow.framework.registry import registered
from sparkflow.grads import registry
from sparkflow.grads.gradients import gradients
from sparkflow.ops import array, image
from sparkflow.session.session import Session

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("corners, centers", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("resize", [image.resize_bilinear, image.resize_nearest_neighbor, image.resize_bicubic])
@pytest.mark.parametrize("size", [(7, 5), (3, 2), (1, 1)])
def test_gradient_is_the_transpose(graph: Graph, resize: Any, size: Any, corners: bool, centers: bool) -> None:
    """<dy, resize(x)> = <resize'(dy), x>, and once more for the gradient of the gradient."""
    x, dy, d = (RNG.normal(size=s).astype("f4") for s in ((2, 4, 6, 3), (2, *size, 3), (2, 4, 6, 3)))
    t, up = constant(x), array.placeholder("float32", dy.shape)
    y = resize(t, size, corners, half_pixel_centers=centers)
    (dx,) = gradients(y, t, grad_ys=[up])
    (again,) = gradients(dx, up, grad_ys=[constant(d)])
    with Session(graph=graph) as session:
        value, back, twice = session.run([y, dx, again], {up: dy})
    np.testing.assert_allclose((value * dy).sum(), (back * x).sum(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose((back * d).sum(), (twice * dy).sum(), rtol=1e-3, atol=1e-4)


def test_every_op_is_listed() -> None:
    assert all(registry.listed(t) for t in registered() if t.startswith("Resize") and t != "ResizeArea")


def test_areas_have_no_gradient(graph: Graph) -> None:
    x = array.placeholder("float32", [1, 4, 4, 1])
    with pytest.raises(LookupError, match="ResizeArea"):
        gradients(image.resize_area(x, [2, 2]), x)
