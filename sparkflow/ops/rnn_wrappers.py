"""Cells around cells: dropout, residual connections, devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.random_seed import salted
from sparkflow.framework.shapes import as_dims
from sparkflow.ops import math
from sparkflow.ops.nn import dropout
from sparkflow.ops.random import random_uniform
from sparkflow.ops.rnn_cell import LSTMStateTuple, RNNCell

_PARTS = {1: "input", 2: "state", 3: "output"}


class _Wrapper(RNNCell):
    """A cell with the sizes and the variables of the one inside."""

    def __init__(self, cell: RNNCell, reuse: Any = None):
        super().__init__(_reuse=reuse)
        self._cell = cell

    state_size = property(lambda self: self._cell.state_size)
    output_size = property(lambda self: self._cell.output_size)
    variables = property(lambda self: self._cell.variables)
    trainable_variables = property(lambda self: self._cell.trainable_variables)
    wrapped_cell: RNNCell = property(lambda self: self._cell)  # type: ignore[assignment]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)


class DropoutWrapper(_Wrapper):
    """Zeroes parts of a cell's inputs, outputs and state at random, drawn anew at each step.

    The keep probabilities are numbers or scalar tensors. The memory c of an LSTM is never dropped.
    variational_recurrent: drawn once in a run instead, for all steps and all rows of a batch (Gal and Ghahramani 2016);
    dtype is needed then, and input_size (without the batch) where inputs are dropped.
    dropout_state_filter_visitor: a function of a state part that says whether it may be (in structures without LSTMs).
    """

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], bool] | None = None,
    ):
        super().__init__(cell)
        for label, keep in (("input", input_keep_prob), ("output", output_keep_prob), ("state", state_keep_prob)):
            if isinstance(keep, (int, float)) and not 0 <= keep <= 1:
                raise ValueError(f"Parameter {label}_keep_prob must be between 0 and 1: {keep}")
        self._input, self._output, self._state, self._seed = input_keep_prob, output_keep_prob, state_keep_prob, seed
        self._may_drop = dropout_state_filter_visitor
        self._noise: dict[int, list[Tensor]] = {}
        if variational_recurrent:
            self._draw(input_size, dtype)

    def _draw(self, input_size: Any, dtype: Any) -> None:
        """What all steps share: of each part that is dropped, numbers in [0, 1) as one row."""
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        if _drops(self._input) and input_size is None:
            raise ValueError(
                "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be provided"
            )
        dropped = ((1, self._input, input_size), (2, self._state, self.state_size), (3, self._output, self.output_size))
        for which, keep, sizes in dropped:
            if _drops(keep):
                self._noise[which] = [
                    random_uniform([1, *(as_dims(size) or ())], dtype=dtype, seed=self._seed_of(which, i))
                    for i, size in enumerate(nest.flatten(sizes))
                ]

    def _seed_of(self, which: int, part: int) -> int | None:
        """That of one of the tensors that the cell takes or gives."""
        return salted(self._seed, f"{_PARTS[which]}_{part}")

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        x = self._dropped_all(inputs, self._input, 1)
        out, new = self._cell(x, state) if scope is None else self._cell(x, state, scope)
        if _drops(self._state):
            new = self._dropped_state(new, enumerate(self._noise.get(2) or repeat(None)))
        return self._dropped_all(out, self._output, 3), new

    def _dropped_all(self, values: Any, keep: Any, which: int) -> Any:
        noise = enumerate(self._noise.get(which) or repeat(None))
        return nest.map_structure(lambda t: self._dropped(t, keep, which, *next(noise)), values)

    def _dropped_state(self, state: Any, noise: Iterator[tuple[int, Tensor | None]]) -> Any:
        if isinstance(state, LSTMStateTuple):
            next(noise)  # of c
            return LSTMStateTuple(state.c, self._dropped(state.h, self._state, 2, *next(noise)))
        if isinstance(state, tuple):
            return tuple(self._dropped_state(part, noise) for part in state)
        own = next(noise)
        drop = self._may_drop is None or self._may_drop(state)
        return self._dropped(state, self._state, 2, *own) if drop else state

    def _dropped(self, value: Tensor, keep: Any, which: int, part: int, noise: Tensor | None) -> Tensor:
        if not _drops(keep):
            return value
        if noise is None:
            return dropout(value, keep_prob=keep, seed=self._seed_of(which, part))
        share = math.cast(keep, value.dtype.base_dtype)
        kept = value / share * math.floor(share + noise)
        kept.set_shape(value.shape)
        return kept


def _drops(keep: Any) -> bool:
    return not isinstance(keep, (int, float)) or keep < 1


class ResidualWrapper(_Wrapper):
    """output = inputs + cell's output, or residual_fn(inputs, output)."""

    def __init__(self, cell: RNNCell, residual_fn: Callable[[Any, Any], Any] | None = None):
        super().__init__(cell)
        self._residual_fn = residual_fn

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        out, new = self._cell(inputs, state) if scope is None else self._cell(inputs, state, scope)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, out), new
        return nest.map_structure(lambda a, b: a + b, inputs, out), new


class DeviceWrapper(_Wrapper):
    """The cell on a device."""

    def __init__(self, cell: RNNCell, device: Any):
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with get_default_graph().device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        with get_default_graph().device(self._device):
            return self._cell(inputs, state) if scope is None else self._cell(inputs, state, scope)
