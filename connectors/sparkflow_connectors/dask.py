"""Dask: the roles of a job as pinned tasks, each hosting its worker in a child process.

The child keeps the Dask worker's own threads free for its heartbeat, and cannot be starved by other tasks' GIL.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
from distributed import Client, Future, default_client, get_worker

from sparkflow_connectors import launch
from sparkflow_connectors.columns import Column
from sparkflow_connectors.dask_frames import Frame
from sparkflow_connectors.dask_gather import Gather
from sparkflow_connectors.dask_partitions import (
    check_keys,
    computed,
    dealt,
    failure,
    in_partition,
    row_counts,
    split,
)
from sparkflow_connectors.dask_schema import arrow_schema, check_frame, check_values, strings_told
from sparkflow_connectors.dask_slots import (
    Liveness,
    Slots,
    ThreadQueue,
    check_open,
    is_closed,
    scheduler_of,
    silence_s,
    within,
    workers_now,
)
from sparkflow_connectors.dask_tfrecord import damaged_records, read_tfrecord, to_tfrecord
from sparkflow_connectors.dask_threads import adapted, await_threads
from sparkflow_connectors.job import Job, job_of
from sparkflow_connectors.layout import Piece
from sparkflow_connectors.local import as_table, with_predictions
from sparkflow_connectors.model import Model
from sparkflow_connectors.processes import Child
from sparkflow_connectors.rows import frame_pieces, with_types
from sparkflow_connectors.saved import load_model
from sparkflow_connectors.schema import check_names, check_partitioning, resolve, unsortable
from sparkflow_connectors.unshipped import not_in_dask
from sparkflow_connectors.variable_tables import VALUE, Rows, tables_of, write
from sparkflow_connectors.worker_process import run_child
from sparkflow_runtime.transport.addresses import in_url, towards
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnavailableError

_POLL_S = 0.05
_LOOK_EVERY_S = 1.0
_CANCEL_S = 4.0
_CHILDREN_S = 2.0
_CHILDREN: dict[str, list[Child]] = {}  # run id -> the children that roles in this Dask worker host
_OVER: deque[str] = deque(maxlen=1000)  # run ids whose children were ended here: a late one has no place any more

log = logging.getLogger("sparkflow")


def train(
    ddf: Any,
    model_fn: Any,
    *,
    label: str | None,
    features: Sequence[str] | Mapping[str, Any] | None = None,
    checkpoint_dir: str,
    partition_by: str | None = None,
    order_by: str | None = None,
    client: Client | None = None,
    **options: Any,
) -> Model:
    """Train on the workers of a Dask cluster.

    ddf: a Dask DataFrame. partition_by: an integer column that says which worker trains a row (modulo the number of
    workers); without it each takes a run of partitions, of about as many rows. order_by: a column that orders a
    worker's rows. client: the cluster's (the default one). options: the fields of Job.
    """
    schema = arrow_schema(ddf)
    with strings_told(ddf):
        columns = resolve(schema, features, label)
        job = job_of(model_fn, columns, checkpoint_dir, options)
    if not isinstance(client, Client | None):
        raise InvalidArgumentError(f"client must be a distributed.Client, got {client!r}; Client(address) makes one")
    if partition_by is not None:
        check_partitioning(schema, partition_by, None)
    if order_by is not None and order_by not in schema.names:
        raise InvalidArgumentError(f"order_by: column {order_by!r} is missing; the table has {', '.join(schema.names)}")
    needed = list(dict.fromkeys([*columns.read, *(c for c in (partition_by, order_by) if c is not None)]))
    client = client or default_client()
    with adapted(client, job.workers):
        return launch.train(DaskEngine(client, ddf[needed], partition_by, order_by), job)


class DaskEngine:
    """Runs every role on a Dask worker of its own slot (a thread of a worker process)."""

    name = "dask"

    def __init__(self, client: Client, ddf: Any, partition_by: str | None, order_by: str | None):
        self._client, self._ddf = client, ddf
        self._partition_by, self._order_by = partition_by, order_by
        self._slots = Slots(client)

    def driver_host(self) -> str:
        """The interface from which this process reaches the scheduler."""
        address = urlsplit(scheduler_of(self._client).address)
        if address.hostname in (None, "localhost", "127.0.0.1"):
            return "127.0.0.1"
        return towards(address.hostname)

    def check(self, job: Job) -> None:
        await_threads(self._client, job.workers)

    def start(self, job: Job) -> DaskRun:
        """Claim the threads first: a table computed before might wait without a word behind another training."""
        silent_s = silence_s(job.keepalive_s, len(workers_now(self._client)))
        who = f"the training into {job.checkpoint_dir}"
        await_threads(self._client, job.workers, were_there=True)
        try:
            slots = self._slots.take(job.run_id, job.workers, who, silent_s)
            watch = _Watch(self._client, slots.addresses, silent_s)
            shares = self._shares(job, slots.usable, watch)
            return DaskRun(self._client, job, self._slots, watch, shares, self._order_by)
        except BaseException:
            within(_CANCEL_S, lambda: self._slots.release(job.run_id))
            raise

    def _shares(self, job: Job, usable: Sequence[str], watch: _Watch) -> list[_Share]:
        partitions = computed(self._client, self._ddf, usable, watch.lost)
        given = self._client, partitions, usable, watch.lost
        if self._partition_by is not None:
            return [_Share(None, own) for own in split(*given, job.workers, self._partition_by, self._order_by)]
        runs = dealt(row_counts(*given), job.workers) if job.workers > 1 else [range(len(partitions))]
        return [_Share(run, partitions[run.start : run.stop]) for run in runs]


class _Share(NamedTuple):
    """What a worker trains on. numbers: of the partitions, each of which is a future; None: the futures tell them."""

    numbers: range | None
    futures: list[Future]


class _Watch:
    """Looks after the Dask workers of an attempt, once a second at the most."""

    def __init__(self, client: Client, addresses: Sequence[str], silent_s: float):
        self.addresses = list(addresses)  # of each rank
        self._client, self._liveness = client, Liveness(addresses, silent_s)
        self._next_s, self._lost = 0.0, dict[str, str]()

    def lost(self) -> dict[int, str]:
        """What is known of each rank whose worker is lost."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._lost = self._liveness.look(workers_now(self._client), now_s)
            self._next_s = now_s + _LOOK_EVERY_S
        return {
            rank: f"The Dask worker {address} of worker {rank} {self._lost[address]}"
            for rank, address in enumerate(self.addresses)
            if address in self._lost
        }


class DaskRun:
    """The pinned tasks of one attempt."""

    def __init__(
        self,
        client: Client,
        job: Job,
        slots: Slots,
        watch: _Watch,
        shares: Sequence[_Share],
        order_by: str | None,
    ):
        self._client, self._job, self._slots, self._watch = client, job, slots, watch
        self._futures, self._queue = [], ThreadQueue(client)
        for rank, (address, share) in enumerate(zip(watch.addresses, shares, strict=True)):
            pinned = {"workers": [address], "allow_other_workers": False, "pure": False, "retries": 0}
            self._futures.append(client.submit(_host_role, job, rank, *share, order_by, **pinned))

    def ended(self) -> bool:
        for future in self._futures:
            if future.status in ("error", "cancelled", "lost"):
                check_open(self._client)
                error = failure(future)
                raise not_in_dask(error) or error
        running = {rank for rank, future in enumerate(self._futures) if not future.done()}
        lost = {rank: text for rank, text in self._watch.lost().items() if rank in running}
        if lost and len(running) == len(self._futures):
            # Their futures stay pending for ever: the nanny's new worker has another address.
            raise UnavailableError("; ".join(lost.values()))
        if not running <= set(lost):
            return False
        for text in lost.values():  # a role ends well when all have told the driver their results, and not before
            log.warning("%s, after the training: the end of its task is not waited for", text)
        return True

    def unheard(self, heard: Collection[int]) -> None:
        """Other trainings do not claim these threads, and other tasks may run on them."""
        waiting = {rank: at for rank, at in enumerate(self._watch.addresses) if rank not in heard}
        self._queue.look(waiting, {future.key for future in self._futures})

    def cancel(self) -> None:
        """Dask does not stop a running task: end the children, which ends the tasks that host them.

        Bounded: after Ctrl-C the Dask workers may be gone too, and a call to them would wait for ever.
        """
        if is_closed(self._client):
            return  # it holds no threads any more, and the roles end by their broken line to the driver
        try:
            if not within(_CANCEL_S, self._end):
                log.warning("Dask did not answer within %g s; roles end by their broken line to the driver", _CANCEL_S)
        finally:
            within(_CANCEL_S, lambda: self._slots.release(self._job.run_id))

    def _end(self) -> None:
        running = [f for f in self._futures if not f.done()]
        if running:
            self._client.cancel(running, force=True)
            alive = workers_now(self._client)
            addresses = [a for a in dict.fromkeys(self._watch.addresses) if a in alive]
            if addresses:
                self._client.run(_end_children, self._job.run_id, workers=addresses, on_error="ignore")


def _host_role(job: Job, rank: int, numbers: range | None, parts: list[Any], order_by: str | None) -> dict[str, Any]:
    """In the task's thread: this worker's rows, then its child. numbers, parts: a _Share, whose futures are Frames or
    what `split` makes."""
    pairs = zip(numbers, parts, strict=True) if numbers is not None else chain.from_iterable(parts)
    rows = _pieces(job, {number: part.pandas for number, part in sorted(pairs, key=itemgetter(0))}, order_by)
    host = in_url(urlsplit(get_worker().address).hostname or "127.0.0.1")
    mine: list[Child] = []

    def started(child: Child) -> None:
        mine.append(child)
        _host(job.run_id, child)

    try:
        gather = Gather(job, rank, lambda: mine[0])
        return run_child(job, rows, rank, host, gather, started, lambda: job.run_id in _OVER)
    finally:
        left = [c for c in _CHILDREN.pop(job.run_id, []) if c not in mine]
        if left:  # another role of this run on the same Dask worker
            _CHILDREN[job.run_id] = left


def _host(run_id: str, child: Child) -> None:
    _CHILDREN.setdefault(run_id, []).append(child)
    if run_id in _OVER:
        child.kill()


def _pieces(job: Job, frames: dict[int, pd.DataFrame], order_by: str | None) -> Iterator[Piece]:
    """This worker's rows: those of its partitions as they are, or all in their order."""
    for number, frame in frames.items():
        with in_partition(number):  # joined, those that lack a column would have nulls
            check_names(frame.columns, job.columns.read)
            check_keys(frame, None, order_by)
            if order_by is None:
                yield from frame_pieces([frame], job)
    if order_by is not None and frames:
        yield from frame_pieces([_ordered(list(frames.values()), order_by)], job)


def _ordered(frames: list[pd.DataFrame], order_by: str) -> pd.DataFrame:
    frame = pd.concat(frames, ignore_index=True) if len(frames) != 1 else frames[0]
    try:
        return frame.sort_values(order_by, kind="stable")
    except (TypeError, ValueError, pa.ArrowNotImplementedError):
        raise unsortable(order_by, frame[order_by].dtype) from None


async def _end_children(run_id: str) -> None:
    """On a Dask worker's event loop: kill the children, stopped ones too, and wait until their tasks have ended."""
    _OVER.append(run_id)
    for child in list(_CHILDREN.get(run_id, [])):
        await asyncio.to_thread(child.kill)
    deadline = time.monotonic() + _CHILDREN_S
    while run_id in _CHILDREN and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)


def transform(model: Model, ddf: Any) -> Any:
    """The Dask DataFrame with its predictions, scored partition by partition. Those that are lists are objects there;
    which lists, only the types that Dask is told say, and parquet files ask.

    The objects are not in Arrow's form themselves: of such lists Dask cannot shuffle any, nor read what it has written
    (pandas 2.3 does not know the names of its own types of lists).
    """
    check_frame(ddf)
    model.check_names(ddf.columns)
    schema = arrow_schema(ddf, list(model.columns.sources))
    with strings_told(ddf):
        model.columns_of(with_types(schema.empty_table(), model.columns).schema)
    fields = model.output_fields()
    meta = ddf._meta.assign(**{f.name: pd.Series(dtype=f.type.to_pandas_dtype()) for f in fields})
    scored = ddf.map_partitions(partial(_scored, model, list(ddf.columns)), meta=meta)
    lists = {f.name: pd.Series(dtype=pd.ArrowDtype(f.type)) for f in fields if pa.types.is_list(f.type)}
    return scored.map_partitions(_as_it_is, meta=meta.assign(**lists), enforce_metadata=False) if lists else scored


def _scored(model: Model, names: list[str], part: Any, partition_info: Any = None) -> pd.DataFrame:
    """partition_info: which partition it is, as Dask says by that name where it knows."""
    with in_partition(partition_info["number"]) if partition_info else nullcontext():
        frame = Frame(part).pandas
        check_names(frame.columns, names)
        if more := [name for name in frame.columns if name not in set(names)]:
            raise InvalidArgumentError(f"Column {more[0]!r} is in no other one. Make all partitions alike")
        return with_predictions(model, frame if list(frame.columns) == names else frame[names])


def _as_it_is(part: pd.DataFrame) -> pd.DataFrame:
    return part


def variable_table(checkpoint: Any, name: str, partitions: int = 8) -> Any:
    """The variable as a Dask DataFrame, see variable_tables.py; every Dask worker must see the checkpoint."""
    rows = Rows(checkpoint, name)
    cuts = np.linspace(0, rows.shape[0], max(1, min(partitions, rows.shape[0])) + 1).astype(int).tolist()
    meta = rows.schema.empty_table().to_pandas(types_mapper=pd.ArrowDtype)
    which = {"checkpoint": rows.checkpoint, "name": rows.name, "mark": rows.mark}
    return dd.from_map(_rows_of_variable, cuts[:-1], cuts[1:], **which, meta=meta)


def _rows_of_variable(first: int, last: int, checkpoint: str, name: str, mark: str) -> pd.DataFrame:
    rows = Rows(checkpoint, name, mark)
    table = pa.Table.from_batches(rows.batches(first, last), rows.schema)
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def write_variables(
    path: str | os.PathLike[str],
    tables: Mapping[str, Any],
    base: Any = None,
    dtypes: Mapping[str, Any] | None = None,
) -> str:
    """Dask DataFrames as a checkpoint of variables, see variable_tables.py; computed and written by this process."""
    for _, ddf in tables_of(tables):
        check_frame(ddf)
    found = {name: as_table(ddf.compute()) for name, ddf in tables_of(tables)}
    return write(path, {name: check_values(name, table, VALUE, dtypes) for name, table in found.items()}, base, dtypes)


__all__ = [
    "Column", "DaskEngine", "damaged_records", "load_model", "read_tfrecord", "to_tfrecord", "train", "transform",
    "variable_table", "write_variables",
]  # fmt: skip
