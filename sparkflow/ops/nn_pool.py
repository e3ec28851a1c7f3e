"""Pooling: the maximum or the mean of what a window sees, over one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_blocks, array_slice, rules
from sparkflow.ops.nn_window import (
    arranged,
    channel_of,
    image_dims,
    layout,
    layout_of,
    paddings,
    per_axis,
    space_sizes,
)
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.windows import spatial_axes

# ---------------------------------------------------------------------- static shapes


def _pooled(op: Operation, space: int, ksize: Any, strides: Any) -> Dims:
    x = image_dims(op, 0, "input", space)
    axes, _ = spatial_axes(layout_of(op), space + 2)
    sizes = space_sizes(op, x, [ksize[a] for a in axes], strides)
    return arranged(op, x[0], sizes, channel_of(op, x))  # type: ignore[arg-type]


def _pool_rule(space: int) -> Callable[[Operation], list[Dims]]:
    return lambda op: [_pooled(op, space, op.attrs["ksize"], op.attrs["strides"])]


def _pool_v2_rule(op: Operation) -> list[Dims]:
    ksize, strides = (constant_value(t) for t in op.inputs[1:3])
    if ksize is None or strides is None:
        return [(None,) * 4]
    return [_pooled(op, 2, ksize.tolist(), strides.tolist())]


def _argmax_rule(op: Operation) -> list[Dims]:
    return [_pooled(op, 2, op.attrs["ksize"], op.attrs["strides"])] * 2


def _like(index: int, space: int = 2) -> Callable[[Operation], list[Dims]]:
    """The shape of one of the inputs."""
    return lambda op: [shapes.merge(op.inputs[index]._shape, (None,) * (space + 2))]


def _shape_given(op: Operation) -> list[Dims]:
    rank = len(op.attrs["ksize"])
    return [shapes.merge(constant_value_as_shape(op.inputs[0]), (None,) * rank)]


_POOL, _GRAD = "input: T -> output: T", "orig_input: {0}, orig_output: {0}, grad: T -> output: T"
_GRAD_V2 = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"
_FLAT: dict[str, Any] = {"data_format": "NHWC", "T": dtypes.float32}
_DEEP: dict[str, Any] = {"data_format": "NDHWC", "T": dtypes.float32}
op("MaxPool", _POOL, _pool_rule(2), explicit_paddings=[], **_FLAT)
op("MaxPoolV2", "input: T, ksize: int32, strides: int32 -> output: T", _pool_v2_rule, **_FLAT)
op("MaxPoolGrad", _GRAD.format("T"), _like(0), explicit_paddings=[], **_FLAT)
op("MaxPoolGradV2", _GRAD_V2, _like(0), **_FLAT)
op("MaxPoolGradGrad", _GRAD.format("T"), _like(1), **_FLAT)
op("MaxPoolGradGradV2", _GRAD_V2, _like(1), **_FLAT)
op("AvgPool", "value: T -> output: T", _pool_rule(2), **_FLAT)
op("AvgPoolGrad", "orig_input_shape: int32, grad: T -> output: T", _shape_given, **_FLAT)
op("MaxPool3D", _POOL, _pool_rule(3), **_DEEP)
op("MaxPool3DGrad", _GRAD.format("TInput"), _like(0, 3), TInput=dtypes.float32, **_DEEP)
op("MaxPool3DGradGrad", _GRAD.format("T"), _like(1, 3), **_DEEP)
op("AvgPool3D", _POOL, _pool_rule(3), **_DEEP)
op("AvgPool3DGrad", "orig_input_shape: int32, grad: T -> output: T", _shape_given, **_DEEP)
_ARGMAX: dict[str, Any] = {"Targmax": dtypes.int64, "include_batch_in_index": False}
_ARGMAX_GRAD = "input: T, grad: T, argmax: Targmax -> output: T"
op("MaxPoolWithArgmax", "input: T -> output: T, argmax: Targmax", _argmax_rule, **_ARGMAX)
op("MaxPoolGradWithArgmax", _ARGMAX_GRAD, _like(0), **_ARGMAX)
op("MaxPoolGradGradWithArgmax", _ARGMAX_GRAD, _like(2), **_ARGMAX)


def _attrs(what: str, space: int, ksize: Any, strides: Any, padding: Any, data_format: str | None) -> dict[str, Any]:
    kind = layout(what, data_format, space)
    found = {
        "ksize": per_axis(what, "ksize", ksize, space, kind),
        "strides": per_axis(what, "strides", strides, space, kind),
        "data_format": kind,
        **paddings(what, padding, space + 2),
    }
    if "explicit_paddings" in found and what != "max_pool":
        raise ValueError(f"{what}: padding must be SAME or VALID, got {padding!r}")
    return found


# ---------------------------------------------------------------------- over two axes


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest cell of each window, channel by channel. ksize, strides: 1, 2 or 4 numbers.

    Of equal maxima the first gets the gradient.
    """
    with get_default_graph().name_scope(name or "MaxPool") as scope:
        x = input if value is None else value
        return apply_op("MaxPool", [x], _attrs("max_pool", 2, ksize, strides, padding, data_format), scope)


def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NHWC", name: str | None = None
) -> Tensor:
    """As max_pool."""
    return max_pool(input, ksize, strides, padding, data_format, name)


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of each window, channel by channel; cells of padding do not count."""
    with get_default_graph().name_scope(name or "AvgPool") as scope:
        x = input if value is None else value
        return apply_op("AvgPool", [x], _attrs("avg_pool", 2, ksize, strides, padding, data_format), scope)


def max_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """As max_pool, with its argument's later name."""
    return max_pool(input, ksize, strides, padding, data_format or "NHWC", name)


def avg_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """As avg_pool, with its argument's later name."""
    return avg_pool(input, ksize, strides, padding, data_format or "NHWC", name)


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """(max_pool, where each maximum was: its flat index in its image, or in the batch)."""
    if data_format != "NHWC":
        raise ValueError(f"max_pool_with_argmax: data_format must be NHWC, got {data_format!r}")
    attrs = _attrs("max_pool_with_argmax", 2, ksize, strides, padding, data_format)
    del attrs["data_format"]
    kind = next((k for k in (Targmax, output_dtype) if k is not None), dtypes.int64)
    attrs |= {"Targmax": dtypes.as_dtype(kind), "include_batch_in_index": include_batch_in_index}
    return apply_op("MaxPoolWithArgmax", [input], attrs, name)


# ---------------------------------------------------------------------- over one and three axes


def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """max_pool over [batch, width, channels]."""
    return _pool1d("max_pool1d", "MaxPool1d", max_pool, input, ksize, strides, padding, data_format, name)


def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """avg_pool over [batch, width, channels]."""
    return _pool1d("avg_pool1d", "AvgPool1D", avg_pool, input, ksize, strides, padding, data_format, name)


def _pool1d(
    what: str,
    scope: str,
    pool: Callable[..., Tensor],
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str,
    name: str | None,
) -> Tensor:
    with get_default_graph().name_scope(name or scope):
        kind = layout(what, data_format, 1)
        axis, flat = (1, "NHWC") if kind == "NWC" else (2, "NCHW")
        size, step = (max(per_axis(what, n, v, 1, kind)) for n, v in (("ksize", ksize), ("strides", strides)))
        out = pool(array.expand_dims(input, axis), [1, size], [1, step], padding, flat)
        return array.squeeze(out, [axis])


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """max_pool over [batch, depth, height, width, channels]."""
    with get_default_graph().name_scope(name or "MaxPool3D") as scope:
        return apply_op("MaxPool3D", [input], _attrs("max_pool3d", 3, ksize, strides, padding, data_format), scope)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """avg_pool over [batch, depth, height, width, channels]."""
    with get_default_graph().name_scope(name or "AvgPool3D") as scope:
        return apply_op("AvgPool3D", [input], _attrs("avg_pool3d", 3, ksize, strides, padding, data_format), scope)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """max_pool or avg_pool ("MAX", "AVG") over the one to three axes of the input. dilation_rate: the cells of a window
    are so many apart, with strides of 1 and padding VALID.

    Raises ValueError on another rank or pooling_type, and on dilations with other strides or padding.
    """
    x = convert_to_tensor(input, name="input")
    rank = rules.rank_of(x)
    if rank not in (3, 4, 5) or pooling_type not in ("MAX", "AVG"):
        raise ValueError(
            f"pool: input must be of rank 3 to 5 and pooling_type MAX or AVG, got shape {shapes.show(x._shape)} "
            f"and {pooling_type!r}"
        )
    choose: dict[Any, Callable[..., Tensor]] = {
        (3, "MAX"): max_pool1d,
        (4, "MAX"): max_pool,
        (5, "MAX"): max_pool3d,
        (3, "AVG"): avg_pool1d,
        (4, "AVG"): avg_pool,
        (5, "AVG"): avg_pool3d,
    }
    kind = layout("pool", data_format, rank - 2)
    steps, compute = 1 if strides is None else strides, choose[rank, pooling_type]
    spread = _each(dilation_rate if dilations is None else dilations, rank - 2)
    if max(spread) == 1:
        return compute(x, window_shape, steps, padding, kind, name=name)
    if padding != "VALID" or max(_each(strides, rank - 2)) > 1:
        raise ValueError(
            f"pool: dilations above 1 need padding VALID and strides of 1, got padding {padding!r}, strides {strides} "
            f"and dilations {spread}"
        )
    with get_default_graph().name_scope(name or f"{pooling_type.lower()}_pool"):
        return _dilated(lambda parts: compute(parts, window_shape, 1, padding, kind), x, spread, kind)


def _each(numbers: Any, axes: int) -> list[int]:
    """One number for each axis; 1 by default."""
    if numbers is None:
        return [1] * axes
    return [int(n) for n in numbers] if hasattr(numbers, "__iter__") else [int(numbers)] * axes


def _dilated(compute: Callable[[Tensor], Tensor], x: Tensor, spread: list[int], kind: str) -> Tensor:
    """Cells that are `spread` apart are neighbours in one of as many parts of the batch."""
    planar = kind[1] == "C"
    order = [0, *range(2, len(kind)), 1], [0, len(kind) - 1, *range(1, len(kind) - 1)]
    last = array.transpose(x, order[0]) if planar else x
    known = (last._shape or ())[1:-1]
    sizes = array_slice.slice_(array.shape(last), [1], [len(spread)]) if None in known else list(known)
    paddings, crops = array_blocks.required_space_to_batch_paddings(sizes, spread)
    parts = array_blocks.space_to_batch_nd(last, spread, paddings)
    pooled = compute(array.transpose(parts, order[1]) if planar else parts)
    out = array_blocks.batch_to_space_nd(array.transpose(pooled, order[0]) if planar else pooled, spread, crops)
    return array.transpose(out, order[1]) if planar else out
