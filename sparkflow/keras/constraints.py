"""tf.keras.constraints: what a variable is mapped to after each update, for kernel_constraint and its kin."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import backend
from sparkflow.ops import (
    math,
    math_reduce,
    operators,  # noqa: F401 - x * y on tensors
)
from sparkflow.ops.clip import clip_by_value


class Constraint:
    """A function of a variable: a subclass defines __call__."""

    def __call__(self, w: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what becomes of a variable: define __call__(w)")

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))


def _norms(w: Any, axis: Any) -> Tensor:
    return math.sqrt(math_reduce.reduce_sum(math.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Vectors along axis are made no longer than max_value."""

    def __init__(self, max_value: float = 2, axis: Any = 0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Tensor:
        norms = _norms(w, self.axis)
        return w * (clip_by_value(norms, 0.0, float(self.max_value)) / (backend.epsilon() + norms))


class NonNeg(Constraint):
    """Numbers below 0 become 0."""

    def __call__(self, w: Any) -> Tensor:
        return w * math.cast(math.greater_equal(w, 0.0), w.dtype.base_dtype)


class UnitNorm(Constraint):
    """Vectors along axis are made 1 long."""

    def __init__(self, axis: Any = 0):
        self.axis = axis

    def __call__(self, w: Any) -> Tensor:
        return w / (backend.epsilon() + _norms(w, self.axis))


class MinMaxNorm(Constraint):
    """Vectors along axis come, by `rate` of the way, between min_value and max_value long."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Tensor:
        norms = _norms(w, self.axis)
        wanted = (
            self.rate * clip_by_value(norms, float(self.min_value), float(self.max_value)) + (1 - self.rate) * norms
        )
        return w * (wanted / (backend.epsilon() + norms))


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm


def get(identifier: Any) -> Any:
    """The constraint of that name; itself, or None. Raises ValueError on an unknown name."""
    if identifier is None or callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    named: dict[str, Any] = {
        "max_norm": MaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm, "min_max_norm": MinMaxNorm, "MaxNorm": MaxNorm,
        "NonNeg": NonNeg, "UnitNorm": UnitNorm, "MinMaxNorm": MinMaxNorm,
    }  # fmt: skip
    if identifier not in named:
        raise ValueError(f"Unknown constraint: {identifier!r}; there are {', '.join(sorted(named))}")
    return named[identifier]()
