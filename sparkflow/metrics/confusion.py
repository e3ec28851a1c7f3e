"""True and false positives and negatives, alone, at thresholds, and as precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, same_rank, weights_for
from sparkflow.ops import array, checks, math, math_reduce
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import bool_, float32

_KINDS = {  # what a prediction is called, by (label, prediction)
    "true_positives": (True, True),
    "false_negatives": (True, False),
    "false_positives": (False, True),
    "true_negatives": (False, False),
}


def _is(flag: Any, wanted: bool) -> Any:
    return flag if wanted else math.logical_not(flag)


def _count(
    kind: str, labels: Any, predictions: Any, weights: Any, metrics: Collections, updates: Collections, name: str | None
) -> Any:
    """(value, update_op) of the weighted number of one kind; labels and predictions are cast to bool."""
    with variable_scope(name, kind):
        labels, predictions = (math.cast(t, bool_) for t in same_rank(labels, predictions))
        label, prediction = _KINDS[kind]
        hits = math.cast(math.logical_and(_is(labels, label), _is(predictions, prediction)), float32)
        weights = weights_for(weights, hits)
        count = metric_variable([], "count")
        update = add_to(count, math_reduce.reduce_sum(hits if weights is None else hits * weights))
        return published(array.identity(count), update, metrics, updates)


def _counter(kind: str) -> Any:
    def counter(
        labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
        updates_collections: Collections = None, name: str | None = None,
    ) -> Any:  # fmt: skip
        return _count(kind, labels, predictions, weights, metrics_collections, updates_collections, name)

    counter.__name__ = counter.__qualname__ = kind
    counter.__doc__ = f"The weighted number of {kind.replace('_', ' ')}: (value, update_op). Inputs are cast to bool."
    return counter


true_positives, false_negatives = _counter("true_positives"), _counter("false_negatives")
false_positives, true_negatives = _counter("false_positives"), _counter("true_negatives")


def precision(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """True positives by all predicted positives; 0 where there are none."""
    with variable_scope(name, "precision"):
        hit, hit_update = true_positives(labels, predictions, weights)
        wrong, wrong_update = false_positives(labels, predictions, weights)
        value = math.div_no_nan(hit, hit + wrong, name="value")
        update = math.div_no_nan(hit_update, hit_update + wrong_update, name="update_op")
        return published(value, update, metrics_collections, updates_collections)


def recall(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Collections = None,
    updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """True positives by all actual positives; 0 where there are none."""
    with variable_scope(name, "recall"):
        hit, hit_update = true_positives(labels, predictions, weights)
        missed, missed_update = false_negatives(labels, predictions, weights)
        value = math.div_no_nan(hit, hit + missed, name="value")
        update = math.div_no_nan(hit_update, hit_update + missed_update, name="update_op")
        return published(value, update, metrics_collections, updates_collections)


# ---------------------------------------------------------------------------- at thresholds


def confusion_at(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, kinds: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """({kind: value}, {kind: update_op}), each [len(thresholds)]: a prediction is positive above the threshold.

    labels: cast to bool; predictions: floats of the same shape, flattened together. Its run raises
    InvalidArgumentError where one is not in [0, 1].
    """
    labels, predictions = same_rank(labels, _chances(predictions))
    weights = weights_for(weights, predictions)
    actual = array.reshape(math.cast(labels, bool_), [1, -1])
    limits = array.reshape(constant(list(thresholds), float32), [-1, 1])
    positive = math.greater(array.reshape(math.cast(predictions, float32), [1, -1]), limits)
    row = None if weights is None else array.reshape(weights, [1, -1])
    values, updates = {}, {}
    for kind in kinds:
        label, prediction = _KINDS[kind]
        hits = math.cast(math.logical_and(_is(actual, label), _is(positive, prediction)), float32)
        count = metric_variable([len(thresholds)], kind)
        updates[kind] = add_to(count, math_reduce.reduce_sum(hits if row is None else hits * row, axis=1))
        values[kind] = array.identity(count)
    return values, updates


def _chances(predictions: Any) -> Any:
    """The predictions, once they are known to be none of logits, nan or classes."""
    found = convert_to_tensor(predictions)
    limits = [(checks.assert_greater_equal, 0), (checks.assert_less_equal, 1)]
    fits = [check(found, math.cast(b, found.dtype), message="predictions must be in [0, 1]") for check, b in limits]
    with get_default_graph().control_dependencies(fits):
        return array.identity(found)


def _counter_at_thresholds(kind: str) -> Any:
    def counter(
        labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any = None,
        metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
    ) -> Any:  # fmt: skip
        with variable_scope(name, kind):
            values, updates = confusion_at(labels, predictions, thresholds, weights, [kind])
            return published(values[kind], updates[kind], metrics_collections, updates_collections)

    counter.__name__ = counter.__qualname__ = f"{kind}_at_thresholds"
    counter.__doc__ = f"The weighted number of {kind.replace('_', ' ')} at each threshold."
    return counter


true_positives_at_thresholds = _counter_at_thresholds("true_positives")
false_negatives_at_thresholds = _counter_at_thresholds("false_negatives")
false_positives_at_thresholds = _counter_at_thresholds("false_positives")
true_negatives_at_thresholds = _counter_at_thresholds("true_negatives")
_EPSILON = 1e-7


def _ratio_at(
    other: str, default: str, labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any,
    metrics: Collections, updates: Collections, name: str | None,
) -> Any:  # fmt: skip
    with variable_scope(name, default):
        kinds = ("true_positives", other)
        found = confusion_at(convert_to_tensor(labels), predictions, thresholds, weights, kinds)
        value, update = (math.divide(c[kinds[0]], _EPSILON + c[kinds[0]] + c[other]) for c in found)
        return published(value, update, metrics, updates)


def precision_at_thresholds(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """precision at each threshold."""
    return _ratio_at("false_positives", "precision_at_thresholds", labels, predictions, thresholds, weights,
                     metrics_collections, updates_collections, name)  # fmt: skip


def recall_at_thresholds(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any = None,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """recall at each threshold."""
    return _ratio_at("false_negatives", "recall_at_thresholds", labels, predictions, thresholds, weights,
                     metrics_collections, updates_collections, name)  # fmt: skip
