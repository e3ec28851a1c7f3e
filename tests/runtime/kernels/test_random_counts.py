"""Binomial values and normal values between limits: their distributions, and TensorFlow's own."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.kernels import random_between, random_binomial
from sparkflow_runtime.kernels.philox import Stream, of_seed
from sparkflow_runtime.kernels.random_between import between
from sparkflow_runtime.kernels.random_binomial import binomial

STREAM = Stream(87654321, 5 << 64)
PARAMETERS = [np.array(v) for v in ([0.0, 1, 0, 0], [1.0, 2, 1, 1], [-2.0, 2, -0.3, -np.inf], [2.0, 9, 0.3, -3])]


@pytest.mark.parametrize("trials, chance", [(10.0, 0.3), (400.0, 0.01), (100.0, 0.5), (3000.0, 0.9), (40.0, 0.97)])
def test_moments_of_binomial(trials: float, chance: float) -> None:
    drawn = binomial(STREAM, np.array([trials]), np.array([chance]), 20_000)[:, 0]
    variance = trials * chance * (1 - chance)
    assert (drawn == np.floor(drawn)).all() and drawn.min() >= 0 and drawn.max() <= trials
    assert abs(drawn.mean() - trials * chance) < 5 * np.sqrt(variance / 20_000)
    assert abs(drawn.var() / variance - 1) < 0.05


def test_what_never_and_always_succeeds() -> None:
    drawn = binomial(STREAM, np.array([5.0, 5, 0, 0]), np.array([0.0, 1, 0.5, 1]), 3)
    assert (drawn == [0, 5, 0, 0]).all()


def test_the_type_says_how_counts_are_drawn() -> None:
    """1000 times float32's 0.01 are 10 in float32, and less than that in float64."""
    several, chances = np.array([1000.0]), np.array([np.float64(np.float32(0.01))])
    narrow, wide = (binomial(STREAM, several, chances, 50, dtype) for dtype in (np.float32, np.float64))
    assert (narrow != wide).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    kind = np.dtype(dtype)

    def drawn() -> list[np.ndarray]:
        counts = binomial(STREAM, np.array([10.0, 90]), np.array([0.2, 0.7]), 50)
        return [counts, between(STREAM, PARAMETERS, 50, kind)]

    together = drawn()
    monkeypatch.setattr(random_binomial, "AT_ONCE", 7)
    monkeypatch.setattr(random_between, "_AT_ONCE", 3)
    assert all(np.array_equal(a, b) for a, b in zip(together, drawn()))
    assert between(STREAM, PARAMETERS, 0, kind).shape == (0, 4)


def test_tensorflows_values() -> None:
    """Of TensorFlow 2.21's stateless_binomial and stateless_parameterized_truncated_normal, seed [3, 4]."""
    stream = of_seed((3, 4))
    counts = binomial(stream, np.array([10.0, 100, 100, 1000]), np.array([0.3, 0.05, 0.5, 0.8]), 40)
    assert counts[:3].tolist() == [[5, 3, 51, 810], [5, 4, 56, 801], [1, 6, 46, 788]]
    normals = between(
        stream,
        [np.array([v] * 3) for v in (0.0, 1.0)] + [np.array([-2.0, 3, -0.2]), np.array([2.0, 9, 0.2])],
        40,
        np.dtype(np.float64),
    )
    np.testing.assert_allclose(
        normals[:2],
        [[-0.331084559716, 3.18791575647, -0.0469165444235], [0.027812399665, 4.17319190112, -0.0243936405025]],
        1e-9,
    )
