"""fit, evaluate and predict as tf.contrib.learn has them: of arrays or of an input_fn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from sparkflow.contrib.learn.metric_spec import metric_ops
from sparkflow.contrib.learn.model_fn import ModeKeys, OrAllPredictions, PredictionKey, receiver_of
from sparkflow.contrib.learn.monitors import replace_monitors_with_hooks
from sparkflow.estimator import Estimator, EstimatorSpec, export, inputs
from sparkflow.ops import array

FEATURE = ""  # of arrays, which have no names
# tf.contrib.learn's names of metrics that tf.estimator renamed; they are given under both.
_OLD_METRICS = {
    "prediction/mean": "labels/prediction_mean",
    "label/mean": "labels/actual_label_mean",
    "accuracy_baseline": "accuracy/baseline_label_mean",
    "precision": "precision/positive_threshold_0.500000_mean",
    "recall": "recall/positive_threshold_0.500000_mean",
}
# Of variables, patterns and what tf.estimator's models say for them.
_OLD_VARIABLES = {
    "^dnn/(.*)/weights$": r"dnn/\1/kernel",
    "^dnn/(.*)/biases$": r"dnn/\1/bias",
    "^linear//weights?$": "linear/linear_model/column/weights",
    "^linear/(.+)/weights?$": r"linear/linear_model/\1/weights",
    "^linear/bias_weights?$": "linear/linear_model/bias_weights",
}


class NotFittedError(ValueError, AttributeError):
    """A model was asked before it was fitted."""


class Fits(Estimator):
    """Comes before another Estimator in a class's bases."""

    _metrics: Mapping[Any, Any] = {}  # that are evaluated too
    _default_output: str | None = None  # of those that are exported
    _engineer: Callable[..., Any] | None = None  # what is done with features and labels first
    _answer = PredictionKey.SCORES  # of what `predict` gives where no outputs are named; None for all of them

    def with_metrics(self, metrics: Mapping[Any, Any] | None) -> Any:
        """A model of the same folder that evaluates these too: MetricSpecs or functions of (predictions, labels) by
        name. Raises ValueError where they are no dict."""
        if metrics is not None and not isinstance(metrics, Mapping):
            raise ValueError(f"Metrics argument should be None or dict. Got {metrics}.")
        other = copy(self)
        other._metrics = {**self._metrics, **(metrics or {})}
        return other

    def with_default_output(self, key: str | None) -> Any:
        """A model of the same folder whose exports have that output as the default one."""
        other = copy(self)
        other._default_output = key
        return other

    # ------------------------------------------------------------------ inputs

    def _input(self, x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool) -> Any:
        if (x is None) == (input_fn is None):
            raise ValueError("Either x or input_fn must be provided.")
        if input_fn is not None:
            if y is not None:
                raise ValueError("If input_fn is provided, y must be None: it gives the labels itself.")
            return input_fn
        features = floats(x) if isinstance(x, Mapping) else self._features(floats(x))
        rows = len(next(iter(features.values())) if isinstance(features, dict) else features)
        targets = None if y is None else floats(y)
        return inputs.numpy_input_fn(features, targets, batch_size or rows, epochs, shuffle)

    def _check_fitted(self) -> None:
        if self.latest_checkpoint() is None:
            raise NotFittedError(f"Couldn't find trained model at {self.model_dir}: call fit first.")

    def _features(self, x: Any) -> Any:
        """Of an array, or a tensor."""
        return {FEATURE: x}

    # ------------------------------------------------------------------ what it does

    def fit(
        self, x: Any = None, y: Any = None, input_fn: Callable[[], Any] | None = None, steps: int | None = None,
        batch_size: int | None = None, monitors: Sequence[Any] | None = None, max_steps: int | None = None,
    ) -> Any:  # fmt: skip
        """So many steps over the rows (all of them in each, by default), or to the end of input_fn's. monitors: hooks
        too."""
        given = self._input(x, y, input_fn, batch_size, None, True)
        return self.train(given, replace_monitors_with_hooks(monitors, self), steps, max_steps)

    def partial_fit(
        self, x: Any = None, y: Any = None, input_fn: Callable[[], Any] | None = None, steps: int | None = 1,
        batch_size: int | None = None, monitors: Sequence[Any] | None = None,
    ) -> Any:  # fmt: skip
        """`fit`, one step at a time: as rows come that do not fit into memory."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(  # type: ignore[override]
        self, x: Any = None, y: Any = None, input_fn: Any = None, feed_fn: Any = None, batch_size: int | None = None,
        steps: int | None = None, metrics: Any = None, name: str | None = None, checkpoint_path: str | None = None,
        hooks: Any = None, log_progress: bool = True,
    ) -> Any:  # fmt: skip
        """metrics: as `with_metrics` takes them. Of arrays, all rows once."""
        refuse(feed_fn=feed_fn)
        given = self._input(x, y, input_fn, batch_size, 1, False)
        model = self.with_metrics(metrics)
        if checkpoint_path is None:
            self._check_fitted()
        return super(Fits, model).evaluate(given, steps, hooks, checkpoint_path, name)

    def predict(  # type: ignore[override]
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Sequence[str] | None = None,
        as_iterable: bool = True,
    ) -> Any:  # fmt: skip
        """The class, or the number, of each example, one after the other or as an array; with outputs a dict of those
        (PredictionKey) of each, or of arrays. Raises ValueError on an output that there is not."""
        wanted = self._answer if outputs is None else list(outputs)
        rows = (_chosen(row, wanted) for row in self.all_outputs(x, input_fn, batch_size))
        return rows if as_iterable else stacked(rows)

    def all_outputs(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None) -> Iterator[Any]:
        """All predictions of each example."""
        self._check_fitted()
        given = self._input(x, None, input_fn, batch_size, 1, False)
        return map(self._old_row, super().predict(given))

    def export_savedmodel(  # type: ignore[override]
        self, export_dir_base: str, serving_input_fn: Callable[[], Any], default_output_alternative_key: Any = None,
        assets_extra: Any = None, as_text: bool = False, checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:  # fmt: skip
        """As tf.estimator's. serving_input_fn: may give InputFnOps. default_output_alternative_key: which of several
        output_alternatives is the default one; ValueError where there is none of that name."""
        model = self.with_default_output(default_output_alternative_key)
        return super(Fits, model).export_savedmodel(
            export_dir_base, receiver_of(serving_input_fn), assets_extra, as_text, checkpoint_path, strip_default_attrs
        )

    # ------------------------------------------------------------------ names

    def get_variable_value(self, name: str) -> Any:
        """By its name, or by the one that tf.contrib.learn's models had for it (dnn/hiddenlayer_0/weights)."""
        known = set(self.get_variable_names())
        other = next((re.sub(old, new, name) for old, new in _OLD_VARIABLES.items() if re.search(old, name)), name)
        return super().get_variable_value(other if name not in known and other in known else name)

    def _old_row(self, row: Any) -> Any:
        """An example's predictions, by tf.contrib.learn's names."""
        return self._old(row, lambda value: value[0] if len(value) == 1 else value)

    def _old(self, predictions: Any, alone: Callable[[Any], Any]) -> Any:
        """alone: the number, where there is one of each example."""
        return {PredictionKey.SCORES: alone(predictions["predictions"])}

    def _engineered(self, features: Any, labels: Any) -> tuple[Any, Any]:
        if self._engineer is None:
            return features, labels
        made, targets = self._engineer(features[FEATURE] if list(features) == [FEATURE] else dict(features), labels)
        return made if isinstance(made, Mapping) else self._features(made), targets

    def _call(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        features = features if isinstance(features, Mapping) else self._features(features)
        spec = super()._call(*self._engineered(features, labels), mode)
        if mode == ModeKeys.INFER and self._default_output is not None:
            named = dict(spec.export_outputs or {})
            if self._default_output not in named:
                wanted = f"default_output_alternative_key={self._default_output!r}"
                raise ValueError(f"{wanted}: the model's output_alternatives are {sorted(named)}")
            return spec._replace(export_outputs={**named, export.DEFAULT_KEY: named[self._default_output]})
        if mode == ModeKeys.INFER and self._answer is not None and export.DEFAULT_KEY in (spec.export_outputs or {}):
            usual = OrAllPredictions(spec.export_outputs[export.DEFAULT_KEY], self._old(spec.predictions, _squeezed))
            return spec._replace(export_outputs={**spec.export_outputs, export.DEFAULT_KEY: usual})
        if mode != ModeKeys.EVAL:
            return spec
        ops = dict(spec.eval_metric_ops or {})
        ops.update({old: ops[new] for new, old in _OLD_METRICS.items() if new in ops})
        if "precision" in ops:  # of two classes
            ops["accuracy/threshold_0.500000_mean"] = ops["accuracy"]
        if self._metrics:
            ops.update(metric_ops(self._metrics, features, labels, self._old(spec.predictions, _squeezed)))
        return spec._replace(eval_metric_ops=ops)


class Classifies(Fits):
    _answer = PredictionKey.CLASSES
    _are_named = False  # the classes, by label_keys
    predict_classes = Fits.predict

    def predict_proba(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The classes' probabilities for each example."""
        found = (row[PredictionKey.PROBABILITIES] for row in self.all_outputs(x, input_fn, batch_size))
        return found if as_iterable else stacked(found)

    def _old(self, predictions: Any, alone: Callable[[Any], Any]) -> Any:
        keys = (PredictionKey.PROBABILITIES, PredictionKey.LOGITS, PredictionKey.LOGISTIC)
        classes = alone(predictions["classes" if self._are_named else "class_ids"])
        return {PredictionKey.CLASSES: classes, **{key: predictions[key] for key in keys if key in predictions}}


class Regresses(Fits):
    predict_scores = Fits.predict


def refuse(**given: Any) -> None:
    """The names of arguments that only TensorFlow knows, and what they were given."""
    for name, value in given.items():
        if value not in (None, False):
            raise ValueError(f"tf.contrib.learn: {name}={value!r} is not supported here; leave it out")


def floats(x: Any) -> Any:
    """As an array, or a dict of them, of float32 where float64 came."""
    if isinstance(x, Mapping):
        return {key: floats(value) for key, value in x.items()}
    array = np.asarray(x)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def stacked(rows: Iterator[Any]) -> Any:
    """An array of them, or one of each output."""
    found = list(rows)
    if found and isinstance(found[0], Mapping):
        return {key: np.array([row[key] for row in found]) for key in found[0]}
    return np.array(found)


def _chosen(row: Any, wanted: str | list[str] | None) -> Any:
    if wanted is None:
        return row
    if not isinstance(row, Mapping):
        raise ValueError(f"outputs={wanted!r}: the predictions are one tensor, without names; leave outputs out")
    if isinstance(wanted, str):
        return row[wanted]
    if not set(wanted) <= set(row):
        raise ValueError(f"Expected to run at least one output from {sorted(row)}, provided {wanted}.")
    return {key: row[key] for key in wanted}


def _squeezed(predictions: Any) -> Any:
    return array.squeeze(predictions, [-1]) if predictions.shape.ndims and predictions.shape[-1] == 1 else predictions
