"""Waiting for the checkpoints that another program writes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from sparkflow.train.checkpoint_state import latest_checkpoint

_log = logging.getLogger("sparkflow")


def wait_for_new_checkpoint(
    checkpoint_dir: str, last_checkpoint: str | None = None, seconds_to_sleep: float = 1, timeout: float | None = None
) -> str | None:
    """The newest checkpoint once it is not last_checkpoint; None where that takes longer than timeout (seconds)."""
    _log.info("Waiting for new checkpoint at %s", checkpoint_dir)
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        path = latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            _log.info("Found new checkpoint at %s", path)
            return path
        if ends is not None and time.monotonic() + seconds_to_sleep > ends:
            return None
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(
    checkpoint_dir: str, min_interval_secs: float = 0, timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:  # fmt: skip
    """The newest checkpoint, again and again, each once, at least so many seconds apart.

    It ends when none came for `timeout` seconds, unless there is a timeout_fn and it says False.
    """
    path = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if new is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        due, path = time.monotonic() + min_interval_secs, new
        yield new
        time.sleep(max(0.0, due - time.monotonic()))
