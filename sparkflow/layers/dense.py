"""Fully connected layers, dropout, and flattening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.layers.base import Layer, channel_axis, in_own_scopes, named_activation
from sparkflow.ops import array, init_ops, math, nn
from sparkflow.ops.control_flow_cond import smart_cond
from sparkflow_runtime.wire.errors import InvalidArgumentError


class Dense(Layer):
    """activation(inputs @ kernel + bias): [batch, ..., n] -> [batch, ..., units], of the dtype of inputs.

    Makes the variables <name>/kernel [n, units] (Glorot's uniform by default) and <name>/bias [units] (zeros).
    Raises ValueError where inputs has less than two axes or its last size is not known.
    """

    def __init__(
        self,
        units: int,
        activation: Callable[[Tensor], Tensor] | str | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.units, self.activation, self.use_bias = int(units), named_activation(activation), use_bias
        self._of_kernel = {
            "initializer": kernel_initializer,
            "regularizer": kernel_regularizer,
            "constraint": kernel_constraint,
        }
        self._of_bias = {
            "initializer": bias_initializer or init_ops.zeros_initializer(),
            "regularizer": bias_regularizer,
            "constraint": bias_constraint,
        }
        self.kernel = self.bias = None

    @in_own_scopes
    def build(self, input_shape: TensorShape) -> None:
        dims = input_shape.dims_
        if dims is None or len(dims) < 2 or dims[-1] is None:
            raise ValueError(
                "The inputs to `dense` need at least two dimensions and the last one defined, got shape "
                f"{shapes.show(dims)}"
            )
        if self._dtype is not None and not (self._dtype.is_floating or self._dtype.is_complex):
            raise TypeError(f"A Dense layer needs inputs with a fraction, got {self.dtype}; tf.cast converts")
        self.kernel = self.add_weight("kernel", [dims[-1], self.units], **self._of_kernel)
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.units], **self._of_bias)

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        dims = inputs._shape
        out = math.matmul(inputs, self.kernel) if len(dims) == 2 else self._on_last_axis(inputs, dims)
        out = nn.bias_add(out, self.bias) if self.use_bias else out
        return out if self.activation is None else self.activation(out)

    def _on_last_axis(self, x: Tensor, dims: tuple[int | None, ...]) -> Tensor:
        """Whatever axes stand before it."""
        flat = math.matmul(array.reshape(x, [-1, dims[-1]]), self.kernel)
        sizes = array.shape(x)
        outer = [sizes[i] if d is None else d for i, d in enumerate(dims[:-1])]
        out = array.reshape(flat, [*outer, self.units])
        out.set_shape((*dims[:-1], self.units))
        return out


def dense(
    inputs: Any,
    units: int,
    activation: Callable[[Tensor], Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Dense as a function. name: "dense", made unique, by default; with reuse the variables of that name are shared."""
    settings = {k: v for k, v in locals().items() if k not in ("inputs", "reuse")}
    return Dense(**settings, _scope=name, _reuse=reuse)(inputs)


class Dropout(Layer):
    """While training: zero each element with probability `rate`, and scale the others by 1 / (1 - rate).

    noise_shape: elements along axes of size 1 are dropped together.
    """

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, training: Any = False, **kwargs: Any) -> Tensor:
        """training: a Python bool, or a bool scalar tensor that decides at each step (nothing is drawn where it is
        false). None: False, as Keras' learning phase is until somebody sets it."""
        return smart_cond(
            False if training is None else training,
            lambda: nn.dropout(inputs, rate=self.rate, noise_shape=self.noise_shape, seed=self.seed),
            lambda: array.identity(inputs),
        )


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """Dropout as a function. training: a Python bool, or a bool scalar tensor that decides at each step."""
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


class Flatten(Layer):
    """[batch, ...] -> [batch, the product of the rest]. Raises InvalidArgumentError where inputs is a scalar."""

    def __init__(self, data_format: str = "channels_last", name: str | None = None, **kwargs: Any):
        super().__init__(name=name, **kwargs)
        channel_axis("flatten", data_format, 0)
        self.data_format = data_format

    def call(self, inputs: Any, **kwargs: Any) -> Tensor:
        x, dims = inputs, inputs._shape
        if dims == ():
            raise InvalidArgumentError(f"flatten: the input has no batch axis, it is a scalar: {x}")
        if self.data_format == "channels_first" and dims is not None and len(dims) > 2:
            x = array.transpose(x, [0, *range(2, len(dims)), 1])
        if dims is None or None in dims[1:]:
            return array.reshape(x, [array.shape(x)[0], -1])
        width = shapes.product(dims[1:])
        out = array.reshape(x, [-1, width] if width else [array.shape(x)[0], 0])
        out.set_shape((dims[0], width))
        return out


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """Flatten as a function."""
    return Flatten(data_format, name)(inputs)
