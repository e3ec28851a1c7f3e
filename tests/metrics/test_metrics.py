"""Metrics over several batches, against what numpy or scikit-learn say of all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

import sparkflow as tf

RNG = np.random.default_rng(1)
P, Y = RNG.random((30, 2)).astype("f"), (RNG.random((30, 2)) > 0.4).astype("f")
W = RNG.random((30, 1)).astype("f")
A, B = RNG.integers(0, 3, 30), RNG.integers(0, 3, 30)
HARD = (P > 0.5).astype("f")
M = tf.metrics


def _mean(x: Any, w: Any) -> Any:
    return (x * w).sum() / w.sum()


def _confusion(label: int, prediction: int) -> Callable[[Any], Any]:
    return lambda w: (((label == Y) & (prediction == HARD)) * w).sum()


def _at(limits: list[float], other: int) -> Callable[[Any], Any]:
    def ratio(w: Any, t: float) -> Any:
        hits = ((Y == 1) & (t < P)) * w
        rest = ((Y == 0) & (t < P)) * w if other == 0 else ((Y == 1) & (t >= P)) * w
        return hits.sum() / (hits.sum() + rest.sum())

    return lambda w: np.array([ratio(w, t) for t in limits])


LIMITS = [0.2, 0.5, 0.9]
CASES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "mean": (lambda y, p, w: M.mean(p, w), lambda w: _mean(P, w)),
    "accuracy": (lambda y, p, w: M.accuracy(y, tf.round(p), w), lambda w: _mean(np.round(P) == Y, w)),
    "mean_absolute_error": (M.mean_absolute_error, lambda w: _mean(np.abs(P - Y), w)),
    "mean_squared_error": (M.mean_squared_error, lambda w: _mean((P - Y) ** 2, w)),
    "root_mean_squared_error": (M.root_mean_squared_error, lambda w: np.sqrt(_mean((P - Y) ** 2, w))),
    "percentage_below": (lambda y, p, w: M.percentage_below(p, 0.3, w), lambda w: _mean(P < 0.3, w)),
    "true_positives": (lambda y, p, w: M.true_positives(y, p > 0.5, w), _confusion(1, 1)),
    "false_positives": (lambda y, p, w: M.false_positives(y, p > 0.5, w), _confusion(0, 1)),
    "true_negatives": (lambda y, p, w: M.true_negatives(y, p > 0.5, w), _confusion(0, 0)),
    "false_negatives": (lambda y, p, w: M.false_negatives(y, p > 0.5, w), _confusion(1, 0)),
    "precision": (
        lambda y, p, w: M.precision(y, p > 0.5, w),
        lambda w: sk.precision_score(Y.ravel(), HARD.ravel(), sample_weight=w.ravel()),
    ),
    "recall": (
        lambda y, p, w: M.recall(y, p > 0.5, w),
        lambda w: sk.recall_score(Y.ravel(), HARD.ravel(), sample_weight=w.ravel()),
    ),
    "precision_at_thresholds": (lambda y, p, w: M.precision_at_thresholds(y, p, LIMITS, w), _at(LIMITS, 0)),
    "recall_at_thresholds": (lambda y, p, w: M.recall_at_thresholds(y, p, LIMITS, w), _at(LIMITS, 1)),
}


def _over_batches(build: Callable[..., Any], weighted: bool) -> tuple[Any, Any]:
    """(the last update, the value after it) over three batches."""
    y, p, w = (tf.placeholder(tf.float32, [None, n]) for n in (2, 2, 1))
    value, update = build(y, p, w if weighted else None)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for rows in np.split(np.arange(30), [7, 20]):
            last = session.run(update, {y: Y[rows], p: P[rows], w: W[rows]})
        return last, session.run(value)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values(graph: Any, name: str, weighted: bool) -> None:
    build, expected = CASES[name]
    weights = np.broadcast_to(W if weighted else np.ones((1, 1), "f"), P.shape)
    update, value = _over_batches(build, weighted)
    np.testing.assert_allclose(value, expected(weights), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(update, value, rtol=1e-6)


@pytest.mark.parametrize(
    ("curve", "method"), [("ROC", "trapezoidal"), ("PR", "careful_interpolation"), ("PR", "trapezoidal")]
)
def test_auc_is_near_the_exact_one(graph: Any, curve: str, method: str) -> None:
    """With 1,000 thresholds between 60 scores little is lost."""
    _, value = _over_batches(
        lambda y, p, w: M.auc(y, p, w, num_thresholds=1000, curve=curve, summation_method=method), False
    )
    exact = sk.roc_auc_score if curve == "ROC" else sk.average_precision_score
    assert value == pytest.approx(exact(Y.ravel(), P.ravel()), abs=0.01 if curve == "ROC" else 0.02)


def test_auc_refuses(graph: Any) -> None:
    with pytest.raises(ValueError, match="either ROC or PR"):
        M.auc(Y, P, curve="roc")
    with pytest.raises(ValueError, match="Invalid summation_method"):
        M.auc(Y, P, summation_method="simpson")


def test_per_class(graph: Any) -> None:
    found = [M.mean_per_class_accuracy(A, B, 3), M.mean_iou(A, B, 3), M.mean_tensor(P[:2])]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run([update for _, update in found])
        accuracy, iou, tensor = session.run([value for value, _ in found])
    matrix = sk.confusion_matrix(A, B)
    hits = np.diag(matrix)
    assert accuracy == pytest.approx((hits / matrix.sum(1)).mean())
    assert iou == pytest.approx((hits / (matrix.sum(0) + matrix.sum(1) - hits)).mean())
    np.testing.assert_allclose(tensor, P[:2], rtol=1e-6)


def test_a_confusion_matrix_counts_past_what_float32_holds(graph: Any) -> None:
    value, update = M.mean_iou([0, 1], [0, 1], 2)
    (matrix,) = tf.local_variables()
    with tf.Session() as session:
        session.run(matrix.assign([[2.0**24, 0], [0, 2.0**24]]))
        np.testing.assert_array_equal(session.run(update), np.eye(2) * (2**24 + 1))
        assert session.run(value) == 1 and value.dtype == tf.float32


def test_collections_and_variables(graph: Any) -> None:
    value, update = M.accuracy(A, B, metrics_collections=["m"], updates_collections=["u"], name="acc")
    assert tf.get_collection("m") == [value] and tf.get_collection("u") == [update]
    names = [v.op.name for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)]
    assert names == ["acc/total", "acc/count"] and tf.global_variables() == []
    M.accuracy(A, B, name="acc")
    assert [v.op.name for v in tf.local_variables()][2:] == ["acc_1/total", "acc_1/count"]
