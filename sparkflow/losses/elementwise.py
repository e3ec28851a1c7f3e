"""Losses that compare predictions with labels element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses.collected import add_loss
from sparkflow.losses.weighted import Reduction, compute_weighted_loss, num_present
from sparkflow.ops import array, array_select, math, math_reduce, nn
from sparkflow_runtime.wire.dtypes import float32

_BY_NONZERO = Reduction.SUM_BY_NONZERO_WEIGHTS


def _compared(
    default: str,
    formula: Callable[[Any, Any], Any],
    labels: Any,
    predictions: Any,
    weights: Any,
    scope: str | None,
    loss_collection: str | None,
    reduction: str,
) -> Any:
    """formula(predictions, labels) of two tensors of one shape, weighted."""
    if labels is None or predictions is None:
        raise ValueError(f"{default}: labels and predictions must not be None")
    with get_default_graph().name_scope(scope or default) as name:
        predictions = math.cast(convert_to_tensor(predictions), float32)
        labels = math.cast(convert_to_tensor(labels), float32)
        if not shapes.compatible(predictions._shape, labels._shape):
            raise ValueError(
                f"{default}: predictions {shapes.show(predictions._shape)} and labels {shapes.show(labels._shape)} "
                "must have one shape"
            )
        return compute_weighted_loss(formula(predictions, labels), weights, name, loss_collection, reduction)


def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """|predictions - labels|, weighted and reduced as compute_weighted_loss says."""

    def formula(p: Any, y: Any) -> Any:
        return math.abs(p - y)

    return _compared("absolute_difference", formula, labels, predictions, weights, scope, loss_collection, reduction)


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """(predictions - labels)^2."""
    formula = math.squared_difference
    return _compared("mean_squared_error", formula, labels, predictions, weights, scope, loss_collection, reduction)


def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """0.5 e^2 where |e| <= delta, else 0.5 delta^2 + delta (|e| - delta), with e = predictions - labels."""

    def formula(p: Any, y: Any) -> Any:
        size = math.abs(p - y)
        near = math.minimum(size, delta)
        return 0.5 * near * near + delta * (size - near)

    return _compared("huber_loss", formula, labels, predictions, weights, scope, loss_collection, reduction)


def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), of probabilities p."""

    def formula(p: Any, y: Any) -> Any:
        return -y * math.log(p + epsilon) - (1 - y) * math.log(1 - p + epsilon)

    return _compared("log_loss", formula, labels, predictions, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO,
) -> Any:  # fmt: skip
    """max(0, 1 - (2 y - 1) logits), of labels y that are 0 or 1."""

    def formula(z: Any, y: Any) -> Any:
        return nn.relu(1 - (2 * y - 1) * z)

    return _compared("hinge_loss", formula, labels, logits, weights, scope, loss_collection, reduction)


def cosine_distance(
    labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES, reduction: str = _BY_NONZERO, dim: int | None = None,
) -> Any:  # fmt: skip
    """1 - sum(predictions * labels) over `axis`, both being of unit length there already."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("cosine_distance: You must specify 'axis'")

    def formula(p: Any, y: Any) -> Any:
        return 1 - math_reduce.reduce_sum(math.multiply(p, y), axis=axis, keepdims=True)

    return _compared("cosine_distance_loss", formula, labels, predictions, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Any:  # fmt: skip
    """The squared difference between the differences of pairs: of each row, over all pairs of its elements, the mean of
    ((p_i - p_j) - (y_i - y_j))^2, weighted and averaged over the rows.

    labels, predictions: [batch, d0, ..., dN]. weights: a scalar, or [batch] with trailing sizes of 1.
    """
    with get_default_graph().name_scope(scope or "mean_pairwise_squared_error"):
        predictions = math.cast(convert_to_tensor(predictions), float32)
        labels = math.cast(convert_to_tensor(labels), float32)
        weights = math.cast(convert_to_tensor(weights), float32)
        diffs = math.subtract(predictions, labels)
        axes = math.range(1, array.rank(diffs))
        present = num_present(diffs, weights, per_batch=True)
        squares = math_reduce.reduce_sum(math.square(diffs), axis=axes, keepdims=True)
        sums = math_reduce.reduce_sum(diffs, axis=axes, keepdims=True)
        first = 2.0 * math.div_no_nan(squares, math.maximum(present - 1, 0))
        second = 2.0 * math.div_no_nan(math.square(sums), math.maximum(present * (present - 1), 0))
        weighted = math.multiply(first - second, weights)
        any_present = math.greater(math_reduce.reduce_sum(present), 0.0)
        total = math_reduce.reduce_sum(weighted)
        loss = array_select.where(any_present, total, array.zeros_like(total), name="value")
        add_loss(loss, loss_collection)
        return loss
