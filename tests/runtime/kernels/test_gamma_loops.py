"""The loops of gamma and Poisson values: both versions have the same bits, and their arithmetic is the C library's but
for a few units in the last place."""

from __future__ import annotations

from math import lgamma

import numpy as np

from sparkflow_runtime.kernels.gamma_loops import tries, tries_again
from sparkflow_runtime.kernels.philox import Stream
from sparkflow_runtime.kernels.poisson_loops import LOG_FACTORIALS, counted, log_factorial, transformed
from sparkflow_runtime.kernels.wide_numbers import radius_squared, wide_log, wide_sine_cosine
from tests.runtime.kernels.test_loops import same_bits, versions

ALPHAS = np.array([0.01, 0.7, 1.0, 1.01, 2.5, 40.0, 1e300, 0.0, np.inf, np.nan]).repeat(70)
STREAM = Stream(87654321, (1 << 64) - 40_000).parts(256)  # whose lower half comes around


def test_same_bits() -> None:
    d = ALPHAS + np.where(ALPHAS < 1, 2 / 3, -1 / 3)
    made = []
    for first, again in zip(versions(tries), versions(tries_again)):
        out, spare = np.empty(len(ALPHAS)), np.empty(len(ALPHAS))
        first(out, spare, ALPHAS, d, 1 / 3 / np.sqrt(d), np.empty(8 * len(ALPHAS), np.int32), STREAM, 31)
        tried = out.copy()
        again(out, spare, ALPHAS, d, 1 / 3 / np.sqrt(d), STREAM, 31)
        made.append((tried, out, spare))
    for a, b in zip(*made):
        same_bits(a, b)
    tried, out, _ = made[0]
    known = ~np.isnan(ALPHAS)
    assert ((tried == -1) & (ALPHAS != 1)).sum() > 20
    assert ((out == -1) == (ALPHAS == 1)).all() and (out[known & (ALPHAS != 1)] >= 0).all()


def test_same_bits_of_counts() -> None:
    rates = np.array([0.0, 0.3, 4.0, 9.9, 10.0, 12.0, 300.0, 1e17, np.nan]).repeat(60)
    for loop, arguments in (
        (counted, [np.where(rates < 10, np.exp(-rates), np.nan)]),
        (transformed, [np.where(rates >= 10, x, np.nan) for x in (rates, np.sqrt(rates))] + [np.log(rates + 1e-9)]),
    ):
        made = [np.full(len(rates), -5.0) for _ in range(2)]
        for version, out in zip(versions(loop), made):
            version(out, *arguments, *([LOG_FACTORIALS] if loop is transformed else []), STREAM, 31)
        same_bits(*made)
        left = (rates < 10) if loop is transformed else ~(rates < 10)
        assert ((made[0] == -5) == (left | np.isnan(rates))).all()


def test_log_factorial() -> None:
    k = np.array([17.0, 20, 100, 1e6])
    np.testing.assert_allclose(log_factorial(k), [lgamma(x + 1) for x in k], 2e-15)


def test_arithmetic() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(2000), np.exp(rng.normal(0, 30, 2000)), [1.0, 2.0**-52, 1 - 2.0**-53]])
    np.testing.assert_allclose(wide_log(x), np.log(x), 1e-15, 1e-300)
    angles = np.append(rng.random(2000) * 2 * np.pi, [0.0, np.pi / 2, np.pi])
    for found, wanted in zip(wide_sine_cosine(angles), (np.sin(angles), np.cos(angles))):
        np.testing.assert_allclose(found, wanted, 0, 3e-16)
    np.testing.assert_allclose(radius_squared(np.array([0.0, 1e-9, 0.5])), -2 * np.log([1e-7, 1e-7, 0.5]), 1e-15)
