"""Convolutions whose every place has filters of its own."""

from __future__ import annotations

from math import prod
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import activations, backend
from sparkflow.keras.engine import Layer
from sparkflow.layers.base import numbers
from sparkflow.ops import array, math, patches


class _Local(Layer):
    """What both have in common: patches of the input, each by a matrix of its own."""

    space = 0

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Any,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        kind = type(self).__name__
        if implementation != 1 or padding.lower() != "valid":
            raise ValueError(
                f"{kind}: only padding 'valid' and implementation 1 are supported, got {padding!r} and {implementation}"
            )
        self.filters, self.padding, self.implementation = filters, "valid", 1
        self.kernel_size = numbers(kind, "kernel_size", kernel_size, self.space)
        self.strides = numbers(kind, "strides", strides, self.space)
        self.data_format = data_format or ("channels_last" if self.space == 1 else backend.image_data_format())
        self.activation, self.use_bias = activations.get(activation), use_bias
        self._of_kernel = {
            "initializer": kernel_initializer, "regularizer": kernel_regularizer, "constraint": kernel_constraint,
        }  # fmt: skip
        self._of_bias = {
            "initializer": bias_initializer, "regularizer": bias_regularizer, "constraint": bias_constraint
        }  # fmt: skip

    def build(self, input_shape: Any) -> None:
        sizes = input_shape.as_list()
        channels, space = (sizes[1], sizes[2:]) if self._channels_first else (sizes[-1], sizes[1:-1])
        if channels is None or None in space:
            raise ValueError(
                f"{type(self).__name__} needs inputs of known size but for the batch, as each place has weights of its "
                f"own, got shape {input_shape}"
            )
        cells = zip(space, self.kernel_size, self.strides, strict=True)
        self._places = [(size - taps) // step + 1 for size, taps, step in cells]
        self._channels = channels
        count, taps = prod(self._places), prod(self.kernel_size)
        self.kernel = self.add_weight("kernel", [count, taps * channels, self.filters], **self._of_kernel)
        size = [*self._places, self.filters]
        self.bias = self.add_weight("bias", size, **self._of_bias) if self.use_bias else None
        self.built = True

    @property
    def _channels_first(self) -> bool:
        return self.data_format == "channels_first"

    def call(self, inputs: Any) -> Tensor:  # type: ignore[override]
        axes = list(range(2, 2 + self.space))
        x = array.transpose(inputs, [0, *axes, 1]) if self._channels_first else inputs
        rows = array.reshape(self._patches(x), [-1, prod(self._places), prod(self.kernel_size) * self._channels])
        out = array.transpose(math.matmul(array.transpose(rows, [1, 0, 2]), self._matrices()), [1, 0, 2])
        out = array.reshape(out, [-1, *self._places, self.filters])
        out = out if self.bias is None else math.add(out, self.bias)
        if self._channels_first:
            out = array.transpose(out, [0, 1 + self.space, *range(1, 1 + self.space)])
        return self.activation(out)

    def _patches(self, x: Tensor) -> Tensor:
        flat = self.space == 1
        sizes, steps = ((1,) * flat + tuple(n) for n in (self.kernel_size, self.strides))
        image = array.expand_dims(x, 1) if flat else x
        return patches.extract_image_patches(image, [1, *sizes, 1], [1, *steps, 1], [1, 1, 1, 1], "VALID")

    def _matrices(self) -> Any:
        """Their rows in the order of patches: the weights have channels first where the inputs have them so."""
        if not self._channels_first:
            return self.kernel
        count = prod(self._places)
        apart = array.reshape(self.kernel, [count, self._channels, prod(self.kernel_size), self.filters])
        return array.reshape(array.transpose(apart, [0, 2, 1, 3]), [count, -1, self.filters])


class LocallyConnected1D(_Local):
    """Rows [batch, steps, channels] by filters that differ from step to step: <name>/kernel [steps out, kernel_size *
    channels, filters], <name>/bias [steps out, filters]."""

    space = 1


class LocallyConnected2D(_Local):
    """Images by filters that differ from place to place: <name>/kernel [places, h * w * channels, filters],
    <name>/bias [rows, columns, filters]."""

    space = 2
