"""tf.contrib.sparsemax: like softmax, but most of what is small becomes 0. Source: Martins and Astudillo 2016."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_select, math, math_reduce, nn


def sparsemax(logits: Any, name: str | None = None) -> Tensor:
    """The point of the simplex next to each row of logits, [batch, classes]."""
    with get_default_graph().name_scope(name or "sparsemax"):
        z = _centred(logits)
        classes = array.shape(z)[1]
        falling, _ = nn.top_k(z, classes)
        ranks = math.cast(math.range(1, classes + 1), z.dtype)
        inside = math.greater(1.0 + ranks * falling, math_reduce.cumsum(falling, 1))  # the first so many of a row
        number = math_reduce.reduce_sum(math.cast(inside, z.dtype), 1, keepdims=True)
        kept = array_select.where(inside, falling, array.zeros_like(falling))
        threshold = (math_reduce.reduce_sum(kept, 1, keepdims=True) - 1.0) / number
        return nn.relu(z - threshold)


def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> Tensor:
    """[batch]: of sparsemax(logits), which is given too, and labels that sum up to 1; its slope is their difference."""
    with get_default_graph().name_scope(name or "sparsemax_loss"):
        z, chances = _centred(logits), convert_to_tensor(sparsemax)
        wanted = math.cast(convert_to_tensor(labels), z.dtype)
        losses = chances * (z - 0.5 * chances) + wanted * (0.5 * wanted - z)
        return math_reduce.reduce_sum(losses, 1)


def _centred(logits: Any) -> Tensor:
    """Their sums would lose digits where all are large."""
    z = convert_to_tensor(logits)
    return z - math_reduce.reduce_mean(z, 1, keepdims=True)
