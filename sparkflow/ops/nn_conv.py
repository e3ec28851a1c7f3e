"""Convolutions: plain, transposed, dilated, depthwise, separable, over one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, rules
from sparkflow.ops.array_join import unstack
from sparkflow.ops.nn_window import arranged, channel_of, image_dims, layout, paddings, per_axis, space_sizes
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- static shapes


def _channels_fit(op: Operation, channels: int | None, taken: int | None, filter_dims: Dims) -> None:
    """A filter that takes a part of the channels is one of groups."""
    if channels is None or taken is None:
        return
    grouped = op.type == "Conv2D" and taken > 0 and channels % taken == 0
    if channels != taken and not grouped:
        raise InvalidArgumentError(
            f"{op.type}: input {shapes.show(op.inputs[0]._shape)} has {channels} channels, filter "
            f"{shapes.show(filter_dims)} takes {taken} ({op.attrs['data_format']})"
        )


def _conv_rule(space: int, depthwise: bool = False) -> Callable[[Operation], list[Dims]]:
    def rule(op: Operation) -> list[Dims]:
        x, w = image_dims(op, 0, "input", space), image_dims(op, 1, "filter", space)
        _channels_fit(op, channel_of(op, x), w[-2], w)
        made = w[-1]
        if depthwise:
            made = None if w[-1] is None or w[-2] is None else w[-1] * w[-2]
        return [arranged(op, x[0], space_sizes(op, x, w[:space]), made)]  # type: ignore[arg-type]

    return rule


def _input_rule(space: int) -> Callable[[Operation], list[Dims]]:
    def rule(op: Operation) -> list[Dims]:
        dims = constant_value_as_shape(op.inputs[0])
        w, dy = image_dims(op, 1, "filter", space), image_dims(op, 2, "out_backprop", space)
        if dims is not None and len(dims) == space:
            dims = arranged(op, dy[0], dims, w[-2])
        dims = shapes.merge(dims, (None,) * (space + 2))
        assert dims is not None
        return [(dy[0] if dims[0] is None else dims[0], *dims[1:])]

    return rule


def _filter_rule(op: Operation) -> list[Dims]:
    return [shapes.merge(constant_value_as_shape(op.inputs[1]), (None,) * len(op.attrs["strides"]))]


_INPUT = "input_sizes: {}, filter: T, out_backprop: T -> output: T"
_FILTER = "input: T, filter_sizes: int32, out_backprop: T -> output: T"
_CONV = "input: T, filter: T -> output: T"
_FLAT: dict[str, Any] = {"explicit_paddings": [], "data_format": "NHWC", "dilations": [1, 1, 1, 1]}
_DEEP: dict[str, Any] = {"data_format": "NDHWC", "dilations": [1, 1, 1, 1, 1]}
op("Conv2D", _CONV, _conv_rule(2), use_cudnn_on_gpu=True, **_FLAT)
op("Conv2DBackpropInput", _INPUT.format("int32"), _input_rule(2), use_cudnn_on_gpu=True, **_FLAT)
op("Conv2DBackpropFilter", _FILTER, _filter_rule, use_cudnn_on_gpu=True, **_FLAT)
op("DepthwiseConv2dNative", _CONV, _conv_rule(2, depthwise=True), **_FLAT)
op("DepthwiseConv2dNativeBackpropInput", _INPUT.format("int32"), _input_rule(2), **_FLAT)
op("DepthwiseConv2dNativeBackpropFilter", _FILTER, _filter_rule, **_FLAT)
op("Conv3D", _CONV, _conv_rule(3), **_DEEP)
op("Conv3DBackpropInputV2", _INPUT.format("Tshape"), _input_rule(3), Tshape=dtypes.int32, **_DEEP)
op("Conv3DBackpropFilterV2", _FILTER, _filter_rule, **_DEEP)


def _attrs(
    what: str, space: int, strides: Any, padding: Any, data_format: str | None, dilations: Any
) -> dict[str, Any]:
    kind = layout(what, data_format, space)
    found = {
        "strides": per_axis(what, "strides", strides, space, kind),
        "dilations": per_axis(what, "dilations", dilations, space, kind),
        "data_format": kind,
        **paddings(what, padding, space + 2),
    }
    if space == 3 and "explicit_paddings" in found:
        raise ValueError(f"{what}: padding must be SAME or VALID, got {padding!r}")
    return found


def _one_of(what: str, **values: Any) -> Any:
    """TF1's and TF2's names of one argument: whichever is given."""
    given = [v for v in values.values() if v is not None]
    if len(given) != 1:
        raise ValueError(f"{what}: give one of {' and '.join(values)}")
    return given[0]


# ---------------------------------------------------------------------- over two axes


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Slide filters [height, width, in, out] over images [batch, height, width, in] (or as data_format says).

    strides, dilations: a number, two, or four with 1 for batch and channels. padding: SAME, VALID, or (before, after)
    for each of the four axes. Raises InvalidArgumentError where channels differ or the window does not fit.
    """
    w = _one_of("conv2d", filter=filter, filters=filters)
    return apply_op("Conv2D", [input, w], _attrs("conv2d", 2, strides, padding, data_format, dilations), name)


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of conv2d's input, of shape input_sizes, for the gradient of its output."""
    w = _one_of("conv2d_backprop_input", filter=filter, filters=filters)
    attrs = _attrs("conv2d_backprop_input", 2, strides, padding, data_format, dilations)
    return apply_op("Conv2DBackpropInput", [input_sizes, w, out_backprop], attrs, name)


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of conv2d's filter, of shape filter_sizes, for the gradient of its output."""
    attrs = _attrs("conv2d_backprop_filter", 2, strides, padding, data_format, dilations)
    return apply_op("Conv2DBackpropFilter", [input, filter_sizes, out_backprop], attrs, name)


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The transpose of conv2d: images of output_shape, whose conv2d by the filter [height, width, out, in] has value's
    shape."""
    x = convert_to_tensor(_one_of("conv2d_transpose", value=value, input=input), name="value")
    w = convert_to_tensor(_one_of("conv2d_transpose", filter=filter, filters=filters), name="filter")
    attrs = _attrs("conv2d_transpose", 2, strides, padding, data_format, dilations)
    with get_default_graph().name_scope(name or "conv2d_transpose") as scope:
        return apply_op("Conv2DBackpropInput", [output_shape, w, x], attrs, scope)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """conv2d with holes: the cells that the filter sees lie `rate` apart."""
    return conv2d(value, filters, 1, padding, dilations=rate, name=name)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """The transpose of atrous_conv2d."""
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=rate, name=name)


# ---------------------------------------------------------------------- channel by channel


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Each channel by filters of its own [height, width, channels, multiplier]; outputs of a channel lie together."""
    attrs = _attrs("depthwise_conv2d_native", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNative", [input, filter], attrs, name)


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """As depthwise_conv2d_native; rate is TF1's name of dilations."""
    with get_default_graph().name_scope(name or "depthwise") as scope:
        spread = rate if dilations is None else dilations
        return depthwise_conv2d_native(input, filter, strides, padding, data_format, spread, scope)


def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of depthwise_conv2d_native's input."""
    attrs = _attrs("depthwise_conv2d_native_backprop_input", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNativeBackpropInput", [input_sizes, filter, out_backprop], attrs, name)


def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of depthwise_conv2d_native's filter."""
    attrs = _attrs("depthwise_conv2d_native_backprop_filter", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNativeBackpropFilter", [input, filter_sizes, out_backprop], attrs, name)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """depthwise_conv2d, then conv2d by pointwise_filter [1, 1, channels * multiplier, out]."""
    with get_default_graph().name_scope(name or "separable_conv2d") as scope:
        spread = rate if dilations is None else dilations
        deep = depthwise_conv2d_native(input, depthwise_filter, strides, padding, data_format, spread, name="depthwise")
        return conv2d(deep, pointwise_filter, 1, "VALID", data_format=data_format, name=scope)


# ---------------------------------------------------------------------- over one and three axes


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Slide filters [width, in, out] over [batch, width, in] ("NWC") or [batch, in, width] ("NCW"): a conv2d of height
    1."""
    x = convert_to_tensor(_one_of("conv1d", value=value, input=input), name="value")
    with get_default_graph().name_scope(name or "conv1d") as scope:
        kind, axis, flat = _flat_layout("conv1d", x, data_format)
        steps, spread = (_last_of(what, v, kind) for what, v in (("stride", stride), ("dilations", dilations)))
        out = conv2d(
            array.expand_dims(x, axis), array.expand_dims(filters, 0), [1, steps], padding, True, flat, [1, spread]
        )
        return array.squeeze(out, [axis], name=scope)


def _flat_layout(what: str, x: Tensor, data_format: str | None) -> tuple[str, int, str]:
    """(the layout, where height goes, the layout with it)."""
    kind = layout(what, {"NHWC": "NWC", "NCHW": "NCW"}.get(data_format or "", data_format), 1)
    if x._shape is not None and len(x._shape) != 3:
        raise ValueError(f"{what}: value must have a batch, a width and channels, got shape {shapes.show(x._shape)}")
    return (kind, 1, "NHWC") if kind == "NWC" else (kind, 2, "NCHW")


def _last_of(name: str, values: Any, kind: str) -> int:
    listed = per_axis("conv1d", name, values, 1, kind)
    return listed[1 if kind == "NWC" else 2]


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv1d, by filters [width, out, in]."""
    x = convert_to_tensor(input, name="input")
    with get_default_graph().name_scope(name or "conv1d_transpose") as scope:
        kind, axis, flat = _flat_layout("conv1d_transpose", x, data_format)
        steps, spread = (_last_of(what, v, kind) for what, v in (("strides", strides), ("dilations", dilations)))
        sizes = _three(output_shape)
        out = conv2d_transpose(
            array.expand_dims(x, axis),
            array.expand_dims(filters, 0),
            [*sizes[:axis], 1, *sizes[axis:]],
            [1, steps],
            padding,
            flat,
            dilations=[1, spread],
        )
        return array.squeeze(out, [axis], name=scope)


def _three(sizes: Any) -> list[Any]:
    return list(sizes) if isinstance(sizes, (list, tuple)) else unstack(sizes, 3)


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Slide filters [depth, height, width, in, out] over volumes [batch, depth, height, width, in]."""
    w = _one_of("conv3d", filter=filter, filters=filters)
    return apply_op("Conv3D", [input, w], _attrs("conv3d", 3, strides, padding, data_format, dilations), name)


def conv3d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of conv3d's filter."""
    attrs = _attrs("conv3d_backprop_filter", 3, strides, padding, data_format, dilations)
    return apply_op("Conv3DBackpropFilterV2", [input, filter_sizes, out_backprop], attrs, name)


def conv3d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str | None = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The transpose of conv3d, by filters [depth, height, width, out, in]."""
    x = convert_to_tensor(_one_of("conv3d_transpose", value=value, input=input), name="value")
    w = convert_to_tensor(_one_of("conv3d_transpose", filter=filter, filters=filters), name="filter")
    attrs = _attrs("conv3d_transpose", 3, strides, padding, data_format, dilations)
    with get_default_graph().name_scope(name or "conv3d_transpose") as scope:
        return apply_op("Conv3DBackpropInputV2", [output_shape, w, x], attrs, scope)


def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """conv1d, conv2d or conv3d, by the rank of the input."""
    x = convert_to_tensor(input, name="input")
    w = convert_to_tensor(_one_of("convolution", filter=filter, filters=filters), name="filter")
    rank = rules.rank_of(x) or rules.rank_of(w)
    spread = dilation_rate if dilations is None else dilations
    with get_default_graph().name_scope(name or "convolution") as scope:
        match rank:
            case 3:
                return conv1d(x, w, strides, padding, None, data_format, scope, None, spread)
            case 4:
                return conv2d(x, w, strides, padding, True, data_format, spread, scope)
            case 5:
                return conv3d(x, w, strides, padding, data_format, spread, scope)
    raise ValueError(f"convolution: input must have one to three axes beside batch and channels, got {x}")
