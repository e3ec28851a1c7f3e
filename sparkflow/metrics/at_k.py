"""Precision and recall of the k classes with the highest predictions; labels are class numbers, several a row."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, weights_for
from sparkflow.ops import array, array_join, array_select, math, math_reduce, sets, sparse
from sparkflow.ops.nn import top_k
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import float64, int64


def _is_sparse(value: Any) -> bool:
    return isinstance(value, (SparseTensor, SparseTensorValue))


def _as_labels(labels: Any, predictions: Any) -> Any:
    """int64 labels [..., n]; a row may have one label without an axis of its own."""
    if _is_sparse(labels):
        found = SparseTensor.from_value(labels)
        return SparseTensor(found.indices, math.cast(found.values, int64), found.dense_shape)
    labels = math.cast(convert_to_tensor(labels), int64)
    ranks = labels.shape.ndims, predictions.shape.ndims
    return array.expand_dims(labels, -1) if None not in ranks and ranks[0] + 1 == ranks[1] else labels


def _only(ids: Any, class_id: int | None) -> Any:
    """The ids that are class_id, or all without one."""
    if class_id is None:
        return ids
    if isinstance(ids, SparseTensor):
        return sparse.sparse_retain(ids, math.equal(ids.values, convert_to_tensor(class_id, int64)))
    column = array.fill(array_join.concat([array.shape(ids)[:-1], [1]], 0), convert_to_tensor(class_id, int64))
    return sets.set_intersection(ids, column)


def _sizes(found: SparseTensor) -> Any:
    return math.cast(sets.set_size(found), float64)


_SETS = {  # how many there are of each row, by the predicted ids and the labels
    "true_positive": lambda predicted, labels: sets.set_intersection(predicted, labels),
    "false_positive": lambda predicted, labels: sets.set_difference(predicted, labels),
    "false_negative": lambda predicted, labels: sets.set_difference(predicted, labels, aminusb=False),
}


def _counted(kind: str, predicted: Any, labels: Any, class_id: int | None, weights: Any, k: int | None) -> Any:
    """(what all batches so far have of it, the same with this one)."""
    label = f"{kind}_at_{k}" if class_id is None else f"{kind}_at_{k}_class{class_id}"
    sizes = _sizes(_SETS[kind](_only(predicted, class_id), _only(labels, class_id)))
    weights = weights_for(weights, sizes)
    if weights is not None:
        sizes = sizes * math.cast(weights, float64)
    total = metric_variable([], label, float64)
    return total, add_to(total, math_reduce.reduce_sum(sizes))


def _at_top_k(
    name: str, other: str, labels: Any, predictions_idx: Any, k: int | None, class_id: int | None, weights: Any,
    metrics: Collections, updates: Collections, scope: str | None,
) -> Any:  # fmt: skip
    """true positives / (true positives + other)."""
    default = f"{name}_at_{k}" if class_id is None else f"{name}_at_{k}_class{class_id}"
    with variable_scope(scope, default):
        predicted = math.cast(convert_to_tensor(predictions_idx), int64)
        labels = _as_labels(labels, predicted)
        hits, hits_update = _counted("true_positive", predicted, labels, class_id, weights, k)
        rest, rest_update = _counted(other, predicted, labels, class_id, weights, k)
        value = math.div(hits + 0.0, hits + rest, name=f"{name}_at_k")
        return published(value, math.div(hits_update, hits_update + rest_update, name="update"), metrics, updates)


def precision_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As precision_at_k, of the numbers of the k classes, [..., k]."""
    more = k, class_id, weights, metrics_collections, updates_collections, name
    return _at_top_k("precision", "false_positive", labels, predictions_idx, *more)


def recall_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As recall_at_k, of the numbers of the k classes, [..., k]."""
    more = k, class_id, weights, metrics_collections, updates_collections, name
    return _at_top_k("recall", "false_negative", labels, predictions_idx, *more)


def precision_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """How many of the k classes with the highest predictions [..., classes] are among the labels: (value, update_op).

    labels: int64 class numbers [..., n] or [...], or a SparseTensor. class_id: only rows that predict this class count.
    """
    more = k, class_id, weights, metrics_collections, updates_collections, name
    return precision_at_top_k(labels, top_k(predictions, k)[1], *more)


def recall_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """How many of the labels are among the k classes with the highest predictions, as precision_at_k."""
    more = k, class_id, weights, metrics_collections, updates_collections, name
    return recall_at_top_k(labels, top_k(predictions, k)[1], *more)


def sparse_precision_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """precision_at_k under its older name."""
    more = k, class_id, weights, metrics_collections, updates_collections, name
    return precision_at_k(labels, predictions, *more)


def _precisions(labels: Any, predicted: Any, k: int, classes: Any) -> Any:
    """Of each row the mean, over its labels, of the precision up to the rank that holds one: nan of a row without.

    Labels that are no classes do not count, those that repeat do; in a SparseTensor all of the first are one label,
    and so are the second.
    """
    nothing = int64.min
    if isinstance(labels, SparseTensor):
        known = sparse.sparse_tensor_to_dense(labels, nothing, validate_indices=False)
        beyond = math.greater_equal(labels.values, classes)
        values = array_select.where(beyond, array.zeros_like(labels.values) - 1, labels.values)
        count = _sizes(SparseTensor(labels.indices, values, labels.dense_shape))
    else:
        known = labels
        inside = math.logical_and(math.greater_equal(labels, 0), math.less(labels, classes))
        count = math_reduce.reduce_sum(math.cast(inside, float64), -1)
    same = math.equal(array.expand_dims(predicted, -1), array.expand_dims(known, -2))
    hits = math.cast(math_reduce.reduce_any(same, -1), float64)
    ranks = math.cast(math.range(1, k + 1), float64)
    summed = math_reduce.reduce_sum(math_reduce.cumsum(hits, -1) / ranks * hits, -1)
    return math.divide(summed, math.minimum(count, convert_to_tensor(k, float64)))


def average_precision_at_k(
    labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The mean over all rows of the average precision among the k classes with the highest predictions: (value,
    update_op). Labels as of precision_at_k. Source: information retrieval's AP@k."""
    if k < 1:
        raise ValueError(f"Invalid k={k}.")
    with variable_scope(name, f"average_precision_at_{k}"):
        predictions = convert_to_tensor(predictions)
        predicted, classes = math.cast(top_k(predictions, k)[1], int64), array.shape(predictions, out_type=int64)[-1]
        found = _precisions(_as_labels(labels, predicted), predicted, k, classes)
        weights = weights_for(weights, found)
        if weights is None:
            number = math.cast(array.size(found), float64)
        else:
            weights = math.cast(weights, float64)
            found, number = found * weights, math_reduce.reduce_sum(weights)
        most, total = metric_variable([], "max", float64), metric_variable([], "total", float64)
        with get_default_graph().control_dependencies([found]):
            grown, more = add_to(most, number), add_to(total, math_reduce.reduce_sum(found))
        value = math.div_no_nan(total + 0.0, most, name="mean")
        update = math.div_no_nan(more, grown, name="update")
        return published(value, update, metrics_collections, updates_collections)


def sparse_average_precision_at_k(
    labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """average_precision_at_k under its older name."""
    return average_precision_at_k(labels, predictions, k, weights, metrics_collections, updates_collections, name)
