"""A convolutional LSTM along a sequence of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.keras import backend
from sparkflow.keras.calls import unique_name
from sparkflow.keras.engine import Layer
from sparkflow.keras.layers.cells import _WithForgetBias
from sparkflow.keras.layers.recurrent import RNN, _read
from sparkflow.keras.learning import in_train_phase
from sparkflow.keras.nets import _layout
from sparkflow.keras.recurrence import rnn
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops import (
    activations,
    array,
    array_join,
    init_named,
    nn,
    nn_conv,
    operators,  # noqa: F401 - x + y on tensors
)


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(v) for v in value]


class _Like:
    """What RNN's methods ask a cell: the states are as large as the output."""

    def __init__(self, size: int):
        self.state_size = (size, size)


class ConvLSTM2D(RNN):
    """An LSTM (Shi et al. 2015) whose products are convolutions: [batch, steps, rows, columns, channels] -> [batch,
    rows, columns, filters], its last output. Gates: input, forget, candidate, output; states: output and carry.

    padding, strides, dilation_rate: of the inputs' convolution; that of the states keeps their size. dropout: of the
    inputs, recurrent_dropout: of the states, one draw for all steps. The rest is as of RNN.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        return_sequences: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_state: bool = False,
        **kwargs: Any,
    ):
        name = kwargs.pop("name", None) or unique_name("conv_lstm2d")
        Layer.__init__(self, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.filters, self.kernel_size, self.strides = filters, _pair(kernel_size), _pair(strides)
        self.padding, self.dilation_rate, self._kind = padding.upper(), _pair(dilation_rate), _layout(data_format, 2)
        self.activation = activations.get(activation)
        self.recurrent_activation = activations.get(recurrent_activation)
        self.use_bias, self.dropout, self.recurrent_dropout = use_bias, dropout, recurrent_dropout
        first = init_named.get(bias_initializer)
        first = _WithForgetBias(first, filters) if unit_forget_bias else first
        of = lambda start, penalty, limit: {"initializer": start, "regularizer": penalty, "constraint": limit}  # noqa: E731
        self._of_kernel = of(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._of_recurrent = of(recurrent_initializer, recurrent_regularizer, recurrent_constraint)
        self._of_bias = of(first, bias_regularizer, bias_constraint)
        self.cell: Any = _Like(filters)
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.stateful = self._keeps_states = stateful
        self.unroll = self.time_major = self._zero = False
        self._kept, self._state_updates = [], []
        self.input_spec = InputSpec(ndim=5)

    def build(self, input_shape: Any) -> None:
        dims = (input_shape[0] if isinstance(input_shape, list) else input_shape).as_list()
        channels = dims[-1] if self._kind == "NHWC" else dims[2]
        if channels is None:
            raise ValueError(f"{self.name}: the channel dimension of the inputs should be defined, got {dims}")
        width = 4 * self.filters
        self.kernel = self.add_weight("kernel", [*self.kernel_size, channels, width], **self._of_kernel)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [*self.kernel_size, self.filters, width], **self._of_recurrent
        )
        self.bias = self.add_weight("bias", [width], **self._of_bias) if self.use_bias else None
        self.built = True

    def call(  # type: ignore[override]
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None, constants: Any = None
    ) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        first = self._convolved(array.zeros_like(inputs[:, 0]))  # of the states' shape
        zero = array.zeros_like(first[..., : self.filters] if self._kind == "NHWC" else first[:, : self.filters])
        states = list(initial_state) if initial_state is not None else [zero, zero]
        if self.stateful and initial_state is None:
            states = self._kept_like(zero)
        of_inputs = self._drawn(self.dropout, inputs[:, 0], training)
        of_states = self._drawn(self.recurrent_dropout, zero, training)
        last, outputs, new = rnn(
            lambda x, now: self._advance(x, now, of_inputs, of_states), inputs, states, self.go_backwards, mask
        )  # fmt: skip
        if self.stateful:
            for kept, value in zip(self._kept, new):
                self._state_updates.append(kept.assign(value).op)
                self.add_update(self._state_updates[-1])
        out = outputs if self.return_sequences else last
        return [out, *new] if self.return_state else out

    def _kept_like(self, zero: Tensor) -> list[Tensor]:
        if not self._kept:
            dims = zero.shape.as_list()
            if None in dims:
                raise ValueError(f"{self.name}: a stateful RNN needs to know its batch size and images, got {dims}")
            self._kept = [backend.zeros(dims, zero.dtype.base_dtype, f"state_{i}") for i in (0, 1)]
            self._kept = [backend.tracked(v) for v in self._kept]
        return [_read(v) for v in self._kept]

    def _drawn(self, rate: float, like: Tensor, training: Any) -> Any:
        """What the steps multiply by, one draw for all of them."""
        if not rate:
            return None
        ones = array.ones_like(like)
        return in_train_phase(lambda: nn.dropout(ones, rate=rate), lambda: array.identity(ones), training)

    def _convolved(self, x: Tensor) -> Tensor:
        out = nn_conv.conv2d(
            x, self.kernel, self.strides, self.padding, data_format=self._kind, dilations=self.dilation_rate
        )
        return out if self.bias is None else nn.bias_add(out, self.bias, self._kind)

    def _advance(
        self, x: Tensor, states: Sequence[Tensor], of_inputs: Any, of_states: Any
    ) -> tuple[Tensor, list[Tensor]]:
        before, carry = states
        x = x if of_inputs is None else x * of_inputs
        before = before if of_states is None else before * of_states
        again = nn_conv.conv2d(before, self.recurrent_kernel, [1, 1], "SAME", data_format=self._kind)
        axis = 3 if self._kind == "NHWC" else 1
        parts = array_join.split(self._convolved(x) + again, 4, axis=axis)
        gate = self.recurrent_activation
        carry = gate(parts[1]) * carry + gate(parts[0]) * self.activation(parts[2])
        out = gate(parts[3]) * self.activation(carry)
        return out, [out, carry]

    def compute_output_shape(self, input_shape: Any) -> Any:
        return Layer.compute_output_shape(self, TensorShape(input_shape))
