"""What libraries take from the file of TensorFlow's metrics that has no public name there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.metrics import confusion, streaming
from sparkflow.ops import math

metric_variable = streaming.metric_variable
_KINDS = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives", "fp": "false_positives"}


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """All three with one rank, by a last size of 1 taken away or, of weights, put there; scalar weights stay."""
    if labels is None:
        predictions = convert_to_tensor(predictions)
    else:
        labels, predictions = streaming.same_rank(labels, predictions)
    return predictions, labels, None if weights is None else streaming.of_rank(convert_to_tensor(weights), predictions)


def _confusion_matrix_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    includes: Sequence[str] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """({key: value}, {key: update_op}), each [len(thresholds)]; the keys are those of includes, else all of _KINDS.

    Raises ValueError on another key.
    """
    keys = tuple(_KINDS) if includes is None else tuple(includes)
    for key in keys:
        if key not in _KINDS:
            raise ValueError(f"Invalid key: {key!r}; there are {', '.join(_KINDS)}")
    found = confusion.confusion_at(labels, predictions, thresholds, weights, [_KINDS[key] for key in keys])
    values, updates = ({key: counts[_KINDS[key]] for key in keys} for counts in found)
    return values, updates


def _safe_scalar_div(numerator: Any, denominator: Any, name: str | None) -> Any:
    return math.div_no_nan(numerator, denominator, name=name)
