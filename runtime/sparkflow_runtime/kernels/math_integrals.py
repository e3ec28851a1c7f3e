"""Integrals that have names: Dawson's, the exponential one, Fresnel's and Spence's, in double precision.

Sources: Rybicki 1989 (Dawson), Abramowitz and Stegun 5.1.10, 5.1.51, 7.2.6, 7.3 and 27.7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.math_special import wide

_EULER = 0.57721566490153286061
_STEP, _SAMPLES = 0.25, 27  # of Dawson's, from what the error is exp(-(pi / 2 / _STEP) ** 2)
_POINTS = 38
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _dawsn(xp: Any, _: float, x: Any) -> Any:
    with np.errstate(all="ignore"):
        size = xp.abs(x)
        tiny, near, far = xp.minimum(size, 0.2), xp.clip(size, 0.2, 10.0), xp.maximum(size, 10.0)
        found = xp.where(size < 0.2, _dawsn_series(xp, tiny), _dawsn_samples(xp, near))
        return xp.copysign(xp.where(size <= 10, found, _dawsn_far(xp, far)), x)


def _dawsn_series(xp: Any, x: Any) -> Any:
    term = total = x
    for k in range(1, 12):
        term = term * (-2 * x * x) / (2 * k + 1)
        total = total + term
    return total


def _dawsn_samples(xp: Any, x: Any) -> Any:
    """Of exp(-t**2) / n at odd multiples of the step around x."""
    middle = 2 * xp.rint(x / (2 * _STEP))
    apart, total = x - middle * _STEP, xp.zeros_like(x)
    for n in range(-_SAMPLES, _SAMPLES + 1, 2):
        total = total + xp.exp(-((apart - n * _STEP) ** 2)) / (middle + n)
    return total / np.sqrt(np.pi)


def _dawsn_far(xp: Any, x: Any) -> Any:
    term, total = xp.ones_like(x), xp.ones_like(x)
    for k in range(1, 14):
        term = term * ((2 * k - 1) / 2) / x / x
        total = total + term
    return total / (2 * x)


def _expint(xp: Any, _: float, x: Any) -> Any:
    """Ei(x); nan below 0."""
    with np.errstate(all="ignore"):
        near, far = xp.clip(x, 0.0, 40.0), xp.maximum(x, 40.0)
        term, total = near, near
        for k in range(2, 150):
            term = term * near / k
            total = total + term / k
        part, sums = xp.ones_like(far), xp.ones_like(far)
        for k in range(1, 40):
            part = part * k / far
            sums = sums + part
        beyond = xp.exp(far) / far * sums
        found = xp.where(x <= 40, _EULER + xp.log(near) + total, xp.where(xp.isinf(far), far, beyond))
        return xp.where(x >= 0, found, np.nan)


def _fresnel(xp: Any, x: Any, cosine: bool) -> Any:
    with np.errstate(all="ignore"):
        size = xp.abs(x)
        near, far = xp.minimum(size, 1.5), xp.maximum(size, 1.5)
        found = xp.where(size <= 1.5, _fresnel_series(xp, near, cosine), _fresnel_far(xp, far, cosine))
        found = xp.where(xp.isinf(size), 0.5, found)
        return xp.copysign(found, x)


def _fresnel_series(xp: Any, x: Any, cosine: bool) -> Any:
    angle = np.pi / 2 * x * x
    term = x if cosine else x * angle
    total = xp.zeros_like(x)
    for k in range(16):
        power = 2 * k + (0 if cosine else 1)
        total = total + term / (2 * power + 1)
        term = -term * angle * angle / ((power + 1) * (power + 2))
    return total


def _fresnel_far(xp: Any, x: Any, cosine: bool) -> Any:
    """By the auxiliary functions: integrals of exp(-pi (xs)**2 / 2) / (s**4 + 1), and of s**2 times that."""
    step = 5.4 / (_POINTS * x)
    f, g = xp.full_like(x, 0.5), xp.zeros_like(x)
    for k in range(1, _POINTS + 1):
        square = (k * step) ** 2
        weight = np.exp(-np.pi / 2 * (5.4 * k / _POINTS) ** 2) / (square * square + 1)
        f, g = f + weight, g + weight * square
    scale = np.sqrt(2) / np.pi * step
    # The angle pi x**2 / 2, of whole turns of which nothing is left.
    turns = np.pi / 2 * xp.fmod(x * x, 4.0)
    sin, cos = xp.sin(turns), xp.cos(turns)
    return 0.5 + scale * (f * sin - g * cos if cosine else -f * cos - g * sin)


def _spence(xp: Any, _: float, x: Any) -> Any:
    """x above 1 by 1 / x, and below 1/2 by 1 - x."""
    with np.errstate(all="ignore"):
        inside = xp.where(x > 1, 1 / x, xp.maximum(x, 0.0))
        u = xp.where(inside < 0.5, -xp.log1p(-inside), xp.abs(xp.log(x)))
        power, total = u, u - u * u / 4
        for k, bernoulli in enumerate(_BERNOULLI, 1):
            power = power * u * u / (2 * k * (2 * k + 1))
            total = total + bernoulli * power
        product = xp.where(inside > 0, xp.log(xp.where(inside > 0, inside, 1.0)) * xp.log1p(-inside), 0.0)
        found = xp.where(inside < 0.5, np.pi**2 / 6 - product - total, total)
        found = xp.where(x > 1, -(xp.log(x) ** 2) / 2 - found, found)
        return xp.where(x >= 0, found, np.nan)


wide("Dawsn", _dawsn)
wide("Expint", _expint)
wide("FresnelCos", lambda xp, _, x: _fresnel(xp, x, True))
wide("FresnelSin", lambda xp, _, x: _fresnel(xp, x, False))
wide("Spence", _spence)
