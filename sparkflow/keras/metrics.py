"""tf.keras.metrics: objects that add up batch after batch, and functions of one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.keras import losses
from sparkflow.keras.losses import (
    KLD,
    MAE,
    MAPE,
    MSE,
    MSLE,
    binary_crossentropy,
    categorical_crossentropy,
    categorical_hinge,
    hinge,
    kld,
    kullback_leibler_divergence,
    logcosh,
    mae,
    mape,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    mse,
    msle,
    poisson,
    sparse_categorical_crossentropy,
    squared_hinge,
)  # fmt: skip
from sparkflow.keras.metric import (
    Mean,
    MeanIoU,
    MeanMetricWrapper,
    MeanRelativeError,
    MeanTensor,
    Metric,
    RootMeanSquaredError,
    Sum,
)  # fmt: skip
from sparkflow.keras.metric_curves import (
    AUC,
    FalseNegatives,
    FalsePositives,
    Precision,
    Recall,
    SensitivityAtSpecificity,
    SpecificityAtSensitivity,
    TrueNegatives,
    TruePositives,
)  # fmt: skip
from sparkflow.ops import array, math, math_reduce, nn

__all__ = [
    "AUC",
    "KLD",
    "MAE",
    "MAPE",
    "MSE",
    "MSLE",
    "FalseNegatives",
    "FalsePositives",
    "Mean",
    "MeanIoU",
    "MeanMetricWrapper",
    "MeanRelativeError",
    "MeanTensor",
    "Metric",
    "Precision",
    "Recall",
    "RootMeanSquaredError",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "Sum",
    "TrueNegatives",
    "TruePositives",
    "binary_crossentropy",
    "categorical_crossentropy",
    "categorical_hinge",
    "cosine_similarity",
    "hinge",
    "kld",
    "kullback_leibler_divergence",
    "logcosh",
    "mae",
    "mape",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "mse",
    "msle",
    "poisson",
    "sparse_categorical_crossentropy",
    "squared_hinge",
]  # fmt: skip


def _hits(there: Tensor, like: Tensor) -> Tensor:
    return math.cast(there, like.dtype.base_dtype)


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    y_pred = convert_to_tensor(y_pred)
    return math.cast(math.equal(math.cast(convert_to_tensor(y_true), y_pred.dtype.base_dtype), y_pred), "float32")


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """The share, along the last axis, of predictions on their label's side of the threshold."""
    y_pred = convert_to_tensor(y_pred)
    said = _hits(y_pred > math.cast(threshold, y_pred.dtype.base_dtype), y_pred)
    return math_reduce.reduce_mean(accuracy(y_true, said), -1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
    return _hits(math.equal(math_reduce.argmax(y_true, -1), math_reduce.argmax(y_pred, -1)), y_pred)


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = array.squeeze(y_true, [-1])
    return _hits(math.equal(math.cast(y_true, "int64"), math_reduce.argmax(y_pred, -1)), y_pred)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    y_true, y_pred = convert_to_tensor(y_true), convert_to_tensor(y_pred)
    if y_true.shape.ndims is not None and y_true.shape.ndims == y_pred.shape.ndims:
        y_true = array.squeeze(y_true, [-1])
    if y_pred.shape.ndims is None or y_pred.shape.ndims == 2:
        return _hits(nn.in_top_k(y_pred, math.cast(array.reshape(y_true, [-1]), "int32"), k), y_pred)
    flat = array.reshape(y_pred, [-1, array.shape(y_pred)[-1]])
    found = nn.in_top_k(flat, math.cast(array.reshape(y_true, [-1]), "int32"), k)
    return _hits(array.reshape(found, array.shape(y_true)), y_pred)


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    return sparse_top_k_categorical_accuracy(math_reduce.argmax(convert_to_tensor(y_true), -1), y_pred, k)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """The cosine of the angle, which as a metric is positive."""
    return math.negative(losses.cosine_similarity(y_true, y_pred, axis))


cosine = cosine_proximity = cosine_similarity


def _made(name: str, fn: Callable[..., Tensor], own: dict[str, Any] | None = None) -> type:
    """The mean of a function. own: its further arguments and their defaults, in their order, after name and dtype
    unless they come first."""
    further = own or {}
    leading = [key for key in further if key in ("k", "threshold")]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        order = ["name", "dtype", *further]
        if leading and name != "BinaryAccuracy":
            order = [*leading, "name", "dtype"]
        given = {"name": fn.__name__, "dtype": None, **further, **dict(zip(order, args)), **kwargs}
        unknown = sorted(set(given) - set(order))
        if unknown or len(args) > len(order):
            raise TypeError(f"{name} takes {', '.join(order)}, got {unknown or len(args)}")
        MeanMetricWrapper.__init__(self, fn, given.pop("name"), given.pop("dtype"), **given)

    return type(name, (MeanMetricWrapper,), {"__init__": init, "__doc__": f"The mean of {fn.__name__}."})


Accuracy = _made("Accuracy", accuracy)
BinaryAccuracy = _made("BinaryAccuracy", binary_accuracy, {"threshold": 0.5})
CategoricalAccuracy = _made("CategoricalAccuracy", categorical_accuracy)
SparseCategoricalAccuracy = _made("SparseCategoricalAccuracy", sparse_categorical_accuracy)
TopKCategoricalAccuracy = _made("TopKCategoricalAccuracy", top_k_categorical_accuracy, {"k": 5})
SparseTopKCategoricalAccuracy = _made("SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy, {"k": 5})
MeanAbsoluteError = _made("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _made("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredError = _made("MeanSquaredError", mean_squared_error)
MeanSquaredLogarithmicError = _made("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
Hinge = _made("Hinge", hinge)
SquaredHinge = _made("SquaredHinge", squared_hinge)
CategoricalHinge = _made("CategoricalHinge", categorical_hinge)
LogCoshError = _made("LogCoshError", logcosh)
Poisson = _made("Poisson", poisson)
KLDivergence = _made("KLDivergence", kullback_leibler_divergence)
CosineSimilarity = _made("CosineSimilarity", cosine_similarity, {"axis": -1})
BinaryCrossentropy = _made(
    "BinaryCrossentropy", binary_crossentropy, {"from_logits": False, "label_smoothing": 0}
)  # fmt: skip
CategoricalCrossentropy = _made(
    "CategoricalCrossentropy", categorical_crossentropy, {"from_logits": False, "label_smoothing": 0}
)
SparseCategoricalCrossentropy = _made(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, {"from_logits": False, "axis": -1}
)


def get(identifier: Any) -> Any:
    """The metric of that name (a function, or an object of a class), or the callable itself. Raises ValueError."""
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    found = globals().get(identifier) if isinstance(identifier, str) and not identifier.startswith("_") else None
    if isinstance(found, type) and issubclass(found, Metric):
        return found()
    if found is None or not getattr(found, "__module__", "").startswith("sparkflow.keras."):
        raise ValueError(f"Unknown metric function: {identifier!r}")
    return found


def serialize(metric: Any) -> Any:
    if isinstance(metric, Metric):
        return {"class_name": type(metric).__name__, "config": metric.get_config()}
    return metric.__name__


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    return losses.made_of(config, globals(), custom_objects or {}, get, "metric")
