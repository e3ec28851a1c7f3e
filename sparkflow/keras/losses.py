"""tf.keras.losses: how far predictions are from labels: functions [..., k] -> [...], and objects that give a scalar.

An object is called with (y_true, y_pred, sample_weight=None), and its number goes to a tf.train optimizer.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.keras import backend
from sparkflow.losses.weighted import broadcast_weights
from sparkflow.metrics.streaming import of_rank
from sparkflow.ops import array, array_select, math, math_reduce, nn
from sparkflow.ops.clip import clip_by_value
from sparkflow.ops.control_flow_cond import cond


class Reduction:
    """What becomes of the losses of a batch; AUTO is SUM_OVER_BATCH_SIZE."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key!r}: give one of {', '.join(map(repr, cls.all()))}")


def _both(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    y_pred = convert_to_tensor(y_pred)
    return math.cast(convert_to_tensor(y_true), y_pred.dtype.base_dtype), y_pred


def aligned(t: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Both without a last size of 1 that only one of them has."""
    a, b = t.shape.ndims, p.shape.ndims
    if a is None or b is None or abs(a - b) != 1:
        return t, p
    longer = t if a > b else p
    if longer.shape.as_list()[-1] != 1:
        return t, p
    shorter = array.squeeze(longer, [-1])
    return (shorter, p) if longer is t else (t, shorter)


def _mean_of(measure: Callable[[Tensor, Tensor], Tensor], name: str, doc: str) -> Callable[[Any, Any], Tensor]:
    def loss(y_true: Any, y_pred: Any) -> Tensor:
        return math_reduce.reduce_mean(measure(*_both(y_true, y_pred)), -1)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"The mean over the last axis of {doc}."
    return loss


def _least(x: Tensor, least: float) -> Tensor:
    return math.maximum(x, math.cast(least, x.dtype))


def _log_of_more(x: Tensor) -> Tensor:
    return math.log(_least(x, backend.epsilon()) + 1.0)


def _share_apart(t: Tensor, p: Tensor) -> Tensor:
    return 100.0 * math.abs((t - p) / _least(math.abs(t), backend.epsilon()))


def _signs(t: Tensor) -> Tensor:
    """Labels -1 and 1: those of 0 and 1, where there are no others, become these."""
    binary = math_reduce.reduce_all(math.logical_or(math.equal(t, 0.0), math.equal(t, 1.0)))
    return cond(binary, lambda: 2.0 * t - 1.0, lambda: array.identity(t))


def _log_cosh(t: Tensor, p: Tensor) -> Tensor:
    apart = p - t
    return apart + nn.softplus(-2.0 * apart) - pymath.log(2.0)


mean_squared_error = _mean_of(math.squared_difference, "mean_squared_error", "(y_pred - y_true)^2")
mean_absolute_error = _mean_of(lambda t, p: math.abs(p - t), "mean_absolute_error", "|y_pred - y_true|")
mean_absolute_percentage_error = _mean_of(
    _share_apart, "mean_absolute_percentage_error", "100 |y_true - y_pred| / |y_true|"
)
mean_squared_logarithmic_error = _mean_of(
    lambda t, p: math.square(_log_of_more(p) - _log_of_more(t)), "mean_squared_logarithmic_error",
    "(log(y_pred + 1) - log(y_true + 1))^2",
)  # fmt: skip
hinge = _mean_of(lambda t, p: _least(1.0 - _signs(t) * p, 0.0), "hinge", "max(1 - y_true y_pred, 0)")
squared_hinge = _mean_of(
    lambda t, p: math.square(_least(1.0 - _signs(t) * p, 0.0)), "squared_hinge", "max(1 - y_true y_pred, 0)^2"
)
logcosh = _mean_of(_log_cosh, "logcosh", "log(cosh(y_pred - y_true))")
poisson = _mean_of(
    lambda t, p: p - t * math.log(p + backend.epsilon()), "poisson", "y_pred - y_true log(y_pred)"
)  # fmt: skip


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """The mean over the last axis of half the square up to delta, and of a straight line beyond."""
    t, p = _both(y_true, y_pred)
    apart = math.abs(p - t)
    inside, outside = 0.5 * math.square(apart), delta * apart - 0.5 * delta * delta
    return math_reduce.reduce_mean(array_select.where(apart <= delta, inside, outside), -1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """How much the best wrong class reaches above the right one, less a margin of 1."""
    t, p = _both(y_true, y_pred)
    right, wrong = math_reduce.reduce_sum(t * p, -1), math_reduce.reduce_max((1.0 - t) * p, -1)
    return _least(wrong - right + 1.0, 0.0)


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """The sum over the last axis of y_true log(y_true / y_pred)."""
    t, p = (clip_by_value(x, backend.epsilon(), 1.0) for x in _both(y_true, y_pred))
    return math_reduce.reduce_sum(t * math.log(t / p), -1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """The cosine of the angle between both, negative so that less is better."""
    t, p = (backend.l2_normalize(x, axis) for x in _both(y_true, y_pred))
    return -math_reduce.reduce_sum(t * p, axis)


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0) -> Tensor:
    t, p = _both(y_true, y_pred)
    if label_smoothing:
        t = t * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return math_reduce.reduce_mean(backend.binary_crossentropy(t, p, from_logits), -1)


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0
) -> Tensor:
    t, p = _both(y_true, y_pred)
    if label_smoothing:
        t = t * (1.0 - label_smoothing) + label_smoothing / math.cast(array.shape(p)[-1], p.dtype.base_dtype)
    return backend.categorical_crossentropy(t, p, from_logits)


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1) -> Tensor:
    return backend.sparse_categorical_crossentropy(y_true, convert_to_tensor(y_pred), from_logits, axis)


class Loss:
    """A subclass says call(y_true, y_pred): the losses of a batch, which `reduction` makes a number of."""

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None):
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def call(self, y_true: Any, y_pred: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its loss: define call(y_true, y_pred)")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        with get_default_graph().name_scope(self.name or type(self).__name__.lower()):
            losses = convert_to_tensor(self.call(y_true, y_pred))
            if sample_weight is not None:
                weights = of_rank(math.cast(convert_to_tensor(sample_weight), losses.dtype), losses)
                losses = losses * broadcast_weights(weights, losses)
            if self.reduction == Reduction.NONE:
                return losses
            total = math_reduce.reduce_sum(losses)
            if self.reduction == Reduction.SUM:
                return total
            return math.div_no_nan(total, math.cast(array.size(losses), losses.dtype), name="value")

    def get_config(self) -> dict[str, Any]:
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class _Of(Loss):
    """A function's loss, with its own arguments before those of all losses."""

    _function: Callable[..., Tensor]
    _own: dict[str, Any] = {}  # noqa: RUF012 - its arguments and their defaults, in their order
    _align = True

    def __init__(self, *args: Any, **kwargs: Any):
        names = [*self._own, "reduction", "name"]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = sorted(set(given) - set(names))
        if unknown or len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}, got {unknown or len(args)}")
        super().__init__(given.pop("reduction", Reduction.AUTO), given.pop("name", type(self)._function.__name__))
        self._given = {**self._own, **given}

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        if self._align:
            y_true, y_pred = aligned(*_both(y_true, y_pred))
        return type(self)._function(y_true, y_pred, **self._given)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._given}


def _made(name: str, function: Callable[..., Tensor], own: dict[str, Any] | None = None, align: bool = True) -> type:
    doc = f"{function.__name__} as an object."
    return type(name, (_Of,), {"_function": staticmethod(function), "_own": own or {}, "_align": align, "__doc__": doc})


_CROSS = {"from_logits": False, "label_smoothing": 0.0}
MeanSquaredError = _made("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _made("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _made("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _made("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
BinaryCrossentropy = _made("BinaryCrossentropy", binary_crossentropy, _CROSS)
CategoricalCrossentropy = _made("CategoricalCrossentropy", categorical_crossentropy, _CROSS)
SparseCategoricalCrossentropy = _made(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, {"from_logits": False}, align=False
)
Hinge = _made("Hinge", hinge)
SquaredHinge = _made("SquaredHinge", squared_hinge)
CategoricalHinge = _made("CategoricalHinge", categorical_hinge)
Poisson = _made("Poisson", poisson)
LogCosh = _made("LogCosh", logcosh)
KLDivergence = _made("KLDivergence", kullback_leibler_divergence)
CosineSimilarity = _made("CosineSimilarity", cosine_similarity, {"axis": -1})
Huber = _made("Huber", huber, {"delta": 1.0})

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
cosine = cosine_proximity = cosine_similarity


def get(identifier: Any) -> Any:
    """The loss of that name (a function), or the callable itself; None as it is. Raises ValueError on another name."""
    if identifier is None or callable(identifier):
        return identifier
    found = globals().get(identifier) if isinstance(identifier, str) else None
    if isinstance(found, type) and issubclass(found, _Of):
        return found()
    if found is None or getattr(found, "__module__", None) != __name__ or identifier.startswith("_"):
        raise ValueError(f"Unknown loss function: {identifier!r}")
    return found


def serialize(loss: Any) -> Any:
    if isinstance(loss, Loss):
        return {"class_name": type(loss).__name__, "config": loss.get_config()}
    return loss.__name__


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Raises ValueError on an unknown name."""
    return made_of(config, globals(), custom_objects or {}, get, "loss")


def made_of(config: Any, own: dict[str, Any], custom: dict[str, Any], get: Callable[[Any], Any], what: str) -> Any:
    """What `serialize` told of: a name, or a class and its config. Raises ValueError on a class that is not known."""
    if isinstance(config, str):
        return custom.get(config) or get(config)
    kind = custom.get(config["class_name"]) or own.get(config["class_name"])
    if kind is None:
        raise ValueError(f"Unknown {what} class: {config['class_name']!r}; name it in custom_objects")
    return kind.from_config(config["config"])
