"""Estimators with more metrics, and what examples must be parsed by for a model with a label and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.feature_column import make_parse_example_spec, numeric_column
from sparkflow.feature_column.numeric import NumericColumn
from sparkflow.framework.signatures import fn_args
from sparkflow.ops.parsing import FixedLenFeature
from sparkflow_runtime.wire import dtypes

_METRIC_ARGS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Any]) -> Estimator:
    """An Estimator of the same model and folder that evaluates these metrics too, in place of its own of their names.

    metric_fn: gets those of features, labels, predictions and config that it names. Raises ValueError where it names
    another.
    """
    named = fn_args(metric_fn)
    unknown = sorted({*named} - {*_METRIC_ARGS})
    if unknown:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {unknown}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        more = metric_fn(**{name: given[name] for name in named})
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

    return Estimator(model_fn, estimator.model_dir, estimator.config, warm_start_from=estimator._warm_start_settings)


def classifier_parse_example_spec(
    feature_columns: Any, label_key: str, label_dtype: Any = dtypes.int64, label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """What tf.parse_example is told for a classifier: its columns' features, the label, and weights."""
    label = FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Any, label_key: str, label_dtype: Any = dtypes.float32, label_default: Any = None,
    label_dimension: int = 1, weight_column: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """As classifier_parse_example_spec, for label_dimension numbers."""
    label = FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(columns: Any, label_key: str, label: FixedLenFeature, weight_column: Any) -> dict[str, Any]:
    spec = make_parse_example_spec(columns)
    if label_key in spec:
        raise ValueError(f"label should not be used as feature. label_key: {label_key}, features: {sorted(spec)}")
    spec[label_key] = label
    if weight_column is None:
        return spec
    weights = numeric_column(weight_column) if isinstance(weight_column, str) else weight_column
    if not isinstance(weights, NumericColumn):
        raise ValueError(f"weight_column should be an instance of tf.feature_column.numeric_column. Given: {weights}")
    if weights.key in spec:
        raise ValueError(
            f"weight_column should not be used as feature. weight_column: {weights.key}, features: {sorted(spec)}"
        )
    return {**spec, **weights.parse_example_spec}
