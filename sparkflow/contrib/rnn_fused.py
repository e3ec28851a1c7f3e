"""Loops over all steps at once, as cells: tf.contrib.rnn's FusedRNNCell and its kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.contrib.rnn_cells import LSTMBlockCell
from sparkflow.framework import nest
from sparkflow.ops import array
from sparkflow.ops.array_join import stack, unstack
from sparkflow.ops.array_slice import reverse_sequence
from sparkflow.ops.rnn import dynamic_rnn, static_rnn
from sparkflow.ops.rnn_cell import LSTMStateTuple, RNNCell
from sparkflow.ops.variable_scope import variable_scope


class FusedRNNCell:
    """cell(inputs [time, batch, size] or as a list of steps, initial_state, dtype, sequence_length, scope) ->
    (outputs as the inputs came, the state after each sequence's last step)."""

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:  # fmt: skip
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define __call__")


class FusedRNNCellAdaptor(FusedRNNCell):
    """A loop over a cell: use_dynamic_rnn says by which function."""

    def __init__(self, cell: RNNCell, use_dynamic_rnn: bool = False):
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:  # fmt: skip
        listed = isinstance(inputs, list)
        if self._dynamic:
            steps = stack(inputs) if listed else inputs
            outputs, state = dynamic_rnn(self._cell, steps, sequence_length, initial_state, dtype, time_major=True,
                                         scope=scope)  # fmt: skip
            return (unstack(outputs) if listed else outputs), state
        each = inputs if listed else unstack(inputs)
        outputs, state = static_rnn(self._cell, each, initial_state, dtype, sequence_length, scope)
        return (outputs if listed else nest.map_structure(lambda *steps: stack(steps), *outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused cell that goes through each sequence from its end; outputs are in the order of the inputs.

    A list of steps is turned around as a whole.
    """

    def __init__(self, cell: Callable[..., tuple[Any, Any]]):
        self._cell = cell

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:  # fmt: skip
        def reversed_steps(x: Any) -> Any:
            if isinstance(x, list):
                return x[::-1]  # as in TensorFlow, whatever the lengths
            return array.reverse(x, [0]) if sequence_length is None else reverse_sequence(x, sequence_length, 0, 1)

        outputs, state = self._cell(reversed_steps(inputs), initial_state, dtype, sequence_length, scope)
        if isinstance(outputs, list) or not nest.is_nested(outputs):
            return reversed_steps(outputs), state
        return nest.map_structure(reversed_steps, outputs), state


class LSTMBlockFusedCell(FusedRNNCell):
    """An LSTM over all steps at once: cell(inputs [time, batch, size], initial_state, dtype, sequence_length) ->
    (outputs [time, batch, units], (c, h) of the last steps)."""

    def __init__(self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None,
                 use_peephole: bool = False, reuse: Any = None, dtype: Any = None,
                 name: str = "lstm_fused_cell"):  # fmt: skip
        self._cell = LSTMBlockCell(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)
        self._name, self.num_units = name, num_units

    def __call__(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
                 scope: Any = None) -> tuple[Any, Any]:  # fmt: skip
        with variable_scope(scope or self._name) as opened:
            self._cell._scope = self._cell._scope or opened
            x = stack(inputs) if isinstance(inputs, (list, tuple)) else inputs
            first = None if initial_state is None else LSTMStateTuple(*initial_state)
            kind = dtype or x.dtype.base_dtype
            return dynamic_rnn(self._cell, x, sequence_length, first, kind, time_major=True, scope=opened)
