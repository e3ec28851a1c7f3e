"""Sums and extremes of short rows, and of narrow columns: what numpy's reductions take ten times too long for.

numpy reduces row by row, which costs 40 ns each however short they are, and knows no vector form of a maximum that
minds NaN but for whole arrays. Short rows are reduced side by side, column after column; columns are folded first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.exp_loops import in_parts, largest, ordered, total, totals
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES

_WORTH = 1 << 12  # elements
_RUNS = {"sum": 128, "max": 64, "min": 64}  # or as many runs as numpy would reduce one by one
_SHORT = 24  # rows of so many elements are reduced side by side
_LONG = {"sum": 160, "max": 1 << 10, "min": 1 << 10}  # from here numpy is as fast
_NARROW, _HIGH, _WIDE = 128, 64, 2048  # columns, rows, and how many elements a folded row should have
_KINDS = ("float32", "float64")
_ROWS, _VECTOR = "Array({0}, 2, 'C', readonly=True)", "Array({0}, 1, 'C', readonly=True)"
_SIDE_BY_SIDE = [f"void({_ROWS}, {{0}}[::1], int64, int64)".format(kind) for kind in _KINDS]
_SIGNED = [f"void({_ROWS}, {_VECTOR}, {{0}}[::1], int64, int64)".format(kind) for kind in _KINDS]
_COLUMNS = "Array({0}, 3, 'C', readonly=True)"
_FOLDED = [f"void({_COLUMNS}, {{0}}[:,::1], int64, int64)".format(kind) for kind in _KINDS]
_FOLDED_SIGNED = [f"void({_COLUMNS}, {_VECTOR}, {{0}}[:,::1], int64, int64)".format(kind) for kind in _KINDS]
_BLOCK = 512  # rows
_FEW_ADDED = 129  # rows: so many numbers are added one after the other, more in parts, which keeps more digits
_NUMPYS = 1 << 14  # elements of wide rows, up to which numpy adds them as fast; beyond, the loop takes half its time
_MOST_RUNS = 64  # of rows, whose sums are added in the end
_SHARED = 1 << 20  # elements of columns from which a second thread pays


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


@compiled(_SIGNED)
def short_maxima(x: Any, sign: Any, out: Any, start: Any, stop: Any) -> None:
    """Of x times 1 or -1, and that times it again."""
    by = sign[0]
    for first in range(start, stop, _BLOCK):
        last = np.uint64(min(first + _BLOCK, stop))
        for r in range(np.uint64(first), last):
            out[r] = x[r, 0] * by
        for k in range(1, x.shape[1]):
            for r in range(np.uint64(first), last):
                new, old = x[r, k] * by, out[r]
                out[r] = new if new > old or new != new else old
        for r in range(np.uint64(first), last):
            out[r] *= by


@short_maxima.otherwise
def _(x: Any, sign: Any, out: Any, start: Any, stop: Any) -> None:
    out, x = out[start:stop], x[start:stop] * sign
    out[:] = x[:, 0]
    for k in range(1, x.shape[1]):
        new = x[:, k]
        out[:] = np.where((new > out) | (new != new), new, out)
    out *= sign


@compiled(_SIDE_BY_SIDE[:1], parts=[total])
def long_sums(x: Any, out: Any, start: Any, stop: Any) -> None:
    for r in range(start, stop):
        out[r] = total(x[r])


@long_sums.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    out[start:stop] = totals(x[start:stop])


@compiled(_SIGNED[:1], parts=[ordered, largest])
def long_maxima(x: Any, sign: Any, out: Any, start: Any, stop: Any) -> None:
    for r in range(start, stop):
        out[r] = largest(x[r], sign[0]) * sign[0]


@long_maxima.otherwise
def _(x: Any, sign: Any, out: Any, start: Any, stop: Any) -> None:
    """As integers whose order is that of the numbers, so that of zeros too one is the larger."""
    bits = (x[start:stop] * sign).view(np.int32)
    found = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).max(1)
    most = (found ^ ((found >> 31) & 0x7FFFFFFF)).view(np.float32)
    out[start:stop] = np.where(np.isnan(x[start:stop]).any(1), np.float32(np.nan), most) * sign


@compiled(_FOLDED)
def column_sums(x: Any, out: Any, start: Any, stop: Any) -> None:
    whole = 1 + (x.shape[1] - 1) // 4 * 4
    for r in range(start, stop):
        for j in range(np.uint64(x.shape[2])):
            out[r, j] = x[r, 0, j]
        for k in range(1, whole, 4):  # four at once: a sum is loaded and stored a quarter as often
            for j in range(np.uint64(x.shape[2])):
                out[r, j] = (((out[r, j] + x[r, k, j]) + x[r, k + 1, j]) + x[r, k + 2, j]) + x[r, k + 3, j]
        for k in range(whole, x.shape[1]):
            for j in range(np.uint64(x.shape[2])):
                out[r, j] += x[r, k, j]


column_sums.otherwise(short_sums.numpy)  # along the second axis too


@compiled(_SIDE_BY_SIDE)
def wide_sums(x: Any, out: Any, start: Any, stop: Any) -> None:
    """Of the columns from start to stop, row by row as numpy adds them."""
    whole = 1 + (x.shape[0] - 1) // 4 * 4
    for at in range(start, stop, _BLOCK):
        first, last = np.uint64(at), np.uint64(min(at + _BLOCK, stop))
        for j in range(first, last):
            out[j] = x[0, j]
        for k in range(1, whole, 4):
            for j in range(first, last):
                out[j] = (((out[j] + x[k, j]) + x[k + 1, j]) + x[k + 2, j]) + x[k + 3, j]
        for k in range(whole, x.shape[0]):
            for j in range(first, last):
                out[j] += x[k, j]


@wide_sums.otherwise
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    np.add.reduce(x[:, start:stop], 0, out=out[start:stop])


def added_rows(rows: np.ndarray, out: np.ndarray) -> None:
    """out = the sum of the rows, one after the other; of a matrix whose columns are many, in several threads."""
    if rows.size < _SHARED:
        wide_sums(rows, out, 0, len(out))
    else:
        in_parts(wide_sums, rows.shape[1], len(rows), rows, out, least=2 * _BLOCK)


@compiled(_FOLDED_SIGNED)
def column_maxima(x: Any, sign: Any, out: Any, start: Any, stop: Any) -> None:
    """Of x times 1 or -1, and that times it again."""
    by = sign[0]
    for r in range(start, stop):
        for j in range(np.uint64(x.shape[2])):
            out[r, j] = x[r, 0, j] * by
        for k in range(1, x.shape[1]):
            for j in range(np.uint64(x.shape[2])):
                new, old = x[r, k, j] * by, out[r, j]
                out[r, j] = new if new > old or new != new else old
        for j in range(np.uint64(x.shape[2])):
            out[r, j] *= by


column_maxima.otherwise(short_maxima.numpy)


UFUNCS: dict[str, Any] = {
    "sum": np.add, "max": np.maximum, "min": np.minimum, "all": np.logical_and, "any": np.logical_or
}  # fmt: skip


Reduction = Callable[[np.ndarray], np.ndarray]


def reduced(name: str, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """numpy's sum, max or min of an array over some axes; None where numpy's own is as fast."""
    if not isinstance(x, np.ndarray) or x.dtype not in FLOAT_TYPES or not x.flags.c_contiguous:
        return None
    made = _made(name, x.shape, x.dtype, axes, keep)
    return None if made is None else made(x)


@lru_cache(4096)
def _made(name: str, shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...], keep: bool) -> Reduction | None:
    """What `reduced` does with arrays of this shape."""
    over, size = sorted({a % len(shape) for a in axes}), math.prod(shape)
    if not size or over != list(range(over[0], over[0] + len(over))):
        return None
    outer, high = math.prod(shape[: over[0]]), math.prod(shape[over[0] : over[-1] + 1])
    width = size // (outer * high)
    if size < _WORTH and (width > 1 if outer == 1 else (outer if width == 1 else outer * high) < _RUNS[name]):
        return None
    found = tuple(1 if a in over else n for a, n in enumerate(shape) if keep or a not in over)
    if width > 1:
        return _of_columns(name, (outer, high, width), dtype, found)
    return _of_rows(name, outer, high, dtype, found)


def _loop_of(name: str, loops: tuple[Compiled, Compiled], dtype: Any) -> tuple[Compiled, list[np.ndarray]]:
    """(the loop of sums or of extremes, its sign)."""
    loop = loops[0] if name == "sum" else loops[1]
    loop.prepare()
    return loop, [] if name == "sum" else [np.full(1, 1 if name == "max" else -1, dtype)]


def _of_rows(name: str, count: int, each: int, dtype: Any, found: tuple[int, ...]) -> Reduction | None:
    short = each <= _SHORT
    if not short and (each >= _LONG[name] or dtype != np.float32):
        return None
    loop, signs = _loop_of(name, (short_sums, short_maxima) if short else (long_sums, long_maxima), dtype)

    def few(x: np.ndarray) -> np.ndarray:
        out = np.empty(count, dtype)
        loop(x.reshape(count, each), *signs, out, 0, count)
        return out.reshape(found)

    def many(x: np.ndarray) -> np.ndarray:
        out = np.empty(count, dtype)
        in_parts(loop, count, each, x.reshape(count, each), *signs, out)
        return out.reshape(found)

    return few if count * each < _WORTH else many


def _of_columns(name: str, sizes: tuple[int, int, int], dtype: Any, found: tuple[int, ...]) -> Reduction | None:
    """Some rows as one long row, so that numpy has long rows to add up; then the parts of that."""
    outer, high, width = sizes
    wide = width >= _NARROW
    if high < 2 or (wide and (name != "sum" or high * width < _NUMPYS)):
        return None
    if not wide and high >= (_FEW_ADDED if name == "sum" else _HIGH):
        return _folded(UFUNCS[name], sizes, found)
    if wide and outer == 1 and high >= _FEW_ADDED:
        return _in_runs(sizes, dtype, found)
    if wide and outer == 1:
        wide_sums.prepare()

        def across(x: np.ndarray) -> np.ndarray:
            out = np.empty(width, dtype)
            added_rows(x.reshape(high, width), out)
            return out.reshape(found)

        return across
    loop, signs = _loop_of(name, (column_sums, column_maxima), dtype)

    def few(x: np.ndarray) -> np.ndarray:
        out = np.empty((outer, width), dtype)
        loop(x.reshape(sizes), *signs, out, 0, outer)
        return out.reshape(found)

    def many(x: np.ndarray) -> np.ndarray:
        out = np.empty((outer, width), dtype)
        in_parts(loop, outer, high * width, x.reshape(sizes), *signs, out)
        return out.reshape(found)

    return few if outer * high * width < _SHARED else many


def _in_runs(sizes: tuple[int, int, int], dtype: Any, found: tuple[int, ...]) -> Reduction:
    """Sums of runs of rows, and of those. A thread has whole rows, and not a few columns of each, or every line of the
    cache would be fetched by many."""
    _, high, width = sizes
    count = min(_MOST_RUNS, math.isqrt(high))
    each = high // count
    column_sums.prepare()

    def of(x: np.ndarray) -> np.ndarray:
        rows, parts = x.reshape(high, width), np.empty((count, width), dtype)
        runs = rows[: count * each].reshape(count, each, width)
        if x.size < _SHARED:
            column_sums(runs, parts, 0, count)
        else:
            in_parts(column_sums, count, each * width, runs, parts)
        total = np.add.reduce(parts, 0)
        return (total if count * each == high else total + np.add.reduce(rows[count * each :], 0)).reshape(found)

    return of


def _folded(ufunc: np.ufunc, sizes: tuple[int, int, int], found: tuple[int, ...]) -> Reduction:
    outer, high, width = sizes
    fold = min(_WIDE // width, math.isqrt(high))
    most = high // fold * fold

    def of(x: np.ndarray) -> np.ndarray:
        rows = x.reshape(sizes)
        parts = ufunc.reduce(rows[:, :most].reshape(outer, -1, fold * width), 1).reshape(outer, fold, width)
        total = ufunc.reduce(parts, 1)
        return (total if most == high else ufunc(total, ufunc.reduce(rows[:, most:], 1))).reshape(found)

    return of


def extreme(xp: Any, name: str, x: Any, axis: Any, keep: bool, nothing: Any) -> Any:
    """The "max" or "min" along axes, `nothing` where there is none: cupy's have no `initial`."""
    if x.size:
        return getattr(x, name)(axis, keepdims=keep)
    return xp.full(x.any(axis, keepdims=keep).shape, nothing, x.dtype)
