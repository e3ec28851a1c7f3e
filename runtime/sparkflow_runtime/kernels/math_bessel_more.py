"""Bessel's functions J, Y and K of orders 0 and 1, in double precision.

J and Y: up to 25 by Miller's recurrence downwards, whose values are all J_n at once, and Neumann's series of them
(Abramowitz and Stegun 9.1.46, 9.1.88, 9.12); beyond by Hankel's asymptotic series (9.2.5).
K: up to 1 by its power series (9.6.11), beyond by the trapezoidal rule on exp(-x cosh t) cosh(nt), all of whose
values are positive and which converges exponentially (9.6.24).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.math_special import wide

_EULER = 0.57721566490153286061
_NEAR, _ORDERS, _FAR_TERMS = 25.0, 90, 24
_SERIES_TERMS, _POINTS = 14, 24


def _near(xp: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """J_0, J_1, and the sums of Neumann's series for Y_0 and Y_1, of x in [1, 25]."""
    after, now = xp.zeros_like(x), xp.full_like(x, 1e-280)
    norm, even, odd = xp.zeros_like(x), xp.zeros_like(x), xp.zeros_like(x)
    for n in range(_ORDERS, 0, -1):  # now is J_n but for a factor
        half, sign = n // 2, 1 - 2 * (n // 2 % 2)
        if n % 2 == 0:
            norm, even = norm + 2 * now, even + now * (sign / half)
        elif n > 1:
            odd = odd + now * (sign * n / (half * (half + 1)))
        after, now = now, (2 * n / x) * now - after
    norm = norm + now
    j0, j1 = now / norm, after / norm
    return j0, j1, even / norm, odd / norm + (j0 - 1) / x


def _tiny(xp: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """As _near, of x up to 1: by power series."""
    square = -x * x / 4
    j0, j1, even, odd = xp.ones_like(x), xp.ones_like(x), xp.zeros_like(x), xp.zeros_like(x)
    term, once, harmonic = xp.ones_like(x), xp.ones_like(x), 0.0
    for k in range(1, _SERIES_TERMS):
        term, once, harmonic = term * square / (k * k), once * square / (k * (k + 1)), harmonic + 1 / k
        j0, j1 = j0 + term, j1 + once
        even, odd = even + harmonic * term, odd + (2 * harmonic + 1 / (k + 1) - 2) * once
    return j0, j1 * x / 2, even / 2, (odd - 1) * x / 4


def _far(xp: Any, x: Any, order: int) -> tuple[Any, Any]:
    """J and Y of that order, of x from 25 on."""
    sums, term = [xp.ones_like(x), xp.zeros_like(x)], xp.ones_like(x)
    for k in range(1, _FAR_TERMS):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8 * k)) / x
        sums[k % 2] = sums[k % 2] + (term if k % 4 < 2 else -term)
    p, q = sums
    # sin and cos of x - (2 order + 1) pi / 4, without a difference of which large x keep few digits
    sin, cos = xp.sin(x), xp.cos(x)
    turned = (sin + cos, sin - cos) if order == 0 else (sin - cos, -sin - cos)
    cosine, sine = turned
    scale = 1 / xp.sqrt(np.pi * x)
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _waves(xp: Any, x: Any, order: int, second: bool) -> Any:
    """J or, where second, Y, of x >= 0."""
    tiny, near, far = xp.minimum(x, 1.0), xp.clip(x, 1.0, _NEAR), xp.maximum(x, _NEAR)
    small, middle = _tiny(xp, tiny), _near(xp, near)
    if second:
        found = xp.where(x <= 1, _second(xp, tiny, small, order), _second(xp, near, middle, order))
    else:
        found = xp.where(x <= 1, small[order], middle[order])
    return xp.where(x <= _NEAR, found, _far(xp, far, order)[second])


def _second(xp: Any, x: Any, parts: tuple[Any, Any, Any, Any], order: int) -> Any:
    log = xp.log(x / 2) + _EULER
    if order == 0:
        return (2 / np.pi) * (log * parts[0] - 2 * parts[2])
    return (2 / np.pi) * ((log - 1) * parts[1] - parts[3] - 1 / x)


def _first_kind(xp: Any, _: float, x: Any, order: int) -> Any:
    with np.errstate(all="ignore"):
        found = _waves(xp, xp.abs(x), order, False)
        return xp.copysign(found, found * x) if order else found


def _second_kind(xp: Any, _: float, x: Any, order: int) -> Any:
    """-inf below 0, as in TensorFlow."""
    with np.errstate(all="ignore"):
        found = _waves(xp, xp.where(x > 0, x, 1.0), order, True)
        return xp.where(xp.isnan(x), x, xp.where(x > 0, found, -np.inf))


def _decaying(xp: Any, _: float, x: Any, order: int, scaled: bool) -> Any:
    """K of that order, times exp(x) where scaled; inf below 0, as in TensorFlow."""
    with np.errstate(all="ignore"):
        near, far = xp.where(x > 0, xp.minimum(x, 1.0), 1.0), xp.maximum(x, 1.0)
        small = _series(xp, near, order)
        large = _integral(xp, far, order)
        small, large = (small * xp.exp(near), large) if scaled else (small, large * xp.exp(-far))
        found = xp.where(x <= 1, small, xp.where(xp.isinf(x), 0.0, large))
        return xp.where(xp.isnan(x), x, xp.where(x > 0, found, np.inf))


def _series(xp: Any, x: Any, order: int) -> Any:
    square, term, log = x * x / 4, xp.ones_like(x), xp.log(x / 2) + _EULER
    total, harmonic = xp.zeros_like(x), 0.0
    for k in range(_SERIES_TERMS):
        if k:
            term, harmonic = term * square / (k * (k + order)), harmonic + 1 / k
        total = total + term * (harmonic - log if order == 0 else 2 * (log - harmonic) - 1 / (k + 1))
    return total if order == 0 else 1 / x + total * x / 4


def _integral(xp: Any, x: Any, order: int) -> Any:
    """exp(x) K, from where the integrand is largest to where it is e**-38 of that."""
    step = xp.arccosh(1 + 38 / x) / _POINTS
    step = xp.where(38 / x > 1e-9, step, xp.sqrt(76 / x) / _POINTS)
    total = xp.full_like(x, 0.5)
    for k in range(1, _POINTS + 1):
        half = xp.sinh(k * step / 2)
        total = total + xp.exp(-2 * x * half * half) * (1 if order == 0 else 1 + 2 * half * half)
    return total * step


for _n in (0, 1):
    wide(f"BesselJ{_n}", lambda xp, e, x, n=_n: _first_kind(xp, e, x, n))
    wide(f"BesselY{_n}", lambda xp, e, x, n=_n: _second_kind(xp, e, x, n))
    wide(f"BesselK{_n}", lambda xp, e, x, n=_n: _decaying(xp, e, x, n, False))
    wide(f"BesselK{_n}e", lambda xp, e, x, n=_n: _decaying(xp, e, x, n, True))
