"""Poisson values of Philox's words, each from a stream of its own: loops, and numpy versions with the same arithmetic.

Sources: Knuth, "The Art of Computer Programming", 3.4.1; Hormann 1993, "The transformed rejection method for generating
Poisson random variables"; TensorFlow's random_poisson_op.cc for the order of draws.
"""

from __future__ import annotations

from math import lgamma
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.philox_loops import turned
from sparkflow_runtime.kernels.random_values import Values
from sparkflow_runtime.kernels.wide_numbers import even_of, wide_log

D, L, U = np.float64, np.int64, np.uint64
_NONE, _ONE, _TWO, _HALF, _FIRST, _FEW_COUNTS = D(0), D(1), D(2), D(0.5), U(1), D(16)
LOG_FACTORIALS = np.array([lgamma(k + 1) for k in range(17)])  # of what the series is not for
_HALF_LOG_TWO_PI = D(0.9189385332046727)
_L1, _L3, _L5, _L7 = D(1 / 12), D(-1 / 360), D(1 / 1260), D(-1 / 1680)
_B0, _B1, _A0, _A1 = D(0.931), D(2.53), D(-0.059), D(0.02483)
_T0, _T1, _T2, _K0 = D(1.1239), D(1.1328), D(3.4), D(0.43)
_FAR, _V0, _V1, _NEAR = D(0.07), D(0.9277), D(3.6224), D(0.013)


@compiled(["void(float64[::1], float64[::1], uint64[::1], int64)"], parts=[turned, even_of])
def counted(out: Any, least: Any, stream: Any, first: Any) -> None:
    """How many numbers in [0, 1) can be multiplied before the product is `least` or less; not of what is NaN. `first`:
    the number of the first value. stream: the key, the counter's halves, and how far two values' counters lie apart."""
    key, low, high, stride = stream[0], stream[1], stream[2], stream[3]
    for i in range(U(out.shape[0])):
        number, product, count = low + (U(first) + i) * stride, _ONE, _NONE
        while product > least[i]:
            a, b, c, d = turned(number, low, high, key)
            number += _FIRST
            product *= even_of(c, d)
            if product > least[i]:
                count += _ONE
                product *= even_of(a, b)
                count += _ONE if product > least[i] else _NONE
        out[i] = count if least[i] == least[i] else out[i]


@counted.otherwise
def _(out: Any, least: Any, stream: Any, first: Any) -> None:
    values, product = _values(stream, first, len(out)), np.ones(len(out))
    out[least == least] = 0
    todo = np.flatnonzero(product > least)
    while len(todo):
        product[todo] *= values.even(todo)
        todo = todo[product[todo] > least[todo]]
        out[todo] += 1


def _values(stream: Any, first: int, count: int) -> Values:
    return Values(stream, stream[1] + np.arange(first, first + count, dtype=U) * stream[3])


def proposed(u: Any, v: Any, rate: Any, b: Any) -> Any:
    """(count, whether it is accepted at once, whether it may be, what is to be compared then), of two even numbers."""
    u = u - _HALF
    a, far = _A0 + _A1 * b, _HALF - abs(u)
    scale = _TWO * a / far + b
    k = np.floor(scale * u + rate + _K0)
    quick = (far >= _FAR) & (v <= _V0 - _V1 / (b - _TWO))
    never = (k < _NONE) | ((far < _NEAR) & (v > far))
    return k, quick, never, v * (_T0 + _T1 / (b - _T2)) / (a / (far * far) + b)


def fits(share: Any, k: Any, rate: Any, log_rate: Any, log_factorial: Any) -> Any:
    return wide_log(share) <= k * log_rate - rate - log_factorial


def log_factorial(k: Any) -> Any:
    """Of a count above 16, by Stirling's series."""
    n = k + _ONE
    square = _ONE / (n * n)
    tail = (((_L7 * square + _L5) * square + _L3) * square + _L1) / n
    return (k + _HALF) * wide_log(n) - n + _HALF_LOG_TWO_PI + tail


@compiled(
    ["void(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], uint64[::1], int64)"],
    parts=[turned, even_of, wide_log, proposed, fits, log_factorial],
)
def transformed(out: Any, rates: Any, roots: Any, logs: Any, factorials: Any, stream: Any, first: Any) -> None:
    """Counts of the rates, but of what is NaN. roots, logs: of the rates. factorials: LOG_FACTORIALS. `first` and
    stream as of `counted`."""
    key, low, high, stride = stream[0], stream[1], stream[2], stream[3]
    for i in range(U(out.shape[0])):
        rate, number = rates[i], low + (U(first) + i) * stride
        b = _B0 + _B1 * roots[i]
        going_on = rate == rate
        while going_on:
            e, f, g, h = turned(number, low, high, key)
            number += _FIRST
            k, quick, never, share = proposed(even_of(g, h), even_of(e, f), rate, b)
            if quick:
                out[i], going_on = k, False
            elif not never:
                known = factorials[L(k)] if k <= _FEW_COUNTS else log_factorial(k)
                if fits(share, k, rate, logs[i], known):
                    out[i], going_on = k, False


@transformed.otherwise
def _(out: Any, rates: Any, roots: Any, logs: Any, factorials: Any, stream: Any, first: Any) -> None:
    values, todo = _values(stream, first, len(out)), np.flatnonzero(rates == rates)
    while len(todo):
        with np.errstate(all="ignore"):
            u, v, rate = values.even(todo), values.even(todo), rates[todo]
            k, quick, never, share = proposed(u, v, rate, _B0 + _B1 * roots[todo])
            held = np.where(never, 0, k)
            few = held <= _FEW_COUNTS
            known = np.where(few, factorials[np.where(few, held, 0).astype(L)], log_factorial(held))
            good = quick | (~never & fits(share, held, rate, logs[todo], known))
        out[todo[good]] = k[good]
        todo = todo[~good]
