"""Activations with settings or variables of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import activations
from sparkflow.keras.engine import Layer
from sparkflow.ops import math, nn, operators  # noqa: F401 - x * y on tensors


class LeakyReLU(Layer):
    """x above 0, alpha * x below."""

    supports_masking = True

    def __init__(self, alpha: float = 0.3, **kwargs: Any):
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return nn.leaky_relu(inputs, self.alpha)


class PReLU(Layer):
    """x above 0, <name>/alpha * x below; alpha has a number for each place but along shared_axes."""

    supports_masking = True

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: int | Sequence[int] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.shared_axes = [shared_axes] if isinstance(shared_axes, int) else list(shared_axes or ())
        self._of_alpha = {
            "initializer": alpha_initializer,
            "regularizer": alpha_regularizer,
            "constraint": alpha_constraint,
        }

    def build(self, input_shape: Any) -> None:
        size = list(input_shape.as_list()[1:])
        for axis in self.shared_axes:
            size[axis - 1] = 1
        self.alpha = self.add_weight("alpha", size, **self._of_alpha)
        self.built = True

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return nn.relu(inputs) - self.alpha * nn.relu(-inputs)


class ELU(Layer):
    """x above 0, alpha * (e ** x - 1) below."""

    supports_masking = True

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return activations.elu(inputs, self.alpha)


class ThresholdedReLU(Layer):
    """x above theta, 0 below."""

    supports_masking = True

    def __init__(self, theta: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.theta = theta

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return inputs * math.cast(math.greater(inputs, self.theta), inputs.dtype.base_dtype)


class ReLU(Layer):
    """x above threshold, at most max_value; negative_slope * (x - threshold) below."""

    supports_masking = True

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return activations.relu(inputs, self.negative_slope or 0.0, self.max_value, self.threshold or 0.0)


class Softmax(Layer):
    """e ** x over their sum along axis."""

    supports_masking = True

    def __init__(self, axis: int = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        return nn.softmax(inputs, axis=self.axis)
