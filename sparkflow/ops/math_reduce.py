"""Reductions over axes, running sums, and positions of extremes."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math, rules
from sparkflow_runtime.wire import dtypes


def reduced(op: Operation) -> list[Dims]:
    """The input's shape without the reduced axes, or with 1 in their place."""
    (dims, keep), axes = (op.inputs[0]._shape, op.attrs["keep_dims"]), constant_value(op.inputs[1])
    if dims is None:
        return [None]
    if axes is not None:
        gone = {rules.axis_in(op, int(a), len(dims)) for a in axes.ravel()}
        return [tuple(1 if i in gone else d for i, d in enumerate(dims) if keep or i not in gone)]
    if keep:
        return [(None,) * len(dims)]
    return [(None,) * (len(dims) - 1) if op.inputs[1]._shape == () and dims else None]


_ROW = "input: T, reduction_indices: Tidx -> output: T"
for _op_type in ("Sum", "Mean", "Prod", "Max", "Min"):
    op(_op_type, _ROW, reduced, keep_dims=False, Tidx=dtypes.int32)
for _op_type in ("All", "Any"):
    op(
        _op_type,
        _ROW.replace(": T,", ": bool,").replace("output: T", "output: bool"),
        reduced,
        keep_dims=False,
        Tidx=dtypes.int32,
    )


def reduction(
    op_type: str, x: Any, axis: Any, keep: bool | None, name: str | None, old: tuple[Any, bool | None]
) -> Tensor:
    """One reduction node. old: TF 0.x's names of axis and keepdims (reduction_indices, keep_dims)."""
    axis, keep = _one_of("axis", axis, old[0]), bool(_one_of("keepdims", keep, old[1]))
    if hasattr(x, "_reduced"):  # a RaggedTensor knows how
        return x._reduced(op_type, axis, keep, name)
    x = convert_to_tensor(x, name="input_tensor")
    axes = all_axes(x) if axis is None else axis
    out = apply_op(op_type, [x, axes], {"keep_dims": keep}, name)
    if axis is None and not keep:
        out.set_shape(())  # also where x's rank is not known
    return out


def _one_of(label: str, new: Any, old: Any) -> Any:
    if new is not None and old is not None:
        raise ValueError(f"Give {label} once: got {new!r} and, under its old name, {old!r}")
    return old if new is None else new


def all_axes(x: Tensor) -> Tensor:
    """0, 1, ..., rank - 1; a constant where the rank is known."""
    if x._shape is not None:
        return convert_to_tensor(list(range(len(x._shape))), dtypes.int32, "Const")
    return math.range(0, apply_op("Rank", [x]), 1)


def reduce_sum(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The sum over `axis` (an int, a list or a tensor of them; all axes when None); keepdims leaves sizes of 1."""
    return reduction("Sum", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_mean(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The mean over `axis`, in the input's type (of integers: rounded towards zero)."""
    return reduction("Mean", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_prod(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The product over `axis`."""
    return reduction("Prod", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_max(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The largest value over `axis`; of nothing, the type's lowest."""
    return reduction("Max", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_min(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The smallest value over `axis`; of nothing, the type's highest."""
    return reduction("Min", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_all(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether all are true over `axis`, for bool."""
    return reduction("All", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_any(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether any is true over `axis`, for bool."""
    return reduction("Any", input_tensor, axis, keepdims, name, (reduction_indices, keep_dims))


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))) over `axis`, without overflow: the largest x is taken out first."""
    axis, keep = _one_of("axis", axis, reduction_indices), bool(_one_of("keepdims", keepdims, keep_dims))
    with get_default_graph().name_scope(name or "ReduceLogSumExp") as scope:
        x = convert_to_tensor(input_tensor, name="input_tensor")
        top = reduce_max(x, axis, True)
        finite = apply_op("Select", [math.is_finite(top), top, apply_op("ZerosLike", [top])])
        top = apply_op("StopGradient", [finite])
        total = math.log(reduce_sum(math.exp(math.subtract(x, top)), axis, keep))
        out = math.add(total, top if keep else apply_op("Reshape", [top, apply_op("Shape", [total])]), name=scope)
        out.set_shape(total._shape)
        return out


# ---------------------------------------------------------------------- positions and running sums


def _arg_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    if dims is None:
        return [None]
    axis = rules.constant_axis(op, op.inputs[1], len(dims))
    return [(None,) * (len(dims) - 1) if axis is None else dims[:axis] + dims[axis + 1 :]]


for _op_type in ("ArgMax", "ArgMin"):
    op(
        _op_type,
        "input: T, dimension: Tidx -> output: output_type",
        _arg_rule,
        Tidx=dtypes.int32,
        output_type=dtypes.int64,
    )
for _op_type in ("Cumsum", "Cumprod"):
    op(_op_type, "x: T, axis: Tidx -> out: T", rules.same, exclusive=False, reverse=False, Tidx=dtypes.int32)


def _arg(op_type: str, x: Any, axis: Any, dimension: Any, output_type: Any, name: str | None) -> Tensor:
    axis = _one_of("axis", axis, dimension)
    attrs = {"output_type": dtypes.as_dtype(output_type)}
    return apply_op(op_type, [x, 0 if axis is None else axis], attrs, name)


def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """Where the largest value lies along one axis (the first, when None); the lowest position among equals."""
    return _arg("ArgMax", input, axis, dimension, output_type, name)


def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """Where the smallest value lies along one axis (the first, when None); the lowest position among equals."""
    return _arg("ArgMin", input, axis, dimension, output_type, name)


def arg_max(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """As argmax."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """As argmin."""
    return argmin(input, dimension, name, output_type=output_type)


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sums along one axis. exclusive: without the element itself; reverse: from the end."""
    return apply_op("Cumsum", [x, axis], {"exclusive": exclusive, "reverse": reverse}, name)


def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running products along one axis. exclusive: without the element itself; reverse: from the end."""
    return apply_op("Cumprod", [x, axis], {"exclusive": exclusive, "reverse": reverse}, name)


# ---------------------------------------------------------------------- segments


def _unsorted_rule(op: Operation) -> list[Dims]:
    data, ids = op.inputs[0]._shape, op.inputs[1]._shape
    count = constant_value(op.inputs[2])
    if data is None or ids is None:
        return [None]
    shapes.merge(data[: len(ids)], ids)
    return [(None if count is None else int(count), *data[len(ids) :])]


def _sorted_rule(op: Operation) -> list[Dims]:
    data, ids = op.inputs[0]._shape, rules.require_rank(op, "segment_ids", op.inputs[1], 1)
    if data is None:
        return [None]
    shapes.merge(data[:1], ids)
    return [(None, *data[1:])]


op(
    "UnsortedSegmentSum",
    "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
    _unsorted_rule,
    Tnumsegments=dtypes.int32,
)
op("SegmentSum", "data: T, segment_ids: Tindices -> output: T", _sorted_rule)


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """[num_segments, ...]: the sums of data's rows that bear the same id, in any order; negative ids are dropped."""
    return apply_op("UnsortedSegmentSum", [data, segment_ids, num_segments], name=name)


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The sums of data's rows that bear the same id; the ids must not decrease."""
    return apply_op("SegmentSum", [data, segment_ids], name=name)
