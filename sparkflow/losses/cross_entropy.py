"""Cross entropies of logits, with label smoothing."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses.weighted import Reduction, compute_weighted_loss
from sparkflow.ops import array, math, nn_loss

_BY_NONZERO = Reduction.SUM_BY_NONZERO_WEIGHTS


def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """Of independent classes. multi_class_labels: 0 or 1, [batch, classes] as logits. Smoothing draws them to 1/2."""
    with get_default_graph().name_scope(scope or "sigmoid_cross_entropy_loss") as name:
        logits = convert_to_tensor(logits)
        labels = math.cast(convert_to_tensor(multi_class_labels), logits.dtype)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn_loss.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """Of exclusive classes. onehot_labels: [batch, classes] as logits. label_smoothing draws them to 1/classes."""
    with get_default_graph().name_scope(scope or "softmax_cross_entropy_loss") as name:
        logits = convert_to_tensor(logits)
        labels = math.cast(convert_to_tensor(onehot_labels), logits.dtype)
        if label_smoothing > 0:
            classes = math.cast(array.shape(labels)[-1], logits.dtype)
            labels = labels * (1 - label_smoothing) + label_smoothing / classes
        labels = array.stop_gradient(labels)
        losses = nn_loss.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """Of exclusive classes given by number. labels: [d0, ..., dn] or [d0, ..., dn, 1]; logits: [..., dn, classes]."""
    with get_default_graph().name_scope(scope or "sparse_softmax_cross_entropy_loss") as name:
        labels, logits = convert_to_tensor(labels), convert_to_tensor(logits)
        labels, weights = _squeezed(labels, logits), convert_to_tensor(weights)
        losses = nn_loss.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, _squeezed_weights(weights, losses), name, loss_collection, reduction)


def _squeezed(labels: Any, logits: Any) -> Any:
    """Labels of logits' rank lose a last size of 1."""
    same_rank = labels.shape.ndims is not None and labels.shape.ndims == logits.shape.ndims
    return array.squeeze(labels, [-1]) if same_rank else labels


def _squeezed_weights(weights: Any, losses: Any) -> Any:
    known = weights.shape.ndims is not None and losses.shape.ndims is not None
    more = known and weights.shape.ndims == losses.shape.ndims + 1
    return array.squeeze(weights, [-1]) if more else weights
