"""Special functions that numpy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import special_loops as loops
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.parallel import runs, share

_BLOCK = 1 << 14  # elements whose arrays in between stay in the cache
_SHARED = 1 << 17  # elements from which threads pay: each waits for the others' Python between numpy's functions


def by_blocks(compute: Callable[..., Any], dtype: Any, *arrays: np.ndarray) -> np.ndarray:
    """compute(*flat float64 arrays) of arrays of one shape, as `dtype`, block by block."""
    flat = [np.ascontiguousarray(x).reshape(-1) for x in arrays]
    out = np.empty(arrays[0].shape, dtype)
    made = out.reshape(-1)

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        with np.errstate(all="ignore"):
            for first, count in blocks:
                part = slice(first, first + count)
                made[part] = compute(*(x[part].astype(np.float64) for x in flat))

    if out.size < _SHARED:
        work(runs(out.size, _BLOCK))
    else:
        share(work, runs(out.size, 2 * _BLOCK), multiplies=False)
    return out


_CAP = 28.0  # where erfc is 0: beyond, the square of a number tells nothing more
_PARTS = 16.0  # of one: exp(-x^2) keeps its digits where x is taken as a multiple of a part, and the rest


def erf(xp: Any, x: Any) -> Any:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    wide = xp.asarray(x, xp.float64)
    size = xp.minimum(xp.abs(wide), loops.ERF_FAR)
    return _erf_from(xp, wide, xp.exp(-size * size)).astype(x.dtype)


def _each(xp: Any, function: Any, name: str, x: Any) -> Any:
    """A function of the C library, element by element, as fast as long formulas; on a GPU cupy's own."""
    if xp is not np:
        return getattr(import_module("cupyx.scipy.special"), name)(x)
    return np.fromiter((_or_nan(function, v) for v in x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _or_nan(function: Any, value: float) -> float:
    try:
        return function(value)
    except ValueError:  # gamma's poles at 0, -1, -2, ...
        return math.inf
    except OverflowError:
        return math.inf


def erfc(xp: Any, x: Any) -> Any:
    """1 - erf(x), exact where that is small."""
    size = xp.minimum(xp.abs(x), _CAP)
    coarse = xp.floor(size * _PARTS) / _PARTS
    return _erfc_from(xp, x, xp.exp(-coarse * coarse) * xp.exp((coarse - size) * (coarse + size)))


def _either(loop: Compiled, compute: Callable[..., Any], room: int, at: Sequence[int]) -> Callable[..., Any]:
    """compute(xp, *arrays, *numbers) for any array module; by the loop, which wants `room` outputs, where that is
    numpy's and the arrays are flat and contiguous."""

    def run(xp: Any, *given: Any) -> Any:
        arrays = [g for g in given if not isinstance(g, float)]
        if xp is not np or any(a.ndim != 1 or not a.flags.c_contiguous for a in arrays):
            return compute(xp, *given)
        numbers = [np.array([g]) for g in given[len(arrays) :]]
        outputs = np.empty((room, arrays[0].size))
        loop(*arrays, *numbers, *outputs, 0, arrays[0].size)
        return tuple(outputs[i] for i in at) if len(at) > 1 else outputs[at[0]]

    return run


_erf_from = _either(loops.erf_parts, loops.erf_parts_of, 1, (0,))
_erfc_from = _either(loops.erfc_parts, loops.erfc_parts_of, 1, (0,))
_lgamma_parts = _either(loops.lgamma_parts, loops.lgamma_parts_of, 3, (0, 1, 2))
_digamma_parts = _either(loops.digamma_parts, loops.digamma_parts_of, 2, (0, 1))
_gamma_series = _either(loops.gamma_series, loops.gamma_series_of, 2, (1,))
_gamma_fraction = _either(loops.gamma_fraction, loops.gamma_fraction_of, 6, (4,))
_beta_fraction = _either(loops.beta_fraction, loops.beta_fraction_of, 6, (4,))


def lgamma(xp: Any, x: Any) -> Any:
    """log |gamma(x)|; below 0 by reflection."""
    below = x < 0
    some = bool(below.any())
    product, weight, rest = _lgamma_parts(xp, xp.where(below, 1 - x, x) if some else x)
    value = weight * (xp.log(product) - (weight > 2)) + rest
    if some:
        away = xp.abs(xp.sin(math.pi * (x - xp.floor(x))))
        value = xp.where(below, xp.log(math.pi / away) - value, value)
    return xp.where(xp.isinf(x), math.inf, value)


def digamma(xp: Any, x: Any) -> Any:
    """The derivative of lgamma; below 0 by reflection; nan at 0, -1, -2, ..."""
    below = x < 0
    some = bool(below.any())
    far, rest = _digamma_parts(xp, xp.where(below, 1 - x, x) if some else x)
    value = xp.log(far) - rest
    if some:
        value = xp.where(below, value - math.pi / xp.tan(math.pi * (x - xp.floor(x))), value)
    return xp.where((x <= 0) & (x == xp.floor(x)), math.nan, value)


# B(2k) / (2k)!, k = 1 ... 8
_BERNOULLI_BY_FACTORIAL = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)


def zeta(xp: Any, x: Any, q: Any) -> Any:
    """The sum over n >= 0 of (q + n) ** -x, by Euler and Maclaurin's formula after 10 terms."""
    less, n = -x, 10
    total = q**less
    for k in range(1, n):
        total += (q + k) ** less
    z = q + n
    power = z**less
    total += power * (z / (x - 1) + 0.5)
    inverse = 1 / z
    term, square = power * x * inverse, inverse * inverse
    for k, b in enumerate(_BERNOULLI_BY_FACTORIAL, 1):
        total += b * term
        term *= (x + (2 * k - 1)) * (x + 2 * k)
        term *= square
    pole = (q <= 0) & (q == xp.floor(q))
    total = xp.where(pole, math.inf, total)
    total = xp.where((q <= 0) & ~pole & (x != xp.floor(x)), math.nan, total)
    return xp.where(x == 1, math.inf, xp.where(x < 1, math.nan, total))


def polygamma(xp: Any, n: Any, x: Any) -> Any:
    """The n-th derivative of digamma: (-1) ** (n + 1) n! zeta(n + 1, x)."""
    sign = xp.where(n % 2 == 0, -1.0, 1.0)
    value = sign * xp.exp(lgamma(xp, n + 1)) * zeta(xp, n + 1, x)
    value = xp.where((n < 0) | (n != xp.floor(n)), math.nan, value)
    first = n == 0
    return xp.where(first, digamma(xp, x), value) if bool(first.any()) else value


_EPSILON = 2.0**-53


def igamma(xp: Any, a: Any, x: Any, epsilon: float = _EPSILON) -> tuple[Any, Any]:
    """(P(a, x), Q(a, x)): a series below a + 1, a continued fraction above (Abramowitz and Stegun 6.5.29, 6.5.31)."""
    inside = (a > 0) & (x > 0)
    a_, x_ = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    front = xp.exp(a_ * xp.log(x_) - x_ - lgamma(xp, a_))
    low = x_ < a_ + 1
    part = _parted(xp, low, a_, x_, epsilon)
    part *= front
    p, q = xp.where(low, part, 1 - part), xp.where(low, 1 - part, part)
    p, q = xp.where(xp.isinf(x) & inside, 1.0, p), xp.where(xp.isinf(x) & inside, 0.0, q)
    nothing = (a > 0) & (x == 0)
    p = xp.where(inside, p, xp.where(nothing, 0.0, math.nan))
    q = xp.where(inside, q, xp.where(nothing, 1.0, math.nan))
    return p, q


def _parted(xp: Any, low: Any, a: Any, x: Any, epsilon: float) -> Any:
    """The series where `low` says so, the fraction elsewhere."""
    if bool(low.all()):
        return _gamma_series(xp, a, x, epsilon)
    out = xp.empty_like(x)
    for here, compute in ((low, _gamma_series), (~low, _gamma_fraction)):
        if bool(here.any()):
            out[here] = compute(xp, a[here], x[here], epsilon)
    return out


def igamma_slope(xp: Any, a: Any, x: Any) -> Any:
    """dP(a, x) / da: the series of P, term by term."""
    inside = (a > 0) & (x > 0)
    a_, x_ = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    logs = xp.log(x_) - digamma(xp, a_ + 1)
    term = xp.exp(a_ * xp.log(x_) - x_ - lgamma(xp, a_ + 1))
    harmonic = xp.zeros_like(x_)
    total, going = term * logs, xp.ones(x_.shape, bool)
    for k in range(1, 100000):
        term, harmonic = term * x_ / (a_ + k), harmonic + 1 / (a_ + k)
        added = term * (logs - harmonic)
        total = xp.where(going, total + added, total)
        ended = (xp.abs(added) <= xp.abs(total) * _EPSILON) | (term < 1e-300)
        going = going & ~(ended & (k > x_ - a_))
        if not bool(going.any()):
            break
    return xp.where(inside, total, math.nan)


def betainc(xp: Any, a: Any, b: Any, x: Any, epsilon: float = _EPSILON) -> Any:
    """The regularized incomplete beta integral by its continued fraction."""
    valid = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    middle = valid & (x > 0) & (x < 1)
    a_, b_, x_ = (xp.where(middle, v, 0.5) for v in (a, b, x))
    front = xp.exp(lgamma(xp, a_ + b_) - lgamma(xp, a_) - lgamma(xp, b_) + a_ * xp.log(x_) + b_ * xp.log1p(-x_))
    swap = x_ >= (a_ + 1) / (a_ + b_ + 2)
    p, q, z = xp.where(swap, b_, a_), xp.where(swap, a_, b_), xp.where(swap, 1 - x_, x_)
    part = front * _beta_fraction(xp, p, q, z, epsilon) / p
    value = xp.where(swap, 1 - part, part)
    return xp.where(middle, value, xp.where(valid, x, math.nan))
