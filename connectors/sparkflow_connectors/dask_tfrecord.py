"""TFRecord folders as Dask DataFrames, and back."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
from distributed import Client, default_client, get_worker

from sparkflow.errors import InvalidArgumentError
from sparkflow_connectors.dask_schema import arrow_schema, made_strings
from sparkflow_connectors.record_types import EXAMPLE
from sparkflow_connectors.tfrecord import Counts, Dataset, names_of, open_tfrecord, options_of
from sparkflow_connectors.tfrecord_write import FolderWriter

_DAMAGED = "sparkflow-tfrecord-damaged"  # a topic of Dask's events

log = logging.getLogger("sparkflow")


def read_tfrecord(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """A Dask DataFrame with one partition a file; columns have Arrow's dtypes, so nothing is copied to objects.

    options: the fields of Options (record_type, schema, on_error, sample, codec). Every worker must see the files.
    Raises NotFoundError and InvalidArgumentError here, DataLossError (file, position) when it is computed. What
    on_error="skip" leaves out on a cluster is a warning here as well, and in `damaged_records`.
    """
    dataset = open_tfrecord(paths, options_of(options))
    wanted = names_of(columns) if columns is not None else dataset.schema.names
    meta = _frame(dataset.table([], wanted))
    if not dataset.files:
        return dd.from_pandas(meta, npartitions=1)
    if dataset.options.on_error == "skip":
        _listen()
    return dd.from_map(_part, [*map(dataset.of, dataset.files)], columns=wanted, meta=meta)


def to_tfrecord(
    ddf: Any,
    path: str | os.PathLike[str],
    mode: str = "error",
    record_type: str = EXAMPLE,
    codec: str = "",
    partition_by: Sequence[str] = (),
) -> None:
    """One file a partition (and partition folder), written by the workers, shown all at once by this process. The index
    is left out. Strings that look like lists of which Dask has made them are warned of. Raises what FolderWriter
    raises; nothing is left of a failed writing."""
    schema = arrow_schema(ddf).remove_metadata()
    writer = FolderWriter(path, schema, mode, record_type, codec, partition_by)
    writer.begin()
    try:
        parts = [dask.delayed(_write)(part, i, writer) for i, part in enumerate(ddf.to_delayed())]
        written = dask.compute(*parts)
        nulls = frozenset[str]().union(*(nulls for _, nulls, _ in written))
        writer.commit({name: n for files, *_ in written for name, n in files.items()}, nulls)
    except BaseException:
        writer.abort()
        raise
    for name, text in {name: text for *_, odd in written for name, text in odd.items()}.items():
        log.warning(
            "Column %r was written as strings, such as %r. If it had lists, Dask has made strings of them: call "
            'dask.config.set({"dataframe.convert-string": False}) before the DataFrame is made', name, text[:40]
        )  # fmt: skip


def _write(
    part: pd.DataFrame, number: int, writer: FolderWriter
) -> tuple[dict[str, int], frozenset[str], dict[str, str]]:
    """(files and how many records each has, columns with nulls, what `made_strings` finds). Raises InvalidArgumentError
    where the partition is not as the frame says."""
    if missing := [name for name in writer.schema.names if name not in part.columns]:
        raise InvalidArgumentError(
            f"Column {missing[0]!r} is missing in partition {number}, which has {', '.join(map(str, part.columns))}"
        )
    try:
        table = pa.Table.from_pandas(part, writer.schema, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        told = ": ".join(map(str, error.args[::-1]))
        raise InvalidArgumentError(f"Partition {number} is not of the types that the frame says: {told}") from None
    attempt = f"-{secrets.token_hex(4)}"  # Dask begins a task anew whose worker it has lost sight of: that may write on
    files = writer.write(iter(table.to_batches(max_chunksize=10_000)), number, attempt)
    return files, writer.nulls, made_strings(part)


def damaged_records(client: Client | None = None) -> dict[str, int]:
    """How many damaged places on_error="skip" left out of each file that has any, when the cluster's workers last read
    it. client: the cluster's (the default one)."""
    events = (client or default_client()).get_events(_DAMAGED)
    return {told["path"]: told["damaged"] for _, told in events}


def _listen() -> None:
    """Have what workers leave out told in this process's log."""
    try:
        client = default_client()
    except ValueError:  # whoever computes is no cluster, and has the log
        return
    client.subscribe_topic(_DAMAGED, _told)


def _told(event: tuple[float, dict[str, Any]]) -> None:
    told = event[1]
    log.warning("%s: %d damaged places were left out by %s", told["path"], told["damaged"], told["worker"])


def _part(dataset: Dataset, columns: list[str]) -> pd.DataFrame:
    counts = Counts()
    table = dataset.table(columns=columns, counts=counts)
    if counts.damaged:
        with suppress(ValueError):  # no worker of a cluster
            worker = get_worker()
            told = {"path": dataset.files[0], "damaged": counts.damaged, "worker": worker.address}
            worker.log_event(_DAMAGED, told)
    return _frame(table)


def _frame(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)
