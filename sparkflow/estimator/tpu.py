"""tf.estimator.tpu: the estimator of programs that can train on TPUs, here on what an Estimator trains on.

Sources: tensorflow_estimator/python/estimator/tpu (tpu_estimator.py, tpu_config.py) for what use_tpu=False does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sparkflow.estimator import run_config
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.framework.graph import Tensor
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook
from sparkflow_runtime.wire.errors import UnimplementedError

_RESERVED = ("batch_size", "context")
_CORES = (1, 2, 4, 8, 16, 32, 64, 128)


class InputPipelineConfig:
    """Where a TPU's input function runs."""

    PER_SHARD_V1, PER_HOST_V1, PER_HOST_V2, BROADCAST, SLICED = 1, 2, 3, 4, 5


class _TPUConfig(NamedTuple):
    iterations_per_loop: Any = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Sequence[Any] | None = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1
    experimental_allow_per_host_v2_parallel_get_next: bool = False
    experimental_feed_hook: Any = None


class TPUConfig(_TPUConfig):
    """What a TPU would be told; an estimator with use_tpu=False reads none of it. Raises ValueError as TPUs would."""

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUConfig:
        made = super().__new__(cls, *args, **kwargs)
        for name in ("num_shards", "initial_infeed_sleep_secs"):
            value = getattr(made, name)
            if value is not None and value < 1:
                raise ValueError(f"TPUConfig {name} must be positive, got {value}")
        if made.num_cores_per_replica not in (None, *_CORES):
            raise ValueError(f"TPUConfig num_cores_per_replica: {made.num_cores_per_replica} is none of {_CORES}")
        host = made.per_host_input_for_training
        if made.input_partition_dims is not None and host != InputPipelineConfig.PER_HOST_V2:
            raise ValueError(
                f"TPUConfig input_partition_dims goes with per_host_input_for_training=PER_HOST_V2, got {host!r}"
            )
        if not isinstance(host, bool):
            return made
        kinds = InputPipelineConfig.PER_HOST_V1, InputPipelineConfig.PER_SHARD_V1
        return made._replace(per_host_input_for_training=kinds[0] if host else kinds[1])


class RunConfig(run_config.RunConfig):
    """tf.estimator.RunConfig with what TPUs are told. cluster: a resolver, whose master() is the sessions' target."""

    def __init__(
        self, tpu_config: TPUConfig | None = None, evaluation_master: str | None = None, master: str | None = None,
        cluster: Any = None, **settings: Any,
    ):  # fmt: skip
        super().__init__(**settings)
        if master is not None and cluster is not None:
            raise ValueError("RunConfig: cluster says the master already; give only one of them")
        self.tpu_config, self.cluster = tpu_config or TPUConfig(), cluster
        if cluster is not None:
            self.cluster_spec = cluster.cluster_spec()
            master = cluster.master()
        if master is not None:
            self.master = master
        if evaluation_master is not None:
            self.evaluation_master = evaluation_master
        elif not self.evaluation_master and self.task_type != "evaluator":
            self.evaluation_master = self.master

    def replace(self, **settings: Any) -> Any:
        changed = {"tpu_config": settings.pop("tpu_config")} if "tpu_config" in settings else {}
        made = super().replace(**settings)
        vars(made).update(changed)
        return made


class _Spec(NamedTuple):
    mode: str
    predictions: Any = None
    loss: Tensor | None = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Callable[[], Any] | None = None
    host_call: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


class TPUEstimatorSpec(_Spec):
    """What a model function returns. eval_metrics, host_call: (function, its tensors as a list or dict); the first
    gives eval_metric_ops, the second tensors that every step runs. scaffold_fn: makes the Scaffold.

    Raises ValueError where they are no such pairs, TypeError where a hook is none.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUEstimatorSpec:
        made = super().__new__(cls, *args, **kwargs)
        for name in ("eval_metrics", "host_call"):
            _check_call(name, getattr(made, name))
        kinds = ("training_hooks", "evaluation_hooks", "prediction_hooks")
        hooks: dict[str, Any] = {kind: tuple(getattr(made, kind) or ()) for kind in kinds}
        for hook in sum(hooks.values(), ()):
            if not isinstance(hook, SessionRunHook):
                raise TypeError(f"TPUEstimatorSpec: {hook!r} is no SessionRunHook")
        return made._replace(**hooks)

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same without a TPU: its functions are called with their tensors."""
        hooks = () if self.host_call is None else (_EveryStep(_called(self.host_call)),)
        return EstimatorSpec(
            self.mode, self.predictions, self.loss, self.train_op,
            None if self.eval_metrics is None else _called(self.eval_metrics), self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None, training_hooks=self.training_hooks + hooks,
            evaluation_hooks=self.evaluation_hooks + hooks, prediction_hooks=self.prediction_hooks + hooks,
        )  # fmt: skip


def _check_call(name: str, call: Any) -> None:
    if call is None:
        return
    if not isinstance(call, (tuple, list)):
        raise ValueError(f"{name} is a pair (function, tensors), got {call!r}")
    if len(call) != 2:
        raise ValueError(f"{name} is a pair (function, tensors), got {len(call)} elements")
    if not callable(call[0]):
        raise TypeError(f"{name}: {call[0]!r} cannot be called")
    if not isinstance(call[1], (tuple, list, dict)):
        raise ValueError(f"{name}: its tensors are a list or dict, got {call[1]!r}")


def _called(call: Any) -> Any:
    function, tensors = call
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


class _EveryStep(SessionRunHook):
    """Runs a host call's tensors with every step."""

    def __init__(self, tensors: Any):
        self._tensors = tensors

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._tensors)


class TPUEstimator(Estimator):
    """An Estimator whose params have the mode's batch size as params["batch_size"], and False as params["use_tpu"].

    config: a tpu.RunConfig. use_tpu: False; there are no TPUs here. The other arguments that TPUs alone have
    (batch_axis, eval_on_tpu, export_to_tpu, ...) are taken and without effect.
    Raises UnimplementedError with use_tpu, ValueError on another config, or params with a reserved key.
    """

    def __init__(
        self, model_fn: Any = None, model_dir: str | None = None, config: RunConfig | None = None, params: Any = None,
        use_tpu: bool = True, train_batch_size: int | None = None, eval_batch_size: int | None = None,
        predict_batch_size: int | None = None, batch_axis: Any = None, eval_on_tpu: bool = True,
        export_to_tpu: bool = True, export_to_cpu: bool = True, warm_start_from: Any = None,
        embedding_config_spec: Any = None, export_saved_model_api_version: Any = None,
    ):  # fmt: skip
        if not isinstance(config, RunConfig):
            raise ValueError(f"TPUEstimator: config is a tpu.RunConfig, got {config!r}")
        reserved = [key for key in _RESERVED if params is not None and key in params]
        if reserved:
            raise ValueError(f"TPUEstimator sets {reserved} in params itself")
        if use_tpu:
            if train_batch_size is None:
                raise ValueError("TPUEstimator: a TPU needs train_batch_size")
            raise UnimplementedError("TPUEstimator: there are no TPUs here; pass use_tpu=False")
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size, ModeKeys.PREDICT: predict_batch_size,
        }  # fmt: skip
        self._exports = False

    def export_saved_model(self, *args: Any, **kwargs: Any) -> bytes:
        """Estimator's; model_fn's params have no batch size then."""
        self._exports = True
        try:
            return super().export_saved_model(*args, **kwargs)
        finally:
            self._exports = False

    def _params_of(self, mode: str) -> Any:
        params, size = self.params, self._batch_sizes[mode]
        if size is not None and not self._exports:
            _add(params, "batch_size", size)
        _add(params, "use_tpu", False)
        return params

    def _called_as(self, mode: str, spec: Any) -> EstimatorSpec:
        return super()._called_as(mode, spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec)


def _add(params: Any, key: str, value: Any) -> None:
    """Into a dict, or an HParams."""
    if not hasattr(params, "set_hparam"):
        params[key] = value
    elif key in params:
        params.set_hparam(key, value)
    else:
        params.add_hparam(key, value)
