"""What a model ends with: from logits to predictions, a loss, metrics and signatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import metrics, summary
from sparkflow.estimator import export
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.feature_column.numeric import NumericColumn
from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.signatures import fn_args
from sparkflow.losses.weighted import Reduction, compute_weighted_loss
from sparkflow.ops import array, array_join, checks, control_flow, lookup_vocabulary, math, math_reduce, nn, nn_loss
from sparkflow.train.training_util import get_global_step
from sparkflow_runtime.wire import dtypes

Metrics = dict[str, tuple[Any, Any]]
LossFn = Callable[..., Any]


class Head(ABC):
    """weight_column: the feature (its name, or a numeric_column) that weights examples. loss_reduction: how the losses
    of a batch's examples become one; the head adds regularization losses to it. name: a suffix of keys of metrics.
    loss_fn(labels, logits), or with features as well: each example's loss, [batch, 1], in place of the head's own."""

    logits_dimension: int

    def __init__(self, weight_column: Any, loss_reduction: str, name: str | None, loss_fn: LossFn | None = None):
        Reduction.validate(loss_reduction)
        if loss_reduction == Reduction.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        if loss_fn is not None:
            _check_loss_fn(loss_fn)
        self._weight_column, self._reduction, self._name = weight_column, loss_reduction, name
        self._loss_fn = loss_fn

    name = property(lambda self: self._name)
    loss_reduction = property(lambda self: self._reduction)

    # what each kind of head says

    @abstractmethod
    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """By name, one row an example."""

    @abstractmethod
    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        """What a served model answers, beside the predictions themselves."""

    @abstractmethod
    def labels(self, labels: Tensor) -> Tensor:
        """As the loss takes them, checked; they come as [batch, n]."""

    @abstractmethod
    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """[batch, 1] or [batch, n]."""

    @abstractmethod
    def metrics(self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any) -> Metrics:
        """Beside the mean of the losses."""

    # what they share

    def loss(self, features: Any, labels: Any, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Any]:
        """(the batch's loss, each example's, labels as the head takes them, weights)."""
        if labels is None:
            raise ValueError(
                "You must provide a labels Tensor. Given: None. Does your input_fn return labels beside features?"
            )
        given = self._taken(labels)
        weights, each = self._weights(features), self._each(given, logits, features)
        loss = compute_weighted_loss(each, 1.0 if weights is None else weights, reduction=self._reduction)
        return loss, each, given, weights

    def _taken(self, labels: Any) -> Tensor:
        return self.labels(_matrix(labels, self._label_width()))

    def _label_width(self) -> int:
        return 1

    def _loss_width(self) -> int:
        return 1

    def _each(self, labels: Tensor, logits: Tensor, features: Any) -> Tensor:
        if self._loss_fn is None:
            return self.losses(labels, logits)
        more = {"features": features} if "features" in fn_args(self._loss_fn) else {}
        each = convert_to_tensor(self._loss_fn(labels=labels, logits=logits, **more))
        width = self._loss_width()
        if each._shape is not None and (len(each._shape) != 2 or each._shape[-1] not in (None, width)):
            raise ValueError(f"loss_fn must return Tensor of shape [D0, D1, ... DN, {width}], got {each.shape}")
        return each

    def _weights(self, features: Any) -> Any:
        column = self._weight_column
        if column is None:
            return None
        key = column.key if isinstance(column, NumericColumn) else column
        found = convert_to_tensor(features[key])
        if isinstance(column, NumericColumn) and column.normalizer_fn is not None:
            found = column.normalizer_fn(found)
        return _matrix(math.cast(found, dtypes.float32), 1)

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
        train_op_fn: Callable[[Tensor], Any] | None = None, regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:  # fmt: skip
        """The EstimatorSpec of a model that ends with these logits [batch, logits_dimension].

        train_op_fn(loss), or the optimizer's minimize, makes the training op. Raises ValueError where labels lack.
        """
        graph = get_default_graph()
        with graph.name_scope(self._name or "head"):
            logits = _logits(logits, self.logits_dimension)
            predictions, outputs = self._answers(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=outputs)
            loss, each, given, weights = self.loss(features, labels, logits)
            extra = list(regularization_losses or ())
            total = math.add_n([loss, *extra]) if extra else loss
            if mode == ModeKeys.EVAL:
                found = self._named_metrics(given, predictions, weights, each, extra)
                return EstimatorSpec(mode, predictions, total, eval_metric_ops=found)
            train_op = _train_op(total, optimizer, train_op_fn)
        with graph.name_scope(None):
            summary.scalar(self._key("average_loss"), math_reduce.reduce_mean(each))
        return EstimatorSpec(mode, predictions, total, train_op)

    def _answers(self, logits: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(predictions, what a served model answers)."""
        with get_default_graph().name_scope("predictions"):
            predictions = self.predictions(logits)
            outputs = {**self.export_outputs(predictions), "predict": export.PredictOutput(predictions)}
            outputs.setdefault(export.DEFAULT_KEY, outputs["predict"])
        return predictions, outputs

    def _named_metrics(
        self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any, each: Tensor, extra: list[Any]
    ) -> Metrics:
        found = {"average_loss": metrics.mean(each, weights), **self.metrics(labels, predictions, weights)}
        if extra:
            found["regularization_loss"] = metrics.mean(math.add_n(extra))
        return {self._key(key): pair for key, pair in found.items()}

    def _key(self, key: str) -> str:
        return f"{key}/{self._name}" if self._name else key


def _check_loss_fn(loss_fn: LossFn) -> None:
    names = fn_args(loss_fn)
    for required in ("labels", "logits"):
        if required not in names:
            raise ValueError(f"loss_fn must contain argument: {required}. Given arguments: {names}")
    unknown = sorted({*names} - {"labels", "logits", "features", "loss_reduction"})
    if unknown:
        raise ValueError(f"loss_fn has unexpected args: {unknown}")


def _matrix(value: Any, width: int) -> Tensor:
    """[batch] as [batch, 1]. Raises ValueError where a known width differs."""
    tensor = convert_to_tensor(value)
    dims = tensor._shape
    tensor = array.expand_dims(tensor, -1) if dims is not None and len(dims) == 1 else tensor
    dims = tensor._shape
    if dims is None or len(dims) != 2:
        raise ValueError(f"labels and weights must be of shape [batch] or [batch, {width}], got {value}")
    if dims[1] not in (None, width):
        raise ValueError(f"Mismatched label shape. Expected labels dimension={width}. Received {dims[1]}.")
    return tensor


def _logits(logits: Any, width: int) -> Tensor:
    found = convert_to_tensor(logits)
    if found._shape is not None and (len(found._shape) < 2 or found._shape[-1] not in (None, width)):
        raise ValueError(f"logits shape must be [D0, D1, ... DN, logits_dimension], {width}; got {found.shape}.")
    return found


def _train_op(loss: Tensor, optimizer: Any, train_op_fn: Callable[[Tensor], Any] | None) -> Any:
    if (optimizer is None) == (train_op_fn is None):
        raise ValueError("Exactly one of train_op_fn and optimizer must be given.")
    made = optimizer.minimize(loss, global_step=get_global_step()) if train_op_fn is None else train_op_fn(loss)
    return control_flow.group(made, *get_default_graph().get_collection(GraphKeys.UPDATE_OPS))


def _names(vocabulary: Sequence[str] | None, ids: Tensor) -> Tensor:
    """The classes' names: of the vocabulary, or their numbers."""
    if vocabulary is None:
        return export.as_string(ids)
    table = lookup_vocabulary.index_to_string_table_from_tensor(list(vocabulary), name="class_string_lookup")
    return table.lookup(ids)


def all_classes(vocabulary: Sequence[str] | None, n: int, logits: Tensor) -> Tensor:
    """[batch, n]: the classes' names, for each example."""
    return export.all_classes(_names(vocabulary, math.cast(math.range(0, n), dtypes.int64)), logits)


def checked_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
    found = tuple(thresholds or ())
    if any(not 0 < t < 1 for t in found):
        raise ValueError(f"thresholds not in (0, 1): {found}.")
    return found


class _Classes(Head):
    """label_vocabulary: the classes' names, where labels are strings."""

    def __init__(
        self, n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None, loss_reduction: str,
        name: str | None, loss_fn: LossFn | None,
    ):  # fmt: skip
        super().__init__(weight_column, loss_reduction, name, loss_fn)
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {label_vocabulary}.")
        self._n, self._vocabulary = n_classes, label_vocabulary

    def _ids(self, labels: Tensor) -> Tensor:
        """Labels as ids."""
        text = labels.dtype.base_dtype == dtypes.string
        if self._vocabulary is None:
            if text:
                raise ValueError(f"Labels are strings: label_vocabulary is needed. Instead got {labels}")
            return labels
        if not text:
            raise ValueError(f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype.name}")
        return lookup_vocabulary.index_table_from_tensor(list(self._vocabulary), name="class_id_lookup").lookup(labels)

    def _names(self, ids: Tensor) -> Tensor:
        return _names(self._vocabulary, ids)

    def _all(self, logits: Tensor) -> dict[str, Tensor]:
        every = array.tile(array.expand_dims(math.range(0, self._n), 0), [array.shape(logits)[0], 1])
        return {"all_class_ids": every, "all_classes": all_classes(self._vocabulary, self._n, logits)}

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        found = export.ClassificationOutput(predictions["probabilities"], predictions["all_classes"])
        return {export.DEFAULT_KEY: found, "classification": found}


class BinaryClassHead(_Classes):
    """Two classes, one logit. Labels: 0 and 1 (or between), or two words. thresholds: more metrics for each."""

    logits_dimension = 1

    def __init__(
        self, weight_column: Any = None, thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None, loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None, name: str | None = None,
    ):  # fmt: skip
        super().__init__(2, weight_column, label_vocabulary, loss_reduction, name, loss_fn)
        self._thresholds = checked_thresholds(thresholds)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        logistic = math.sigmoid(logits, name="logistic")
        both = array_join.concat([array.zeros_like(logits), logits], -1)
        ids = array.expand_dims(math_reduce.argmax(both, -1), -1)
        return {
            "logits": logits, "logistic": logistic, "probabilities": nn.softmax(both, name="probabilities"),
            "class_ids": ids, "classes": self._names(ids), **self._all(logits),
        }  # fmt: skip

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        return {**super().export_outputs(predictions), "regression": export.RegressionOutput(predictions["logistic"])}

    def labels(self, labels: Tensor) -> Tensor:
        found = math.cast(self._ids(labels), dtypes.float32)
        wrong = [
            checks.assert_less_equal(found, 1.0, message="Labels must be <= n_classes - 1"),
            checks.assert_greater_equal(found, 0.0, message="Labels must be >= 0"),
        ]
        with get_default_graph().control_dependencies(wrong):
            return array.identity(found)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return nn_loss.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="loss")

    def metrics(self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any) -> Metrics:
        chance, ids = predictions["logistic"], predictions["class_ids"]
        mean = metrics.mean(labels, weights)
        found = {
            "accuracy": metrics.accuracy(labels, ids, weights),
            "precision": metrics.precision(labels, ids, weights),
            "recall": metrics.recall(labels, ids, weights),
            "prediction/mean": metrics.mean(chance, weights),
            "label/mean": mean,
            "accuracy_baseline": tuple(math.maximum(m, 1.0 - m) for m in mean),
            "auc": metrics.auc(labels, chance, weights),
            "auc_precision_recall": metrics.auc(labels, chance, weights, curve="PR"),
        }
        for t in self._thresholds:
            above = math.cast(math.greater_equal(chance, t), dtypes.float32)
            found[f"accuracy/positive_threshold_{t:g}"] = metrics.accuracy(labels, above, weights)
            found[f"precision/positive_threshold_{t:g}"] = metrics.precision(labels, above, weights)
            found[f"recall/positive_threshold_{t:g}"] = metrics.recall(labels, above, weights)
        return found


class MultiClassHead(_Classes):
    """n_classes > 2 exclusive classes, a logit for each. Labels: their numbers, or words of the vocabulary."""

    def __init__(
        self, n_classes: int, weight_column: Any = None, label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE, loss_fn: LossFn | None = None, name: str | None = None,
    ):  # fmt: skip
        if n_classes is None or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(n_classes, weight_column, label_vocabulary, loss_reduction, name, loss_fn)
        self.logits_dimension = n_classes

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        ids = array.expand_dims(math_reduce.argmax(logits, -1, name="class_ids"), -1)
        return {
            "logits": logits, "probabilities": nn.softmax(logits, name="probabilities"), "class_ids": ids,
            "classes": self._names(ids), **self._all(logits),
        }  # fmt: skip

    def labels(self, labels: Tensor) -> Tensor:
        ids = self._ids(labels)
        if not ids.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer. Instead got {ids.dtype.name}.")
        wrong = [
            checks.assert_less(ids, constant(self._n, ids.dtype.base_dtype), message="Labels must be <= n_classes - 1"),
            checks.assert_greater_equal(ids, constant(0, ids.dtype.base_dtype), message="Labels must be >= 0"),
        ]
        with get_default_graph().control_dependencies(wrong):
            return array.identity(ids)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        flat = array.squeeze(labels, [-1])
        return array.expand_dims(nn_loss.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logits), -1)

    def metrics(self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any) -> Metrics:
        return {"accuracy": metrics.accuracy(labels, predictions["class_ids"], weights)}


class RegressionHead(Head):
    """Numbers, by the mean squared error. label_dimension: how many of an example. inverse_link_fn: from logits."""

    def __init__(
        self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None, inverse_link_fn: Callable[[Tensor], Tensor] | None = None,
        name: str | None = None,
    ):  # fmt: skip
        super().__init__(weight_column, loss_reduction, name, loss_fn)
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        self.logits_dimension, self._inverse_link = label_dimension, inverse_link_fn

    def _label_width(self) -> int:
        return self.logits_dimension

    _loss_width = _label_width

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        if self._inverse_link is None:
            return {"predictions": logits}
        return {"predictions": self._inverse_link(logits), "logits": logits}

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        found = export.RegressionOutput(predictions["predictions"])
        return {export.DEFAULT_KEY: found, "regression": found}

    def labels(self, labels: Tensor) -> Tensor:
        return math.cast(labels, dtypes.float32)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return math.squared_difference(labels, self.predictions(logits)["predictions"])

    def metrics(self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any) -> Metrics:
        wide = None if weights is None else weights * array.ones_like(labels)
        means = {"prediction/mean": predictions["predictions"], "label/mean": labels}
        return {key: metrics.mean(value, wide) for key, value in means.items()}
