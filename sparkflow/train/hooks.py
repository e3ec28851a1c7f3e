"""Hooks: stop, log, watch for NaN, wait, fetch at the end. Those that write files are in saving_hooks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from sparkflow.framework.graph import get_default_graph
from sparkflow.train import training_util
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

_log = logging.getLogger("sparkflow")


def _check_number(what: str, value: Any) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{what} is wanted, got {value!r}")


class SecondOrStepTimer:
    """Fires every so many seconds or steps, and at the first step it is asked about."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None):
        if (every_secs is None) == (every_steps is None):
            raise ValueError(f"Give exactly one of every_secs and every_steps, got {every_secs} and {every_steps}")
        _check_number("A number of seconds or steps", every_steps if every_secs is None else every_secs)
        self._every_secs, self._every_steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        if self._last_step is None:
            return True
        if step == self._last_step:
            return False
        if self._every_secs is not None:
            return time.monotonic() >= self._last_time + self._every_secs
        return step >= self._last_step + (self._every_steps or 0)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it fired; (seconds, steps) since the last time, None at the first."""
        now = time.monotonic()
        first = self._last_step is None
        passed = (None, None) if first else (now - self._last_time, step - (self._last_step or 0))
        self._last_time, self._last_step = now, step
        return passed

    def last_triggered_step(self) -> int | None:
        return self._last_step


def global_step_tensor(who: str) -> Any:
    """The graph's global step. Raises RuntimeError naming the hook that needs one."""
    found = training_util.get_global_step()
    if found is None:
        raise RuntimeError(
            f"{who} needs a global step: call tf.train.get_or_create_global_step() and pass it to minimize()"
        )
    return found


class StopAtStepHook(SessionRunHook):
    """Stops after num_steps more steps, or at global step last_step: exactly one of the two is given."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None):
        if (num_steps is None) == (last_step is None):
            raise ValueError(f"Give exactly one of num_steps and last_step, got {num_steps} and {last_step}")
        _check_number("StopAtStepHook: a number of steps", num_steps if last_step is None else last_step)
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        self._global_step = global_step_tensor("StopAtStepHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._last_step is None:
            self._last_step = int(session.run(self._global_step)) + (self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        # The step was read at an unknown moment of the run, so it may lack this run's own update: read it again when
        # that would decide. With synchronous replicas every worker then stops at the same step, and none waits for the
        # others.
        last = self._last_step or 0
        if run_values.results + 1 >= last and run_context.session.run(self._global_step) >= last:
            run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every n runs or seconds, or at the end only.

    tensors: tensors or their names, or a dict of name -> tensor. formatter: makes the line of a dict name -> value.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ):
        if (every_n_iter is not None and every_n_secs is not None) or not (every_n_iter or every_n_secs or at_end):
            raise ValueError("LoggingTensorHook: give every_n_iter or every_n_secs, not both, or at_end")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"LoggingTensorHook: every_n_iter must be positive, got {every_n_iter}")
        if not isinstance(tensors, Mapping):
            tensors = {t if isinstance(t, str) else t.name: t for t in tensors}
        self._tensors, self._formatter, self._at_end = dict(tensors), formatter, at_end
        self._timer = SecondOrStepTimer(every_n_secs, every_n_iter) if every_n_iter or every_n_secs else None

    def begin(self) -> None:
        graph = get_default_graph()
        self._found = {tag: graph.as_graph_element(t) for tag, t in self._tensors.items()}
        self._iter, self._due = 0, False
        if self._timer is not None:
            self._timer.reset()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._iter)
        return SessionRunArgs(self._found) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._due and self._timer is not None:
            self._write(run_values.results)
        self._iter += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._write(session.run(self._found))

    def _write(self, values: dict[str, Any]) -> None:
        passed = None if self._timer is None else self._timer.update_last_triggered_step(self._iter)[0]
        if self._formatter is not None:
            _log.info(self._formatter(values))
            return
        with np.printoptions(suppress=True):
            text = ", ".join(f"{tag} = {values[tag]}" for tag in self._tensors)
        _log.info(text if passed is None else f"{text} ({passed:.3f} sec)")


class NanLossDuringTrainingError(RuntimeError):
    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends training once the loss is NaN: by NanLossDuringTrainingError, or quietly if fail_on_nan_loss is False."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True):
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not np.isnan(run_values.results).any():
            return
        _log.error("Model diverged with loss = NaN.")
        if self._fail:
            raise NanLossDuringTrainingError
        run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Holds this worker's runs back until the global step has reached wait_until_step, to start workers one by one."""

    def __init__(self, wait_until_step: int):
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        self._global_step, self._open = global_step_tensor("GlobalStepWaiterHook"), False

    def before_run(self, run_context: SessionRunContext) -> None:
        while not self._open and self._wait_until_step > 0:
            self._open = bool(run_context.session.run(self._global_step) >= self._wait_until_step)
            if not self._open:
                time.sleep(0.1)


class FinalOpsHook(SessionRunHook):
    """Runs tensors once, at the end; `final_ops_values` then has what they gave."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None):
        self._final_ops, self._feed_dict = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Any) -> None:
        if self._final_ops is not None:
            self.final_ops_values = session.run(self._final_ops, feed_dict=self._feed_dict)


class FeedFnHook(SessionRunHook):
    """Feeds what feed_fn() returns, a dict of tensor -> value, into every run."""

    def __init__(self, feed_fn: Callable[[], Any]):
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


def checked(hooks: Sequence[Any] | None) -> list[SessionRunHook]:
    """The hooks as a list. Raises TypeError on anything that is none."""
    found = list(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"Hooks must be instances of SessionRunHook, got {hook!r}")
    return found
