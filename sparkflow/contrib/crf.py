"""tf.contrib.crf: linear-chain conditional random fields. Source: Lafferty et al. 2001; Viterbi 1967.

inputs: [batch, time, tags] scores of each tag at each step; transition_params: [tags, tags] scores of one tag after
another; tag_indices: [batch, time]; sequence_lengths: [batch]. What is past a sequence's length counts for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_made, math, math_reduce
from sparkflow.ops.array_join import concat, stack
from sparkflow.ops.array_select import where
from sparkflow.ops.array_slice import gather_nd, reverse_sequence
from sparkflow.ops.rnn import dynamic_rnn
from sparkflow.ops.rnn_cell import RNNCell
from sparkflow.ops.variable_scope import get_variable
from sparkflow_runtime.wire.dtypes import int32


def _given(inputs: Any, sequence_lengths: Any) -> tuple[Tensor, Tensor]:
    return convert_to_tensor(inputs), math.cast(sequence_lengths, int32)


def _mask(x: Tensor, lengths: Tensor, like: Tensor) -> Tensor:
    """Ones at the steps of x [batch, time] within the lengths."""
    return array_made.sequence_mask(lengths, maxlen=array.shape(x)[1], dtype=like.dtype.base_dtype)


def _picked(scores: Tensor, indices: Tensor) -> Tensor:
    """scores[b, t, indices[b, t]]."""
    counts = array.shape(indices)
    rows = array.tile(array.expand_dims(math.range(counts[0]), 1), stack([1, counts[1]]))
    steps = array.tile(array.expand_dims(math.range(counts[1]), 0), stack([counts[0], 1]))
    return gather_nd(scores, stack([rows, steps, math.cast(indices, int32)], axis=2))


def _rest(scores: Tensor) -> Tensor:
    """The steps after the first, and one of zeros: a loop without a step has no gradient."""
    return concat([scores[:, 1:], array.zeros_like(scores[:, :1])], 1)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Tensor:
    """[batch]: the sum of the tags' scores."""
    scores, lengths = _given(inputs, sequence_lengths)
    tags = convert_to_tensor(tag_indices)
    return math_reduce.reduce_sum(math.multiply(_picked(scores, tags), _mask(tags, lengths, scores)), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: the sum of the scores of the transitions between the tags."""
    tags, table = math.cast(tag_indices, int32), convert_to_tensor(transition_params)
    lengths = math.cast(sequence_lengths, int32)
    scores = gather_nd(table, stack([tags[:, :-1], tags[:, 1:]], axis=2))
    return math_reduce.reduce_sum(math.multiply(scores, _mask(tags, lengths, table)[:, 1:]), 1)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: the score of each sequence of tags, 0 for an empty one."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return math.add(unary, crf_binary_score(tag_indices, sequence_lengths, transition_params))


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """As crf_log_norm, over the sequences of tags that tag_bitmap [batch, time, tags] allows."""
    scores = convert_to_tensor(inputs)
    nothing = array.fill(array.shape(scores), math.cast(float("-inf"), scores.dtype))
    return crf_log_norm(where(tag_bitmap, scores, nothing), sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """[batch]: the log of the sum over all sequences of tags of exp(score), 0 for an empty one."""
    scores, lengths = _given(inputs, sequence_lengths)
    rest = math.maximum(lengths - 1, 0)
    _, alphas = dynamic_rnn(CrfForwardRnnCell(transition_params), _rest(scores), rest, initial_state=scores[:, 0])
    log_norm = math_reduce.reduce_logsumexp(alphas, [1])
    return where(math.less_equal(lengths, 0), array.zeros_like(log_norm), log_norm)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Tensor, Any]:
    """([batch] log-likelihoods of the tags, the transition scores: the variable `transitions` where none are given)."""
    scores = convert_to_tensor(inputs)
    if transition_params is None:
        count = scores.shape[2].value
        transition_params = get_variable("transitions", [count, count])
    score = crf_sequence_score(scores, tag_indices, sequence_lengths, transition_params)
    return math.subtract(score, crf_log_norm(scores, sequence_lengths, transition_params)), transition_params


class _TagCell(RNNCell):
    """Its state is a score for each tag; `_spread` are the scores of each tag (axis 2) after each one (axis 1)."""

    def __init__(self, transition_params: Any):
        super().__init__()
        table = convert_to_tensor(transition_params)
        self._transitions, self._count = array.expand_dims(table, 0), table.shape[0].value

    state_size = output_size = property(lambda self: self._count)

    def _spread(self, state: Any) -> Tensor:
        return math.add(array.expand_dims(state, 2), self._transitions)


class CrfForwardRnnCell(_TagCell):
    """The forward algorithm: the log of the sum over all ways that end in each tag."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        alphas = math.add(inputs, math_reduce.reduce_logsumexp(self._spread(state), [1]))
        return alphas, alphas


class CrfDecodeForwardRnnCell(_TagCell):
    """The best score of all ways that end in each tag, and (as output) the tag before it."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        spread = self._spread(state)
        back = math.cast(math_reduce.argmax(spread, 1), int32)
        return back, math.add(inputs, math_reduce.reduce_max(spread, [1]))


class CrfDecodeBackwardRnnCell(RNNCell):
    """Follows the tags before each tag, from the last step to the first."""

    def __init__(self, num_tags: int):
        super().__init__()
        self._count = num_tags

    state_size = output_size = property(lambda self: 1)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        tag = array.squeeze(state, [1])
        found = gather_nd(inputs, stack([math.range(array.shape(inputs)[0]), tag], axis=1))
        before = array.expand_dims(found, -1)
        return before, before


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Tensor, Tensor]:
    """([batch, time] int32 tags with the highest score, [batch] that score), in the graph."""
    scores, lengths = _given(potentials, sequence_length)
    rest = math.maximum(lengths - 1, 0)
    forward = CrfDecodeForwardRnnCell(transition_params)
    back, last = dynamic_rnn(forward, _rest(scores), rest, initial_state=scores[:, 0], dtype=int32)
    end = array.expand_dims(math.cast(math_reduce.argmax(last, 1), int32), -1)
    backward = CrfDecodeBackwardRnnCell(scores.shape[2].value)
    tags, _ = dynamic_rnn(backward, reverse_sequence(back, rest, seq_axis=1), rest, initial_state=end, dtype=int32)
    joined = concat([end, array.squeeze(tags, [2])[:, :-1]], 1)
    return reverse_sequence(joined, lengths, seq_axis=1), math_reduce.reduce_max(last, 1)


def viterbi_decode(score: np.ndarray, transition_params: np.ndarray) -> tuple[list[int], float]:
    """(the tags with the highest score, that score) of one sequence, score being [time, tags], by numpy."""
    best, back = np.asarray(score[0]), []
    for step in score[1:]:
        spread = best[:, None] + transition_params
        back.append(spread.argmax(0))
        best = step + spread.max(0)
    tags = [int(best.argmax())]
    for before in reversed(back):
        tags.append(int(before[tags[-1]]))
    return tags[::-1], best.max()
