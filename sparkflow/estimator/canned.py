"""Ready-made estimators: linear models, fully connected networks, and both side by side, over feature columns."""

from __future__ import annotations

import math as _math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow import layers, summary, train
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.heads import BinaryClassHead, Head, MultiClassHead, RegressionHead
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.feature_column import input_layer, linear_model
from sparkflow.feature_column.base import require_columns
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.losses.weighted import Reduction
from sparkflow.ops import array, array_join, candidates, control_flow, init_ops, math, nn, state
from sparkflow.ops.partitioned_variables import min_max_variable_partitioner
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope
from sparkflow.train.optimizer import Optimizer
from sparkflow_runtime.wire import dtypes

_OPTIMIZERS: dict[str, Callable[[float], Optimizer]] = {
    "Adagrad": train.AdagradOptimizer,
    "Adam": train.AdamOptimizer,
    "Ftrl": train.FtrlOptimizer,
    "RMSProp": train.RMSPropOptimizer,
    "SGD": train.GradientDescentOptimizer,
}
_DNN_RATE, _LINEAR_RATE, _BASELINE_RATE = 0.05, 0.2, 0.3
_DNN_RATE_BESIDE_LINEAR, _LINEAR_RATE_BESIDE_DNN = 0.001, 0.005
_SMALLEST_SLICE_BYTES = 64 << 20

Logits = Callable[[Mapping[str, Any], str, RunConfig | None], Tensor]


def optimizer_of(given: Any, rate: float) -> Optimizer:
    """An Optimizer from its name, itself, or a function that makes it. Raises ValueError on anything else."""
    if isinstance(given, str):
        if given not in _OPTIMIZERS:
            raise ValueError(f"Unsupported optimizer name: {given}. Supported names are: {tuple(sorted(_OPTIMIZERS))}")
        return _OPTIMIZERS[given](rate)
    found = given() if callable(given) else given
    if not isinstance(found, Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {found}")
    return found


def _linear_rate(columns: Any, most: float) -> float:
    return min(most, 1 / _math.sqrt(len(require_columns(columns))))


def _servers(config: RunConfig | None) -> int:
    return config.num_ps_replicas if config is not None else 0


# ---------------------------------------------------------------------- logits


def _layer_summary(value: Tensor, name: str) -> None:
    with get_default_graph().name_scope(None):
        summary.scalar(f"{name}/fraction_of_zero_values", candidates.zero_fraction(value))
        summary.histogram(f"{name}/activation", value)


def dnn_logits(
    units: int, hidden_units: Sequence[int], columns: Any, activation_fn: Any, dropout: float | None,
    input_layer_partitioner: Any, batch_norm: bool,
) -> Logits:  # fmt: skip
    """Fully connected layers over the columns: variables dnn/hiddenlayer_0/kernel ..., dnn/logits/kernel."""

    def logits(features: Mapping[str, Any], mode: str, config: RunConfig | None) -> Tensor:
        parts = _servers(config) or 1
        cut = input_layer_partitioner or min_max_variable_partitioner(parts, min_slice_size=_SMALLEST_SLICE_BYTES)
        with variable_scope("dnn", partitioner=min_max_variable_partitioner(parts)):
            return dnn(units, hidden_units, columns, activation_fn, dropout, cut, batch_norm)(features, mode)

    return logits


def dnn(
    units: int, hidden_units: Sequence[int], columns: Any, activation_fn: Any, dropout: float | None,
    input_layer_partitioner: Any, batch_norm: bool,
) -> Callable[[Mapping[str, Any], str], Tensor]:  # fmt: skip
    """As dnn_logits, in the variable scope around."""

    def hidden(net: Tensor, i: int, training: bool) -> Tensor:
        with variable_scope(f"hiddenlayer_{i}") as scope:
            net = layers.Dense(hidden_units[i], activation_fn, _scope=scope)(net)
            net = layers.dropout(net, dropout, training=True) if dropout is not None and training else net
            if batch_norm:
                net = layers.batch_normalization(net, momentum=0.999, training=training, name=f"batchnorm_{i}")
        _layer_summary(net, f"dnn/hiddenlayer_{i}")
        return net

    def logits(features: Mapping[str, Any], mode: str) -> Tensor:
        with variable_scope("input_from_feature_columns", partitioner=input_layer_partitioner):
            net = input_layer(features, columns)
        for i in range(len(hidden_units)):
            net = hidden(net, i, mode == ModeKeys.TRAIN)
        found = layers.dense(net, units, name="logits")
        _layer_summary(found, "dnn/logits")
        return found

    return logits


def linear_logits(units: int, columns: Any, sparse_combiner: str, partitioner: Any = None) -> Logits:
    """A weight for every number and category: variables linear/linear_model/<column>/weights and .../bias_weights."""

    def logits(features: Mapping[str, Any], mode: str, config: RunConfig | None) -> Tensor:
        parts = _servers(config) or 1
        cut = partitioner or min_max_variable_partitioner(parts, min_slice_size=_SMALLEST_SLICE_BYTES)
        with variable_scope("linear", partitioner=cut):
            found = linear_model(features, columns, units, sparse_combiner)
        with get_default_graph().name_scope(None):
            summary.scalar("linear/linear_model/fraction_of_zero_weights", candidates.zero_fraction(found))
        return found

    return logits


def baseline_logits(units: int) -> Logits:
    """The same for every example: the variable baseline/bias."""

    def logits(features: Mapping[str, Any], mode: str, config: RunConfig | None) -> Tensor:
        with variable_scope("baseline"):
            bias = get_variable("bias", [units], initializer=init_ops.zeros_initializer())
        first = next(iter(features.values()))
        rows = first.dense_shape[0] if isinstance(first, SparseTensor) else array.shape(first)[0]
        return array.tile(array.expand_dims(bias, 0), array_join.stack([math.cast(rows, dtypes.int32), 1]))

    return logits


# ---------------------------------------------------------------------- estimators


class Part(NamedTuple):
    """A model adds its parts' logits; each part's variables have an optimizer of their own."""

    scope: str
    logits: Logits
    optimizer: Any
    rate: float

    def minimized(self, loss: Tensor, step: Any, among: bool) -> Any:
        """among: one of several parts, which changes its own variables only."""
        optimizer = optimizer_of(self.optimizer, self.rate)
        around = get_variable_scope().name  # of who calls the model function
        scope = re.escape(f"{around}/{self.scope}/" if around else f"{self.scope}/")
        own = get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope) if among else None
        return optimizer.minimize(loss, global_step=step, var_list=own)


class HeadedEstimator(Estimator):
    """An Estimator that adds the logits of its parts and leaves the rest to its head."""

    def __init__(self, head: Head, parts: Sequence[Part], model_dir: str | None, config: Any, warm_start_from: Any):
        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            if not isinstance(features, Mapping):
                raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")
            logits = [part.logits(features, mode, config) for part in parts]
            total = math.add_n(logits) if len(logits) > 1 else logits[0]
            return head.create_estimator_spec(
                features, mode, total, labels, train_op_fn=lambda loss: _step(loss, parts)
            )

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)
        self._head = head


def _step(loss: Tensor, parts: Sequence[Part]) -> Any:
    step = train.get_global_step()
    if len(parts) == 1:
        return parts[0].minimized(loss, step, among=False)
    done = control_flow.group(*(part.minimized(loss, None, among=True) for part in parts))
    with get_default_graph().control_dependencies([done]):
        return state.assign_add(step, 1).op


def _classes(n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str) -> Head:
    if n_classes == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def _dnn(
    head: Head, hidden_units: Sequence[int], columns: Any, optimizer: Any, activation_fn: Any, dropout: float | None,
    partitioner: Any, batch_norm: bool, rate: float = _DNN_RATE,
) -> Part:  # fmt: skip
    if not columns or not hidden_units:
        raise ValueError("A network needs dnn_feature_columns and dnn_hidden_units")
    units = head.logits_dimension
    logits = dnn_logits(units, hidden_units, columns, activation_fn, dropout, partitioner, batch_norm)
    return Part("dnn", logits, optimizer, rate)


def _linear(
    head: Head, columns: Any, optimizer: Any, sparse_combiner: str, most: float, partitioner: Any = None
) -> Part:
    logits = linear_logits(head.logits_dimension, columns, sparse_combiner, partitioner)
    return Part("linear", logits, optimizer, _linear_rate(columns, most))


def _combined(head: Head, linear: Sequence[Any], dnn: Sequence[Any]) -> list[Part]:
    """Either of them, or both, from the arguments of _linear and _dnn after the head."""
    columns, optimizer, sparse_combiner = linear
    dnn_columns, hidden_units, dnn_optimizer, activation_fn, dropout, partitioner, batch_norm = dnn
    if not columns and not dnn_columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be provided.")
    parts = []
    if dnn_columns:
        settings = (dnn_optimizer, activation_fn, dropout, partitioner, batch_norm, _DNN_RATE_BESIDE_LINEAR)
        parts.append(_dnn(head, hidden_units, dnn_columns, *settings))
    if columns:
        parts.append(_linear(head, columns, optimizer, sparse_combiner, _LINEAR_RATE_BESIDE_DNN))
    return parts


class DNNEstimator(HeadedEstimator):
    """A fully connected network that ends with `head`."""

    def __init__(
        self, head: Head, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None,
        optimizer: Any = "Adagrad", activation_fn: Any = nn.relu, dropout: float | None = None,
        input_layer_partitioner: Any = None, config: Any = None, warm_start_from: Any = None, batch_norm: bool = False,
    ):  # fmt: skip
        part = _dnn(
            head, hidden_units, feature_columns, optimizer, activation_fn, dropout, input_layer_partitioner, batch_norm
        )
        super().__init__(head, [part], model_dir, config, warm_start_from)


class DNNClassifier(DNNEstimator):
    """Classes from a fully connected network. hidden_units: the sizes of its layers; dropout: what is dropped of each.

    optimizer: a name, an Optimizer or a function that makes one; Adagrad at 0.05 by default. The loss is the sum over
    the batch unless loss_reduction says otherwise.
    """

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column: Any = None, label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Adagrad",
        activation_fn: Any = nn.relu, dropout: float | None = None, input_layer_partitioner: Any = None,
        config: Any = None, warm_start_from: Any = None, loss_reduction: str = Reduction.SUM, batch_norm: bool = False,
    ):  # fmt: skip
        head = _classes(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
                         input_layer_partitioner, config, warm_start_from, batch_norm)  # fmt: skip


class DNNRegressor(DNNEstimator):
    """Numbers (label_dimension of an example) from a fully connected network."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None, label_dimension: int = 1,
        weight_column: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = nn.relu,
        dropout: float | None = None, input_layer_partitioner: Any = None, config: Any = None,
        warm_start_from: Any = None, loss_reduction: str = Reduction.SUM, batch_norm: bool = False,
    ):  # fmt: skip
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
                         input_layer_partitioner, config, warm_start_from, batch_norm)  # fmt: skip


class LinearEstimator(HeadedEstimator):
    """A linear model that ends with `head`."""

    def __init__(
        self, head: Head, feature_columns: Any, model_dir: str | None = None, optimizer: Any = "Ftrl",
        config: Any = None, partitioner: Any = None, sparse_combiner: str = "sum", warm_start_from: Any = None,
    ):  # fmt: skip
        part = _linear(head, feature_columns, optimizer, sparse_combiner, _LINEAR_RATE, partitioner)
        super().__init__(head, [part], model_dir, config, warm_start_from)


class LinearClassifier(LinearEstimator):
    """Classes from a linear model. optimizer: Ftrl at min(0.2, 1/sqrt(columns)) by default."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, n_classes: int = 2, weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Ftrl", config: Any = None,
        partitioner: Any = None, warm_start_from: Any = None, loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ):  # fmt: skip
        head = _classes(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner, warm_start_from
        )


class LinearRegressor(LinearEstimator):
    """Numbers (label_dimension of an example) from a linear model."""

    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, label_dimension: int = 1, weight_column: Any = None,
        optimizer: Any = "Ftrl", config: Any = None, partitioner: Any = None, warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM, sparse_combiner: str = "sum",
    ):  # fmt: skip
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner, warm_start_from
        )


class DNNLinearCombinedEstimator(HeadedEstimator):
    """A linear model and a network, trained together ("wide and deep"), that end with `head`."""

    def __init__(
        self, head: Head, model_dir: str | None = None, linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl", dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None, dnn_activation_fn: Any = nn.relu,
        dnn_dropout: float | None = None, input_layer_partitioner: Any = None, config: Any = None,
        linear_sparse_combiner: str = "sum", batch_norm: bool = False, warm_start_from: Any = None,
    ):  # fmt: skip
        dnn = [dnn_feature_columns, dnn_hidden_units or (), dnn_optimizer, dnn_activation_fn, dnn_dropout,
               input_layer_partitioner, batch_norm]  # fmt: skip
        parts = _combined(head, [linear_feature_columns, linear_optimizer, linear_sparse_combiner], dnn)
        super().__init__(head, parts, model_dir, config, warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """Classes from a linear model and a network together. linear_optimizer: Ftrl at min(0.005, 1/sqrt(columns))."""

    def __init__(
        self, model_dir: str | None = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = nn.relu, dnn_dropout: float | None = None, n_classes: int = 2,
        weight_column: Any = None, label_vocabulary: Sequence[str] | None = None, input_layer_partitioner: Any = None,
        config: Any = None, warm_start_from: Any = None, loss_reduction: str = Reduction.SUM, batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ):  # fmt: skip
        head = _classes(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                         dnn_hidden_units, dnn_activation_fn, dnn_dropout, input_layer_partitioner, config,
                         linear_sparse_combiner, batch_norm, warm_start_from)  # fmt: skip


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """Numbers (label_dimension of an example) from a linear model and a network together."""

    def __init__(
        self, model_dir: str | None = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = nn.relu, dnn_dropout: float | None = None, label_dimension: int = 1,
        weight_column: Any = None, input_layer_partitioner: Any = None, config: Any = None, warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM, batch_norm: bool = False, linear_sparse_combiner: str = "sum",
    ):  # fmt: skip
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                         dnn_hidden_units, dnn_activation_fn, dnn_dropout, input_layer_partitioner, config,
                         linear_sparse_combiner, batch_norm, warm_start_from)  # fmt: skip


class BaselineEstimator(HeadedEstimator):
    """The best answer that does not look at the features, which ends with `head`."""

    def __init__(self, head: Head, model_dir: str | None = None, optimizer: Any = "Ftrl", config: Any = None):
        part = Part("baseline", baseline_logits(head.logits_dimension), optimizer, _BASELINE_RATE)
        super().__init__(head, [part], model_dir, config, None)


class BaselineClassifier(BaselineEstimator):
    """How frequent the classes are."""

    def __init__(
        self, model_dir: str | None = None, n_classes: int = 2, weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Ftrl", config: Any = None,
        loss_reduction: str = Reduction.SUM,
    ):  # fmt: skip
        super().__init__(
            _classes(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir, optimizer, config
        )


class BaselineRegressor(BaselineEstimator):
    """The mean of the labels."""

    def __init__(
        self, model_dir: str | None = None, label_dimension: int = 1, weight_column: Any = None,
        optimizer: Any = "Ftrl", config: Any = None, loss_reduction: str = Reduction.SUM,
    ):  # fmt: skip
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, optimizer, config)
