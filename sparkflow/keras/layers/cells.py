"""Cells of recurrent layers: one step each. What of a step does not need the state, `project` computes of all steps at
once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.keras import activations
from sparkflow.keras.engine import Layer
from sparkflow.keras.learning import in_train_phase, learning
from sparkflow.ops import (
    array,
    array_join,
    init_named,
    math,
    nn,
    operators,  # noqa: F401 - x * y on tensors
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.control_flow_cond import smart_constant_value


class _Cell(Layer):
    """A step: (inputs [batch, n], states) -> (outputs [batch, units], new states).

    Makes <name>/kernel [n, gates * units], <name>/recurrent_kernel [units, gates * units] and <name>/bias. dropout,
    recurrent_dropout: of the inputs and of the state before, by other masks for each gate, the same at all steps of a
    layer's call.
    """

    gates = 1
    state_count = 1

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ):
        kwargs.pop("implementation", None)  # ways to the same numbers
        super().__init__(**kwargs)
        self.units, self.activation, self.use_bias = int(units), activations.get(activation), use_bias
        self.dropout, self.recurrent_dropout = (min(1.0, max(0.0, d)) for d in (dropout, recurrent_dropout))
        self._settings = [
            {"initializer": kernel_initializer, "regularizer": kernel_regularizer, "constraint": kernel_constraint},
            {
                "initializer": recurrent_initializer,
                "regularizer": recurrent_regularizer,
                "constraint": recurrent_constraint,
            },
            {"initializer": bias_initializer, "regularizer": bias_regularizer, "constraint": bias_constraint},
        ]
        self._masks: tuple[Any, Any] | None = None

    state_size: Any = property(lambda self: self.units if self.state_count == 1 else [self.units] * self.state_count)
    output_size = property(lambda self: self.units)

    def build(self, input_shape: Any) -> None:
        width = input_shape.as_list()[-1]
        if width is None:
            raise ValueError(f"{type(self).__name__} needs inputs whose last size is known, got shape {input_shape}")
        of_kernel, of_recurrent, of_bias = self._settings
        self.kernel = self.add_weight("kernel", [width, self.gates * self.units], **of_kernel)
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [self.units, self.gates * self.units], **of_recurrent
        )
        self.bias = self.add_weight("bias", self._bias_size(), **of_bias) if self.use_bias else None
        self.built = True

    def _bias_size(self) -> list[int]:
        return [self.gates * self.units]

    # ------------------------------------------------------------------ dropping

    def begin(self, inputs: Any, training: Any) -> None:
        """Draw the masks that all steps of a call share. inputs: [batch, ..., n]."""
        batch = array.shape(inputs)[0]
        width = self.kernel.shape.as_list()[0]
        draw = lambda rate, size: self._drawn(batch, size, rate, training)  # noqa: E731
        self._masks = (draw(self.dropout, width), draw(self.recurrent_dropout, self.units))

    def end(self) -> None:
        self._masks = None

    def _drawn(self, batch: Any, size: int, rate: float, training: Any) -> list[Tensor] | None:
        """One [batch, size] for each gate."""
        phase = learning(training) if rate else False
        if smart_constant_value(phase) is False:
            return None
        ones = array.ones(array_join.stack([batch, size]), dtype=self._dtype)
        return [in_train_phase(lambda: nn.dropout(ones, rate=rate), lambda: ones, phase) for _ in range(self.gates)]

    # ------------------------------------------------------------------ a step

    def project(self, x: Tensor) -> Tensor:
        """[..., n] -> [..., gates * units]."""
        masks = None if self._masks is None else self._masks[0]
        bias = self._input_bias()
        if masks is None:
            out = self._times(x, self.kernel)
        else:
            kernels = array_join.split(self.kernel, self.gates, axis=1)
            steps = x._shape is not None and len(x._shape) == 3
            spread = [array.expand_dims(m, 1) if steps else m for m in masks]
            out = concat([self._times(x * m, k) for m, k in zip(spread, kernels)], -1)
        return out if bias is None else nn.bias_add(out, bias)

    def _input_bias(self) -> Any:
        return self.bias

    def _times(self, x: Tensor, kernel: Any) -> Tensor:
        dims = x._shape
        if dims is None or len(dims) == 2:
            return math.matmul(x, kernel)
        flat = math.matmul(array.reshape(x, [-1, dims[-1]]), kernel)
        sizes = array.shape(x)
        width = kernel.shape.as_list()[1]
        out = array.reshape(flat, array_join.stack([*(sizes[i] for i in range(len(dims) - 1)), width]))
        out.set_shape((*dims[:-1], width))
        return out

    def _before(self, state: Tensor) -> list[Tensor]:
        """The state that each gate sees."""
        masks = None if self._masks is None else self._masks[1]
        return [state] * self.gates if masks is None else [state * m for m in masks]

    def _recurred(self, state: Tensor) -> list[Tensor]:
        """The state's part of each gate."""
        seen = self._before(state)
        if all(s is state for s in seen):
            return array_join.split(math.matmul(state, self.recurrent_kernel), self.gates, axis=-1)
        kernels = array_join.split(self.recurrent_kernel, self.gates, axis=1)
        return [math.matmul(s, k) for s, k in zip(seen, kernels)]

    def advance(self, projected: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The step, given project(inputs)."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:  # type: ignore[override]
        own = self._masks is None
        if own:
            self.begin(inputs, training)
        try:
            return self.advance(self.project(inputs), list(states) if isinstance(states, (list, tuple)) else [states])
        finally:
            if own:
                self.end()

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros of the state's sizes."""
        batch = array.shape(inputs)[0] if inputs is not None else batch_size
        kind = dtype or (inputs.dtype if inputs is not None else self._dtype)
        made = [_zeros(batch, self.units, kind) for _ in range(self.state_count)]
        return made[0] if self.state_count == 1 else made


def _zeros(batch: Any, size: int, dtype: Any) -> Tensor:
    out = array.zeros(array_join.stack([batch, size]), dtype)
    out.set_shape([None, size])
    return out


class SimpleRNNCell(_Cell):
    __doc__ = (_Cell.__doc__ or "") + "\n    output = activation(inputs @ kernel + bias + state @ recurrent_kernel)."

    def advance(self, projected: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        out = self.activation(projected + self._recurred(states[0])[0])
        return out, [out]


class GRUCell(_Cell):
    __doc__ = (_Cell.__doc__ or "") + (
        "\n    Gates: update, reset, candidate (Cho 2014). reset_after: the reset gate comes behind the product with"
        "\n    the recurrent kernel, which has a bias of its own then: bias is [2, 3 * units]."
    )
    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        *args: Any,
        reset_after: bool = False,
        **kwargs: Any,
    ):
        super().__init__(units, activation, *args, **kwargs)
        self.recurrent_activation, self.reset_after = activations.get(recurrent_activation), reset_after

    def _bias_size(self) -> list[int]:
        return [2, 3 * self.units] if self.reset_after else [3 * self.units]

    def _input_bias(self) -> Any:
        return self.bias[0] if self.reset_after and self.bias is not None else self.bias

    def advance(self, projected: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        before = states[0]
        of_update, of_reset, of_candidate = array_join.split(projected, 3, axis=-1)
        if self.reset_after:
            update, reset, candidate = self._recurred(before)
            if self.bias is not None:
                biases = array_join.split(self.bias[1], 3)
                update, reset, candidate = (nn.bias_add(v, b) for v, b in zip((update, reset, candidate), biases))
            z = self.recurrent_activation(of_update + update)
            r = self.recurrent_activation(of_reset + reset)
            new = self.activation(of_candidate + r * candidate)
        else:
            seen = self._before(before)
            gates, last = self.recurrent_kernel[:, : 2 * self.units], self.recurrent_kernel[:, 2 * self.units :]
            if seen[0] is seen[1]:
                update, reset = array_join.split(math.matmul(before, gates), 2, axis=-1)
            else:
                update, reset = (math.matmul(s, k) for s, k in zip(seen, array_join.split(gates, 2, axis=1)))
            z = self.recurrent_activation(of_update + update)
            r = self.recurrent_activation(of_reset + reset)
            new = self.activation(of_candidate + math.matmul(r * seen[2], last))
        out = z * before + (1.0 - z) * new
        return out, [out]


class LSTMCell(_Cell):
    __doc__ = (_Cell.__doc__ or "") + (
        "\n    Gates: input, forget, candidate, output (Hochreiter 1997); states: output and carry. unit_forget_bias:"
        "\n    the forget gate's bias begins with ones."
    )
    gates = 4
    state_count = 2

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        *args: Any,
        **kwargs: Any,
    ):
        first = init_named.get(bias_initializer)
        if unit_forget_bias:
            first = _WithForgetBias(first, units)
        super().__init__(
            units, activation, use_bias, kernel_initializer, recurrent_initializer, first, *args, **kwargs
        )  # fmt: skip
        self.recurrent_activation, self.unit_forget_bias = activations.get(recurrent_activation), unit_forget_bias

    def advance(self, projected: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        before, carry = states
        x = array_join.split(projected, 4, axis=-1)
        of_input, of_forget, of_candidate, of_output = (a + b for a, b in zip(x, self._recurred(before)))
        gate = self.recurrent_activation
        carry = gate(of_forget) * carry + gate(of_input) * self.activation(of_candidate)
        out = gate(of_output) * self.activation(carry)
        return out, [out, carry]


class _WithForgetBias:
    """An initializer, but for ones in the forget gate's place."""

    def __init__(self, others: Any, units: int):
        self.others, self.units = others, units

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        units = self.units
        parts = [self.others([units], dtype=dtype), array.ones([units], dtype), self.others([2 * units], dtype=dtype)]
        return concat(parts, 0)


class StackedRNNCells(Layer):
    """Cells one upon the other, as one."""

    def __init__(self, cells: Sequence[Any], **kwargs: Any):
        for cell in cells:
            if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
                raise ValueError(f"All cells must have `call` and `state_size`, got {cell!r}")
        super().__init__(**kwargs)
        self.cells = list(cells)

    state_size = property(lambda self: [cell.state_size for cell in self.cells])
    output_size = property(lambda self: getattr(self.cells[-1], "output_size", self.cells[-1].state_size))

    def build(self, input_shape: Any) -> None:
        self.built = True  # each by its first step

    def call(self, inputs: Any, states: Any, training: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]
        new = []
        for cell, state in zip(self.cells, states):
            one = not isinstance(state, (list, tuple))
            inputs, state = cell(inputs, [state] if one else state)
            new.append(state[0] if one and isinstance(state, (list, tuple)) else state)
        return inputs, new
