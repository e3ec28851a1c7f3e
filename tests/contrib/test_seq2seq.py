"""Decoders against what their definition says, computed by numpy or by another way through the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import seq2seq

BATCH, TIME, UNITS, WORDS = 3, 5, 4, 6


def inputs(seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    embedding = tf.constant(rng.normal(size=(WORDS, UNITS)).astype(np.float32))
    return embedding, rng.integers(0, WORDS, (BATCH, TIME)), np.array([5, 2, 4])


def started(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_training_decoder_is_dynamic_rnn(graph: Any) -> None:
    embedding, ids, lengths = inputs()
    x = tf.nn.embedding_lookup(embedding, ids)
    cell = tf.nn.rnn_cell.GRUCell(UNITS, name="shared", reuse=tf.AUTO_REUSE)
    decoder = seq2seq.BasicDecoder(cell, seq2seq.TrainingHelper(x, lengths), cell.zero_state(BATCH, tf.float32))
    found, state, counted = seq2seq.dynamic_decode(decoder, impute_finished=True)
    wanted, last = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    a, b, s, t, n = started([found.rnn_output, wanted, state, last, counted])
    np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(s, t, rtol=1e-6)
    assert n.tolist() == lengths.tolist()


@pytest.mark.parametrize("mechanism", [seq2seq.LuongAttention, seq2seq.BahdanauAttention])
def test_attention_looks_at_no_step_past_the_end(graph: Any, mechanism: Any) -> None:
    embedding, ids, lengths = inputs()
    x = tf.nn.embedding_lookup(embedding, ids)
    memory, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), x, lengths, dtype=tf.float32)
    attention = mechanism(UNITS, memory, memory_sequence_length=lengths)
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(UNITS), attention, UNITS, alignment_history=True)
    helper = seq2seq.TrainingHelper(x, [TIME] * BATCH)
    _, state, _ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, tf.float32)))
    weights = started(state.alignment_history.stack())
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-5)
    assert weights.shape == (TIME, BATCH, TIME) and not weights[:, 1, 2:].any() and weights[:, 1, :2].all()


def test_an_attention_of_ones_own(graph: Any) -> None:
    """By the names that TensorFlow's classes have within, as those of public speech synthesizers are written."""

    class Located(seq2seq.BahdanauAttention):
        def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:  # type: ignore[override]
            with tf.variable_scope(None, "located", [query]):
                asked = tf.expand_dims(self._query_layer(query), 1)
                place = tf.layers.dense(tf.expand_dims(state, 2), self._num_units, use_bias=False)
                v = tf.get_variable("v", [self._num_units])
                found = self._probability_fn(tf.reduce_sum(v * tf.tanh(self._keys + asked + place), 2), state)
            return found, found + state

    embedding, ids, lengths = inputs()
    x = tf.nn.embedding_lookup(embedding, ids)
    cell = seq2seq.AttentionWrapper(
        tf.nn.rnn_cell.GRUCell(UNITS), Located(UNITS, x, memory_sequence_length=lengths), alignment_history=True
    )
    assert cell._attention_mechanisms[0]._values.shape.as_list() == [BATCH, TIME, UNITS]
    helper = seq2seq.TrainingHelper(x, [TIME] * BATCH)
    _, state, _ = seq2seq.dynamic_decode(seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, tf.float32)))
    weights = started(state.alignment_history.stack())
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-5)
    assert not weights[:, 1, 2:].any()


def test_a_beam_of_one_is_greedy(graph: Any) -> None:
    embedding, _, _ = inputs()
    cell = tf.nn.rnn_cell.GRUCell(UNITS, name="shared", reuse=tf.AUTO_REUSE)
    layer, start = tf.layers.Dense(WORDS, name="out"), tf.fill([BATCH], 1)
    state = tf.constant(np.random.default_rng(5).normal(size=(BATCH, UNITS)).astype(np.float32))
    greedy = seq2seq.BasicDecoder(cell, seq2seq.GreedyEmbeddingHelper(embedding, start, 0), state, layer)
    beam = seq2seq.BeamSearchDecoder(cell, embedding, start, 0, seq2seq.tile_batch(state, 1), 1, layer)
    a, _, _ = seq2seq.dynamic_decode(greedy, maximum_iterations=6)
    b, _, _ = seq2seq.dynamic_decode(beam, maximum_iterations=6)
    said, searched = started([a.sample_id, b.predicted_ids])
    for one, other in zip(said, searched[:, :, 0], strict=True):
        end = next((i for i, word in enumerate(one) if word == 0), len(one))
        assert one[:end].tolist() == other[:end].tolist()


def test_gather_tree(graph: Any) -> None:
    """Two steps back through the parents, nothing after the end (3)."""
    ids = [[[1, 2]], [[4, 3]], [[5, 6]]]
    parents = [[[0, 0]], [[1, 0]], [[0, 1]]]
    found = started(seq2seq.gather_tree(ids, parents, [3], 3))
    assert found[:, 0, 0].tolist() == [2, 4, 5] and found[:, 0, 1].tolist() == [1, 3, 3]


def test_sequence_loss(graph: Any) -> None:
    rng = np.random.default_rng(1)
    logits, ids = rng.normal(size=(2, 3, 4)), rng.integers(0, 4, (2, 3))
    weights = np.array([[1, 1, 0], [1, 0, 0]], float)
    loss = np.log(np.exp(logits).sum(2)) - np.take_along_axis(logits, ids[..., None], 2)[..., 0]
    mean = seq2seq.sequence_loss(logits, ids, weights)
    each = seq2seq.sequence_loss(logits, ids, weights, False, False)
    steps = seq2seq.sequence_loss(logits, ids, weights, average_across_timesteps=False)
    a, b, c = started([mean, each, steps])
    np.testing.assert_allclose(a, (loss * weights).sum() / weights.sum())
    np.testing.assert_allclose(b, loss * weights)
    np.testing.assert_allclose(c, (loss * weights).sum(0) / (weights.sum(0) + 1e-12))
    with pytest.raises(ValueError, match="Targets must be a"):
        seq2seq.sequence_loss(logits, ids[0], weights)
