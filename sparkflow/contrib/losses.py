"""tf.contrib.losses: tf.losses as they were, what a model computes first and what it should be second.

Their weights are a scalar or of the first axes of the losses: [batch], [batch, d1], ... Source: tf.contrib.losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.contrib import metric_learning
from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses import (
    Reduction,
    collected,
    cross_entropy,
    elementwise,
    get_losses,
    get_regularization_losses,
    get_total_loss,
)
from sparkflow.ops import array, array_select, math, math_reduce, nn
from sparkflow_runtime.wire.dtypes import float32

add_loss = add_arg_scope(collected.add_loss)
_EACH: dict[str, Any] = {"loss_collection": None, "reduction": Reduction.NONE}


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """The sum of `losses` times `weights` over how many elements have a weight that is not 0; collected in LOSSES.

    losses: [batch, d1, ..., dN]. weights: a scalar or [batch, d1, ..., dK], where a last size of 1 is left out.
    Computed in float32. Raises ValueError where a rank is not known, or the weights have more axes than the losses.
    """
    with get_default_graph().name_scope(scope or "weighted_loss"):
        losses = convert_to_tensor(losses)
        given = losses.dtype.base_dtype
        losses, weights = math.cast(losses, float32), _weights(weights, losses)
        total = _scaled(losses, weights)
        present = math_reduce.reduce_sum(_present(losses, weights))
        mean = math.cast(math.div_no_nan(total, present, name="value"), given)
        add_loss(mean)
        return mean


def _weights(weights: Any, losses: Tensor) -> Tensor:
    """In float32, without a last size of 1."""
    weights = math.cast(convert_to_tensor(weights), float32)
    if losses._shape is None or weights._shape is None:
        raise ValueError(f"compute_weighted_loss: the ranks must be known, got losses {losses} and weights {weights}")
    if len(weights._shape) > 1 and weights._shape[-1] in (None, 1):
        weights = array.squeeze(weights, [-1])
    w, v = weights._shape, losses._shape
    if len(w) > len(v) or any(None not in (a, b) and a not in (1, b) for a, b in zip(w, v, strict=False)):
        raise ValueError(
            f"compute_weighted_loss: weights {weights} must be a scalar or have the first axes of the losses {losses}"
        )
    return weights


def _scaled(losses: Tensor, weights: Tensor) -> Tensor:
    """The sum of the losses, summed over the axes that weights has not, times the weights."""
    over = list(range(len(weights._shape), len(losses._shape)))  # type: ignore[arg-type]
    return math_reduce.reduce_sum(math.multiply(math_reduce.reduce_sum(losses, over), weights))


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """[batch]: of how many elements of a row the weight is not 0."""
    sizes, rank = array.shape(losses), len(weights._shape)  # type: ignore[arg-type]
    wide = math.cast(math_reduce.reduce_prod(sizes[max(rank, 1) :]), float32)
    kept = math.cast(math.not_equal(weights, 0.0), float32)
    if rank == 0:
        return array.fill(sizes[:1], math.multiply(kept, wide))
    return math.multiply(math_reduce.reduce_sum(kept, list(range(1, rank))), wide)


def _collected(default: str, weights: Any, scope: str | None, losses: Callable[[str], Any]) -> Tensor:
    with get_default_graph().name_scope(scope or default) as name:
        return compute_weighted_loss(losses(name), weights, name)


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """|predictions - labels|."""
    each = lambda name: elementwise.absolute_difference(labels, predictions, scope=name, **_EACH)  # noqa: E731
    return _collected("absolute_difference", weights, scope, each)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """(predictions - labels)^2."""
    each = lambda name: elementwise.mean_squared_error(labels, predictions, scope=name, **_EACH)  # noqa: E731
    return _collected("mean_squared_error", weights, scope, each)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Tensor:
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon)."""
    each = lambda name: elementwise.log_loss(labels, predictions, epsilon=epsilon, scope=name, **_EACH)  # noqa: E731
    return _collected("log_loss", weights, scope, each)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """[...]: max(0, 1 - labels * logits) with labels 0 and 1 as -1 and 1, each for itself and not collected.

    Raises ValueError where the shapes differ.
    """
    with get_default_graph().name_scope(scope or "hinge_loss"):
        logits, labels = convert_to_tensor(logits), math.cast(labels, convert_to_tensor(logits).dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        return nn.relu(1.0 - (2.0 * labels - 1.0) * logits)


def cosine_distance(
    predictions: Any, labels: Any = None, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    dim: int | None = None,
) -> Tensor:  # fmt: skip
    """1 - sum(predictions * labels) over `axis`, which is left out; both are of unit length there already."""
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("cosine_distance: You must specify 'axis'.")

    def each(name: str) -> Tensor:
        kept = elementwise.cosine_distance(labels, predictions, along, scope=name, **_EACH)
        if kept._shape is None:
            raise ValueError(f"cosine_distance: the rank must be known, got predictions {predictions}")
        return array.squeeze(kept, [along])

    return _collected("cosine_distance_loss", weights, scope, each)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> Tensor:
    """Of each row, over all pairs (i, j) of its n elements, i = j too, the mean of ((p_i - p_j) - (y_i - y_j))^2,
    times the row's weight, summed over the rows.

    weights: a scalar or [batch]. tf.losses.mean_pairwise_squared_error divides by n (n - 1) in place of n^2.
    Raises ValueError where the shapes differ or a rank is not known.
    """
    with get_default_graph().name_scope(scope or "mean_pairwise_squared_error"):
        predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
        predictions.shape.assert_is_compatible_with(labels.shape)
        apart = math.subtract(math.cast(predictions, float32), math.cast(labels, float32))
        weights = _weights(weights, apart)
        over = list(range(1, len(apart._shape)))  # type: ignore[arg-type]
        present = _present(apart, weights)
        squares = math.div_no_nan(math_reduce.reduce_sum(math.square(apart), over), present)
        means = math.div_no_nan(math_reduce.reduce_sum(apart, over), present)
        total = _scaled(2.0 * (squares - math.square(means)), weights)
        some = math.greater(math_reduce.reduce_sum(present), 0.0)
        loss = array_select.where(some, total, array.zeros_like(total), name="value")
        add_loss(loss)
        return loss


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """Of independent classes; smoothing draws the labels to 1/2."""

    def each(name: str) -> Tensor:
        return cross_entropy.sigmoid_cross_entropy(
            multi_class_labels, logits, label_smoothing=label_smoothing, scope=name, **_EACH
        )

    return _collected("sigmoid_cross_entropy_loss", weights, scope, each)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """Of exclusive classes; smoothing draws the labels to 1/classes."""

    def each(name: str) -> Tensor:
        return cross_entropy.softmax_cross_entropy(
            onehot_labels, logits, label_smoothing=label_smoothing, scope=name, **_EACH
        )

    return _collected("softmax_cross_entropy_loss", weights, scope, each)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """Of exclusive classes given by number, [batch] or [batch, 1]."""
    each = lambda name: cross_entropy.sparse_softmax_cross_entropy(labels, logits, scope=name, **_EACH)  # noqa: E731
    return _collected("sparse_softmax_cross_entropy_loss", weights, scope, each)
