"""train_and_evaluate: training that stops now and then to evaluate and export."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sparkflow.estimator.cluster import run_task
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.exporting import Exporter
from sparkflow.train.saving_hooks import CheckpointSaverListener


class TrainSpec(NamedTuple):
    """input_fn, hooks: as of Estimator.train; max_steps: when training ends, None for the end of the data."""

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Sequence[Any] = ()
    saving_listeners: Sequence[Any] = ()


class EvalSpec(NamedTuple):
    """input_fn, steps, name, hooks: as of Estimator.evaluate. exporters: one or several Exporters, called after it.

    throttle_secs: no evaluation so soon after the one before. start_delay_secs: of a task that only evaluates.
    """

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] = ()
    exporters: Any = ()
    start_delay_secs: float = 120
    throttle_secs: float = 600

    @property
    def all_exporters(self) -> list[Exporter]:
        given = self.exporters or ()
        return [given] if isinstance(given, Exporter) else list(given)


class _Evaluator(CheckpointSaverListener):
    """Evaluates new checkpoints, the first one of them too, but for those that come too soon after the evaluation
    before."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None):
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._last_s, self._step = -math.inf, -1
        self.result: Any = None
        self.exported: list[bytes | None] = []

    def begin(self) -> None:
        self._first = True

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        first, self._first = self._first, False  # the save at the start of training says nothing new
        if not first and time.monotonic() - self._last_s >= self._spec.throttle_secs:
            self.evaluate(global_step_value)
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        self.evaluate(global_step_value)

    def evaluate(self, step: int) -> None:
        if step == self._step:
            return
        spec, estimator = self._spec, self._estimator
        self._step, self._last_s = step, time.monotonic()
        path = estimator._checkpoint(None)
        self.result = estimator.evaluate(
            input_fn=spec.input_fn, steps=spec.steps, hooks=spec.hooks, checkpoint_path=path, name=spec.name
        )
        last = self._max_steps is not None and step >= self._max_steps
        self.exported = [
            exporter.export(
                estimator, os.path.join(estimator.model_dir, "export", exporter.name), path, self.result, last
            )
            for exporter in spec.all_exporters
        ]


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[Any, list[Any]]:
    """Train until train_spec.max_steps (or the end of the data), evaluate new checkpoints and export on the way.

    Evaluated is what the estimator's config saves, and the end. Returns the last evaluation's metrics and what each
    exporter wrote.

    Under a TF_CONFIG that names a cluster this process is one task of it: a parameter server, which serves until it is
    killed; the chief or a worker, which train without waiting for one another; or the evaluator, the only one that
    evaluates. Where the rows are in Spark or Dask, tf.spark and tf.dask train the same model_fn beside them.
    Raises TypeError on specs of another type.
    """
    for what, given, wanted in (
        ("estimator", estimator, Estimator), ("train_spec", train_spec, TrainSpec), ("eval_spec", eval_spec, EvalSpec)
    ):  # fmt: skip
        if not isinstance(given, wanted):
            raise TypeError(f"`{what}` must have type `tf.estimator.{wanted.__name__}`, given {type(given)}")
    evaluator, end = _Evaluator(estimator, eval_spec, train_spec.max_steps), train_spec.max_steps

    def run(listeners: Sequence[Any]) -> None:
        estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=end, saving_listeners=listeners)

    if estimator.config.cluster_spec:
        run_task(estimator, lambda: run(train_spec.saving_listeners), evaluator.evaluate, eval_spec, end)
    else:
        run([*train_spec.saving_listeners, evaluator])
    return evaluator.result, evaluator.exported
