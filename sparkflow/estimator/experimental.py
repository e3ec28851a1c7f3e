"""tf.estimator.experimental: hooks that stop a training by what its evaluations say, and parts of canned models."""

from __future__ import annotations

import glob
import operator
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sparkflow import logging
from sparkflow.estimator.canned import dnn
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.in_memory import InMemoryEvaluatorHook  # noqa: F401 - a name of this module
from sparkflow.estimator.kmeans import KMeansClustering
from sparkflow.estimator.rnn import RNNClassifier, RNNEstimator  # noqa: F401
from sparkflow.feature_column import linear_model
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.signatures import fn_args
from sparkflow.ops.init_ops import zeros_initializer
from sparkflow.ops.math import cast
from sparkflow.ops.state import assign
from sparkflow.ops.variable_scope import AUTO_REUSE, get_variable, variable_scope
from sparkflow.summary.reader import summary_iterator
from sparkflow.train.checkpoint_state import latest_checkpoint, load_variable
from sparkflow.train.hooks import SecondOrStepTimer, StopAtStepHook, global_step_tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunHook
from sparkflow.train.sync_agreement import is_synchronous
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError

KMeans = KMeansClustering
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


def make_stop_at_checkpoint_step_hook(
    estimator: Estimator, last_step: int, wait_after_file_check_secs: float = 30
) -> SessionRunHook:
    """Ends a training at that step; workers beside the chief when it is in a checkpoint, so that the chief can go on
    until then."""
    if estimator.config.is_chief:
        return StopAtStepHook(last_step=last_step)
    return _StopAtCheckpointStepHook(estimator.model_dir, last_step, wait_after_file_check_secs)


class _StopAtCheckpointStepHook(SessionRunHook):
    def __init__(self, model_dir: str, last_step: int, wait_s: float):
        self._dir, self._last, self._wait_s = model_dir, last_step, wait_s

    def begin(self) -> None:
        self._step = global_step_tensor("StopAtCheckpointStepHook")

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Steps go on, a wait after each, until the checkpoint is there."""
        if run_values.results + 1 < self._last:
            return
        path = latest_checkpoint(self._dir)
        if path is not None and int(load_variable(path, GraphKeys.GLOBAL_STEP)) >= self._last:
            run_context.request_stop()
        else:
            time.sleep(self._wait_s)


# ---------------------------------------------------------------------- logits for a head


def dnn_logit_fn_builder(
    units: int, hidden_units: Sequence[int], feature_columns: Any, activation_fn: Any, dropout: float | None,
    input_layer_partitioner: Any, batch_norm: bool,
) -> Callable[[Mapping[str, Any], str], Tensor]:  # fmt: skip
    """f(features, mode) -> logits [batch, units]: what a DNNEstimator computes, in the variable scope around."""
    if not isinstance(units, int):
        raise ValueError(f"units must be an int. Given type: {type(units)}")
    return dnn(units, hidden_units, feature_columns, activation_fn, dropout, input_layer_partitioner, batch_norm)


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[[Mapping[str, Any]], Tensor]:
    """f(features) -> logits [batch, units]: what a LinearEstimator computes, in the variable scope around."""

    def linear_logit_fn(features: Mapping[str, Any]) -> Tensor:
        return linear_model(features, feature_columns, units, sparse_combiner)

    return linear_logit_fn


def call_logit_fn(logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: Any) -> Any:
    """Its logits, a tensor or tensors by name; it is given those of features, mode, params and config that it names.

    Raises ValueError where it returns something else.
    """
    given = {"features": features, "mode": mode, "params": params, "config": config}
    found = logit_fn(**{name: value for name, value in given.items() if name in fn_args(logit_fn)})
    parts = found.values() if isinstance(found, Mapping) else [found]
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        raise ValueError(
            f"logit_fn should return a Tensor or a dictionary mapping strings to Tensors.  logit_fn returned: {found}"
        )
    return found
