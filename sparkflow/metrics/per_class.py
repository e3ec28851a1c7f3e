"""Metrics that are kept for every class: accuracy, and intersection over union."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, weights_for
from sparkflow.ops import array, array_select, math, math_reduce
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import float32, float64, int64


def _flat(labels: Any, predictions: Any, weights: Any) -> tuple[Any, Any, Any]:
    labels, predictions = (math.cast(convert_to_tensor(t), int64) for t in (labels, predictions))
    weights = weights_for(weights, labels)
    flat = array.ones_like(labels, dtype=float32) if weights is None else weights
    return tuple(array.reshape(t, [-1]) for t in (labels, predictions, flat))  # type: ignore[return-value]


def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """(the mean over all classes of the accuracy within the class, update_op of the accuracies [num_classes])."""
    with variable_scope(name, "mean_accuracy"):
        labels, predictions, weights = _flat(labels, predictions, weights)
        total, count = metric_variable([num_classes], "total"), metric_variable([num_classes], "count")
        hits = math.cast(math.equal(labels, predictions), float32) * weights
        counted = add_to(count, math_reduce.unsorted_segment_sum(weights, labels, num_classes))
        added = add_to(total, math_reduce.unsorted_segment_sum(hits, labels, num_classes))
        value = math_reduce.reduce_mean(math.div_no_nan(total, count), name="mean_accuracy")
        update = math.div_no_nan(added, counted, name="update_op")
        return published(value, update, metrics_collections, updates_collections)


def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """(the mean over classes seen of true positives / (true positives + false positives + false negatives), update_op
    of the confusion matrix [num_classes, num_classes], rows being labels)."""
    with variable_scope(name, "mean_iou"):
        labels, predictions, weights = _flat(labels, predictions, weights)
        matrix = metric_variable([num_classes, num_classes], "total_confusion_matrix", float64)  # float32 ends at 2**24
        weights = math.cast(weights, float64)
        pairs = math_reduce.unsorted_segment_sum(weights, labels * num_classes + predictions, num_classes * num_classes)
        update = add_to(matrix, array.reshape(pairs, [num_classes, num_classes]))
        both = math_reduce.reduce_sum(matrix, 0) + math_reduce.reduce_sum(matrix, 1)
        eye = array_select.one_hot(list(range(num_classes)), num_classes, dtype=float64)
        true = math_reduce.reduce_sum(matrix * eye, 0)
        hits, union = math.cast(true, float32), math.cast(both - true, float32)
        seen = math_reduce.reduce_sum(math.cast(math.not_equal(union, 0.0), float32))
        value = math.div_no_nan(math_reduce.reduce_sum(math.div_no_nan(hits, union)), seen, name="mean_iou")
        return published(value, update, metrics_collections, updates_collections)
