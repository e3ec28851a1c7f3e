"""auc: the area under a curve that is drawn through the counts at many thresholds."""

from __future__ import annotations

from typing import Any

from sparkflow.metrics.confusion import confusion_at
from sparkflow.metrics.streaming import Collections, published
from sparkflow.ops import math, math_reduce
from sparkflow.ops.variable_scope import variable_scope

_EDGE, _EPSILON = 1e-7, 1e-6
_KINDS = ("true_positives", "false_negatives", "true_negatives", "false_positives")
_SUMMATIONS = {
    "trapezoidal": lambda a, b: (a + b) / 2.0,
    "minoring": math.minimum,
    "majoring": math.maximum,
}


def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Collections = None, updates_collections: Collections = None, curve: str = "ROC",
    name: str | None = None, summation_method: str = "trapezoidal", thresholds: Any = None,
) -> Any:  # fmt: skip
    """The area under the ROC or the precision-recall ('PR') curve: (value, update_op).

    labels: cast to bool. predictions: probabilities in [0, 1]. thresholds: between 0 and 1, instead of num_thresholds
    even ones. summation_method: 'trapezoidal', 'minoring', 'majoring'; for 'PR' also 'careful_interpolation'.
    Source of the last: Davis and Goadrich, The Relationship Between Precision-Recall and ROC Curves (2006).
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"auc: curve must be either ROC or PR, {curve!r} is unknown")
    if summation_method not in (*_SUMMATIONS, "careful_interpolation"):
        raise ValueError(f"auc: Invalid summation_method: {summation_method!r}")
    if summation_method == "careful_interpolation" and curve != "PR":
        raise ValueError("auc: careful_interpolation is of the PR curve; use trapezoidal for ROC")
    with variable_scope(name, "auc"):
        inner = sorted(thresholds) if thresholds is not None else _even(num_thresholds)
        limits = [-_EDGE, *inner, 1.0 + _EDGE]
        found = confusion_at(labels, predictions, limits, weights, _KINDS)
        value, update = (_area(counts, curve, summation_method, len(limits)) for counts in found)
        return published(value, update, metrics_collections, updates_collections)


def _even(count: int) -> list[float]:
    return [(i + 1) / (count - 1) for i in range(count - 2)]


def _area(counts: dict[str, Any], curve: str, method: str, n: int) -> Any:
    hit, missed, rejected, wrong = (counts[kind] for kind in _KINDS)
    if method == "careful_interpolation":
        return _interpolated(hit, missed, wrong, n)
    recall = (hit + _EPSILON) / (hit + missed + _EPSILON)
    if curve == "ROC":
        x, y = wrong / (wrong + rejected + _EPSILON), recall
    else:
        x, y = recall, (hit + _EPSILON) / (hit + wrong + _EPSILON)
    heights = _SUMMATIONS[method](y[: n - 1], y[1:])
    return math_reduce.reduce_sum((x[: n - 1] - x[1:]) * heights)


def _interpolated(hit: Any, missed: Any, wrong: Any, n: int) -> Any:
    """Between two thresholds true positives grow linearly with all positives, and precision follows from both."""
    steps = hit[: n - 1] - hit[1:]
    positives = hit + wrong
    slope = math.div_no_nan(steps, math.maximum(positives[: n - 1] - positives[1:], 0.0))
    intercept = hit[1:] - slope * positives[1:]
    grows = math.logical_and(math.greater(positives[: n - 1], 0.0), math.greater(positives[1:], 0.0))
    ratio = math.div_no_nan(positives[: n - 1], math.maximum(positives[1:], 0.0))
    safe = math.cast(grows, ratio.dtype) * ratio + (1.0 - math.cast(grows, ratio.dtype))
    areas = slope * (steps + intercept * math.log(safe))
    return math_reduce.reduce_sum(math.div_no_nan(areas, math.maximum(hit[1:] + missed[1:], 0.0)))
