"""tf.estimator.export: what a served model is asked, what it answers, and under which signatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sparkflow.framework.apply import is_tensor_like
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array
from sparkflow.ops.parsing import parse_example
from sparkflow.ops.strings import as_string
from sparkflow.saved_model import signature_constants, signature_def_utils
from sparkflow_runtime.wire import dtypes

_SINGLE_FEATURE, _SINGLE_RECEIVER = "feature", "input"
DEFAULT_KEY = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class ExportOutput(ABC):
    """One of a model's answers."""

    @abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The signature from these tensors to it. Raises ValueError where it cannot be asked so."""


def _single_string(what: str, receivers: Mapping[str, Any]) -> Any:
    """Classifications and regressions are asked with one tensor of serialized examples."""
    if len(receivers) != 1:
        raise ValueError(f"{what} input must be a single string Tensor; got {receivers}")
    (examples,) = receivers.values()
    if examples.dtype.base_dtype != dtypes.string:
        raise ValueError(f"{what} input must be a single string Tensor; got {receivers}")
    return examples


class ClassificationOutput(ExportOutput):
    """scores: [batch, classes] floats; classes: [batch, classes] strings; at least one of them."""

    def __init__(self, scores: Tensor | None = None, classes: Tensor | None = None):
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None and not scores.dtype.is_floating:
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and classes.dtype.base_dtype != dtypes.string:
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        examples = _single_string("Classification", receiver_tensors)
        return signature_def_utils.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """value: [batch, n] floats."""

    def __init__(self, value: Tensor):
        if not value.dtype.is_floating:
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        return signature_def_utils.regression_signature_def(_single_string("Regression", receiver_tensors), self.value)


class PredictOutput(ExportOutput):
    """outputs: a tensor, or tensors by name."""

    def __init__(self, outputs: Any):
        self.outputs = dict(outputs) if isinstance(outputs, Mapping) else {"output": outputs}
        if wrong := [value for value in self.outputs.values() if not is_tensor_like(value)]:
            raise ValueError(f"PredictOutput: an output must be a Tensor, got {wrong[0]!r}")

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        return signature_def_utils.predict_signature_def(receiver_tensors, self.outputs)


class ServingInputReceiver(NamedTuple):
    """features: as the model function gets them; receiver_tensors: what the caller feeds;
    receiver_tensors_alternatives: name -> other tensors that may be fed instead."""

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


class TensorServingInputReceiver(ServingInputReceiver):
    """Of models whose features are a single tensor, which a dict would not do for."""

    __slots__ = ()


def checked_receiver(receiver: Any) -> tuple[Any, dict[str, Any]]:
    """(features, receiver tensors by name). Raises ValueError on what is no receiver."""
    if not isinstance(receiver, ServingInputReceiver):
        raise ValueError(f"serving_input_receiver_fn must return a ServingInputReceiver, got {type(receiver).__name__}")
    features = receiver.features
    if not isinstance(features, Mapping) and not isinstance(receiver, TensorServingInputReceiver):
        features = {_SINGLE_FEATURE: features}
    given = receiver.receiver_tensors
    return features, dict(given) if isinstance(given, Mapping) else {_SINGLE_RECEIVER: given}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A receiver whose callers feed the features themselves, of these tensors' types and shapes but for the batch."""

    def receive() -> ServingInputReceiver:
        made = {name: _open(t.op.name, t, default_batch_size) for name, t in features.items()}
        return ServingInputReceiver(made, made)

    return receive


def _open(name: str, like: Any, batch: int | None) -> Tensor:
    dims = like.shape.as_list()
    return array.placeholder(like.dtype.base_dtype, [batch, *dims[1:]], name=name)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A receiver whose callers feed serialized tf.train.Examples under "examples"."""

    def receive() -> ServingInputReceiver:
        serialized = array.placeholder(dtypes.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(parse_example(serialized, feature_spec), {"examples": serialized})

    return receive


def outputs_of(spec: Any) -> dict[str, ExportOutput]:
    """The answers that an EstimatorSpec names, or its predictions; one of them is the default."""
    named = spec.export_outputs or {DEFAULT_KEY: PredictOutput(spec.predictions)}
    if not isinstance(named, Mapping) or not all(isinstance(v, ExportOutput) for v in named.values()):
        raise TypeError(f"export_outputs must be a dict of name -> ExportOutput, given {named!r}")
    if DEFAULT_KEY in named:
        return dict(named)
    if len(named) > 1:
        raise ValueError(
            f"Multiple export_outputs were provided, but none of them is the default: name one {DEFAULT_KEY}"
        )
    return {**named, DEFAULT_KEY: next(iter(named.values()))}


def signatures(receiver: ServingInputReceiver, outputs: Mapping[str, ExportOutput]) -> dict[str, Any]:
    """A signature for each output that may be asked so: a classification, for one, needs serialized examples.

    Raises ValueError where none may.
    """
    _, tensors = checked_receiver(receiver)
    asked = [("", tensors), *((f"{k}:", v) for k, v in (receiver.receiver_tensors_alternatives or {}).items())]
    found, refused = {}, []
    for prefix, given in asked:
        named = given if isinstance(given, Mapping) else {_SINGLE_RECEIVER: given}
        for key, output in outputs.items():
            try:
                found[prefix + key] = output.as_signature_def(named)
            except ValueError as error:
                refused.append(f"{prefix}{key}: {error}")
    if not found:
        raise ValueError("No signature can be made of the outputs: " + "; ".join(refused))
    return found


def all_classes(names: Any, like: Any) -> Tensor:
    """The names of all classes, strings, once for each row of `like`."""
    rows = array.shape(like)[0]
    text = names if names.dtype.base_dtype == dtypes.string else as_string(names)
    return array.tile(array.expand_dims(text, 0), [rows, 1])


__all__ = [
    "ClassificationOutput", "ExportOutput", "PredictOutput", "RegressionOutput", "ServingInputReceiver",
    "TensorServingInputReceiver", "build_parsing_serving_input_receiver_fn", "build_raw_serving_input_receiver_fn",
]  # fmt: skip
