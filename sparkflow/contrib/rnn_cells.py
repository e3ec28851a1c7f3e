"""Cells of tf.contrib.rnn beyond those of tf.nn.rnn_cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.contrib.layers.layers import layer_norm
from sparkflow.framework import nest
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, embedding, init_ops, math, math_reduce, nn
from sparkflow.ops.array_join import concat, split
from sparkflow.ops.clip import clip_by_value
from sparkflow.ops.nn_conv import convolution
from sparkflow.ops.rnn_cell import GRUCell, LSTMCell, LSTMStateTuple, RNNCell, last_size
from sparkflow.ops.rnn_wrappers import _Wrapper
from sparkflow.ops.variable_scope import get_variable, variable_scope

_COUPLED = ("transform", "forget", "output")  # the parts of its product, by the scopes of their norms


class LSTMBlockCell(LSTMCell):
    """An LSTMCell by the name of TensorFlow's fused one, of which it has the variables."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
        dtype: Any = None, reuse: Any = None, name: str = "lstm_cell",
    ):  # fmt: skip
        clip = None if cell_clip is None or cell_clip <= 0 else cell_clip
        super().__init__(num_units, use_peephole, clip, forget_bias=forget_bias, reuse=reuse, dtype=dtype)
        self._base = name


class GRUBlockCellV2(GRUCell):
    """A GRUCell by the name of TensorFlow's fused one, of which it has the variables."""

    def __init__(self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None,
                 name: str = "gru_cell"):  # fmt: skip
        units = num_units if num_units is not None else cell_size
        if units is None:
            raise ValueError("GRUBlockCell: give num_units")
        super().__init__(units, reuse=reuse)
        self._base = name


GRUBlockCell = GRUBlockCellV2


def _normalized(x: Any, name: str, dtype: Any, gain: float, shift: float) -> Any:
    """layer_norm with its variables gamma and beta in the scope `name`."""
    with variable_scope(name):
        for variable, first in (("gamma", gain), ("beta", shift)):
            get_variable(variable, [x.shape[-1].value], dtype, initializer=init_ops.constant_initializer(first))
    return layer_norm(x, reuse=True, scope=name)


class LayerNormBasicLSTMCell(RNNCell):
    """A BasicLSTMCell whose gates and memory are normalized, with dropout of what is new in the memory.

    Sources: Ba et al. 2016; Semeniuta et al. 2016.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, input_size: Any = None, activation: Any = math.tanh,
        layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None, reuse: Any = None,
    ):  # fmt: skip
        super().__init__(_reuse=reuse)
        self._units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._norms, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._keep, self._seed = dropout_keep_prob, dropout_prob_seed

    state_size = property(lambda self: LSTMStateTuple(self._units, self._units))
    output_size = property(lambda self: self._units)

    def _norm(self, x: Any, name: str) -> Any:
        return _normalized(x, name, self._dtype, self._gain, self._shift) if self._norms else x

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        joined = concat([inputs, h], 1)
        kernel = get_variable("kernel", [joined.shape[-1].value, 4 * self._units], self._dtype)
        mixed = math.matmul(joined, kernel)
        if not self._norms:
            zeros = init_ops.zeros_initializer()
            mixed = nn.bias_add(mixed, get_variable("bias", [4 * self._units], self._dtype, initializer=zeros))
        names = ("input", "transform", "forget", "output")
        i, j, f, o = (self._norm(part, name) for part, name in zip(split(mixed, 4, axis=1), names))
        new = self._activation(j)
        if not isinstance(self._keep, float) or self._keep < 1:
            new = nn.dropout(new, self._keep, seed=self._seed)
        c = self._norm(c * math.sigmoid(f + self._forget_bias) + math.sigmoid(i) * new, "state")
        h = self._activation(c) * math.sigmoid(o)
        return h, LSTMStateTuple(c, h)


class UGRNNCell(RNNCell):
    """An update gate recurrent cell. Source: Collins et al. 2016."""

    def __init__(self, num_units: int, initializer: Any = None, forget_bias: float = 1.0, activation: Any = math.tanh,
                 reuse: Any = None):  # fmt: skip
        super().__init__(_reuse=reuse)
        self._units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation

    state_size = output_size = property(lambda self: self._units)

    def build(self, inputs_shape: Any) -> None:
        self._kernel = self._add("kernel", [last_size(inputs_shape) + self._units, 2 * self._units], self._initializer)
        self._bias = self._add("bias", [2 * self._units], init_ops.zeros_initializer())

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        gate, new = split(nn.bias_add(math.matmul(concat([inputs, state], 1), self._kernel), self._bias), 2, axis=1)
        gate = math.sigmoid(gate + self._forget_bias)
        state = gate * state + (1.0 - gate) * self._activation(new)
        return state, state


class CoupledInputForgetGateLSTMCell(RNNCell):
    """An LSTM that forgets as much as it takes in: c' = f c + (1 - f) activation(j). Source: Greff et al. 2015."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, initializer: Any = None, num_proj: int | None = None,
        proj_clip: float | None = None, num_unit_shards: int = 1, num_proj_shards: int = 1, forget_bias: float = 1.0,
        state_is_tuple: bool = True, activation: Any = math.tanh, reuse: Any = None, layer_norm: bool = False,
        norm_gain: float = 1.0, norm_shift: float = 0.0,
    ):  # fmt: skip
        super().__init__(_reuse=reuse)
        self._units, self._proj, self._proj_clip = num_units, num_proj, proj_clip
        self._peepholes, self._initializer, self._forget_bias = use_peepholes, initializer, forget_bias
        self._is_tuple, self._activation = state_is_tuple, activation
        self._norms, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._shards = {"W": num_unit_shards, "W_P": num_proj_shards}

    output_size = property(lambda self: self._proj or self._units)

    @property
    def state_size(self) -> Any:
        sizes = self._units, self.output_size
        return LSTMStateTuple(*sizes) if self._is_tuple else sum(sizes)

    def _sharded(self, name: str, rows: int, columns: int) -> Any:
        """A matrix in so many variables <name>_0, <name>_1, ... of its rows; the first ones have one more."""
        parts = self._shards[name]
        if parts > rows:
            raise ValueError(f"{type(self).__name__}: {parts} shards are more than the {rows} rows of {name}")
        sizes = [rows // parts + (i < rows % parts) for i in range(parts)]
        made = [self._add(f"{name}_{i}", [size, columns], self._initializer) for i, size in enumerate(sizes)]
        return made[0] if parts == 1 else concat(made, 0)

    def build(self, inputs_shape: Any) -> None:
        n = self._units
        self._kernel = self._sharded("W", last_size(inputs_shape) + self.output_size, 3 * n)
        self._bias = self._add("B", [3 * n], init_ops.zeros_initializer())
        if self._peepholes:
            self._peep_f, self._peep_o = (self._add(f"W_{gate}_diag", [n], self._initializer) for gate in "FO")
        if self._proj is not None:
            self._projection = self._sharded("W_P", n, self._proj)

    def _norm(self, x: Any, name: str) -> Any:
        return _normalized(x, name, self._dtype, self._gain, self._shift) if self._norms else x

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state if self._is_tuple else split(state, [self._units, self.output_size], axis=1)
        mixed = math.matmul(concat([inputs, h], 1), self._kernel)
        if not self._norms:
            mixed = nn.bias_add(mixed, self._bias)
        j, f, o = (self._norm(part, name) for part, name in zip(split(mixed, 3, axis=1), _COUPLED))
        kept = math.sigmoid(f + self._forget_bias + (self._peep_f * c if self._peepholes else 0.0))
        c = self._norm(kept * c + (1.0 - kept) * self._activation(j), "state")
        h = math.sigmoid(o + self._peep_o * c if self._peepholes else o) * self._activation(c)
        if self._proj is not None:
            h = math.matmul(h, self._projection)
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._is_tuple else concat([c, h], 1)


class ConvLSTMCell(RNNCell):
    """An LSTM over images (or sequences, or volumes): its products are convolutions. Source: Shi et al. 2015."""

    def __init__(
        self, conv_ndims: int, input_shape: Any, output_channels: int, kernel_shape: Any, use_bias: bool = True,
        skip_connection: bool = False, forget_bias: float = 1.0, initializers: Any = None, name: str = "conv_lstm_cell",
    ):  # fmt: skip
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._ndims, self._sizes, self._channels = conv_ndims, list(input_shape), output_channels
        self._window, self._use_bias, self._skip = list(kernel_shape), use_bias, skip_connection
        self._forget_bias, self._initializers = forget_bias, initializers
        self._total = output_channels + (self._sizes[-1] if skip_connection else 0)

    output_size = property(lambda self: TensorShape([*self._sizes[:-1], self._total]))

    @property
    def state_size(self) -> LSTMStateTuple:
        sizes = TensorShape([*self._sizes[:-1], self._channels])
        return LSTMStateTuple(sizes, sizes)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        joined = concat([inputs, h], -1)
        kernel = get_variable(
            "kernel", [*self._window, joined.shape[-1].value, 4 * self._channels], self._dtype, self._initializers
        )
        mixed = convolution(joined, kernel, "SAME")
        if self._use_bias:
            zeros = init_ops.zeros_initializer()
            mixed = mixed + get_variable("biases", [4 * self._channels], self._dtype, initializer=zeros)
        i, j, f, o = split(mixed, 4, axis=-1)
        c = math.sigmoid(f + self._forget_bias) * c + math.sigmoid(i) * math.tanh(j)
        h = math.tanh(c) * math.sigmoid(o)
        return (concat([h, inputs], -1) if self._skip else h), LSTMStateTuple(c, h)


def _conv_cell(name: str, ndims: int) -> Any:
    def make(**kwargs: Any) -> ConvLSTMCell:
        return ConvLSTMCell(conv_ndims=ndims, **{"name": f"conv_{ndims}d_lstm_cell", **kwargs})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A ConvLSTMCell over {ndims} axes."
    return make


Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_conv_cell(f"Conv{n}DLSTMCell", n) for n in (1, 2, 3))


class EmbeddingWrapper(_Wrapper):
    """The cell fed with embeddings of integer inputs; it makes the table `embedding`."""

    def __init__(self, cell: RNNCell, embedding_classes: int, embedding_size: int, initializer: Any = None,
                 reuse: Any = None):  # fmt: skip
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"Both must be above 0: {embedding_classes}, {embedding_size}.")
        self._classes, self._size, self._initializer = embedding_classes, embedding_size, initializer

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        first = self._initializer or init_ops.random_uniform_initializer(-(3.0**0.5), 3.0**0.5)
        table = get_variable("embedding", [self._classes, self._size], initializer=first)
        return self._cell(embedding.embedding_lookup(table, array.reshape(inputs, [-1])), state)


def _linear(x: Any, size: int) -> Any:
    kernel = get_variable("kernel", [x.shape[-1].value, size], x.dtype.base_dtype)
    bias = get_variable("bias", [size], x.dtype.base_dtype, initializer=init_ops.zeros_initializer())
    return nn.bias_add(math.matmul(x, kernel), bias)


class InputProjectionWrapper(_Wrapper):
    """The cell fed with activation(inputs @ kernel + bias)."""

    def __init__(self, cell: RNNCell, num_proj: int, activation: Callable[[Any], Any] | None = None,
                 input_size: Any = None, reuse: Any = None):  # fmt: skip
        super().__init__(cell, reuse)
        self._size, self._activation = num_proj, activation

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        x = _linear(inputs, self._size)
        return self._cell(self._activation(x) if self._activation else x, state)


class OutputProjectionWrapper(_Wrapper):
    """activation(outputs @ kernel + bias) of the cell's outputs."""

    def __init__(self, cell: RNNCell, output_size: int, activation: Callable[[Any], Any] | None = None,
                 reuse: Any = None):  # fmt: skip
        super().__init__(cell, reuse)
        self._size, self._activation = output_size, activation

    output_size = property(lambda self: self._size)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        out, new = self._cell(inputs, state)
        x = _linear(out, self._size)
        return (self._activation(x) if self._activation else x), new


class HighwayWrapper(_Wrapper):
    """inputs * carry + outputs * transform of a cell whose outputs are of its inputs' sizes; both gates are trained.

    couple_carry_transform_gates: transform is 1 - carry. Source: Srivastava, Greff and Schmidhuber 2015.
    """

    def __init__(self, cell: RNNCell, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0):
        super().__init__(cell)
        self._coupled, self._bias = couple_carry_transform_gates, carry_bias_init
        self._made: dict[str, tuple[Any, Any]] = {}  # as of the first step

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        out, new = self._cell(inputs, state) if scope is None else self._cell(inputs, state, scope)
        return nest.map_structure(self._mixed, inputs, out), new

    def _mixed(self, x: Any, out: Any) -> Any:
        carry = self._gate(x, "carry", self._bias)
        transform = 1 - carry if self._coupled else self._gate(x, "transform", -self._bias)
        return x * carry + out * transform

    def _gate(self, x: Any, name: str, bias: float) -> Any:
        if name not in self._made:
            size, kind, start = x.shape[1].value, x.dtype.base_dtype, init_ops.constant_initializer(bias)
            w = get_variable(f"{name}_w", [size, size], kind)
            self._made[name] = w, get_variable(f"{name}_b", [size], kind, initializer=start)
        w, b = self._made[name]
        return math.sigmoid(nn.bias_add(math.matmul(x, w), b))


class AttentionCellWrapper(RNNCell):
    """The cell with attention over its own last attn_length outputs. Source: Vinyals et al. 2015."""

    def __init__(
        self, cell: RNNCell, attn_length: int, attn_size: int | None = None, attn_vec_size: int | None = None,
        input_size: int | None = None, state_is_tuple: bool = True, reuse: Any = None,
    ):  # fmt: skip
        super().__init__(_reuse=reuse)
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        if not state_is_tuple:
            raise ValueError("AttentionCellWrapper: state_is_tuple=False is not supported")
        self._cell, self._length, self._input_size = cell, attn_length, input_size
        self._attn_size = cell.output_size if attn_size is None else attn_size
        self._vec_size = self._attn_size if attn_vec_size is None else attn_vec_size

    @property
    def state_size(self) -> Any:
        return (self._cell.state_size, self._attn_size, self._attn_size * self._length)

    output_size = property(lambda self: self._attn_size)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        inner, attns, past = state
        past = array.reshape(past, [-1, self._length, self._attn_size])
        size = inputs._shape[1] if self._input_size is None else self._input_size
        x = _linear(concat([inputs, attns], 1), size)
        out, after = self._cell(x, inner)
        flat = concat([after.c, after.h], 1) if isinstance(after, LSTMStateTuple) else after
        attended, rest = self._attend(flat, past)
        with variable_scope("attn_output_projection"):
            out = _linear(concat([out, attended], 1), self._attn_size)
        past = concat([rest, array.expand_dims(out, 1)], 1)
        return out, (after, attended, array.reshape(past, [-1, self._attn_size * self._length]))

    def _attend(self, query: Any, past: Any) -> tuple[Any, Any]:
        with variable_scope("attention"):
            k = get_variable("attn_w", [1, 1, self._attn_size, self._vec_size])
            v = get_variable("attn_v", [self._vec_size])
            hidden = array.reshape(past, [-1, self._length, 1, self._attn_size])
            features = array.squeeze(convolution(hidden, k, "SAME"), [2])
            y = array.reshape(_linear(query, self._vec_size), [-1, 1, self._vec_size])
            weights = nn.softmax(math_reduce.reduce_sum(v * math.tanh(features + y), [2]))
            found = math_reduce.reduce_sum(array.expand_dims(weights, 2) * past, [1])
            return array.reshape(found, [-1, self._attn_size]), past[:, 1:]
