"""MonitoredTrainingSession: the monitored session of one task of a training job, with the hooks that jobs want."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.train import hooks as train_hooks
from sparkflow.train.monitored_session import (
    ChiefSessionCreator,
    MonitoredSession,
    SessionCreator,
    WorkerSessionCreator,
)
from sparkflow.train.saving_hooks import CheckpointSaverHook, StepCounterHook, SummarySaverHook
from sparkflow.train.scaffold import Scaffold
from sparkflow.train.session_run_hook import SessionRunHook

USE_DEFAULT: Any = object()


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = USE_DEFAULT,
    save_summaries_steps: int | None = USE_DEFAULT,
    save_summaries_secs: float | None = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: int | None = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """The session of one task: the chief initializes, restores, saves and writes summaries; others wait for it.

    checkpoint_dir: where to save and restore; every 600 s unless save_checkpoint_secs or _steps say otherwise, never
    where both are None. Summaries: every 100 steps unless save_summaries_steps or _secs say otherwise, to summary_dir
    or checkpoint_dir. max_wait_secs: how long a worker waits for the chief.
    """
    scaffold = scaffold or Scaffold()
    if not is_chief:
        creator: SessionCreator = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(creator, hooks, stop_grace_period_secs)
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    all_hooks = list(chief_only_hooks or ())
    directory = summary_dir or checkpoint_dir
    if directory and log_step_count_steps:
        all_hooks.append(StepCounterHook(log_step_count_steps, output_dir=directory))
    steps, secs = _rate(save_summaries_steps, save_summaries_secs, 100, None)
    if directory and (steps or secs):
        all_hooks.append(SummarySaverHook(steps, secs, output_dir=directory, scaffold=scaffold))
    steps, secs = _rate(save_checkpoint_steps, save_checkpoint_secs, None, 600)
    if checkpoint_dir and (steps or secs):
        saving: Callable[..., CheckpointSaverHook] = CheckpointSaverHook
        all_hooks.append(saving(checkpoint_dir, secs, steps, scaffold=scaffold, save_graph_def=save_graph_def))
    # The caller's come last: one that fails loses no step that was to be saved, and at their end the last one is saved.
    # But what a NaN has spoiled is not saved.
    others = train_hooks.checked(hooks)
    watching = [hook for hook in others if isinstance(hook, train_hooks.NanTensorHook)]
    all_hooks = [*watching, *all_hooks, *(hook for hook in others if hook not in watching)]
    return MonitoredSession(creator, all_hooks, stop_grace_period_secs)


def _rate(
    steps: Any, secs: Any, default_steps: int | None, default_secs: int | None
) -> tuple[int | None, float | None]:
    """(steps, seconds) between two saves: what the caller set, the defaults where nothing was set."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default_steps, default_secs
    return (None if steps is USE_DEFAULT else steps), (None if secs is USE_DEFAULT else secs)
