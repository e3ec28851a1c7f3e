"""A partition on the task's own disk: written once as Arrow IPC, then memory-mapped for every epoch.

The file has no name when its first row is written, so its space is free when the processes that hold it end, however
they end. It goes from process to process as a file descriptor.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sparkflow_connectors.schema import Columns, arrays, check_batch
from sparkflow_runtime.wire.errors import InvalidArgumentError, ResourceExhaustedError


class Spool:
    """The rows of one worker, column by column."""

    def __init__(self, fd: int, columns: Columns):
        """Takes `fd` over and closes it."""
        try:
            self._map = pa.memory_map(f"/dev/fd/{fd}")
        finally:
            os.close(fd)
        table = pa.ipc.open_file(self._map).read_all()
        self.rows = table.num_rows
        self.columns: dict[str, np.ndarray] = arrays(table, columns) if self.rows else {}

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Rows by number, as fresh arrays."""
        return {name: column[indices] for name, column in self.columns.items()}

    def close(self) -> None:
        self.columns = {}
        self._map.close()


def write(batches: Iterable[pa.RecordBatch], columns: Columns, directory: str | None = None) -> int:
    """Check and write a partition; a file descriptor of it. Nothing is left behind when a batch is refused.

    One record batch is written for all rows, so that a column is one piece of memory afterwards.
    Raises InvalidArgumentError as `check_batch` does, ResourceExhaustedError on a full disk.
    """
    schema = pa.schema([(name, pa.from_numpy_dtype(dtype.np)) for name, dtype in columns.all.items()])
    pieces, rows = [], 0
    for batch in batches:
        check_batch(batch, columns, rows)
        rows += batch.num_rows
        pieces.append(batch.select(list(columns.all)).cast(schema))
    table = pa.Table.from_batches(pieces, schema).combine_chunks()
    try:
        with tempfile.TemporaryFile(prefix="sparkflow-", dir=directory) as file:
            with pa.ipc.new_file(pa.PythonFile(file, "w"), schema) as writer:
                writer.write_table(table)
            file.flush()
            return os.dup(file.fileno())
    except OSError as error:
        where = directory or tempfile.gettempdir()
        raise ResourceExhaustedError(
            f"Cannot spool {rows} rows ({table.nbytes} bytes) to {where}: {error.strerror or error}. Free space "
            "there, or point TMPDIR to another disk"
        ) from error


def check_rows(rows: list[int]) -> None:
    """Raises InvalidArgumentError where a worker would have nothing to train on. rows: of each worker, by rank."""
    if sum(rows) == 0:
        raise InvalidArgumentError("The table is empty: there is no row to train on")
    if sum(rows) < len(rows):
        raise InvalidArgumentError(f"There are more workers ({len(rows)}) than rows ({sum(rows)}); use fewer workers")
    empty = [rank for rank, n in enumerate(rows) if n == 0]
    if empty:
        raise InvalidArgumentError(
            f"Partitions {empty} of {len(rows)} are empty (rows by worker: {rows}); repartition the table evenly"
        )
