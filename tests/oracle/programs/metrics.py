"""tf.metrics of ranks and of trade-offs, over three batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.compare import Tolerance
from tests.oracle.program import program

_RNG = np.random.default_rng(2)
_SCORES = [_RNG.random((6, 5)).astype(np.float32) for _ in range(3)]
_LABELS = [_RNG.integers(0, 5, (6, 2)).astype(np.int64) for _ in range(3)]


def _over_batches(tf: Any, build: Any) -> list[Any]:
    scores, labels = tf.placeholder(tf.float32, [6, 5]), tf.placeholder(tf.int64, [6, 2])
    pairs = build(scores, labels)
    steps: list[Any] = [[tf.local_variables_initializer()]]
    for s, y in zip(_SCORES, _LABELS):
        steps.append(([update for _, update in pairs], {scores: s, labels: y}))
    return [*steps, [value for value, _ in pairs]]


@program(tolerance=Tolerance(64, scaled=True))
def metrics_at_k(tf: Any) -> list[Any]:
    m = tf.metrics
    weights = np.linspace(0.5, 2, 6).astype(np.float32)

    def build(scores: Any, labels: Any) -> list[Any]:
        where = tf.where(tf.equal(labels, labels))
        loose = tf.SparseTensor(where, tf.reshape(labels, [-1]), [6, 2])
        return [
            f(labels, scores, k, weights=w)
            for f in (m.precision_at_k, m.recall_at_k, m.average_precision_at_k)
            for k in (1, 3) for w in (None, weights)
        ] + [
            m.precision_at_k(labels, scores, 3, class_id=2), m.recall_at_k(labels, scores, 3, class_id=2),
            m.recall_at_k(loose, scores, 2), m.average_precision_at_k(loose, scores, 2),
            m.precision_at_top_k(labels, tf.nn.top_k(scores, 2)[1]), m.recall_at_k(labels[:, 0], scores, 2),
        ]  # fmt: skip

    return _over_batches(tf, build)


@program(tolerance=Tolerance(64, scaled=True))
def metrics_of_trade_offs(tf: Any) -> list[Any]:
    m = tf.metrics

    def build(scores: Any, labels: Any) -> list[Any]:
        truth, chance = labels[:, 0] > 2, scores[:, 0]
        return [
            f(truth, chance, rate, num_thresholds=n)
            for f in (m.sensitivity_at_specificity, m.specificity_at_sensitivity)
            for rate in (0.2, 0.7) for n in (20, 200)
        ]  # fmt: skip

    return _over_batches(tf, build)
