"""Losses of examples as a mean over the batch of all replicas."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.losses.weighted import Reduction, compute_weighted_loss
from sparkflow.ops import array, math, math_reduce, operators, rules  # noqa: F401 - x - y on tensors
from sparkflow.ops.array_join import concat
from sparkflow_runtime.wire.dtypes import float32, int32


def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> Tensor:
    """The sum of the losses, times weights, over the batch's size; 0 where that is 0.

    per_example_loss: [batch, ...]; integers count as float32. sample_weight: [batch] or what broadcasts to the losses.
    global_batch_size: a whole number; that of the losses by default. Raises ValueError on a scalar loss or a size that
    is no scalar, TypeError on a size that is no whole number.
    """
    losses = convert_to_tensor(per_example_loss)
    losses = losses if losses.dtype.is_floating else math.cast(losses, float32)
    rank = rules.rank_of(losses)
    if rank == 0:
        raise ValueError(
            "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1. Received "
            f"per_example_loss={losses!r} with rank 0"
        )
    if sample_weight is not None:
        weights = _with_last_axis(math.cast(convert_to_tensor(sample_weight), losses.dtype), losses)
        losses = compute_weighted_loss(losses, weights, loss_collection=None, reduction=Reduction.NONE)
    size = array.shape(losses)[0] if global_batch_size is None else convert_to_tensor(global_batch_size)
    if not size.dtype.is_integer:
        raise TypeError(f"compute_average_loss: global_batch_size must be an integer, got {global_batch_size!r}")
    if rules.rank_of(size) not in (0, None):
        raise ValueError(f"compute_average_loss: global_batch_size must be scalar, got shape {size.shape}")
    return math.div_no_nan(math_reduce.reduce_sum(losses), math.cast(size, losses.dtype))


def _with_last_axis(weights: Tensor, losses: Tensor) -> Tensor:
    """Weights of one axis less, which is not none, get a last one."""
    rank, own = rules.rank_of(losses), rules.rank_of(weights)
    if own == 0:
        return weights
    if rank is not None and own is not None:
        return array.expand_dims(weights, -1) if own == rank - 1 else weights
    less = math.logical_and(math.equal(array.rank(losses) - array.rank(weights), 1), array.rank(weights) > 0)
    axes = array.fill(array.reshape(math.cast(less, int32), [1]), 1)
    return array.reshape(weights, concat([array.shape(weights), axes], 0))


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The sum of the losses over the number of replicas, which is one."""
    return math_reduce.reduce_sum(convert_to_tensor(regularization_loss))
