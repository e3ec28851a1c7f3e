"""What tf.contrib.learn's model functions and serving inputs give back, and the names of what is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sparkflow.estimator import EstimatorSpec, export, spec


class ModeKeys(spec.ModeKeys):
    INFER = spec.ModeKeys.PREDICT


class PredictionKey:
    """Of the predictions of the models that are ready to be fitted."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    GENERIC = "output"


class ProblemType:
    UNSPECIFIED, CLASSIFICATION, LINEAR_REGRESSION, LOGISTIC_REGRESSION = range(4)


class ModelFnOps(NamedTuple):
    """predictions: a tensor or a dict of them, one row an example. output_alternatives: (problem type, tensors by name)
    by the name under which a served model is asked for them."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    output_alternatives: Mapping[str, tuple[Any, Any]] | None = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None


class InputFnOps(NamedTuple):
    """What a served model is asked with: default_inputs, placeholders by name, and what is made of them."""

    features: Any
    labels: Any = None
    default_inputs: Any = None


def spec_of(found: Any, mode: str) -> EstimatorSpec:
    """What a model function returned, whichever way. Raises ValueError where the mode's parts are missing."""
    if isinstance(found, EstimatorSpec):
        return found
    if not isinstance(found, ModelFnOps):
        if not isinstance(found, tuple) or len(found) != 3:
            raise ValueError(
                "model_fn should return ModelFnOps, an EstimatorSpec, or (predictions, loss, train_op), got "
                f"{f'{len(found)} values' if isinstance(found, tuple) else type(found).__name__}"
            )
        found = ModelFnOps(mode, *found)
    needed = {"train_op": (ModeKeys.TRAIN,), "loss": (ModeKeys.TRAIN, ModeKeys.EVAL),
              "predictions": (ModeKeys.EVAL, ModeKeys.INFER)}  # fmt: skip
    for part, modes in needed.items():
        if mode in modes and getattr(found, part) is None:
            raise ValueError(f"Missing {part}: model_fn gave none for mode {mode!r}.")
    outputs = {name: export.PredictOutput(tensors) for name, (_, tensors) in (found.output_alternatives or {}).items()}
    fields = found._asdict() | {"mode": mode, "export_outputs": outputs or None}
    del fields["output_alternatives"]
    return EstimatorSpec(**fields)


class OrAllPredictions(export.ExportOutput):
    """A classification or regression where serialized examples are fed, all predictions by name where others are."""

    def __init__(self, output: export.ExportOutput, predictions: Mapping[str, Any]):
        self._output, self._otherwise = output, export.PredictOutput(predictions)

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        try:
            return self._output.as_signature_def(receiver_tensors)
        except ValueError:  # what it says when the tensors are others
            return self._otherwise.as_signature_def(receiver_tensors)


def receiver_of(serving_input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """The function with what it gives as tf.estimator's, if it is InputFnOps."""

    def receive() -> Any:
        found = serving_input_fn()
        if not isinstance(found, InputFnOps):
            return found
        alone = not isinstance(found.features, Mapping)  # the model function gets the tensor itself
        made = export.TensorServingInputReceiver if alone else export.ServingInputReceiver
        return made(found.features, found.default_inputs)

    return receive
