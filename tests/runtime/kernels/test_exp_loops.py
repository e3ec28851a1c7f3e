"""Exponentials, softmax and the error function in loops: the bits of the array versions, near the exact values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import exp_loops

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 87.0, 88.4, 1e30, -1e30, -87.4, 3.92, -5.0]


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    fine = np.isfinite(wanted) & (np.abs(wanted) > 1.2e-38)
    return float(np.max(np.abs(found[fine] - wanted[fine]) / np.spacing(np.abs(wanted[fine]).astype(np.float32))))


def test_exp() -> None:
    x = np.concatenate([np.linspace(-87.2, 88.2, 100001), EDGES]).astype(np.float32)
    found = exp_loops.exp_of(x)
    with np.errstate(all="ignore"):
        wanted = np.exp(x.astype(np.float64))
    assert ulps(found[:-15], wanted[:-15]) < 1
    np.testing.assert_array_equal(found[-15:-10], np.array([1, 1, np.inf, 0, np.nan], np.float32))
    alone = np.array([exp_loops.exp32(v) for v in x[:3000]], np.float32)
    assert alone.tobytes() == found[:3000].tobytes()


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 7), (4, 8), (9, 33), (2, 1000)])
def test_softmax_has_the_same_bits_in_both_versions(shape: tuple[int, int]) -> None:
    x = (np.random.default_rng(1).standard_normal(shape) * 20).astype(np.float32)
    x.reshape(-1)[: min(x.size, 15) : 4] = EDGES[: len(x.reshape(-1)[: min(x.size, 15) : 4])]
    made = []
    for version in (exp_loops.softmax_rows.compile(), exp_loops.softmax_rows.numpy):
        out, most, total = np.zeros_like(x), np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
        version(x, out, most, total, 0, len(x))
        made.append((out, most, total))
    for one, other in zip(*made):
        np.testing.assert_array_equal(one, other)
        fine = one == one
        assert one[fine].tobytes() == other[fine].tobytes()
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(made[0][0], exact / exact.sum(1, keepdims=True), rtol=1e-5, atol=1e-37)


def test_softmax_in_parts_and_by_rank() -> None:
    x = np.random.default_rng(2).standard_normal((3, 200, 300)).astype(np.float32)[:, ::-1]
    made, most, total = exp_loops.softmax(x)
    exact = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(made, exact / exact.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(most, x.max(-1, keepdims=True))
    np.testing.assert_allclose(total, exact.sum(-1, keepdims=True), rtol=1e-5)


def _both(loop: Any, x: np.ndarray) -> list[np.ndarray]:
    made = []
    for version in (loop.compile(), loop.numpy):
        out = np.zeros_like(x)
        version(x, out, 0, len(x))
        made.append(out)
    return made


@pytest.mark.parametrize(
    ("loop", "exact", "far"), [(exp_loops.erf_all, math.erf, 7), (exp_loops.erfc_all, math.erfc, 16)]
)
def test_the_error_function(loop: Any, exact: Callable[[float], float], far: float) -> None:
    x = np.concatenate([np.linspace(-6, 9.2, 30001), 10.0 ** np.linspace(-37, 0, 300), EDGES]).astype(np.float32)
    one, other = _both(loop, x)
    np.testing.assert_array_equal(one, other)
    assert one[x == x].tobytes() == other[x == x].tobytes()
    wanted = np.array([exact(float(v)) for v in x])
    assert ulps(one, wanted) < far
    np.testing.assert_array_equal(np.isnan(one), np.isnan(x))
