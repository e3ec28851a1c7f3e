"""Which rows the variables of a checkpoint have been trained on: it is saved with them, in the same commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import sparkflow as tf
from sparkflow_connectors import directory
from sparkflow_connectors.feeding import Mark, Start
from sparkflow_runtime.wire.errors import FailedPreconditionError

POSITION, MARKS = "sparkflow_job/position", "sparkflow_job/marks"


def saved_position(path: str | None) -> list[int] | None:
    """The ledger of a checkpoint, [workers, 5] as a flat list; None where there is no checkpoint.

    Of each worker: epoch, step, batch size, and the mark of its first pass. It says which rows the checkpoint's
    variables have been trained on: those before (epoch, step) in the order that `windows` defines, each once.
    """
    if path is None:
        return None
    table = np.concatenate([tf.train.load_variable(path, name) for name in (POSITION, MARKS)], 1)
    return [int(n) for n in table.ravel()]


def saved_epoch(checkpoint_dir: str) -> int:
    """How many epochs the last checkpoint has behind it. Raises as `check_ledger`."""
    path = directory.latest(checkpoint_dir)
    if path is None:
        return 0
    check_ledger(path, dict(tf.train.list_variables(path)))
    return int(tf.train.load_variable(path, POSITION)[:, 0].min())


def check_ledger(path: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raises FailedPreconditionError where the checkpoint, of variables of these shapes, is of no training of ours,
    such as one of TensorFlow's, or its ledger is not whole."""
    position, marks = (list(shapes.get(name, ())) for name in (POSITION, MARKS))
    if position[1:] != [3] or marks != [position[0], 2]:
        why = "`train` has not written it"
        if position:
            why = f"{POSITION} has shape {position} in it, and {MARKS} {marks or 'is missing'}"
        raise FailedPreconditionError(
            f"Checkpoint {path} does not say which rows it was trained on: {why}. Give another checkpoint_dir; a model "
            "function can begin with those variables by tf.train.init_from_checkpoint"
        )


def starts(saved: list[int] | None, workers: int, batch_size: int, begin_epoch: int = 0) -> list[Start]:
    """Where each worker goes on: at the very step, with as many workers and the same batches as before; otherwise at
    the beginning of the epoch that was under way. Not before `begin_epoch`."""
    if saved is None:
        return [Start(begin_epoch, 0)] * workers
    table = np.array(saved).reshape(-1, 5)
    epoch = int(table[:, 0].min())
    if epoch < begin_epoch or len(table) != workers or (table[:, 2] != batch_size).any():
        return [Start(max(epoch, begin_epoch), 0)] * workers
    return [Start(e, s, Mark(rows, crc) if s else None) for e, s, _, rows, crc in table.tolist()]


def begun_again(saved: list[int] | None, workers: int, batch_size: int, begin_epoch: int, epochs: int) -> str:
    """What was otherwise when the checkpoint was written, so that the epoch it is in begins again, with rows that its
    variables were trained on already; "" where none was under way, it goes on, or no more than `epochs` are wanted."""
    table = np.array(saved or [], np.int64).reshape(-1, 5)
    wanted = len(table) and begin_epoch <= int(table[:, 0].min()) < epochs
    under_way = wanted and bool(table[:, 1].any() or np.ptp(table[:, 0]))
    batches = sorted({*table[:, 2].tolist()})
    if not under_way or (len(table) == workers and batches == [batch_size]):
        return ""
    if len(table) != workers:
        return f"by {len(table)} workers, and there are {workers}"
    return f"with batches of {', '.join(map(str, batches))} rows, and batch_size is {batch_size}"
