"""InMemoryEvaluatorHook: evaluate while training, by the values of the moment, with no checkpoint in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.ops.variables import global_variables
from sparkflow.train.hooks import SecondOrStepTimer, global_step_tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunHook


class InMemoryEvaluatorHook(SessionRunHook):
    """For Estimator.train: evaluates at the start, every every_n_iter steps and at the end. input_fn, steps, hooks,
    name: as of Estimator.evaluate, which writes what it finds as summaries.

    Raises ValueError where the estimator is one of several tasks.
    """

    def __init__(
        self, estimator: Estimator, input_fn: Callable[..., Any], steps: int | None = None, hooks: Any = None,
        name: str | None = None, every_n_iter: int = 100,
    ):  # fmt: skip
        if every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluator supports only single machine (aka Local) setting: with "
                f"{config.num_ps_replicas} parameter servers and {config.num_worker_replicas} workers, evaluate "
                "checkpoints with tf.estimator.train_and_evaluate"
            )
        self._estimator, self._input_fn, self._steps = estimator, input_fn, steps
        self._hooks, self._name = list(hooks or ()), name
        self._timer = SecondOrStepTimer(every_steps=every_n_iter)

    def begin(self) -> None:
        self._timer.reset()
        self._step = global_step_tensor(type(self).__name__)
        self._variables = {var.op.name: var for var in global_variables()}

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._evaluate(session)

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._timer.should_trigger_for_step(run_values.results):
            self._evaluate(run_context.session)

    def end(self, session: Any) -> None:
        if session.run(self._step) != self._timer.last_triggered_step():
            self._evaluate(session)

    def _evaluate(self, session: Any) -> None:
        values, step = session.run([self._variables, self._step])
        self._timer.update_last_triggered_step(step)
        hooks: Sequence[Any] = [_Load(values), *self._hooks]
        self._estimator.evaluate(self._input_fn, self._steps, hooks, name=self._name)


class _Load(SessionRunHook):
    """Gives the variables of an evaluation's graph the values of those of the same names."""

    def __init__(self, values: dict[str, Any]):
        self._values = values

    def after_create_session(self, session: Any, coord: Any) -> None:
        for var in global_variables():
            if var.op.name in self._values:
                var.load(self._values[var.op.name], session)
