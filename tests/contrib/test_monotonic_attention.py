"""Monotonic attention against its definition, step by step in numpy (Raffel et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import seq2seq
from tests.contrib.test_seq2seq import BATCH, TIME, UNITS, started


def expected(p: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Every path: from where the last output looked, past each step that is not taken."""
    found = np.zeros_like(p)
    for j in range(p.shape[1]):
        for k in range(j + 1):
            found[:, j] += before[:, k] * np.prod(1 - p[:, k:j], axis=1) * p[:, j]
    return found


def distributions(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p, before = rng.uniform(0.05, 0.95, (BATCH, TIME)), rng.uniform(size=(BATCH, TIME))
    return p, before / before.sum(1, keepdims=True)


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_all_paths(graph: Any, mode: str, dtype: str) -> None:
    p, before = distributions(0)
    given = tf.placeholder_with_default(p.astype(dtype), [None, None])
    found = seq2seq.monotonic_attention(given, before.astype(dtype), mode)
    np.testing.assert_allclose(started(found), expected(p, before), rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("mode", ["recursive", "hard"])
def test_certain_steps(graph: Any, mode: str) -> None:
    """From step 1 on, the first that is taken; nothing where none is."""
    p = np.array([[1, 0, 0, 1, 1], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.float32)
    before = np.eye(TIME, dtype=np.float32)[[1, 1, 1]]
    found = started(seq2seq.monotonic_attention(p, before, mode))
    assert found.argmax(1).tolist() == [3, 1, 0] and found.sum(1).round(4).tolist() == [1, 1, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_safe_cumprod_of_zeros(graph: Any, dtype: str) -> None:
    """As many zeros as one likes: finite values and slopes, in each type, and no less than the type can say."""
    x = tf.constant([0.5, 0.25, 1e-50, 0.5], dtype)
    made = seq2seq.safe_cumprod(x)
    found, slope = started([made, tf.gradients(made, x)[0]])
    assert np.isfinite(found).all() and np.isfinite(slope).all()
    np.testing.assert_allclose(found[:2], [0.5, 0.125], rtol=1e-3)
    assert found[2] <= 0.125 * (1e-49 if dtype == "float64" else float(np.finfo(dtype).tiny) * 1.01)


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        (seq2seq.BahdanauMonotonicAttention, {"normalize": True}, ["attention_v", "attention_g", "attention_b"]),
        (seq2seq.LuongMonotonicAttention, {"scale": True}, ["attention_g"]),
    ],
)
def test_in_a_decoder(graph: Any, kind: Any, options: Any, names: list[str], mode: str) -> None:
    """Each step's alignments are those of the one before moved on, none past the end, and a bias is trained."""
    rng, lengths = np.random.default_rng(3), np.array([5, 2, 4])
    memory = tf.constant(rng.normal(size=(BATCH, TIME, UNITS)).astype(np.float32))
    attention = kind(UNITS, memory, lengths, score_bias_init=0.25, mode=mode, **options)
    cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(UNITS), attention, UNITS, alignment_history=True)
    helper = seq2seq.TrainingHelper(memory, [TIME] * BATCH)
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, tf.float32))
    _, state, _ = seq2seq.dynamic_decode(decoder)
    scope = "bahdanau" if "attention_v" in names else "luong"
    for name in [*names, "attention_score_bias"]:
        wanted = f"decoder/attention_wrapper/{scope}_monotonic_attention/{name}:0"
        assert wanted in [v.name for v in tf.trainable_variables()]
    bias = next(v for v in tf.trainable_variables() if "score_bias" in v.name)
    history = state.alignment_history.stack()
    weights, start, slope = started([history, bias, tf.gradients(history, bias)[0] if mode != "hard" else bias])
    assert start == 0.25 and slope != 0 and not weights[:, 1, 2:].any()
    assert (np.diff(np.cumsum(weights, axis=2), axis=0) <= 1e-5).all()  # mass only moves on


def test_noise_and_modes(graph: Any) -> None:
    memory = tf.zeros([BATCH, TIME, UNITS])
    noisy = seq2seq.LuongMonotonicAttention(UNITS, memory, sigmoid_noise=1.0, sigmoid_noise_seed=4)
    first, _ = noisy(tf.ones([BATCH, UNITS]), noisy.initial_alignments(BATCH, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert not np.array_equal(session.run(first), session.run(first))
    with pytest.raises(ValueError, match="mode must be 'recursive', 'parallel', or 'hard', got 'soft'"):
        seq2seq.BahdanauMonotonicAttention(UNITS, memory, mode="soft")


@pytest.mark.parametrize("kind", [seq2seq.BahdanauAttention, seq2seq.LuongAttention])
def test_keys_and_values_of_ones_own(graph: Any, kind: Any) -> None:
    memory = tf.constant(np.random.default_rng(1).normal(size=(BATCH, TIME, UNITS)).astype(np.float32))
    plain = kind(UNITS, memory)
    changed = kind(UNITS, memory, custom_key_value_fn=lambda keys, values: (keys * 2, values + 1))
    layer_weights = [v for v in tf.trainable_variables() if "memory_layer" in v.name]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(layer_weights[1].assign(layer_weights[0]))
        keys, values, own_keys, own_values = session.run([plain.keys, plain.values, changed.keys, changed.values])
    np.testing.assert_allclose(own_keys, keys * 2, rtol=1e-6)
    np.testing.assert_allclose(own_values, values + 1, rtol=1e-6)
