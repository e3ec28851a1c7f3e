"""Counts of values, histograms, places by order."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, clip, control_flow, math, math_reduce, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _counted(op: Operation) -> list[Dims]:
    dims, size = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None:
        return [None]
    if len(dims) > 2:
        raise InvalidArgumentError(f"{op.type}: input must be of rank 1 or 2, got {shapes.show(dims)}")
    return [(*dims[:-1], None if size is None else int(size))]


def _binned(op: Operation) -> list[Dims]:
    rules.require_rank(op, "value_range", op.inputs[1], 1)
    rules.require_rank(op, "nbins", op.inputs[2], 0)
    count = constant_value(op.inputs[2])
    if count is not None and count <= 0:
        raise InvalidArgumentError(f"{op.type}: nbins must be above 0, got {int(count)}")
    return [(None if count is None else int(count),)]


def _without_last(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "input", op.inputs[0], 1, at_least=True)
    n = constant_value(op.inputs[1])
    if n is not None and n < 0:
        raise InvalidArgumentError(f"{op.type}: n must not be negative, got {int(n)}")
    if n is not None and dims is not None and dims[-1] is not None and dims[-1] <= n:
        raise InvalidArgumentError(f"{op.type}: input must have last size > n = {int(n)}, got {shapes.show(dims)}")
    return [dims and dims[:-1]]


def _unravelled(op: Operation) -> list[Dims]:
    indices, dims = (t._shape for t in op.inputs)
    if dims == ():
        return [indices]
    rules.require_rank(op, "dims", op.inputs[1], 1)
    if indices is None:
        return [None]
    if indices == ():
        return [dims if dims is not None else (None,)]
    count = None if None in indices else shapes.product(indices)
    return [((dims or (None,))[0], count)] if len(indices) < 2 else [((dims or (None,))[0], *indices)]


_SORTED = "sorted_inputs: T, values: T -> output: out_type"
_ANY: dict[str, Any] = {"out_type": dtypes.int32}
op("DenseBincount", "input: Tidx, size: Tidx, weights: T -> output: T", _counted, binary_output=False)
op("HistogramFixedWidth", "values: T, value_range: T, nbins: int32 -> out: dtype", _binned, dtype=dtypes.int32)
op("NthElement", "input: T, n: int32 -> values: T", _without_last, reverse=False)
op("UnravelIndex", "indices: Tidx, dims: Tidx -> output: Tidx", _unravelled, Tidx=dtypes.int32)
for _op_type in ("LowerBound", "UpperBound"):
    op(_op_type, _SORTED, lambda op: [shapes.merge(op.inputs[1]._shape, (None, None))], **_ANY)


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32,
    name: str | None = None, axis: int | None = None, binary_output: bool = False,
) -> Tensor:  # fmt: skip
    """How often each number of at least 0 occurs in arr, or the sums of its weights: [largest + 1].

    minlength, maxlength: of the result, padded with zeros or without the larger numbers. axis -1: a row for each row
    of a matrix. binary_output: 1 where a number occurs at all.
    """
    if weights is not None and binary_output:
        raise ValueError("bincount: binary_output and weights exclude each other")
    if axis not in (None, 0, -1):
        raise ValueError(f"bincount: axis must be 0 or -1, got {axis}")
    with get_default_graph().name_scope(name or "bincount"):
        arr = convert_to_tensor(arr, name="arr")
        arr = arr if arr.dtype.is_integer else math.cast(arr, dtypes.int32)
        size = _bins_of(arr, minlength, maxlength)
        whole: Any = [] if weights is None else convert_to_tensor(weights)
        if axis != -1:
            arr, whole = array.reshape(arr, [-1]), whole if weights is None else array.reshape(whole, [-1])
        if weights is None:
            whole = array.zeros([0], dtype)
        return apply_op("DenseBincount", [arr, size, whole], {"binary_output": binary_output})


def _bins_of(arr: Tensor, minlength: Any, maxlength: Any) -> Tensor:
    """The largest number and one, 0 of nothing, between the bounds."""
    something = math.cast(math.greater(array.size(arr), 0), arr.dtype.base_dtype)
    size = math.multiply(something, math.add(math_reduce.reduce_max(arr), 1))
    if minlength is not None:
        size = math.maximum(convert_to_tensor(minlength, arr.dtype.base_dtype), size)
    if maxlength is not None:
        size = math.minimum(convert_to_tensor(maxlength, arr.dtype.base_dtype), size)
    return size


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """How many values fall into each of nbins bins of one width over value_range; those outside count at the ends."""
    attrs = {"dtype": dtypes.as_dtype(dtype)}
    return apply_op("HistogramFixedWidth", [values, value_range, nbins], attrs, name or "histogram_fixed_width")


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The bin of each value, as histogram_fixed_width counts them."""
    with get_default_graph().name_scope(name or "histogram_fixed_width_bins"):
        values = convert_to_tensor(values, name="values")
        value_range = convert_to_tensor(value_range, values.dtype.base_dtype, "value_range")
        nbins = convert_to_tensor(nbins, dtypes.int32, "nbins")
        nbins = control_flow.with_dependencies(
            [control_flow.Assert(math.greater(nbins, 0), ["nbins must be above 0", nbins])], nbins
        )
        low, high = array_join.unstack(value_range, 2)
        scaled = math.truediv(math.subtract(values, low), math.subtract(high, low))
        count = math.cast(nbins, scaled.dtype)
        at = clip.clip_by_value(math.floor(math.multiply(count, scaled)), 0.0, math.subtract(count, 1))
        return math.cast(at, dtypes.as_dtype(dtype))


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The n-th smallest (from 0) along the last axis, the n-th largest where reverse."""
    return apply_op("NthElement", [input, n], {"reverse": reverse}, name)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """[rank, n]: the index vectors of places in row order of a tensor of shape dims."""
    return apply_op("UnravelIndex", [indices, dims], name=name)


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Where each value would go into the sorted last axis: before equal ones ("left") or behind them ("right").

    The axes before the last are those of sorted_sequence.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be either 'right' or 'left'. Saw: {side}.")
    with get_default_graph().name_scope(name or "searchsorted"):
        ordered = convert_to_tensor(sorted_sequence)
        values = convert_to_tensor(values, ordered.dtype.base_dtype)
        last, wanted = (array.shape(t)[-1] for t in (ordered, values))
        op_type = "LowerBound" if side == "left" else "UpperBound"
        rows = [array.reshape(t, array_join.stack([-1, n])) for t, n in ((ordered, last), (values, wanted))]
        found = apply_op(op_type, rows, {"out_type": dtypes.as_dtype(out_type)})
        return array.reshape(found, array.shape(values))
