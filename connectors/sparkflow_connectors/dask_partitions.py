"""The partitions of a Dask DataFrame: computed, dealt to workers by their rows, named where one is refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd
from distributed import Client, Future

from sparkflow_connectors import launch
from sparkflow_connectors.dask_frames import Frame, of_frames
from sparkflow_connectors.dask_schema import said_of_partition
from sparkflow_connectors.schema import check_names, owners
from sparkflow_connectors.waiting import Patience
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnavailableError

_POLL_S = 0.05
_ANSWER_S = 60.0  # for a few numbers that are computed
_REASON_S = 4.0
_GROUP = 8  # partitions in a task
_STALLED_S = 3600.0
# Why Dask itself cancels futures. Restarting a cluster that many share is nobody's word on this training.
_LOSSES = ("scheduler-connection-lost", "scheduler-restart", "lost dependencies", "already forgotten")

log = logging.getLogger("sparkflow")


def computed(client: Client, ddf: Any, usable: Sequence[str], lost: Callable[[], dict[int, str]]) -> list[Future]:
    """The table's partitions, in order, in the cluster's memory.

    usable: the only workers to compute them on where others' threads are taken, maybe for hours; empty: any.
    lost: what is known of our workers that are lost.
    Raises what a partition raised, with its number; UnavailableError where one of our workers is lost meanwhile.
    """
    # Not persisted first: where Dask reads several small parquet files as one, what is persisted knows no partition of
    # its own keys (seen in 2026.8).
    parts = of_frames(ddf)
    futures: list[Future] = client.compute(parts, workers=list(usable) or None, allow_other_workers=False)
    for number in _wait(futures, lost, "computed %d of the table's %d partitions"):
        with in_partition(number):
            raise said_of_partition(failure(futures[number]), ddf.columns)
    return futures


def row_counts(
    client: Client, partitions: Sequence[Future], usable: Sequence[str], lost: Callable[[], dict[int, str]]
) -> list[int]:
    """Of how many rows each of the computed partitions is. Raises as `computed`."""
    groups = _groups(client, partitions)
    tasks = [
        client.submit(_lengths, [partitions[number] for number in numbers], **_beside(address, usable))
        for address, numbers in groups
    ]
    for failed in _wait(tasks, lost, "counted the rows of %d of %d groups of partitions"):
        raise failure(tasks[failed])
    counts = [0] * len(partitions)
    for (_, numbers), task in zip(groups, tasks, strict=True):
        try:
            found = task.result(_ANSWER_S)
        except (TimeoutError, CancelledError):
            raise UnavailableError(
                f"The Dask cluster does not say how many rows are in partition {numbers[0]}"
            ) from None
        for number, count in zip(numbers, found, strict=True):
            counts[number] = count
    return counts


def split(
    client: Client,
    partitions: Sequence[Future],
    usable: Sequence[str],
    lost: Callable[[], dict[int, str]],
    workers: int,
    partition_by: str,
    order_by: str | None,
) -> list[list[Future]]:
    """For each worker the futures of its own rows, which are lists of (number of the partition, Frame): no worker is
    sent, nor has memory for, what others train on. Raises as `computed`, and what `_owned` does."""
    groups = _groups(client, partitions)
    shares = [
        [
            client.submit(
                _owned, numbers, [partitions[number] for number in numbers], workers, rank, partition_by, order_by,
                **_beside(address, usable),
            )
            for address, numbers in groups
        ]
        for rank in range(workers)
    ]  # fmt: skip
    tasks = [task for share in shares for task in share]
    for failed in _wait(tasks, lost, "split %d of %d groups of partitions"):
        raise failure(tasks[failed])
    return shares


def _groups(client: Client, partitions: Sequence[Future]) -> list[tuple[str, list[int]]]:
    """(the worker that has them, some partitions' numbers). Tasks for what is done to each where it lies: one for each
    partition would take as long as to compute small ones, and one for all would have those in memory that are on
    disk."""
    holders, held = client.who_has(partitions), dict[str, list[int]]()
    for number, future in enumerate(partitions):
        held.setdefault(next(iter(holders.get(future.key, ())), ""), []).append(number)
    return [(at, of[i : i + _GROUP]) for at, of in held.items() for i in range(0, len(of), _GROUP)]


def _beside(address: str, usable: Sequence[str]) -> dict[str, Any]:
    """Where a task is to run, which is done anew in each attempt."""
    workers = [at for at in (address, *usable) if at]
    return {"workers": workers or None, "allow_other_workers": bool(workers) and not usable, "pure": False}


def _owned(
    numbers: Sequence[int], frames: Sequence[Frame], workers: int, rank: int, partition_by: str, order_by: str | None
) -> list[tuple[int, Frame]]:
    """The rows of these partitions that are one worker's. Raises InvalidArgumentError as `check_keys`."""
    found = []
    for number, frame in zip(numbers, frames, strict=True):
        with in_partition(number):
            check_keys(frame.pandas, partition_by, order_by)
            own = owners(frame.pandas[partition_by].to_numpy(), workers) == rank  # Arrow has no % in pandas
            found.append((number, frame if own.all() else Frame(frame.pandas[own])))
    return found


def check_keys(frame: pd.DataFrame, partition_by: str | None, order_by: str | None) -> None:
    """Raises InvalidArgumentError where a column that says whose or when a row is has a null, or is missing."""
    for what, name in (("partition_by", partition_by), ("order_by", order_by)):
        if name is None:
            continue
        check_names(frame.columns, [name])
        if (nulls := np.flatnonzero(frame[name].isna().to_numpy())).size:
            raise InvalidArgumentError(
                f"{what}: column {name!r} is null at row {nulls[0]} ({nulls.size} nulls). Drop or fill nulls before "
                "training"
            )


def _lengths(frames: list[Frame]) -> list[int]:
    return [len(frame.pandas) for frame in frames]


def _wait(futures: Sequence[Future], lost: Callable[[], dict[int, str]], done: str) -> list[int]:
    """For all of them, or until one has failed: the first one that did. done: what the cluster has done, in words."""
    patience = Patience(later=logging.INFO)  # to compute a table may take hours
    while True:
        for number, future in enumerate(futures):
            if future.status in ("error", "cancelled", "lost"):
                return [number]
        ready = sum(f.done() for f in futures)
        if ready == len(futures):
            return []
        for text in lost().values():
            raise UnavailableError(text)
        said = done % (ready, len(futures))
        if patience.waited_s(said) > _STALLED_S:
            raise UnavailableError(f"The Dask cluster {said} and then none in {_STALLED_S:g} s")
        patience.say("waiting for the table: Dask has %s", said)
        time.sleep(_POLL_S)


def failure(future: Future) -> BaseException:
    """Why a future has no result."""
    status = str(future.status)
    if status == "error" and (error := future.exception()) is not None:
        return error
    if status == "cancelled":
        reason = _why_cancelled(future)
        if reason not in _LOSSES:
            return launch.JobCancelled(
                f"A task of the training was cancelled in Dask ({future.key}: {reason}). "
                "Train again to go on from there"
            )
        status = reason
    return UnavailableError(f"Dask gave up {future.key} ({status})")


def _why_cancelled(future: Future) -> str:
    try:
        future.result(_REASON_S)
    except CancelledError as error:
        return str(getattr(error, "reason", "unknown"))
    return "unknown"


@contextmanager
def in_partition(number: int) -> Iterator[None]:
    """What is refused of a partition is said with its number, which Dask's `get_partition` takes."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"Partition {number} of the table: {error.message}") from error
    except (UnavailableError, launch.JobCancelled):
        raise
    except Exception as error:  # the user's own
        error.add_note(f"(in partition {number} of the table)")
        raise


def dealt(rows: Sequence[int], workers: int) -> list[range]:
    """Which partitions each worker takes: runs of about as many rows, none without rows while there are enough.

    rows: of each partition. The same for the same rows, whoever computed them.
    """
    filled = [number for number, count in enumerate(rows) if count]
    ends = [0, *accumulate(rows[number] for number in filled)]
    cuts = [0]  # in `filled`
    for left in range(workers - 1, 0, -1):
        first = cuts[-1]
        last = max(len(filled) - left, min(first + 1, len(filled)))  # leave one for each of the others, if there are
        target = ends[first] + (ends[-1] - ends[first]) / (left + 1)
        cuts.append(min(range(min(first + 1, last), last + 1), key=lambda cut: abs(ends[cut] - target)))
    starts = [0, *(filled[cut] if cut < len(filled) else len(rows) for cut in cuts[1:]), len(rows)]
    return [range(first, stop) for first, stop in pairwise(starts)]
