"""tf.estimator.experimental: hooks that stop a training by what its evaluations say."""

from __future__ import annotations

import glob
import operator
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sparkflow import logging
from sparkflow.estimator.estimator import Estimator
from sparkflow.framework.graph import get_default_graph
from sparkflow.ops.init_ops import zeros_initializer
from sparkflow.ops.math import cast
from sparkflow.ops.state import assign
from sparkflow.ops.variable_scope import AUTO_REUSE, get_variable, variable_scope
from sparkflow.summary.reader import summary_iterator
from sparkflow.train.hooks import SecondOrStepTimer, global_step_tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunHook
from sparkflow.train.sync_agreement import is_synchronous
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError

_Compare = Callable[[float, float], bool]


def make_early_stopping_hook(
    estimator: Estimator,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops training when should_stop_fn() is true, which the chief asks every so many seconds or steps.

    Of several workers each stops: the chief tells them by a variable, `signal_early_stopping/STOP`. Raises TypeError
    where `estimator` is none, ValueError unless exactly one of run_every_secs and run_every_steps is given.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    if (run_every_secs is None) == (run_every_steps is None):
        raise ValueError(
            "Only one of `run_every_secs` and `run_every_steps` must be set, the other None; got "
            f"{run_every_secs} and {run_every_steps}"
        )
    shared = estimator.config.num_worker_replicas > 1
    if not estimator.config.is_chief:
        return _StopWhenToldHook()
    return _StopOnPredicateHook(should_stop_fn, SecondOrStepTimer(run_every_secs, run_every_steps), shared)


def stop_if_higher_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops when an evaluation at min_steps or later found more than `threshold`. eval_dir: of its events, by default
    `estimator.eval_dir()`. The others as of make_early_stopping_hook."""
    crossed = _crossed(operator.gt, estimator, metric_name, threshold, eval_dir, min_steps)
    return make_early_stopping_hook(estimator, crossed, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Estimator,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops when an evaluation found less than `threshold`; otherwise as stop_if_higher_hook."""
    crossed = _crossed(operator.lt, estimator, metric_name, threshold, eval_dir, min_steps)
    return make_early_stopping_hook(estimator, crossed, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops when no evaluation of the last so many steps found more than the best before; otherwise as
    stop_if_higher_hook."""
    stands = _stands_still(operator.gt, estimator, metric_name, max_steps_without_increase, eval_dir, min_steps)
    return make_early_stopping_hook(estimator, stands, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops when no evaluation of the last so many steps found less than the best before; otherwise as
    stop_if_higher_hook."""
    stands = _stands_still(operator.lt, estimator, metric_name, max_steps_without_decrease, eval_dir, min_steps)
    return make_early_stopping_hook(estimator, stands, run_every_secs, run_every_steps)


def read_eval_metrics(eval_dir: str) -> OrderedDict[int, dict[str, float]]:
    """Of each evaluation that wrote events there, by its global step: what it found, by name. Empty where there is
    none."""
    found: dict[int, dict[str, float]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(eval_dir), "*.tfevents.*"))):
        with suppress(DataLossError):  # the evaluator may be writing its last record
            for event in summary_iterator(path):
                values = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
                if values:
                    found.setdefault(event.step, {}).update(values)
    return OrderedDict(sorted(found.items()))


def _history(estimator: Estimator, name: str, eval_dir: str | None, min_steps: int) -> list[tuple[int, float]]:
    """Raises ValueError where an evaluation has no such metric."""
    history = []
    for step, metrics in read_eval_metrics(eval_dir or estimator.eval_dir()).items():
        if step >= min_steps:
            if name not in metrics:
                raise ValueError(f"The evaluation at step {step} has no metric {name!r}; it has {sorted(metrics)}")
            history.append((step, metrics[name]))
    return history


def _crossed(
    better: _Compare, estimator: Estimator, name: str, threshold: float, eval_dir: str | None, min_steps: int
) -> Callable[[], bool]:
    def should_stop() -> bool:
        for step, value in _history(estimator, name, eval_dir, min_steps):
            if better(value, threshold):
                logging.info("At step %d %s is %s, beyond %s: requesting early stopping", step, name, value, threshold)
                return True
        return False

    return should_stop


def _stands_still(
    better: _Compare, estimator: Estimator, name: str, max_steps: int, eval_dir: str | None, min_steps: int
) -> Callable[[], bool]:
    def should_stop() -> bool:
        best: tuple[int, float] | None = None
        for step, value in _history(estimator, name, eval_dir, min_steps):
            if best is None or better(value, best[1]):
                best = step, value
            if step - best[0] >= max_steps:
                logging.info("At step %d %s is no better than %s of step %d: requesting early stopping", step, name,
                             best[1], best[0])  # fmt: skip
                return True
        return False

    return should_stop


def _stop_variable() -> Any:
    with variable_scope("signal_early_stopping", reuse=AUTO_REUSE):
        return get_variable("STOP", [], dtypes.bool_, zeros_initializer(), trainable=False)


class _LastStep:
    """Replicas that wait for each other stop after one step, or some would wait for gradients that nobody sends. The
    chief names one ahead: each replica hears of it in time, as it cannot be two steps ahead of the chief."""

    _AHEAD = 3

    def __init__(self, step: Any, stop: Any):
        self._step, self._stop, self._last = step, stop, 0
        with variable_scope("signal_early_stopping", reuse=AUTO_REUSE), get_default_graph().colocate_with(stop.op):
            variable = get_variable("LAST_STEP", [], dtypes.int64, zeros_initializer(), trainable=False, collections=[])
            self._variable, self._named = variable, assign(variable, cast(step, dtypes.int64) + self._AHEAD)

    def name(self, session: Any) -> None:
        said = session.run(self._stop)  # by another hook of the chief
        self._last = int(session.run(self._variable if said else self._named))

    def hear(self, session: Any) -> None:
        self._last = int(session.run(self._variable))

    def is_over(self, session: Any) -> bool:
        return int(session.run(self._step)) >= self._last


class _StopOnPredicateHook(SessionRunHook):
    """shared: other workers look at the variable; without them there is none, and checkpoints are as without the
    hook."""

    _last: _LastStep | None = None

    def __init__(self, should_stop: Callable[[], bool], timer: SecondOrStepTimer, shared: bool):
        self._should_stop, self._timer, self._shared = should_stop, timer, shared

    def begin(self) -> None:
        self._step = global_step_tensor("make_early_stopping_hook")
        self._timer.reset()
        if self._shared:
            variable = _stop_variable()
            self._stop, self._go = assign(variable, True).op, assign(variable, False).op
            self._last = _LastStep(self._step, variable) if is_synchronous(get_default_graph()) else None

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._said = False
        if self._shared:  # the checkpoint may be of a training that was stopped
            session.run(self._go)

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step, session = int(run_values.results), run_context.session
        if self._said and self._last is not None:
            if self._last.is_over(session):
                run_context.request_stop()
            return
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop():
            self._said = True
            if self._last is not None:
                self._last.name(session)
            else:
                run_context.request_stop()
            if self._shared:
                session.run(self._stop)


class _StopWhenToldHook(SessionRunHook):
    """Of the workers that are not the chief."""

    _STALE_S = 30.0  # for how long the chief may leave that of an earlier training to stand

    def begin(self) -> None:
        self._stop = _stop_variable()
        step = global_step_tensor("make_early_stopping_hook")
        self._last = _LastStep(step, self._stop) if is_synchronous(get_default_graph()) else None

    def after_create_session(self, session: Any, coord: Any) -> None:
        deadline = time.monotonic() + self._STALE_S
        while session.run(self._stop) and time.monotonic() < deadline:
            time.sleep(0.1)

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._stop)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not run_values.results:
            return
        if self._last is not None:
            self._last.hear(run_context.session)
        if self._last is None or self._last.is_over(run_context.session):
            logging.info("Early stopping was requested by the chief")
            run_context.request_stop()
