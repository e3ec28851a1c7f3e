"""Sums and extremes of short rows, and of narrow columns: what numpy's reductions take ten times too long for.

numpy reduces row by row, which costs 40 ns each however short they are, and knows no vector form of a maximum that
minds NaN but for whole arrays. Short rows are reduced side by side, column after column; columns are folded first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.exp_loops import in_parts, largest, ordered, total, totals

_WORTH = 1 << 12  # elements
_SHORT = 24  # rows of so many elements are reduced side by side
_LONG = {"sum": 160, "max": 1 << 10, "min": 1 << 10}  # from here numpy is as fast
_NARROW, _HIGH, _WIDE = 128, 64, 2048  # columns, rows, and how many elements a folded row should have
_KINDS = ("float32", "float64")
_SIDE_BY_SIDE = [f"void(Array({kind}, 2, 'C', readonly=True), {kind}[::1], int64, int64)" for kind in _KINDS]
_BLOCK = 512  # rows


@compiled(_SIDE_BY_SIDE)
def short_sums(x: Any, out: Any, start: Any, stop: Any) -> None:
    for first in range(start, stop, _BLOCK):
        last = np.uint64(min(first + _BLOCK, stop))
        for r in range(np.uint64(first), last):
            out[r] = x[r, 0]
        for k in range(1, x.shape[1]):
            for r in range(np.uint64(first), last):
                out[r] += x[r, k]


@short_sums.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    out, x = out[start:stop], x[start:stop]
    out[:] = x[:, 0]
    for k in range(1, x.shape[1]):
        out += x[:, k]


@compiled(_SIDE_BY_SIDE)
def short_maxima(x: Any, out: Any, start: Any, stop: Any) -> None:
    for first in range(start, stop, _BLOCK):
        last = np.uint64(min(first + _BLOCK, stop))
        for r in range(np.uint64(first), last):
            out[r] = x[r, 0]
        for k in range(1, x.shape[1]):
            for r in range(np.uint64(first), last):
                new, old = x[r, k], out[r]
                out[r] = new if new > old or new != new else old


@short_maxima.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    out, x = out[start:stop], x[start:stop]
    out[:] = x[:, 0]
    for k in range(1, x.shape[1]):
        new = x[:, k]
        out[:] = np.where((new > out) | (new != new), new, out)


@compiled(_SIDE_BY_SIDE)
def short_minima(x: Any, out: Any, start: Any, stop: Any) -> None:
    for first in range(start, stop, _BLOCK):
        last = np.uint64(min(first + _BLOCK, stop))
        for r in range(np.uint64(first), last):
            out[r] = x[r, 0]
        for k in range(1, x.shape[1]):
            for r in range(np.uint64(first), last):
                new, old = x[r, k], out[r]
                out[r] = new if new < old or new != new else old


@short_minima.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    out, x = out[start:stop], x[start:stop]
    out[:] = x[:, 0]
    for k in range(1, x.shape[1]):
        new = x[:, k]
        out[:] = np.where((new < out) | (new != new), new, out)


@compiled(_SIDE_BY_SIDE[:1], parts=[total])
def long_sums(x: Any, out: Any, start: Any, stop: Any) -> None:
    for r in range(start, stop):
        out[r] = total(x[r])


@long_sums.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    out[start:stop] = totals(x[start:stop])


@compiled(_SIDE_BY_SIDE[:1], parts=[ordered, largest])
def long_maxima(x: Any, out: Any, start: Any, stop: Any) -> None:
    for r in range(start, stop):
        out[r] = largest(x[r])


@long_maxima.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    extremes(np.maximum, x[start:stop], out[start:stop])


def smallest(row: Any) -> Any:
    """NaN where there is one."""
    least, strange = np.int32(0x7FFFFFFF), False
    for k in range(np.uint64(row.shape[0])):
        strange |= row[k] != row[k]
        one = ordered(row[k])
        least = one if one < least else least
    back = np.int32(least ^ (np.int32(least >> np.int32(31)) & np.int32(0x7FFFFFFF)))
    return np.float32(np.nan) if strange else np.int32(back).view(np.float32)


@compiled(_SIDE_BY_SIDE[:1], parts=[ordered, smallest])
def long_minima(x: Any, out: Any, start: Any, stop: Any) -> None:
    for r in range(start, stop):
        out[r] = smallest(x[r])


@long_minima.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    extremes(np.minimum, x[start:stop], out[start:stop])


def extremes(function: Any, x: np.ndarray, out: np.ndarray) -> None:
    """As integers whose order is that of the numbers, so that of zeros too one is the larger."""
    bits = x.view(np.int32)
    found = function.reduce(bits ^ ((bits >> 31) & 0x7FFFFFFF), 1)
    out.view(np.int32)[:] = found ^ ((found >> 31) & 0x7FFFFFFF)
    out[np.isnan(x).any(1)] = np.nan


_SHORT_LOOPS = {"sum": short_sums, "max": short_maxima, "min": short_minima}
_LONG_LOOPS = {"sum": long_sums, "max": long_maxima, "min": long_minima}
_UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def reduced(name: str, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """numpy's sum, max or min of an array over some axes; None where numpy's own is as fast."""
    if not isinstance(x, np.ndarray) or x.size < _WORTH or x.dtype.name not in _KINDS or not x.flags.c_contiguous:
        return None
    over = sorted({a % x.ndim for a in axes})
    if over != list(range(over[0], over[0] + len(over))):
        return None
    outer, high = math.prod(x.shape[: over[0]]), math.prod(x.shape[over[0] : over[-1] + 1])
    found = _of_columns(name, x, outer, high) if x.size > outer * high else _of_rows(name, x, high)
    if found is None:
        return None
    return found.reshape([1 if a in over else size for a, size in enumerate(x.shape) if keep or a not in over])


def _of_rows(name: str, x: np.ndarray, each: int) -> np.ndarray | None:
    loop: Compiled | None = _SHORT_LOOPS[name] if each <= _SHORT else None
    if loop is None and each < _LONG[name] and x.dtype == np.float32:
        loop = _LONG_LOOPS[name]
    if loop is None:
        return None
    rows = x.reshape(-1, each)
    out = np.empty(len(rows), x.dtype)
    in_parts(loop, len(rows), each, rows, out)
    return out


def _of_columns(name: str, x: np.ndarray, outer: int, high: int) -> np.ndarray | None:
    """Some rows as one long row, so that numpy has long rows to add up; then the parts of that."""
    width, reduce = x.size // (outer * high), _UFUNCS[name].reduce
    if width >= _NARROW or high < _HIGH:
        return None
    fold = min(_WIDE // width, math.isqrt(high))
    most = high // fold * fold
    rows = x.reshape(outer, high, width)
    parts = reduce(rows[:, :most].reshape(outer, -1, fold * width), 1).reshape(outer, fold, width)
    found = reduce(parts, 1)
    return found if most == high else _UFUNCS[name](found, reduce(rows[:, most:], 1))
