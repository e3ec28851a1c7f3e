"""Normalization over groups of channels, convolutions of single channels, pools of volumes, maxout, summaries."""

from __future__ import annotations

from typing import Any

from sparkflow import layers as core
from sparkflow import summary
from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.contrib.layers.initializers import xavier_initializer
from sparkflow.contrib.layers.layers import _FORMATS, _ZEROS, _finished, _scope
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, init_ops, math_reduce, nn, nn_conv_depthwise
from sparkflow.ops.candidates import zero_fraction
from sparkflow.ops.variable_scope import get_variable


@add_arg_scope
def instance_norm(
    inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None,
    param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, data_format: str = "NHWC", scope: Any = None,
) -> Tensor:  # fmt: skip
    """(x - mean) / std * gamma + beta, of each channel of each example by itself. Source: Ulyanov et al. 2016."""
    with _scope(scope, "InstanceNorm", reuse, variables_collections) as opened:
        x = convert_to_tensor(inputs)
        rank, channel = _axes("instance_norm", x, data_format)
        axes = [i for i in range(1, rank) if i != channel]
        mean, variance = nn.moments(x, axes, keep_dims=True)
        beta, gamma = _affine(x, channel, center, scale, param_initializers or {}, trainable)
        out = nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
        return _finished(out, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def group_norm(
    inputs: Any, groups: int = 32, channels_axis: int = -1, reduction_axes: Any = (-3, -2), center: bool = True,
    scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None, param_initializers: Any = None,
    reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    scope: Any = None, mean_close_to_zero: bool = False,
) -> Tensor:  # fmt: skip
    """As instance_norm, of groups of channels. Source: Wu and He 2018. Raises ValueError where groups do not divide
    the channels."""
    with _scope(scope, "GroupNorm", reuse, variables_collections) as opened:
        x = convert_to_tensor(inputs)
        dims = x._shape
        if dims is None:
            raise ValueError(f"Inputs {x.name} has undefined rank.")
        rank, channel = len(dims), channels_axis % len(dims)
        if not all(-rank <= a < rank for a in (channels_axis, *reduction_axes)):
            raise ValueError(f"Axis is out of bounds. Of inputs {x.name}: {channels_axis}, {reduction_axes}")
        if channel in {a % rank for a in reduction_axes}:
            raise ValueError(f"reduction_axes {reduction_axes} must be mutually exclusive with channels_axis {channel}")
        channels = dims[channel]
        if channels is None:
            raise ValueError(f"Inputs {x.name} has undefined channel dimension: {x.shape}.")
        if groups > channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if channels % groups:
            raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
        sizes = array.shape(x)
        known = [sizes[i] if d is None else d for i, d in enumerate(dims)]
        cut = [*known[:channel], groups, channels // groups, *known[channel + 1 :]]
        over = sorted({a % rank + (a % rank > channel) for a in reduction_axes} | {channel + 1})
        mean, variance = nn.moments(array.reshape(x, cut), over, keep_dims=True)
        beta, gamma = _affine(x, channel, center, scale, param_initializers or {}, trainable)
        wide = [1] * channel + [groups, channels // groups] + [1] * (rank - channel - 1)
        beta, gamma = (None if v is None else array.reshape(v, wide) for v in (beta, gamma))
        out = nn.batch_normalization(array.reshape(x, cut), mean, variance, beta, gamma, epsilon)
        out = array.reshape(out, sizes if None in dims else known)
        out.set_shape(dims)
        return _finished(out, None, None, activation_fn, outputs_collections, opened.name)


def _axes(what: str, x: Tensor, data_format: str) -> tuple[int, int]:
    if x._shape is None:
        raise ValueError(f"{what}: Inputs {x.name} has undefined rank.")
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    channel = len(x._shape) - 1 if data_format == "NHWC" else 1
    if x._shape[channel] is None:
        raise ValueError(f"{what}: Inputs {x.name} has undefined channels dimension {x.shape}.")
    return len(x._shape), channel


def _affine(x: Tensor, channel: int, center: bool, scale: bool, first: Any, trainable: bool) -> tuple[Any, Any]:
    """(beta, gamma), each [channels], or laid along the axis of the channels where that is not the last."""
    assert x._shape is not None  # checked by the callers
    size, kind = x._shape[channel], x.dtype.base_dtype
    wanted = (("beta", center, _ZEROS), ("gamma", scale, init_ops.ones_initializer()))
    made = []
    for name, there, default in wanted:
        one = None
        if there:
            one = get_variable(name, [size], kind, initializer=first.get(name, default), trainable=trainable)
            if channel != len(x._shape) - 1:
                one = array.reshape(one, [size] + [1] * (len(x._shape) - 1 - channel))
        made.append(one)
    return made[0], made[1]


@add_arg_scope
def conv2d_in_plane(
    inputs: Any, kernel_size: Any, stride: Any = 1, padding: str = "SAME", activation_fn: Any = nn.relu,
    normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = None,
    weights_regularizer: Any = None, biases_initializer: Any = _ZEROS, biases_regularizer: Any = None,
    reuse: Any = None, variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    scope: Any = None,
) -> Tensor:  # fmt: skip
    """The same two-dimensional convolution of every channel alone."""
    with _scope(scope, "ConvInPlane", reuse, variables_collections) as opened:
        x = convert_to_tensor(inputs)
        channels = x._shape[-1] if x._shape else None
        height, width = _pair(kernel_size)
        weights = get_variable(
            "weights", [height, width, 1, 1], initializer=weights_initializer or xavier_initializer(),
            regularizer=weights_regularizer, trainable=trainable,
        )  # fmt: skip
        kernel = array.tile(weights, [1, 1, channels, 1])
        rows, columns = _pair(stride)
        out = nn_conv_depthwise.depthwise_conv2d(x, kernel, [1, rows, columns, 1], padding)
        if not normalizer_fn and biases_initializer is not None:
            bias = get_variable(
                "biases", [channels], initializer=biases_initializer, regularizer=biases_regularizer,
                trainable=trainable,
            )  # fmt: skip
            out = nn.bias_add(out, bias)
        return _finished(out, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


def _pair(value: Any) -> tuple[int, int]:
    return (value[0], value[1]) if isinstance(value, (list, tuple)) else (value, value)


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """The largest of each group of channels, num_units groups. Source: Goodfellow et al. 2013."""
    with get_default_graph().name_scope(scope or "MaxOut"):
        x = convert_to_tensor(inputs)
        dims = x._shape or ()
        features = dims[axis] if dims else None
        if features is None or features % num_units:
            raise ValueError(f"number of features {features} is not a multiple of num_units({num_units})")
        along, sizes = axis % len(dims), array.shape(x)
        known = [sizes[i] if d is None else d for i, d in enumerate(dims)]
        cut = [*known[:along], num_units, features // num_units, *known[along + 1 :]]
        return math_reduce.reduce_max(array.reshape(x, cut), along + 1)


def summarize_tensor(tensor: Tensor, tag: str | None = None) -> Tensor:
    """A scalar summary of a scalar, a histogram of anything else."""
    name = tag or tensor.op.name
    return summary.scalar(name, tensor) if tensor._shape == () else summary.histogram(name, tensor)


def summarize_activation(op: Tensor) -> Tensor:
    """The histogram of a tensor (op.op.name/activation), and of a ReLU how much of it is zero."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        summary.scalar(f"{op.op.name}/zeros", zero_fraction(op))
    return summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(tensors: Any, summarizer: Any = summarize_tensor) -> list[Tensor]:
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(collection: str, name_filter: str | None = None, summarizer: Any = summarize_tensor) -> Any:
    return summarize_tensors(get_default_graph().get_collection(collection, name_filter), summarizer)


def summarize_activations(name_filter: str | None = None, summarizer: Any = summarize_activation) -> Any:
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)
