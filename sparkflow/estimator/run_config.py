"""RunConfig: how a model is trained and where, the latter from TF_CONFIG."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from numbers import Integral
from typing import Any

from google.protobuf.message import Message

from sparkflow.framework.graph import Operation
from sparkflow.train.cluster_resolver import CHIEFS, read_tf_config
from sparkflow.train.strategy import Strategy
from sparkflow_runtime.wire.cluster import SCHEMES, ClusterSpec
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import ConfigProto

_DEFAULT_SAVE_S = 600
_USE_DEFAULT: Any = object()


class RunConfig:
    """tf.estimator.RunConfig: settings of a training, and its task of the cluster as TF_CONFIG has it.

    task_type, task_id, cluster_spec, num_ps_replicas, num_worker_replicas (the chief is one), is_chief, master (the
    target of this task's sessions, "" without a cluster) and evaluation_master come from the environment. A cluster
    without a chief's job has worker 0 for its chief. save_checkpoints_secs and _steps: not both.
    train_distribute: a tf.distribute strategy: MultiWorkerMirroredStrategy trains without parameter servers.
    eval_distribute has no effect: whoever evaluates does so alone.
    Raises ValueError where a setting is out of its range or the cluster has two chiefs, InvalidArgumentError where
    TF_CONFIG cannot be read.
    """

    master: str
    evaluation_master: str

    def __init__(
        self,
        model_dir: str | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _USE_DEFAULT,
        save_checkpoints_secs: float | None = _USE_DEFAULT,
        session_config: ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[[Operation], str] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
    ):
        given = experimental_distribute
        self.train_distribute = train_distribute or getattr(given, "train_distribute", None)
        self.eval_distribute = eval_distribute or getattr(given, "eval_distribute", None)
        _check_strategies(self.train_distribute, self.eval_distribute, getattr(given, "remote_cluster", None))
        secs, steps = save_checkpoints_secs, save_checkpoints_steps
        if secs is _USE_DEFAULT:
            secs = _DEFAULT_SAVE_S if steps is _USE_DEFAULT else None
        steps = None if steps is _USE_DEFAULT else steps
        if steps is not None and secs is not None:
            raise ValueError("RunConfig: give save_checkpoints_steps or save_checkpoints_secs, not both")
        if device_fn is not None and not callable(device_fn):
            raise TypeError(f"RunConfig: device_fn must be a function of an operation, got {device_fn!r}")
        _check_kinds({"model_dir": model_dir, "tf_random_seed": tf_random_seed, "session_config": session_config})
        _check_counts({"save_checkpoints_steps": steps, "save_checkpoints_secs": secs,
                       "save_summary_steps": save_summary_steps, "log_step_count_steps": log_step_count_steps,
                       "keep_checkpoint_max": keep_checkpoint_max,
                       "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours})  # fmt: skip
        self.model_dir, self.tf_random_seed = model_dir, 1 if tf_random_seed is None else tf_random_seed
        self.save_summary_steps, self.log_step_count_steps = save_summary_steps, log_step_count_steps
        self.save_checkpoints_steps, self.save_checkpoints_secs = steps, secs
        self.session_config, self.device_fn, self.protocol = session_config, device_fn, protocol
        self.keep_checkpoint_max, self.keep_checkpoint_every_n_hours = (
            keep_checkpoint_max,
            keep_checkpoint_every_n_hours,
        )
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self._read_environment()

    def _read_environment(self) -> None:
        fields = read_tf_config()
        task, cluster = fields.get("task") or {}, ClusterSpec(fields.get("cluster") or {})
        self.service: Any = fields.get("service")
        self.of_task(cluster, str(task.get("type") or "worker"), int(task.get("index", 0)), fields.get("rpc_layer"))
        if self.task_type != "evaluator":  # it has a session of its own
            if "session_master" in fields:
                self.master = fields["session_master"]
            self.evaluation_master = fields.get("eval_session_master", "")
        if self.model_dir is None:
            self.model_dir = fields.get("model_dir")

    def of_task(self, cluster: Any, task_type: str, task_id: int, rpc_layer: str | None = None) -> RunConfig:
        """Itself, as that task of that cluster."""
        spec = self.cluster_spec = ClusterSpec(cluster)
        self.task_type, self.task_id = task_type, task_id
        chiefs = [job for job in CHIEFS if job in spec.jobs]
        if sum(map(spec.num_tasks, chiefs)) > 1:
            there = {job: spec.job_tasks(job) for job in chiefs}
            raise ValueError(f"RunConfig: a cluster has one chief, which initializes and saves; got {there}")
        self.is_chief = task_type in CHIEFS or (not chiefs and task_type == "worker" and task_id == 0)
        self.num_ps_replicas = spec.num_tasks("ps") if "ps" in spec.jobs else 0
        self.num_worker_replicas = sum(spec.num_tasks(job) for job in ("worker", *chiefs) if job in spec.jobs) or 1
        self.master = self.evaluation_master = ""
        if spec and task_type in spec.jobs:
            self.master = f"{rpc_layer or SCHEMES[0]}://{spec.task_address(task_type, task_id)}"
        self.global_id_in_cluster = self._global_id(chiefs)
        return self

    def _global_id(self, chiefs: list[str]) -> int | None:
        """The chief is 0, then workers, then parameter servers; None of an evaluator."""
        before = 0
        for job in (*chiefs, "worker", "ps"):
            if job == self.task_type:
                return before + self.task_id
            before += self.cluster_spec.num_tasks(job) if job in self.cluster_spec.jobs else 0
        return None

    def replace(self, **settings: Any) -> RunConfig:
        """A copy with other settings. Raises ValueError on one that it does not have, or that the environment gives."""
        unknown = sorted(set(settings) - _REPLACEABLE)
        if unknown:
            raise ValueError(f"RunConfig.replace: {', '.join(unknown)} cannot be replaced, only {sorted(_REPLACEABLE)}")
        _check_kinds(settings)
        _check_counts(settings)
        made = copy.copy(self)
        vars(made).update(settings)
        if {"save_checkpoints_secs", "save_checkpoints_steps"} <= {k for k, v in settings.items() if v is not None}:
            raise ValueError("RunConfig: give save_checkpoints_steps or save_checkpoints_secs, not both")
        if settings.get("save_checkpoints_secs") is not None:
            made.save_checkpoints_steps = None
        if settings.get("save_checkpoints_steps") is not None:
            made.save_checkpoints_secs = None
        return made


def _check_counts(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name.startswith(("save_", "keep_", "log_")) and value is not None:
            most = name == "keep_checkpoint_every_n_hours"
            if value < 0 or (most and value == 0):
                raise ValueError(f"RunConfig: {name} must be {'above 0' if most else '0 or more'}, got {value!r}")


_KINDS: dict[str, tuple[Any, str]] = {
    "model_dir": ((str, bytes, os.PathLike), "a path"),
    "tf_random_seed": (Integral, "an integer"),
    "session_config": (Message, "a ConfigProto"),
}


def _check_kinds(settings: dict[str, Any]) -> None:
    for name, (kind, words) in _KINDS.items():
        value = settings.get(name)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"RunConfig: {name} must be {words}, got {value!r}")


def _check_strategies(train: Any, evaluate: Any, remote_cluster: Any) -> None:
    for name, given in (("train_distribute", train), ("eval_distribute", evaluate)):
        if given is not None and not isinstance(given, Strategy):
            raise TypeError(f"RunConfig: {name} must be a tf.distribute.Strategy, got {given!r}")
    if remote_cluster is not None:
        raise UnimplementedError(
            "RunConfig: remote_cluster is not supported: start train_and_evaluate under TF_CONFIG in each task instead"
        )


_REPLACEABLE = {
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
    "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps", "device_fn",
    "protocol", "session_creation_timeout_secs", "train_distribute", "eval_distribute",
}  # fmt: skip
