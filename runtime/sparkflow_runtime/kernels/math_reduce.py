"""Reductions, running sums, positions of extremes, sums by segment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import check_indices, ints, one_int
from sparkflow_runtime.kernels.places import as_places
from sparkflow_runtime.kernels.registry import Function, Node, kernel, knowing
from sparkflow_runtime.kernels.row_reductions import UFUNCS, extreme, reduced
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

Reduce = Callable[[Any, Any, Any, bool], Any]


def _reduction(op: str, reduce: Reduce) -> None:
    def over(xp: Any, x: Any, axis: tuple[int, ...], keep_dims: bool) -> Any:
        if not axis:
            return xp.abs(x).astype(x.dtype) if op == "EuclideanNorm" else x  # numpy's sum makes 0.0 of -0.0
        if max(axis) >= x.ndim or min(axis) < -x.ndim:
            raise InvalidArgumentError(f"{op}: axes {axis} are out of range for shape {x.shape}")
        return reduce(xp, x, axis, keep_dims)

    def run(xp: Any, x: Any, axes: Any, *, keep_dims: bool = False) -> Any:
        return over(xp, x, ints(axes), keep_dims)

    def known(node: Node, axes: Any) -> Function:
        axis, keep, xp = ints(axes), node.attr("keep_dims", False), node.xp
        return lambda x, _: over(xp, x, axis, keep)

    kernel(op, aliases=True)(run)
    knowing((1,), op)(known)


def _mean(xp: Any, x: Any, axis: Any, keep: bool) -> Any:
    """Of integers rounded towards zero; of nothing nan."""
    count = math.prod([x.shape[a] for a in axis])
    if x.dtype.kind in "iu":
        total = xp.sum(x, axis, keepdims=keep)  # in 64 bits, where it does not wrap
        return (xp.sign(total) * (xp.abs(total) // max(1, count))).astype(x.dtype)
    wide = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype  # half precision loses count in long sums
    total = reduced("sum", x, axis, keep)
    if total is None and xp is np:
        total = UFUNCS["sum"].reduce(x, axis, wide, None, keep)
    elif total is None:
        total = xp.sum(x, axis, dtype=wide, keepdims=keep)
    mean = total / wide.type(count)
    return mean if mean.dtype == x.dtype else mean.astype(x.dtype)


def _norm(xp: Any, x: Any, axis: Any, keep: bool) -> Any:
    squares = (xp.conj(x) * x).real if x.dtype.kind == "c" else x * x
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        squares = squares.astype(np.float32)
    return xp.sqrt(xp.sum(squares, axis, dtype=squares.dtype, keepdims=keep)).astype(x.dtype)


def _extreme(name: str) -> Reduce:
    """Of nothing: the type's own end, as TensorFlow gives it."""

    def reduce(xp: Any, x: Any, axis: Any, keep: bool) -> Any:
        if x.size:
            found = reduced(name, x, axis, keep)
            if found is not None:
                return found
            if xp is np:
                return UFUNCS[name].reduce(x, axis, None, None, keep)
            return getattr(xp, name)(x, axis, keepdims=keep)
        return extreme(xp, name, x, axis, keep, _end(x.dtype, name == "min"))

    return reduce


def _end(dtype: Any, high: bool) -> Any:
    if dtype.kind not in "iu":
        return float("inf") if high else -float("inf")
    info = np.iinfo(dtype)
    return info.max if high else info.min


def _sum(xp: Any, x: Any, axis: Any, keep: bool) -> Any:
    found = reduced("sum", x, axis, keep)
    if found is not None:
        return found
    if xp is np:  # numpy's own `sum` asks many things first
        return UFUNCS["sum"].reduce(x, axis, x.dtype, None, keep)
    return xp.sum(x, axis, dtype=x.dtype, keepdims=keep)


def _truth(name: str) -> Reduce:
    def reduce(xp: Any, x: Any, axis: Any, keep: bool) -> Any:
        if xp is np:
            return UFUNCS[name].reduce(x, axis, None, None, keep)
        return getattr(xp, name)(x, axis, keepdims=keep)

    return reduce


_reduction("Sum", _sum)
_reduction("Prod", lambda xp, x, axis, keep: xp.prod(x, axis, dtype=x.dtype, keepdims=keep))
_reduction("Mean", _mean)
_reduction("EuclideanNorm", _norm)
_reduction("Max", _extreme("max"))
_reduction("Min", _extreme("min"))
_reduction("All", _truth("all"))
_reduction("Any", _truth("any"))


@kernel("BroadcastGradientArgs", multi=True)
def _broadcast_gradient_args(xp: Any, s0: Any, s1: Any) -> Any:
    """For both shapes the axes of the broadcast result in which they have size 1; none where the shapes are equal."""
    a, b = ints(s0), ints(s1)
    rank = max(len(a), len(b))
    over_a: list[int] = []
    over_b: list[int] = []
    if a != b:
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
            raise InvalidArgumentError(f"BroadcastGradientArgs: shapes {ints(s0)} and {ints(s1)} do not broadcast")
        over_a, over_b = ([i for i, size in enumerate(sizes) if size == 1] for sizes in (a, b))
    return xp.asarray(over_a, s0.dtype), xp.asarray(over_b, s0.dtype)


@kernel("BroadcastArgs")
def _broadcast_args(xp: Any, s0: Any, s1: Any) -> Any:
    try:
        return xp.asarray(np.broadcast_shapes(ints(s0), ints(s1)), s0.dtype)
    except ValueError:
        raise InvalidArgumentError(f"BroadcastArgs: shapes {ints(s0)} and {ints(s1)} do not broadcast") from None


# ---------------------------------------------------------------------- positions and running sums


_FEW = 1 << 12  # elements: all of them are asked sooner than some are picked


def _position(op: str, name: str, nothing: float) -> None:
    """What is not a number is never the extreme; numpy's position is that of the first nan, where there is one."""

    def run(xp: Any, x: Any, axis: Any, *, output_type: DType) -> Any:
        at = one_int(axis)
        if not -x.ndim <= at < x.ndim:
            raise InvalidArgumentError(f"{op}: axis {at} is out of range for shape {x.shape}")
        if not x.shape[at]:
            raise InvalidArgumentError(f"{op}: axis {at} of shape {x.shape} is empty")
        found = getattr(xp, name)(x, at)
        if x.dtype.kind not in "iub" and found.size:
            picked = x if x.size < _FEW else xp.take_along_axis(x, xp.expand_dims(found, at), at)
            if bool(xp.isnan(picked).any()):
                found = getattr(xp, name)(xp.where(xp.isnan(x), x.dtype.type(nothing), x), at)
        return as_places(op, found, x.shape[at], output_type.np, "output_type")

    kernel(op)(run)


_position("ArgMax", "argmax", -math.inf)
_position("ArgMin", "argmin", math.inf)


def _running(op: str, name: str) -> None:
    """exclusive: each element's total leaves itself out, so that the first is that of nothing."""
    nothing = {"cumsum": 0, "cumprod": 1}[name]

    accumulate = {"cumsum": np.add, "cumprod": np.multiply}[name].accumulate

    def run(xp: Any, x: Any, axis: Any, *, exclusive: bool = False, reverse: bool = False) -> Any:
        at = one_int(axis)
        if not -x.ndim <= at < x.ndim:
            raise InvalidArgumentError(f"{op}: axis {at} is out of range for shape {x.shape}")
        lead = (slice(None),) * (at % x.ndim)
        out = xp.empty(x.shape, x.dtype)
        to, of = (out[*lead, ::-1], x[*lead, ::-1]) if reverse else (out, x)
        if exclusive:
            to[*lead, :1] = nothing
            to, of = to[*lead, 1:], of[*lead, :-1]
        if xp is np:
            accumulate(of, at, x.dtype, to)
        else:
            to[...] = getattr(xp, name)(of, at, dtype=x.dtype)
        return out

    kernel(op)(run)


_running("Cumsum", "cumsum")
_running("Cumprod", "cumprod")


@kernel("CumulativeLogsumexp")
def _cumulative_logsumexp(xp: Any, x: Any, axis: Any, *, exclusive: bool = False, reverse: bool = False) -> Any:
    """Of nothing minus infinity."""
    moved = xp.moveaxis(x, one_int(axis), 0)
    moved = moved[::-1] if reverse else moved
    out = xp.empty(moved.shape, x.dtype)
    total = xp.full(moved.shape[1:], -np.inf, x.dtype)
    for i in range(len(moved)):
        added = xp.logaddexp(total, moved[i]).astype(x.dtype)
        out[i] = total if exclusive else added
        total = added
    return xp.moveaxis(out[::-1] if reverse else out, 0, one_int(axis))


# ---------------------------------------------------------------------- segments


@kernel("UnsortedSegmentSum")
def unsorted_segment_sum(xp: Any, data: Any, ids: Any, num_segments: Any) -> Any:
    count, shape = one_int(num_segments), ids.shape
    if data.shape[: len(shape)] != shape:
        raise InvalidArgumentError(f"UnsortedSegmentSum: data {data.shape} must begin with segment_ids' shape {shape}")
    data, ids = data.reshape(ids.size, *data.shape[len(shape) :]), ids.reshape(-1)
    if ids.size and int(ids.min()) < 0:
        data, ids = data[ids >= 0], ids[ids >= 0]
    check_indices(ids, count, "UnsortedSegmentSum")
    return sum_rows(xp, data, ids, count)


@kernel("SegmentSum")
def segment_sum(xp: Any, data: Any, ids: Any) -> Any:
    if ids.ndim != 1 or not data.ndim or len(ids) != len(data):
        raise InvalidArgumentError(
            f"SegmentSum: segment_ids {ids.shape} must have one entry a row of data {data.shape}"
        )
    if not len(ids):
        return data[:0]
    if bool((ids[1:] < ids[:-1]).any()) or int(ids[0]) < 0:
        raise InvalidArgumentError("SegmentSum: segment_ids must not decrease and must not be negative")
    return sum_rows(xp, data, ids, int(ids[-1]) + 1)
