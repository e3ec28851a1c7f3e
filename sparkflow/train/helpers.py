"""Smaller helpers of trainings: a loop over a Supervisor's session, and the age of checkpoints."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.train.supervisor import Supervisor
from sparkflow_runtime.wire.errors import AbortedError


def basic_train_loop(
    supervisor: Supervisor, train_step_fn: Callable[..., Any], args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None, master: str = "",
) -> None:  # fmt: skip
    """train_step_fn(session, *args, **kwargs) until the supervisor stops; after AbortedError in a new session."""
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except AbortedError:
            continue


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """When the checkpoints that are there were written, in seconds since 1970."""
    found = []
    for prefix in checkpoint_prefixes:
        files = sorted(glob.glob(glob.escape(prefix) + ".index")) or sorted(glob.glob(glob.escape(prefix) + "*"))
        if files:
            found.append(os.stat(files[0]).st_mtime)
    return found
