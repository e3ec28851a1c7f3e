"""Estimators with more metrics or with features in their predictions, and what examples must be parsed by for a model
with a label and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.export import PredictOutput
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.feature_column import make_parse_example_spec, numeric_column
from sparkflow.feature_column.numeric import NumericColumn
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.signatures import fn_args
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.parsing import FixedLenFeature
from sparkflow.ops.sparse import sparse_tensor_to_dense
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
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


def forward_features(
    estimator: Estimator, keys: str | Sequence[str] | None = None,
    sparse_default_values: Mapping[str, Any] | None = None,
) -> Estimator:  # fmt: skip
    """An Estimator of the same model and folder whose predictions have these features too, such as a row's key.

    keys: all by default. sparse_default_values: what fills those that are sparse. Raises TypeError where keys are no
    strings, and ValueError, as the model is made, where predictions are no dict or have such a key, and where a feature
    is not there or is sparse without a default.
    """
    names = [keys] if isinstance(keys, str) else keys
    if names is not None and not (isinstance(names, (list, tuple)) and all(isinstance(k, str) for k in names)):
        raise TypeError(f"keys should be either a string or a list of strings. Given: {keys!r}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        if not isinstance(spec.predictions, dict):
            raise ValueError(
                f"Predictions should be a dict to be able to forward features. Given: {spec.predictions!r}"
            )
        wanted = list(features) if names is None else names
        more = {key: _forwarded(key, features, spec.predictions, sparse_default_values or {}) for key in wanted}
        outputs = dict(spec.export_outputs or {})
        for name in {"predict", DEFAULT_SERVING_SIGNATURE_DEF_KEY} & {*outputs}:
            if isinstance(outputs[name], PredictOutput):
                outputs[name] = PredictOutput({**outputs[name].outputs, **more})
        return spec._replace(predictions={**spec.predictions, **more}, export_outputs=outputs or spec.export_outputs)

    return Estimator(model_fn, estimator.model_dir, estimator.config, warm_start_from=estimator._warm_start_settings)


def _forwarded(key: str, features: Mapping[str, Any], predictions: Mapping[str, Any], fill: Mapping[str, Any]) -> Any:
    if key not in features:
        raise ValueError(f"keys should exist in features, which are {sorted(features)}; {key!r} is not there")
    if key in predictions:
        raise ValueError(
            f"Cannot forward feature key ({key}), since it exists in predictions, which are {sorted(predictions)}. "
            "Rename the feature, or leave it out of keys."
        )
    feature = features[key]
    if key in fill:
        if not isinstance(feature, SparseTensor):
            raise ValueError(f"Feature ({key}) is expected to be a `SparseTensor`, got {feature!r}")
        return sparse_tensor_to_dense(feature, fill[key])
    if isinstance(feature, SparseTensor):
        raise ValueError(
            f"Feature ({key}) should be a Tensor, and is a SparseTensor: leave it out of keys, or say in "
            "sparse_default_values what fills it"
        )
    return convert_to_tensor(feature)


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
