"""Recurrent layers: a cell along the steps of a sequence; and layers around layers."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from sparkflow.framework import nest
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.scopes import snake_case
from sparkflow.framework.shapes import TensorShape
from sparkflow.keras import backend
from sparkflow.keras.engine import Layer
from sparkflow.keras.layers.cells import GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells, _Cell, _zeros
from sparkflow.keras.recurrence import rnn
from sparkflow.layers.base import by_name
from sparkflow.layers.input_spec import InputSpec
from sparkflow.ops import array, array_join, math, operators  # noqa: F401 - x + y on tensors
from sparkflow_runtime.wire.edges import KEPT_READ


class RNN(Layer):
    """A cell (or a list of them, one upon the other) along [batch, steps, ...] -> [batch, units], its last output.

    return_sequences: all outputs, [batch, steps, units]. return_state: the last states as well, in a list behind the
    output. go_backwards: from the last step, and so the outputs. unroll: without a loop. The first states are zeros;
    initial_state of the call, or a list [inputs, *states], says others. stateful: each batch begins with the states
    that the one before ended with, until reset_states; the batch's size must be known (batch_input_shape), and a
    session of yours runs the layer's `updates`.
    """

    supports_masking = True

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ):
        cell = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else cell
        if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
            raise ValueError(f"An RNN's cell needs `call` and `state_size`, got {cell!r}")
        zero = kwargs.pop("zero_output_for_mask", False)
        super().__init__(**kwargs)
        self.cell, self.return_sequences, self.return_state = cell, return_sequences, return_state
        self.go_backwards, self.unroll, self.time_major, self._zero = go_backwards, unroll, time_major, zero
        self.stateful = self._keeps_states = stateful
        self._kept: list[Any] = []  # the states of a stateful layer, variables
        self._state_updates: list[Any] = []

    def __call__(self, inputs: Any, *args: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any) -> Any:
        """inputs: the sequence, or a list of it and the first states."""
        if isinstance(inputs, (list, tuple)) and initial_state is None:
            inputs, initial_state = inputs[0], list(inputs[1:])
        if initial_state is not None and len(initial_state if isinstance(initial_state, (list, tuple)) else [0]):
            kwargs["initial_state"] = initial_state
        if constants is not None:
            kwargs["constants"] = constants
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape: Any) -> None:
        if isinstance(self.cell, _Cell):
            dims = input_shape.as_list()
            with get_default_graph().name_scope(self.cell.name):
                self.cell.build_here(TensorShape([dims[1] if self.time_major else dims[0], dims[-1]]), self._dtype)
        self.built = True

    def call(  # type: ignore[override]
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None, constants: Any = None
    ) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        first = nest.flatten(inputs)[0]
        sizes = self.cell.state_size
        if initial_state is None:
            states = [_read(v) for v in self._states_kept(first)] if self.stateful else self._zeros(first, sizes)
        else:
            given = nest.flatten(initial_state)
            if len(given) != len(nest.flatten(sizes)):
                raise ValueError(
                    f"{self.name}: initial_state has {len(given)} states, the cell {len(nest.flatten(sizes))}"
                )
            states = given
        plain = isinstance(self.cell, _Cell) and not constants
        if plain:
            self.cell.begin(array.transpose(first, [1, 0, 2]) if self.time_major else first, training)
            inputs = self.cell.project(inputs)
        try:
            last, outputs, new = rnn(
                self.cell.advance if plain else self._step(sizes, len(constants or ()), training),
                inputs,
                states,
                self.go_backwards,
                mask,
                constants,
                self.unroll,
                time_major=self.time_major,
                zero_output_for_mask=self._zero and self.return_sequences,
            )
        finally:
            if plain:
                self.cell.end()
        if self.stateful:
            for kept, value in zip(self._states_kept(first), new):
                self._state_updates.append(kept.assign(value).op)
                self.add_update(self._state_updates[-1])
        out = outputs if self.return_sequences else last
        return [out, *new] if self.return_state else out

    def _step(self, sizes: Any, constants: int, training: Any) -> Any:
        """The cell upon a flat list of states."""
        takes_constants = {"constants"} if constants else set()

        def step(x: Any, states: list[Any]) -> tuple[Tensor, list[Any]]:
            own = states[: len(states) - constants]
            further: dict[str, Any] = {name: states[len(own) :] for name in takes_constants}
            packed = nest.pack_sequence_as(sizes, own) if nest.is_nested(sizes) else own
            if isinstance(self.cell, (_Cell, StackedRNNCells)):
                further["training"] = training
            out, new = self.cell(x, packed, **further)
            return out, nest.flatten(new)

        return step

    def _zeros(self, first: Tensor, sizes: Any) -> list[Tensor]:
        make = getattr(self.cell, "get_initial_state", None)
        batch = array.shape(first)[1 if self.time_major else 0]
        if make is not None and not isinstance(self.cell, (_Cell, StackedRNNCells)):
            return nest.flatten(make(inputs=None, batch_size=batch, dtype=first.dtype))
        kind = first.dtype.base_dtype if first.dtype.is_floating else self._dtype
        return [_zeros(batch, int(size), kind) for size in nest.flatten(sizes)]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        of_output = mask if self.return_sequences else None
        return [of_output, *[None] * len(nest.flatten(self.cell.state_size))] if self.return_state else of_output

    def compute_output_shape(self, input_shape: Any) -> Any:
        dims = TensorShape(input_shape[0] if isinstance(input_shape, list) else input_shape).as_list()
        batch, steps = (dims[1], dims[0]) if self.time_major else (dims[0], dims[1])
        sizes = nest.flatten(self.cell.state_size)
        width = getattr(self.cell, "output_size", sizes[0])
        around = [steps, batch] if self.time_major else [batch, steps]
        out = TensorShape([*(around if self.return_sequences else [batch]), width])
        return [out, *(TensorShape([batch, size]) for size in sizes)] if self.return_state else out

    def _states_kept(self, first: Tensor) -> list[Any]:
        """Made once. Raises ValueError where the batch's size is not known."""
        if not self._kept:
            batch = (first._shape or (None, None))[1 if self.time_major else 0]
            if batch is None:
                raise ValueError(
                    f"{self.name}: a stateful RNN needs to know its batch size. Give batch_input_shape to the first "
                    "layer, or batch_shape to Input"
                )
            kind = first.dtype.base_dtype.name if first.dtype.is_floating else backend.floatx()
            sizes = nest.flatten(self.cell.state_size)
            with get_default_graph().control_dependencies(None):
                self._kept = [backend.variable(np.zeros([batch, int(n)], kind), kind, f"state_{i}")
                              for i, n in enumerate(sizes)]  # fmt: skip
        return self._kept

    @property
    def states(self) -> list[Any]:
        return list(self._kept) or [None] * len(nest.flatten(self.cell.state_size))

    def reset_states(self, states: Any = None) -> None:
        """To zeros, or to these values. Raises AttributeError where the layer is not stateful, ValueError where it was
        never called, or the values' count or shapes differ."""
        if not self.stateful:
            raise AttributeError(f"Layer {self.name} must be stateful: it has no states to reset")
        if not self._kept:
            raise ValueError(f"Layer {self.name} has no states yet: call it on a batch of known size first")
        given = [np.zeros(v.shape.as_list()) for v in self._kept] if states is None else states
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        if [np.shape(v) for v in given] != [tuple(v.shape.as_list()) for v in self._kept]:
            raise ValueError(
                f"Layer {self.name} expects states of shapes {[v.shape.as_list() for v in self._kept]}, got "
                f"{[np.shape(v) for v in given]}"
            )
        backend.batch_set_value(list(zip(self._kept, given)))


def _read(variable: Any) -> Tensor:
    """What it is now: gradients need that after the batch's end has changed it."""
    value = array.identity(variable._ref())
    value.op.attrs[KEPT_READ] = True
    return value


_OF_RNN = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")
_OF_LAYER = (
    *("name", "trainable", "dtype", "activity_regularizer", "input_shape", "batch_input_shape", "input_dim"),
    "batch_size",
)


class _OfOneCell(RNN):
    """The layer of one kind of cell: its arguments are the cell's, then RNN's."""

    kind: type[_Cell]

    def __init__(self, units: int, *args: Any, **kwargs: Any):
        outer = {key: kwargs.pop(key) for key in (*_OF_RNN, *_OF_LAYER) if key in kwargs}
        kwargs.pop("input_length", None)
        inner = {"name": snake_case(self.kind.__name__), **({"dtype": outer["dtype"]} if outer.get("dtype") else {})}
        make: Any = self.kind
        super().__init__(make(units, *args, **kwargs, **inner), **outer)
        self.input_spec = InputSpec(ndim=3)
        self.units = units

    def get_config(self) -> dict[str, Any]:
        """With the cell's arguments by their names, defaults too: newer versions of Keras have others."""
        config = super().get_config()
        defaults = {
            key: p.default
            for kind in reversed(self.kind.__mro__)
            if kind.__module__ == _Cell.__module__
            for key, p in signature(vars(kind).get("__init__", object.__init__)).parameters.items()
            if p.default is not p.empty
        }
        return {**defaults, **by_name(self.kind, config.pop("args", ()), ("units",)), **config}


class SimpleRNN(_OfOneCell):
    __doc__ = (SimpleRNNCell.__doc__ or "") + (RNN.__doc__ or "")
    kind = SimpleRNNCell


class GRU(_OfOneCell):
    __doc__ = (GRUCell.__doc__ or "") + (RNN.__doc__ or "")
    kind = GRUCell


class LSTM(_OfOneCell):
    __doc__ = (LSTMCell.__doc__ or "") + (RNN.__doc__ or "")
    kind = LSTMCell


# ---------------------------------------------------------------------- around layers


def clone(layer: Any, **changes: Any) -> Any:
    """The same layer with variables of its own."""
    config = {**layer.get_config(), **changes}
    for key, value in config.items():
        if isinstance(value, Layer):
            config[key] = clone(value)
        elif isinstance(value, (list, tuple)) and any(isinstance(v, Layer) for v in value):
            config[key] = [clone(v) if isinstance(v, Layer) else v for v in value]
    return type(layer).from_config(config)


class Wrapper(Layer):
    """What a subclass does with another layer, self.layer, whose variables are then this one's too."""

    def __init__(self, layer: Any, **kwargs: Any):
        if not isinstance(layer, Layer):
            raise ValueError(f"Please initialize `{type(self).__name__}` layer with a Keras layer, got {layer!r}")
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any) -> None:
        """The other's variables, if it has none yet, are named in this layer's scope."""
        if not self.layer.built:
            self.layer.build_here(TensorShape(input_shape), self._dtype)
        self.built = True


class TimeDistributed(Wrapper):
    """A layer on every step of [batch, steps, ...], with the same variables."""

    supports_masking = True

    def build(self, input_shape: Any) -> None:
        """The variables are named in this layer's scope."""
        dims = input_shape.as_list()
        self.layer.build_here(TensorShape([None, *dims[2:]]), self._dtype)
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:  # type: ignore[override]
        sizes, dims = array.shape(inputs), inputs._shape
        flat = array.reshape(inputs, array_join.concat([[-1], sizes[2:]], 0))
        flat.set_shape([None, *dims[2:]])
        out = self.layer(flat, **({"training": training} if "training" in _takes(self.layer) else {}))
        wide = array.reshape(out, array_join.concat([sizes[:2], array.shape(out)[1:]], 0))
        wide.set_shape([*dims[:2], *out._shape[1:]])
        return wide


def _takes(layer: Any) -> Sequence[str]:
    return list(signature(layer.call).parameters)


class Bidirectional(Layer):
    """A recurrent layer and a copy that goes the other way. merge_mode: "concat", "sum", "mul" or "ave" of both, or
    None, a list of them."""

    supports_masking = True

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ):
        if not isinstance(layer, RNN):
            raise ValueError(f"Please initialize `Bidirectional` with a recurrent layer, got {layer!r}")
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(f"Invalid merge mode {merge_mode!r}; it is one of sum, mul, ave, concat, None")
        super().__init__(**kwargs)
        self.merge_mode = merge_mode
        self.forward_layer = clone(layer, name=f"forward_{layer.name}")
        self.backward_layer = backward_layer or clone(
            layer, name=f"backward_{layer.name}", go_backwards=not layer.go_backwards
        )
        half = len(weights or ()) // 2
        if weights:
            self.forward_layer.cell._first_weights = list(weights[:half])
            self.backward_layer.cell._first_weights = list(weights[half:])
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        self.stateful = layer.stateful

    def reset_states(self) -> None:
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    def call(  # type: ignore[override]
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None
    ) -> Any:
        further = {"mask": mask, "training": training}
        states: list[Any] = [None, None]
        if initial_state is not None:
            half = len(initial_state) // 2
            states = [list(initial_state[:half]), list(initial_state[half:])]
        there = self.forward_layer(inputs, initial_state=states[0], **further)
        back = self.backward_layer(inputs, initial_state=states[1], **further)
        last: list[Any] = []
        if self.return_state:
            last = [*there[1:], *back[1:]]
            there, back = there[0], back[0]
        if self.return_sequences:
            back = array.reverse(back, [0 if self.forward_layer.time_major else 1])
        if self.merge_mode == "concat":
            out: Any = array_join.concat([there, back], -1)
        elif self.merge_mode == "sum":
            out = there + back
        elif self.merge_mode == "ave":
            out = (there + back) / 2.0
        elif self.merge_mode == "mul":
            out = there * back
        else:
            out = [there, back]
        if not self.return_state:
            return out
        return [*out, *last] if self.merge_mode is None else [out, *last]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        of_output = mask if self.return_sequences else None
        outs = [of_output, of_output] if self.merge_mode is None else [of_output]
        count = len(self.forward_layer.states) * 2 if self.return_state else 0
        return outs[0] if len(outs) == 1 and not count else [*outs, *[None] * count]
