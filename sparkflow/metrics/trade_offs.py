"""What can be had of one rate where another one is given: found among many thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.metrics.confusion import confusion_at
from sparkflow.metrics.curves import _EDGE, _even
from sparkflow.metrics.streaming import Collections, published
from sparkflow.ops import math, math_reduce
from sparkflow.ops.variable_scope import variable_scope

_KINDS = ("true_positives", "false_negatives", "true_negatives", "false_positives")


def _sensitivity(counts: dict[str, Any]) -> Any:
    return counts["true_positives"] / (counts["true_positives"] + counts["false_negatives"] + _EDGE)


def _specificity(counts: dict[str, Any]) -> Any:
    return counts["true_negatives"] / (counts["true_negatives"] + counts["false_positives"] + _EDGE)


def at_thresholds(
    scope: str, kinds: Sequence[str], choice: Callable[[dict[str, Any]], Any], labels: Any, predictions: Any,
    weights: Any, num_thresholds: int, metrics: Collections, updates: Collections, name: str | None,
) -> Any:  # fmt: skip
    """choice(counts of these kinds, each [num_thresholds], of all batches so far): (value, update_op)."""
    with variable_scope(name, scope):
        limits = [-_EDGE, *_even(num_thresholds), 1.0 + _EDGE]
        value, update = (choice(counts) for counts in confusion_at(labels, predictions, limits, weights, kinds))
        return published(value, update, metrics, updates)


def _traded(scope: str, given: Any, wanted: Any, rate: float, last: bool, *more: Any) -> Any:
    """`wanted` at the threshold (the first, or the last of several) where `given` is nearest to the rate."""

    def choice(counts: dict[str, Any]) -> Any:
        far = math.abs(given(counts) - rate)
        nearest = math.cast(math.equal(far, math_reduce.reduce_min(far)), "int64")
        return wanted(counts)[math_reduce.argmax(math_reduce.cumsum(nearest) if last else nearest, 0)]

    return at_thresholds(scope, _KINDS, choice, *more)


def sensitivity_at_specificity(
    labels: Any, predictions: Any, specificity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """How many of the positives are found at the threshold that finds that part of the negatives: (value, update_op).

    Raises ValueError unless 0 <= specificity <= 1.
    """
    if not 0 <= specificity <= 1:
        raise ValueError(f"`specificity` must be in the range [0, 1]. Currently, `specificity` got {specificity}.")
    more = labels, predictions, weights, num_thresholds, metrics_collections, updates_collections, name
    return _traded("sensitivity_at_specificity", _specificity, _sensitivity, specificity, False, *more)


def specificity_at_sensitivity(
    labels: Any, predictions: Any, sensitivity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, name: str | None = None,
) -> Any:  # fmt: skip
    """How many of the negatives are found at the threshold that finds that part of the positives: (value, update_op).

    Raises ValueError unless 0 <= sensitivity <= 1.
    """
    if not 0 <= sensitivity <= 1:
        raise ValueError(f"`sensitivity` must be in the range [0, 1]. Currently, `sensitivity` got {sensitivity}.")
    more = labels, predictions, weights, num_thresholds, metrics_collections, updates_collections, name
    return _traded("specificity_at_sensitivity", _sensitivity, _specificity, sensitivity, True, *more)
