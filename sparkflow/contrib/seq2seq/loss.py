"""The cross entropy of sequences."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math, math_reduce, nn_loss

_TINY = 1e-12  # a sum of weights may be 0


def sequence_loss(
    logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, average_across_batch: bool = True,
    sum_over_timesteps: bool = False, sum_over_batch: bool = False, softmax_loss_function: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The weighted cross entropy of [batch, time, classes] logits and [batch, time] targets.

    Averaged over both axes it is the sum over the sum of the weights; over neither, [batch, time].
    Raises ValueError where logits is no 3-D, or targets and weights no 2-D tensor.
    """
    logits, targets, weights = convert_to_tensor(logits), convert_to_tensor(targets), convert_to_tensor(weights)
    if logits.shape.ndims != 3:
        raise ValueError(f"Logits must be a [batch_size x sequence_length x logits] tensor, got {logits.shape}")
    for label, x in (("Targets", targets), ("Weights", weights)):
        if x.shape.ndims != 2:
            raise ValueError(f"{label} must be a [batch_size x sequence_length] tensor, got {x.shape}")
    if (average_across_timesteps and sum_over_timesteps) or (average_across_batch and sum_over_batch):
        raise ValueError("sequence_loss: an axis is averaged or summed, not both")
    with get_default_graph().name_scope(name or "sequence_loss"):
        classes = array.shape(logits)[2]
        flat, wanted = array.reshape(logits, [-1, classes]), array.reshape(targets, [-1])
        if softmax_loss_function is None:
            losses = nn_loss.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=flat)
        else:
            losses = softmax_loss_function(labels=wanted, logits=flat)
        losses = math.multiply(losses, array.reshape(weights, [-1]))
        if average_across_timesteps and average_across_batch:
            return math.divide(math_reduce.reduce_sum(losses), math.add(math_reduce.reduce_sum(weights), _TINY))
        losses = array.reshape(losses, array.shape(logits)[:2])
        losses.set_shape(logits._shape[:2])
        for axis, average, total in ((0, average_across_batch, sum_over_batch),
                                     (1, average_across_timesteps, sum_over_timesteps)):  # fmt: skip
            if average or total:
                summed = math_reduce.reduce_sum(losses, axis, keepdims=True)
                by = math_reduce.reduce_sum(weights, axis, keepdims=True)
                losses, weights = (math.divide(summed, math.add(by, _TINY)) if average else summed), by
        gone = [a for a, d in ((0, average_across_batch or sum_over_batch),
                               (1, average_across_timesteps or sum_over_timesteps)) if d]  # fmt: skip
        return array.squeeze(losses, gone) if gone else losses
