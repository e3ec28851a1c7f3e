"""Layers of tf.contrib.layers that few scripts use: pools of any kind, keypoints, sequences of images, old names."""

from __future__ import annotations

from functools import partial
from typing import Any

from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.contrib.framework import model_variable
from sparkflow.contrib.layers.initializers import xavier_initializer
from sparkflow.contrib.layers.utils import collect_named_outputs, n_positive_integers
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.grads.custom import custom_gradient
from sparkflow.ops import (
    array,
    array_join,
    array_select,
    array_slice,
    init_ops,
    math,
    math_reduce,
    nn,
    nn_pool,
)
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow_runtime.wire.dtypes import float32, int64


@add_arg_scope
def pool(
    inputs: Any, kernel_size: Any, pooling_type: str, padding: str = "VALID", data_format: str | None = None,
    dilation_rate: Any = 1, stride: Any = 1, outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """tf.nn.pool over one to three axes. pooling_type: "AVG" or "MAX". Raises ValueError on a rank below 3."""
    with get_default_graph().name_scope(scope or f"{pooling_type.lower()}_pool") as opened:
        x = convert_to_tensor(inputs)
        if x._shape is None or len(x._shape) < 3:
            raise ValueError(f"pool: the rank of the inputs must be known and at least 3, got {x}")
        window, apart, stride = (
            n_positive_integers(len(x._shape) - 2, v) for v in (kernel_size, dilation_rate, stride)
        )
        out = nn_pool.pool(x, window, pooling_type, padding, apart, stride, data_format=data_format, name=opened)
        return collect_named_outputs(outputs_collections, opened, out)


@add_arg_scope
def dense_to_sparse(tensor: Any, eos_token: int = 0, outputs_collections: Any = None, scope: Any = None) -> Any:
    """The elements that are not eos_token as a SparseTensor, as ctc_loss wants its labels."""
    with variable_scope(scope, "dense_to_sparse") as opened:
        x = convert_to_tensor(tensor)
        indices = array_select.where(math.not_equal(x, eos_token))
        sparse = SparseTensor(indices, array_slice.gather_nd(x, indices), array.shape(x, out_type=int64))
        return collect_named_outputs(outputs_collections, opened.name, sparse) if outputs_collections else sparse


@add_arg_scope
def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None
) -> Tensor:
    """[images, height, width, depth] -> [width, images * height, depth]. Raises ValueError on another data_format."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format has to be either NCHW or NHWC., got {data_format!r}")
    with get_default_graph().name_scope(scope or "ImagesToSequence") as opened:
        x = convert_to_tensor(inputs)
        x = array.transpose(x, [0, 2, 3, 1]) if data_format == "NCHW" else x
        _, _, width, depth = x.shape.as_list()
        sizes = array.shape(x)
        rows = array.transpose(x, [2, 0, 1, 3])
        out = array.reshape(rows, [-1 if width is None else width, sizes[0] * sizes[1], depth])
        out.set_shape([width, None, depth])
        return collect_named_outputs(outputs_collections, opened, out)


@add_arg_scope
def sequence_to_images(
    inputs: Any, height: int, output_data_format: str = "channels_last", outputs_collections: Any = None,
    scope: Any = None,
) -> Tensor:  # fmt: skip
    """[width, images * height, depth] -> [images, height, width, depth], or [images, depth, height, width] where
    output_data_format is channels_first."""
    with get_default_graph().name_scope(scope or "SequenceToImages") as opened:
        x = convert_to_tensor(inputs)
        width, rows, depth = x.shape.as_list()
        cut = array.reshape(x, [width, -1 if rows is None else rows // height, height, depth])
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        return collect_named_outputs(outputs_collections, opened, array.transpose(cut, order))


@add_arg_scope
def spatial_softmax(
    features: Any, temperature: float | None = None, name: str | None = None, variables_collections: Any = None,
    trainable: bool = True, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """[batch, 2 * channels]: x1, y1, x2, ...: where each channel is largest, from -1 to 1 down and across, as the mean
    of the places by the softmax of the channel. Source: Finn et al. 2016.

    temperature: of the softmax; it begins with it, or with 1, and is learned as <name>/temperature where trainable.
    Raises ValueError on an unknown number of channels or another data_format.
    """
    with variable_scope(name, "spatial_softmax"):
        if data_format not in ("NHWC", "NCHW"):
            raise ValueError(f"data_format has to be either NCHW or NHWC., got {data_format!r}")
        x = convert_to_tensor(features)
        x = array.transpose(x, [0, 3, 1, 2]) if data_format == "NHWC" else x
        channels = x.shape.as_list()[1]
        if channels is None:
            raise ValueError("The num_channels dimension of the inputs to `spatial_softmax` should be defined.")
        sizes = array.shape(x)
        height, width = sizes[2], sizes[3]
        down, across = array_join.meshgrid(
            math.linspace(-1.0, 1.0, height), math.linspace(-1.0, 1.0, width), indexing="ij"
        )
        first = init_ops.ones_initializer() if temperature is None else init_ops.constant_initializer(temperature)
        kept = variables_collections.get("temperature") if isinstance(variables_collections, dict) else None
        kept = kept or (None if isinstance(variables_collections, dict) else variables_collections)
        heat = model_variable(
            "temperature", (), float32, first, collections=[GraphKeys.GLOBAL_VARIABLES, *(kept or [])],
            trainable=trainable,
        )  # fmt: skip
        weight = nn.softmax(math.divide(array.reshape(x, [-1, height * width]), heat))
        places = [
            math_reduce.reduce_sum(math.multiply(array.reshape(place, [-1]), weight), [1], keepdims=True)
            for place in (down, across)
        ]
        out = array.reshape(array_join.concat(places, 1), [-1, channels * 2])
        out.set_shape([None, channels * 2])
        return out


def scale_gradient(inputs: Any, gradient_multiplier: Any) -> Tensor:
    """The inputs, whose gradient is the output's times gradient_multiplier, which must broadcast to their shape."""

    def scaled(x: Tensor, factor: Tensor) -> Any:
        return array.identity(x), lambda dy: (math.multiply(dy, factor), None)

    return custom_gradient(scaled)(inputs, gradient_multiplier)


def poincare_normalize(x: Any, axis: Any = 1, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """x, drawn to a length of 1 - epsilon along `axis` where it is longer. Source: Nickel and Kiela 2017."""
    with get_default_graph().name_scope(name or "poincare_normalize") as opened:
        x = convert_to_tensor(x)
        inverse = math.rsqrt(math_reduce.reduce_sum(math.square(x), axis, True))
        return math.multiply(x, math.minimum((1.0 - epsilon) * inverse, 1.0), name=opened)


def legacy_fully_connected(
    x: Any, num_output_units: int, activation_fn: Any = None, weight_init: Any = None,
    bias_init: Any = init_ops.zeros_initializer(), name: str | None = None,  # noqa: B008 (it holds no state)
    weight_collections: Any = (GraphKeys.WEIGHTS,), bias_collections: Any = (GraphKeys.BIASES,),
    output_collections: Any = (GraphKeys.ACTIVATIONS,), trainable: bool = True, weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Tensor:  # fmt: skip
    """fully_connected as it first was: <name>/weights (Xavier's) and <name>/bias, the output in ACTIVATIONS.

    Raises ValueError where the rank is not known or below 2, or the last size is not known.
    """
    graph = get_default_graph()
    with variable_scope(name, "fully_connected"):
        x = convert_to_tensor(x)
        dims = x._shape
        if dims is None:
            raise ValueError("dims of x must be known but is None")
        if len(dims) < 2:
            raise ValueError(f"rank of x must be at least 2 not: {len(dims)}")
        if dims[-1] is None:
            raise ValueError("last dimension of x must be known but is None")
        kind, everywhere = x.dtype.base_dtype, [GraphKeys.GLOBAL_VARIABLES]
        weights = get_variable(
            "weights", [dims[-1], num_output_units], kind, weight_init or xavier_initializer(), weight_regularizer,
            trainable, sorted({*(weight_collections or ()), *everywhere}),
        )  # fmt: skip
        out = math.matmul(x if len(dims) == 2 else array.reshape(x, [-1, dims[-1]]), weights)
        if bias_init is not None:
            bias = get_variable(
                "bias", [num_output_units], kind, bias_init, bias_regularizer, trainable,
                sorted({*(bias_collections or ()), *everywhere}),
            )  # fmt: skip
            out = nn.bias_add(out, bias)
        if len(dims) > 2:
            out = array.reshape(out, array_join.concat([array.shape(x)[:-1], [num_output_units]], 0))
            out.set_shape([*dims[:-1], num_output_units])
        out = out if activation_fn is None else activation_fn(out)
        for key in output_collections or ():
            graph.add_to_collection(key, out)
        return out


legacy_linear = partial(legacy_fully_connected, activation_fn=None)
legacy_relu = partial(legacy_fully_connected, activation_fn=nn.relu)
