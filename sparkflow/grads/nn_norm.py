"""Gradients of normalisation ops."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array, math
from sparkflow.ops.math_reduce import reduce_mean, reduce_sum
from sparkflow.ops.nn_window import layout_of
from sparkflow_runtime.wire.windows import spatial_axes

_GRADS = {
    "FusedBatchNorm": "FusedBatchNormGrad",
    "FusedBatchNormV2": "FusedBatchNormGradV2",
    "FusedBatchNormV3": "FusedBatchNormGradV3",
}


@gradient(*_GRADS)
def _fused_batch_norm(op: Operation, dy: Tensor, *others: Any) -> tuple[Any, ...]:
    """Only y is differentiated, as in TensorFlow. In inference the statistics are those that were given."""
    x, scale, _offset, mean, variance = op.inputs
    training = op.attr("is_training")
    kept = op.outputs[3:] if training else [mean, variance, *op.outputs[5:]]
    attrs = {name: op.attr(name) for name in ("epsilon", "data_format", "is_training")}
    scale = scale if op.type == "FusedBatchNorm" else math.cast(scale, "float32")
    dx, dscale, doffset, *_ = apply_op(_GRADS[op.type], [dy, x, scale, *kept], attrs)
    return dx, dscale, doffset, None, None


@gradient(*_GRADS.values())
def _fused_batch_norm_grad(op: Operation, *ds: Any) -> tuple[Any, ...]:
    """The first gradient once more, written in ops that have gradients of their own, and differentiated."""
    from sparkflow.grads.gradients import gradients

    dy, x, scale = op.inputs[:3]
    axes, channel = spatial_axes(layout_of(op), 4 if x._shape is None else len(x._shape))
    axes = [0, *axes]

    def along(vector: Tensor) -> Tensor:
        return array.reshape(vector, [-1 if a == channel else 1 for a in range(len(axes) + 1)])

    if op.attr("is_training"):
        mean = reduce_mean(x, axes, keepdims=True)
        variance = reduce_mean(math.square(math.subtract(x, mean)), axes, keepdims=True)
    else:
        mean, variance = along(op.inputs[3]), along(op.inputs[4])
    inverse = math.rsqrt(math.add(variance, op.attr("epsilon")))
    normal = math.multiply(math.subtract(x, mean), inverse)
    product = math.multiply(dy, normal)
    up = dy
    if op.attr("is_training"):
        shared = math.multiply(normal, reduce_mean(product, axes, keepdims=True))
        up = math.subtract(math.subtract(dy, reduce_mean(dy, axes, keepdims=True)), shared)
    dx = math.multiply(up, math.multiply(along(math.cast(scale, x.dtype.base_dtype)), inverse))
    firsts = [dx, reduce_sum(product, axes), reduce_sum(dy, axes)]
    partial = gradients(firsts, [dy, x, scale], list(ds[:3]), stop_gradients=[dy, x, scale])  # dy may depend on x
    return (*partial, *[None] * (len(op.inputs) - 3))


@gradient("LRN")
def _lrn(op: Operation, dy: Tensor) -> Tensor:
    attrs = {name: op.attr(name) for name in ("depth_radius", "bias", "alpha", "beta")}
    return apply_op("LRNGrad", [dy, op.inputs[0], op.outputs[0]], attrs)
