"""Activations by name, as tf.keras.activations has them: layers and cells take such a name for the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.ops import math, nn
from sparkflow.ops.clip import clip_by_value

selu, softplus, softsign, tanh, sigmoid, exponential = (
    nn.selu,
    nn.softplus,
    nn.softsign,
    math.tanh,
    math.sigmoid,
    math.exp,
)


def linear(x: Any) -> Any:
    return x


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """x above threshold, at most max_value; alpha * (x - threshold) below."""
    above = nn.relu(x) if threshold == 0 else x * math.cast(math.greater(x, threshold), x.dtype.base_dtype)
    above = above if max_value is None else clip_by_value(above, 0.0, max_value)
    return above if alpha == 0 else above - alpha * nn.relu(threshold - x)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha * (e ** x - 1) below."""
    return nn.elu(x) if alpha == 1 else nn.relu(x) - alpha * (1.0 - math.exp(-nn.relu(-x)))


def softmax(x: Any, axis: int = -1) -> Tensor:
    return nn.softmax(x, axis=axis)


def hard_sigmoid(x: Any) -> Tensor:
    """0.2 x + 0.5, within [0, 1]."""
    return clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


_NAMED: dict[str, Callable[..., Any]] = {
    "elu": elu, "exponential": exponential, "hard_sigmoid": hard_sigmoid, "linear": linear, "relu": relu, "selu": selu,
    "sigmoid": sigmoid, "softmax": softmax, "softplus": softplus, "softsign": softsign, "tanh": tanh,
}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any]:
    """The function of that name; a function itself; linear for None. Raises ValueError on an unknown name."""
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier
    if identifier not in _NAMED:
        raise ValueError(f"Unknown activation function: {identifier!r}; there are {', '.join(_NAMED)}")
    return _NAMED[identifier]
