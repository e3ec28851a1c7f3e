"""Metrics of tf.contrib.metrics that choose among thresholds, and the number of what was weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.metrics.curves import _EDGE
from sparkflow.metrics.streaming import Collections, add_to, metric_variable, published, weights_for
from sparkflow.metrics.trade_offs import at_thresholds
from sparkflow.ops import array, array_select, math, math_reduce
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire.dtypes import float32

_KINDS = ("true_positives", "false_positives", "false_negatives")


def _chosen(scope: str, choice: Callable[[Any, Any, Any], Any], *more: Any) -> Any:
    """choice(counts, precisions, recalls), each [num_thresholds], of all batches so far: (value, update_op)."""

    def of_rates(counts: dict[str, Any]) -> Any:
        hits, wrong, missed = (counts[kind] for kind in _KINDS)
        return choice(counts, hits / (_EDGE + hits + wrong), hits / (_EDGE + hits + missed))

    return at_thresholds(scope, _KINDS, of_rates, *more)


def f1_score(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The highest harmonic mean of precision and recall that a threshold gives: (value, update_op)."""

    def best(counts: Any, precisions: Any, recalls: Any) -> Any:
        return math_reduce.reduce_max(2.0 * precisions * recalls / (precisions + recalls + _EDGE))

    return _chosen("f1", best, labels, predictions, weights, num_thresholds, metrics_collections, updates_collections,
                   name)  # fmt: skip


def recall_at_precision(
    labels: Any, predictions: Any, precision: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
    strict_mode: bool = False,
) -> Any:  # fmt: skip
    """The recall where precision is nearest to that one: (value, update_op).

    strict_mode: where it is least of those that are not below; 0.0 where all are. Raises ValueError unless
    0 <= precision <= 1.
    """
    if not 0 <= precision <= 1:
        raise ValueError(f"recall_at_precision: `precision` must be in the range [0, 1], got {precision}")

    def nearest(counts: Any, precisions: Any, recalls: Any) -> Any:
        beyond = precisions - precision
        if not strict_mode:
            return recalls[math_reduce.argmin(math.abs(beyond), 0)]
        at = math_reduce.argmax(1.0 / (beyond + _EDGE), 0)  # the least that is above 0, where there is one
        return array_select.where(math.greater_equal(precisions[at], precision), recalls[at], 0.0)

    return _chosen("recall_at_precision", nearest, labels, predictions, weights, num_thresholds, metrics_collections,
                   updates_collections, name)  # fmt: skip


def precision_at_recall(
    labels: Any, predictions: Any, target_recall: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """The precision at the highest threshold whose recall is not below that one: (value, update_op).

    Raises ValueError unless 0 <= target_recall <= 1.
    """
    if not 0 <= target_recall <= 1:
        raise ValueError(f"precision_at_recall: `target_recall` must be in the range [0, 1], got {target_recall}")

    def last(counts: Any, precisions: Any, recalls: Any) -> Any:
        enough = math.cast(math.greater_equal(recalls, target_recall), "int64")
        at = math_reduce.reduce_sum(enough) - 1  # recalls fall from threshold to threshold
        hits, wrong = counts["true_positives"][at], counts["false_positives"][at]
        return (hits + _EDGE) / (hits + wrong + _EDGE)

    return _chosen("precision_at_recall", last, labels, predictions, weights, num_thresholds, metrics_collections,
                   updates_collections, name)  # fmt: skip


def count(
    values: Any, weights: Any = None, metrics_collections: Collections = None, updates_collections: Collections = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """How many values there were so far, or the sum of their weights, by which metrics.mean divides."""
    with variable_scope(name, "count"):
        values, total = convert_to_tensor(values), metric_variable([], "count")
        weighed = weights_for(weights, values)
        number = math.cast(array.size(values), float32) if weighed is None else math_reduce.reduce_sum(weighed)
        with get_default_graph().control_dependencies([values]):
            update = add_to(total, number)
        return published(array.identity(total), update, metrics_collections, updates_collections)
