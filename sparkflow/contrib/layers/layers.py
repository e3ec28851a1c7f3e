"""The layers of tf.contrib.layers: of tf.layers, with a normalizer and an activation behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sparkflow import layers as core
from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.contrib.layers import utils
from sparkflow.contrib.layers.initializers import xavier_initializer
from sparkflow.contrib.layers.utils import collect_named_outputs
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import (
    array,
    array_select,
    embedding,
    init_ops,
    math,
    math_reduce,
    nn,
    nn_conv_depthwise,
    nn_pool,
    nn_window,
)
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow.ops.variables import global_variables
from sparkflow_runtime.wire.dtypes import float16

_NEW_NAMES = {"kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights",
              "pointwise_kernel": "pointwise_weights"}  # fmt: skip
_FORMATS = {None: "channels_last", "NHWC": "channels_last", "NCHW": "channels_first", "NWC": "channels_last",
            "NCW": "channels_first", "NDHWC": "channels_last", "NCDHW": "channels_first"}  # fmt: skip
_ZEROS = init_ops.zeros_initializer()


def _renamed(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    scope, _, last = name.rpartition("/")
    return getter(f"{scope}/{_NEW_NAMES.get(last, last)}", *args, **kwargs)


@contextmanager
def _scope(scope: Any, default: str, reuse: Any, collections: Any = None) -> Iterator[Any]:
    """The layer's scope; variables made in it join the model's and the collections that are named for them."""
    before = set(global_variables())
    with variable_scope(scope, default, reuse=reuse, custom_getter=_renamed) as opened:
        yield opened
    made = [v for v in global_variables() if v not in before]
    for variable in made:
        last = variable.op.name.rpartition("/")[2]
        own = (collections.get(last) if isinstance(collections, dict) else collections) or []
        own = [own] if isinstance(own, str) else own
        for key in (GraphKeys.MODEL_VARIABLES, *own):
            collected = get_default_graph().get_collection_ref(key)
            if not any(each is variable for each in collected):  # as one that is trained, in TRAINABLE_VARIABLES
                collected.append(variable)


def _finished(out: Tensor, normalizer: Any, params: Any, activation: Any, collections: Any, name: str) -> Tensor:
    if normalizer is not None:
        out = normalizer(out, **(params or {}))
    out = activation(out) if activation is not None else out
    return collect_named_outputs(collections, name, out)


@add_arg_scope
def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = None, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """activation_fn(inputs @ weights + biases) over the last axis; with a normalizer_fn there are no biases.

    Makes <scope>/weights (Xavier's) and <scope>/biases (zeros); biases_initializer None leaves them out.
    """
    with _scope(scope, "fully_connected", reuse, variables_collections) as opened:
        layer = core.Dense(
            num_outputs, use_bias=not normalizer_fn and biases_initializer is not None, name=opened.name,
            kernel_initializer=weights_initializer or xavier_initializer(), kernel_regularizer=weights_regularizer,
            bias_initializer=biases_initializer, bias_regularizer=biases_regularizer, trainable=trainable,
            _scope=opened, _reuse=reuse,
        )  # fmt: skip
        out = layer(inputs)
        return _finished(out, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


# fully_connected with another function behind; `stack` and `repeat` name their scopes fully_connected_1, ...
elu, relu, relu6, linear = (partial(fully_connected, activation_fn=f) for f in (nn.elu, nn.relu, nn.relu6, None))


def _layout(data_format: str | None) -> str:
    """As tf.layers says it. Raises ValueError on an unknown one."""
    if data_format not in _FORMATS:
        raise ValueError(f"data_format has to be either NCHW or NHWC, NCW or NWC, NCDHW or NDHWC, got {data_format!r}")
    return _FORMATS[data_format]


def _of_rank(inputs: Any, wanted: int | None) -> Tensor:
    """inputs, of `wanted` axes or of any number that a convolution takes. Raises ValueError otherwise."""
    inputs = convert_to_tensor(inputs)
    rank = None if inputs._shape is None else len(inputs._shape)
    if rank not in ((3, 4, 5) if wanted is None else (None, wanted)):
        what = "rank 3, 4 or 5" if wanted is None else f"rank {wanted}"
        raise ValueError(f"Convolution expects input with {what}, got {rank}")
    return inputs


def _convolution(default: str, kind: Any, rank: int | None = None) -> Any:
    """kind: the class of tf.layers, or None: that of the rank of the inputs."""

    def convolve(
        inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
        data_format: str | None = None, rate: Any = 1, activation_fn: Any = nn.relu, normalizer_fn: Any = None,
        normalizer_params: Any = None, weights_initializer: Any = None, weights_regularizer: Any = None,
        biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
        variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
    ) -> Tensor:  # fmt: skip
        with _scope(scope, default, reuse, variables_collections) as opened:
            inputs = _of_rank(inputs, rank)
            made = kind or (core.Conv1D, core.Conv2D, core.Conv3D)[len(inputs._shape) - 3]
            dilation = {} if made in (core.Conv2DTranspose, core.Conv3DTranspose) else {"dilation_rate": rate}
            layer = made(
                num_outputs, kernel_size, strides=stride, padding=padding.lower(), data_format=_layout(data_format),
                use_bias=not normalizer_fn and biases_initializer is not None, name=opened.name, trainable=trainable,
                kernel_initializer=weights_initializer or xavier_initializer(), kernel_regularizer=weights_regularizer,
                bias_initializer=biases_initializer, bias_regularizer=biases_regularizer, _scope=opened, _reuse=reuse,
                **dilation,
            )  # fmt: skip
            out = layer(inputs)
            return _finished(out, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)

    convolve.__name__ = convolve.__qualname__ = default
    convolve.__doc__ = "activation_fn(convolution + biases); with a normalizer_fn there are no biases."
    return add_arg_scope(convolve)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


convolution = _named(_convolution("Conv", None), "convolution")
conv1d = _named(_convolution("Conv", core.Conv1D, 3), "convolution1d")
conv2d = _named(_convolution("Conv", core.Conv2D, 4), "convolution2d")
conv3d = _named(_convolution("Conv", core.Conv3D, 5), "convolution3d")
conv2d_transpose = _named(_convolution("Conv2d_transpose", core.Conv2DTranspose, 4), "convolution2d_transpose")
conv3d_transpose = _named(_convolution("Conv3d_transpose", core.Conv3DTranspose, 5), "convolution3d_transpose")


@add_arg_scope
def separable_conv2d(
    inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None, rate: Any = 1, activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = None, pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution of each channel alone, then one across channels of size 1; num_outputs None: the first alone."""
    first = weights_initializer or xavier_initializer()
    if num_outputs is None:
        return _depthwise(
            inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate, activation_fn, normalizer_fn,
            normalizer_params, first, weights_regularizer, biases_initializer, biases_regularizer, reuse,
            variables_collections, outputs_collections, trainable, scope,
        )  # fmt: skip
    with _scope(scope, "SeparableConv2d", reuse, variables_collections) as opened:
        layer = core.SeparableConv2D(
            num_outputs, kernel_size, strides=stride, padding=padding.lower(), data_format=_layout(data_format),
            dilation_rate=rate, depth_multiplier=depth_multiplier, depthwise_initializer=first,
            pointwise_initializer=pointwise_initializer or first, depthwise_regularizer=weights_regularizer,
            pointwise_regularizer=weights_regularizer, bias_initializer=biases_initializer,
            bias_regularizer=biases_regularizer, use_bias=not normalizer_fn and biases_initializer is not None,
            trainable=trainable, name=opened.name, _scope=opened, _reuse=reuse,
        )  # fmt: skip
        out = layer(inputs)
        return _finished(out, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


def _depthwise(
    inputs: Any, kernel_size: Any, multiplier: int, stride: Any, padding: str, data_format: Any, rate: Any,
    activation_fn: Any, normalizer_fn: Any, normalizer_params: Any, initializer: Any, regularizer: Any,
    biases_initializer: Any, biases_regularizer: Any, reuse: Any, variables_collections: Any,
    outputs_collections: Any, trainable: bool, scope: Any,
) -> Tensor:  # fmt: skip
    """Each channel by itself, into `multiplier` channels."""
    with _scope(scope, "SeparableConv2d", reuse, variables_collections) as opened:
        x = convert_to_tensor(inputs)
        first = _layout(data_format) == "channels_first"
        channels = x._shape[1 if first else -1] if x._shape else None
        if channels is None:
            raise ValueError(f"separable_conv2d: the number of channels must be known, got {x}")
        (high, wide), (down, right), spread = (utils.two_element_tuple(v) for v in (kernel_size, stride, rate))
        weights = get_variable(
            "depthwise_weights", [high, wide, channels, multiplier], initializer=initializer, regularizer=regularizer,
            trainable=trainable,
        )  # fmt: skip
        strides = [1, 1, down, right] if first else [1, down, right, 1]
        form = "NCHW" if first else "NHWC"
        out = nn_conv_depthwise.depthwise_conv2d(x, weights, strides, padding, rate=spread, data_format=form)
        if not normalizer_fn and biases_initializer is not None:
            bias = get_variable(
                "biases", [channels * multiplier], initializer=biases_initializer, regularizer=biases_regularizer,
                trainable=trainable,
            )  # fmt: skip
            out = nn.bias_add(out, bias, data_format=form)
        return _finished(out, normalizer_fn, normalizer_params, activation_fn, outputs_collections, opened.name)


def _pool(name: str, default: str, kind: str, space: int, of: str = "windows") -> Any:
    def pool(
        inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str | None = None,
        outputs_collections: Any = None, scope: Any = None,
    ) -> Tensor:  # fmt: skip
        with get_default_graph().name_scope(scope or default) as opened:
            window, apart = (utils.n_positive_integers(space, v) for v in (kernel_size, stride))
            form = nn_window.layout(name, _layout(data_format), space)
            out = nn_pool.pool(inputs, window, kind, padding.upper(), strides=apart, data_format=form)
            return _finished(out, None, None, None, outputs_collections, opened)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"The pool of {of} of kernel_size, stride apart."
    return add_arg_scope(pool)


max_pool2d = _pool("max_pool2d", "MaxPool2D", "MAX", 2)
avg_pool2d = _pool("avg_pool2d", "AvgPool2D", "AVG", 2)
max_pool3d = _pool("max_pool3d", "MaxPool3D", "MAX", 3, of="volumes")
avg_pool3d = _pool("avg_pool3d", "AvgPool3D", "AVG", 3, of="volumes")


@add_arg_scope
def layer_norm(
    inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None,
) -> Tensor:  # fmt: skip
    """(x - mean) / std * gamma + beta, of each example by its own statistics. Source: Ba et al. 2016.

    begin_norm_axis: these and all later axes are normalized; begin_params_axis: gamma and beta have their sizes. Either
    may count from the end. Raises ValueError on an unknown rank or size, or an axis that the input has not.
    """
    with _scope(scope, "LayerNorm", reuse, variables_collections) as opened:
        inputs = convert_to_tensor(inputs)
        dims = inputs._shape
        if dims is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        rank, kind = len(dims), inputs.dtype.base_dtype
        if not -rank <= begin_norm_axis < rank or not -rank <= begin_params_axis < rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin_norm_axis}) must be "
                f"< rank(inputs) ({rank})"
            )
        size = dims[begin_params_axis:]
        if None in size:
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {dims}")
        ones = init_ops.ones_initializer()
        beta = get_variable("beta", size, kind, initializer=_ZEROS, trainable=trainable) if center else None
        gamma = get_variable("gamma", size, kind, initializer=ones, trainable=trainable) if scale else None
        mean, variance = nn.moments(inputs, list(range(begin_norm_axis % rank, rank)), keep_dims=True)
        out = nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-3 if kind is float16 else 1e-12)
        return _finished(out, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
    outputs_collections: Any = None, scope: Any = None, seed: int | None = None,
) -> Tensor:  # fmt: skip
    """While training: each element is kept with probability keep_prob, and scaled by its inverse."""
    with get_default_graph().name_scope(scope or "Dropout") as opened:
        out = core.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, training=is_training)
        return _finished(out, None, None, None, outputs_collections, opened)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """[batch, ...] -> [batch, the product of the rest]."""
    with get_default_graph().name_scope(scope or "Flatten") as opened:
        return _finished(core.flatten(inputs), None, None, None, outputs_collections, opened)


@add_arg_scope
def bias_add(
    inputs: Any, activation_fn: Any = None, initializer: Any = _ZEROS, regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    data_format: str | None = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """inputs + <scope>/biases along the channels."""
    with _scope(scope, "BiasAdd", reuse, variables_collections) as opened:
        inputs = convert_to_tensor(inputs)
        channels = inputs._shape[1 if data_format == "NCHW" else -1] if inputs._shape else None
        biases = get_variable(
            "biases", [channels], inputs.dtype.base_dtype, initializer=initializer, regularizer=regularizer,
            trainable=trainable,
        )  # fmt: skip
        out = nn.bias_add(inputs, biases, data_format)
        return _finished(out, None, None, activation_fn, outputs_collections, opened.name)


@add_arg_scope
def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, outputs_collections: Any = None,
    scope: Any = None,
) -> Tensor:  # fmt: skip
    """A row for each label with on_value at it."""
    with get_default_graph().name_scope(scope or "OneHotEncoding") as opened:
        labels = math.cast(convert_to_tensor(labels), "int64")
        out = array_select.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, opened, out)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """The softmax over the last axis. Raises ValueError on one axis alone, or where the last size is not known."""
    logits = convert_to_tensor(logits)
    utils.last_dimension(logits.shape, min_rank=2)
    return nn.softmax(logits, name=scope or "softmax")


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """inputs over their Euclidean norm along `dim`. Raises ValueError on an unknown rank, or one without that axis."""
    with get_default_graph().name_scope(scope or "UnitNorm"):
        inputs = convert_to_tensor(inputs)
        if inputs._shape is None:
            raise ValueError(f"unit_norm: the input rank must be known, got {inputs}")
        if not -len(inputs._shape) <= dim < len(inputs._shape):
            raise ValueError(f"unit_norm: dim must be an axis of {inputs}, got {dim}")
        squares = math_reduce.reduce_sum(math.square(inputs), dim, True)
        return math.divide(inputs, math.sqrt(math.add(squares, epsilon)))


def _called(layer: Any, default: str) -> str:
    """Its name, or that of the function it is a part of."""
    return getattr(getattr(layer, "func", layer), "__name__", default)


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """layer(layer(...(inputs))), so many times, in scopes <scope>/<scope>_1, _2, ..."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat"):
        out, name = inputs, scope or _called(layer, "repeat")
        for i in range(repetitions):
            kwargs["scope"] = f"{name}_{i + 1}"
            out = layer(out, *args, **kwargs)
        return out


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """layer after layer, with one entry of stack_args (an argument, or a tuple of them) each."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Stack"):
        out, name = inputs, scope or _called(layer, "stack")
        for i, given in enumerate(stack_args):
            kwargs["scope"] = f"{name}_{i + 1}"
            out = layer(out, *(given if isinstance(given, (list, tuple)) else [given]), **kwargs)
        return out


def embed_sequence(
    ids: Any, vocab_size: int | None = None, embed_dim: int | None = None, unique: bool = False,
    initializer: Any = None, regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """The rows of <scope>/embeddings [vocab_size, embed_dim] at ids."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(f"embed_sequence: give vocab_size and embed_dim, got {vocab_size} and {embed_dim}")
    with variable_scope(scope, "EmbedSequence", reuse=reuse):
        table = get_variable(
            "embeddings", [vocab_size, embed_dim], initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        return embedding.embedding_lookup(table, ids)
