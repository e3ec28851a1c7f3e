"""Metrics of tf.contrib.learn's evaluations: MetricSpec, and functions of predictions and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.signatures import fn_args
from sparkflow.ops import array
from sparkflow.ops.state import assign
from sparkflow.ops.variables import Variable

_NAMES = {
    "labels": ("labels", "label", "targets", "target"),
    "predictions": ("predictions", "prediction", "logits", "logit"),
    "weights": ("weights", "weight"),
}


class MetricSpec:
    """metric_fn gives (value, update) or a value. It is handed labels and weights where it has an argument of such a
    name, and predictions by their name or as its first argument (its second, where labels are the first).

    prediction_key, label_key, weight_key: which of the predictions, labels and features it is of, where they are dicts
    of several. Without weight_key, without weights. Raises ValueError where labels or weights are asked of a function
    that takes none, or that takes two of a kind.
    """

    def __init__(
        self, metric_fn: Callable[..., Any], prediction_key: str | None = None, label_key: str | None = None,
        weight_key: str | None = None,
    ):  # fmt: skip
        self._called, self._prediction_key, self._label_key = metric_fn, prediction_key, label_key
        self._weight_key, self._names = weight_key, _named(metric_fn)
        for kind, key in (("labels", label_key), ("weights", weight_key)):
            if key is not None and kind not in self._names:
                what = f"metric_fn ({metric_fn}) takes no {kind}, but {kind[:-1]}_key is {key!r}"
                raise ValueError(f"{what}: leave that out")

    def metric_fn(self, labels: Any = None, predictions: Any = None, weights: Any = None) -> Any:
        """The function given, with its arguments by these names."""
        given = {"labels": labels, "weights": weights} if weights is not None else {"labels": labels}
        named = {self._names[kind]: value for kind, value in given.items() if kind in self._names}
        if "predictions" in self._names:
            return self._called(**named, **{self._names["predictions"]: predictions})
        if "labels" in self._names and fn_args(self._called)[0] == self._names["labels"]:
            return self._called(named.pop(self._names["labels"]), predictions, **named)
        return self._called(predictions, **named)

    prediction_key = property(lambda self: self._prediction_key)
    label_key = property(lambda self: self._label_key)
    weight_key = property(lambda self: self._weight_key)

    def __str__(self) -> str:
        keys = ("prediction_key", "label_key", "weight_key")
        said = ", ".join(f"{key}={getattr(self, key)}" for key in keys)
        return f"MetricSpec(metric_fn={getattr(self._called, '__name__', self._called)}, {said})"

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """inputs: the features."""
        chosen = _one("prediction", predictions, self._prediction_key)
        weights = None if self._weight_key is None else _one("weight", inputs, self._weight_key)
        return self.metric_fn(_one("label", labels, self._label_key), chosen, weights)


def _named(metric_fn: Callable[..., Any]) -> dict[str, str]:
    """By kind, the function's argument of that kind."""
    found = {}
    for kind, names in _NAMES.items():
        there = [name for name in fn_args(metric_fn) if name in names]
        if len(there) > 1:
            raise ValueError(f"metric_fn ({metric_fn}): ambiguous arguments {there}, it may have one of {names}")
        if there:
            found[kind] = there[0]
    return found


def metric_ops(metrics: Mapping[Any, Any], features: Any, labels: Any, predictions: Any) -> dict[str, Any]:
    """(value, update) of each metric by its name: a MetricSpec, or a function of (predictions, labels), whose key may
    be (name, which of the predictions). Raises ValueError where which is not said and there are several."""
    found = {}
    for key, metric in metrics.items():
        name, which = key if isinstance(key, tuple) else (key, None)
        if isinstance(metric, MetricSpec):
            made = metric.create_metric_ops(features, labels, predictions)
        elif {"labels", "predictions"} <= _named(metric).keys():
            made = MetricSpec(metric, which).create_metric_ops(features, labels, predictions)
        else:
            made = metric(_one("prediction", predictions, which), labels)
        found[name] = made if isinstance(made, tuple) else _last(made)
    return found


def _last(value: Any) -> tuple[Any, Any]:
    """Of the last batch: asked after it, the value would want one more."""
    value = convert_to_tensor(value)
    known = value.shape.is_fully_defined()
    start = array.zeros(value.shape.as_list() if known else [], value.dtype)
    kept = Variable(start, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=known)
    return kept.read_value(), assign(kept, value, validate_shape=known)


def _one(what: str, given: Any, key: str | None) -> Any:
    if not isinstance(given, Mapping):
        if key is not None:
            raise ValueError(f"MetricSpec with {what}_key={key!r} requires a dict of {what}s, got {given}")
        return given
    if key is None:
        if len(given) != 1:
            raise ValueError(
                f"MetricSpec without specified {what}_key requires a {what}s tensor or single element dict, got "
                f"{sorted(map(str, given))}"
            )
        return next(iter(given.values()))
    if key not in given:
        raise ValueError(f"MetricSpec with {what}_key={key!r}: the {what}s are {sorted(map(str, given))}")
    return given[key]
