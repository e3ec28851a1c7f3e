"""Metrics that are means: of values, of what a comparison gives, of hits."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, same_rank, weights_for
from sparkflow.ops import array, math, math_reduce
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import float32


def mean(
    values: Any, weights: Any = None, metrics_collections: Collections = None, updates_collections: Collections = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The weighted mean of all values seen: (value, update_op), scalars of float32. 0 before the first update.

    weights: None, a scalar, or of the rank of values with every size equal or 1.
    """
    with variable_scope(name, "mean"):
        values = math.cast(convert_to_tensor(values), float32)
        total, count = metric_variable([], "total"), metric_variable([], "count")
        weights = weights_for(weights, values)
        if weights is None:
            number = math.cast(array.size(values), float32)
        else:
            values, number = values * weights, math_reduce.reduce_sum(weights)
        return _ratio(total, count, math_reduce.reduce_sum(values), number, metrics_collections, updates_collections)


def _ratio(total: Any, count: Any, more: Any, number: Any, metrics: Collections, updates: Collections) -> Any:
    added = add_to(total, more)
    with get_default_graph().control_dependencies([more]):
        counted = add_to(count, number)
    value = math.div_no_nan(total, count, name="value")
    return published(value, math.div_no_nan(added, counted, name="update_op"), metrics, updates)


def mean_tensor(
    values: Any, weights: Any = None, metrics_collections: Collections = None, updates_collections: Collections = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """As mean, element by element: values must have one known shape."""
    with variable_scope(name, "mean"):
        values = math.cast(convert_to_tensor(values), float32)
        shape = values.shape.as_list()
        total, count = metric_variable(shape, "total_tensor"), metric_variable(shape, "count_tensor")
        weights = weights_for(weights, values)
        number = array.ones_like(values) if weights is None else weights
        return _ratio(total, count, values * number, number, metrics_collections, updates_collections)


def accuracy(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """How often predictions equal labels. A last size of 1 that one of them has is squeezed away."""
    labels, predictions = same_rank(labels, predictions)
    if labels.dtype != predictions.dtype:
        predictions = math.cast(predictions, labels.dtype)
    hits = math.cast(math.equal(predictions, labels), float32)
    return mean(hits, weights, metrics_collections, updates_collections, name or "accuracy")


def _floats(labels: Any, predictions: Any) -> tuple[Any, Any]:
    labels, predictions = same_rank(labels, predictions)
    return math.cast(labels, float32), math.cast(predictions, float32)


def mean_absolute_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The mean of |predictions - labels|."""
    labels, predictions = _floats(labels, predictions)
    errors = math.abs(predictions - labels)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The mean of (predictions - labels)^2."""
    labels, predictions = _floats(labels, predictions)
    squares = math.squared_difference(labels, predictions)
    return mean(squares, weights, metrics_collections, updates_collections, name or "mean_squared_error")


def root_mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The square root of mean_squared_error."""
    value, update = mean_squared_error(labels, predictions, weights, name=name or "root_mean_squared_error")
    return published(math.sqrt(value), math.sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The mean of |labels - predictions| / normalizer, 0 where the normalizer is 0."""
    labels, predictions = _floats(labels, predictions)
    relative = math.div_no_nan(math.abs(labels - predictions), math.cast(convert_to_tensor(normalizer), float32))
    return mean(relative, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(
    labels: Any, predictions: Any, dim: int, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """1 minus the mean of the sums of labels * predictions over `dim`, both of unit length there."""
    labels, predictions = _floats(labels, predictions)
    cosines = math_reduce.reduce_sum(math.multiply(predictions, labels), axis=dim, keepdims=True)
    value, update = mean(cosines, weights, name=name or "mean_cosine_distance")
    return published(1.0 - value, 1.0 - update, metrics_collections, updates_collections)


def percentage_below(
    values: Any, threshold: float, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The fraction of values below the threshold."""
    below = math.cast(math.less(convert_to_tensor(values), threshold), float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")
