"""Unrolled decoders against plain unrolling, numpy, and each other."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import legacy_seq2seq

BATCH, STEPS, WORDS, UNITS = 3, 4, 7, 5


def symbols(seed: int) -> list[Any]:
    return [tf.constant(row) for row in np.random.default_rng(seed).integers(0, WORDS, (STEPS, BATCH))]


def started(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


class Counter(tf.nn.rnn_cell.RNNCell):
    """A cell in the old way: all in __call__, its variable found by name."""

    state_size = output_size = UNITS

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        with tf.variable_scope("counter"):
            new = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), tf.get_variable("w", [2 * UNITS, UNITS])))
            return new, new


def test_a_cell_that_makes_its_variables_when_called_is_unrolled_with_one_set(graph: Any) -> None:
    x = [tf.ones([BATCH, UNITS])] * STEPS
    tf.nn.static_rnn(Counter(), x, dtype=tf.float32)
    assert [v.name for v in tf.global_variables()] == ["rnn/counter/w:0"]


def test_rnn_decoder_is_the_cell_step_by_step(graph: Any) -> None:
    x = [tf.constant(np.random.default_rng(i).normal(size=(BATCH, UNITS)).astype(np.float32)) for i in range(STEPS)]
    cell = tf.nn.rnn_cell.GRUCell(UNITS, name="shared", reuse=tf.AUTO_REUSE)
    with tf.variable_scope("outer", reuse=tf.AUTO_REUSE):
        outputs, state = legacy_seq2seq.rnn_decoder(x, cell.zero_state(BATCH, tf.float32), cell)
    expected, last = tf.nn.static_rnn(cell, x, dtype=tf.float32)
    a, b, s, t = started([outputs, expected, state, last])
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(s, t)


@pytest.mark.parametrize(
    "model", ["embedding_rnn_seq2seq", "embedding_tied_rnn_seq2seq", "embedding_attention_seq2seq"]
)
def test_feed_previous_may_be_a_tensor(graph: Any, model: str) -> None:
    """By either value of it, what the Python value makes; True does not depend on the decoder's later inputs."""
    counts = (WORDS,) if "tied" in model else (WORDS, WORDS)
    fed = tf.placeholder(tf.bool, [])

    def made(feed_previous: Any, seed: int = 2) -> Any:
        cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
        with tf.variable_scope("one", reuse=tf.AUTO_REUSE):
            function = getattr(legacy_seq2seq, model)
            first, *_ = symbols(1)
            return function(
                symbols(0), [first, *symbols(seed)], cell, *counts, embedding_size=4, feed_previous=feed_previous
            )[0]

    yes, no, either, other = made(True), made(False), made(fed), made(True, 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yes_found, no_found, other_found = session.run([yes, no, other])
        np.testing.assert_allclose(session.run(either, {fed: True}), yes_found, rtol=1e-5)
        np.testing.assert_allclose(session.run(either, {fed: False}), no_found, rtol=1e-5)
    np.testing.assert_array_equal(yes_found, other_found)
    assert np.shape(yes_found) == (STEPS + 1, BATCH, WORDS) and not np.allclose(yes_found, no_found)


def test_the_attention_of_equal_states_reads_that_state(graph: Any) -> None:
    """Whatever the scores: so the output is a known product."""
    states = tf.ones([BATCH, 3, UNITS]) * 2.0
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    with tf.variable_scope("d", initializer=tf.ones_initializer()):
        outputs, _ = legacy_seq2seq.attention_decoder(
            [tf.ones([BATCH, 2])], cell.zero_state(BATCH, tf.float32), states, cell, num_heads=2
        )
    kernel = next(v for v in tf.global_variables() if v.op.name.endswith("AttnOutputProjection/kernel"))
    assert kernel.shape.as_list() == [3 * UNITS, UNITS]
    state = started(outputs[0])
    assert (state > 2 * 2 * UNITS).all() and (state < 2 * 2 * UNITS + UNITS).all()


def test_attention_decoder_says_what_is_wrong(graph: Any) -> None:
    cell, states = tf.nn.rnn_cell.GRUCell(UNITS), tf.ones([BATCH, 3, UNITS])
    first = cell.zero_state(BATCH, tf.float32)
    with pytest.raises(ValueError, match="at least 1 input"):
        legacy_seq2seq.attention_decoder([], first, states, cell)
    with pytest.raises(ValueError, match="non-attention"):
        legacy_seq2seq.attention_decoder([tf.ones([BATCH, 2])], first, states, cell, num_heads=0)
    with pytest.raises(ValueError, match="must be known"):
        unknown = tf.placeholder(tf.float32, [BATCH, 3, None])
        legacy_seq2seq.attention_decoder([tf.ones([BATCH, 2])], first, unknown, cell)


def test_losses_are_weighted_cross_entropies(graph: Any) -> None:
    rng = np.random.default_rng(0)
    logits, weights = rng.normal(size=(STEPS, BATCH, WORDS)), rng.random((STEPS, BATCH))
    targets = rng.integers(0, WORDS, (STEPS, BATCH))
    listed = [[tf.constant(x) for x in array] for array in (logits, targets, weights)]
    chosen = np.take_along_axis(logits, targets[..., None], 2)[..., 0]
    entropies = (np.log(np.exp(logits).sum(2)) - chosen) * weights
    by_example, mean, total = started(
        [
            legacy_seq2seq.sequence_loss_by_example(*listed),
            legacy_seq2seq.sequence_loss(*listed),
            legacy_seq2seq.sequence_loss(*listed, average_across_timesteps=False, average_across_batch=False),
        ]
    )
    np.testing.assert_allclose(by_example, entropies.sum(0) / weights.sum(0))
    np.testing.assert_allclose([mean, total], [(entropies.sum(0) / weights.sum(0)).mean(), entropies.sum()])
    with pytest.raises(ValueError, match="must be the same"):
        legacy_seq2seq.sequence_loss_by_example(*listed[:2], listed[2][1:])


def test_buckets_share_their_variables_and_each_has_a_loss(graph: Any) -> None:
    """The cell of the first bucket is used in the second; the encoder's is a copy of it."""
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.rnn_cell.GRUCell(UNITS)])
    weights = [tf.ones([BATCH])] * STEPS
    outputs, losses = legacy_seq2seq.model_with_buckets(
        symbols(0), symbols(1), symbols(2), weights, [(2, 2), (4, 3)],
        lambda read, written: legacy_seq2seq.embedding_attention_seq2seq(read, written, cell, WORDS, WORDS, 4),
    )  # fmt: skip
    names = [v.name for v in tf.global_variables()]
    assert len(outputs[0]) == 2 and len(outputs[1]) == 3 and len(names) == len(set(names)) == 28
    found = started([losses, tf.gradients(losses[1], tf.trainable_variables())[-1]])
    assert np.isfinite(found[0]).all() and np.isfinite(found[1]).all()


def test_a_copy_of_a_cell_has_variables_of_its_own(graph: Any) -> None:
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    cell(tf.ones([BATCH, 2]), cell.zero_state(BATCH, tf.float32))
    copied = copy.deepcopy(cell)
    copied(tf.ones([BATCH, 2]), cell.zero_state(BATCH, tf.float32))
    assert len(copied.variables) == 4 and not set(copied.variables) & set(cell.variables)


def test_one_encoder_feeds_several_decoders(graph: Any) -> None:
    cells = {name: tf.nn.rnn_cell.GRUCell(UNITS) for name in "ab"}
    given = {"a": symbols(1), "b": symbols(2)[:2]}
    encoder = tf.nn.rnn_cell.GRUCell(UNITS)
    outputs, states = legacy_seq2seq.one2many_rnn_seq2seq(
        symbols(0), given, encoder, cells, WORDS, {"a": WORDS, "b": 9}, embedding_size=4
    )
    a, b, state = started([outputs["a"], outputs["b"], states["b"]])
    assert np.shape(a) == (STEPS, BATCH, WORDS) and np.shape(b) == (2, BATCH, 9) and state.shape == (BATCH, UNITS)
    with pytest.raises(ValueError, match="the inputs have"):
        legacy_seq2seq.one2many_rnn_seq2seq(symbols(0), given, encoder, {"a": encoder}, WORDS, {}, 4)
    with pytest.raises(TypeError, match="not an RNNCell"):
        legacy_seq2seq.one2many_rnn_seq2seq(symbols(0), given, object(), cells, WORDS, {}, 4)
