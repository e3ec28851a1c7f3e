"""Activations, biases, normalisation, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import (
    array,
    math,
    operators,  # noqa: F401 - x + y on tensors
    rules,
)
from sparkflow.ops.array_select import where
from sparkflow.ops.elementwise import of_ragged_too, unary, unary_float
from sparkflow.ops.math_reduce import reduce_mean, reduce_sum
from sparkflow.ops.random import random_uniform
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_FEATURES = "features: T -> activations: T"
relu = unary("Relu", "max(x, 0).", _FEATURES)
relu6 = unary("Relu6", "min(max(x, 0), 6).", _FEATURES)
elu = unary_float("Elu", "x above zero, e ** x - 1 below.", _FEATURES)
selu = unary_float("Selu", "elu scaled so that layers keep mean 0 and variance 1 (Klambauer 2017).", _FEATURES)
softplus = unary_float("Softplus", "log(1 + e ** x).", _FEATURES)
softsign = unary_float("Softsign", "x / (1 + |x|).", _FEATURES)
op("LeakyRelu", _FEATURES, rules.same_float, alpha=0.2, T=dtypes.float32)
for _op_type in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad"):
    op(_op_type, "gradients: T, features: T -> backprops: T", rules.merged)
op("LeakyReluGrad", "gradients: T, features: T -> backprops: T", rules.merged, alpha=0.2, T=dtypes.float32)
for _op_type in ("EluGrad", "SeluGrad"):
    op(_op_type, "gradients: T, outputs: T -> backprops: T", rules.merged)
op("L2Loss", "t: T -> output: T", rules.scalar)


@of_ragged_too
def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """x above zero, alpha * x below; alpha may be a tensor, such as a variable that is learned."""
    features = convert_to_tensor(features, name="features")
    if features.dtype.is_integer:
        features = math.to_float(features)
    if isinstance(alpha, Tensor) or hasattr(alpha, "_as_graph_element"):
        with get_default_graph().name_scope(name or "LeakyRelu") as scope:
            below = math.multiply(convert_to_tensor(alpha, features.dtype.base_dtype), features)
            return where(math.greater(features, 0), features, below, name=scope)
    return apply_op("LeakyRelu", [features], {"alpha": float(alpha)}, name)


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """sum(t ** 2) / 2, a scalar."""
    return apply_op("L2Loss", [t], name=name)


# ---------------------------------------------------------------------- softmax


def _softmax_rule(op: Operation) -> list[Dims]:
    rules.require_float(op, op.inputs[0])
    return [rules.require_rank(op, "logits", op.inputs[0], 1, at_least=True)]


op("Softmax", "logits: T -> softmax: T", _softmax_rule)
op("LogSoftmax", "logits: T -> logsoftmax: T", _softmax_rule)


def _along(op_type: str, logits: Any, axis: int | None, name: str | None) -> Tensor:
    """The op works on the last axis: another one is brought there and back."""
    logits = convert_to_tensor(logits, name="logits")
    rank = rules.rank_of(logits)
    if axis not in (None, -1) and rank is None:
        raise ValueError(f"{op_type}: axis {axis} needs logits of a known rank, got {logits}")
    if axis not in (None, -1) and not -rank <= axis < rank:  # type: ignore[operator]
        raise InvalidArgumentError(f"{op_type}: axis {axis} is out of range for logits {shapes.show(logits._shape)}")
    if axis is None or axis == -1 or rank is None or axis % rank == rank - 1:
        return apply_op(op_type, [logits], name=name)
    perm = list(range(rank))
    perm[axis % rank], perm[-1] = perm[-1], perm[axis % rank]
    return array.transpose(apply_op(op_type, [array.transpose(logits, perm)]), perm, name or op_type.lower())


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """e ** x / sum(e ** x) along one axis (the last, when None)."""
    return _along("Softmax", logits, dim if axis is None else axis, name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """log(softmax(x)), without overflow."""
    return _along("LogSoftmax", logits, dim if axis is None else axis, name)


# ---------------------------------------------------------------------- biases


def _channel_axis(op: Operation, rank: int) -> int:
    return 1 if op.attrs["data_format"] == "NCHW" and rank > 2 else rank - 1


def _bias_rule(op: Operation) -> list[Dims]:
    if op.attrs["data_format"] not in ("NHWC", "NCHW"):
        raise InvalidArgumentError(f"BiasAdd: data_format must be NHWC or NCHW, got {op.attrs['data_format']!r}")
    value = rules.require_rank(op, "value", op.inputs[0], 2, at_least=True)
    (channels,) = rules.require_rank(op, "bias", op.inputs[1], 1) or (None,)
    if value is None:
        return [None]
    axis = _channel_axis(op, len(value))
    if not shapes.compatible((value[axis],), (channels,)):
        raise InvalidArgumentError(
            f"BiasAdd: bias {shapes.show(op.inputs[1]._shape)} must have the size of axis {axis} "
            f"of value {shapes.show(value)}"
        )
    return [(*value[:axis], channels if value[axis] is None else value[axis], *value[axis + 1 :])]


def _bias_grad_rule(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "out_backprop", op.inputs[0], 2, at_least=True)
    return [(None,) if dims is None else (dims[_channel_axis(op, len(dims))],)]


op("BiasAdd", "value: T, bias: T -> output: T", _bias_rule, data_format="NHWC")
op("BiasAddGrad", "out_backprop: T -> output: T", _bias_grad_rule, data_format="NHWC")


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """value + bias, a vector over the last axis (over axis 1 for "NCHW")."""
    formats = {None: "NHWC", "NHWC": "NHWC", "N...C": "NHWC", "NCHW": "NCHW", "NC...": "NCHW"}
    if data_format not in formats:
        raise ValueError(f"bias_add: data_format must be NHWC or NCHW, got {data_format!r}")
    return apply_op("BiasAdd", [value, bias], {"data_format": formats[data_format]}, name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases."""
    with get_default_graph().name_scope(name or "xw_plus_b") as scope:
        return bias_add(math.matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    with get_default_graph().name_scope(name or "relu_layer") as scope:
        return relu(bias_add(math.matmul(x, weights), biases), name=scope)


# ---------------------------------------------------------------------- dropout


@of_ragged_too
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Each element 0 with probability rate (1 - keep_prob), else divided by 1 - rate, so that the expectation stays.

    noise_shape: the shape of the choices, broadcast to x's. Raises ValueError unless 0 <= rate < 1.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout takes one of rate and (its old form) keep_prob = 1 - rate")
    with get_default_graph().name_scope(name or "dropout") as scope:
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError(f"dropout: x must be floating, got {x.dtype.name}: it is going to be scaled")
        rate = 1 - keep_prob if rate is None else rate
        if isinstance(rate, Real):
            number = float(rate)
            if not 0 <= number < 1:
                raise ValueError(f"dropout: rate must be in [0, 1), got {rate}")
            if number == 0:
                return x
            scaled = math.multiply(x, convert_to_tensor(1 / (1 - number), x.dtype.base_dtype, "scale"))
            rate = convert_to_tensor(number, x.dtype.base_dtype, "rate")
        else:
            rate = math.cast(convert_to_tensor(rate), x.dtype)
            scaled = math.truediv(x, math.subtract(convert_to_tensor(1, x.dtype.base_dtype), rate))
        noise = random_uniform(_noise_shape(x, noise_shape), seed=seed, dtype=x.dtype.base_dtype)
        kept = math.cast(math.greater_equal(noise, rate), x.dtype)
        out = math.multiply(scaled, kept, name=scope)
        out.set_shape(x._shape)
        return out


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return array.shape(x)
    if isinstance(noise_shape, Tensor) or x._shape is None:
        return noise_shape
    tensors = isinstance(noise_shape, (list, tuple)) and any(isinstance(d, Tensor) for d in noise_shape)
    wanted = list(noise_shape) if tensors else shapes.as_dims(noise_shape)  # such as [tf.shape(x)[0], 1, 8]
    if wanted is not None and len(wanted) == len(x._shape) and None in wanted:
        sizes = array.shape(x)
        return [sizes[i] if d is None else d for i, d in enumerate(wanted)]
    return noise_shape


# ---------------------------------------------------------------------- normalisation


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """x / sqrt(max(sum(x ** 2), epsilon)) over `axis`."""
    with get_default_graph().name_scope(name or "l2_normalize") as scope:
        x = convert_to_tensor(x, name="x")
        squares = math.square(math.abs(x) if x.dtype.is_complex else x)
        total = reduce_sum(squares, dim if axis is None else axis, keepdims=True)
        scale = math.rsqrt(math.maximum(total, epsilon))
        return math.multiply(x, math.cast(scale, x.dtype.base_dtype) if x.dtype.is_complex else scale, name=scope)


def moments(
    x: Any,
    axes: Sequence[int] | int | None,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean and the variance over `axes`, over all where it is None. shift is accepted for TF1's sake. float16 is
    computed as float32."""
    keep = bool(keepdims if keep_dims is None else keep_dims)
    with get_default_graph().name_scope(name or "moments"):
        x = convert_to_tensor(x, name="x")
        y = math.to_float(x) if x.dtype.base_dtype is dtypes.float16 else x
        mean = reduce_mean(y, axes, keepdims=True, name="mean")
        variance = reduce_mean(
            math.squared_difference(y, array.stop_gradient(mean)), axes, keepdims=True, name="variance"
        )
        if not keep:
            gone = [] if axes is None else list(axes) if isinstance(axes, (list, tuple)) else [axes]
            mean, variance = array.squeeze(mean, gone), array.squeeze(variance, gone)
        return math.cast(mean, x.dtype), math.cast(variance, x.dtype)


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """(x - mean) / sqrt(variance + variance_epsilon) * scale + offset; scale and offset may be None."""
    with get_default_graph().name_scope(name or "batchnorm"):
        inverse = math.rsqrt(math.add(variance, variance_epsilon))
        if scale is not None:
            inverse = math.multiply(inverse, scale)
        shift = math.multiply(mean, inverse)
        shift = math.negative(shift) if offset is None else math.subtract(offset, shift)
        return math.add(math.multiply(x, math.cast(inverse, x.dtype)), math.cast(shift, x.dtype), name="add_1")


# ---------------------------------------------------------------------- the largest


def _top_k_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "k", op.inputs[1], 0)
    dims, k = rules.require_rank(op, "input", op.inputs[0], 1, at_least=True), constant_value(op.inputs[1])
    if k is not None and k < 0:
        raise InvalidArgumentError(f"TopKV2: k must be at least 0, got {int(k)}")
    if dims is None:
        return [None, None]
    count = None if k is None else int(k)
    if count is not None and dims[-1] is not None and count > dims[-1]:
        raise InvalidArgumentError(f"TopKV2: input {shapes.show(dims)} must have at least k = {count} columns")
    return [(*dims[:-1], count)] * 2


def _in_top_k_rule(op: Operation) -> list[Dims]:
    rows, _ = rules.require_matrix(op, "predictions", op.inputs[0])
    return [shapes.merge(rules.require_rank(op, "targets", op.inputs[1], 1), (rows,))]


op(
    "TopKV2",
    "input: T, k: Tk -> values: T, indices: index_type",
    _top_k_rule,
    sorted=True,
    Tk=dtypes.int32,
    index_type=dtypes.int32,
)
op("InTopK", "predictions: float32, targets: T -> precision: bool", _in_top_k_rule, T=dtypes.int32)
op("InTopKV2", "predictions: float32, targets: T, k: T -> precision: bool", _in_top_k_rule, T=dtypes.int32)


def top_k(
    input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(values, indices) of the k largest along the last axis, largest first; of equals, the lower index first."""
    return apply_op("TopKV2", [input, k], {"sorted": sorted, "index_type": dtypes.as_dtype(index_type)}, name)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether predictions[i, targets[i]] is among the k largest of its row (ties count as in)."""
    with get_default_graph().name_scope(name or "in_top_k"):
        return apply_op("InTopKV2", [predictions, targets, k])
