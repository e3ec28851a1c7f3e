"""What Model.compile makes: the losses and metrics of each output, and the steps that train, test and predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.keras import backend, losses, metrics
from sparkflow.keras.calls import mask_of
from sparkflow.keras.metric import Mean, MeanMetricWrapper, Metric, weighted
from sparkflow.ops import (
    array,
    array_join,
    control_flow,
    math,
    math_reduce,
    operators,  # noqa: F401 - x + y on tensors
)

_SPARSE = (losses.sparse_categorical_crossentropy, losses.SparseCategoricalCrossentropy)
_BINARY = (losses.binary_crossentropy, losses.BinaryCrossentropy)
_SHORT = {"accuracy": "acc", "acc": "acc", "crossentropy": "ce", "ce": "ce"}


class Output:
    """One of a model's outputs: its name, its loss, the loss's weight, and its metrics by their names."""

    def __init__(self, name: str, loss: Any, weight: float, size: Any):
        self.name, self.loss, self.weight, self.size = name, losses.get(loss), weight, size
        self.measures: list[tuple[str, Any, bool]] = []  # name, metric, whether weighted
        self.mean = Mean(f"{name}_loss") if loss is not None else None

    def of_loss(self, kinds: tuple[Any, ...]) -> bool:
        return self.loss in kinds or isinstance(self.loss, tuple(k for k in kinds if isinstance(k, type)))

    def check(self, target: Any) -> None:
        """Raises ValueError where labels cannot be those of the output, though they might spread to its shape."""
        ours = getattr(self.loss, "__module__", type(self.loss).__module__) == losses.__name__
        if self.size is None or not ours or self.of_loss(_SPARSE):
            return
        differ = [(a, b) for a, b in zip(target.shape[1:], self.size[1:]) if b is not None and a != b]
        if differ or target.ndim != len(self.size):
            loss = getattr(self.loss, "__name__", type(self.loss).__name__)
            raise ValueError(
                f"A target array with shape {target.shape} was passed for an output of shape {self.size} "
                f"({self.name}). Its loss, {loss}, expects targets to have the same shape as the output; classes' "
                "numbers are for sparse_categorical_crossentropy"
            )

    def function(self, metric: Any) -> Any:
        """The function that a word like "accuracy" means of this output."""
        if metric in ("accuracy", "acc"):
            kinds: tuple[Any, ...] = (
                metrics.binary_accuracy,
                metrics.sparse_categorical_accuracy,
                metrics.categorical_accuracy,
            )
        elif metric in ("crossentropy", "ce"):
            kinds = (
                metrics.binary_crossentropy, metrics.sparse_categorical_crossentropy, metrics.categorical_crossentropy,
            )  # fmt: skip
        else:
            return metrics.get(metric)
        if (self.size and self.size[-1] == 1) or self.of_loss(_BINARY):
            return kinds[0]
        return kinds[1] if self.of_loss(_SPARSE) else kinds[2]


class Compiled:
    """optimizer, losses and metrics of one model, and its steps, each made when it is first taken."""

    def __init__(self, model: Any, given: dict[str, Any]):
        self.model, self.optimizer = model, given["optimizer"]
        self.trained = list(model.trainable_weights)  # whatever is frozen later: as generators' adversaries are
        names, tensors = model._output_names(), model._output_tensors()
        by_output = _spread(given["loss"], names, "loss")
        weights = _spread(given["loss_weights"], names, "loss_weights", once=True)
        self.outputs = [
            Output(n, f, 1.0 if w is None else w, backend.int_shape(y))
            for n, f, w, y in zip(names, by_output, weights, tensors)
        ]
        self.names = ["loss"]
        if len(self.outputs) > 1:
            self.names += [o.mean.name for o in self.outputs if o.mean is not None]
        for key, is_weighted in (("metrics", False), ("weighted_metrics", True)):
            for o, wanted in zip(self.outputs, _lists(given[key], names, key)):
                for metric in wanted:
                    self._measure(o, metric, is_weighted)
        self.steps: dict[Any, Step] = {}

    @property
    def fed(self) -> list[Output]:
        """Outputs that are compared with something."""
        return [o for o in self.outputs if o.loss is not None or o.measures]

    def _measure(self, output: Output, metric: Any, is_weighted: bool) -> None:
        function = output.function(metric)
        short = _SHORT.get(metric) if isinstance(metric, str) else None
        name = short or getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__)
        name = ("weighted_" if is_weighted else "") + str(name)
        if len(self.outputs) > 1:
            name = f"{output.name}_{name}"
        base, count = name, 1
        while name in self.names:
            name, count = f"{base}_{count}", count + 1
        self.names.append(name)
        made = function if isinstance(function, Metric) else _Measure(function, name)
        output.measures.append((name, made, is_weighted))

    def metrics(self) -> list[Metric]:
        own = [m for o in self.outputs for _, m, _ in o.measures]
        means = [o.mean for o in self.outputs if o.mean is not None] if len(self.outputs) > 1 else []
        return [*means, *own, *self.model._added_metrics()]

    def metrics_names(self) -> list[str]:
        return [*self.names, *(m.name for m in self.model._added_metrics())]

    def step(self, kind: str, with_weights: Sequence[bool]) -> Step:
        """kind: "train", "test" or "predict". with_weights: which of the `fed` outputs get weights of examples."""
        key = (kind, tuple(with_weights))
        if key not in self.steps:
            self.steps[key] = Step(self, kind, with_weights)
        return self.steps[key]


class _Measure(MeanMetricWrapper):
    """A function as users give it: those that are not ours get tensors as they are."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        if getattr(self._fn, "__module__", "").startswith("sparkflow.keras."):
            super().update_state(y_true, y_pred, sample_weight)
        else:
            Mean.update_state(self, self._fn(y_true, y_pred), sample_weight)


class Step:
    """What one batch does: placeholders of targets and weights, and the results that they are fed for."""

    def __init__(self, compiled: Compiled, kind: str, with_weights: Sequence[bool]):
        self._training = kind == "train"
        self._session: Any = None
        model = compiled.model
        outputs = model._outputs_for(self._training)
        fed = compiled.fed if kind != "predict" else []
        ys = [outputs[compiled.outputs.index(o)] for o in fed]
        targets = [_target(o, y) for o, y in zip(fed, ys)]
        weights = [
            array.placeholder(backend.floatx(), None, f"{o.name}_sample_weights") if has else None
            for o, has in zip(fed, with_weights)
        ]
        results = list(outputs)
        if kind != "predict":
            results = self._results(compiled, list(zip(fed, targets, ys, weights)))
        phase = backend.learning_phase()
        self._phase = [phase] if isinstance(phase, Tensor) else []
        self._feeds = [*model._input_tensors(), *targets, *(w for w in weights if w is not None), *self._phase]
        updates = self._trained(compiled, results) if self._training else model._state_updates()
        self._fetches: Any = (results, control_flow.group(*updates) if updates else [])

    def _results(self, compiled: Compiled, parts: list[tuple[Output, Tensor, Tensor, Any]]) -> list[Tensor]:
        """The loss, the mean loss of each of several outputs, the metrics, and what add_metric was given."""
        graph, model = get_default_graph(), compiled.model
        total: Any = None
        means = []
        for o, y_true, y_pred, w in parts:
            if o.loss is None or o.mean is None:
                continue
            with graph.name_scope(f"loss/{o.name}_loss"):
                loss = _loss_of(o, y_true, y_pred, w)
                total = loss * o.weight if total is None else total + loss * o.weight
            if len(compiled.outputs) > 1:
                means.append(o.mean(loss))
        for extra in model._losses_for(self._training):
            extra = math_reduce.reduce_mean(extra)
            total = extra if total is None else total + extra
        if total is None:
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        numbers = []
        for of_weights in (False, True):
            for o, y_true, y_pred, w in parts:
                given = _weights_of(y_pred, w if of_weights else None)
                for _, metric, is_weighted in o.measures:
                    if is_weighted == of_weights:
                        further = {} if given is None else {"sample_weight": given}
                        numbers.append(metric(y_true, y_pred, **further))
        return [total, *means, *numbers, *model._metric_tensors(self._training)]

    def _trained(self, compiled: Compiled, results: list[Tensor]) -> list[Any]:
        """One step of the optimizer, once the results are there, and what layers update."""
        graph, trained = get_default_graph(), compiled.trained
        if not trained:
            raise ValueError("The model has no trainable weights: there is nothing to fit")
        with graph.name_scope(f"training/{compiled.optimizer._name}/"), graph.control_dependencies(results):
            steps = compiled.optimizer.get_updates(results[0], trained)
        return [*steps, *compiled.model._updates_for(True)]

    def __call__(self, values: list[Any]) -> list[Any]:
        """What the batch gives: inputs, targets and weights, one behind the other."""
        session = backend.get_session()
        if self._session is not session:
            self._session, self._call = session, session.make_callable(self._fetches, self._feeds)
        results, _ = self._call(*values, *(self._training for _ in self._phase))
        return list(results)


def _target(output: Output, y: Tensor) -> Tensor:
    dims = None if output.size is None else [None] * max(len(output.size), 1)
    return array.placeholder(y.dtype.base_dtype, dims, f"{output.name}_target")


def _loss_of(output: Output, y_true: Tensor, y_pred: Tensor, weights: Any) -> Tensor:
    """A number: the mean over examples, or as the loss reduces."""
    reduces = getattr(output.loss, "reduction", losses.Reduction.AUTO)
    weights = _weights_of(y_pred, weights, reduces in (losses.Reduction.AUTO, losses.Reduction.SUM_OVER_BATCH_SIZE))
    if isinstance(output.loss, losses.Loss):
        found = output.loss(y_true, y_pred, sample_weight=weights)
        return found if found.shape.ndims == 0 else math_reduce.reduce_mean(found)
    if getattr(output.loss, "__module__", "") == losses.__name__ and not output.of_loss(_SPARSE):
        y_true, y_pred = losses.aligned(math.cast(y_true, y_pred.dtype.base_dtype), y_pred)
    values = convert_to_tensor(output.loss(y_true, y_pred))
    if weights is None:
        return math_reduce.reduce_mean(values)
    if values.shape.ndims == 0:
        return math_reduce.reduce_mean(values * weights)
    values, _ = weighted(values, weights)
    return math.div_no_nan(math_reduce.reduce_sum(values), math.cast(array.size(values), values.dtype))


def _weights_of(y: Tensor, weights: Any, for_mean: bool = False) -> Any:
    """With zeros for what the mask of y leaves out, and for a mean over all as much more for the rest."""
    mask = mask_of(y)
    if mask is None:
        return weights
    present = math.cast(mask, y.dtype.base_dtype)
    if for_mean:
        every = math.cast(array.size(present), present.dtype)
        present = present * math.div_no_nan(every, math_reduce.reduce_sum(present))
    if weights is None:
        return present
    ranks = present.shape.ndims, weights.shape.ndims
    if weights.shape.ndims is None and present.shape.ndims == 2:  # [n], or a weight for each step
        sizes = array_join.concat([array.shape(weights)[:1], [-1]], 0)
        weights = array.reshape(weights, sizes)
    elif None not in ranks and ranks[1] == 1:
        weights = array.reshape(weights, [-1, *[1] * (ranks[0] - 1)])
    return present * weights


def _spread(given: Any, names: list[str], what: str, once: bool = False) -> list[Any]:
    """One for each output, of a list, of a dictionary by their names, or the same for all."""
    if isinstance(given, dict):
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(f"Unknown entries in {what} dictionary: {unknown}. Only expected the outputs {names}")
        return [given.get(n) for n in names]
    if isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(f"{what} has {len(given)} entries, the model {len(names)} outputs: {names}")
        return list(given)
    if once and given is not None:
        raise TypeError(f"{what} must be a list, or a dictionary by the outputs' names, got {given!r}")
    return [given] * len(names)


def _lists(given: Any, names: list[str], what: str) -> list[list[Any]]:
    """The metrics of each output: all get the same, unless they are told apart by lists or names."""
    if given is None:
        return [[] for _ in names]
    if isinstance(given, dict):
        return [_list(m) for m in _spread(given, names, what)]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"`{what}` must be a list or a dictionary by the outputs' names, got {given!r}")
    if any(isinstance(m, (list, tuple)) for m in given):
        return [_list(m) for m in _spread(list(given), names, what)]
    return [list(given) if i == 0 else [_again(m) for m in given] for i in range(len(names))]


def _list(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _again(metric: Any) -> Any:
    """Of an object, another one: it adds up for one output alone."""
    return type(metric).from_config(metric.get_config()) if isinstance(metric, Metric) else metric
