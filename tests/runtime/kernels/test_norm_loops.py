"""Batch normalisation's loops: both versions have the same bits, and the values are those of the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import norm_batches
from sparkflow_runtime.kernels import norm_loops as norm

LOOPS = [
    norm.block_sums,
    norm.block_squares,
    norm.block_products,
    norm.normalise,
    norm.descend,
    norm.shift,
    norm.shift_own,
    norm.normalise_own,
]
SHAPES = [(1, 1), (5, 3), (700, 64), (40, 513), (9000, 5), (131, 512), (33000, 1)]


@pytest.fixture(params=[True, False], ids=["compiled", "numpy"])
def version(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param else loop.numpy)


def inputs(shape: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(shape[0])
    x, up = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    x += rng.standard_normal(shape[1]).astype(np.float32) * 5
    return x, up, rng.random(shape[1]).astype(np.float32) + 0.5, rng.standard_normal(shape[1]).astype(np.float32)


def everything(shape: tuple[int, int]) -> list[np.ndarray]:
    x, up, scale, offset = inputs(shape)
    mean, variance = norm.moments(x)
    inverse = (1 / np.sqrt(variance + 1e-3)).astype(np.float32)
    sums = norm.gradient_sums(up, x, mean, inverse)
    moved = x.copy()
    norm.shifted(moved, offset, moved)
    assert moved.tobytes() == (x + offset).tobytes()
    return [
        mean,
        variance,
        norm.normalised(x, mean, inverse * scale, offset),
        *sums,
        norm.gradient(up, x, mean, inverse, offset, scale),
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_formulas(version: None, shape: tuple[int, int]) -> None:
    x, up, scale, offset = (v.astype(np.float64) for v in inputs(shape))
    mean, variance, y, plain, scaled, dx = everything(shape)
    near = {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(mean, x.mean(0), **near)
    np.testing.assert_allclose(variance, x.var(0), **near)
    inverse = 1 / np.sqrt(x.var(0) + 1e-3)
    np.testing.assert_allclose(y, (x - x.mean(0)) * inverse * scale + offset, **near)
    np.testing.assert_allclose(plain, up.sum(0), rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(scaled, (up * (x - x.mean(0)) * inverse).sum(0), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(dx, (up - ((x - x.mean(0)) * inverse + offset)) * scale, **near)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for way in ("compile", "numpy"):
        for loop in LOOPS:
            monkeypatch.setattr(loop, "_call", loop.compile() if way == "compile" else loop.numpy)
        made.append(everything(shape))
    for one, other in zip(*made):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("radius", [0, 1, 4, 50])
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_sums_over_neighbours(version: None, shape: tuple[int, int], radius: int) -> None:
    x, out = inputs(shape)[0], np.full(shape, 7, np.float32)
    norm.window_sums(x, out, radius)
    wide = x.astype(np.float64)
    for c in range(shape[1]):
        np.testing.assert_allclose(out[:, c], wide[:, max(0, c - radius) : c + radius + 1].sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 3), (700, 64), (40, 513), (9000, 5), (131, 400), (1, 2), (2, 40000)])
def test_small_batches_have_the_same_bits_in_one_loop(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x, up, scale, offset = inputs(shape)
    epsilon, ratio = np.float32(1e-3), np.float32(1.25)
    made = []
    for compiled in (True, False):
        for loop in (norm_batches.forward, norm_batches.backward):
            monkeypatch.setattr(loop, "_call", loop.compile() if compiled else loop.numpy)
        y, mean, variance, unbiased = norm_batches.normalised(x, scale, offset, epsilon, ratio)
        made.append([y, mean, variance, unbiased, *norm_batches.gradients(up, x, scale, mean, variance, epsilon)])
    for one, other in zip(*made):
        assert one.tobytes() == other.tobytes()
    mean, variance = norm.moments(x)
    inverse = scale / np.sqrt(variance + epsilon)
    assert made[0][0].tobytes() == norm.normalised(x, mean, inverse, offset).tobytes()
    assert made[0][3].tobytes() == (variance * ratio).tobytes()
