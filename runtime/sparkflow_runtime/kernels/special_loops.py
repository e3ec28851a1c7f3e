"""The hot loops of the error, gamma and beta functions, in double precision.

Each goes over elements from `start` to `stop`, in blocks whose elements take their steps together: those of one that
has come to its end change nothing any more. So a value does not depend on its neighbours, and the numpy versions, which
take all elements at once, give the same bits. exp and log are numpy's, before and after the loops (special.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled

_BLOCK = 256
_MOST_TERMS = 10000
_FLAT, _OUT = "Array(float64, 1, 'C', readonly=True)", "float64[::1]"
_LARGE, _SMALL = 2.0**100, 2.0**-100  # powers of two: scaling by them changes no digit


def _signature(inputs: int, outputs: int) -> list[str]:
    given = [_FLAT] * inputs + [_OUT] * outputs + ["int64", "int64"]
    return [f"void({', '.join(given)})"]


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Horner's rule, the highest power first."""
    total = coefficients[0] * x + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


# ---------------------------------------------------------------------- erf

# Rational approximations to full double precision: W. J. Cody, Math. Comp. 23 (1969), 631-637.
# Near zero erf(x) = x P(x^2) / Q(x^2); then erfc(x) = exp(-x^2) P(x) / Q(x); far out an expansion in 1 / x^2.
_NEAR_P = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_NEAR_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE_P = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MIDDLE_Q = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
_FAR_P = (
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
_FAR_Q = (
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)
_NEAR, _MIDDLE = 0.46875, 4.0
ERF_FAR = 5.93  # from where erf is 1 in double precision
_SQRT_1_BY_PI = 5.6418958354775628695e-1


def erf_near(x: Any) -> Any:
    return x * polynomial(_NEAR_P, x * x) / polynomial(_NEAR_Q, x * x)


def erfc_middle(e: Any, y: Any) -> Any:
    """erfc(y), of y above 0.46875 and e = exp(-y^2)."""
    return e * polynomial(_MIDDLE_P, y) / polynomial(_MIDDLE_Q, y)


def erfc_far(e: Any, y: Any) -> Any:
    """The same from 4 on."""
    z = 1.0 / (y * y)
    return e * (_SQRT_1_BY_PI - z * polynomial(_FAR_P, z) / polynomial(_FAR_Q, z)) / y


@compiled(_signature(2, 1), parts=[polynomial, erf_near, erfc_middle])
def erf_parts(x: Any, e: Any, out: Any, start: Any, stop: Any) -> None:
    """e: exp(-x^2), of x up to ERF_FAR."""
    for i in range(np.uint64(start), np.uint64(stop)):
        y = min(abs(x[i]), ERF_FAR) if x[i] == x[i] else x[i]
        rest = 1.0 - erfc_middle(e[i], y)
        out[i] = erf_near(x[i]) if y <= _NEAR else (-rest if x[i] < 0.0 else rest)


def erf_parts_of(xp: Any, x: Any, e: Any) -> Any:
    y = xp.minimum(xp.abs(x), ERF_FAR)
    rest = 1.0 - erfc_middle(e, y)
    return xp.where(y <= _NEAR, erf_near(x), xp.where(x < 0, -rest, rest))


@compiled(_signature(2, 1), parts=[polynomial, erf_near, erfc_middle, erfc_far])
def erfc_parts(x: Any, e: Any, out: Any, start: Any, stop: Any) -> None:
    """e: exp(-x^2), to all its digits."""
    for i in range(np.uint64(start), np.uint64(stop)):
        y = abs(x[i])
        middle = erfc_middle(e[i], y if y <= _MIDDLE else _MIDDLE)
        far = erfc_far(e[i], y if y > _MIDDLE else _MIDDLE)
        tail = middle if y <= _MIDDLE else far if y == y else y
        out[i] = 1.0 - erf_near(x[i]) if y <= _NEAR else (2.0 - tail if x[i] < 0.0 else tail)


def erfc_parts_of(xp: Any, x: Any, e: Any) -> Any:
    y = xp.abs(x)
    middle = erfc_middle(e, xp.where(y <= _MIDDLE, y, _MIDDLE))
    far = erfc_far(e, xp.where(y > _MIDDLE, y, _MIDDLE))
    tail = xp.where(y <= _MIDDLE, middle, xp.where(y == y, far, y))
    return xp.where(y <= _NEAR, 1.0 - erf_near(x), xp.where(x < 0, 2.0 - tail, tail))


# ---------------------------------------------------------------------- log gamma

# lgamma(2 + t) / t for |t| <= 1/2: a Chebyshev fit, within 5e-18
_NEAR_TWO = (
    2.7475390051909663e-07,
    -5.811277768921246e-07,
    9.242852225162277e-07,
    -1.9743106888421067e-06,
    4.3828545383846665e-06,
    -9.45628851510172e-06,
    2.050601970174762e-05,
    -4.4923727564247656e-05,
    9.945761692157133e-05,
    -0.00022315497746292723,
    0.0005096695196526673,
    -0.0011927539009983087,
    0.002890510330865901,
    -0.007385551028935545,
    0.02058080842778338,
    -0.06735230105319563,
    0.3224670334241132,
    0.42278433509846713,
)
_ODD, _EVEN = _NEAR_TWO[0::2], _NEAR_TWO[1::2]  # of its powers
# Stirling's series: B(2k) / (2k (2k - 1)), the highest first
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_STIRLING_FROM = 10.0
_MOST_STEPS = 8  # downwards from below that to 1.5 ... 2.5


@compiled(_signature(1, 3), parts=[polynomial])
def lgamma_parts(x: Any, product: Any, weight: Any, rest: Any, start: Any, stop: Any) -> None:
    """Of x >= 0: lgamma(x) = weight * (log(product) - (1 if weight > 2 else 0)) + rest. By its recurrence to where a
    polynomial holds, and by Stirling's series from 10 on (Abramowitz and Stegun 6.1.15, 6.1.41)."""
    for i in range(np.uint64(start), np.uint64(stop)):  # without branches: so it goes by the vector
        far = not x[i] < _STIRLING_FROM
        inverse = 1.0 / (x[i] if far else 1.0)
        series = (polynomial(_STIRLING, inverse * inverse) * inverse + _HALF_LOG_TAU) - 0.5
        u, z = 2.0 if far else x[i], 1.0
        sign = 1.0 if u >= 1.5 else -1.0
        for _ in range(2):
            z *= u if u < 1.5 else 1.0
            u += 1.0 if u < 1.5 else 0.0
        for _ in range(_MOST_STEPS):
            high = u >= 2.5
            u -= 1.0 if high else 0.0
            z *= u if high else 1.0
        t = u - 2.0
        product[i], weight[i] = x[i] if far else z, x[i] - 0.5 if far else sign
        rest[i] = series if far else (polynomial(_ODD, t * t) * t + polynomial(_EVEN, t * t)) * t


def lgamma_parts_of(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    far = ~(x < _STIRLING_FROM)
    inverse = 1 / xp.where(far, x, 1)
    series = (polynomial(_STIRLING, inverse * inverse) * inverse + _HALF_LOG_TAU) - 0.5
    u, z = xp.where(far, 2.0, x), xp.ones_like(x)
    weight = xp.where(far, x - 0.5, xp.where(u >= 1.5, 1.0, -1.0))
    for _ in range(2):
        low = u < 1.5
        z, u = xp.where(low, z * u, z), xp.where(low, u + 1, u)
    for _ in range(_MOST_STEPS):
        high = u >= 2.5
        u = xp.where(high, u - 1, u)
        z = xp.where(high, z * u, z)
    t = u - 2
    near = (polynomial(_ODD, t * t) * t + polynomial(_EVEN, t * t)) * t
    return xp.where(far, x, z), weight, xp.where(far, series, near)


# ---------------------------------------------------------------------- digamma

_SHIFT = 10
# B(2k) / 2k, k = 7 ... 1
_BERNOULLI_OVER = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


@compiled(_signature(1, 2), parts=[polynomial])
def digamma_parts(x: Any, far: Any, rest: Any, start: Any, stop: Any) -> None:
    """Of x >= 0: digamma(x) = log(far) - rest, far being x or x + 10 (Abramowitz and Stegun 6.3.6, 6.3.18). The sum of
    1 / (x + k), k = 0 ... 9, is one division."""
    for i in range(np.uint64(start), np.uint64(stop)):
        near = x[i] < 10.0
        above, below = 0.0, 1.0
        z = x[i] if near else 1.0
        for k in range(_SHIFT):
            above = above * (z + k) + below
            below *= z + k
        f = x[i] + 10.0 if near else x[i]
        inverse = 1.0 / f
        square = inverse * inverse
        stepped, series = above / below, polynomial(_BERNOULLI_OVER, square) * square
        far[i], rest[i] = f, (series + 0.5 * inverse) + (stepped if near else 0.0)


def digamma_parts_of(xp: Any, x: Any) -> tuple[Any, Any]:
    near = x < 10
    above, below, z = xp.zeros_like(x), xp.ones_like(x), xp.where(near, x, 1)
    for k in range(_SHIFT):
        above = above * (z + k) + below
        below = below * (z + k)
    far = xp.where(near, x + 10, x)
    inverse = 1 / far
    square = inverse * inverse
    rest = (polynomial(_BERNOULLI_OVER, square) * square + 0.5 * inverse) + xp.where(near, above / below, 0)
    return far, rest


# ---------------------------------------------------------------------- incomplete gamma


@compiled(_signature(3, 2))
def gamma_series(a: Any, x: Any, epsilon: Any, term: Any, total: Any, start: Any, stop: Any) -> None:
    """total = the sum of x^k / (a (a + 1) ... (a + k)), up to where a term is no more than epsilon[0] of it."""
    for first in range(start, stop, _BLOCK):
        block = range(np.uint64(first), np.uint64(min(first + _BLOCK, stop)))
        for i in block:
            term[i] = 1.0 / a[i]
            total[i] = term[i]
        k, going = 0.0, True
        while going and k < _MOST_TERMS:
            k += 1.0
            going = False
            for i in block:
                t = term[i] * x[i] / (a[i] + k)
                t = t if t > total[i] * epsilon[0] else 0.0
                term[i] = t
                total[i] += t
                going |= t > 0.0


def gamma_series_of(xp: Any, a: Any, x: Any, epsilon: float) -> Any:
    term = 1 / a
    total = term
    for k in range(1, _MOST_TERMS + 1):
        term = term * x / (a + k)
        term = xp.where(term > total * epsilon, term, 0.0)
        total = total + term
        if not bool((term > 0).any()):
            break
    return total


@compiled(_signature(3, 6))
def gamma_fraction(
    a: Any, x: Any, epsilon: Any, p: Any, q: Any, p_old: Any, q_old: Any, value: Any, going: Any, start: Any, stop: Any
) -> None:
    """value = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), from its first terms, each p / q."""
    for first in range(start, stop, _BLOCK):
        block = range(np.uint64(first), np.uint64(min(first + _BLOCK, stop)))
        for i in block:
            p_old[i], q_old[i], p[i], q[i] = 0.0, 1.0, 1.0, (x[i] + 1.0) - a[i]
            value[i], going[i] = p[i] / q[i], 1.0
        n, some = 0.0, True
        while some and n < _MOST_TERMS:
            n += 1.0
            some = False
            for i in block:
                b, c = (x[i] + (2.0 * n + 1.0)) - a[i], n * (n - a[i])
                upper, lower = p[i] * b - p_old[i] * c, q[i] * b - q_old[i] * c
                new = upper / lower
                scale = _SMALL if abs(lower) > _LARGE else 1.0
                p_old[i], q_old[i] = p[i] * scale, q[i] * scale
                p[i], q[i] = upper * scale, lower * scale
                moved = going[i] if abs(new - value[i]) > epsilon[0] * abs(new) else 0.0
                value[i] = new if going[i] > 0.0 else value[i]
                going[i] = moved
                some |= moved > 0.0


def gamma_fraction_of(xp: Any, a: Any, x: Any, epsilon: float) -> Any:
    p_old, q_old, p, q = xp.zeros_like(x), xp.ones_like(x), xp.ones_like(x), (x + 1) - a
    value, going = p / q, xp.ones(x.shape, bool)
    for n in range(1, _MOST_TERMS + 1):
        b, c = (x + (2.0 * n + 1)) - a, n * (n - a)
        upper, lower = p * b - p_old * c, q * b - q_old * c
        value, going = _closer(xp, upper / lower, value, going, epsilon)
        scale = xp.where(abs(lower) > _LARGE, _SMALL, 1.0)
        p_old, q_old, p, q = p * scale, q * scale, upper * scale, lower * scale
        if not bool(going.any()):
            break
    return value


def _closer(xp: Any, new: Any, value: Any, going: Any, epsilon: float) -> tuple[Any, Any]:
    moved = going & (abs(new - value) > epsilon * abs(new))
    return xp.where(going, new, value), moved


# ---------------------------------------------------------------------- incomplete beta


@compiled(_signature(4, 6))
def beta_fraction(
    a: Any, b: Any, x: Any, epsilon: Any, p: Any, q: Any, p_old: Any, q_old: Any, value: Any, going: Any, start: Any,
    stop: Any,
) -> None:  # fmt: skip
    """value = 1 / (1 + d1 / (1 + d2 / (1 + ...))) (Abramowitz and Stegun 26.5.8)."""
    for first in range(start, stop, _BLOCK):
        block = range(np.uint64(first), np.uint64(min(first + _BLOCK, stop)))
        for i in block:
            p_old[i], q_old[i], p[i], q[i] = 0.0, 1.0, 1.0, 1.0
            value[i], going[i] = 1.0, 1.0
        m, some = -1.0, True
        while some and m < _MOST_TERMS:
            m += 1.0
            some = False
            for i in block:
                at, both = a[i] + 2.0 * m, a[i] + b[i]
                odd = -(a[i] + m) * (both + m) * x[i] / (at * (at + 1.0))
                p1, q1 = p[i] + odd * p_old[i], q[i] + odd * q_old[i]
                even = (m + 1.0) * ((b[i] - 1.0) - m) * x[i] / ((at + 1.0) * (at + 2.0))
                p2, q2 = p1 + even * p[i], q1 + even * q[i]
                new = p2 / q2
                scale = _SMALL if abs(q2) > _LARGE else (_LARGE if abs(q2) < _SMALL else 1.0)
                p_old[i], q_old[i], p[i], q[i] = p1 * scale, q1 * scale, p2 * scale, q2 * scale
                moved = going[i] if abs(new - value[i]) > epsilon[0] * abs(new) else 0.0
                value[i] = new if going[i] > 0.0 else value[i]
                going[i] = moved
                some |= moved > 0.0


def beta_fraction_of(xp: Any, a: Any, b: Any, x: Any, epsilon: float) -> Any:
    p_old, q_old, p, q = xp.zeros_like(x), xp.ones_like(x), xp.ones_like(x), xp.ones_like(x)
    value, going, both = xp.ones_like(x), xp.ones(x.shape, bool), a + b
    for m in range(_MOST_TERMS + 1):
        at = a + 2.0 * m
        odd = -(a + m) * (both + m) * x / (at * (at + 1))
        p1, q1 = p + odd * p_old, q + odd * q_old
        even = (m + 1.0) * ((b - 1) - m) * x / ((at + 1) * (at + 2))
        p2, q2 = p1 + even * p, q1 + even * q
        value, going = _closer(xp, p2 / q2, value, going, epsilon)
        scale = xp.where(abs(q2) > _LARGE, _SMALL, xp.where(abs(q2) < _SMALL, _LARGE, 1.0))
        p_old, q_old, p, q = p1 * scale, q1 * scale, p2 * scale, q2 * scale
        if not bool(going.any()):
            break
    return value


# ---------------------------------------------------------------------- by numpy


def _by_arrays(loop: Compiled, compute: Callable[..., Any], inputs: int, at: Sequence[int]) -> None:
    """The numpy version of a loop whose results are its outputs at these places. inputs: how many, without epsilon."""

    @loop.otherwise
    @np.errstate(all="ignore")
    def _(*given: Any) -> None:
        part = slice(*given[-2:])
        numbers, outputs = ((), given[inputs:]) if loop.name.endswith("parts") else (given[inputs], given[inputs + 1 :])
        made = compute(np, *(x[part] for x in given[:inputs]), *numbers)
        for place, values in zip(at, made if isinstance(made, tuple) else (made,)):
            outputs[place][part] = values


_by_arrays(erf_parts, erf_parts_of, 2, (0,))
_by_arrays(erfc_parts, erfc_parts_of, 2, (0,))
_by_arrays(lgamma_parts, lgamma_parts_of, 1, (0, 1, 2))
_by_arrays(digamma_parts, digamma_parts_of, 1, (0, 1))
_by_arrays(gamma_series, gamma_series_of, 2, (1,))
_by_arrays(gamma_fraction, gamma_fraction_of, 2, (4,))
_by_arrays(beta_fraction, beta_fraction_of, 3, (4,))
