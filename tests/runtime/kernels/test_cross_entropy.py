"""The cross entropy of softmax rows: its short way, and what that hands to the careful one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def run(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(losses, the gradient of their sum)."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(logits.dtype, logits.shape)
        losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=x)
        return session.run([losses, tf.gradients(losses, x)[0]], {x: logits})  # type: ignore[return-value]


def exact(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, wanted = logits.astype(np.float64), labels.astype(np.float64)
    logs = x - x.max(-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    return -np.where(wanted == 0, 0.0, wanted * logs).sum(-1), np.exp(logs) - wanted


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (128, 10), (64, 1000), (5, 30_000), (0, 4)])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize("labels", ["one", "several", "any"])
def test_it_is_close_to_the_exact_one(shape: tuple[int, int], kind: str, labels: str) -> None:
    rng = np.random.default_rng(shape[1])
    wanted = rng.dirichlet(np.ones(shape[1]), shape[0]) if labels == "several" else rng.standard_normal(shape)
    if labels == "one":
        wanted = np.zeros(shape)
        wanted[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = 1
    given = (10 * rng.standard_normal(shape)).astype(kind), wanted.astype(kind)
    scale = 1 + float(np.abs(given[1]).sum(-1).max(initial=0)) * 40
    for found, known in zip(run(*given), exact(*given), strict=True):
        assert found.dtype == kind
        np.testing.assert_allclose(found, known, rtol=0, atol=(2e-3 if kind == "float16" else 1e-6) * scale)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_label_of_nothing_costs_nothing(kind: str) -> None:
    """Even where the logit is minus infinity; a label there costs infinitely much."""
    logits = np.array([[0, -np.inf, 1], [0, -np.inf, 1], [3, 2, 1]], kind)
    labels = np.array([[0.5, 0, 0.5], [0, 1, 0], [1, 0, 0]], kind)
    losses, gradient = run(logits, labels)
    np.testing.assert_allclose(losses, [np.log(1 + np.e) - 0.5, np.inf, np.log(1 + np.exp(-1) + np.exp(-2))], rtol=1e-6)
    assert np.isfinite(gradient).all()


def test_what_was_given_stays_as_it_was() -> None:
    logits, labels = np.ones((4, 3), np.float32), np.eye(4, 3, dtype=np.float32)
    for _ in range(2):
        run(logits, labels)
    assert (logits == 1).all() and (labels == np.eye(4, 3)).all()


@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "int8"])
def test_counts_of_distinct_values(kind: str) -> None:
    values: Any = np.random.default_rng(0).integers(-20, 20, 3000).astype(kind)
    with tf.Session() as session:
        found, places, counts = session.run(tf.unique_with_counts(tf.placeholder_with_default(values, [None])))
        nothing = session.run(tf.unique_with_counts(tf.placeholder_with_default(values[:0], [None])))
    np.testing.assert_array_equal(found[places], values)
    np.testing.assert_array_equal(found, values[np.sort(np.unique(values, return_index=True)[1])])
    np.testing.assert_array_equal(counts, [np.count_nonzero(values == v) for v in found])
    assert (found.dtype, places.dtype, counts.dtype) == (kind, np.int32, np.int32)
    assert [len(part) for part in nothing] == [0, 0, 0]
