"""tf.contrib.cudnn_rnn: cells that compute what cuDNN does, and its layers by those cells, so without a GPU too.

Checkpoints of TensorFlow's layers have the variables of such cells, by the names that the layers here give them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.contrib.rnn_cells import LSTMBlockCell
from sparkflow.contrib.rnn_stacks import stack_bidirectional_dynamic_rnn
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import init_ops, math
from sparkflow.ops.array_join import concat, split, stack, unstack
from sparkflow.ops.nn import bias_add, relu
from sparkflow.ops.rnn import dynamic_rnn
from sparkflow.ops.rnn_cell import BasicRNNCell, GRUCell, LSTMStateTuple, MultiRNNCell, last_size
from sparkflow.ops.rnn_wrappers import DropoutWrapper
from sparkflow.ops.variable_scope import variable_scope

CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION = "unidirectional", "bidirectional"
CUDNN_INPUT_LINEAR_MODE = "linear_input"


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An LSTMCell that adds nothing to its forget gate."""

    def __init__(self, num_units: int, reuse: Any = None):
        super().__init__(num_units, forget_bias=0.0, reuse=reuse, name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(GRUCell):
    """A GRUCell whose reset gate comes after the product: c = activation(x W + b + r (h U + d))."""

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None):
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer)

    def build(self, inputs_shape: Any) -> None:
        depth, n, first = last_size(inputs_shape), self._num_units, self._kernel_initializer
        self._gates = self._add("gates/kernel", [depth + n, 2 * n], first)
        self._gates_bias = self._add("gates/bias", [2 * n], init_ops.constant_initializer(1.0))
        self._into, self._around = (
            (self._add(f"candidate/{part}_projection/kernel", [size, n], first),
             self._add(f"candidate/{part}_projection/bias", [n], init_ops.zeros_initializer()))
            for part, size in (("input", depth), ("hidden", n))
        )  # fmt: skip

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        gates = math.sigmoid(bias_add(math.matmul(concat([inputs, state], 1), self._gates), self._gates_bias))
        r, u = split(gates, 2, axis=1)
        (w, b), (around, d) = self._into, self._around
        c = self._activation(bias_add(math.matmul(inputs, w), b) + r * bias_add(math.matmul(state, around), d))
        new = (1.0 - u) * c + u * state
        return new, new


class _CudnnRNN:
    """layer(inputs [time, batch, size], initial_state, sequence_lengths, time_major, training) -> (outputs, states),
    each state [layers * directions, batch, units].

    dropout: of what goes from one layer to the next, in training. Raises ValueError on another direction or input mode.
    """

    _new: Callable[[int], Any]
    _states, _base_scope = 1, ""

    def __init__(
        self, num_layers: int, num_units: int, input_mode: str = CUDNN_INPUT_LINEAR_MODE,
        direction: str = CUDNN_RNN_UNIDIRECTION, dropout: float = 0.0, seed: int | None = None, dtype: Any = None,
        kernel_initializer: Any = None, bias_initializer: Any = None, name: str | None = None,
    ):  # fmt: skip
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            known = f"{CUDNN_RNN_UNIDIRECTION!r} or {CUDNN_RNN_BIDIRECTION!r}"
            raise ValueError(f"direction must be {known}, got {direction!r}")
        if input_mode != CUDNN_INPUT_LINEAR_MODE:
            raise ValueError(f"input_mode must be {CUDNN_INPUT_LINEAR_MODE!r} here, got {input_mode!r}")
        if bias_initializer is not None:
            raise ValueError("bias_initializer is none of the cells' here, which begin as those of TensorFlow do")
        self.num_layers, self.num_units, self.direction, self.input_mode = num_layers, num_units, direction, input_mode
        self.num_dirs = 1 if direction == CUDNN_RNN_UNIDIRECTION else 2
        self._dropout, self._seed, self._dtype = dropout, seed, dtype
        self._initializer, self._base = kernel_initializer, name
        self._scope: Any = None
        self._cells: list[Any] = []

    name = property(lambda self: self._base or self._scope.name.rpartition("/")[2])
    variables = property(lambda self: [] if self._scope is None else self._scope.global_variables())
    trainable_variables = property(lambda self: [] if self._scope is None else self._scope.trainable_variables())

    def state_shape(self, batch_size: int) -> tuple[TensorShape, ...]:
        return (TensorShape([self.num_layers * self.num_dirs, batch_size, self.num_units]),) * self._states

    def __call__(
        self, inputs: Any, initial_state: Any = None, sequence_lengths: Any = None, time_major: bool = True,
        training: bool = True,
    ) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
        x = convert_to_tensor(inputs, self._dtype)
        again = self._scope is not None
        with variable_scope(self._scope or self._base, type(self)._base_scope, reuse=again or None,
                            initializer=self._initializer) as opened:  # fmt: skip
            self._scope = self._scope or opened
            count = self.num_layers * self.num_dirs
            self._cells = self._cells or [type(self)._new(self.num_units) for _ in range(count)]
            first = None if initial_state is None else self._parted(initial_state)
            cells = [self._dropped(i, cell, training) for i, cell in enumerate(self._cells)]
            out, last = self._run(x, cells, first, sequence_lengths, time_major)
        parts = zip(*(state if self._states > 1 else (state,) for state in last))
        return out, tuple(stack(list(part)) for part in parts)

    def _dropped(self, i: int, cell: Any, training: bool) -> Any:
        if not training or not self._dropout or i < self.num_dirs:
            return cell
        return DropoutWrapper(cell, input_keep_prob=1.0 - self._dropout, seed=self._seed)

    def _parted(self, initial_state: Any) -> list[Any]:
        """The state of each cell of (h,), or of (h, c)."""
        parts = [unstack(part, self.num_layers * self.num_dirs) for part in initial_state]
        return parts[0] if len(parts) == 1 else [LSTMStateTuple(c, h) for h, c in zip(*parts)]

    def _run(self, x: Any, cells: list[Any], first: Any, lengths: Any, time_major: bool) -> tuple[Any, list[Any]]:
        """(outputs, the last state of each cell, layer by layer)."""
        if self.num_dirs == 1:
            begin = None if first is None else tuple(first)
            out, last = dynamic_rnn(MultiRNNCell(cells), x, lengths, begin, x.dtype, time_major=time_major)
            states = list(last)
        else:
            begin_fw, begin_bw = (None, None) if first is None else (first[::2], first[1::2])
            out, forth, back = stack_bidirectional_dynamic_rnn(
                cells[::2], cells[1::2], x, begin_fw, begin_bw, x.dtype, lengths, time_major=time_major
            )
            states = [state for both in zip(forth, back) for state in both]
        return out, [(state.h, state.c) for state in states] if self._states > 1 else states


class CudnnLSTM(_CudnnRNN):
    __doc__ = _CudnnRNN.__doc__
    _new, _states, _base_scope = CudnnCompatibleLSTMCell, 2, "cudnn_lstm"


class CudnnGRU(_CudnnRNN):
    __doc__ = _CudnnRNN.__doc__
    _new, _base_scope = CudnnCompatibleGRUCell, "cudnn_gru"


class CudnnRNNTanh(_CudnnRNN):
    __doc__ = _CudnnRNN.__doc__
    _new, _base_scope = BasicRNNCell, "cudnn_rnn_tanh"


class CudnnRNNRelu(_CudnnRNN):
    __doc__ = _CudnnRNN.__doc__
    _new, _base_scope = staticmethod(lambda units: BasicRNNCell(units, activation=relu)), "cudnn_rnn_relu"


__all__ = [
    "CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM", "CudnnRNNRelu", "CudnnRNNTanh",
]  # fmt: skip
