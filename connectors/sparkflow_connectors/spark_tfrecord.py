"""TFRecord files as a Spark data source, without a jar.

    spark.read.format("tfrecord").load("folder")  # or several: load(["one", "other"]), or a pattern: load("day={1,2}*")
    df.write.format("tfrecord").mode("overwrite").option("codec", "gzip").option("partitionBy", "day").save("folder")

Options of reading: recordType, codec, onError (raise, skip), sampleSize; of writing: recordType, codec, partitionBy
("a,b"; Spark's own partitionBy does not reach a Python data source), partitionOverwriteMode (static, dynamic: replace
the partitions that rows are written to; by default what spark.sql.sources.partitionOverwriteMode says). A codec may be
the name of Hadoop's class, and writeLocality=distributed is known, so that calls of spark-tfrecord and
spark-tensorflow-connector work as they are. A `.schema(...)` reads only its columns. Spark finds the source by itself
where sparkflow is installed on the driver (package `pyspark_tfrecord`).

What is wrong with files or a schema is an AnalysisException or a PythonException of Spark's with the whole traceback,
and at a driver that has used `tf.spark` the error itself (spark_errors.py).

Filters are Spark's work: it keeps the reader of a DataFrame for later queries, with what an earlier query's filter did
to it (seen in 4.3: rows were missing). To read one partition, load its folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType
from pyspark.sql.utils import is_remote

from sparkflow_connectors.record_types import EXAMPLE
from sparkflow_connectors.spark_errors import name_errors
from sparkflow_connectors.spark_schema import in_zone
from sparkflow_connectors.tfrecord import Counts, Dataset, Options, open_tfrecord
from sparkflow_connectors.tfrecord_asked import in_spark
from sparkflow_connectors.tfrecord_write import PARTITIONS, FolderWriter
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
)

_PARTITION_BYTES = 32 << 20  # of small files that one task reads, in about 0.1 s: it does not know how many cores wait
_arrow_schema = in_zone(to_arrow_schema, "UTC")
name_errors()
_AS_STRUCTS = {"variant", "geography", "geometry"}  # which Python gets, and Spark would read again
_KNOWN = {
    "path", "paths", "recordtype", "codec", "onerror", "samplesize", "partitionby", "partitionoverwritemode",
    "writelocality",
}  # fmt: skip
# What Spark's own sources call otherwise.
_INSTEAD = {
    "compression": "the codec is named by codec",
    "pathglobfilter": "give a pattern as the path, such as load('folder/*.tfrecord')",
    "recursivefilelookup": "a folder is read with all folders in it",
    "ignorecorruptfiles": "onError=skip leaves out what is damaged",
    "ignoremissingfiles": "give a pattern as the path, of the files that are there",
    "mode": "onError=skip leaves out what is damaged",
    "mergeschema": "sampleSize=0 looks for columns in all records",
    "inferschema": "columns are inferred where no schema is beside the records, from sampleSize of them",
    "maxrecordsperfile": "each task writes a file: repartition the DataFrame before",
}  # fmt: skip
_LOGGING = "spark.sql.pyspark.worker.logging.enabled"
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class TFRecordSource(DataSource):
    """`spark.read.format("tfrecord")` and `df.write.format("tfrecord")`."""

    @classmethod
    def name(cls) -> str:
        return "tfrecord"

    def schema(self) -> StructType:
        """Columns without a null are said to be never null: Spark, told so, does not ask it of each value."""
        dataset = self._dataset(None)
        full = dataset.without_nulls
        return from_arrow_schema(
            pa.schema([pa.field(f.name, in_spark(f.type), f.nullable and f.name not in full) for f in dataset.schema])
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._dataset(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        option = self._options_given()
        columns = [c.strip() for c in option.get("partitionby", "").split(",") if c.strip()]
        asked = _overwrite_mode(option.get("partitionoverwritemode"))
        writer = FolderWriter(
            self._path(),
            _of_columns(schema),
            "overwrite" if overwrite else "append",
            option.get("recordtype", EXAMPLE),
            option.get("codec", ""),
            columns,
            process=temporaries.ancestor("java") or 0,  # this one ends when it has planned the query
        )
        writer.begin()
        return _Writer(writer, asked)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise UnimplementedError(
            "tfrecord: a folder of record files cannot be read as a stream; read what there is by spark.read, as in "
            "the foreachBatch of another stream"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise UnimplementedError(
            "tfrecord: a stream is written micro-batch by micro-batch: writeStream.foreachBatch(lambda batch, number: "
            "batch.write.format('tfrecord').mode('append').save(folder))"
        )

    def _dataset(self, schema: StructType | None) -> Dataset:
        option = self._options_given()
        given = None if schema is None else _arrow_schema(schema)
        asked = Options(
            record_type=option.get("recordtype", ""),
            on_error=option.get("onerror", "raise"),
            codec=option.get("codec", ""),
            sample=_whole("sampleSize", option.get("samplesize", str(Options.sample))),
            schema=given,
        )
        with _by_spark_names():
            return open_tfrecord(self._paths(), asked)

    def _paths(self) -> list[str]:
        """`load([...])` of several gives them as JSON."""
        several = self.options.get("paths")
        return list(json.loads(several)) if several else [self._path()]

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise InvalidArgumentError(
                "tfrecord: give the path, as in spark.read.format('tfrecord').load('folder') or ...save('folder'). "
                "Spark's catalog (saveAsTable) has no tables of record files"
            )
        return path

    def _options_given(self) -> dict[str, str]:
        """By names in lower case, without underscores: those who come from Dask say on_error and sample.
        Raises InvalidArgumentError on one there is not."""
        given = {name.lower().replace("_", ""): value for name, value in dict(self.options).items()}
        if "sample" in given:
            given.setdefault("samplesize", given.pop("sample"))
        if "provider" in given:  # a property of what CREATE TABLE makes: seen in 4.3, no later query says its path
            raise InvalidArgumentError(
                "tfrecord: Spark does not tell a Python data source where a table of its catalog lies. Make a view: "
                "CREATE TEMPORARY VIEW records USING tfrecord OPTIONS (path 'folder')"
            )
        unknown = sorted(given.keys() - _KNOWN)
        if unknown:
            instead = f". Instead, {_INSTEAD[unknown[0]]}" if unknown[0] in _INSTEAD else ""
            raise InvalidArgumentError(
                f"tfrecord: option {unknown[0]!r} is unknown; there are recordType, codec, onError, sampleSize, "
                f"partitionBy and partitionOverwriteMode{instead}"
            )
        if given.get("writelocality", "distributed") != "distributed":
            raise InvalidArgumentError(
                f"tfrecord: option writeLocality can be 'distributed' alone, got {given['writelocality']!r}: files are "
                "written to a folder that all machines see"
            )
        return given


class TFRecordsSource(TFRecordSource):
    """The same by the name that some write."""

    @classmethod
    def name(cls) -> str:
        return "tfrecords"


@dataclass
class _Files(InputPartition):
    paths: tuple[str, ...]


class _Reader(DataSourceReader):
    def __init__(self, dataset: Dataset, schema: StructType):
        self._dataset, self._columns = dataset, [f.name for f in schema.fields]
        self._schema = _arrow_schema(schema)
        self._files = list(dataset.files)

    def partitions(self) -> Sequence[InputPartition]:
        groups: list[list[str]] = [[]]
        size = 0
        for path in self._files:
            length = os.path.getsize(path)
            if groups[-1] and size + length > _PARTITION_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(path)
            size += length
        return [_Files(tuple(paths)) for paths in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        counts = Counts()
        with _by_spark_names():
            for batch in self._dataset.batches(partition.paths, self._columns, counts):  # type: ignore[attr-defined]
                yield batch if batch.schema.equals(self._schema) else batch.cast(self._schema)


@dataclass
class _Written(WriterCommitMessage):
    files: dict[str, int]  # how many records each has
    nulls: frozenset[str]
    session_mode: str  # of overwriting, which only tasks are told


class _Writer(DataSourceArrowWriter):
    def __init__(self, folder: FolderWriter, overwrite_mode: str | None):
        """overwrite_mode: as an option said; None: as the session has it."""
        self._folder, self._overwrite_mode = folder, overwrite_mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        part, attempt = (task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)
        files = self._folder.write(iterator, part, f"{attempt}")
        mode = None if task is None else task.getLocalProperty(_OVERWRITE_MODE)
        return _Written(files, self._folder.nulls, (mode or "static").lower())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [m for m in messages if isinstance(m, _Written)]
        nulls = frozenset[str]().union(*(m.nulls for m in written))
        told = {m.session_mode for m in written} if self._overwrite_mode is None else {self._overwrite_mode}
        if "dynamic" in told and self._folder.mode == "overwrite" and self._folder.partition_by:
            self._folder.mode = PARTITIONS
        self._folder.commit({name: n for m in written for name, n in m.files.items()}, nulls)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._folder.abort()


@contextmanager
def _by_spark_names() -> Iterator[None]:
    """Errors name the option as it is called here."""
    try:
        yield
    except DataLossError as error:
        raise DataLossError(error.message.replace("on_error='skip'", "option onError 'skip'")) from None


def _overwrite_mode(text: str | None) -> str | None:
    if text is not None and text.lower() not in ("static", "dynamic"):
        raise InvalidArgumentError(f"tfrecord: option partitionOverwriteMode is 'static' or 'dynamic', got {text!r}")
    return None if text is None else text.lower()


def _whole(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise InvalidArgumentError(f"tfrecord: option {name} is a number of records, got {text!r}")
    return int(text)


def register_tfrecord(spark: Any) -> None:
    """For a session that did not find the source by itself (sparkflow was installed or shipped after it began), and in
    a Python thread of one's own: Spark looks for such sources in the session of the thread that asks, and a new thread
    has none (DATA_SOURCE_NOT_FOUND, seen in 4.3). It has this one from then on."""
    if not is_remote():
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
    for source in (TFRecordSource, TFRecordsSource):
        spark.dataSource.register(source)


def damaged_records(spark: Any) -> dict[str, int]:
    """How many damaged places onError=skip left out of each file that has any, when tasks of this session last read it.

    Tasks tell it by their log, which Spark keeps for the session where spark.sql.pyspark.worker.logging.enabled was set
    to true before. Raises FailedPreconditionError where it is not set.
    """
    if str(spark.conf.get(_LOGGING, "false")).lower() != "true":
        raise FailedPreconditionError(
            f"{_LOGGING} is not true: Spark keeps no log of what its tasks leave out. Set it, then read the records"
        )
    logs = spark.tvf.python_worker_logs().where("logger = 'sparkflow' and context['damaged'] is not null")
    found = logs.selectExpr("context['path'] path", "cast(context['damaged'] as int) damaged", "ts").orderBy("ts")
    return {row.path: row.damaged for row in found.collect()}


def _of_columns(schema: StructType) -> pa.Schema:
    """In Arrow. Raises InvalidArgumentError on a column of which Spark gives a task nothing, or not what it is."""
    for field in schema.fields:
        if not _is_told(field):
            raise InvalidArgumentError(
                f"column {field.name!r}: {field.dataType.simpleString()} cannot be written as a record; it has no "
                "feature type"
            )
    return _arrow_schema(schema)


def _is_told(field: StructField) -> bool:
    try:
        _arrow_schema(StructType([field]))
    except (PySparkException, ValueError):  # the second of array(), whose elements are void and never null
        return False
    return _AS_STRUCTS.isdisjoint(kind.typeName() for kind in _leaves(field.dataType))


def _leaves(kind: DataType) -> Iterator[DataType]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _leaves(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _leaves(kind.elementType)
    else:
        yield kind
