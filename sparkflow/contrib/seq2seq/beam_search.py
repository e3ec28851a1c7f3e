"""Beam search: a decoder that keeps the best so many continuations of each sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow.contrib.seq2seq.decoder import Decoder, output_size
from sparkflow.contrib.seq2seq.helpers import _lookup, edge_tokens
from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, array_select, math, math_reduce, nn
from sparkflow.ops.array_join import concat, stack
from sparkflow.ops.array_select import where
from sparkflow.ops.array_slice import gather_nd
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire.dtypes import bool_, int32, int64


class BeamSearchDecoderState(NamedTuple):
    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """Of a step: the scores, the words and the beams they continue, each [batch, beams]."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """predicted_ids: [time, batch, beams], the best beam first; beam_search_decoder_output: what the steps gave."""

    predicted_ids: Any
    beam_search_decoder_output: BeamSearchDecoderOutput


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """[batch, ...] -> [batch * multiplier, ...], each row so many times in succession."""
    return nest.map_structure(lambda x: _tiled(convert_to_tensor(x), multiplier), t)


def _tiled(x: Tensor, count: int) -> Tensor:
    dims, sizes = x._shape, array.shape(x)
    if not dims:
        raise ValueError(f"tile_batch: t must have a known rank above 0, got {x}")
    wide = array.tile(array.expand_dims(x, 1), [1, count] + [1] * (len(dims) - 1))
    out = array.reshape(wide, concat([[sizes[0] * count], sizes[1:]], 0))
    out.set_shape((None if dims[0] is None else dims[0] * count, *dims[1:]))
    return out


def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Tensor:
    """The sequences [time, batch, beams] that end in each last beam, from the words of all steps and the beams which
    they continue; end_token after the first end_token, and past a sequence's length."""
    ids, parents = convert_to_tensor(step_ids), convert_to_tensor(parent_ids)
    sizes = array.shape(ids)
    steps, batch, beams = sizes[0], sizes[1], sizes[2]
    end = convert_to_tensor(end_token, ids.dtype)
    own = array.tile(array.expand_dims(math.range(beams), 0), [batch, 1])
    longest = array.expand_dims(math.cast(max_sequence_lengths, int32), 1)
    rows = array.tile(array.expand_dims(math.range(batch), 1), [1, beams])
    words = TensorArray(ids.dtype, size=steps)

    def back(t: Any, beam: Any, words: Any) -> Any:
        at = stack([rows, beam], 2)
        inside = math.logical_and(math.less(t, longest), array.ones_like(beam, dtype=bool_))
        said = where(inside, gather_nd(ids[t], at), array.fill([batch, beams], end))
        return t - 1, where(inside, gather_nd(parents[t], at), beam), words.write(t, said)

    _, _, words = while_loop(lambda t, *_: math.greater_equal(t, 0), back, (steps - 1, own, words))
    found = words.stack()
    ended = math.cast(math.equal(found, end), int32)
    before = math_reduce.cumsum(ended, axis=0, exclusive=True)
    out = where(math.greater(before, 0), array.fill(array.shape(found), end), found)
    out.set_shape(ids._shape)
    return out


class BeamSearchDecoder(Decoder):
    """The beam_width likeliest continuations of each sequence, by log probability over a penalty of their length.

    initial_state: of tile_batch(..., beam_width). length_penalty_weight: w of ((5 + length) / 6) ** w (Wu et al. 2016).
    """

    tracks_own_finished = True  # a beam that is over may be displaced by one that is not

    def __init__(
        self, cell: Any, embedding: Any, start_tokens: Any, end_token: Any, initial_state: Any, beam_width: int,
        output_layer: Any = None, length_penalty_weight: float = 0.0, coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ):  # fmt: skip
        if coverage_penalty_weight:
            raise ValueError("BeamSearchDecoder: coverage_penalty_weight is not supported; leave it 0")
        self._cell, self._layer, self._width = cell, output_layer, beam_width
        self._embed, self._penalty = _lookup(embedding), length_penalty_weight
        self._start, self._end = edge_tokens(start_tokens, end_token)
        self.batch_size = array.size(self._start)
        self._state = nest.map_structure(self._split, initial_state)
        wide = array.tile(array.expand_dims(self._start, 1), [1, beam_width])
        self._first = self._embed(wide)

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        return BeamSearchDecoderOutput(*[TensorShape([self._width])] * 3)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        kind = nest.flatten(self._state)[0].dtype.base_dtype
        return BeamSearchDecoderOutput(kind, int32, int32)

    # ------------------------------------------------------------------ [batch, beams, ...] <-> [batch * beams, ...]

    def _split(self, x: Any) -> Any:
        if isinstance(x, TensorArray) or x._shape == ():
            return x
        dims = x._shape
        sizes = array.shape(x)
        out = array.reshape(x, concat([[self.batch_size, self._width], sizes[1:]], 0))
        out.set_shape((None, self._width, *dims[1:]))
        return out

    def _merged(self, x: Any) -> Any:
        if isinstance(x, TensorArray) or x._shape == ():
            return x
        dims = x._shape
        out = array.reshape(x, concat([[self.batch_size * self._width], array.shape(x)[2:]], 0))
        out.set_shape((None, *dims[2:]))
        return out

    def _chosen(self, x: Any, parents: Tensor) -> Any:
        """The rows of the beams that are continued."""
        if isinstance(x, TensorArray) or x._shape == ():
            return x
        rows = array.tile(array.expand_dims(math.range(self.batch_size), 1), [1, self._width])
        out = gather_nd(x, stack([rows, parents], 2))
        out.set_shape(x._shape)
        return out

    # ------------------------------------------------------------------ the steps

    def initialize(self, name: str | None = None) -> Any:
        sizes = [self.batch_size, self._width]
        first = array_select.one_hot(array.fill([self.batch_size], 0), self._width, 0.0, -np.inf)
        kind = nest.flatten(self._state)[0].dtype.base_dtype
        state = BeamSearchDecoderState(
            self._state, math.cast(first, kind), array.fill(sizes, False), array.zeros(sizes, int64)
        )
        return state.finished, self._first, state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        with get_default_graph().name_scope(name or "BeamSearchDecoderStep"):
            outputs, cell_state = self._cell(self._merged(inputs), nest.map_structure(self._merged, state.cell_state))
            logits = self._split(outputs if self._layer is None else self._layer(outputs))
            cell_state = nest.map_structure(self._split, cell_state)
            found, after = self._search(logits, cell_state, state)
            over = math_reduce.reduce_all(after.finished)
            following = cond(over, lambda: self._first, lambda: self._embed(found.predicted_ids))
            following.set_shape(self._first._shape)
            return found, after, following, after.finished

    def _search(self, logits: Tensor, cell_state: Any, state: BeamSearchDecoderState) -> Any:
        """The best beam_width of all beams' continuations."""
        size = (shapes.as_dims(output_size(self._cell, self._layer)) or (None,))[-1]
        words = size if size is not None else array.shape(logits)[2]
        total = math.add(array.expand_dims(state.log_probs, 2), self._closed(nn.log_softmax(logits), state, words))
        lengths = math.add(
            array.expand_dims(state.lengths, 2), math.cast(self._continues(state.finished, words), int64)
        )
        scores = math.divide(total, self._length_penalty(lengths, total.dtype))
        flat = array.reshape(scores, [self.batch_size, -1])
        best, at = nn.top_k(flat, self._width)
        ids, parents = math.floormod(at, words), math.floordiv(at, words)
        rows = array.tile(array.expand_dims(math.range(self.batch_size), 1), [1, self._width])
        log_probs = gather_nd(array.reshape(total, [self.batch_size, -1]), stack([rows, at], 2))
        was = self._chosen(state.finished, parents)
        finished = math.logical_or(was, math.equal(ids, self._end))
        longer = math.add(self._chosen(state.lengths, parents), math.cast(math.logical_not(was), int64))
        after = BeamSearchDecoderState(
            nest.map_structure(lambda x: self._chosen(x, parents), cell_state),
            _like(log_probs, state.log_probs), _like(finished, state.finished), _like(longer, state.lengths),
        )  # fmt: skip
        return BeamSearchDecoderOutput(best, ids, parents), after

    def _closed(self, log_probs: Tensor, state: BeamSearchDecoderState, words: Any) -> Tensor:
        """A beam that is over goes on with end_token, at no cost, and with nothing else."""
        kind = log_probs.dtype
        only_end = array_select.one_hot(
            array.fill([1, 1], self._end), words, on_value=0.0, off_value=float(np.finfo(kind.np).min)
        )
        over = array.tile(array.expand_dims(state.finished, 2), [1, 1, words])
        return where(over, math.add(array.zeros_like(log_probs), math.cast(only_end, kind)), log_probs)

    def _continues(self, finished: Tensor, words: Any) -> Tensor:
        """Which continuations make a sequence longer: all but end_token, of beams that are not over."""
        other = math.not_equal(math.range(words), self._end)
        return math.logical_and(math.logical_not(array.expand_dims(finished, 2)), array.reshape(other, [1, 1, -1]))

    def _length_penalty(self, lengths: Tensor, kind: Any) -> Any:
        if not self._penalty:
            return convert_to_tensor(1.0, kind)
        return math.pow(math.divide(math.add(math.cast(lengths, kind), 5.0), 6.0), self._penalty)

    def finalize(self, outputs: BeamSearchDecoderOutput, final_state: Any, sequence_lengths: Any) -> Any:
        longest = math.cast(math_reduce.reduce_max(final_state.lengths, axis=1), int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state


def _like(x: Tensor, other: Tensor) -> Tensor:
    x.set_shape(other._shape)
    return x
