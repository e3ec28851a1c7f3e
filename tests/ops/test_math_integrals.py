"""tf.math.special: Bessel's functions and integrals that have names, against sums of their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

special = tf.math.special
X = np.array([0.1, 0.7, 1.3, 3.0, 9.5, 24.0, 26.0, 40.0])


def _mean(f: Any, low: float, high: float, n: int = 200_000) -> np.ndarray:
    """The mean of f(x, t) over t, at midpoints; of each x."""
    t = low + (high - low) * (np.arange(n) + 0.5) / n
    return np.array([f(x, t).mean() for x in X])


def _integral(f: Any) -> np.ndarray:
    """Of f(t) from 0 to each x."""
    return np.array([f(x * (np.arange(200_000) + 0.5) / 200_000).mean() * x for x in X])


CASES: dict[str, Any] = {
    "bessel_j0": lambda: _mean(lambda x, t: np.cos(x * np.sin(t)), 0, np.pi),
    "bessel_j1": lambda: _mean(lambda x, t: np.cos(t - x * np.sin(t)), 0, np.pi),
    "bessel_k0e": lambda: 12 * _mean(lambda x, t: np.exp(-x * (np.cosh(t) - 1)), 0, 12),
    "bessel_k1e": lambda: 12 * _mean(lambda x, t: np.exp(-x * (np.cosh(t) - 1)) * np.cosh(t), 0, 12),
    "fresnel_cos": lambda: _integral(lambda t: np.cos(np.pi / 2 * t * t)),
    "fresnel_sin": lambda: _integral(lambda t: np.sin(np.pi / 2 * t * t)),
    "dawsn": lambda: np.array(
        [np.exp((x * (np.arange(200_000) + 0.5) / 200_000) ** 2 - x * x).mean() * x for x in X]
    ),
    "spence": lambda: -np.array([_spence(x) for x in X]),
}  # fmt: skip


def _spence(x: float) -> float:
    t = 1 + (x - 1) * (np.arange(200_000) + 0.5) / 200_000
    return float((np.log(t) / (t - 1)).mean() * (x - 1))


@pytest.mark.parametrize("name", CASES)
def test_values(graph: Any, name: str) -> None:
    with tf.Session() as session:
        found = session.run(getattr(special, name)(X))
    np.testing.assert_allclose(found, CASES[name](), rtol=2e-5, atol=2e-9)


def test_what_follows_from_others(graph: Any) -> None:
    """Wronskians; and where functions of an argument end."""
    j0, j1, y0, y1 = (getattr(special, f"bessel_{n}")(X) for n in ("j0", "j1", "y0", "y1"))
    i0, i1, k0, k1 = (getattr(special, f"bessel_{n}")(X) for n in ("i0", "i1", "k0", "k1"))
    ends = np.array([0.0, -1.0, np.inf, np.nan])
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(j1 * y0 - j0 * y1), 2 / (np.pi * X), rtol=1e-13)
        np.testing.assert_allclose(session.run(i0 * k1 + i1 * k0), 1 / X, rtol=1e-13)
        np.testing.assert_array_equal(session.run(special.bessel_k0(ends)), [np.inf, np.inf, 0, np.nan])
        np.testing.assert_array_equal(session.run(special.bessel_y1(ends))[:2], [-np.inf, -np.inf])
        np.testing.assert_array_equal(session.run(special.fresnel_cos(ends))[2:], [0.5, np.nan])
        known = [-6.3295393640250394, 1.8951178163559368, 1.0585636897131690e20]
        np.testing.assert_allclose(session.run(special.expint(np.array([1e-3, 1, 50.0]))), known, rtol=1e-14)


@pytest.mark.parametrize("name", [*CASES, "bessel_y0", "bessel_y1", "bessel_k0", "bessel_k1", "expint"])
def test_gradients(graph: Any, name: str) -> None:
    """By central differences; and at the points where one cannot be computed as elsewhere."""
    function, at = getattr(special, name), {"bessel_j1": (0.0, 0.5), "spence": (1.0, -1.0)}.get(name)
    x = tf.constant(X[:6])
    (slope,) = tf.gradients(function(x), x)
    difference = (function(X[:6] + 1e-5) - function(X[:6] - 1e-5)) / 2e-5
    with tf.Session() as session:
        np.testing.assert_allclose(*session.run([slope, difference]), rtol=2e-6, atol=1e-9)
        if at:
            there = tf.constant(at[0])
            assert session.run(tf.gradients(function(there), there)) == [at[1]]
