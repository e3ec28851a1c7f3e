"""Whether a model's optimizer adds up gradients as its training says."""

from __future__ import annotations

import logging
from typing import Any

from sparkflow_connectors.job import ALL_REDUCE, Job
from sparkflow_runtime.wire.errors import InvalidArgumentError

_MEANS, _STATISTICS = ("CollectiveReduce", "CollectiveGather"), "statistics_all_reduce/"  # sums of gradients; others
_TOKENS = "sync_token_q"  # the queue of a SyncReplicasOptimizer

_log = logging.getLogger("sparkflow")


def check_sync(job: Job, graph: Any, spec: Any) -> None:
    """`sync` says how the workers count their steps: it must be what the model's optimizer does. Raises
    InvalidArgumentError where it is not, and where nobody would make the updates. Warns of one that may leave
    gradients out."""
    operations = graph.get_operations()
    if job.strategy == ALL_REDUCE:
        _check_means(job, operations)
        return
    aggregates = any(op.type.endswith("ConditionalAccumulator") for op in operations)
    if job.workers > 1 and job.sync and not aggregates:
        raise InvalidArgumentError(
            "sync=True (the default) needs a model that trains with tf.train.SyncReplicasOptimizer, and this one does "
            "not: wrap its optimizer, or pass sync=False"
        )
    if job.workers > 1 and not job.sync and aggregates:
        raise InvalidArgumentError("The model trains with tf.train.SyncReplicasOptimizer: pass sync=True, or drop it")
    if aggregates and not (spec.training_hooks or spec.training_chief_hooks):
        raise InvalidArgumentError(
            "The model trains with tf.train.SyncReplicasOptimizer and has no hook of it, without which nobody makes "
            "the updates: EstimatorSpec(..., training_hooks=[optimizer.make_session_run_hook(config.is_chief, "
            "num_tokens=0)])"
        )
    if job.sync:
        _warn_of_looseness(spec)


def _warn_of_looseness(spec: Any) -> None:
    """A checkpoint's ledger counts steps; it is what the variables have seen where each step is in its own update."""
    for hook in (*spec.training_hooks, *spec.training_chief_hooks):
        if why := getattr(hook, "looseness", ""):
            _log.warning(
                "The model's SyncReplicasOptimizer may leave gradients out, and after a restart rows may be used "
                "twice or not at all: %s. Each row is used once where the optimizer waits for all replicas and its "
                "hook has num_tokens=0",
                why,
            )


def _check_means(job: Job, operations: Any) -> None:
    # The trainer's own broadcasts of variables say nothing, nor do sums of batches' statistics.
    found = [op for op in operations if op.type.startswith(_MEANS) and _STATISTICS not in op.name]
    if job.workers > 1 and not found:
        raise InvalidArgumentError(
            "strategy='all_reduce' needs a model that trains with an optimizer of tf.train, whose gradients the "
            "workers add up, and this one does not: use one, or pass strategy='ps'"
        )
    if job.workers > 1 and any(_TOKENS in op.name for op in operations):
        raise InvalidArgumentError(
            "The model trains with tf.train.SyncReplicasOptimizer, which collects gradients on parameter servers, and "
            "with strategy='all_reduce' there is none: each worker would wait for the others' gradients for ever. Use "
            "the optimizer inside it alone, or pass strategy='ps'"
        )
