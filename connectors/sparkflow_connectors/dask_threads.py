"""Whether a Dask cluster has a thread for each worker of a training, before the training begins.

A cluster that is made, or scaled, a moment before has fewer workers than it was asked for: these are waited for. How
many it was asked for, only the object that made it knows, which a client by an address has not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client

from sparkflow_connectors.dask_slots import RETURN_TIMEOUT_S, say_waiting, workers_now
from sparkflow_connectors.waiting import Patience
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError

UNASKED_TIMEOUT_S = 30.0  # where nobody here knows how many there will be
# A LocalCluster closes for good, and does not replace, a worker that is away 15 s after it was away before: as where it
# is restarted twice. Those that it is about to make are away for an instant.
_UNMADE_S = 10.0
_ASK_EVERY_S = 0.5
_OVER = ("closing", "closing_gracefully", "closed", "failed", "stopping", "stopped")  # none comes in their place
log = logging.getLogger("sparkflow")

_ENDED = (
    "Ctrl-C, or interrupting a notebook's kernel, ends the workers of a LocalCluster, as two restarts within 15 s may, "
    "and Dask starts no others: make a new cluster and Client. In another cluster, add workers"
)
_ADAPTIVE = (
    "With adaptive scaling a cluster has no more Dask workers than cluster.adapt(maximum=...) says: name as many as "
    "have these threads, or use fewer workers"
)


@contextmanager
def adapted(client: Client, workers: int) -> Iterator[None]:
    """While a training runs, have adaptive scaling leave as many Dask workers as have its threads, where its maximum
    allows so many: by itself it adds some for tasks that wait, and a training begins with all its workers or not at
    all."""
    cluster: Any = client.cluster
    adaptive = _adaptive(cluster)
    if adaptive is None:
        yield
        return
    before, needed = adaptive.minimum, -(-workers // _threads_of_each(client))
    if before < needed <= adaptive.maximum:
        log.info("asking Dask's adaptive scaling for %d workers, while this training runs", needed)
        adaptive.minimum = needed
    try:
        yield
    finally:
        adaptive.minimum = before


def _threads_of_each(client: Client) -> int:
    """Of a Dask worker that is there, or of those that the cluster makes; 1 where nobody says."""
    if there := [info["nthreads"] for info in workers_now(client).values()]:
        return max(min(there), 1)
    options = (getattr(client.cluster, "new_spec", None) or {}).get("options", {})
    return int(options.get("nthreads") or 1)


def await_threads(client: Client, workers: int, were_there: bool = False) -> None:
    """Return when there are so many. Raises InvalidArgumentError where the cluster will not have them,
    FailedPreconditionError where they do not come in time.

    were_there: in an attempt before, so that others may be about to come in their place.
    """
    patience, hopeless = Patience(), Patience()
    while True:
        there = workers_now(client)
        threads = sum(info["nthreads"] for info in there.values())
        if threads >= workers:
            return
        asked, made = _asked_for(client)
        none_comes = asked is not None and min(asked, made) <= len(there)
        lasts = hopeless.waited_s(f"{none_comes}") > _UNMADE_S and none_comes
        if lasts or (asked is not None and asked <= len(there) and not were_there):
            raise InvalidArgumentError(_too_few(client, workers, threads, "the Dask cluster has"))
        waited_s = patience.waited_s("workers")
        if waited_s > (UNASKED_TIMEOUT_S if asked is None and not were_there else RETURN_TIMEOUT_S):
            had = f"for {waited_s:.0f} s the Dask cluster has had"
            raise FailedPreconditionError(_too_few(client, workers, threads, had))
        say_waiting(patience, threads, workers)
        time.sleep(_ASK_EVERY_S)


def _asked_for(client: Client) -> tuple[int | None, int]:
    """How many workers the cluster is to have, without those that have ended for good, and how many it has made, or is
    about to. None where that is not known."""
    cluster: Any = client.cluster
    try:
        plan, made = cluster.plan, dict(cluster.workers)
    except AttributeError:  # there is no cluster here, or one of another kind
        return None, 0
    statuses = [getattr(worker, "status", None) for worker in made.values()]
    over = sum(getattr(status, "name", status) in _OVER for status in statuses)
    least = _least(cluster)
    if least > len(plan):  # it looks once a second, and asks for them then
        return least, least
    return len(plan) - over, len(made) - over


def _least(cluster: Any) -> int:
    """How many workers adaptive scaling always leaves."""
    return int(getattr(_adaptive(cluster), "minimum", 0))


def _adaptive(cluster: Any) -> Any:
    """What scales the cluster, if anything does."""
    adaptive = getattr(cluster, "_adaptive", None)
    return None if getattr(adaptive, "state", "running") == "stopped" else adaptive


def _too_few(client: Client, workers: int, threads: int, there: str) -> str:
    if _adaptive(client.cluster) is not None:
        advice = _ADAPTIVE
    elif threads:
        advice = "Use fewer workers, or add Dask workers"
    else:
        advice = _ENDED
    found = f"{threads} worker threads" if threads else "no worker now"
    return f"{workers} workers need {workers} task slots at once, and {there} {found}. {advice}"
