"""Rows reduced by segment to their largest, least or product: compiled loops with their numpy versions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

MAX, MIN, PRODUCT = 0, 1, 2
_KINDS = ("float32", "float64", "int32", "int64")
_TYPES = tuple(map(np.dtype, _KINDS))
_LOOP = "int64(Array({0}, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), int64, {0}[:,::1])"


def handles(xp: Any, data: Any) -> bool:
    return xp is np and data.dtype in _TYPES


def reduced(data: Any, ids: Any, kind: int, out: Any) -> int:
    """Into rows of `out`, which holds what a segment without rows is, as what a segment begins with; rows of negative
    ids count for nothing. The number of the first row whose id is not below len(out), or -1. NaN is both the largest
    and the least, and of equals (0 and -0) the last is it, as for numpy."""
    return int(reduce_rows(_matrix(data), np.ascontiguousarray(ids, np.int64), kind, _matrix(out)))


def reduced_in_order(data: Any, ids: Any, kind: int, out: Any) -> int:
    """The same of ids that do not decrease, whatever `out` holds: a segment begins with its first row, and one without
    rows is 1 if it is a product, else 0. The number of the first row whose id is not in order, or -1."""
    return int(reduce_ordered(_matrix(data), np.ascontiguousarray(ids, np.int64), kind, _matrix(out)))


def _matrix(x: Any) -> Any:
    return np.ascontiguousarray(x).reshape(len(x), math.prod(x.shape[1:]))


@compiled([_LOOP.format(kind) for kind in _KINDS])
def reduce_rows(rows: Any, ids: Any, kind: int, out: Any) -> int:
    size, width = np.uint64(out.shape[0]), np.uint64(out.shape[1])
    for i in range(np.uint64(ids.shape[0])):
        if ids[i] < 0:
            continue
        target = np.uint64(ids[i])
        if target >= size:
            return np.int64(i)  # type: ignore[return-value]
        if kind == 0:
            for k in range(width):
                new, held = rows[i, k], out[target, k]
                out[target, k] = held if held > new or held != held else new
        elif kind == 1:
            for k in range(width):
                new, held = rows[i, k], out[target, k]
                out[target, k] = held if held < new or held != held else new
        else:
            for k in range(width):
                out[target, k] *= rows[i, k]
    return -1


@reduce_rows.otherwise
def _(rows: Any, ids: Any, kind: int, out: Any) -> int:
    outside = np.flatnonzero(ids >= len(out))
    if outside.size:
        return int(outside[0])
    kept = np.flatnonzero(ids >= 0)
    _combine(rows[kept], ids[kept], kind, out)
    return -1


@compiled([_LOOP.format(kind) for kind in _KINDS])
def reduce_ordered(rows: Any, ids: Any, kind: int, out: Any) -> int:
    size, width, before = np.uint64(out.shape[0]), np.uint64(out.shape[1]), np.int64(-1)
    nothing, i, count = out.dtype.type(1 if kind == 2 else 0), np.uint64(0), np.uint64(ids.shape[0])
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    while i < count:
        target = np.uint64(ids[i])
        if ids[i] < before or target >= size:
            return np.int64(i)  # type: ignore[return-value]
        if ids[i] > before:
            for gap in range(np.uint64(before + 1), target):
                for k in range(width):
                    out[gap, k] = nothing
            for k in range(width):
                out[target, k] = rows[i, k]
            before = ids[i]
        elif kind == 2:
            for k in range(width):
                out[target, k] *= rows[i, k]
        elif i + three < count and ids[i + one] == before and ids[i + two] == before and ids[i + three] == before:
            for k in range(width):  # four rows by pairs, since what each waits for is the one before
                a, b, c, d, held = rows[i, k], rows[i + one, k], rows[i + two, k], rows[i + three, k], out[target, k]
                if kind == 0:
                    a = a if a > b or a != a else b
                    c = c if c > d or c != c else d
                    a = a if a > c or a != a else c
                    out[target, k] = held if held > a or held != held else a
                else:
                    a = a if a < b or a != a else b
                    c = c if c < d or c != c else d
                    a = a if a < c or a != a else c
                    out[target, k] = held if held < a or held != held else a
            i += four
            continue
        else:
            for k in range(width):
                new, held = rows[i, k], out[target, k]
                better = held > new if kind == 0 else held < new
                out[target, k] = held if better or held != held else new
        i += one
    return -1


@reduce_ordered.otherwise
def _(rows: Any, ids: Any, kind: int, out: Any) -> int:
    wrong = ids.view(np.uint64) >= len(out)
    wrong[1:] |= ids[1:] < ids[:-1]
    if wrong.any():
        return int(wrong.argmax())
    out[:] = 1 if kind == PRODUCT else 0
    is_first = np.ones(len(ids), bool)
    is_first[1:] = ids[1:] != ids[:-1]
    out[ids[is_first]] = rows[is_first]
    _combine(rows[~is_first], ids[~is_first], kind, out)
    return -1


def _combine(rows: Any, ids: Any, kind: int, out: Any) -> None:
    """One row after the other, as the loops do."""
    flat = (ids[:, None] * out.shape[1] + np.arange(out.shape[1])).reshape(-1)
    with np.errstate(all="ignore"):
        (np.maximum, np.minimum, np.multiply)[kind].at(out.reshape(-1), flat, rows.reshape(-1))
