"""Local processes: the roles of a job as children of this process, no cluster needed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors import launch
from sparkflow_connectors.columns import Column
from sparkflow_connectors.job import Job, job_of
from sparkflow_connectors.model import Model, Predictor, cuts, packages_of
from sparkflow_connectors.pace import check_rows
from sparkflow_connectors.plain_types import from_start, plain_array, plain_type
from sparkflow_connectors.processes import START_TIMEOUT_S, Child, DiedError
from sparkflow_connectors.record_types import EXAMPLE
from sparkflow_connectors.rows import arrays_of_numpy, native, pieces_of, table_of, with_types
from sparkflow_connectors.saved import load_model
from sparkflow_connectors.schema import arrays as arrays_of
from sparkflow_connectors.schema import check_batch, check_keys, check_partitioning, owners, resolve, unsortable
from sparkflow_connectors.tfrecord import Counts, read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord as write_tfrecord
from sparkflow_connectors.variable_tables import as_arrow as variable_table
from sparkflow_connectors.variable_tables import tables_of, write
from sparkflow_connectors.worker_process import run_child
from sparkflow_runtime.wire.errors import DeadlineExceededError, InvalidArgumentError

__all__ = [
    "Column",
    "Counts",
    "load_model",
    "read_tfrecord",
    "to_tfrecord",
    "train",
    "variable_table",
    "write_variables",
]

HOST = "127.0.0.1"
_CANCEL_S = 10.0

log = logging.getLogger("sparkflow")


def train(
    data: Any,
    model_fn: Any,
    *,
    label: str | None,
    features: Sequence[str] | Mapping[str, Any] | None = None,
    checkpoint_dir: str,
    partition_by: str | None = None,
    order_by: str | None = None,
    **options: Any,
) -> Model:
    """Train on this machine.

    data: an Arrow table, a pandas DataFrame, or what shares its memory with Arrow (Polars). partition_by: an integer
    column that says which worker trains a row (modulo the number of workers); without it each worker takes one
    contiguous part. order_by: a column that orders a worker's rows.
    options: the fields of Job (workers, ps, sync, epochs, batch_size, ...).
    """
    table = as_table(data)
    columns = resolve(table.schema, features, label)
    job = job_of(model_fn, columns, checkpoint_dir, options)
    check_partitioning(table.schema, partition_by, order_by)
    _check_order(table, order_by)
    check_keys(table, {"partition_by": partition_by, "order_by": order_by})
    needed = dict.fromkeys([*columns.read, *(name for name in (partition_by, order_by) if name is not None)])
    parts = partition(table.select(list(needed)), job.workers, partition_by, order_by)
    return launch.train(LocalEngine(parts), job)


def as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_frame(data):
        return table_of(data)
    if (shared := _shared(data)) is not None:
        return shared
    raise InvalidArgumentError(f"Expected an Arrow table or a pandas DataFrame, got {_name_of(data)}. {_instead(data)}")


def _instead(data: Any) -> str:
    """What makes a table of it, or takes it."""
    if isinstance(data, str | os.PathLike):
        return "Read the file first, as by pyarrow.parquet.read_table"
    for package, room in (("pyspark", "tf.spark"), ("dask", "tf.dask"), ("dask_expr", "tf.dask")):
        if package in packages_of(data):
            return f"{room} is for those"
    return "pyarrow.table makes one of a dict of columns"


def _name_of(data: Any) -> str:
    return f"{type(data).__module__}.{type(data).__name__}"


def _is_frame(data: Any) -> bool:
    """A pandas DataFrame (or what derives from it), and no Series or index."""
    return "pandas" in packages_of(data) and hasattr(data, "columns")


def _shared(data: Any) -> pa.Table | None:
    """Of Polars, DuckDB and others that share their memory with Arrow. (Spark would have to send all its rows.)"""
    if not hasattr(data, "__arrow_c_stream__") or {"pandas", "pyspark"} & {*packages_of(data)}:
        return None
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"Arrow takes no table from {_name_of(data)}: {error}") from error


def partition(table: pa.Table, workers: int, partition_by: str | None, order_by: str | None) -> list[pa.Table]:
    """One table a worker."""
    if partition_by is None:
        cuts = np.linspace(0, table.num_rows, workers + 1).astype(int)
        parts = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    else:
        owner = owners(table.column(partition_by).to_numpy(), workers)
        table = _of_columns_that_are_taken(table)
        parts = [table.filter(pc.equal(pa.array(owner), rank)) for rank in range(workers)]
    return [_of_columns_that_are_taken(part).sort_by(order_by) for part in parts] if order_by else parts


def _of_columns_that_are_taken(table: pa.Table) -> pa.Table:
    """The same rows; what Arrow picks none out of, or others, in a form in which it does."""
    for i, field in enumerate(table.schema):
        chunks, kind = table.column(i).chunks, field.type
        if not _is_taken(kind):
            chunks, kind = [plain_array(chunk) for chunk in chunks], plain_type(kind)
        whole = [from_start(chunk) for chunk in chunks]
        if kind != field.type or any(a is not b for a, b in zip(whole, chunks)):
            table = table.set_column(i, field.name, pa.chunked_array(whole, kind))
    return table


def _is_taken(kind: pa.DataType) -> bool:
    """Not views and run ends; of categories of float16 Arrow picks out wrong ones (both seen in 26.0.1)."""
    try:
        pa.nulls(1, kind).take(pa.array([0]))
    except pa.ArrowNotImplementedError:
        return False
    return not (pa.types.is_dictionary(kind) and pa.types.is_float16(kind.value_type))


def _check_order(table: pa.Table, order_by: str | None) -> None:
    """Raises InvalidArgumentError on a column of a type by which Arrow sorts nothing."""
    try:
        if order_by is not None:
            _of_columns_that_are_taken(table.select([order_by]).slice(0, 0)).sort_by(order_by)
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError):
        kind = table.schema.field(order_by).type
        raise unsortable(str(order_by), kind) from None


class Gathering:
    """An all-gather among the threads that host the roles."""

    def __init__(self, workers: int):
        self._barrier = threading.Barrier(workers)
        self._texts: list[str] = [""] * workers

    def gather(self, rank: int, text: str) -> list[str]:
        self._texts[rank] = text
        try:
            self._barrier.wait(START_TIMEOUT_S)
        except threading.BrokenBarrierError:
            missing = [r for r, t in enumerate(self._texts) if not t]
            raise DeadlineExceededError(f"Start: workers {missing} did not announce themselves") from None
        return list(self._texts)

    def abort(self) -> None:
        self._barrier.abort()


class LocalEngine:
    """Runs worker `rank` on `parts[rank]`, each in a child process hosted by a thread of its own."""

    name = "local"

    def __init__(self, parts: Sequence[pa.Table]):
        self._parts = parts

    def driver_host(self) -> str:
        return HOST

    def check(self, job: Job) -> None:
        check_rows([part.num_rows for part in self._parts])

    def start(self, job: Job) -> LocalRun:
        return LocalRun(job, self._parts)


class LocalRun:
    """The threads and children of one attempt."""

    def __init__(self, job: Job, parts: Sequence[pa.Table]):
        self._gathering = Gathering(job.workers)
        self._children: list[Child] = []
        self._errors: list[Exception] = []
        self._cancelled = False
        self._threads = [
            threading.Thread(target=self._host, args=(job, r, p), daemon=True) for r, p in enumerate(parts)
        ]
        for thread in self._threads:
            thread.start()

    def _host(self, job: Job, rank: int, part: pa.Table) -> None:
        try:
            pieces = pieces_of(part.to_batches(), job)
            gather = partial(self._gathering.gather, rank)
            run_child(job, pieces, rank, HOST, gather, self._started, lambda: self._cancelled)
        except Exception as error:  # whatever it is, the others must not wait for this worker
            self._errors.append(error)
            self._gathering.abort()

    def _started(self, child: Child) -> None:
        self._children.append(child)
        if self._cancelled:
            child.kill()

    def ended(self) -> bool:
        if self._errors:  # how one ended says more than what the others met with after it
            raise next((e for e in self._errors if isinstance(e, DiedError)), self._errors[0])
        return not any(thread.is_alive() for thread in self._threads)

    def unheard(self, heard: Collection[int]) -> None:
        """A gather that ends in time tells."""

    def cancel(self) -> None:
        self._cancelled = True
        self._gathering.abort()
        for child in self._children:
            child.kill()
        deadline = time.monotonic() + _CANCEL_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        if left := [rank for rank, thread in enumerate(self._threads) if thread.is_alive()]:
            # Not raised: it would stand for what ended the attempt, and be taken for a loss that another one mends.
            log.error("What reads the rows of local workers %s did not end within %g s", left, _CANCEL_S)


def transform(model: Model, data: Any) -> Any:
    """Predictions added to an Arrow table or a pandas DataFrame, whose index and columns stay as they are."""
    if _is_frame(data):
        return with_predictions(model, data)
    table = as_table(data)
    model.check_names(table.schema.names)
    typed = with_types(table, model.columns)
    model.columns_of(typed.schema)
    scored = _scored(model, typed)
    for i, field in enumerate(table.schema):
        if field.type != typed.schema.field(i).type:
            scored = scored.set_column(i, field, table.column(i))
    return scored


def with_predictions(model: Model, frame: Any) -> Any:
    """A pandas DataFrame with its predictions. Raises InvalidArgumentError as `Model.check` does."""
    model.check_names(frame.columns)
    scored = _scored_frame(model, frame)
    return frame.assign(**{name: found.to_pandas().to_numpy() for name, found in scored.items()})


def _scored_frame(model: Model, frame: Any) -> dict[str, pa.ChunkedArray]:
    """Columns of numpy are fed as they are, others by way of Arrow, which looks at each value of a float for a null."""
    fields, rows = model.output_fields(), len(frame)
    arrays = arrays_of_numpy(frame, model.columns, 0)
    rest = [name for name, source in model.columns.read.items() if not arrays.keys() >= source.tensors.keys()]
    others, table = model.columns.only(rest), with_types(table_of(native(frame, rest)), model.columns)
    if not rows:  # pandas' types of no objects say nothing
        return {f.name: pa.chunked_array([], f.type) for f in fields}
    others = model.columns_of(table.schema, others)
    predictor, found = Predictor(model), []
    for part in cuts(rows, predictor.rows):
        tensors = {name: array[part] for name, array in arrays.items()}
        if rest:
            some = table.slice(part.start, part.stop - part.start)
            check_batch(some, others, part.start)
            tensors |= arrays_of(some, others, part.start)
        found.append(predictor(tensors, part.stop - part.start))
    return {f.name: pa.chunked_array(arrays, f.type) for f, *arrays in zip(fields, *found, strict=True)}


def write_variables(
    path: str | os.PathLike[str],
    tables: Mapping[str, Any],
    base: Any = None,
    dtypes: Mapping[str, Any] | None = None,
) -> str:
    """Arrow tables or pandas DataFrames as a checkpoint of variables, see variable_tables.py; its prefix."""
    return write(path, {name: as_table(data) for name, data in tables_of(tables)}, base, dtypes)


def to_tfrecord(
    table: Any,
    path: str | os.PathLike[str],
    mode: str = "error",
    record_type: str = EXAMPLE,
    codec: str = "",
    partition_by: Sequence[str] = (),
    rows_per_file: int = 1_000_000,
) -> None:
    """An Arrow table or a pandas DataFrame (without its index) as a folder of record files, see tfrecord_write.py."""
    rows = as_table(table).replace_schema_metadata(None)
    write_tfrecord(rows, path, mode, record_type, codec, partition_by, rows_per_file)


def _scored(model: Model, table: pa.Table) -> pa.Table:
    schema = pa.schema([*table.schema, *model.output_fields()])
    scored = pa.Table.from_batches(model.score_all(table.to_batches()), schema)
    return scored.replace_schema_metadata(table.schema.metadata)  # such as the index that pandas had
