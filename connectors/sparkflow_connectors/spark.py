"""Spark: the roles of a job as the tasks of one barrier stage, fed by `mapInArrow`.

Nothing here uses `sc._jsc`. What Spark really does, and why this is so, is told where it matters.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sparkflow_connectors import files, launch
from sparkflow_connectors.arrow_numpy import arrow_of, texts
from sparkflow_connectors.columns import Column
from sparkflow_connectors.job import Job, check_switch, check_whole, job_of
from sparkflow_connectors.layout import Piece
from sparkflow_connectors.model import Model
from sparkflow_connectors.packing import Packing, packing_of, quoted
from sparkflow_connectors.partition import OwnPartition
from sparkflow_connectors.roles import role
from sparkflow_connectors.rows import file_pieces, packed_pieces
from sparkflow_connectors.saved import load_model
from sparkflow_connectors.schema import check_partitioning, resolve
from sparkflow_connectors.spark_connect import driver_host, host_of
from sparkflow_connectors.spark_errors import cancelled, lost, name_errors, noted, unread
from sparkflow_connectors.spark_executors import await_slots
from sparkflow_connectors.spark_files import check_columns, parquet_files
from sparkflow_connectors.spark_group import JobGroup
from sparkflow_connectors.spark_schema import arrow_schema, check_case, check_frame, sorted_within
from sparkflow_connectors.spark_settings import check_settings
from sparkflow_connectors.spark_slots import LateTasks
from sparkflow_connectors.spark_stream import TrainingStream, stream
from sparkflow_connectors.spark_tfrecord import damaged_records, register_tfrecord
from sparkflow_connectors.spark_transform import selected, transform
from sparkflow_connectors.unshipped import not_in_spark
from sparkflow_connectors.variable_tables import Rows, tables_of, write
from sparkflow_connectors.waiting import RETURN_TIMEOUT_S
from sparkflow_runtime.wire.errors import DataLossError, FailedPreconditionError, InvalidArgumentError, UnavailableError

_RESULT = "rank int, result string"
_CANCEL_S = 15.0
_OF_ROWS = ("partition_by", "order_by", "slots", "read_files")  # options of `train` that are none of a Job

log = logging.getLogger("sparkflow")
name_errors()


def train(
    df: DataFrame,
    model_fn: Any,
    *,
    label: str | Column | None,
    features: Sequence[str | Column] | Mapping[str, Any] | None = None,
    checkpoint_dir: str,
    partition_by: str | None = None,
    order_by: str | None = None,
    slots: int | None = None,
    read_files: bool = True,
    **options: Any,
) -> Model:
    """Train inside one barrier stage of the DataFrame's cluster.

    partition_by: an integer column that says which worker trains a row (modulo the number of workers); without it Spark
    deals the rows round robin. order_by: a column that orders a worker's rows (needed for the same bits in every run);
    those that are equal in it come in any order.
    read_files: where the DataFrame is nothing but parquet files (see spark_files.py), and neither of these two columns
    is given, the tasks read them themselves: some times as fast, equally many rows each, and always in the same order.
    slots: task slots of the cluster, where Spark does not tell, as over Spark Connect with spark.default.parallelism.
    options: the fields of Job.
    """
    schema = arrow_schema(df)
    if df.isStreaming:
        raise InvalidArgumentError(
            "train is for a DataFrame whose rows have an end; train_stream is for streaming ones"
        )
    columns = resolve(schema, features, label)
    job = job_of(model_fn, columns, checkpoint_dir, options)
    slots, read_files = _of_spark(slots, read_files)
    check_partitioning(schema, partition_by, order_by)
    check_case(df, [*columns.read, *(name for name in (partition_by, order_by) if name is not None)])
    given = {what: name for what, name in (("partition_by", partition_by), ("order_by", order_by)) if name is not None}
    source: Source | None = _files(df, job) if read_files and not given else None
    if source is None:
        keys = {what: name for what, name in given.items() if name not in columns.read}
        packing = packing_of(columns)
        chosen = [*selected(columns, packing), *(F.col(quoted(name)) for name in dict.fromkeys(keys.values()))]
        if given:
            rows = _partitioned(df, job.workers, partition_by, order_by).select(*chosen)
        else:
            rows = df.select(*chosen).repartition(job.workers)  # packed, rows are half as large on their way
        source = Packed(packing, keys, rows.columns, order_by is not None)
        rows = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))  # mapInArrow finds no name with a dot in it
    else:
        rows = df.sparkSession.range(0, job.workers, 1, job.workers)
    return launch.train(SparkEngine(df.sparkSession, rows, slots, source), job)


def train_stream(
    df: DataFrame,
    model_fn: Any,
    *,
    label: str | Column | None,
    features: Sequence[str | Column] | Mapping[str, Any] | None = None,
    checkpoint_dir: str,
    trigger: Mapping[str, Any] | None = None,
    on_model: Callable[[Model], object] | None = None,
    **options: Any,
) -> TrainingStream:
    """Train on a streaming DataFrame, micro-batch by micro-batch; see spark_stream.py. Returns when it has begun.

    trigger: as `DataStreamWriter.trigger` has it, such as {"availableNow": True}. on_model: called with the model after
    each micro-batch. options: as of `train`. A stream that is begun again with the same checkpoint_dir goes on.
    """
    schema, columns = arrow_schema(df), resolve(arrow_schema(df), features, label)
    of_job = {name: value for name, value in options.items() if name not in _OF_ROWS}
    job = job_of(model_fn, columns, checkpoint_dir, of_job)
    check_partitioning(schema, options.get("partition_by"), options.get("order_by"))
    _of_spark(options.get("slots"), options.get("read_files", True))
    if on_model is not None and not callable(on_model):
        raise InvalidArgumentError(f"on_model must be a function that is called with the model, got {on_model!r}")
    given = {"model_fn": model_fn, "label": label, "features": features, "checkpoint_dir": job.checkpoint_dir}
    return stream(train, df, job, trigger or {}, on_model, {**given, **options})


def _of_spark(slots: Any, read_files: Any) -> tuple[int | None, bool]:
    """Raises InvalidArgumentError on what they cannot be."""
    return None if slots is None else check_whole("slots", slots, 1), check_switch("read_files", read_files)


def _files(df: DataFrame, job: Job) -> Files | None:
    """The DataFrame's files, where the tasks can read them as Spark would. Raises InvalidArgumentError where they
    differ, and where one has not a column that must be there."""
    paths, types = parquet_files(df), job.columns.types
    if not paths:
        return None
    try:
        shares = files.shares(paths, types, job.workers, job.seed)
    except InvalidArgumentError:
        check_columns(df, paths, job.columns)
        if not files.reads_the_same(paths[0], types) or files.without(paths, types):  # Spark fills in what is not there
            return None
        raise
    except DataLossError:  # in a footer: Spark passes such a file over, where its reader was told to
        return None
    log.info("the tasks read the %d parquet files of the DataFrame themselves", len(paths))
    return Files(shares)


def _partitioned(df: DataFrame, workers: int, partition_by: str | None, order_by: str | None) -> DataFrame:
    """Exactly `workers` partitions: adaptive execution leaves an explicit number alone."""
    if partition_by is None:
        df = df.repartition(workers)
    else:
        df = df.repartitionById(workers, F.pmod(F.col(quoted(partition_by)), F.lit(workers)).cast("int"))
    return sorted_within(df, order_by) if order_by else df


def session(name: str = "sparkflow", master: str | None = None) -> SparkSession:
    """The running session, or a new one whose Python workers use this interpreter.

    master: such as "local[2]"; by default what spark-submit or the configuration says.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return (builder.master(master) if master else builder).getOrCreate()


class Source(Protocol):
    """Where a task has its rows from."""

    @property
    def sorts(self) -> bool:
        """Whether each task sorts them first."""

    def pieces(self, job: Job, rank: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        """batches: what Spark sends the task."""


@dataclass(frozen=True)
class Packed:
    """From Spark. keys: columns beside the job's, by what they are for. names: what the columns of batches are."""

    packing: Packing
    keys: Mapping[str, str]
    names: list[str]
    sorts: bool

    def pieces(self, job: Job, rank: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        named = (batch.rename_columns(self.names) for batch in batches)
        return packed_pieces(named, job, self.packing, self.keys)


@dataclass(frozen=True)
class Files:
    """From files; Spark sends the task nothing of use."""

    shares: list[list[files.Part]]
    sorts = False

    def pieces(self, job: Job, rank: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
        return file_pieces(self.shares[rank], job)


class SparkEngine:
    """Runs worker `rank` in the barrier task of partition `rank`."""

    name = "spark"

    def __init__(self, spark: SparkSession, rows: DataFrame, slots: int | None, source: Source):
        self._spark, self._rows, self._slots, self._source = spark, rows, slots, source

    def driver_host(self) -> str | tuple[str, str]:
        with _jvm():
            return driver_host(self._spark)

    def check(self, job: Job) -> None:
        check_settings(self._spark.conf)
        if self._slots is None:
            await_slots(self._spark, job.workers)
        elif self._slots < job.workers:
            raise InvalidArgumentError(
                f"{job.workers} workers need {job.workers} task slots at once, and slots={self._slots} says that the "
                "cluster has fewer. Use fewer workers, or more slots"
            )

    def start(self, job: Job) -> SparkRun:
        with _jvm():
            if self._slots is None:  # an attempt before may have ended with an executor
                await_slots(self._spark, job.workers, RETURN_TIMEOUT_S)
            return SparkRun(self._spark, self._rows, job, self._source)


@contextlib.contextmanager
def _jvm() -> Iterator[None]:
    """Raises FailedPreconditionError where it is gone: an attempt before may have ended with it."""
    try:
        yield
    except ConnectionError as error:
        raise FailedPreconditionError(
            f"The JVM of this Spark session has ended ({error}); its log, or dmesg, may say why: memory, often. "
            "Train again in a new program, which goes on from the last checkpoint"
        ) from error


class SparkRun:
    """One barrier job, collected in a thread of its own, so that it can be cancelled."""

    def __init__(self, spark: SparkSession, rows: DataFrame, job: Job, source: Source):
        self._group = JobGroup(spark, job)
        self._ranks, self._slots = set(range(job.workers)), self._group.watch(job.workers)
        self._error: Exception | None = None
        self._collected: list[Any] = []
        tasks = rows.mapInArrow(_task(job, source), _RESULT, barrier=True)
        self._late = LateTasks(source.sorts)
        self._thread = self._group.thread(target=self._collect, args=(tasks,), daemon=True)
        self._thread.start()

    def _collect(self, tasks: DataFrame) -> None:
        try:
            self._group.enter()
            self._collected = tasks.collect()
            if not self._collected:
                raise InvalidArgumentError("The DataFrame is empty: Spark ran no task for it")
        except Exception as error:  # a Py4J or Spark error of any kind: `ended` hands it to the launcher
            self._error = _as_ours(error, self._group.is_stopped())
        finally:
            self._group.leave()

    def ended(self) -> bool:
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def unheard(self, heard: Collection[int]) -> None:
        if heard:
            self._late.look(self._ranks.difference(heard))
        elif not self._group.is_stopped():
            self._slots.look()

    def cancel(self) -> None:
        """Spark kills the tasks' Python processes; their children die with them."""
        if self._thread.is_alive():
            try:
                self._group.cancel(_CANCEL_S)
            except FailedPreconditionError as error:  # the tasks end themselves when their driver's line does
                log.error("Spark's job of the training is not cancelled: %s", error.message)
                return
            self._thread.join(_CANCEL_S)
        if self._thread.is_alive():
            log.error("Spark did not end job group %s within %g s", self._group.name, _CANCEL_S)


def _as_ours(error: Exception, stopped: bool) -> Exception:
    """What Spark raises, as one of our errors where it tells of one; itself otherwise."""
    how = cancelled(error) or ("the session was stopped" if stopped else None)
    if how is not None:
        return launch.JobCancelled(f"Spark's job of the training was cancelled: {how}. Train again to go on from there")
    return unread(error) or lost(error) or not_in_spark(error) or noted(error)


def _task(job: Job, source: Source) -> Any:
    """The function of one task. Batches arrive lazily. Addresses go through the driver, as `allGather` takes one or two
    seconds: it looks once in each."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        if len(context.getTaskInfos()) != job.workers:
            raise FailedPreconditionError(
                f"The stage has {len(context.getTaskInfos())} tasks for {job.workers} workers"
            )
        host = host_of(context.getTaskInfos()[rank].address)
        take_gpus(context.resources())
        sys.setswitchinterval(5e-4)
        with _threads(job.threads):
            partition = OwnPartition(job.plan(rank), job.layout, source.pieces(job, rank, _sent(batches)))
            result = role(job, partition, rank, host)
        found = arrow_of(np.array([rank], np.int32)), texts([json.dumps(result)], pa.string())
        yield pa.RecordBatch.from_arrays(list(found), ["rank", "result"])

    return run


def _sent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark sends a task. Raises UnavailableError where that breaks off: its other end has failed."""
    try:
        yield from batches
    except (EOFError, OSError) as error:
        raise UnavailableError(
            f"Spark's rows broke off ({type(error).__name__}: {error}): a task or its executor was lost"
        ) from error


def take_gpus(resources: dict[str, Any]) -> None:
    """Have this process see the GPUs that Spark gave its task (`spark.task.resource.gpu.amount`) and no others: the
    first of them is its /gpu:0. To be called before anything asks for a GPU."""
    if "gpu" in resources:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(resources["gpu"].addresses)


def _threads(count: int) -> contextlib.AbstractContextManager[Any]:
    """BLAS threads of this Python worker, which Spark starts with one."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(count)


def variable_table(checkpoint: Any, name: str, spark: SparkSession | None = None) -> DataFrame:
    """The variable as a DataFrame (row bigint, value), see variable_tables.py; read by the tasks, which must see the
    checkpoint."""
    rows = Rows(checkpoint, name)
    spark = spark or SparkSession.active()

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = Rows(rows.checkpoint, rows.name, rows.mark)
        for batch in batches:
            if batch.num_rows:
                ids = batch.column(0)
                yield from mine.batches(ids[0].as_py(), ids[-1].as_py() + 1)

    return spark.range(rows.shape[0]).mapInArrow(read, from_arrow_schema(rows.schema))


def write_variables(
    path: str | os.PathLike[str],
    tables: Mapping[str, DataFrame],
    base: Any = None,
    dtypes: Mapping[str, Any] | None = None,
) -> str:
    """DataFrames as a checkpoint of variables, see variable_tables.py; collected and written by the driver."""
    for _, df in tables_of(tables):
        check_frame(df)
    return write(path, {name: df.toArrow() for name, df in tables_of(tables)}, base, dtypes)


def __getattr__(name: str) -> Any:
    """The stages of pyspark.ml, whose import nobody else waits for."""
    if name not in ("MLEstimator", "MLModel"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("sparkflow_connectors.spark_ml"), name)


__all__ = [
    "Column", "SparkEngine", "TrainingStream", "damaged_records", "load_model", "register_tfrecord", "session", "train",
    "train_stream", "transform", "variable_table", "write_variables",
]  # fmt: skip
