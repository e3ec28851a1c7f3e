"""Gamma and Poisson values, each drawn again and again from a stream of its own until it is accepted, as TensorFlow
draws them.

Sources: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; Knuth, "The Art of Computer
Programming", 3.4.1; Hormann 1993, "The transformed rejection method for generating Poisson random variables";
TensorFlow's random_op.cc and random_poisson_op.cc for the order of draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.special import lgamma

_FEW = 10.0  # a rate below which values are counted
AT_ONCE = 1 << 12


class Values:
    """float64 that so many values draw, each by itself: a block of words makes two, the second of which goes first."""

    def __init__(self, stream: philox.Stream, first: np.ndarray):
        """first: the block at which each value begins."""
        self._stream, self._next = stream, first.copy()
        self._kept = {kind: (np.zeros(len(first), np.int8), np.empty((len(first), 2))) for kind in ("even", "normal")}

    def even(self, which: np.ndarray) -> np.ndarray:
        """In [0, 1), of the values with these numbers."""
        return self._taken("even", which)

    def normal(self, which: np.ndarray) -> np.ndarray:
        return self._taken("normal", which)

    def _taken(self, kind: str, which: np.ndarray) -> np.ndarray:
        left, pairs = self._kept[kind]
        empty = which[left[which] == 0]
        if len(empty):
            words = philox.words_at(self._stream, self._next[empty])
            pairs[empty] = philox.wide_unit(words) if kind == "even" else philox.wide_normals(words)
            left[empty] = 2
            self._next[empty] += np.uint64(1)
        left[which] -= 1
        return np.asarray(pairs[which, left[which]])


def gamma(stream: philox.Stream, alphas: np.ndarray, count: int) -> np.ndarray:
    """[count, len(alphas)] values of these shapes (float64), of scale 1."""
    return in_chunks(_gamma, stream, alphas, count)


def _gamma(alpha: np.ndarray, stream: philox.Stream, begins: np.ndarray) -> np.ndarray:
    """Nineteen of twenty are accepted at once; the others begin again, by themselves."""
    words, even = philox.words_at(stream, begins), philox.wide_unit(philox.words_at(stream, begins + np.uint64(1)))
    d, c = _of_shape(alpha)
    x = philox.second_normals(words)
    v, squares = 1 + c * x, x * x
    good = (v > 0) & (alpha != 1) & (even[:, 1] < 1 - 0.0331 * squares * squares)
    out = d * (v * v * v)
    few = np.flatnonzero(good & (alpha < 1))
    with np.errstate(divide="ignore"):  # a shape of 0 gives 0
        out[few] *= even[few, 0] ** (1 / alpha[few])
    rest = np.flatnonzero(~good)
    out[rest] = _gamma_one_by_one(alpha[rest], Values(stream, begins[rest]))
    return out


def _of_shape(alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = alpha + np.where(alpha < 1, 2 / 3, -1 / 3)
    return d, 1 / 3 / np.sqrt(d)


def _gamma_one_by_one(alpha: np.ndarray, values: Values) -> np.ndarray:
    out, each = np.empty(len(alpha)), np.arange(len(alpha))
    one = each[alpha == 1]
    out[one] = -np.log1p(-values.even(one))
    d, c = _of_shape(alpha)
    todo = each[alpha != 1]
    while len(todo):
        x = values.normal(todo)
        v = 1 + c[todo] * x
        inside = ~(v <= 0)  # NaN, of a shape that is none, is accepted and stays
        tried, x, v = todo[inside], x[inside], v[inside]
        u, squares, v = values.even(tried), x * x, v * v * v
        with np.errstate(divide="ignore", invalid="ignore"):
            slow = np.log(u) < 0.5 * squares + d[tried] * (1 - v + np.log(v))
        good = (u < 1 - 0.0331 * squares * squares) | slow
        out[tried[good]] = d[tried[good]] * v[good]
        waits = np.ones(len(alpha), bool)
        waits[tried[good]] = False
        todo = todo[waits[todo]]
    few = each[alpha < 1]
    with np.errstate(divide="ignore"):
        out[few] *= values.even(few) ** (1 / alpha[few])
    return out


def poisson(stream: philox.Stream, rates: np.ndarray, count: int) -> np.ndarray:
    """[count, len(rates)] values of these rates (float64); NaN where a rate is not finite."""
    return in_chunks(_poisson, stream, rates, count)


def _poisson(rate: np.ndarray, stream: philox.Stream, begins: np.ndarray) -> np.ndarray:
    values = Values(stream, begins)
    out, each = np.full(len(rate), np.nan), np.arange(len(rate))
    _counted(values, rate, each[rate < _FEW], out)
    _transformed(values, rate, each[(rate >= _FEW) & np.isfinite(rate)], out)
    return out


def in_chunks(
    make: Callable[[np.ndarray, philox.Stream, np.ndarray], np.ndarray],
    stream: philox.Stream,
    parameters: np.ndarray,
    count: int,
) -> np.ndarray:
    """Each parameter's values one after the other, so many at once as the nearest caches hold."""
    each, out = parameters.astype(np.float64), np.empty(len(parameters) * count)
    for first in range(0, len(out), AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, len(out)))
        begins = numbers.astype(np.uint64) * np.uint64(philox.RESERVED)
        out[first : first + len(numbers)] = make(each[numbers // count], stream, begins)
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
