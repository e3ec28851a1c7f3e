"""An Estimator's training in workers that have all variables each, and apply the mean of their gradients:
RunConfig(train_distribute=tf.distribute.experimental.MultiWorkerMirroredStrategy())."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from sparkflow import train
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.spec import ModeKeys
from sparkflow.framework.graph import get_default_graph
from sparkflow.session.server import Server
from sparkflow.session.session import Session
from sparkflow.train.cluster_resolver import CHIEFS
from sparkflow.train.distributed_optimizer import BroadcastGlobalVariablesHook
from sparkflow.train.strategies import MultiWorkerMirroredStrategy
from sparkflow.train.strategy import InputContext
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import ConfigProto

_TRAININGS = itertools.count()
_TOLD_CHARS = 300
_TRAINING = ("worker", *CHIEFS)


def number(config: RunConfig) -> int:
    """How many workers train together; 1 where each goes by itself. Raises InvalidArgumentError where the cluster has
    parameter servers too."""
    strategy = config.train_distribute
    if not isinstance(strategy, MultiWorkerMirroredStrategy) or config.task_type not in _TRAINING:
        return 1
    if config.num_ps_replicas:
        raise InvalidArgumentError(
            f"MultiWorkerMirroredStrategy trains without parameter servers, and TF_CONFIG's cluster has "
            f"{config.num_ps_replicas}: leave them out, or the strategy"
        )
    return strategy.num_replicas_in_sync


@contextmanager
def scope(config: RunConfig, target: str) -> Iterator[None]:
    """In which a training happens. target: of its sessions. Variables of workers that have all of them are dropped with
    its end: the server outlives it, and the next training's may have their names."""
    strategy = config.train_distribute
    with ExitStack() as stack:
        if strategy is not None:
            stack.enter_context(strategy.scope())
        if number(config) > 1:
            own = f"estimator_{next(_TRAININGS)}"
            here = ConfigProto(device_filters=[f"/job:{config.task_type}/task:{config.task_id}"])
            stack.callback(Session.reset, target, [own], here)
            stack.push(partial(_tell_end, config))
            stack.enter_context(get_default_graph().container(own))
        yield


def _tell_end(config: RunConfig, kind: type[BaseException] | None, error: Any, traceback: Any) -> None:
    """The other workers, who would wait for this one: they see no more of its error than that it has gone."""
    if kind is not None:
        text = str(error)
        if len(text) > 2 * _TOLD_CHARS:  # what a function of the program's raised is at the end
            text = f"{text[:_TOLD_CHARS]} ... {text[-_TOLD_CHARS:]}"
        server_of(config).tell_end(f"{kind.__name__}: {text}")


def target_of(config: RunConfig) -> str:
    """That of this task's server, which is begun if it was not; "" where the workers need none."""
    return server_of(config).target if number(config) > 1 else ""


def server_of(config: RunConfig) -> Server:
    """One for all estimators of a process that are the same task: its address can be bound once."""
    return Server.of_task(
        config.cluster_spec, config.task_type, config.task_id, protocol=config.protocol, config=config.session_config
    )


def input_context(config: RunConfig, mode: str) -> InputContext:
    """What an input function learns: which part of the rows is this worker's."""
    count = number(config) if mode == ModeKeys.TRAIN else 1
    return InputContext(count, config.global_id_in_cluster or 0 if count > 1 else 0, count)


def session(estimator: Any, scaffold: Any, hooks: list[Any], of_chief: list[Any]) -> Any:
    """Each worker initializes its own variables, then has the chief's, which alone reads and writes model_dir."""
    config = estimator.config
    first = BroadcastGlobalVariablesHook(config.is_chief, number(config))
    every = config.save_summary_steps if config.is_chief else None
    return train.MonitoredTrainingSession(
        estimator._target, True, estimator.model_dir if config.is_chief else None, scaffold, [first, *hooks],
        of_chief if config.is_chief else [], save_checkpoint_secs=None, save_checkpoint_steps=None,
        save_summaries_steps=every, config=estimator._session_config(),
        log_step_count_steps=config.log_step_count_steps,
    )  # fmt: skip
