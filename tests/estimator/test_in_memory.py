"""InMemoryEvaluatorHook: what it evaluates, and when."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def _model(features: Any, labels: Any, mode: str) -> Any:
    """Counts: w is the number of steps; evaluation says 10 times w."""
    w = tf.get_variable("w", initializer=0.0)
    step = tf.train.get_global_step()
    train = tf.group(w.assign_add(1.0), step.assign_add(1))
    found = {"tenfold": tf.metrics.mean(10 * w)}
    return tf.estimator.EstimatorSpec(mode, loss=w * 1.0, train_op=train, eval_metric_ops=found)


def _ones() -> Any:
    return {"x": tf.ones([2])}, tf.ones([2])


def test_it_evaluates_the_values_of_the_moment(tmp_path: Any) -> None:
    """At the start, every other step, and at the end once; no checkpoint is written for it."""
    config = tf.estimator.RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)
    estimator = tf.estimator.Estimator(_model, str(tmp_path), config)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, _ones, steps=1, name="now", every_n_iter=2)
    estimator.train(_ones, [hook], steps=5)
    found = tf.contrib.estimator.read_eval_metrics(estimator.eval_dir("now"))
    assert {step: values["tenfold"] for step, values in found.items()} == {0: 0, 2: 20, 4: 40, 5: 50}
    assert estimator.latest_checkpoint() is None


def test_it_is_of_one_task(tmp_path: Any, monkeypatch: Any) -> None:
    estimator = tf.estimator.Estimator(_model, str(tmp_path))
    with pytest.raises(ValueError, match="every_n_iter=0"):
        tf.contrib.estimator.InMemoryEvaluatorHook(estimator, _ones, every_n_iter=0)
    cluster = '{"chief": ["a:1"], "ps": ["b:1"]}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {cluster}, "task": {{"type": "chief", "index": 0}}}}')
    estimator = tf.estimator.Estimator(_model, str(tmp_path))
    with pytest.raises(ValueError, match="only single machine"):
        tf.contrib.estimator.InMemoryEvaluatorHook(estimator, _ones)
