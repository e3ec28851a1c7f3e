"""Kernels that pick parts of arrays by position, and put them back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.distinct_loops import distinct_of, number_ids
from sparkflow_runtime.kernels.host import check_indices, host, ints, one_int
from sparkflow_runtime.kernels.own_parts import owned
from sparkflow_runtime.kernels.pick_loops import choose
from sparkflow_runtime.kernels.places import as_places, check_holds
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel, knowing, prepares
from sparkflow_runtime.kernels.row_numbers import flat_rows, places_of_set
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.kernels.text_distinct import number_texts
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- slices


@kernel("Slice", aliases=True)
def _slice(xp: Any, x: Any, begin: Any, size: Any, *, own_parts: bool = False) -> Any:
    starts, sizes = ints(begin), ints(size)
    parts, lies_within = [], len(starts) == x.ndim
    for n, first, s in zip(x.shape, starts, sizes):
        end = n if s == -1 else first + s
        lies_within = lies_within and 0 <= first <= end <= n
        parts.append(slice(first, end))
    if not lies_within:
        raise InvalidArgumentError(f"Slice: begin {starts} and size {sizes} do not lie within the shape {x.shape}")
    return owned([x[tuple(parts)]])[0] if own_parts else x[tuple(parts)]


@bound("_Slices", multi=True, aliases=True, stateful=False)
def _slices(node: Node) -> Callable[..., list[Any]]:
    """Parts of one array along an axis: output i has sizes[i] of it from begins[i] on, and of the others `rest`, -1 for
    all there is."""
    axis, sizes = int(node.attrs["axis"]), [*map(int, node.attrs["rest"])]
    parts = [*zip(map(int, node.attrs["begins"]), map(int, node.attrs["sizes"]))]
    needed, own = max(begin + size for begin, size in parts), node.attr("own_parts", False)
    whole = [size == -1 for size in sizes[:axis]] + [False] + [size == -1 for size in sizes[axis:]]
    sizes.insert(axis, needed)
    lead = [slice(None if all_ else size) for all_, size in zip(whole, sizes)]
    keys = [(*lead[:axis], slice(begin, begin + size), *lead[axis + 1 :]) for begin, size in parts]

    def run(x: Any) -> list[Any]:
        if len(sizes) != x.ndim or any(size > n for size, n in zip(sizes, x.shape)):
            raise InvalidArgumentError(
                f"Slice: parts that begin at {[begin for begin, _ in parts]} and have the sizes "
                f"{[size for _, size in parts]} along axis {axis}, of {sizes}, do not lie within the shape {x.shape}"
            )
        found = [x[key] for key in keys]
        return owned(found) if own else found

    return run


def _index(begin: Any, end: Any, strides: Any, masks: dict[str, int]) -> tuple[Any, ...]:
    """The numpy index that begin, end, strides and the masks mean."""
    key: list[Any] = []
    for i, (b, e, s) in enumerate(zip(ints(begin), ints(end), ints(strides))):
        if masks["ellipsis_mask"] >> i & 1:
            key.append(Ellipsis)
        elif masks["new_axis_mask"] >> i & 1:
            key.append(None)
        elif masks["shrink_axis_mask"] >> i & 1:
            if s <= 0:
                raise InvalidArgumentError(f"StridedSlice: an index takes a positive stride, got {s} at position {i}")
            key.append(b)
        else:
            key.append(slice(None if masks["begin_mask"] >> i & 1 else b, None if masks["end_mask"] >> i & 1 else e, s))
    return tuple(key) if Ellipsis in key else (*key, Ellipsis)


_MASKED = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")  # in the order of _masks


def _masks(begin: int, end: int, ellipsis: int, new_axis: int, shrink_axis: int) -> dict[str, int]:
    return {
        "begin_mask": begin,
        "end_mask": end,
        "ellipsis_mask": ellipsis,
        "new_axis_mask": new_axis,
        "shrink_axis_mask": shrink_axis,
    }


def index_of(begin: Any, end: Any, strides: Any, masks: Any) -> tuple[Any, ...]:
    """The same of five masks, in the order of `_masks`."""
    return _index(begin, end, strides, _masks(*masks))


@kernel("StridedSlice", aliases=True)
def _strided_slice(
    xp: Any,
    x: Any,
    begin: Any,
    end: Any,
    strides: Any,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    own_parts: bool = False,
) -> Any:
    key = _index(begin, end, strides, _masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask))
    return owned([_at(x, key, begin)])[0] if own_parts else _at(x, key, begin)


def _at(x: Any, key: tuple[Any, ...], begin: Any) -> Any:
    try:
        return x[key]
    except IndexError as error:
        raise InvalidArgumentError(f"StridedSlice: {error} (shape {x.shape}, begin {ints(begin)})") from None


@knowing((1, 2, 3), "StridedSlice")
def _known_slice(node: Node, begin: Any, end: Any, strides: Any) -> Function | None:
    try:
        key = _index(begin, end, strides, _masks(*(node.attr(f"{name}_mask", 0) for name in _MASKED)))
    except InvalidArgumentError:  # to be said when it is run
        return None
    if node.attr("own_parts", False):
        return lambda x, *_: owned([_at(x, key, begin)])[0]
    return lambda x, *_: _at(x, key, begin)


@kernel("StridedSliceGrad")
def _strided_slice_grad(
    xp: Any,
    shape: Any,
    begin: Any,
    end: Any,
    strides: Any,
    dy: Any,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Any:
    key = _index(begin, end, strides, _masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask))
    return _put(xp, ints(shape), key, dy)


def _put(xp: Any, shape: tuple[int, ...], key: tuple[Any, ...], dy: Any) -> Any:
    out = xp.full(shape, b"", object) if dy.dtype.kind == "O" else xp.zeros(shape, dy.dtype)
    place = out[key]
    if place.shape != dy.shape:
        raise InvalidArgumentError(f"StridedSliceGrad: dy must have shape {place.shape}, got {dy.shape}")
    if place.ndim:
        place[...] = dy
    else:  # a number, not a view
        out[key] = dy
    return out


@knowing((1, 2, 3), "StridedSliceGrad")
def _known_slice_grad(node: Node, begin: Any, end: Any, strides: Any) -> Function | None:
    try:
        key = _index(begin, end, strides, _masks(*(node.attr(f"{name}_mask", 0) for name in _MASKED)))
    except InvalidArgumentError:  # to be said when it is run
        return None
    return lambda shape, _begin, _end, _strides, dy: _put(node.xp, ints(shape), key, dy)


@bound("StridedSliceAssign", refs=(0,))
def _strided_slice_assign(node: Node) -> Callable[..., Variable]:
    masks = _masks(*(node.attr(f"{name}_mask", 0) for name in _MASKED))

    def run(ref: Variable, begin: Any, end: Any, strides: Any, value: Any) -> Variable:
        with ref.lock:  # the rest of the variable stays, whoever else assigns to it
            held, key = ref.read(), _index(begin, end, strides, masks)
            wanted = _at(held, key, begin).shape
            try:
                held[key] = value
            except ValueError:
                raise InvalidArgumentError(
                    f"StridedSliceAssign: the slice of variable {ref.name!r} has shape {wanted}, to which the value of "
                    f"shape {np.shape(value)} cannot be broadcast"
                ) from None
        return ref

    return run


# ---------------------------------------------------------------------- gathers


def _take(xp: Any, x: Any, indices: Any, axis: int) -> Any:
    """xp.take, but for one string, which numpy gives as bytes."""
    found = x.take(indices, axis)
    return np.asarray(found, object) if isinstance(found, (bytes, str)) else found


@kernel("GatherV2")
def _gather(xp: Any, params: Any, indices: Any, axis: Any, *, batch_dims: int = 0) -> Any:
    at = one_int(axis)
    _check_gather(params, indices, at)
    return (
        _batched_take(xp, params, indices, at % params.ndim, batch_dims)
        if batch_dims
        else _take(xp, params, indices, at)
    )


def _check_gather(params: Any, indices: Any, at: int) -> None:
    if not -params.ndim <= at < params.ndim:
        raise InvalidArgumentError(f"GatherV2: axis {at} is out of range for params of shape {params.shape}")
    check_indices(indices, params.shape[at], "GatherV2")


@knowing((2,), "GatherV2")
def _known_gather(node: Node, axis: Any) -> Function | None:
    at = one_int(axis)

    def run(params: Any, indices: Any, _: Any) -> Any:
        _check_gather(params, indices, at)
        return _take(node.xp, params, indices, at)

    return None if node.attr("batch_dims", 0) else run


def _batched_take(xp: Any, params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """The first batch_dims axes of params and indices go together: row by row of those."""
    count = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    batch = indices.shape[:count]
    if not 0 <= count <= min(indices.ndim, axis) or params.shape[:count] != batch:
        raise InvalidArgumentError(
            f"GatherV2: batch_dims {batch_dims} needs params {params.shape} and indices {indices.shape} to begin "
            f"alike, before axis {axis}"
        )
    at = axis - count
    rows = params.reshape(math.prod(batch), *params.shape[count:])
    of_row = indices.reshape(math.prod(batch), *indices.shape[count:])
    shape = (*params.shape[:axis], *indices.shape[count:], *params.shape[axis + 1 :])
    taken = [_take(xp, row, at_row, at) for row, at_row in zip(rows, of_row)]
    return xp.stack(taken).reshape(shape) if taken else xp.empty(shape, params.dtype)


@kernel("Gather")
def _gather_first(xp: Any, params: Any, indices: Any) -> Any:
    check_indices(indices, params.shape[0], "Gather")
    return _take(xp, params, indices, 0)


@kernel("GatherNd")
def _gather_nd(xp: Any, params: Any, indices: Any) -> Any:
    depth = indices.shape[-1]
    rows = params.reshape(math.prod(params.shape[:depth]), *params.shape[depth:])
    return _take(xp, rows, flat_rows(xp, indices, params.shape, "GatherNd"), 0)


@kernel("ScatterNd")
def _scatter_nd(xp: Any, indices: Any, updates: Any, shape: Any) -> Any:
    dims, depth = ints(shape), indices.shape[-1]
    if updates.shape != (*indices.shape[:-1], *dims[depth:]):
        raise InvalidArgumentError(
            f"ScatterNd: updates {updates.shape} do not fit indices {indices.shape}, shape {dims}"
        )
    flat = flat_rows(xp, indices, dims, "ScatterNd").reshape(-1)
    summed = sum_rows(xp, updates.reshape(flat.size, *dims[depth:]), flat, math.prod(dims[:depth]))
    return summed.reshape(dims)


# ---------------------------------------------------------------------- choices


@kernel("Select")
def _select(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    if t.shape != e.shape:
        raise InvalidArgumentError(f"Select: x and y must have the same shape, got {t.shape} and {e.shape}")
    if condition.ndim == 1 and t.ndim > 1:
        if len(condition) != len(t):
            raise InvalidArgumentError(
                f"Select: a vector as condition chooses rows, so it must have {len(t)} elements for x and y of shape "
                f"{t.shape}, got {len(condition)}"
            )
        condition = condition.reshape(-1, *(1,) * (t.ndim - 1))
    return _chosen(xp, condition, t, e)


@kernel("SelectV2")
def _chosen(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    return choose(condition, t, e) if xp is np else xp.where(condition, t, e)


@kernel("Where")
def where(xp: Any, x: Any) -> Any:
    if not x.ndim:
        raise InvalidArgumentError("Where: condition must have at least one axis, got a scalar")
    if xp is np and x.ndim == 2 and x.dtype == np.bool_:
        return places_of_set(x)
    found = x.nonzero()  # argwhere takes three times as long for a few
    places = xp.empty((len(found[0]), x.ndim), xp.int64)
    for axis, along in enumerate(found):
        places[:, axis] = along
    return places


@kernel("OneHot")
def _one_hot(xp: Any, indices: Any, depth: Any, on: Any, off: Any, *, axis: int = -1) -> Any:
    if not -1 <= axis <= indices.ndim or one_int(depth) < 0:
        raise InvalidArgumentError(
            f"OneHot: axis must be in [-1, {indices.ndim}] and depth at least 0, got {axis} and {one_int(depth)}"
        )
    at = axis % (indices.ndim + 1)
    count = one_int(depth)
    out = xp.full((indices.size, count), off, on.dtype)
    flat = indices.reshape(-1)
    inside = (flat >= 0) & (flat < count)
    rows = xp.arange(flat.size)
    if not inside.all():
        rows, flat = rows[inside], flat[inside]
    out[rows, flat] = on
    out = out.reshape(*indices.shape, count)
    return out if at == indices.ndim else xp.ascontiguousarray(xp.moveaxis(out, -1, at))


_IDS = (np.dtype(np.int32), np.dtype(np.int64))


def _are_ids(xp: Any, x: Any) -> bool:
    return xp is np and x.ndim == 1 and x.dtype in _IDS


def unique(xp: Any, x: Any, out_idx: DType) -> tuple[Any, Any]:
    """(the values in order of first appearance, which of them each is)."""
    values, inverse = distinct_of(x) if _are_ids(xp, x) else unique_parts(xp, x)[:2]
    return values, as_places("Unique", inverse, len(values), out_idx.np, "out_idx")


@kernel("Unique", multi=True)
def _unique(xp: Any, x: Any, *, out_idx: DType) -> Any:
    return unique(xp, x, out_idx)


for _loop in (number_ids, number_texts):
    prepares(_loop.prepare, "Unique", "UniqueWithCounts")


@kernel("UniqueWithCounts", multi=True)
def _unique_with_counts(xp: Any, x: Any, *, out_idx: DType) -> Any:
    if _are_ids(xp, x):
        values, inverse = distinct_of(x)
        counts = np.bincount(inverse, minlength=len(values))
    else:
        values, inverse, counts = unique_parts(xp, x)
    check_holds("UniqueWithCounts", x.size, out_idx.np, "out_idx")
    return values, inverse.astype(out_idx.np), counts.astype(out_idx.np)


@kernel("ListDiff", multi=True)
def _list_diff(xp: Any, x: Any, y: Any, *, out_idx: DType) -> Any:
    if x.ndim != 1 or y.ndim != 1:
        raise InvalidArgumentError(f"ListDiff: x and y must be vectors, got shapes {x.shape} and {y.shape}")
    if xp is np and x.size + y.size < 64:  # numpy's isin has done with few in 60 us
        gone = {*y.tolist()}
        kept = np.array([i for i, value in enumerate(x.tolist()) if value not in gone], np.intp)
    else:
        kept = xp.flatnonzero(~xp.isin(x, y))
    return x[kept], as_places("ListDiff", kept, x.size, out_idx.np, "out_idx")


@kernel("ReverseSequence")
def _reverse_sequence(xp: Any, x: Any, seq_lengths: Any, *, seq_dim: int, batch_dim: int = 0) -> Any:
    """The first seq_lengths[b] elements of each row b along seq_dim in the opposite order."""
    rows, steps = x.shape[batch_dim], x.shape[seq_dim]
    if seq_lengths.shape != (rows,) or bool(((seq_lengths < 0) | (seq_lengths > steps)).any()):
        raise InvalidArgumentError(
            f"ReverseSequence: seq_lengths must be {rows} numbers from 0 to {steps}, got {host(seq_lengths).tolist()}"
        )
    step, ends = xp.arange(steps), seq_lengths[:, None]
    source = xp.where(step < ends, ends - 1 - step, step)
    if (batch_dim, seq_dim) == (0, 1):
        return x[xp.arange(rows)[:, None], source]
    if (batch_dim, seq_dim) == (1, 0):
        return x[source.T, xp.arange(rows)]
    moved = xp.moveaxis(x, (batch_dim, seq_dim), (0, 1))[xp.arange(rows)[:, None], source]
    return xp.ascontiguousarray(xp.moveaxis(moved, (0, 1), (batch_dim, seq_dim)))
