"""tf.contrib.learn: estimators with fit, and models ready to be fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from sparkflow.contrib.layers.columns import real_valued_column
from sparkflow.contrib.learn import datasets, learn_runner, preprocessing
from sparkflow.contrib.learn.experiment import Experiment, make_export_strategy
from sparkflow.estimator import Estimator, ModeKeys, RunConfig, canned, inputs
from sparkflow.ops import nn
from sparkflow.ops.clip import clip_by_global_norm
from sparkflow.train.optimizers import AdagradOptimizer, FtrlOptimizer

__all__ = [
    "DNNClassifier", "DNNLinearCombinedClassifier", "DNNLinearCombinedRegressor", "DNNRegressor", "Estimator",
    "Experiment", "LinearClassifier", "LinearRegressor", "ModeKeys", "RunConfig", "datasets",
    "infer_real_valued_columns_from_input", "infer_real_valued_columns_from_input_fn", "learn_runner",
    "make_export_strategy", "preprocessing",
]  # fmt: skip

_FEATURE = ""  # of arrays, which have no names


class _Fits(Estimator):
    """fit, evaluate and predict of arrays, or of an input_fn. Comes before another Estimator in a class's bases."""

    def _input(self, x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool) -> Any:
        if (x is None) == (input_fn is None):
            raise ValueError("Either x or input_fn must be provided.")
        if input_fn is not None:
            return input_fn
        features = x if isinstance(x, dict) else {_FEATURE: _floats(x)}
        rows = len(next(iter(features.values())))
        targets = None if y is None else np.asarray(y)
        return inputs.numpy_input_fn(features, targets, batch_size or rows, epochs, shuffle)

    def fit(
        self, x: Any = None, y: Any = None, input_fn: Callable[[], Any] | None = None, steps: int | None = None,
        batch_size: int | None = None, monitors: Sequence[Any] | None = None, max_steps: int | None = None,
    ) -> Any:  # fmt: skip
        """So many steps over the rows (all of them in each, by default), or to the end of input_fn's."""
        given = self._input(x, y, input_fn, batch_size, None, True)
        return self.train(given, monitors, steps, max_steps)

    def evaluate(  # type: ignore[override]
        self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
        steps: int | None = None, metrics: Any = None, name: str | None = None, checkpoint_path: str | None = None,
        hooks: Any = None, log_progress: bool = True,
    ) -> Any:  # fmt: skip
        _refuse(metrics=metrics)
        given = self._input(x, y, input_fn, batch_size, 1, False)
        return super().evaluate(given, steps, hooks, checkpoint_path, name)

    def _predicted(self, key: str, x: Any, input_fn: Any, batch_size: int | None) -> Iterator[Any]:
        given = self._input(x, None, input_fn, batch_size, 1, False)
        found = super().predict(given, predict_keys=[key])
        return (row[key] for row in found)

    _answer = "predictions"

    def predict(  # type: ignore[override]
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
        as_iterable: bool = True,
    ) -> Any:  # fmt: skip
        """The class, or the number, of each example, one after the other or as an array."""
        _refuse(outputs=outputs)
        found = (row[0] if len(row) == 1 else row for row in self._predicted(self._answer, x, input_fn, batch_size))
        return found if as_iterable else np.array(list(found))


class _Classifies(_Fits):
    _answer = "class_ids"
    predict_classes = _Fits.predict

    def predict_proba(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The classes' probabilities for each example."""
        found = self._predicted("probabilities", x, input_fn, batch_size)
        return found if as_iterable else np.array(list(found))


class LinearClassifier(_Classifies, canned.LinearClassifier):
    """gradient_clip_norm: gradients are scaled so that their norm over all variables is no larger. label_keys: the
    classes' names. Raises ValueError where another argument of TensorFlow's is set."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False, _joint_weight: bool = False, config: Any = None,
        feature_engineering_fn: Any = None, label_keys: Any = None,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, _joint_weight=_joint_weight,
                feature_engineering_fn=feature_engineering_fn)  # fmt: skip
        columns = _listed(feature_columns)
        super().__init__(columns, model_dir, n_classes, weight_column_name, label_keys,
                         _clipped(optimizer, gradient_clip_norm, _ftrl(columns)), config)  # fmt: skip


class LinearRegressor(_Fits, canned.LinearRegressor):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, weight_column_name: str | None = None,
        optimizer: Any = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        label_dimension: int = 1, _joint_weights: bool = False, config: Any = None, feature_engineering_fn: Any = None,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, _joint_weights=_joint_weights,
                feature_engineering_fn=feature_engineering_fn)  # fmt: skip
        columns = _listed(feature_columns)
        super().__init__(columns, model_dir, label_dimension, weight_column_name,
                         _clipped(optimizer, gradient_clip_norm, _ftrl(columns)), config)  # fmt: skip


class DNNClassifier(_Classifies, canned.DNNClassifier):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        config: Any = None, feature_engineering_fn: Any = None, embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None, label_keys: Any = None,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, feature_engineering_fn=feature_engineering_fn,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, n_classes, weight_column_name, label_keys,
                         _clipped(optimizer, gradient_clip_norm, _adagrad), activation_fn, dropout, None,
                         config)  # fmt: skip


class DNNRegressor(_Fits, canned.DNNRegressor):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        config: Any = None, feature_engineering_fn: Any = None, label_dimension: int = 1,
        embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, feature_engineering_fn=feature_engineering_fn,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, label_dimension, weight_column_name,
                         _clipped(optimizer, gradient_clip_norm, _adagrad), activation_fn, dropout, None,
                         config)  # fmt: skip


class DNNLinearCombinedClassifier(_Classifies, canned.DNNLinearCombinedClassifier):
    """A linear model and a network together. The arguments are those of LinearClassifier."""

    def __init__(
        self, model_dir: str | None = None, n_classes: int = 2, weight_column_name: str | None = None,
        linear_feature_columns: Any = None, linear_optimizer: Any = None, joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None, dnn_optimizer: Any = None, dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = nn.relu, dnn_dropout: float | None = None, gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False, config: Any = None, feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None, label_keys: Any = None,
        fix_global_step_increment_bug: bool = False,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, joint_linear_weights=joint_linear_weights,
                feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        columns = _listed(linear_feature_columns)
        super().__init__(model_dir, columns, _clipped(linear_optimizer, gradient_clip_norm, _ftrl(columns)),
                         dnn_feature_columns, _clipped(dnn_optimizer, gradient_clip_norm, _adagrad), dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, n_classes, weight_column_name, label_keys, None,
                         config)  # fmt: skip


class DNNLinearCombinedRegressor(_Fits, canned.DNNLinearCombinedRegressor):
    """A linear model and a network together. The arguments are those of LinearClassifier."""

    def __init__(
        self, model_dir: str | None = None, weight_column_name: str | None = None, linear_feature_columns: Any = None,
        linear_optimizer: Any = None, joint_linear_weights: bool = False, dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None, dnn_hidden_units: Sequence[int] | None = None, dnn_activation_fn: Any = nn.relu,
        dnn_dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        label_dimension: int = 1, config: Any = None, feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None,
        fix_global_step_increment_bug: bool = False,
    ):  # fmt: skip
        _refuse(enable_centered_bias=enable_centered_bias, joint_linear_weights=joint_linear_weights,
                feature_engineering_fn=feature_engineering_fn, embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        columns = _listed(linear_feature_columns)
        super().__init__(model_dir, columns, _clipped(linear_optimizer, gradient_clip_norm, _ftrl(columns)),
                         dnn_feature_columns, _clipped(dnn_optimizer, gradient_clip_norm, _adagrad), dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, label_dimension, weight_column_name, None,
                         config)  # fmt: skip


def _refuse(**given: Any) -> None:
    """The names of arguments that only TensorFlow knows, and what they were given."""
    for name, value in given.items():
        if value not in (None, False):
            raise ValueError(f"tf.contrib.learn: {name}={value!r} is not supported here; leave it out")


def _listed(columns: Any) -> list[Any]:
    one = not isinstance(columns, Iterable) or hasattr(columns, "_fields")  # a column is a tuple with names
    return [] if columns is None else [columns] if one else list(columns)


def _ftrl(columns: list[Any]) -> Callable[[], Any]:
    """The optimizer of a linear model of so many columns."""
    return lambda: FtrlOptimizer(min(0.2, 1.0 / max(1, len(columns)) ** 0.5))


def _adagrad() -> Any:
    return AdagradOptimizer(0.05)


def _clipped(optimizer: Any, norm: float | None, usual: Callable[[], Any]) -> Any:
    """The optimizer, an instance or a function that makes one, or the usual one, its gradients no longer than norm."""

    def made() -> Any:
        own = usual() if optimizer is None else copy(optimizer() if callable(optimizer) else optimizer)
        if norm is None:
            return own
        if isinstance(own, str):
            raise ValueError(f"tf.contrib.learn: gradient_clip_norm needs an optimizer's instance, got {own!r}")
        apply = own.apply_gradients

        def apply_clipped(grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            grads, variables = zip(*grads_and_vars)
            clipped, _ = clip_by_global_norm(grads, norm)
            return apply(list(zip(clipped, variables)), *args, **kwargs)

        own.apply_gradients = apply_clipped
        return own

    return optimizer if optimizer is not None and norm is None else made


def _floats(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """One column of as many numbers as x, an array [examples, n], has; or one for each array of a dict."""
    named = x if isinstance(x, dict) else {_FEATURE: np.asarray(x)}
    return [real_valued_column(k, 1 if len(np.shape(v)) == 1 else int(np.shape(v)[1])) for k, v in named.items()]


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[Any]:
    """As infer_real_valued_columns_from_input, of the features that input_fn makes."""
    from sparkflow.framework.graph import Graph

    with Graph().as_default():
        features = input_fn()[0]
        named = features if isinstance(features, dict) else {_FEATURE: features}
        return [real_valued_column(k, 1 if len(v.shape) == 1 else int(v.shape[1])) for k, v in named.items()]
