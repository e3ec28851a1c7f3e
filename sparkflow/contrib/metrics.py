"""tf.contrib.metrics: tf.metrics under its older home, where predictions come before labels, and covariances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow import metrics
from sparkflow.contrib.metric_choices import count, f1_score, precision_at_recall, recall_at_precision
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.metrics import *
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, weights_for
from sparkflow.ops import array, array_select, math, math_reduce
from sparkflow.ops.array_made import confusion_matrix
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import float32

streaming_mean, streaming_mean_tensor = metrics.mean, metrics.mean_tensor
streaming_percentage_less = metrics.percentage_below


_MOMENTS = ("count", "mean_prediction", "mean_label", "comoment")


def _turned(metric: Callable[..., Any]) -> Callable[..., Any]:
    """The metric with predictions before labels."""

    def streaming(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(labels, predictions, *args, **kwargs)

    streaming.__name__ = streaming.__qualname__ = f"streaming_{metric.__name__}"
    streaming.__doc__ = f"tf.metrics.{metric.__name__}(labels, predictions, ...)."
    return streaming


streaming_accuracy, streaming_auc = _turned(metrics.accuracy), _turned(metrics.auc)
streaming_precision, streaming_recall = _turned(metrics.precision), _turned(metrics.recall)
streaming_precision_at_thresholds = _turned(metrics.precision_at_thresholds)
streaming_recall_at_thresholds = _turned(metrics.recall_at_thresholds)
streaming_true_positives_at_thresholds = _turned(metrics.true_positives_at_thresholds)
streaming_true_negatives_at_thresholds = _turned(metrics.true_negatives_at_thresholds)
streaming_false_positives_at_thresholds = _turned(metrics.false_positives_at_thresholds)
streaming_false_negatives_at_thresholds = _turned(metrics.false_negatives_at_thresholds)
streaming_mean_iou = _turned(metrics.mean_iou)
streaming_mean_absolute_error = _turned(metrics.mean_absolute_error)
streaming_mean_relative_error = _turned(metrics.mean_relative_error)
streaming_mean_squared_error = _turned(metrics.mean_squared_error)
streaming_root_mean_squared_error = _turned(metrics.root_mean_squared_error)
streaming_mean_cosine_distance = _turned(metrics.mean_cosine_distance)
streaming_sparse_precision_at_k = _turned(metrics.precision_at_k)
streaming_sparse_recall_at_k = _turned(metrics.recall_at_k)
streaming_sparse_average_precision_at_k = _turned(metrics.average_precision_at_k)
streaming_sensitivity_at_specificity = _turned(metrics.sensitivity_at_specificity)
streaming_specificity_at_sensitivity = _turned(metrics.specificity_at_sensitivity)
streaming_true_positives = _turned(metrics.true_positives)
streaming_true_negatives = _turned(metrics.true_negatives)
streaming_false_positives = _turned(metrics.false_positives)
streaming_false_negatives = _turned(metrics.false_negatives)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:  # type: ignore[no-redef]
    """How often predictions equal labels in this batch alone. Raises ValueError on different types or shapes."""
    predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
    if predictions.dtype.base_dtype is not labels.dtype.base_dtype or labels.dtype.is_floating:
        raise ValueError(
            f"accuracy: predictions and labels must be of one type, not floats, got {predictions} and {labels}"
        )
    predictions.shape.assert_is_compatible_with(labels.shape)
    with get_default_graph().name_scope(name or "accuracy"):
        hits = math.cast(math.equal(predictions, labels), float32)
        if weights is None:
            return math_reduce.reduce_mean(hits)
        return math.div_no_nan(math_reduce.reduce_sum(hits * weights), math_reduce.reduce_sum(weights))


def streaming_covariance(
    predictions: Any, labels: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The unbiased covariance of all values so far, NaN below two: (value, update_op). Source: Chan et al. 1979."""
    with variable_scope(name, "covariance"):
        x, y = (math.cast(convert_to_tensor(t), float32) for t in (predictions, labels))
        x.shape.assert_is_compatible_with(y.shape)
        number_of, mean_x, mean_y, joint = (metric_variable([], n) for n in _MOMENTS)
        own = weights_for(weights, x)
        share = array.ones_like(x) if own is None else own
        number = math_reduce.reduce_sum(share)
        batch_x, batch_y = (math.div_no_nan(math_reduce.reduce_sum(t * share), number) for t in (x, y))
        within = math_reduce.reduce_sum((x - batch_x) * (y - batch_y) * share)
        before_x, before_y, before = (array.identity(v) for v in (mean_x, mean_y, number_of))
        part = math.div_no_nan(number, before + number)
        moved = within + (batch_x - before_x) * (batch_y - before_y) * before * part
        with get_default_graph().control_dependencies([moved]):
            steps = [add_to(joint, moved), add_to(number_of, number)]
            steps += [add_to(mean_x, (batch_x - before_x) * part), add_to(mean_y, (batch_y - before_y) * part)]
        value = _unbiased(joint, number_of, "covariance")
        with get_default_graph().control_dependencies(steps):
            update = _unbiased(steps[0], steps[1], "update_op")
        return published(value, update, metrics_collections, updates_collections)


def _unbiased(joint: Any, number: Any, name: str) -> Any:
    known = math.greater(number, 1.0)
    return array_select.where(known, math.truediv(joint, number - 1.0), float("nan"), name=name)


def streaming_pearson_correlation(
    predictions: Any, labels: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The covariance over the product of both deviations: (value, update_op)."""
    with variable_scope(name, "pearson_r"):
        both = streaming_covariance(predictions, labels, weights, name="covariance")
        squares = [streaming_covariance(t, t, weights, name=n) for t, n in (
            (predictions, "variance_predictions"), (labels, "variance_labels"))]  # fmt: skip
        value, update = (math.truediv(c, math.sqrt(a) * math.sqrt(b)) for c, a, b in zip(both, *squares, strict=True))
        return published(value, update, metrics_collections, updates_collections)


def aggregate_metrics(*value_update_tuples: Any) -> tuple[list[Any], list[Any]]:
    """(all values, all update ops) of metrics. Raises ValueError without any."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """({name: value}, {name: update op}) of {name: metric}."""
    values = {name: pair[0] for name, pair in names_to_tuples.items()}
    return values, {name: pair[1] for name, pair in names_to_tuples.items()}
