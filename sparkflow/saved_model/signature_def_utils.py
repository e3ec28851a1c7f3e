"""tf.saved_model.signature_def_utils: what goes into a model and comes out of it, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import SignatureDef

from sparkflow.saved_model import signature_constants as names
from sparkflow.saved_model.utils import build_tensor_info
from sparkflow_runtime.wire.dtypes import DType, float32, string


def build_signature_def(
    inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None, method_name: str | None = None
) -> SignatureDef:
    """inputs and outputs: TensorInfos by name."""
    signature = SignatureDef(method_name=method_name or "")
    for found, field in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for key, info in (found or {}).items():
            field[key].CopyFrom(info)
    return signature


def _of_tensors(inputs: Mapping[str, Any], outputs: Mapping[str, Any], method: str) -> SignatureDef:
    if not inputs or not outputs:
        raise ValueError(f"A signature needs inputs and outputs, got {inputs!r} and {outputs!r}")
    taken, given = ({k: build_tensor_info(t) for k, t in part.items()} for part in (inputs, outputs))
    return build_signature_def(taken, given, method)


def _check_types(kind: str, given: Mapping[str, tuple[Any, DType]]) -> None:
    for what, (tensor, wanted) in given.items():
        if tensor is not None and tensor.dtype.base_dtype != wanted:
            raise ValueError(
                f"{kind} {what} tensors must be of type {wanted.name}. Found {tensor.dtype.base_dtype.name}"
            )


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """Any tensors to any tensors."""
    return _of_tensors(inputs, outputs, names.PREDICT_METHOD_NAME)


def regression_signature_def(examples: Any, predictions: Any) -> SignatureDef:
    """Serialized examples to numbers. Raises ValueError where they are of another type."""
    _check_types("Regression", {"input": (examples, string), "output": (predictions, float32)})
    return _of_tensors(
        {names.REGRESS_INPUTS: examples}, {names.REGRESS_OUTPUTS: predictions}, names.REGRESS_METHOD_NAME
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> SignatureDef:
    """Serialized examples to classes (strings), scores, or both. Raises ValueError where they are of another type."""
    given = {"input": (examples, string), "classes": (classes, string), "scores": (scores, float32)}
    _check_types("Classification", given)
    found = {names.CLASSIFY_OUTPUT_CLASSES: classes, names.CLASSIFY_OUTPUT_SCORES: scores}
    outputs = {k: t for k, t in found.items() if t is not None}
    return _of_tensors({names.CLASSIFY_INPUTS: examples}, outputs, names.CLASSIFY_METHOD_NAME)


def is_valid_signature(signature_def: SignatureDef | None) -> bool:
    """Whether it has a known method, inputs and outputs."""
    methods = (names.CLASSIFY_METHOD_NAME, names.PREDICT_METHOD_NAME, names.REGRESS_METHOD_NAME)
    return bool(
        signature_def is not None
        and signature_def.method_name in methods
        and signature_def.inputs
        and signature_def.outputs
    )


def __getattr__(name: str) -> Any:
    if name == "MethodNameUpdater":  # whose module reads files, with the loader's help
        from sparkflow.saved_model.method_names import MethodNameUpdater

        return MethodNameUpdater
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
