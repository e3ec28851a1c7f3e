"""tf.contrib.learn's linear models and networks, ready to be fitted: tf.estimator's, but the loss is a mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np

from sparkflow.contrib.layers.columns import real_valued_column
from sparkflow.contrib.learn.fitting import FEATURE, Classifies, Regresses, refuse
from sparkflow.estimator import canned
from sparkflow.losses.weighted import Reduction
from sparkflow.ops import nn
from sparkflow.ops.clip import clip_by_global_norm
from sparkflow.train.optimizers import AdagradOptimizer, FtrlOptimizer

_MEAN = Reduction.SUM_OVER_BATCH_SIZE


class LinearClassifier(Classifies, canned.LinearClassifier):
    """gradient_clip_norm: gradients are scaled so that their norm over all variables is no larger. label_keys: the
    classes' names. feature_engineering_fn(features, labels) -> (features, labels) comes before the columns. Raises
    ValueError where another argument of TensorFlow's is set."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False, _joint_weight: bool = False, config: Any = None,
        feature_engineering_fn: Any = None, label_keys: Any = None,
    ):  # fmt: skip
        refuse(enable_centered_bias=enable_centered_bias, _joint_weight=_joint_weight)
        columns = _listed(feature_columns)
        super().__init__(columns, model_dir, n_classes, weight_column_name, label_keys,
                         _clipped(optimizer, gradient_clip_norm, _ftrl(columns)),
                         config, loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn
        self._are_named = label_keys is not None


class LinearRegressor(Regresses, canned.LinearRegressor):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, weight_column_name: str | None = None,
        optimizer: Any = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        label_dimension: int = 1, _joint_weights: bool = False, config: Any = None, feature_engineering_fn: Any = None,
    ):  # fmt: skip
        refuse(enable_centered_bias=enable_centered_bias, _joint_weights=_joint_weights)
        columns = _listed(feature_columns)
        super().__init__(columns, model_dir, label_dimension, weight_column_name,
                         _clipped(optimizer, gradient_clip_norm, _ftrl(columns)), config,
                         loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn


class DNNClassifier(Classifies, canned.DNNClassifier):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        config: Any = None, feature_engineering_fn: Any = None, embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None, label_keys: Any = None,
    ):  # fmt: skip
        refuse(enable_centered_bias=enable_centered_bias,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, n_classes, weight_column_name, label_keys,
                         _clipped(optimizer, gradient_clip_norm, _adagrad), activation_fn, dropout, None,
                         config, loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn
        self._are_named = label_keys is not None


class DNNRegressor(Regresses, canned.DNNRegressor):
    """The arguments are those of LinearClassifier."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        config: Any = None, feature_engineering_fn: Any = None, label_dimension: int = 1,
        embedding_lr_multipliers: Any = None, input_layer_min_slice_size: int | None = None,
    ):  # fmt: skip
        refuse(enable_centered_bias=enable_centered_bias,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, label_dimension, weight_column_name,
                         _clipped(optimizer, gradient_clip_norm, _adagrad), activation_fn, dropout, None,
                         config, loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn


class DNNLinearCombinedClassifier(Classifies, canned.DNNLinearCombinedClassifier):
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
        refuse(enable_centered_bias=enable_centered_bias, joint_linear_weights=joint_linear_weights,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        columns = _listed(linear_feature_columns)
        super().__init__(model_dir, columns, _clipped(linear_optimizer, gradient_clip_norm, _ftrl(columns)),
                         dnn_feature_columns, _clipped(dnn_optimizer, gradient_clip_norm, _adagrad), dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, n_classes, weight_column_name, label_keys, None,
                         config, loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn
        self._are_named = label_keys is not None


class DNNLinearCombinedRegressor(Regresses, canned.DNNLinearCombinedRegressor):
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
        refuse(enable_centered_bias=enable_centered_bias, joint_linear_weights=joint_linear_weights,
                embedding_lr_multipliers=embedding_lr_multipliers,
                input_layer_min_slice_size=input_layer_min_slice_size)  # fmt: skip
        columns = _listed(linear_feature_columns)
        super().__init__(model_dir, columns, _clipped(linear_optimizer, gradient_clip_norm, _ftrl(columns)),
                         dnn_feature_columns, _clipped(dnn_optimizer, gradient_clip_norm, _adagrad), dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, label_dimension, weight_column_name, None,
                         config, loss_reduction=_MEAN)  # fmt: skip
        self._engineer = feature_engineering_fn


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


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """One column of as many numbers as x, an array [examples, n], has; or one for each array of a dict."""
    named = x if isinstance(x, dict) else {FEATURE: np.asarray(x)}
    return [real_valued_column(k, 1 if len(np.shape(v)) == 1 else int(np.shape(v)[1])) for k, v in named.items()]


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[Any]:
    """As infer_real_valued_columns_from_input, of the features that input_fn makes."""
    from sparkflow.framework.graph import Graph

    with Graph().as_default():
        features = input_fn()[0]
        named = features if isinstance(features, dict) else {FEATURE: features}
        return [real_valued_column(k, 1 if len(v.shape) == 1 else int(v.shape[1])) for k, v in named.items()]
