"""Decoders that are unrolled over a list of inputs. Source of the attention: Vinyals et al. 2014 (1412.7449)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, embedding, init_ops, math, math_reduce, nn
from sparkflow.ops.array_join import concat, stack
from sparkflow.ops.nn_conv import conv2d
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope

Loop = Callable[[Any, int], Any]
Decoded = tuple[list[Any], Any]


def linear(inputs: Sequence[Any], size: int) -> Tensor:
    """The inputs [batch, any] side by side, times `kernel`, and `bias`: variables of the current scope."""
    joined = concat(list(inputs), 1) if len(inputs) > 1 else inputs[0]
    depth = joined.shape.with_rank(2)[1].value
    if depth is None:
        raise ValueError(f"linear: the last axis must have a known size, got {joined.shape} of {joined.name}")
    kernel = get_variable("kernel", [depth, size], joined.dtype)
    bias = get_variable("bias", [size], joined.dtype, initializer=init_ops.zeros_initializer())
    return nn.bias_add(math.matmul(joined, kernel), bias)


def fed_back(loop_function: Loop, previous: Any, step: int) -> Any:
    """What loop_function makes of the output before, its variables reused."""
    with variable_scope("loop_function", reuse=True):
        return loop_function(previous, step)


def rnn_decoder(
    decoder_inputs: Iterable[Any], initial_state: Any, cell: Any, loop_function: Loop | None = None, scope: Any = None
) -> Decoded:
    """(outputs, last state) of the cell over the inputs; from the second step on its input is loop_function(output
    before, step), where there is such a function."""
    with variable_scope(scope or "rnn_decoder"):
        state = initial_state
        outputs: list[Any] = []
        for step, given in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                given = fed_back(loop_function, outputs[-1], step)
            if step:
                get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
    return outputs, state


def chosen_row(table: Any, output_projection: Any, trained: bool = True) -> Loop:
    """A loop function: the row of the table for the largest output (projected by (weights, biases), where given)."""

    def loop_function(previous: Any, _: int) -> Tensor:
        if output_projection is not None:
            previous = nn.xw_plus_b(previous, output_projection[0], output_projection[1])
        row = embedding.embedding_lookup(table, math_reduce.argmax(previous, 1))
        return row if trained else array.stop_gradient(row)

    return loop_function


def check_projection(output_projection: Any, num_symbols: int, dtype: Any) -> None:
    """Raises ValueError where the projection does not end in num_symbols."""
    if output_projection is not None:
        weights, biases = (convert_to_tensor(part, dtype=dtype) for part in output_projection)
        weights.shape.assert_is_compatible_with([None, num_symbols])
        biases.shape.assert_is_compatible_with([num_symbols])


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any], initial_state: Any, cell: Any, num_symbols: int, embedding_size: int,
    output_projection: Any = None, feed_previous: bool = False, update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> Decoded:  # fmt: skip
    """rnn_decoder over symbols, [batch] ids of the variable `embedding`. feed_previous: all inputs but the first are
    the symbols that were decoded before them."""
    with variable_scope(scope or "embedding_rnn_decoder") as opened:
        check_projection(output_projection, num_symbols, opened.dtype)
        table = get_variable("embedding", [num_symbols, embedding_size])
        loop = chosen_row(table, output_projection, update_embedding_for_previous) if feed_previous else None
        rows = (embedding.embedding_lookup(table, ids) for ids in decoder_inputs)
        return rnn_decoder(rows, initial_state, cell, loop)


class _Heads:
    """Attention of num_heads heads over states [batch, time, size]: a weighted sum of them a head."""

    def __init__(self, states: Tensor, num_heads: int, dtype: Any):
        self._length = states.shape[1].value or array.shape(states)[1]
        self.size, self._dtype = states.shape[2].value, dtype
        self._hidden = array.reshape(states, [-1, self._length, 1, self.size])
        self._features, self._v = [], []
        for head in range(num_heads):
            kernel = get_variable(f"AttnW_{head}", [1, 1, self.size, self.size], dtype)
            self._features.append(conv2d(self._hidden, kernel, [1, 1, 1, 1], "SAME"))
            self._v.append(get_variable(f"AttnV_{head}", [self.size], dtype))

    def nothing(self, batch_size: Any) -> list[Tensor]:
        """What is read before the first step."""
        zeros = [array.zeros(stack([batch_size, self.size]), self._dtype) for _ in self._v]
        for read in zeros:
            read.set_shape([None, self.size])
        return zeros

    def __call__(self, query: Any) -> list[Tensor]:
        joined = concat(nest.flatten(query), 1) if nest.is_nested(query) else query
        return [self._read(head, joined) for head in range(len(self._v))]

    def _read(self, head: int, query: Tensor) -> Tensor:
        with variable_scope(f"Attention_{head}"):
            asked = math.cast(array.reshape(linear([query], self.size), [-1, 1, 1, self.size]), self._dtype)
            scores = math_reduce.reduce_sum(
                math.multiply(self._v[head], math.tanh(math.add(self._features[head], asked))), [2, 3]
            )
            shares = array.reshape(nn.softmax(scores), [-1, self._length, 1, 1])
            read = math_reduce.reduce_sum(math.multiply(shares, self._hidden), [1, 2])
            return array.reshape(read, [-1, self.size])


def attention_decoder(
    decoder_inputs: Sequence[Any], initial_state: Any, attention_states: Tensor, cell: Any,
    output_size: int | None = None, num_heads: int = 1, loop_function: Loop | None = None, dtype: Any = None,
    scope: Any = None, initial_state_attention: bool = False,
) -> Decoded:  # fmt: skip
    """As rnn_decoder, each step also given what it reads of attention_states [batch, time, size].

    initial_state_attention: read before the first step too. Raises ValueError without inputs or heads, or where the
    size of the states or of an input is unknown.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    size = cell.output_size if output_size is None else output_size
    with variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        kind = opened.dtype
        attention = _Heads(attention_states, num_heads, kind)
        reads = attention.nothing(array.shape(decoder_inputs[0])[0])
        if initial_state_attention:
            reads = attention(initial_state)
        state = initial_state
        outputs: list[Any] = []
        for step, given in enumerate(decoder_inputs):
            if step:
                get_variable_scope().reuse_variables()
            if loop_function is not None and outputs:
                given = fed_back(loop_function, outputs[-1], step)
            depth = given.shape.with_rank(2)[1].value
            if depth is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            output, state = cell(linear([math.cast(x, kind) for x in (given, *reads)], depth), state)
            with variable_scope(get_variable_scope(), reuse=True if initial_state_attention else None):
                reads = attention(state)
            with variable_scope("AttnOutputProjection"):
                outputs.append(linear([math.cast(output, kind), *reads], size))
    return outputs, state


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any], initial_state: Any, attention_states: Tensor, cell: Any, num_symbols: int,
    embedding_size: int, num_heads: int = 1, output_size: int | None = None, output_projection: Any = None,
    feed_previous: bool = False, update_embedding_for_previous: bool = True, dtype: Any = None, scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:  # fmt: skip
    """attention_decoder over symbols, as embedding_rnn_decoder is rnn_decoder over symbols."""
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        check_projection(output_projection, num_symbols, dtype)
        table = get_variable("embedding", [num_symbols, embedding_size])
        loop = chosen_row(table, output_projection, update_embedding_for_previous) if feed_previous else None
        rows = [embedding.embedding_lookup(table, ids) for ids in decoder_inputs]
        return attention_decoder(
            rows, initial_state, attention_states, cell, output_size, num_heads, loop,
            initial_state_attention=initial_state_attention,
        )  # fmt: skip
