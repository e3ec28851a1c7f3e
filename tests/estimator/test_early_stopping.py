"""Hooks that stop a training by what its evaluations said."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.train.hooks import SecondOrStepTimer
from tests.train.test_sync_replicas import batch, build, servers, sgd

__all__ = ["servers"]

experimental = tf.estimator.experimental


def _estimator(folder: Path) -> Any:
    """Its loss, and a metric, are what the step says: 5, 4, 3, ... until `floor`."""

    def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
        step = tf.train.get_global_step()
        loss = tf.maximum(20.0 - tf.cast(step, tf.float32), params["floor"])
        gain = tf.metrics.mean(-loss)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=tf.assign_add(step, 1), eval_metric_ops={"gain": gain}
        )

    config = tf.estimator.RunConfig(save_checkpoints_steps=2)
    return tf.estimator.Estimator(model, str(folder), config, {"floor": 10.0})


def _trained(estimator: Any, hook: Any) -> int:
    def inputs() -> Any:
        return tf.data.Dataset.from_tensors(tf.zeros([1])).repeat()

    spec = tf.estimator.EvalSpec(inputs, steps=1, start_delay_secs=0, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(inputs, 60, [hook]), spec)
    return int(estimator.get_variable_value("global_step"))


EVERY = {"run_every_secs": None, "run_every_steps": 1}


def test_no_decrease(tmp_path: Path) -> None:
    """At step 10 the loss is 10, and stays so: the evaluation at 16 is 6 steps behind the best. The hook sees it in
    that step, as in TensorFlow, whose sessions save before hooks of the caller are asked."""
    estimator = _estimator(tmp_path)
    assert _trained(estimator, experimental.stop_if_no_decrease_hook(estimator, "loss", 6, **EVERY)) == 16
    history = experimental.read_eval_metrics(estimator.eval_dir())
    assert list(history) == [2, 4, 6, 8, 10, 12, 14, 16] and history[4]["loss"] == 16.0
    assert not any("signal_early_stopping" in name for name in estimator.get_variable_names())


def test_no_increase_counts_from_min_steps(tmp_path: Path) -> None:
    estimator = _estimator(tmp_path)
    hook = tf.contrib.estimator.stop_if_no_increase_hook(estimator, "gain", 6, min_steps=16, **EVERY)
    assert _trained(estimator, hook) == 22


@pytest.mark.parametrize(("kind", "metric", "threshold"), [("lower", "loss", 14.0), ("higher", "gain", -14.0)])
def test_a_threshold_is_crossed_not_touched(tmp_path: Path, kind: str, metric: str, threshold: float) -> None:
    """At step 6 the loss is 14."""
    estimator = _estimator(tmp_path)
    make = getattr(experimental, f"stop_if_{kind}_hook")
    assert _trained(estimator, make(estimator, metric, threshold, **EVERY)) == 8


def test_what_does_not_fit(tmp_path: Path) -> None:
    estimator = _estimator(tmp_path)
    with pytest.raises(ValueError, match="Only one of `run_every_secs` and `run_every_steps`"):
        experimental.stop_if_lower_hook(estimator, "loss", 1.0, run_every_steps=3)
    with pytest.raises(TypeError, match="`estimator` must have type"):
        experimental.make_early_stopping_hook(None, lambda: True)
    with pytest.raises(ValueError, match=r"no metric 'los'; it has \['gain', 'loss'"):
        _trained(estimator, experimental.stop_if_lower_hook(estimator, "los", 1.0, **EVERY))


def test_other_workers_are_told_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: Any) -> None:
    """The chief forgets what an earlier training was told, which a worker gives it time for."""
    monkeypatch.setattr(experimental._StopWhenToldHook, "_STALE_S", 0.1)
    hooks = []
    for job in ("chief", "worker"):
        cluster = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}}))
        estimator = tf.estimator.Estimator(lambda features: None, str(tmp_path), tf.estimator.RunConfig())
        hooks.append(experimental.make_early_stopping_hook(estimator, lambda: bool(said), None, 1))
    chief, worker = hooks
    said: list[int] = []
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    with tf.variable_scope("signal_early_stopping", reuse=tf.AUTO_REUSE):
        stop = tf.get_variable("STOP", [], tf.bool, tf.ones_initializer(), trainable=False)

    def steps(hook: Any) -> int:
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            session.run_step_fn(lambda step_context: step_context.session.run(stop.initializer))
            done = 0
            while not session.should_stop() and done < 3:
                session.run(step)
                done += 1
        return done

    assert steps(worker) == 1
    with tf.train.MonitoredSession(hooks=[chief]) as session:
        assert not session.run(stop)
        said.append(1)
        session.run(step)
        assert session.should_stop()


@pytest.mark.parametrize("num_tokens", [0, -1])
def test_replicas_that_wait_for_each_other_stop_at_one_step(servers: Any, num_tokens: int) -> None:
    """With two hooks, of which each has its reason one step after the other."""
    at = servers(ps=2, worker=2)
    steps: dict[int, int] = {}

    def work(rank: int) -> None:
        parts = build(rank, 2, sgd)
        with parts["graph"].as_default(), tf.device(tf.train.replica_device_setter(2)):
            hooks = [parts["optimizer"].make_session_run_hook(rank == 0, num_tokens)]
            for reason in (5, 6):
                asked = iter([False] * reason + [True] * 99)
                timer = SecondOrStepTimer(every_steps=1)
                chiefs = experimental._StopOnPredicateHook(lambda asked=asked: next(asked), timer, True)
                hooks.append(experimental._StopWhenToldHook() if rank else chiefs)
            last = tf.train.FinalOpsHook(parts["step"])
            master = at[f"worker{rank}"].target
            with tf.train.MonitoredTrainingSession(
                master, rank == 0, hooks=[*hooks, last], max_wait_secs=30
            ) as session:
                while not session.should_stop():
                    ids, x = batch(rank, 0)
                    session.run(parts["train"], {parts["ids"]: ids, parts["x"]: x})
            steps[rank] = int(last.final_ops_values)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(steps) == 2 and steps[0] == steps[1]
