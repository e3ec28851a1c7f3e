"""Reductions over segments of rows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from sparkflow_runtime.kernels import segment_loops, segment_reduce_loops
from sparkflow_runtime.kernels.halves import HALVES, narrowed, widened
from sparkflow_runtime.kernels.host import check_indices, one_int
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.kernels.sorting import grouped, reduced_runs
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _check_sorted(op: str, data: Any, ids: Any) -> None:
    if ids.ndim != 1 or not data.ndim or len(ids) != len(data):
        raise InvalidArgumentError(f"{op}: segment_ids {ids.shape} must have one entry a row of data {data.shape}")
    if len(ids) and (bool((ids[1:] < ids[:-1]).any()) or int(ids[0]) < 0):
        raise InvalidArgumentError(f"{op}: segment_ids must not decrease and must not be negative")


def _end(dtype: Any, high: bool) -> Any:
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)
    return info.max if high else info.min


_COMBINE = {"Prod": "multiply", "Max": "maximum", "Min": "minimum"}
_LOOPS = {
    "Prod": segment_reduce_loops.PRODUCT,
    "Max": segment_reduce_loops.MAX,
    "Min": segment_reduce_loops.MIN,
}


def _combined(xp: Any, kind: str, data: Any, ids: Any, count: int, nothing: Any, ascend: bool = False) -> Any:
    """ascend: whether the ids are in order as they come."""
    out = xp.full((count, *data.shape[1:]), nothing, data.dtype)
    if not ids.size:
        return out
    if xp is np and ascend:
        rows, ordered, starts = data, ids, np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    else:
        ordered, order, starts = grouped(xp, ids)
        rows = data[order]
    own, found = ordered[starts], reduced_runs(xp, _COMBINE[kind], rows, ordered, starts)
    out[own] = found if ascend else getattr(xp, _COMBINE[kind])(out[own], found)
    return out


def _in_order(xp: Any, kind: str, data: Any, ids: Any, count: int) -> Any:
    out = np.empty((count, *data.shape[1:]), data.dtype)
    wrong = segment_reduce_loops.reduced_in_order(data, ids, _LOOPS[kind], out)
    return out if wrong < 0 else _check_sorted(f"Segment{kind}", data, ids)


def _sorted(kind: str) -> None:
    op = f"Segment{kind}"

    def run(xp: Any, data: Any, ids: Any) -> Any:
        quick = kind in _LOOPS and segment_reduce_loops.handles(xp, data)
        if quick and data.ndim and ids.shape == data.shape[:1] and ids.size and ids[-1] >= 0:
            return _in_order(xp, kind, data, ids, int(ids[-1]) + 1)
        _check_sorted(op, data, ids)
        if not len(ids):
            return data[:0]
        count = int(ids[-1]) + 1
        if kind == "Mean":
            return _mean(xp, data, ids, count)
        return _combined(xp, kind, data, ids, count, 1 if kind == "Prod" else 0, True)

    kernel(op)(run)


def _mean(xp: Any, data: Any, ids: Any, count: int) -> Any:
    rows = xp.maximum(xp.bincount(ids, minlength=count), 1).reshape(-1, *[1] * (data.ndim - 1))
    total = sum_rows(xp, data, ids, count)
    if data.dtype.kind in "iu":  # towards 0, as C divides
        return (xp.sign(total) * (abs(total) // rows)).astype(data.dtype)
    return (total / rows.astype(total.dtype)).astype(data.dtype)


for _kind in ("Mean", "Prod", "Max", "Min"):
    _sorted(_kind)


def _unsorted(kind: str) -> None:
    op = f"UnsortedSegment{kind}"

    def run(xp: Any, data: Any, ids: Any, num_segments: Any) -> Any:
        count, shape = one_int(num_segments), ids.shape
        if data.shape[: len(shape)] != shape:
            raise InvalidArgumentError(f"{op}: data {data.shape} must begin with segment_ids' shape {shape}")
        if count < 0:
            raise InvalidArgumentError(f"{op}: num_segments must not be negative, got {count}")
        data, ids = data.reshape(ids.size, *data.shape[len(shape) :]), ids.reshape(-1)
        nothing = 1 if kind == "Prod" else _end(data.dtype, kind == "Min")
        if segment_reduce_loops.handles(xp, data):
            out = np.full((count, *data.shape[1:]), nothing, data.dtype)
            if segment_reduce_loops.reduced(data, ids, _LOOPS[kind], out) < 0:
                return out
        data, ids = data[ids >= 0], ids[ids >= 0]
        check_indices(ids, count, op)
        return _combined(xp, kind, data, ids, count, nothing)

    kernel(op)(run)


for _kind in _COMBINE:
    _unsorted(_kind)
    prepares(segment_reduce_loops.reduce_rows.prepare, f"UnsortedSegment{_kind}")
    prepares(segment_reduce_loops.reduce_ordered.prepare, f"Segment{_kind}")


# ---------------------------------------------------------------------- of rows that indices pick


DIVIDED = {"Sum": segment_loops.SUM, "Mean": segment_loops.MEAN, "SqrtN": segment_loops.SQRT_N}


def _weights(xp: Any, kind: str, ids: Any, count: int, dtype: Any) -> Any:
    """What each segment's sum is divided by."""
    rows = xp.maximum(xp.bincount(ids, minlength=count), 1)
    return (rows if kind == "Mean" else xp.sqrt(rows)).astype(dtype)


def sums_of_picked(
    xp: Any, kind: str, data: Any, indices: Any, ids: Any, num_segments: Any = None, hidden: Any = None
) -> Any:  # fmt: skip
    """The rows that indices pick, summed by segment. hidden (bool): segments that are zeros whatever they sum."""
    op, count = f"SparseSegment{kind}", max(0, int(ids[-1]) + 1) if ids.size else 0
    wanted = count if num_segments is None else one_int(num_segments)
    fits = ids.ndim == 1 and indices.shape == ids.shape and wanted >= count
    if fits and segment_loops.handles(xp, data) and (hidden is None or len(hidden) == wanted):
        total, bad = segment_loops.picked_sums(data, indices, ids, wanted, DIVIDED[kind], hidden)
        if bad < 0:
            return total
    check_indices(indices, len(data), op)
    rows = data[indices]
    _check_sorted(op, rows, ids)
    if wanted < count:
        raise InvalidArgumentError(f"{op}: segment ids must be < num_segments")
    wide = np.float32 if data.dtype.itemsize == 2 and data.dtype.kind not in "iu" else data.dtype
    total = sum_rows(xp, rows.astype(wide, copy=False), ids, wanted)
    if kind != "Sum":
        total /= _weights(xp, kind, ids, wanted, wide).reshape(-1, *[1] * (data.ndim - 1))
    if hidden is not None:
        if len(hidden) != len(total):
            raise InvalidArgumentError(f"Select: {len(hidden)} rows that may be empty do not fit {len(total)} segments")
        total[hidden] = 0
    return total.astype(data.dtype, copy=False)


def gradients_of_picked(
    xp: Any, kind: str, grad: Any, indices: Any, ids: Any, size: Any, skipped: Any = None
) -> Any:  # fmt: skip
    """The way back. skipped (bool): segments that give nothing."""
    if xp is np and grad.dtype in HALVES:
        return narrowed(gradients_of_picked(xp, kind, widened(grad), indices, ids, size, skipped), grad.dtype)
    if segment_loops.handles(xp, grad) and ids.ndim == 1 and indices.shape == ids.shape:
        out, bad = segment_loops.picked_gradients(grad, indices, ids, one_int(size), DIVIDED[kind], skipped)
        if bad < 0:
            return out
    check_indices(ids, len(grad), f"SparseSegment{kind}Grad: segment_ids")
    check_indices(indices, one_int(size), f"SparseSegment{kind}Grad")
    if kind != "Sum":
        grad = grad / _weights(xp, kind, ids, len(grad), grad.dtype).reshape(-1, *[1] * (grad.ndim - 1))
    rows = grad[ids]
    if skipped is not None:
        rows[skipped[ids]] = 0
    return sum_rows(xp, rows, indices, one_int(size))


def _picked(kind: str) -> None:
    op = f"SparseSegment{kind}"
    kernel(op, f"{op}WithNumSegments")(lambda xp, *inputs: sums_of_picked(xp, kind, *inputs))
    kernel(f"{op}Grad")(lambda xp, *inputs: gradients_of_picked(xp, kind, *inputs))


for _kind in DIVIDED:
    _picked(_kind)
