"""Chains of tags against sums over all of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import crf

TAGS = 3


def random_case(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(steps)
    return rng.normal(size=(2, steps, TAGS)), rng.normal(size=(TAGS, TAGS)), rng.integers(0, TAGS, (2, steps))


def score_of(tags: Any, scores: np.ndarray, table: np.ndarray) -> float:
    return sum(s[t] for s, t in zip(scores, tags)) + sum(table[a, b] for a, b in itertools.pairwise(tags))


def all_scores(scores: np.ndarray, table: np.ndarray) -> dict[tuple[int, ...], float]:
    chains = itertools.product(range(TAGS), repeat=len(scores))
    return {tags: score_of(tags, scores, table) for tags in chains}


@pytest.mark.parametrize(("steps", "lengths"), [(4, (4, 2)), (3, (1, 3)), (1, (1, 1))])
def test_likelihood_and_best_chain(graph: Any, steps: int, lengths: tuple[int, int]) -> None:
    scores, table, tags = random_case(steps)
    likelihood, given = crf.crf_log_likelihood(scores, tags, np.array(lengths), tf.constant(table))
    best = crf.crf_decode(scores, given, np.array(lengths))
    with tf.Session() as session:
        found, (chains, tops) = session.run([likelihood, best])
    for row, length in enumerate(lengths):
        every = all_scores(scores[row, :length], table)
        total = np.log(sum(np.exp(s) for s in every.values()))
        np.testing.assert_allclose(found[row], every[tuple(tags[row, :length])] - total)
        top = max(every, key=lambda chain: every[chain])
        assert tuple(chains[row, :length]) == top and crf.viterbi_decode(scores[row, :length], table)[0] == list(top)
        np.testing.assert_allclose(tops[row], every[top])


def test_an_empty_sequence_scores_nothing(graph: Any) -> None:
    scores, table, tags = random_case(3)
    outputs = [
        crf.crf_sequence_score(scores, tags, [0, 3], table),
        crf.crf_log_norm(scores, [0, 3], table),
        crf.crf_multitag_sequence_score(scores, np.eye(TAGS, dtype=bool)[tags], [0, 3], table),
    ]
    with tf.Session() as session:
        score, norm, of_tags = session.run(outputs)
    assert score[0] == norm[0] == of_tags[0] == 0
    np.testing.assert_allclose(of_tags[1], score[1])  # one tag allowed at each step


def test_training_learns_the_transitions(graph: Any) -> None:
    """Scores that say nothing, and tags that always change: `transitions` learns that."""
    tags = np.arange(8)[None].repeat(4, 0) % 2
    loss, table = crf.crf_log_likelihood(tf.zeros([4, 8, 2]), tags, [8, 8, 8, 5])
    train = tf.train.GradientDescentOptimizer(0.5).minimize(-tf.reduce_mean(loss))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(20):
            session.run(train)
        learned = session.run(table)
    assert learned[0, 1] > learned[0, 0] + 1 and learned[1, 0] > learned[1, 1] + 1
    assert [v.name for v in tf.trainable_variables()] == ["transitions:0"]
