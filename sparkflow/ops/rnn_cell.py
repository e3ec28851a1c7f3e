"""Recurrent cells: one step of a recurrence, with its variables (tf.nn.rnn_cell).

A cell makes its variables when it is first called, in a variable scope named after its class, and uses them again in
every later call. Sources: Elman 1990; Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 1999 and the
peepholes of Gers and Schmidhuber 2000; Cho et al. 2014.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.scopes import snake_case
from sparkflow.ops import activations, array, init_named, init_ops, math
from sparkflow.ops.array_join import concat, split
from sparkflow.ops.clip import clip_by_value
from sparkflow.ops.nn import bias_add
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow.ops.variables import Variable
from sparkflow_runtime.wire.dtypes import as_dtype

Activation = Callable[[Tensor], Tensor]
_log = logging.getLogger("sparkflow")


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: its memory c and its output h, each [batch, units]."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        if self.c.dtype is not self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class RNNCell:
    """One step: cell(inputs, state) -> (output, new state), inputs being [batch, size].

    A subclass gives state_size and output_size (a size, or a nested structure of sizes), `build(inputs_shape)`, which
    makes the variables, and `call(inputs, state)`.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, _reuse: Any = None):
        self._reuse, self._dtype, self.trainable = _reuse, None if dtype is None else as_dtype(dtype), trainable
        self._base = name or snake_case(type(self).__name__)
        self._named = name is not None
        self._scope: Any = None
        self.built = False

    @property
    def state_size(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its state_size")

    @property
    def output_size(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its output_size")

    name: str = property(lambda self: self._base)  # type: ignore[assignment]
    dtype = property(lambda self: None if self._dtype is None else self._dtype.name, doc="That of its variables.")

    @property
    def scope_name(self) -> str:
        """Of the variable scope of its variables. Raises ValueError before the first call."""
        if self._scope is None:
            raise ValueError(f"No name available for layer scope because the layer {self.name!r} has not been used yet")
        return self._scope.name

    @property
    def variables(self) -> list[Any]:
        return [] if self._scope is None else self._scope.global_variables()

    @property
    def trainable_variables(self) -> list[Any]:
        return [] if self._scope is None else self._scope.trainable_variables()

    @property
    def non_trainable_variables(self) -> list[Any]:
        trained = self.trainable_variables
        return [v for v in self.variables if not any(v is t for t in trained)]

    weights, trainable_weights, non_trainable_weights = variables, trainable_variables, non_trainable_variables

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """scope: a name for the variable scope, where it is not to be the class's."""
        x = nest.map_structure(convert_to_tensor, inputs)
        self._dtype = self._dtype or nest.flatten(x)[0].dtype.base_dtype
        first = self._scope is None
        label = (scope or (self._base if self._named else None)) if first else self._scope
        reuse = self.built or self._reuse if label is not None else None  # what `call` makes is made once
        with variable_scope(label, self._base, reuse=reuse) as entered:
            self._scope = entered if first else self._scope
            if not self.built:
                self.build(nest.flatten(x)[0].shape)
                self.built = True
            return self.call(x, state)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of that shape, [batch, size]."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define call")

    def __deepcopy__(self, memo: dict[int, Any]) -> RNNCell:
        """Such a cell that was not called yet: its variables will be its own."""
        new = object.__new__(type(self))
        memo[id(self)] = new
        for name, value in {**vars(self), "_scope": None, "built": False}.items():
            setattr(new, name, value if isinstance(value, (Tensor, Variable)) else copy.deepcopy(value, memo))
        return new

    def _add(self, name: str, shape: list[int], initializer: Any = None) -> Any:
        return self.add_weight(name, shape, initializer=initializer)

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A variable of the cell, by get_variable: for `build`."""
        trained = self.trainable and trainable is not False
        kind = dtype or self._dtype
        first = init_named.get(initializer)
        return get_variable(name, shape, kind, first, regularizer, trained, constraint=constraint, **kwargs)

    add_variable = add_weight

    def count_params(self) -> int:
        """How many numbers its variables hold. Raises ValueError before the first call."""
        if not self.built:
            raise ValueError(f"count_params: cell {self.name!r} has no variables before it is called")
        return sum(shapes.product(v.shape.as_list()) for v in self.variables)

    @property
    def losses(self) -> list[Any]:
        """What the regularizers of its variables ask for."""
        if self._scope is None:
            return []
        return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, self._scope.name + "/")

    updates: list[Any] = property(lambda self: [])  # type: ignore[assignment]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros in the structure of state_size, each [batch_size, size]."""
        with get_default_graph().name_scope(type(self).__name__ + "ZeroState"):
            return zeros_of(self.state_size, batch_size, dtype)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        if inputs is not None:
            x = convert_to_tensor(inputs)
            batch_size, dtype = array.shape(x)[0], x.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError("get_initial_state takes inputs, or batch_size and dtype")
        return self.zero_state(batch_size, dtype)


def last_size(inputs_shape: Any) -> int:
    """The size of a cell's inputs, [batch, size]. Raises ValueError where it is not known."""
    dims = shapes.as_dims(inputs_shape)
    if dims is None or len(dims) < 2 or dims[-1] is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shapes.show(dims)}")
    return dims[-1]


def zeros_of(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros in the structure of state_size, each [batch_size, size]."""
    return nest.map_structure(lambda size: array.zeros(_with_batch(batch_size, size), dtype), state_size)


def _with_batch(batch_size: Any, size: Any) -> list[Any]:
    return [batch_size, *(shapes.as_dims(size) or ())]


LayerRNNCell = RNNCell


class BasicRNNCell(RNNCell):
    """output = state = activation([inputs, state] @ kernel + bias)."""

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, _reuse=reuse)
        self._num_units, self._activation = num_units, activations.get(activation or math.tanh)

    state_size = output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        depth = last_size(inputs_shape)
        self._kernel = self._add("kernel", [depth + self._num_units, self._num_units])
        self._bias = self._add("bias", [self._num_units], init_ops.zeros_initializer())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        out = self._activation(bias_add(math.matmul(concat([inputs, state], 1), self._kernel), self._bias))
        return out, out


class GRUCell(RNNCell):
    """r, u = sigmoid([x, h] @ gates); c = activation([x, r h] @ candidate); h' = u h + (1 - u) c."""

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, _reuse=reuse)
        self._num_units, self._activation = num_units, activations.get(activation or math.tanh)
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    state_size = output_size = property(lambda self: self._num_units)

    def build(self, inputs_shape: Any) -> None:
        depth, n = last_size(inputs_shape), self._num_units
        gates_bias = self._bias_initializer or init_ops.constant_initializer(1.0)
        self._gates = self._add("gates/kernel", [depth + n, 2 * n], self._kernel_initializer)
        self._gates_bias = self._add("gates/bias", [2 * n], gates_bias)
        self._candidate = self._add("candidate/kernel", [depth + n, n], self._kernel_initializer)
        bias = self._bias_initializer or init_ops.zeros_initializer()
        self._candidate_bias = self._add("candidate/bias", [n], bias)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        gates = math.sigmoid(bias_add(math.matmul(concat([inputs, state], 1), self._gates), self._gates_bias))
        r, u = split(gates, 2, axis=1)
        mixed = concat([inputs, r * state], 1)
        c = self._activation(bias_add(math.matmul(mixed, self._candidate), self._candidate_bias))
        new = u * state + (1.0 - u) * c
        return new, new


class LSTMCell(RNNCell):
    """i, j, f, o = [x, h] @ kernel + bias; c' = sigmoid(f + forget_bias) c + sigmoid(i) activation(j);
    h' = sigmoid(o) activation(c').

    use_peepholes: the gates also see c. cell_clip: bound of c. num_proj: h' is projected to so many numbers, bounded by
    proj_clip. state_is_tuple: the state is an LSTMStateTuple, else [c, h] in one tensor.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, _reuse=reuse)
        if num_unit_shards is not None or num_proj_shards is not None:
            _log.warning("LSTMCell: num_unit_shards and num_proj_shards do nothing: use a variable_scope's partitioner")
        self._num_units, self._num_proj, self._forget_bias = num_units, num_proj, forget_bias
        self._use_peepholes, self._cell_clip, self._proj_clip = use_peepholes, cell_clip, proj_clip
        self._initializer, self._state_is_tuple = initializer, state_is_tuple
        self._activation = activations.get(activation or math.tanh)

    @property
    def state_size(self) -> Any:
        sizes = self._num_units, self._num_proj or self._num_units
        return LSTMStateTuple(*sizes) if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        depth, n = last_size(inputs_shape), self._num_units
        self._kernel = self._add("kernel", [depth + self.output_size, 4 * n], self._initializer)
        self._bias = self._add("bias", [4 * n], init_ops.zeros_initializer())
        if self._use_peepholes:
            self._peep_f, self._peep_i, self._peep_o = (
                self._add(f"w_{gate}_diag", [n], self._initializer) for gate in "fio"
            )
        if self._num_proj is not None:
            self._projection = self._add("projection/kernel", [n, self._num_proj], self._initializer)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state if self._state_is_tuple else split(state, [self._num_units, self.output_size], axis=1)
        i, j, f, o = split(bias_add(math.matmul(concat([inputs, h], 1), self._kernel), self._bias), 4, axis=1)
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._peep_f * c, i + self._peep_i * c
        c = math.sigmoid(f) * c + math.sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._peep_o * c
        h = math.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            h = math.matmul(h, self._projection)
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._state_is_tuple else concat([c, h], 1)


class BasicLSTMCell(LSTMCell):
    """An LSTMCell without peepholes, clipping or projection."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )


class MultiRNNCell(RNNCell):
    """Cells one on top of the other: each takes the output of the one before."""

    def __init__(self, cells: Any, state_is_tuple: bool = True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if len({id(c) for c in cells}) != len(cells):
            _log.warning("MultiRNNCell: layers of the same cell share its weights; for weights of their own: %s",
                         "[Cell(n) for _ in range(layers)]")  # fmt: skip
        sizes = [cell.state_size for cell in cells]
        if not state_is_tuple and any(isinstance(size, tuple) for size in sizes):
            raise ValueError(
                f"MultiRNNCell: with state_is_tuple=False no cell may have a tuple as its state, got {sizes}"
            )
        self._cells, self._state_is_tuple = list(cells), state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        with variable_scope(scope or "multi_rnn_cell"):
            parts = state if self._state_is_tuple else split(state, [c.state_size for c in self._cells], axis=1)
            new, x = [], inputs
            for i, (cell, part) in enumerate(zip(self._cells, parts, strict=True)):
                with variable_scope(f"cell_{i}") if cell._scope is None else nullcontext():
                    x, after = cell(x, part)
                new.append(after)
            return x, tuple(new) if self._state_is_tuple else concat(new, 1)

    def _of_all(self, what: str) -> list[Any]:
        return [v for cell in {id(c): c for c in self._cells}.values() for v in getattr(cell, what)]

    variables = weights = property(lambda self: self._of_all("variables"))
    trainable_variables = property(lambda self: self._of_all("trainable_variables"))
    losses = property(lambda self: self._of_all("losses"))
    trainable_weights = trainable_variables

    def count_params(self) -> int:
        return sum(shapes.product(v.shape.as_list()) for v in self.variables) or super().count_params()
