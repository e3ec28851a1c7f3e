"""Gamma and Poisson values, each drawn again and again from a stream of its own until it is accepted, as TensorFlow
draws them.

Sources: Knuth, "The Art of Computer
Programming", 3.4.1; Hormann 1993, "The transformed rejection method for generating Poisson random variables";
TensorFlow's random_op.cc and random_poisson_op.cc for the order of draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.gamma_loops import tries, tries_again
from sparkflow_runtime.kernels.random_values import Values
from sparkflow_runtime.kernels.special import lgamma

_FEW = 10.0  # a rate below which values are counted
AT_ONCE = 1 << 12


def gamma(stream: philox.Stream, alphas: np.ndarray, count: int) -> np.ndarray:
    """[count, len(alphas)] values of these shapes (float64), of scale 1."""
    return in_chunks(_gamma, stream, alphas, count)


def _gamma(alpha: np.ndarray, stream: np.ndarray, first: int) -> np.ndarray:
    """Nineteen of twenty are accepted at once; the others begin again, by themselves."""
    d = alpha + np.where(alpha < 1, 2 / 3, -1 / 3)
    c = 1 / 3 / np.sqrt(d)
    out, spare, words = np.empty(len(alpha)), np.empty(len(alpha)), np.empty(8 * len(alpha), np.int32)
    tries(out, spare, alpha, d, c, words, stream, first)
    tries_again(out, spare, alpha, d, c, stream, first)
    few = alpha < 1
    if few.any():
        with np.errstate(divide="ignore"):  # a shape of 0 gives 0
            out[few] *= spare[few] ** (1 / alpha[few])
    one = alpha == 1
    if one.any():
        out[one] = -np.log1p(-spare[one])
    return out


def poisson(stream: philox.Stream, rates: np.ndarray, count: int) -> np.ndarray:
    """[count, len(rates)] values of these rates (float64); NaN where a rate is not finite."""
    return in_chunks(_poisson, stream, rates, count)


def _poisson(rate: np.ndarray, stream: np.ndarray, first: int) -> np.ndarray:
    begins = stream[1] + np.arange(first, first + len(rate), dtype=np.uint64) * stream[3]
    values = Values(stream, begins)
    out, each = np.full(len(rate), np.nan), np.arange(len(rate))
    _counted(values, rate, each[rate < _FEW], out)
    _transformed(values, rate, each[(rate >= _FEW) & np.isfinite(rate)], out)
    return out


def in_chunks(
    make: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
    stream: philox.Stream,
    parameters: np.ndarray,
    count: int,
) -> np.ndarray:
    """Each parameter's values one after the other, so many at once as the nearest caches hold."""
    each, out = parameters.astype(np.float64), np.empty(len(parameters) * count)
    parts = stream.parts(philox.RESERVED)
    for first in range(0, len(out), AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, len(out)))
        out[first : first + len(numbers)] = make(each[numbers // count], parts, first)
    return out.reshape(len(parameters), count).T


def _counted(values: Values, rate: np.ndarray, todo: np.ndarray, out: np.ndarray) -> None:
    """How many numbers in [0, 1) can be multiplied before the product is e ** -rate or less."""
    least, product = np.exp(-rate), np.ones(len(rate))
    out[todo] = 0
    while len(todo):
        product[todo] *= values.even(todo)
        todo = todo[product[todo] > least[todo]]
        out[todo] += 1


def _transformed(values: Values, rate: np.ndarray, todo: np.ndarray, out: np.ndarray) -> None:
    while len(todo):
        r = rate[todo]
        b = 0.931 + 2.53 * np.sqrt(r)
        a, turned = -0.059 + 0.02483 * b, 1.1239 + 1.1328 / (b - 3.4)
        u = values.even(todo) - 0.5
        v = values.even(todo)
        far = 0.5 - np.abs(u)
        with np.errstate(all="ignore"):
            k = np.floor((2 * a / far + b) * u + r + 0.43)
            quick = (far >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
            never = (k < 0) | ((far < 0.013) & (v > far))
            s = np.log(v * turned / (a / (far * far) + b))
            slow = s <= -r + k * np.log(r) - lgamma(np, np.maximum(k, 0) + 1)
        good = quick | (~never & slow)
        out[todo[good]] = k[good]
        todo = todo[~good]
