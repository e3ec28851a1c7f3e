"""tf.contrib.learn's RunConfig: tf.estimator's, with settings of sessions among its arguments."""

from __future__ import annotations

import hashlib
from typing import Any

from sparkflow.estimator import run_config
from sparkflow.train.cluster_resolver import read_tf_config
from sparkflow_runtime.wire.protos import ConfigProto

_SAVE_S = 600


class RunConfig(run_config.RunConfig):
    """master, evaluation_master: sessions' targets, in place of those of the environment. num_cores (0: all),
    log_device_placement and gpu_memory_fraction are the sessions' where session_config is not given.

    environment: as TF_CONFIG has it, "local" by default. Raises what tf.estimator.RunConfig raises.
    """

    def __init__(
        self, master: str | None = None, num_cores: int = 0, log_device_placement: bool = False,
        gpu_memory_fraction: float = 1, tf_random_seed: int | None = None, save_summary_steps: int | None = 100,
        save_checkpoints_secs: float | None = _SAVE_S, save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5, keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100, protocol: str | None = None, evaluation_master: str = "",
        model_dir: str | None = None, session_config: Any = None, session_creation_timeout_secs: float = 7200,
    ):  # fmt: skip
        self.tf_config = ConfigProto(
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
        )
        self.tf_config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
        if save_checkpoints_steps is not None and save_checkpoints_secs == _SAVE_S:
            save_checkpoints_secs = None  # the default: steps were asked for
        changed = num_cores or log_device_placement or gpu_memory_fraction != 1
        super().__init__(
            model_dir, tf_random_seed, save_summary_steps, save_checkpoints_steps, save_checkpoints_secs,
            self.tf_config if session_config is None and changed else session_config, keep_checkpoint_max,
            keep_checkpoint_every_n_hours, log_step_count_steps, protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )  # fmt: skip
        self.master = self.master if master is None else master
        self.evaluation_master = evaluation_master or self.evaluation_master
        self.environment = read_tf_config().get("environment", "local")

    def uid(self, whitelist: list[str] | None = None) -> str:
        """Of its settings but those named, a name that another config of the same settings has too."""
        left = {"session_config", "tf_config", *(["model_dir"] if whitelist is None else whitelist)}
        settings = sorted((key, repr(value)) for key, value in vars(self).items() if key not in left)
        return hashlib.sha256(repr(settings).encode()).hexdigest()

    @staticmethod
    def get_task_id() -> int:
        """This process's, as TF_CONFIG has it; 0 by default."""
        return int((read_tf_config().get("task") or {}).get("index", 0))
