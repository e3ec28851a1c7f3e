"""tf.contrib.estimator: heads by the functions that made them, and what became tf.estimator's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.estimator import (
    BaselineEstimator,
    BinaryClassHead,
    DNNEstimator,
    DNNLinearCombinedEstimator,
    Head,
    LinearEstimator,
    LogisticRegressionHead,
    MultiClassHead,
    MultiHead,
    MultiLabelHead,
    PoissonRegressionHead,
    RegressionHead,
    add_metrics,
    rnn,
)
from sparkflow.estimator.experimental import (
    call_logit_fn,
    dnn_logit_fn_builder,
    linear_logit_fn_builder,
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from sparkflow.estimator.extenders import forward_features
from sparkflow.estimator.in_memory import InMemoryEvaluatorHook
from sparkflow.framework.graph import Operation
from sparkflow.losses import Reduction
from sparkflow.ops.clip import clip_by_global_norm
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.wrapped_optimizer import WrappedOptimizer

_MEAN = Reduction.SUM_OVER_BATCH_SIZE
LossFn = Callable[..., Any]


def binary_classification_head(
    weight_column: Any = None, thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None, loss_reduction: str = _MEAN, loss_fn: LossFn | None = None,
    name: str | None = None,
) -> Head:  # fmt: skip
    return BinaryClassHead(weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name)


def multi_class_head(
    n_classes: int, weight_column: Any = None, label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN, loss_fn: LossFn | None = None, name: str | None = None,
) -> Head:  # fmt: skip
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def multi_label_head(
    n_classes: int, weight_column: Any = None, thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None, loss_reduction: str = _MEAN, loss_fn: LossFn | None = None,
    classes_for_class_based_metrics: Sequence[Any] | None = None, name: str | None = None,
) -> Head:  # fmt: skip
    return MultiLabelHead(
        n_classes, weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn,
        classes_for_class_based_metrics, name,
    )  # fmt: skip


def regression_head(
    weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = _MEAN, loss_fn: LossFn | None = None,
    inverse_link_fn: Callable[[Any], Any] | None = None, name: str | None = None,
) -> Head:  # fmt: skip
    return RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name)


def poisson_regression_head(
    weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = _MEAN, compute_full_loss: bool = True,
    name: str | None = None,
) -> Head:  # fmt: skip
    return PoissonRegressionHead(label_dimension, weight_column, loss_reduction, compute_full_loss, name)


def logistic_regression_head(weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None) -> Head:
    return LogisticRegressionHead(weight_column, loss_reduction, name)


def multi_head(heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> Head:
    return MultiHead(heads, head_weights)


class RNNEstimator(rnn.RNNEstimator):
    """tf.estimator.experimental's, whose units are num_units here."""

    def __init__(
        self, head: Head, sequence_feature_columns: Sequence[Any],
        context_feature_columns: Sequence[Any] | None = None, num_units: Any = None, cell_type: str | None = None,
        rnn_cell_fn: rnn.CellFn | None = None, return_sequences: bool = False, **settings: Any,
    ):  # fmt: skip
        super().__init__(
            head, sequence_feature_columns, context_feature_columns, num_units, cell_type, rnn_cell_fn,
            return_sequences, **settings,
        )  # fmt: skip


class RNNClassifier(rnn.RNNClassifier):
    """tf.estimator.experimental's, whose units are num_units here."""

    def __init__(
        self, sequence_feature_columns: Sequence[Any], context_feature_columns: Sequence[Any] | None = None,
        num_units: Any = None, cell_type: str | None = None, rnn_cell_fn: rnn.CellFn | None = None,
        model_dir: str | None = None, **settings: Any,
    ):  # fmt: skip
        super().__init__(
            sequence_feature_columns, context_feature_columns, num_units, cell_type, rnn_cell_fn, model_dir=model_dir,
            **settings,
        )  # fmt: skip


class _Clipped(WrappedOptimizer):
    def __init__(self, optimizer: Optimizer, clip_norm: float):
        super().__init__(optimizer, f"Clipped{optimizer.get_name()}")
        self._norm = clip_norm

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> Operation:
        pairs = [*grads_and_vars]
        clipped, _ = clip_by_global_norm([gradient for gradient, _ in pairs], self._norm)
        return super().apply_gradients([*zip(clipped, (v for _, v in pairs))], *args, **kwargs)


def clip_gradients_by_norm(optimizer: Optimizer, clip_norm: float) -> Optimizer:
    """One that applies gradients whose norm, of all together, is clip_norm at most."""
    return _Clipped(optimizer, clip_norm)


__all__ = [
    "BaselineEstimator",
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "InMemoryEvaluatorHook",
    "LinearEstimator",
    "RNNClassifier",
    "RNNEstimator",
    "add_metrics",
    "binary_classification_head",
    "call_logit_fn",
    "clip_gradients_by_norm",
    "dnn_logit_fn_builder",
    "forward_features",
    "linear_logit_fn_builder",
    "logistic_regression_head",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "read_eval_metrics",
    "regression_head",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]
