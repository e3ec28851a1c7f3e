"""Counts of successes, each drawn again and again from a stream of its own until it is accepted, as TensorFlow draws
them.

Sources: Devroye 1986, "Non-Uniform Random Variate Generation", X.4; Hormann 1993, "The generation of binomial random
variates"; TensorFlow's random_binomial_op.cc for the order of draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.random_rejection import AT_ONCE
from sparkflow_runtime.kernels.random_values import Values

_FEW = 10.0  # expected successes below which the failures between them are drawn
_RESERVED = 42  # blocks from where one such count begins to where the next does
_STIRLING = np.array([
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
])  # fmt: skip


def binomial(
    stream: philox.Stream, several: np.ndarray, chances: np.ndarray, count: int, dtype: Any = np.float64
) -> np.ndarray:  # fmt: skip
    """[count, len(several)] counts (float64): of so many trials with these chances of success. dtype: in which it is
    decided how they are drawn."""
    rare = np.minimum(chances, 1 - chances)
    many = several.astype(dtype) * rare.astype(dtype) >= _FEW
    out = np.empty(len(several) * count)
    for first in range(0, len(out), AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, len(out)))
        which = numbers // count
        out[first : first + len(numbers)] = _binomial(stream, numbers, several[which], rare[which], many[which])
    found = out.reshape(len(several), count).T
    return np.where(chances > 0.5, several - found, found)  # of what is likelier than its failure, failures are counted


def _binomial(
    stream: philox.Stream, numbers: np.ndarray, several: np.ndarray, rare: np.ndarray, many: np.ndarray
) -> np.ndarray:  # fmt: skip
    out, each = np.zeros(len(several)), np.arange(len(several))
    drawn = (several > 0) & (rare > 0)
    parts = stream.parts()
    values = Values(parts, parts[1] + (numbers * np.where(many, philox.RESERVED, _RESERVED)).astype(np.uint64))
    _by_gaps(values, several, rare, each[drawn & ~many], out)
    _transformed(values, several, rare, each[drawn & many], out)
    return out


def _by_gaps(values: Values, several: np.ndarray, rare: np.ndarray, todo: np.ndarray, out: np.ndarray) -> None:
    """How many geometric numbers fit into the trials."""
    trials = np.zeros(len(several))
    while len(todo):
        with np.errstate(divide="ignore"):  # of 0, which ends the count
            trials[todo] += np.ceil(np.log(values.even(todo)) / np.log1p(-rare[todo]))
        todo = todo[trials[todo] <= several[todo]]
        out[todo] += 1


def _transformed(values: Values, several: np.ndarray, rare: np.ndarray, todo: np.ndarray, out: np.ndarray) -> None:
    while len(todo):
        n, p = several[todo], rare[todo]
        deviation = np.sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        u = values.even(todo) - 0.5
        v = values.even(todo)
        far = 0.5 - np.abs(u)
        with np.errstate(all="ignore"):
            k = np.floor((2 * a / far + b) * u + (n * p + 0.5))
            quick = (far >= 0.07) & (v <= 0.92 - 4.2 / b)
            never = (k < 0) | (k > n)
            s = np.log(v * ((2.83 + 5.1 / b) * deviation) / (a / (far * far) + b))
            slow = s <= _log_ratio(n, p, k, never)
        good = quick | (~never & slow)
        out[todo[good]] = k[good]
        todo = todo[~good]


def _log_ratio(n: np.ndarray, p: np.ndarray, k: np.ndarray, never: np.ndarray) -> np.ndarray:
    """log of how likely k is beside the likeliest count; never: where k is none."""
    most, odds, k = np.floor((n + 1) * p), p / (1 - p), np.where(never, 0, k)
    return np.asarray(
        (most + 0.5) * np.log((most + 1) / (odds * (n - most + 1)))
        + (n + 1) * np.log((n - most + 1) / (n - k + 1))
        + (k + 0.5) * np.log(odds * (n - k + 1) / (k + 1))
        + (_beyond_stirling(most) + _beyond_stirling(n - most) - _beyond_stirling(k) - _beyond_stirling(n - k))
    )


def _beyond_stirling(k: np.ndarray) -> np.ndarray:
    """log k! less Stirling's formula of it."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return np.where(k <= 9, _STIRLING[np.minimum(k, 9).astype(np.int64)], series)
