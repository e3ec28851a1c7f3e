"""tf.contrib.learn's Experiment and learn_runner: an Estimator with its inputs, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.contrib.learn.fitting import Fits
from sparkflow.contrib.learn.model_fn import receiver_of
from sparkflow.contrib.learn.monitors import replace_monitors_with_hooks
from sparkflow.estimator import Estimator, EvalSpec, LatestExporter, TrainSpec, train_and_evaluate
from sparkflow.framework.signatures import fn_args
from sparkflow.train import Server

SCHEDULES = (
    "train",
    "train_and_evaluate",
    "continuous_train_and_eval",
    "evaluate",
    "local_run",
    "run_std_server",
    "test",
)


class Experiment:
    """train_steps: up to which step in all it trains, None for the end of the data. eval_steps: batches of an
    evaluation, None for all. eval_delay_secs, continuous_eval_throttle_secs: of evaluations, as EvalSpec has them.

    train_steps_per_iteration: of continuous_train_and_eval; a tenth of train_steps, at most 1000, by default.
    export_strategies: what make_export_strategy gave, or exporters of tf.estimator; one, several, or a function that
    returns them. eval_metrics: MetricSpecs, or functions of (predictions, labels), by name. The other arguments of
    TensorFlow's change nothing here. Raises ValueError on eval_metrics of an estimator of tf.estimator, whose metrics
    are the model function's.
    """

    def __init__(
        self, estimator: Estimator, train_input_fn: Callable[..., Any], eval_input_fn: Callable[..., Any],
        eval_metrics: Any = None, train_steps: int | None = None, eval_steps: int | None = 100,
        train_monitors: Sequence[Any] | None = None, eval_hooks: Sequence[Any] | None = None,
        local_eval_frequency: Any = None, eval_delay_secs: float = 120, continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None, delay_workers_by_global_step: bool = False,
        export_strategies: Any = None, train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False, saving_listeners: Sequence[Any] | None = None,
        check_interval_secs: float = 5,
    ):  # fmt: skip
        if not isinstance(estimator, Estimator):
            raise ValueError(f"`estimator` must be an Estimator, got {type(estimator).__name__}")
        if isinstance(estimator, Fits):
            estimator = estimator.with_metrics(eval_metrics)
        elif eval_metrics is not None:
            raise ValueError("`eval_metrics` must be `None`: use `eval_metric_ops` in `tf.estimator.EstimatorSpec`")
        self._estimator, self._train_input, self._eval_input = estimator, train_input_fn, eval_input_fn
        self._train_steps, self._eval_steps = train_steps, eval_steps
        self._train_hooks = replace_monitors_with_hooks(train_monitors, estimator)
        self._eval_hooks = list(eval_hooks or ())
        self._delay_s, self._throttle_s = eval_delay_secs, continuous_eval_throttle_secs
        self._listeners = list(saving_listeners or ())
        self._steps_at_once = train_steps_per_iteration or min(max((train_steps or 10_000) // 10, 1), 1000)
        self.reset_export_strategies(export_strategies)

    estimator = property(lambda self: self._estimator)
    train_steps = property(lambda self: self._train_steps)
    eval_steps = property(lambda self: self._eval_steps)

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        self._train_hooks.extend(additional_hooks)

    def reset_export_strategies(self, new_export_strategies: Any = None) -> list[Any]:
        """Others in their place; those of before."""
        before = getattr(self, "_exporters", [])
        given = new_export_strategies() if callable(new_export_strategies) else new_export_strategies
        self._exporters = list(given) if isinstance(given, (list, tuple)) else [given] if given is not None else []
        return before

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains without evaluating; of a cluster's task, its part of it."""
        return self._estimator.train(
            self._train_input, self._train_hooks, max_steps=self._train_steps, saving_listeners=self._listeners
        )

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Any:
        return self._estimator.evaluate(
            input_fn=self._eval_input, steps=self._eval_steps, hooks=self._eval_hooks, name=name
        )

    def train_and_evaluate(self) -> tuple[Any, list[Any]]:
        """(metrics, exports) of the last evaluation, as tf.estimator.train_and_evaluate; under TF_CONFIG it is this
        process's task that runs, whichever that is."""
        return train_and_evaluate(
            self._estimator, TrainSpec(self._train_input, self._train_steps, self._train_hooks, self._listeners),
            EvalSpec(self._eval_input, self._eval_steps, None, self._eval_hooks, self._exporters, self._delay_s,
                     self._throttle_s),
        )  # fmt: skip

    local_run = train_and_evaluate

    def continuous_train_and_eval(self, continuous_eval_predicate_fn: Any = None) -> tuple[Any, list[Any]]:
        """Trains and evaluates by turns, up to train_steps or the end of the data; (metrics, exports) of the last time.

        continuous_eval_predicate_fn: of the eval_results, and the checkpoint_path, if it asks for it: whether to go on;
        both are None before the first evaluation. Raises ValueError where it cannot be called.
        """
        goes_on = continuous_eval_predicate_fn
        if goes_on is not None and not callable(goes_on):
            raise ValueError(f"`continuous_eval_predicate_fn` must be a callable, or None, got {goes_on!r}")
        found, paths, path = None, [], self._estimator.latest_checkpoint()
        done = 0 if path is None else self._step()
        state: dict[str, Any] = {"eval_results": None, "checkpoint_path": None}
        while self._train_steps is None or done < self._train_steps:
            if goes_on is not None and not goes_on(**{k: v for k, v in state.items() if k in fn_args(goes_on)}):
                break
            upto = done + self._steps_at_once
            upto = upto if self._train_steps is None else min(upto, self._train_steps)
            self._estimator.train(
                self._train_input, self._train_hooks, max_steps=upto, saving_listeners=self._listeners
            )
            before, done = done, self._step()
            if done == before:
                break  # the data ended
            found = self.evaluate()
            paths = self._export(found, done == self._train_steps)
            state = {"eval_results": found, "checkpoint_path": self._estimator.latest_checkpoint()}
        return found, paths

    def _step(self) -> int:
        return int(self._estimator.get_variable_value("global_step"))

    def _export(self, found: Any, is_last: bool) -> list[Any]:
        folder = f"{self._estimator.model_dir}/export"
        path = self._estimator.latest_checkpoint()
        return [one.export(self._estimator, f"{folder}/{one.name}", path, found, is_last) for one in self._exporters]

    def run_std_server(self) -> None:
        """Be the cluster's parameter server, or worker for others' sessions, until it is killed. Raises ValueError
        where the config names no cluster."""
        config = self._estimator.config
        if not config.cluster_spec or not config.task_type:
            raise ValueError("Could not start server: RunConfig has no cluster_spec or task_type; set TF_CONFIG")
        Server(config.cluster_spec, config.task_type, config.task_id).join()

    def test(self) -> tuple[Any, list[Any]]:
        """One step, and one batch evaluated and exported."""
        self._estimator.train(self._train_input, self._train_hooks, steps=1, saving_listeners=self._listeners)
        found = self._estimator.evaluate(input_fn=self._eval_input, steps=1, hooks=self._eval_hooks, name="one_pass")
        return found, self._export(found, True)


def make_export_strategy(
    serving_input_fn: Callable[[], Any], default_output_alternative_key: str | None = None, assets_extra: Any = None,
    as_text: bool = False, exports_to_keep: int | None = 5, strip_default_attrs: bool | None = None,
) -> LatestExporter:  # fmt: skip
    """Exports to export/Servo after each evaluation. serving_input_fn: gives InputFnOps, or a ServingInputReceiver.
    default_output_alternative_key: as of export_savedmodel; its export raises ValueError for an estimator of
    tf.estimator, which has no such outputs."""
    made = _Strategy("Servo", receiver_of(serving_input_fn), assets_extra, as_text, exports_to_keep)
    made.default_output = default_output_alternative_key
    return made


class _Strategy(LatestExporter):
    default_output: str | None = None

    def export(self, estimator: Any, *arguments: Any, **named: Any) -> bytes | None:
        if self.default_output is not None:
            if not isinstance(estimator, Fits):
                key = f"default_output_alternative_key={self.default_output!r}"
                raise ValueError(f"{key} is for estimators of tf.contrib.learn, got {type(estimator).__name__}")
            estimator = estimator.with_default_output(self.default_output)
        return super().export(estimator, *arguments, **named)


def run(
    experiment_fn: Callable[..., Experiment], output_dir: str | None = None, schedule: str | None = None,
    run_config: Any = None, hparams: Any = None,
) -> Any:  # fmt: skip
    """Make the Experiment, by experiment_fn(run_config, hparams) or (of old) experiment_fn(output_dir), and call its
    method `schedule`: train_and_evaluate by default, which under TF_CONFIG does what the task is there for.

    Raises ValueError unless one of output_dir and run_config is given, and on a schedule that it has none of; TypeError
    where experiment_fn gives no Experiment.
    """
    if (output_dir is None) == (run_config is None):
        raise ValueError("Must set one of `output_dir` and `run_config`, and not both")
    if run_config is None and hparams is not None:
        raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`")
    if run_config is not None and not run_config.model_dir:
        raise ValueError("Must specify a model directory `model_dir` in `run_config`")
    made = experiment_fn(output_dir) if run_config is None else experiment_fn(run_config, hparams)
    if not isinstance(made, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment, got {type(made).__name__}")
    wanted = schedule or "train_and_evaluate"
    if wanted not in SCHEDULES:
        raise ValueError(f"Schedule references non-existent task {wanted}; there are {', '.join(SCHEDULES)}")
    return getattr(made, wanted)()
