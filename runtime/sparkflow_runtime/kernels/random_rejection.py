"""Gamma and Poisson values, each drawn again and again from a stream of its own until it is accepted, as TensorFlow
draws them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.gamma_loops import tries, tries_again
from sparkflow_runtime.kernels.poisson_loops import LOG_FACTORIALS, counted, transformed

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
    out, few = np.full(len(rate), np.nan), rate < _FEW
    many = ~few & np.isfinite(rate)
    if few.any():
        counted(out, np.where(few, np.exp(-np.where(few, rate, 0)), np.nan), stream, first)
    if many.any():
        held = np.where(many, rate, np.nan)
        transformed(out, held, np.sqrt(held), np.log(held), LOG_FACTORIALS, stream, first)
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
