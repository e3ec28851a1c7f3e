"""CheckpointManager: keeps the newest few checkpoints of a Checkpoint in a directory."""

from __future__ import annotations

import numbers
import os
import time
from collections.abc import Callable
from typing import Any

from sparkflow.train import checkpoint_state
from sparkflow.train.object_checkpoint import Checkpoint, _session
from sparkflow.train.saver import remove_checkpoint


class CheckpointManager:
    """Saves "<directory>/<checkpoint_name>-<number>" and removes older ones than max_to_keep (None: none), but for one
    every keep_checkpoint_every_n_hours. It goes on from what the directory's state file says.

    step_counter, checkpoint_interval: a variable, and by how much it must have grown since the last save for the next
    one to be made; last_checkpoint_step: what it was then. init_fn: called by restore_or_initialize where there is
    nothing to restore. Raises ValueError on a max_to_keep below 1.
    """

    def __init__(
        self, checkpoint: Checkpoint, directory: str, max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None, checkpoint_name: str = "ckpt", step_counter: Any = None,
        checkpoint_interval: int | None = None, init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ):  # fmt: skip
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._checkpoint, self._directory, self._max_to_keep = checkpoint, os.fspath(directory), max_to_keep
        self._every_hours, self._name, self._init_fn = keep_checkpoint_every_n_hours, checkpoint_name, init_fn
        self._step_counter, self._interval, self._last_step = step_counter, checkpoint_interval, last_checkpoint_step
        found = checkpoint_state.get_checkpoint_state(self._directory)
        paths = [] if found is None else list(found.all_model_checkpoint_paths)
        self._latest: str | None = None if found is None else found.model_checkpoint_path
        self._kept = {path: time.time() for path in paths if checkpoint_state.checkpoint_exists(path)}
        self._preserved = time.time()

    checkpoint = property(lambda self: self._checkpoint)
    directory = property(lambda self: self._directory)
    checkpoint_interval = property(lambda self: self._interval)

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the newest one, None where there is none."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes of those kept, the newest last."""
        return list(self._kept)

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None, session: Any = None
    ) -> str | None:
        """Save one; returns its prefix, or None where checkpoint_interval says that it is too early.

        checkpoint_number: a number, tensor or variable; by default one more than that of the last save.
        """
        running = _session(session)
        if self._step_counter is not None and self._interval is not None:
            step = int(running.run(self._step_counter))
            if check_interval and self._last_step is not None and step - self._last_step < self._interval:
                return None
            self._last_step = step
        counted = self._checkpoint._counted(running)
        number = counted if checkpoint_number is None else checkpoint_number
        number = int(number if isinstance(number, numbers.Integral) else running.run(number))
        path = self._checkpoint.write(os.path.join(self._directory, f"{self._name}-{number}"), running)
        self._record(path)
        return path

    def _record(self, path: str) -> None:
        self._kept.pop(path, None)
        self._kept[path] = time.time()
        self._latest = path
        gone = []
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            old, written = next(iter(self._kept.items()))
            del self._kept[old]
            if self._every_hours is not None and written - self._preserved >= self._every_hours * 3600:
                self._preserved = written
            else:
                gone.append(old)
        times = list(self._kept.values())
        checkpoint_state.update_checkpoint_state(
            self._directory, path, list(self._kept), None, times, self._preserved, save_relative_paths=True
        )
        for old in gone:
            remove_checkpoint(old)

    def restore_or_initialize(self, session: Any = None) -> str | None:
        """Restore the newest checkpoint and return its prefix; where there is none, call init_fn and return None."""
        if self._latest is not None:
            self._checkpoint.restore(self._latest).initialize_or_restore(session)
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None

    def sync(self) -> None:
        """Nothing is under way: saves are done when they return."""
