"""Normalisation ops: fused batch normalisation, local response normalisation, weighted moments, concatenated relu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import (
    array,
    math,
    operators,  # noqa: F401 - x + y on tensors
    rules,
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow.ops.nn import batch_normalization, relu
from sparkflow.ops.nn_window import layout
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.windows import spatial_axes

# ---------------------------------------------------------------------- static shapes


def _channels(op: Operation, x: int, vectors: Sequence[int]) -> tuple[Dims, int | None]:
    """(shape of x, its channels), after checking that the vectors have them."""
    dims = rules.require_rank(op, op.spec.inputs[x].name, op.inputs[x], 4, at_least=True)
    dims = (None,) * 4 if dims is None else dims
    count = dims[spatial_axes(op.attrs["data_format"], len(dims))[1]]
    for i in vectors:
        rules.require_rank(op, op.spec.inputs[i].name, op.inputs[i], 1)
        (count,) = shapes.merge((count,), op.inputs[i]._shape) or (None,)
    return dims, count


def _batch_norm_rule(op: Operation) -> list[Dims]:
    training = op.attrs["is_training"] and op.attrs["exponential_avg_factor"] == 1
    dims, count = _channels(op, 0, (1, 2) if training else (1, 2, 3, 4))
    return [dims, *[(count,)] * 4, *[None] * (len(op.outputs) - 5)]


def _batch_norm_grad_rule(op: Operation) -> list[Dims]:
    dims, count = _channels(op, 1, (2, 3, 4))
    return [shapes.merge(dims, op.inputs[0]._shape), (count,), (count,), (0,), (0,)]


_BN = "x: T, scale: {0}, offset: {0}, mean: {0}, variance: {0} -> y: T, batch_mean: {0}, batch_variance: {0}, {1}"
_BN_GRAD = "y_backprop: T, x: T, scale: {0}, {1} -> x_backprop: T, scale_backprop: {2}, offset_backprop: {2}, {3}"
_BN_ATTRS: dict[str, Any] = {"epsilon": 1e-4, "exponential_avg_factor": 1.0, "data_format": "NHWC", "is_training": True}
_BN_GRAD_ATTRS: dict[str, Any] = {"epsilon": 1e-4, "data_format": "NHWC", "is_training": True}


def _reserve(kind: str, *numbers: int) -> str:
    return ", ".join(f"reserve_space_{i}: {kind}" for i in numbers)


op("FusedBatchNorm", _BN.format("T", _reserve("T", 1, 2)), _batch_norm_rule, **_BN_ATTRS)
op("FusedBatchNormV2", _BN.format("U", _reserve("U", 1, 2)), _batch_norm_rule, **_BN_ATTRS)
op("FusedBatchNormV3", _BN.format("U", _reserve("U", 1, 2, 3)), _batch_norm_rule, **_BN_ATTRS)
op(
    "FusedBatchNormGrad",
    _BN_GRAD.format("T", _reserve("T", 1, 2), "T", _reserve("T", 3, 4)),
    _batch_norm_grad_rule,
    **_BN_GRAD_ATTRS,
)
op(
    "FusedBatchNormGradV2",
    _BN_GRAD.format("float32", _reserve("U", 1, 2), "U", _reserve("U", 3, 4)),
    _batch_norm_grad_rule,
    **_BN_GRAD_ATTRS,
)
op(
    "FusedBatchNormGradV3",
    _BN_GRAD.format("float32", _reserve("U", 1, 2, 3), "U", _reserve("U", 4, 5)),
    _batch_norm_grad_rule,
    **_BN_GRAD_ATTRS,
)
_LRN: dict[str, Any] = {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, "T": dtypes.float32}
op("LRN", "input: T -> output: T", lambda op: [rules.require_rank(op, "input", op.inputs[0], 4)], **_LRN)
op(
    "LRNGrad",
    "input_grads: T, input_image: T, output_image: T -> output: T",
    lambda op: [shapes.merge((None,) * 4, rules.merged(op)[0])],
    **_LRN,
)

# ---------------------------------------------------------------------- functions

_LEAST_EPSILON = 1.001e-5  # as TensorFlow's: what cuDNN takes


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: Any = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, variance): y = (x - mean) / sqrt(variance + epsilon) * scale + offset, channel by channel.

    is_training: the statistics are the batch's own, and the variance handed out is divided by n - 1; otherwise mean and
    variance must be given. x of rank 4 or 5; scale, offset, mean, variance are vectors over its channels.
    """
    if not is_training and (mean is None or variance is None):
        raise ValueError("Both `mean` and `variance` must be a 1D tensor when `is_training` is False.")
    with get_default_graph().name_scope(name or "FusedBatchNorm") as scope:
        x = convert_to_tensor(x, name="input")
        kind = layout("fused_batch_norm", data_format, 3 if rules.rank_of(x) == 5 else 2)
        vector = dtypes.float32 if x.dtype.base_dtype.size == 2 else x.dtype.base_dtype
        scale, offset = (convert_to_tensor(v, vector, n) for v, n in ((scale, "scale"), (offset, "offset")))
        mean, variance = (array.zeros([0], vector) if v is None else v for v in (mean, variance))
        attrs = {
            "epsilon": max(float(epsilon), _LEAST_EPSILON),
            "exponential_avg_factor": float(exponential_avg_factor),
            "data_format": kind,
            "is_training": bool(is_training),
        }
        y, batch_mean, batch_variance, *_ = apply_op(
            "FusedBatchNormV3", [x, scale, offset, mean, variance], attrs, scope
        )
        return y, batch_mean, batch_variance


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    """batch_normalization under its old name: t by mean m and variance v; gamma only with scale_after_normalization."""
    x, mean, variance = (new if old is None else old for old, new in ((t, input), (m, mean), (v, variance)))
    scale = gamma if scale_after_normalization else None
    return batch_normalization(x, mean, variance, beta, scale, variance_epsilon, name)


def local_response_normalization(
    input: Any,
    depth_radius: int | None = 5,
    bias: float | None = 1,
    alpha: float | None = 1,
    beta: float | None = 0.5,
    name: str | None = None,
) -> Tensor:
    """x / (bias + alpha * sum of x ** 2 over the channels at most depth_radius away) ** beta, for rank 4. None stands
    for the default."""
    numbers = {"bias": (bias, 1.0), "alpha": (alpha, 1.0), "beta": (beta, 0.5)}
    attrs: dict[str, Any] = {
        key: default if value is None else float(value) for key, (value, default) in numbers.items()
    }
    return apply_op("LRN", [input], {"depth_radius": 5 if depth_radius is None else int(depth_radius), **attrs}, name)


lrn = local_response_normalization


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """relu(x) and relu(-x), one after the other along `axis`. Source: Shang et al. 2016."""
    with get_default_graph().name_scope(name or "CRelu") as scope:
        x = convert_to_tensor(features, name="features")
        return relu(concat([x, math.negative(x)], axis), name=scope)


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean and variance over `axes`, each element counted frequency_weights times (broadcast to x's shape)."""
    keep = bool(keepdims if keep_dims is None else keep_dims)
    with get_default_graph().name_scope(name or "weighted_moments"):
        x = convert_to_tensor(x, name="x")
        weights = math.cast(frequency_weights, x.dtype.base_dtype) + array.zeros_like(x)
        total = reduce_sum(weights, axes, keepdims=True)
        mean = reduce_sum(weights * x, axes, keepdims=True) / total
        variance = reduce_sum(weights * math.squared_difference(x, mean), axes, keepdims=True) / total
        if not keep:
            gone = list(axes) if isinstance(axes, (list, tuple)) else [axes]
            mean, variance = array.squeeze(mean, gone), array.squeeze(variance, gone)
        return mean, variance
