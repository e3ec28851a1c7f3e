"""An encoder and a decoder, over lists of symbols."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sparkflow.contrib.legacy_seq2seq.decoders import (
    Decoded,
    Loop,
    check_projection,
    chosen_row,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    rnn_decoder,
)
from sparkflow.contrib.rnn_cells import EmbeddingWrapper, OutputProjectionWrapper
from sparkflow.framework import nest
from sparkflow.ops import array, embedding
from sparkflow.ops.array_join import concat
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.rnn import static_rnn
from sparkflow.ops.rnn_cell import RNNCell
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope
from sparkflow_runtime.wire.dtypes import float32


def _either(feed_previous: Any, decoder: Callable[[bool], Decoded]) -> Decoded:
    """decoder(feed_previous), which may be a boolean tensor; then both are made, of the same variables."""
    if isinstance(feed_previous, bool):
        return decoder(feed_previous)
    like: list[Decoded] = []

    def branch(fed: bool) -> list[Any]:
        with variable_scope(get_variable_scope(), reuse=None if fed else True):
            like.append(decoder(fed))
        return nest.flatten(like[-1])

    flat = cond(feed_previous, lambda: branch(True), lambda: branch(False))
    return nest.pack_sequence_as(like[0], list(flat))


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, dtype: Any = float32, scope: Any = None
) -> Decoded:
    """The decoder begins with the last state of the encoder; both are such cells, with variables of their own."""
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, loop_function: Loop | None = None,
    dtype: Any = float32, scope: Any = None,
) -> Decoded:  # fmt: skip
    """As basic_rnn_seq2seq, with the same variables for both."""
    with variable_scope("combined_tied_rnn_seq2seq"):
        inner = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=inner)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, inner)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, num_encoder_symbols: int,
    num_decoder_symbols: int, embedding_size: int, output_projection: Any = None, feed_previous: Any = False,
    dtype: Any = None, scope: Any = None,
) -> Decoded:  # fmt: skip
    """basic_rnn_seq2seq over symbols. Outputs: logits [batch, num_decoder_symbols], or of the cell's size where there
    is an output_projection (weights, biases). feed_previous: see embedding_rnn_decoder; a boolean tensor chooses a step
    at a time."""
    with variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return _either(
            feed_previous,
            lambda fed: embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection, fed,
                isinstance(feed_previous, bool),
            ),
        )  # fmt: skip


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, num_symbols: int, embedding_size: int,
    num_decoder_symbols: int | None = None, output_projection: Any = None, feed_previous: Any = False,
    dtype: Any = None, scope: Any = None,
) -> Decoded:  # fmt: skip
    """tied_rnn_seq2seq over symbols, one `embedding` for what is read and what is written."""
    with variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        check_projection(output_projection, num_symbols, opened.dtype)
        table = get_variable("embedding", [num_symbols, embedding_size], opened.dtype)
        read = [embedding.embedding_lookup(table, ids) for ids in encoder_inputs]
        given = [embedding.embedding_lookup(table, ids) for ids in decoder_inputs]
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)
        trained = isinstance(feed_previous, bool)

        def decoder(fed: bool) -> Decoded:
            loop = chosen_row(table, output_projection, trained) if fed else None
            return tied_rnn_seq2seq(read, given, cell, loop, opened.dtype)

        return _either(feed_previous, decoder)


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, num_encoder_symbols: int,
    num_decoder_symbols: int, embedding_size: int, num_heads: int = 1, output_projection: Any = None,
    feed_previous: Any = False, dtype: Any = None, scope: Any = None, initial_state_attention: bool = False,
) -> Decoded:  # fmt: skip
    """As embedding_rnn_seq2seq, the decoder reading the encoder's outputs by attention."""
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        outputs, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        states = concat([array.reshape(x, [-1, 1, cell.output_size]) for x in outputs], 1)
        size = None
        if output_projection is None:
            cell, size = OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols
        return _either(
            feed_previous,
            lambda fed: embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size, num_heads, size,
                output_projection, fed, isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
            ),
        )  # fmt: skip


def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs_dict: Mapping[str, Sequence[Any]], enc_cell: Any,
    dec_cells_dict: Mapping[str, Any], num_encoder_symbols: int, num_decoder_symbols_dict: Mapping[str, int],
    embedding_size: int, feed_previous: Any = False, dtype: Any = None, scope: Any = None,
) -> tuple[dict[str, list[Any]], dict[str, Any]]:  # fmt: skip
    """One encoder and a decoder for each name: (outputs by name, last states by name).

    Raises TypeError where a cell is none, ValueError where cells and inputs of decoders bear different names.
    """
    for label, cell in (("enc_cell", enc_cell), *(("dec_cell", c) for c in dec_cells_dict.values())):
        if not isinstance(cell, RNNCell):
            raise TypeError(f"{label} is not an RNNCell: {type(cell)}")
    if set(dec_cells_dict) != set(decoder_inputs_dict):
        raise ValueError(f"dec_cells_dict has {sorted(dec_cells_dict)}, the inputs have {sorted(decoder_inputs_dict)}")
    outputs, states = {}, {}
    with variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        for name, given in decoder_inputs_dict.items():
            count = num_decoder_symbols_dict[name]
            with variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], count)
                decoder = partial(embedding_rnn_decoder, given, state, cell, count, embedding_size, None)
                outputs[name], states[name] = _either(feed_previous, decoder)
    return outputs, states
