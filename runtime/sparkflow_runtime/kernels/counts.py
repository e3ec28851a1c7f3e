"""Kernels that count values, and that find places by order: bins, bounds, the n-th smallest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import ints, one_int
from sparkflow_runtime.kernels.places import check_holds
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError


@kernel("DenseBincount")
def _dense_bincount(xp: Any, x: Any, size: Any, weights: Any, *, binary_output: bool = False) -> Any:
    """Of a vector a vector, of a matrix a row for each row; values of `size` and above are left out."""
    count = one_int(size)
    if x.ndim > 2 or count < 0 or (weights.size and weights.shape != x.shape) or (x.size and int(x.min()) < 0):
        raise InvalidArgumentError(
            f"DenseBincount: values of at least 0 of rank 1 or 2, weights of their shape or none, and a size of at "
            f"least 0 are needed; got values {list(x.shape)}, weights {list(weights.shape)}, size {count}"
        )
    rows = math.prod(x.shape[:-1])
    flat = x.reshape(rows, -1) if x.size else x.reshape(rows, 0)
    kept = flat < count
    at = (xp.arange(rows)[:, None] * count + flat)[kept]
    out = xp.zeros(rows * count, weights.dtype)
    if binary_output:
        out[at] = 1
    else:
        xp.add.at(out, at, weights.reshape(flat.shape)[kept] if weights.size else weights.dtype.type(1))
    return out.reshape(*x.shape[:-1], count)


@kernel("HistogramFixedWidth")
def _histogram(xp: Any, values: Any, value_range: Any, nbins: Any, *, dtype: DType | None = None) -> Any:
    count = one_int(nbins)
    low, high = (value_range[i] for i in (0, 1)) if value_range.shape == (2,) else (0, 0)
    if count <= 0 or not low < high:
        raise InvalidArgumentError(
            f"HistogramFixedWidth: nbins must be above 0 and value_range an ascending pair, got {count} and "
            f"{value_range.tolist()}"
        )
    step = (float(high) - float(low)) / count
    with np.errstate(invalid="ignore"):
        at = xp.clip(xp.floor((values.reshape(-1).astype(xp.float64) - float(low)) / step), 0, count - 1)
    counted = xp.bincount(xp.nan_to_num(at).astype(xp.int64), minlength=count)
    return counted.astype(np.int32 if dtype is None else dtype.np)


@kernel("NthElement")
def _nth_element(xp: Any, x: Any, n: Any, *, reverse: bool = False) -> Any:
    if n.ndim:
        raise InvalidArgumentError(f"NthElement: n must be a scalar, got shape {list(n.shape)}")
    place = one_int(n)
    if not x.ndim or not 0 <= place < x.shape[-1]:
        raise InvalidArgumentError(f"NthElement: n must be in [0, the last size of {list(x.shape)}), got {place}")
    at = x.shape[-1] - 1 - place if reverse else place
    return xp.ascontiguousarray(xp.partition(x, at, -1)[..., at])


@kernel("UnravelIndex")
def _unravel_index(xp: Any, indices: Any, dims: Any) -> Any:
    sizes = ints(dims)
    if dims.ndim > 1 or not all(sizes):
        raise InvalidArgumentError(f"UnravelIndex: dims must be a vector of sizes above 0, got {list(sizes)}")
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= math.prod(sizes)):
        raise InvalidArgumentError(f"UnravelIndex: index is out of bound as with dims {list(sizes)}")
    if not dims.ndim:
        return indices.copy()
    columns, rest = [], indices
    for size in reversed(sizes):
        columns.append(rest % size)
        rest = rest // size
    return xp.stack(columns[::-1]).astype(indices.dtype)


def _bound(op: str, side: str) -> None:
    def run(xp: Any, ordered: Any, values: Any, *, out_type: DType | None = None) -> Any:
        if ordered.ndim != 2 or values.ndim != 2 or len(ordered) != len(values):
            raise InvalidArgumentError(
                f"{op}: sorted_inputs and values must be matrices of as many rows, got {list(ordered.shape)} and "
                f"{list(values.shape)}"
            )
        out = xp.empty(values.shape, np.int32 if out_type is None else out_type.np)
        check_holds(op, ordered.shape[1], out.dtype, "out_type")
        for row, line, wanted in zip(out, ordered, values):
            row[...] = xp.searchsorted(line, wanted, side)
        if side == "left" and values.dtype.kind == "f":
            out[xp.isnan(values)] = 0  # no number is below it
        return out

    kernel(op)(run)


_bound("LowerBound", "left")
_bound("UpperBound", "right")
