"""train_and_evaluate in a cluster that TF_CONFIG describes: what the process of each task does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.replicas import server_of
from sparkflow.session.server import Server
from sparkflow.train.checkpoint_state import checkpoint_exists
from sparkflow.train.cluster_resolver import CHIEFS
from sparkflow_runtime.wire.errors import DataLossError, NotFoundError

_log = logging.getLogger("sparkflow")
_POLL_S = 1.0


def run_task(
    estimator: Estimator, train: Callable[[], Any], evaluate: Callable[[int], Any], spec: Any, end: Any
) -> None:
    """Parameter servers serve until they are killed, the chief and workers train, an evaluator evaluates.

    train: trains in this process. evaluate(step): of the newest checkpoint. spec: the EvalSpec; end: the last step.
    Raises ValueError on a task that is none of these.
    """
    kind = estimator.config.task_type
    if kind == "ps":
        _server(estimator).join()
    elif kind == "evaluator":
        time.sleep(spec.start_delay_secs)
        _evaluate_until(estimator, evaluate, spec.throttle_secs, end)
    elif kind == "worker" or kind in CHIEFS:
        estimator._target = estimator._target or _server(estimator).target
        train()
    else:
        raise ValueError(f"train_and_evaluate: TF_CONFIG's task type {kind!r} is no chief, worker, ps or evaluator")


def _server(estimator: Estimator) -> Server:
    config = estimator.config
    _log.info("Starting the server of /job:%s/task:%d of %s", config.task_type, config.task_id, config.cluster_spec)
    return server_of(config)


def _evaluate_until(estimator: Estimator, evaluate: Callable[[int], Any], throttle_s: float, end: int | None) -> None:
    """Each new checkpoint, not sooner than throttle_s after the evaluation before, until one has the last step.

    The chief keeps only so many: one that it deletes while this task is at it is left, for a newer one."""
    seen, step = None, -1
    while end is None or step < end:
        path = estimator.latest_checkpoint()
        if path is None or path == seen:
            time.sleep(_POLL_S)
            continue
        began = time.monotonic()
        seen, step = path, estimator._step()
        try:
            evaluate(step)
        except (ValueError, NotFoundError, DataLossError) as error:  # however far its reading had come
            if checkpoint_exists(path):
                raise
            _log.warning("%s was deleted before it was evaluated: %s", path, error)
            step = -1
            continue
        if end is None or step < end:
            time.sleep(max(0.0, throttle_s - (time.monotonic() - began)))
