"""Gamma and Poisson values: their distributions, and that each depends on its own number alone."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.kernels import random_rejection
from sparkflow_runtime.kernels.philox import Stream
from sparkflow_runtime.kernels.random_rejection import gamma, poisson

STREAM = Stream(87654321, 5 << 64)


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0, 1.01, 3.0, 200.0])
def test_moments_of_gamma(alpha: float) -> None:
    drawn = gamma(STREAM, np.array([alpha]), 30_000)[:, 0]
    assert drawn.min() >= 0 and abs(drawn.mean() - alpha) < 5 * np.sqrt(alpha / 30_000)
    assert abs(drawn.var() / alpha - 1) < 0.12 * max(1, alpha**-0.5)


@pytest.mark.parametrize("rate", [0.0, 0.3, 9.99, 10.0, 57.3, 1e6])
def test_moments_of_poisson(rate: float) -> None:
    drawn = poisson(STREAM, np.array([rate]), 30_000)[:, 0]
    assert (drawn == np.floor(drawn)).all() and drawn.min() >= 0
    assert abs(drawn.mean() - rate) <= 5 * np.sqrt(rate / 30_000) and abs(drawn.var() - rate) <= 0.07 * rate


def test_a_rate_without_end_gives_no_number() -> None:
    drawn = poisson(STREAM, np.array([np.inf, 2.0, np.nan]), 4)
    assert np.isnan(drawn[:, [0, 2]]).all() and np.isfinite(drawn[:, 1]).all()


def test_odd_parameters_come_to_an_end() -> None:
    drawn = gamma(STREAM, np.array([np.nan, np.inf, 0.0, 1e-300]), 500)
    assert np.isnan(drawn[:, 0]).all() and (drawn[:, 1] == np.inf).all() and not drawn[:, 2:].any()
    assert abs(poisson(STREAM, np.array([1e17, 1e300]), 50) / [1e17, 1e300] - 1).max() < 1e-6


@pytest.mark.parametrize("draw", [gamma, poisson])
def test_values_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch, draw: object) -> None:
    parameters = np.array([0.2, 1.0, 5.5, 30.0])
    together = draw(STREAM, parameters, 900)  # type: ignore[operator]
    monkeypatch.setattr(random_rejection, "AT_ONCE", 7)
    assert np.array_equal(draw(STREAM, parameters, 900), together)  # type: ignore[operator]
    assert draw(STREAM, parameters, 0).shape == (0, 4) and draw(STREAM, parameters[:0], 3).shape == (3, 0)  # type: ignore[operator]


def test_tensorflows_values() -> None:
    """Of TensorFlow 2.21's random_gamma([2], [0.5, 2.0], seed=5) and random_poisson([2.0, 40.0, 1e3], [2], seed=5)."""
    np.testing.assert_allclose(
        gamma(STREAM, np.array([0.5, 2.0]), 5)[:2], [[0.02773494, 1.2684027], [0.08037696, 0.58870023]], 1e-6
    )
    rates = np.array([0.5, 2.0, 40.0, 1e3])
    assert poisson(STREAM, rates, 5)[:3, 1:].tolist() == [[4, 40, 991], [1, 36, 987], [2, 37, 992]]
