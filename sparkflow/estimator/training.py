"""train_and_evaluate: training that stops now and then to evaluate and export."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sparkflow.estimator.cluster import run_task
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.exporting import Exporter
from sparkflow.train.hooks import checked as checked_hooks
from sparkflow.train.saving_hooks import CheckpointSaverListener


class _TrainFields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Sequence[Any] = ()
    saving_listeners: Sequence[Any] = ()


class TrainSpec(_TrainFields):
    """input_fn, hooks: as of Estimator.train; max_steps: when training ends, None for the end of the data.

    Raises TypeError on an input_fn or hooks of another type, ValueError on max_steps below 1.
    """

    def __new__(
        cls, input_fn: Any, max_steps: Any = None, hooks: Any = None, saving_listeners: Any = None
    ) -> TrainSpec:
        _check_input_fn(input_fn)
        _check_above("max_steps", max_steps, 1)
        return super().__new__(cls, input_fn, max_steps, tuple(checked_hooks(hooks)), tuple(saving_listeners or ()))


class _EvalFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] = ()
    exporters: Any = ()
    start_delay_secs: float = 120
    throttle_secs: float = 600


class EvalSpec(_EvalFields):
    """input_fn, steps, name, hooks: as of Estimator.evaluate. exporters: one or several Exporters, called after it.

    throttle_secs: no evaluation so soon after the one before. start_delay_secs: of a task that only evaluates.
    Raises TypeError on an input_fn or hooks of another type, ValueError on steps below 1 or seconds below 0.
    """

    def __new__(
        cls, input_fn: Any, steps: Any = 100, name: Any = None, hooks: Any = None, exporters: Any = None,
        start_delay_secs: Any = 120, throttle_secs: Any = 600,
    ) -> EvalSpec:  # fmt: skip
        _check_input_fn(input_fn)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"EvalSpec: name must be a string, given: {name!r}")
        listed = [exporters] if isinstance(exporters, Exporter) else exporters or ()
        if not isinstance(listed, Iterable) or not all(isinstance(e, Exporter) for e in listed):
            raise TypeError(f"EvalSpec: exporters must be one or several Exporters, given: {exporters!r}")
        for what, given, least in (
            ("steps", steps, 1), ("start_delay_secs", start_delay_secs, 0), ("throttle_secs", throttle_secs, 0)
        ):  # fmt: skip
            _check_above(what, given, least)
        return super().__new__(
            cls, input_fn, steps, name, tuple(checked_hooks(hooks)), exporters or (), start_delay_secs, throttle_secs
        )

    @property
    def all_exporters(self) -> list[Exporter]:
        given = self.exporters or ()
        return [given] if isinstance(given, Exporter) else list(given)


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"input_fn must be callable, given: {input_fn!r}")


def _check_above(name: str, value: Any, least: int) -> None:
    if value is not None and value < least:
        raise ValueError(f"Must specify {name} >= {least}, given: {value!r}")


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
