"""Heads of several answers: labels that do not exclude one another, and several tasks; and of two more regressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow import metrics, summary
from sparkflow.estimator import export
from sparkflow.estimator.heads import (
    Head,
    LossFn,
    Metrics,
    RegressionHead,
    _logits,
    _matrix,
    _train_op,
    all_classes,
    checked_thresholds,
)
from sparkflow.estimator.keys import MetricKeys
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.losses.weighted import Reduction
from sparkflow.ops import array, array_join, candidates, checks, lookup_vocabulary, math, math_reduce, nn_loss, sparse
from sparkflow_runtime.wire import dtypes


class MultiLabelHead(Head):
    """n_classes that do not exclude one another, a logit for each. Labels: [batch, n_classes] of 0 and 1, or a sparse
    matrix of the classes' numbers, or of words of the vocabulary. thresholds, and classes_for_class_based_metrics
    (their numbers or words): more metrics for each."""

    def __init__(
        self, n_classes: int, weight_column: Any = None, thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None, loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None, classes_for_class_based_metrics: Sequence[Any] | None = None,
        name: str | None = None,
    ):  # fmt: skip
        super().__init__(weight_column, loss_reduction, name, loss_fn)
        if n_classes is None or n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {n_classes}")
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {label_vocabulary}.")
        self.logits_dimension, self._vocabulary = n_classes, None if label_vocabulary is None else [*label_vocabulary]
        self._thresholds = checked_thresholds(thresholds)
        self._classes = [self._class(given) for given in classes_for_class_based_metrics or ()]

    def _class(self, given: Any) -> int:
        if isinstance(given, str):
            if self._vocabulary is None:
                raise ValueError(
                    f"label_vocabulary must be provided when classes_for_class_based_metrics are strings, got {given!r}"
                )
            return self._vocabulary.index(given)
        if not 0 <= given < self.logits_dimension:
            raise ValueError(
                f"All classes_for_class_based_metrics must be in range [0, {self.logits_dimension - 1}]. Given: {given}"
            )
        return int(given)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        every = all_classes(self._vocabulary, self.logits_dimension, logits)
        return {"logits": logits, "probabilities": math.sigmoid(logits, name="probabilities"), "classes": every}

    def export_outputs(self, predictions: Mapping[str, Tensor]) -> dict[str, Any]:
        found = export.ClassificationOutput(predictions["probabilities"], predictions["classes"])
        return {export.DEFAULT_KEY: found, "classification": found}

    def _taken(self, labels: Any) -> Tensor:
        if isinstance(labels, SparseTensor):
            return math.cast(sparse.sparse_to_indicator(self._ids(labels), self.logits_dimension), dtypes.int64)
        return self.labels(_matrix(labels, self.logits_dimension))

    def _ids(self, labels: SparseTensor) -> SparseTensor:
        """The classes' numbers, checked."""
        values = labels.values
        if values.dtype.base_dtype == dtypes.string:
            if self._vocabulary is None:
                raise ValueError(f"Labels are strings: label_vocabulary is needed. Instead got {labels}")
            table = lookup_vocabulary.index_table_from_tensor(self._vocabulary, name="class_id_lookup")
            return SparseTensor(labels.indices, table.lookup(values), labels.dense_shape)
        text = f"labels must be an integer SparseTensor with values in [0, {self.logits_dimension})"
        return SparseTensor(labels.indices, _below(values, self.logits_dimension, text), labels.dense_shape)

    def labels(self, labels: Tensor) -> Tensor:
        return _below(labels, 2, "labels must be an integer indicator Tensor with values in [0, 1]")

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        wanted = math.cast(labels, logits.dtype.base_dtype)
        each = nn_loss.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)
        return math_reduce.reduce_mean(each, axis=-1, keepdims=True)

    def metrics(self, labels: Tensor, predictions: Mapping[str, Tensor], weights: Any) -> Metrics:
        chance = predictions["probabilities"]
        wide = None if weights is None else weights * array.ones_like(chance)
        found = {
            "auc": metrics.auc(labels, chance, wide),
            "auc_precision_recall": metrics.auc(labels, chance, wide, curve="PR"),
        }
        for t in self._thresholds:
            above = math.cast(math.greater_equal(chance, t), dtypes.int64)
            found[MetricKeys.ACCURACY_AT_THRESHOLD % t] = metrics.accuracy(labels, above, wide)
            found[MetricKeys.PRECISION_AT_THRESHOLD % t] = metrics.precision(labels, above, wide)
            found[MetricKeys.RECALL_AT_THRESHOLD % t] = metrics.recall(labels, above, wide)
        for c in self._classes:
            one, own = chance[:, c : c + 1], labels[:, c : c + 1]
            key = f"class{c}" if self._vocabulary is None else self._vocabulary[c]
            found[f"probability_mean/{key}"] = metrics.mean(one, weights)
            found[f"auc/{key}"] = metrics.auc(own, one, weights)
            found[f"auc_precision_recall/{key}"] = metrics.auc(own, one, weights, curve="PR")
        return found


def _below(labels: Tensor, limit: int, message: str) -> Tensor:
    if not labels.dtype.is_integer:
        raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype.name}.")
    kind = labels.dtype.base_dtype
    wrong = [
        checks.assert_less(labels, constant(limit, kind), message=message),
        checks.assert_greater_equal(labels, constant(0, kind), message=message),
    ]
    with get_default_graph().control_dependencies(wrong):
        return array.identity(labels)


class PoissonRegressionHead(RegressionHead):
    """Counts, whose logarithms are the logits. compute_full_loss: with the part that depends on labels alone."""

    def __init__(
        self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
        compute_full_loss: bool = True, name: str | None = None,
    ):  # fmt: skip
        super().__init__(label_dimension, weight_column, loss_reduction, None, math.exp, name)
        self._full = compute_full_loss

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return candidates.log_poisson_loss(labels, logits, compute_full_loss=self._full)


class LogisticRegressionHead(RegressionHead):
    """A number in [0, 1] that is a probability, by the cross entropy."""

    def __init__(
        self, weight_column: Any = None, loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE, name: str | None = None
    ):
        super().__init__(1, weight_column, loss_reduction, None, math.sigmoid, name)

    def labels(self, labels: Tensor) -> Tensor:
        found, text = math.cast(labels, dtypes.float32), "Labels must be in range [0, 1]"
        wrong = [
            checks.assert_less_equal(found, 1.0, message=text),
            checks.assert_greater_equal(found, 0.0, message=text),
        ]
        with get_default_graph().control_dependencies(wrong):
            return array.identity(found)

    def losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return nn_loss.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def _scoped(head: Head, make: Callable[..., Any], *args: Any) -> Any:
    with get_default_graph().name_scope(head.name):
        return make(*args)


class MultiHead(Head):
    """Several tasks: heads that each have a name, whose losses are added, weighted by head_weights.

    logits: by the heads' names, or all in one [batch, logits_dimension]. Labels: by the heads' names. Predictions:
    by (name of the head, name); what the first head answers is what a served model answers by default.
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None):
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise ValueError(
                f"heads and head_weights must have the same size. Given len(heads): {len(heads)}. Given "
                f"len(head_weights): {len(head_weights)}."
            )
        names = [head.name for head in heads]
        if None in names:
            raise ValueError(f"All given heads must have name specified. Given: {heads[names.index(None)]}")
        if len({*names}) < len(names):
            raise ValueError(f"Each head needs a name of its own. Given: {names}")
        self._heads, self._head_weights = (*heads,), [*(head_weights or [1.0] * len(heads))]
        self.logits_dimension = sum(head.logits_dimension for head in heads)
        self._name = "_".join(names)

    @property
    def loss_reduction(self) -> str:
        given = [head.loss_reduction for head in self._heads]
        if len({*given}) > 1:
            raise ValueError(f"The loss_reduction must be the same for different heads. Given: {given}")
        return given[0]

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
        train_op_fn: Callable[[Tensor], Any] | None = None, regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:  # fmt: skip
        graph = get_default_graph()
        with graph.name_scope(self._name):
            given = self._by_name(logits)
            answers = {head: _scoped(head, head._answers, given[head.name]) for head in self._heads}
            predictions = {(h.name, key): value for h, (found, _) in answers.items() for key, value in found.items()}
            if mode == ModeKeys.PREDICT:
                outputs = self._outputs({head: outputs for head, (_, outputs) in answers.items()})
                return EstimatorSpec(mode, predictions, export_outputs=outputs)
            wanted = self._labels(labels)
            parts = {
                head: _scoped(head, head.loss, features, wanted[head.name], given[head.name]) for head in self._heads
            }
            losses = [parts[head][0] * weight for head, weight in zip(self._heads, self._head_weights)]
            extra = list(regularization_losses or ())
            total = math.add_n([*losses, *extra])
            if mode == ModeKeys.EVAL:
                found = {"regularization_loss": metrics.mean(math.add_n(extra))} if extra else {}
                measured = {self._key(key): pair for key, pair in found.items()}
                for head, (loss, each, own, weights) in parts.items():
                    measured[f"loss/{head.name}"] = metrics.mean(loss)
                    measured |= head._named_metrics(own, answers[head][0], weights, each, [])
                return EstimatorSpec(mode, predictions, total, eval_metric_ops=measured)
            train_op = _train_op(total, optimizer, train_op_fn)
        with graph.name_scope(None):
            for head, (loss, *_) in parts.items():
                summary.scalar(f"loss/{head.name}", loss)
        return EstimatorSpec(mode, predictions, total, train_op)

    def _by_name(self, logits: Any) -> dict[str, Tensor]:
        if isinstance(logits, Mapping):
            self._check_names("logits", logits)
            return {head.name: _logits(logits[head.name], head.logits_dimension) for head in self._heads}
        sizes = [head.logits_dimension for head in self._heads]
        whole = convert_to_tensor(logits)
        if whole._shape is not None and whole._shape[-1] not in (None, sum(sizes)):
            raise ValueError(
                f"Could not split logits of shape {whole.shape} among the heads with individual logits dimensions: "
                f"{sizes}. The last dimension of the logits tensor should equal {sum(sizes)}"
            )
        return dict(zip((head.name for head in self._heads), array_join.split(whole, sizes, axis=-1)))

    def _labels(self, labels: Any) -> Mapping[str, Any]:
        if not isinstance(labels, Mapping):
            raise ValueError(f"labels must be a dict. Given: {labels}")
        self._check_names("labels", labels)
        return labels

    def _check_names(self, what: str, given: Mapping[str, Any]) -> None:
        missing = [head.name for head in self._heads if head.name not in given]
        if missing:
            raise ValueError(f"{what} has missing values for head(s): {missing}")

    def _outputs(self, outputs: Mapping[Head, Mapping[str, Any]]) -> dict[str, Any]:
        found = {export.DEFAULT_KEY: outputs[self._heads[0]][export.DEFAULT_KEY]}
        predicted: dict[str, Any] = {}
        for head, own in outputs.items():
            for key, output in own.items():
                found[head.name if key == export.DEFAULT_KEY else f"{head.name}/{key}"] = output
            predicted |= {f"{head.name}/{key}": value for key, value in own["predict"].outputs.items()}
        return {**found, "predict": export.PredictOutput(predicted)}

    # What one head says its heads say.

    def predictions(self, logits: Any) -> dict[Any, Tensor]:
        given = self._by_name(logits)
        return {(h.name, key): value for h in self._heads for key, value in h.predictions(given[h.name]).items()}

    def _of_heads(self, *args: Any) -> Any:
        raise NotImplementedError("MultiHead: ask its heads, or create_estimator_spec, which puts them together")

    export_outputs = labels = losses = metrics = _of_heads  # type: ignore[assignment]
