"""tf.contrib.losses: tf.losses as they were, what a model computes first and what it should be second."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.losses import (
    add_loss,
    compute_weighted_loss,
    cross_entropy,
    elementwise,
    get_losses,
    get_regularization_losses,
    get_total_loss,
)
from sparkflow.ops import math, nn


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """tf.losses.absolute_difference."""
    return elementwise.absolute_difference(labels, predictions, weights, scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """tf.losses.mean_squared_error."""
    return elementwise.mean_squared_error(labels, predictions, weights, scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Tensor:
    """tf.losses.log_loss."""
    return elementwise.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """[...]: max(0, 1 - labels * logits) with labels 0 and 1 as -1 and 1, each for itself and not collected."""
    with get_default_graph().name_scope(scope or "hinge_loss"):
        logits, labels = convert_to_tensor(logits), math.cast(labels, convert_to_tensor(logits).dtype)
        return nn.relu(1.0 - (2.0 * labels - 1.0) * logits)


def cosine_distance(
    predictions: Any, labels: Any = None, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    dim: int | None = None,
) -> Tensor:  # fmt: skip
    """tf.losses.cosine_distance."""
    return elementwise.cosine_distance(labels, predictions, dim if axis is None else axis, weights, scope)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """tf.losses.mean_pairwise_squared_error."""
    return elementwise.mean_pairwise_squared_error(labels, predictions, weights, scope)


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """tf.losses.sigmoid_cross_entropy."""
    return cross_entropy.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """tf.losses.softmax_cross_entropy."""
    return cross_entropy.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """tf.losses.sparse_softmax_cross_entropy."""
    return cross_entropy.sparse_softmax_cross_entropy(labels, logits, weights, scope)
