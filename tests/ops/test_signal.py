"""Signals: transforms against their definitions, and what undoes what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.random.default_rng(5).normal(size=(2, 24))
N = np.arange(24)


def test_frames_and_back(evaluate: Any) -> None:
    found = evaluate(lambda x: tf.signal.frame(tf.ensure_shape(x, [None, None]), 6, 4), X, known_shapes=False)
    np.testing.assert_array_equal(found, np.stack([X[:, i : i + 6] for i in range(0, 19, 4)], 1))
    same = evaluate(lambda x: tf.signal.overlap_and_add(tf.signal.frame(x, 6, 6), 6), X)
    np.testing.assert_array_equal(same, X)


@pytest.mark.parametrize(
    "kind, definition",
    [
        (2, lambda k, n: np.cos(np.pi * k * (2 * n + 1) / 48)),
        (4, lambda k, n: np.cos(np.pi * (2 * k + 1) * (2 * n + 1) / 96)),
    ],
)
def test_cosines(evaluate: Any, kind: int, definition: Any) -> None:
    table = 2 * definition(N[:, None], N[None])
    np.testing.assert_allclose(evaluate(lambda x: tf.signal.dct(x, kind), X), X @ table.T, atol=1e-9)
    back = evaluate(lambda x: tf.signal.idct(tf.signal.dct(x, kind, norm="ortho"), kind, norm="ortho"), X)
    np.testing.assert_allclose(back, X, atol=1e-9)


def test_short_transforms_and_back(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        there = tf.signal.stft(x, 8, 4)
        return tf.signal.inverse_stft(there, 8, 4, window_fn=tf.signal.inverse_stft_window_fn(4))

    np.testing.assert_allclose(evaluate(build, X)[:, 4:-4], X[:, 4:-4], atol=1e-9)
    again = evaluate(lambda x: tf.signal.inverse_mdct(tf.signal.mdct(x, 8, norm="ortho"), norm="ortho"), X)
    np.testing.assert_allclose(again[:, 4:-4], X[:, 4:-4], atol=1e-6)


def test_what_is_short_is_filled(evaluate: Any) -> None:
    np.testing.assert_allclose(evaluate(lambda x: tf.signal.rfft(x, [32]), X), np.fft.rfft(X, 32), atol=1e-9)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="Type-I"):
        tf.signal.dct(X, 1, norm="ortho")
    with pytest.raises(ValueError, match="multiple of 4"):
        tf.signal.mdct(X, 6)
    with pytest.raises(ValueError, match="Nyquist"):
        tf.signal.linear_to_mel_weight_matrix(sample_rate=1000)
