"""Rows that indices pick, summed by segment, and the way back: compiled loops with their numpy versions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES, add_rows

Array = Any
SUM, MEAN, SQRT_N = 0, 1, 2  # what a segment's sum is divided by: 1, the number of its rows, the root of that

_GIVEN = "Array({0}, 2, 'C', readonly=True), Array({1}, 1, 'C', readonly=True), Array({1}, 1, 'C', readonly=True)"
_TYPES = [(real, number) for real in ("float32", "float64") for number in ("int64", "int32")]
_NUMBERS = (np.dtype(np.int32), np.dtype(np.int64))
_NONE = np.empty(0, np.uint8)


def handles(xp: Any, rows: Array) -> bool:
    return xp is np and rows.dtype in FLOAT_TYPES and bool(rows.ndim)


def picked_sums(
    data: Array, indices: Array, ids: Array, count: int, kind: int, hidden: Array | None = None
) -> tuple[Array, int]:
    """(out, -1), out[ids[i]] being the sum of the rows data[indices[i]] of that id, divided as `kind` says; the rows of
    one are added in their order. hidden (bool): ids whose sums are zeros all the same. (Anything, i) where index or id
    i is out of range, or the id less than the one before.
    """
    rows, width = _matrix(data)
    out = np.zeros((count, width), data.dtype)
    none = _NONE if hidden is None else np.ascontiguousarray(hidden).view(np.uint8)
    bad = sum_picked(rows, *_numbers(indices, ids), kind, none, out)
    return out if data.ndim == 2 else out.reshape(count, *data.shape[1:]), bad


def picked_gradients(
    grad: Array, indices: Array, ids: Array, size: int, kind: int, skipped: Array | None = None
) -> tuple[Array, int]:
    """The way back to the rows: (out, -1), out[indices[i]] being the sum of grad[ids[i]], divided as `kind` says.
    skipped (bool): ids that give nothing. (Anything, i) where index or id i is out of range."""
    rows, width = _matrix(grad)
    out = np.zeros((size, width), grad.dtype)
    none = np.zeros(len(grad), bool) if skipped is None else np.ascontiguousarray(skipped)
    times = np.zeros(len(grad) if kind else 0, np.int64)
    bad = spread_picked(rows, *_numbers(indices, ids), kind, none.view(np.uint8), times, out)
    return out if grad.ndim == 2 else out.reshape(size, *grad.shape[1:]), bad


def _matrix(x: Array) -> tuple[Array, int]:
    """The rows as a matrix, and its width."""
    if x.ndim == 2:
        return np.ascontiguousarray(x), x.shape[1]
    width = math.prod(x.shape[1:])
    return np.ascontiguousarray(x).reshape(len(x), width), width


def _numbers(indices: Array, ids: Array) -> tuple[Array, Array]:
    kind = ids.dtype if ids.dtype == indices.dtype and ids.dtype in _NUMBERS else np.int64
    return np.ascontiguousarray(indices, kind), np.ascontiguousarray(ids, kind)


@compiled([f"int64({_GIVEN}, int64, uint8[::1], {{0}}[:,::1])".format(*kinds) for kinds in _TYPES])
def sum_picked(data: Array, indices: Array, ids: Array, kind: int, hidden: Array, out: Array) -> int:
    """Into `out`, which is zeros; the number of the first pair that is not in order, or -1."""
    size, count, before = np.uint64(data.shape[0]), np.uint64(out.shape[0]), np.uint64(0)
    for i in range(np.uint64(ids.shape[0])):
        source, target = np.uint64(indices[i]), np.uint64(ids[i])
        if source >= size or target >= count or target < before:
            return np.int64(i)  # type: ignore[return-value]
        before = target
        for k in range(np.uint64(out.shape[1])):
            out[target, k] += data[source, k]
    if kind != 0:
        start = 0
        for i in range(1, ids.shape[0] + 1):
            if i == ids.shape[0] or ids[i] != ids[start]:
                by = out.dtype.type(i - start) if kind == 1 else out.dtype.type(math.sqrt(i - start))
                target = np.uint64(ids[start])
                for k in range(np.uint64(out.shape[1])):
                    out[target, k] /= by
                start = i
    for r in range(np.uint64(hidden.shape[0])):
        if hidden[r] != 0:
            for k in range(np.uint64(out.shape[1])):
                out[r, k] = 0
    return -1


@sum_picked.otherwise
def _(data: Array, indices: Array, ids: Array, kind: int, hidden: Array, out: Array) -> int:
    indices, ids = indices.astype(np.int64, copy=False), ids.astype(np.int64, copy=False)
    wrong = (indices.view(np.uint64) >= len(data)) | (ids.view(np.uint64) >= len(out))
    wrong[1:] |= ids[1:] < ids[:-1]
    if wrong.any():
        return int(wrong.argmax())
    if not ids.size:
        return -1
    add_rows.numpy(data[indices], ids, out)
    if kind != SUM:
        out /= _divisors(kind, np.bincount(ids, minlength=len(out)), out.dtype)
    out[: len(hidden)][hidden != 0] = 0
    return -1


@compiled([f"int64({_GIVEN}, int64, uint8[::1], int64[::1], {{0}}[:,::1])".format(*kinds) for kinds in _TYPES])
def spread_picked(
    grad: Array, indices: Array, ids: Array, kind: int, skipped: Array, times: Array, out: Array
) -> int:  # fmt: skip
    """Into `out`, which is zeros, as `times` are, with one number for each row of grad unless kind is 0."""
    size, count = np.uint64(out.shape[0]), np.uint64(grad.shape[0])
    for i in range(np.uint64(ids.shape[0])):
        if np.uint64(indices[i]) >= size or np.uint64(ids[i]) >= count:
            return np.int64(i)  # type: ignore[return-value]
        if kind != 0:
            times[np.uint64(ids[i])] += 1
    by = out.dtype.type(1)
    for i in range(np.uint64(ids.shape[0])):
        target, source = np.uint64(indices[i]), np.uint64(ids[i])
        if skipped[source]:
            continue
        if kind != 0:
            number = times[source]
            by = out.dtype.type(number) if kind == 1 else out.dtype.type(math.sqrt(number))
        for k in range(np.uint64(out.shape[1])):
            out[target, k] += grad[source, k] / by
    return -1


@spread_picked.otherwise
def _(grad: Array, indices: Array, ids: Array, kind: int, skipped: Array, times: Array, out: Array) -> int:
    indices, ids = indices.astype(np.int64, copy=False), ids.astype(np.int64, copy=False)
    wrong = (indices.view(np.uint64) >= len(out)) | (ids.view(np.uint64) >= len(grad))
    if wrong.any():
        return int(wrong.argmax())
    if kind != SUM:
        grad = grad / _divisors(kind, np.bincount(ids, minlength=len(grad)), grad.dtype)
    told = skipped[ids] == 0
    if told.any():
        add_rows.numpy(grad[ids[told]], indices[told], out)
    return -1


def _divisors(kind: int, times: Array, dtype: Any) -> Array:
    """Of each segment, as a column."""
    rows = np.maximum(times, 1)
    return (rows if kind == MEAN else np.sqrt(rows)).astype(dtype)[:, None]
