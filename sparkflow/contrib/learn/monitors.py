"""tf.contrib.learn.monitors: what looks at a training every so many steps, and may end it. Hooks came after them."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from sparkflow import train
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.summary.writer import FileWriter

_log = logging.getLogger("sparkflow")


class BaseMonitor:
    """Its methods are called in this order: begin, then for each step step_begin, step_end and post_step, then end."""

    def __init__(self) -> None:
        self._begun, self._estimator = False, None  # type: tuple[bool, Any]
        self._max_steps: int | None = None

    @property
    def run_on_all_workers(self) -> bool:
        return False

    def set_estimator(self, estimator: Any) -> None:
        """Whom it belongs to; called before begin."""
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        if self._begun:
            raise ValueError("begin called twice without end.")
        self._max_steps, self._begun = max_steps, True

    def end(self, session: Any = None) -> None:
        if not self._begun:
            raise ValueError("end called without begin.")
        self._max_steps, self._begun = None, False

    def epoch_begin(self, epoch: int) -> None:
        """Nobody calls it: an input_fn has no epochs."""

    def epoch_end(self, epoch: int) -> None:
        """As epoch_begin."""

    def step_begin(self, step: int) -> list[Any]:
        """The tensors, or their names, whose values it wants of this step."""
        return []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
        """output: by the tensors' names. Whether training ends here."""
        return False

    def post_step(self, step: int, session: Any) -> None:
        """After the step, with its session."""


class EveryN(BaseMonitor):
    """every_n_step_begin, _end and every_n_post_step are called of the first first_n_steps steps, of each every_n_steps
    after, and of the last."""

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1):
        super().__init__()
        self._every_n_steps, self._first_n_steps = every_n_steps, first_n_steps
        self._last_successful_step: int | None = None
        self._last_active_step, self._active = 0, False

    def every_n_step_begin(self, step: int) -> list[Any]:
        return []

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        return False

    def every_n_post_step(self, step: int, session: Any) -> None:
        pass

    def step_begin(self, step: int) -> list[Any]:
        super().step_begin(step)
        due = step >= self._every_n_steps + self._last_active_step
        self._active = step <= self._first_n_steps or due or step == self._max_steps
        return self.every_n_step_begin(step) if self._active else []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
        super().step_end(step, output)
        if not self._active:
            return False
        self._last_active_step = step
        return self.every_n_step_end(step, output)

    def post_step(self, step: int, session: Any) -> None:
        super().post_step(step, session)
        if self._active:
            self.every_n_post_step(step, session)
        self._last_successful_step = step

    def end(self, session: Any = None) -> None:
        super().end(session)
        if self._last_successful_step not in (None, self._last_active_step):
            self.every_n_post_step(self._last_successful_step, session)


class StopAtStep(BaseMonitor):
    """Ends the training after so many steps, or at a step of all; one of them is given."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None):
        super().__init__()
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    run_on_all_workers = True

    def step_begin(self, step: int) -> list[Any]:
        super().step_begin(step)
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps - 1
        return []

    def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
        super().step_end(step, output)
        assert self._last_step is not None
        return step >= self._last_step


class PrintTensor(EveryN):
    """Logs tensors. tensor_names: their names, or a dict of them by the tags to log them under."""

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        given = tensor_names if isinstance(tensor_names, Mapping) else {_name(t): t for t in tensor_names}
        self._names = {tag: _name(tensor) for tag, tensor in given.items()}

    def every_n_step_begin(self, step: int) -> list[Any]:
        return list(self._names.values())

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        found = (f"{tag} = {outputs[name]}" for tag, name in self._names.items())
        _log.info("Step %d: %s", step, ", ".join(found))
        return False


class LoggingTrainable(EveryN):
    """Logs the values of the trainable variables of a scope, or of all."""

    def __init__(self, scope: str | None = None, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        self._scope, self._names = scope, list[str]()

    def every_n_step_begin(self, step: int) -> list[Any]:
        variables = get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, self._scope)
        self._names = [v.name for v in variables]
        return self._names

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        found = (f"{name} = {outputs[name]}" for name in self._names)
        _log.info("Logging Trainable, step %d: %s", step, ", ".join(found))
        return False


class CaptureVariable(EveryN):
    """Keeps a variable's values, by step."""

    def __init__(self, var_name: Any, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        self._name = _name(var_name)
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [self._name]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        self.values[step] = outputs[self._name]
        return False


class NanLoss(EveryN):
    """Ends the training where the loss is nan: by NanLossDuringTrainingError, or quietly unless fail_on_nan_loss."""

    def __init__(self, loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True):
        super().__init__(every_n_steps)
        self._name, self._fails = _name(loss_tensor), fail_on_nan_loss

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [self._name]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        loss = outputs[self._name]
        if loss == loss:
            return False
        _log.error("Model diverged with loss = NaN at step %d.", step)
        if self._fails:
            raise train.NanLossDuringTrainingError
        return True


class SummarySaver(EveryN):
    """Writes a merged summary into output_dir, or by summary_writer."""

    def __init__(
        self, summary_op: Any, save_steps: int = 100, output_dir: str | None = None, summary_writer: Any = None,
        scaffold: Any = None,
    ):  # fmt: skip
        super().__init__(save_steps)
        self._op, self._scaffold = summary_op, scaffold
        self._writer: Any = summary_writer or (FileWriter(output_dir) if output_dir else None)

    def set_estimator(self, estimator: Any) -> None:
        super().set_estimator(estimator)
        self._writer = self._writer or FileWriter(estimator.model_dir)

    def every_n_step_begin(self, step: int) -> list[Any]:
        op = self._op if self._op is not None else getattr(self._scaffold, "summary_op", None)
        self._asked = None if op is None else _name(op)
        return [] if op is None else [op]

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        if self._asked is not None:
            self._writer.add_summary(outputs[self._asked], step)
        return False

    def end(self, session: Any = None) -> None:
        super().end(session)
        if self._writer is not None:
            self._writer.flush()


class ValidationMonitor(EveryN):
    """Evaluates the estimator on other rows, by each checkpoint that is new, and ends the training where a metric has
    not become better for early_stopping_rounds steps.

    x, y, input_fn, batch_size, metrics, name: as the estimator's evaluate takes them; eval_steps: of an evaluation.
    Checkpoints are written as its RunConfig says (save_checkpoints_steps), so it evaluates no more often than that.
    early_stopped, best_step, best_value and best_metrics say what came of it.
    """

    def __init__(
        self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
        eval_steps: int | None = None, every_n_steps: int = 100, metrics: Any = None, hooks: Any = None,
        early_stopping_rounds: int | None = None, early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True, name: str | None = None, check_interval_secs: float = 5,
    ):  # fmt: skip
        super().__init__(every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._arrays = {"x": x, "y": y, "batch_size": batch_size, "metrics": metrics}
        self._common = {"input_fn": input_fn, "steps": eval_steps, "hooks": hooks, "name": name}
        self._rounds, self._metric = early_stopping_rounds, early_stopping_metric
        self._minimize, self._interval_s = early_stopping_metric_minimize, check_interval_secs
        self._checked_at: float | None = None
        self._path: str | None = None
        self.early_stopped, self.best_step = False, None  # type: tuple[bool, Any]
        self.best_value: Any = None
        self.best_metrics: Any = None

    def _evaluated(self) -> dict[str, Any]:
        estimator: Any = self._estimator
        arrays = {key: value for key, value in self._arrays.items() if value is not None}
        if arrays and not hasattr(estimator, "fit"):
            raise ValueError(
                "tf.estimator.Estimator does not support following arguments: x, y, batch_size, metrics. Should set as "
                f"`None` in ValidationMonitor, got {sorted(arrays)}"
            )
        return dict(estimator.evaluate(**arrays, **self._common))

    def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
        super().every_n_step_end(step, outputs)
        if self._estimator is None:
            raise ValueError("ValidationMonitor: set_estimator first, or hand it to fit")
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at < self._interval_s:
            return False
        self._checked_at = now
        path = train.latest_checkpoint(self._estimator.model_dir)
        if path is None or path == self._path:
            return False  # nothing is saved that was not evaluated
        self._path = path
        found = self._evaluated()
        _log.info("Validation (step %d): %s", step, ", ".join(f"{k} = {v}" for k, v in sorted(found.items())))
        if self._rounds is None:
            return False
        if self._metric not in found:
            raise ValueError(f"Metric {self._metric} missing from outputs {sorted(found)}.")
        value = found[self._metric]
        if self.best_value is None or (value < self.best_value if self._minimize else value > self.best_value):
            self.best_value, self.best_metrics, self.best_step = value, found, step
        if step - self.best_step < self._rounds:
            return False
        _log.info("Stopping. Best step: %s with %s = %s.", self.best_step, self._metric, self.best_value)
        self.early_stopped = True
        return True


class RunHookAdapterForMonitors(train.SessionRunHook):
    """A hook that calls monitors."""

    def __init__(self, monitors: Iterable[BaseMonitor]):
        self._monitors = list(monitors)

    def begin(self) -> None:
        self._last_step: int | None = None
        self._step = train.get_global_step()
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: Any) -> Any:
        if self._last_step is None:
            self._last_step = int(run_context.session.run(self._step)) + 1
        graph, wanted = run_context.session.graph, {}
        for monitor in self._monitors:
            with graph.as_default():
                asked = monitor.step_begin(self._last_step) or []
            for one in asked if isinstance(asked, (list, tuple)) else [asked]:
                wanted[_name(one)] = graph.as_graph_element(_name(one) if isinstance(one, str) else one)
        return train.SessionRunArgs(wanted) if wanted else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = run_values.results or {}
        assert self._last_step is not None
        ends = [monitor.step_end(self._last_step, found) for monitor in self._monitors]
        if any(ends):
            run_context.request_stop()
        for monitor in self._monitors:
            monitor.post_step(self._last_step, run_context.session)
        self._last_step = int(run_context.session.run(self._step)) + 1

    def end(self, session: Any) -> None:
        self._last_step = None
        for monitor in self._monitors:
            named = inspect.signature(monitor.end).parameters
            monitor.end(**({"session": session} if "session" in named else {}))


def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Any) -> list[Any]:
    """Hooks as they are, and one that calls all monitors, which get the estimator. On workers other than the chief only
    those that run on all of them. Raises TypeError on what is neither."""
    given = monitors_or_hooks or []
    given = [given] if isinstance(given, (BaseMonitor, train.SessionRunHook)) else list(given)
    for one in given:
        if not isinstance(one, (BaseMonitor, train.SessionRunHook)):
            raise TypeError(f"monitors: expected monitors or SessionRunHooks, got {one!r}")
    hooks = [one for one in given if isinstance(one, train.SessionRunHook)]
    monitors = [one for one in given if isinstance(one, BaseMonitor)]
    if not estimator.config.is_chief:
        monitors = [one for one in monitors if one.run_on_all_workers]
    for monitor in monitors:
        monitor.set_estimator(estimator)
    return [*hooks, RunHookAdapterForMonitors(monitors)] if monitors else hooks


def get_default_monitors(
    loss_op: Any = None, summary_op: Any = None, save_summary_steps: int = 100, output_dir: str | None = None,
    summary_writer: Any = None,
) -> list[BaseMonitor]:  # fmt: skip
    """Of the loss and of the summary, where they are given."""
    found: list[BaseMonitor] = []
    if loss_op is not None:
        found.append(PrintTensor({"loss": loss_op.name}))
    if summary_op is not None:
        found.append(SummarySaver(summary_op, save_summary_steps, output_dir, summary_writer))
    return found


def _name(tensor: Any) -> str:
    """A tensor's or variable's, as step_end has it."""
    name = tensor if isinstance(tensor, str) else tensor.name
    return name if ":" in name or not isinstance(tensor, str) else f"{name}:0"


NanLossDuringTrainingError = train.NanLossDuringTrainingError
