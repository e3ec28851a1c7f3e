"""Convolutions: plain, transposed, dilated, over one to three axes. Channel by channel: nn_conv_depthwise.py."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, rules
from sparkflow.ops.array_join import unstack
from sparkflow.ops.nn_conv_rows import one_of, window_attrs
from sparkflow.ops.nn_window import layout, per_axis

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
    w = one_of("conv2d", filter=filter, filters=filters)
    return apply_op("Conv2D", [input, w], window_attrs("conv2d", 2, strides, padding, data_format, dilations), name)


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
    w = one_of("conv2d_backprop_input", filter=filter, filters=filters)
    window = window_attrs("conv2d_backprop_input", 2, strides, padding, data_format, dilations)
    return apply_op("Conv2DBackpropInput", [input_sizes, w, out_backprop], window, name)


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
    window = window_attrs("conv2d_backprop_filter", 2, strides, padding, data_format, dilations)
    return apply_op("Conv2DBackpropFilter", [input, filter_sizes, out_backprop], window, name)


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
    x = one_of("conv2d_transpose", value=value, input=input)
    w = one_of("conv2d_transpose", filter=filter, filters=filters)
    window = window_attrs("conv2d_transpose", 2, strides, padding, data_format, dilations)
    return _transposed("conv2d_transpose", "Conv2DBackpropInput", output_shape, w, x, window, name)


def _transposed(
    what: str, op: str, output_shape: Any, w: Any, x: Any, window: dict[str, Any], name: str | None
) -> Tensor:
    """The op that is the gradient of a convolution's input, called forwards."""
    x, w = convert_to_tensor(x, name="value"), convert_to_tensor(w, name="filter")
    with get_default_graph().name_scope(name or what) as scope:
        return apply_op(op, [output_shape, w, x], window, scope)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """conv2d with holes: the cells that the filter sees lie `rate` apart."""
    return conv2d(value, filters, 1, padding, dilations=rate, name=name)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """The transpose of atrous_conv2d."""
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=rate, name=name)


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
    x = convert_to_tensor(one_of("conv1d", value=value, input=input), name="value")
    with get_default_graph().name_scope(name or "conv1d"):
        kind, axis, flat = _flat_layout("conv1d", x, data_format)
        steps, spread = (_last_of(what, v, kind) for what, v in (("stride", stride), ("dilations", dilations)))
        out = conv2d(
            array.expand_dims(x, axis), array.expand_dims(filters, 0), [1, steps], padding, True, flat, [1, spread]
        )
        return array.squeeze(out, [axis])


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
    with get_default_graph().name_scope(name or "conv1d_transpose"):
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
        return array.squeeze(out, [axis])


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
    w = one_of("conv3d", filter=filter, filters=filters)
    return apply_op("Conv3D", [input, w], window_attrs("conv3d", 3, strides, padding, data_format, dilations), name)


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
    window = window_attrs("conv3d_backprop_filter", 3, strides, padding, data_format, dilations)
    return apply_op("Conv3DBackpropFilterV2", [input, filter_sizes, out_backprop], window, name)


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
    x = one_of("conv3d_transpose", value=value, input=input)
    w = one_of("conv3d_transpose", filter=filter, filters=filters)
    window = window_attrs("conv3d_transpose", 3, strides, padding, data_format, dilations)
    return _transposed("conv3d_transpose", "Conv3DBackpropInputV2", output_shape, w, x, window, name)


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
    w = convert_to_tensor(one_of("convolution", filter=filter, filters=filters), name="filter")
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
