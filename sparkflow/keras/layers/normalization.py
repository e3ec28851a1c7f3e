"""Batch and layer normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras.engine import Layer
from sparkflow.keras.learning import learning
from sparkflow.layers import normalization
from sparkflow.ops import array, nn


class BatchNormalization(normalization.BatchNormalization, Layer):
    __doc__ = (normalization.BatchNormalization.__doc__ or "").replace(
        "lie in the collection\n    UPDATE_OPS and must be run", "are the layer's `updates`\n    and must be run"
    )
    supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Tensor:  # type: ignore[override]
        """training: a bool or a bool scalar tensor; the learning phase by default."""
        return super().call(inputs, training=learning(training))

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        Layer.add_update(self, updates, inputs)


class LayerNormalization(Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, by the statistics of each example along axis.

    Source: Ba, Kiros and Hinton 2016. Makes <name>/gamma and <name>/beta, of the sizes along axis.
    """

    supports_masking = True

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.axis, self.epsilon, self.center, self.scale = axis, epsilon, center, scale
        self._of_gamma = {
            "initializer": gamma_initializer,
            "regularizer": gamma_regularizer,
            "constraint": gamma_constraint,
        }
        self._of_beta = {
            "initializer": beta_initializer,
            "regularizer": beta_regularizer,
            "constraint": beta_constraint,
        }
        self.gamma = self.beta = None

    def build(self, input_shape: Any) -> None:
        dims = input_shape.as_list()
        given = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self._axes = sorted(a % len(dims) for a in given)
        size = [dims[a] for a in self._axes]
        if None in size:
            raise ValueError(f"LayerNormalization: axis {self.axis} must have a known size, got shape {input_shape}")
        self.gamma = self.add_weight("gamma", size, **self._of_gamma) if self.scale else None
        self.beta = self.add_weight("beta", size, **self._of_beta) if self.center else None
        self.built = True

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        mean, variance = nn.moments(inputs, self._axes, keepdims=True)
        return nn.batch_normalization(
            inputs, mean, variance, self._spread(self.beta, inputs), self._spread(self.gamma, inputs), self.epsilon
        )

    def _spread(self, variable: Any, inputs: Tensor) -> Any:
        """Along the axes that are normalized."""
        dims = inputs._shape
        assert dims is not None
        if variable is None or self._axes == [len(dims) - 1]:
            return variable
        return array.reshape(variable, [d if a in self._axes else 1 for a, d in enumerate(dims)])
