"""The hot loops that choose: between two arrays, and the largest of each row."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

_KINDS = ("float32", "float64", "int32", "int64")
_TYPES = tuple(map(np.dtype, _KINDS))
_ROWS, _FLAT = "Array({0}, 2, 'C', readonly=True)", "Array({0}, 1, 'C', readonly=True)"
MOST = 64  # so many of the largest the loop keeps in order as it goes; more are sorted for
_WORTH = 1 << 12  # elements


def choose(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b: arrays of one shape and type."""
    worth = condition.size >= _WORTH and a.dtype in _TYPES and condition.shape == a.shape == b.shape
    if not worth or a.dtype != b.dtype or condition.dtype != np.bool_:
        return np.where(condition, a, b)
    out = np.empty(a.shape, a.dtype)
    flags, *given = (np.ascontiguousarray(x).reshape(-1) for x in (condition, a, b))
    chosen(flags.view(np.uint8), *given, out.reshape(-1))
    return out


@compiled([f"void({_FLAT.format('uint8')}, {_FLAT}, {_FLAT}, {{0}}[::1])".format(kind) for kind in _KINDS])
def chosen(condition: Any, a: Any, b: Any, out: Any) -> None:
    for i in range(np.uint64(out.shape[0])):  # without a branch: numpy's has one, and mispredicts half of them
        one, other = a[i], b[i]  # both are read, or a processor without masked loads branches too
        out[i] = one if condition[i] else other


@chosen.otherwise
def _(condition: Any, a: Any, b: Any, out: Any) -> None:
    np.copyto(out, np.where(condition.view(np.bool_), a, b))


def largest(x: Any, count: int) -> tuple[Any, Any]:
    """(the `count` largest of each row, largest first; where they are). Of equals the first comes first, and NaN before
    all."""
    rows = np.ascontiguousarray(x).reshape(prod(x.shape[:-1]), x.shape[-1])
    values, places = np.empty((len(rows), count), x.dtype), np.empty((len(rows), count), np.int64)
    if count:
        top(rows, values, places)
    return values.reshape(*x.shape[:-1], count), places.reshape(*x.shape[:-1], count)


def handles(x: Any, count: int) -> bool:
    return count <= MOST and x.dtype in _TYPES


@compiled([f"void({_ROWS}, {{0}}[:,::1], int64[:,::1])".format(kind) for kind in _KINDS])
def top(x: Any, values: Any, places: Any) -> None:
    for row in range(x.shape[0]):
        held, room = 0, values.shape[1]
        for i in range(x.shape[1]):
            one = x[row, i]
            if held == room:
                last = values[row, room - 1]
                if not (one > last or (one != one and last == last)):
                    continue
            else:
                held += 1
            at = held - 1
            while at > 0:
                other = values[row, at - 1]
                if not (one > other or (one != one and other == other)):
                    break
                values[row, at], places[row, at] = other, places[row, at - 1]
                at -= 1
            values[row, at], places[row, at] = one, i


@top.otherwise
def _(x: Any, values: Any, places: Any) -> None:
    """A stable sort from the end, of the rows read backwards."""
    order = x.shape[1] - 1 - np.argsort(x[:, ::-1], 1, kind="stable")[:, ::-1][:, : values.shape[1]]
    values[:], places[:] = np.take_along_axis(x, order, 1), order


@compiled([f"void({_ROWS}, Array(int64, 1, 'C', readonly=True), int64[::1])".format(k) for k in ("float32", "float64")])
def count_above(x: Any, targets: Any, counts: Any) -> None:
    """How many of each row are above that of its target; -1 where one of the row is not finite."""
    zero = x.dtype.type(0)
    for row in range(x.shape[0]):
        own, count, finite = x[row, targets[row]], 0, True
        for i in range(np.uint64(x.shape[1])):
            count += x[row, i] > own
            finite &= x[row, i] * zero == zero
        counts[row] = count if finite else -1


@count_above.otherwise
def _(x: Any, targets: Any, counts: Any) -> None:
    own = x[np.arange(len(targets)), targets]
    counts[:] = np.where(np.isfinite(x).all(1), (x > own[:, None]).sum(1), -1)
