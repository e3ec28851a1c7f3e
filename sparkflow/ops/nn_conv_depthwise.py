"""Convolutions channel by channel: depthwise, and separable ones, which mix the channels afterwards."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops.nn_conv import conv2d
from sparkflow.ops.nn_conv_rows import window_attrs


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
    window = window_attrs("depthwise_conv2d_native", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNative", [input, filter], window, name)


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
    window = window_attrs("depthwise_conv2d_native_backprop_input", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNativeBackpropInput", [input_sizes, filter, out_backprop], window, name)


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
    window = window_attrs("depthwise_conv2d_native_backprop_filter", 2, strides, padding, data_format, dilations)
    return apply_op("DepthwiseConv2dNativeBackpropFilter", [input, filter_sizes, out_backprop], window, name)


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
        pointwise_filter = convert_to_tensor(pointwise_filter, name="pointwise_filter")
        if not shapes.compatible(pointwise_filter._shape, (1, 1, None, None)):
            raise ValueError(
                "separable_conv2d: pointwise_filter must be of shape [1, 1, channels, out], got "
                f"{shapes.show(pointwise_filter._shape)}"
            )
        deep = depthwise_conv2d_native(input, depthwise_filter, strides, padding, data_format, spread, name="depthwise")
        return conv2d(deep, pointwise_filter, 1, "VALID", data_format=data_format, name=scope)
