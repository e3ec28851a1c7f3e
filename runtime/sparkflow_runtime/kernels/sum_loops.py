"""Rows summed by number: one pass over them, or a few whole-array steps that give the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.halves import HALVES, narrowed, widened
from sparkflow_runtime.kernels.sorting import grouped, reduced_runs

_FLOATS = ("float32", "float64")
FLOAT_TYPES = tuple(map(np.dtype, _FLOATS))  # to ask for: a dtype makes its name anew each time, which takes 1 us
_WHOLES = ("int32", "int64")
_WHOLE_TYPES = tuple(map(np.dtype, _WHOLES))
_SUMMED = (*FLOAT_TYPES, *_WHOLE_TYPES)
_LOOP = "int64(Array({0}, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), {0}[:,::1])"
_FEW = 16  # so many rows of one id are added in rounds over all ids; ids with more have a sum of their own


def sum_rows(xp: Any, data: Any, ids: Any, count: int) -> Any:
    """out[ids[i]] += data[i] over the rows. Rows of one id are added in their order, one after the other, from zero; on
    a GPU always the same way too, but neighbours first.

    Raises IndexError on an id outside of [0, count), ValueError where there is not one id for each row.
    """
    if len(ids) != len(data):
        raise ValueError(f"{len(ids)} ids for {len(data)} rows")
    if xp is np and data.dtype in HALVES:  # rounded once
        return narrowed(sum_rows(xp, widened(data), ids, count), data.dtype)
    zero = b"" if data.dtype.kind == "O" else data.dtype.type(0)
    out = xp.full((count, *data.shape[1:]), zero, data.dtype)
    if not ids.size or not data.size:
        return out
    if xp is np and data.dtype.kind in "iu" and data.dtype not in _WHOLE_TYPES:  # in whatever order
        np.add.at(out, ids, data)
        return out
    if xp is not np:  # neighbours first: a round, or a sum of its own, for each of many ids is a call for each
        ordered, order, starts = grouped(xp, ids)
        out[ordered[starts]] += reduced_runs(xp, "add", data[order], ordered, starts)
        return out
    if data.dtype not in _SUMMED:
        _add_in_rounds(data, ids, out)
        return out
    numbers, axis = np.ascontiguousarray(ids, np.int64), _axis_within(data) if data.dtype in FLOAT_TYPES else None
    if axis is None:
        rows = np.ascontiguousarray(data).reshape(len(data), -1)
        bad = add_rows(rows, numbers, out.reshape(count, rows.shape[1]))
    else:
        out, bad = _summed_within(data, axis, numbers, count)
    if bad >= 0:
        raise IndexError(f"id {ids[bad]} of row {bad} is not in [0, {count})")
    return out


@compiled([_LOOP.format(kind) for kind in (*_FLOATS, *_WHOLES)])
def add_rows(rows: Any, ids: Any, out: Any) -> int:
    """out[ids[i]] += rows[i], of zeros. The number of the first row whose id is no row of out, which ends it, or -1."""
    width, size = np.uint64(rows.shape[1]), np.uint64(out.shape[0])
    for i in range(np.uint64(rows.shape[0])):
        target = np.uint64(ids[i])
        if target >= size:
            return np.int64(i)  # type: ignore[return-value]
        for k in range(width):
            out[target, k] += rows[i, k]
    return -1


@add_rows.otherwise
def _(rows: Any, ids: Any, out: Any) -> int:
    outside = np.flatnonzero(ids.view(np.uint64) >= len(out))
    if outside.size:
        return int(outside[0])
    if rows.dtype.kind in "iu":
        np.add.at(out, ids, rows)
    else:
        _add_in_rounds(rows, ids, out)
    return -1


def _axis_within(data: Any) -> int | None:
    """Which axis of an array its first one was before it was moved to the front, as a gradient of a look-up along
    another axis is; None where it is the first in memory too, or where moving it back gives no piece of memory."""
    if data.ndim < 2 or data.flags.c_contiguous or not data.flags.aligned:
        return None
    axis = sum(n > 1 and step > data.strides[0] for n, step in zip(data.shape[1:], data.strides[1:]))
    return axis if axis and np.moveaxis(data, 0, axis).flags.c_contiguous else None


def _summed_within(data: Any, axis: int, ids: Any, count: int) -> tuple[Any, int]:
    """What sum_rows gives, in memory as `data` lies, and what add_rows gives: rows are not copied side by side."""
    before, width = data.shape[1 : 1 + axis], math.prod(data.shape[1 + axis :])
    rows = np.moveaxis(data, 0, axis).reshape(-1, len(data), width)
    out = np.zeros((len(rows), count, width), data.dtype)
    bad = add_rows_within(rows, ids, out)
    return np.moveaxis(out.reshape(*before, count, *data.shape[1 + axis :]), axis, 0), bad


@compiled(
    [f"int64(Array({k}, 3, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), {k}[:,:,::1])" for k in _FLOATS]
)
def add_rows_within(rows: Any, ids: Any, out: Any) -> int:
    """add_rows(rows[b], ids, out[b]) for each b."""
    width, size = np.uint64(rows.shape[2]), np.uint64(out.shape[1])
    for b in range(np.uint64(rows.shape[0])):
        for i in range(np.uint64(rows.shape[1])):
            target = np.uint64(ids[i])
            if target >= size:
                return np.int64(i)  # type: ignore[return-value]
            for k in range(width):
                out[b, target, k] += rows[b, i, k]
    return -1


@add_rows_within.otherwise
def _(rows: Any, ids: Any, out: Any) -> int:
    return next((bad for mine, to in zip(rows, out) if (bad := add_rows.numpy(mine, ids, to)) >= 0), -1)


def add_at(held: Any, ids: Any, rows: Any) -> bool:
    """held[ids[i]] += rows[i], in place and one after the other, for ids in range; False where nothing was done."""
    ready = held.flags.c_contiguous and held.dtype in FLOAT_TYPES and rows.dtype == held.dtype and held.size
    if not ready or not ids.size or rows.shape != (*ids.shape, *held.shape[1:]):
        return False
    width = held[0].size
    numbers = np.ascontiguousarray(ids, np.int64).reshape(-1)
    add_more(np.ascontiguousarray(rows).reshape(-1, width), numbers, held.reshape(-1, width))
    return True


@compiled([_LOOP.format(kind).replace("int64(", "void(", 1) for kind in _FLOATS])
def add_more(rows: Any, ids: Any, out: Any) -> None:
    for i in range(np.uint64(rows.shape[0])):
        target = np.uint64(ids[i])
        for k in range(np.uint64(rows.shape[1])):
            out[target, k] += rows[i, k]


@add_more.otherwise
def _(rows: Any, ids: Any, out: Any) -> None:
    np.add.at(out, ids, rows)


def _add_in_rounds(rows: Any, ids: Any, out: Any) -> None:
    """The first rows of all ids, the second of all that have two, and so on."""
    ordered, order, starts = grouped(np, ids)
    lengths = np.diff(starts, append=ids.size)
    for n in range(min(_FEW, int(lengths.max()))):
        some = starts[lengths > n]
        out[ordered[some]] += rows[order[some + n]]
    zero = b"" if rows.dtype.kind == "O" else rows.dtype.type(0)
    for start, length in zip(starts[lengths > _FEW].tolist(), lengths[lengths > _FEW].tolist()):
        mine = rows[order[start : start + length]]
        out[ordered[start]] = np.cumsum(mine, 0, dtype=rows.dtype)[-1] + zero
