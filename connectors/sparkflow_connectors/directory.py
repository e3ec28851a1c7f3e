"""The checkpoint directory of a job: one training at a time, and no checkpoint that is overlooked."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from typing import TextIO

import sparkflow as tf
from sparkflow_runtime.wire.errors import DataLossError, FailedPreconditionError, InvalidArgumentError

_LOCK = ".training"

log = logging.getLogger("sparkflow")


def latest(directory: str) -> str | None:
    """The checkpoint to go on from; None where there is none at all.

    Raises FailedPreconditionError where there are checkpoints, but the `checkpoint` file names none of them: to begin
    anew would overwrite them.
    """
    found = tf.train.latest_checkpoint(directory)
    if found is None:
        there = glob.glob(glob.escape(directory) + "/*.index")
        held = sorted((os.path.basename(p).removesuffix(".index") for p in there), key=_numbered)
        if held:
            raise FailedPreconditionError(
                f"{directory} holds checkpoints ({', '.join(held)}), but its file 'checkpoint' is missing, damaged or "
                f"names another. Write 'model_checkpoint_path: \"{held[-1]}\"' into it, or give another checkpoint_dir"
            )
    return found


def instead(directory: str, error: DataLossError) -> DataLossError:
    """The error, and where it is of the checkpoint to go on from, how to go on from an older one."""
    damaged = tf.train.latest_checkpoint(directory)
    state = tf.train.get_checkpoint_state(directory)
    kept = [path for path in (state.all_model_checkpoint_paths if state else []) if path != damaged]
    older = [os.path.basename(path) for path in kept if tf.train.checkpoint_exists(path)]
    if damaged is None or damaged not in error.message or not older:
        return error
    told = f"{error.message}. To go on from {older[-1]}, which is older, write 'model_checkpoint_path: \"{older[-1]}\"'"
    return DataLossError(error.node_def, None, f"{told} into {os.path.join(directory, 'checkpoint')}")


def _numbered(name: str) -> tuple[int, str]:
    """The last is that of the largest global step."""
    step = name.rpartition("-")[2]
    return int(step) if step.isdecimal() else -1, name


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold the directory for this training, making it. The kernel lets it go when this process ends, however it ends.

    Raises FailedPreconditionError where another training holds it, InvalidArgumentError where it cannot be written.
    """
    made = not os.path.isdir(directory)
    path = os.path.join(directory, _LOCK)
    try:
        os.makedirs(directory, exist_ok=True)
        file = open(path, "a+")  # noqa: SIM115 (held over the yield)
    except OSError as error:
        raise InvalidArgumentError(f"checkpoint_dir {directory!r} cannot be written: {error.strerror}") from error
    try:
        _take(file, directory)
        yield
    except BaseException:
        _let_go(file, path)
        if made:  # nothing half-written: a directory that nobody used goes again
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        raise
    else:
        _let_go(file, path)


def _take(file: TextIO, directory: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "it does not say who it is"
        file.close()
        raise FailedPreconditionError(
            f"Another training writes to {directory} ({holder}). Wait for it, or give another checkpoint_dir"
        ) from None
    except OSError as error:  # a file system without locks
        log.warning("%s cannot be locked (%s): see to it that no other training writes to it", directory, error)
        return
    file.truncate(0)
    who = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    file.write(json.dumps(who))
    file.flush()


def _let_go(file: TextIO, path: str) -> None:
    if not file.closed:
        with contextlib.suppress(OSError):
            os.unlink(path)
        file.close()
