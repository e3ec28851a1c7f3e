"""`spark.read` and `df.write` of format tfrecord in two tasks, beside sources and sinks that do nothing else.

    python tests/benchmarks/bench_spark_records.py [--rows 1000000] [--columns keys40|five|packed] [--no-question]

The DataFrame is in Spark's cache: keys40, a label, 13 floats and 26 integers; five, five of them; packed, three
columns, two of which are lists. write, read: what is asked. sink: a Python data source that drops the Arrow batches it
gets; source: one that hands over batches that are there already, of columns that may be null; source_without_nulls: of
those that are never null. The last three are what Spark takes whoever reads or writes.

M rows/s by the clock, the best of the rounds, then us a row of processor time, of the JVM and of Python, their medians:
the ones to go by on a machine that does other work. Every writing is done twice and the second is measured: a virtual
machine that gives free memory back to its host pays up to 10 us for each page it fills anew, 1 us a row of keys40.

--no-question: spark.sql.execution.arrow.maxBytesPerBatch is 2147483647. Otherwise Spark asks every column for its bytes
before each row it hands to Python; without, batches end at 10,000 rows alone, so it is for rows that are small.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

import sparkflow as tf

BATCH = 10_000
FLOATS = [f"cast(randn({i}) as float)" for i in range(13)]
IDS = [f"cast(rand({i}) * 100000 as bigint)" for i in range(26)]
SHAPES = {
    "keys40": ["id % 2 label", *(f"{f} I{i}" for i, f in enumerate(FLOATS)), *(f"{f} C{i}" for i, f in enumerate(IDS))],
    "five": ["id % 2 label", f"{FLOATS[0]} I0", f"{FLOATS[1]} I1", f"{IDS[0]} C0", f"{IDS[1]} C1"],
    "packed": ["id % 2 label", f"array({', '.join(FLOATS)}) I", f"array({', '.join(IDS)}) C"],
}


class Nothing(DataSource):
    """A sink that drops what it gets, a source of the same batch again and again."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return Sink()

    def reader(self, schema: Any) -> DataSourceReader:
        return Ready(to_arrow_schema(schema, timezone="UTC"), int(self.options["rows"]))


class Sink(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Ready(DataSourceReader):
    def __init__(self, schema: pa.Schema, rows: int):
        self._schema, self._rows = schema, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.RecordBatch.from_arrays([_values(f.type) for f in self._schema], schema=self._schema)
        for at in range(0, self._rows // 2, BATCH):
            yield batch.slice(0, min(BATCH, self._rows // 2 - at))


def _values(kind: pa.DataType, rows: int = BATCH) -> pa.Array:
    if pa.types.is_list(kind):
        offsets = np.arange(rows + 1, dtype=np.int32) * 20
        return pa.ListArray.from_arrays(offsets, _values(kind.value_type, 20 * rows), type=kind)
    return pa.array((np.random.default_rng(0).random(rows) * 100_000).astype(kind.to_pandas_dtype()))


def cpu_s() -> np.ndarray:
    """Of the JVM and of the Pythons that it has started."""
    taken = np.zeros(2)
    for process in psutil.Process().children(recursive=True):
        try:
            times, java = process.cpu_times(), "java" in process.name()
        except psutil.NoSuchProcess:
            continue
        taken[0 if java else 1] += times.user + times.system
        taken[1] += times.children_user + times.children_system
    return taken


def works(spark: Any, frame: Any, rows: int, folder: str) -> dict[str, tuple[int, Callable[[], None]]]:
    """(how often one after the other, what)"""

    def drained(read: Any) -> None:
        read.write.format("noop").mode("overwrite").save()

    def ready(null: str) -> None:
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}{null}" for f in frame.schema)
        drained(spark.read.format("nothing").schema(columns).option("rows", rows).load())

    return {
        "write": (2, lambda: frame.write.format("tfrecord").mode("overwrite").save(f"{folder}/table")),
        "read": (1, lambda: drained(spark.read.format("tfrecord").load(f"{folder}/table"))),
        "sink": (2, lambda: frame.write.format("nothing").mode("append").save(f"{folder}/nothing")),
        "source": (1, lambda: ready("")),
        "source_without_nulls": (1, lambda: ready(" not null")),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=1_000_000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--columns", choices=SHAPES, default="keys40")
    p.add_argument("--no-question", action="store_true")
    given = p.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in [os.path.dirname(__file__), *sys.path] if path)
    from sparkflow_connectors.java import ensure_java

    ensure_java()
    spark = tf.spark.session(master="local[2]")
    tf.spark.register_tfrecord(spark)
    spark.dataSource.register(Nothing)
    if given.no_question:
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1))
    frame = spark.range(0, given.rows, 1, 2).selectExpr(*SHAPES[given.columns]).cache()
    if frame.count() != given.rows:
        raise SystemExit("wrong table")
    with tempfile.TemporaryDirectory() as folder:
        todo = works(spark, frame, given.rows, folder)
        taken: dict[str, list[np.ndarray]] = {name: [] for name in todo}
        for _ in range(given.rounds + 1):
            for name, (times, work) in todo.items():
                for _ in range(times):
                    begun, cpu = time.perf_counter(), cpu_s()
                    work()
                    found = np.array([time.perf_counter() - begun, *(cpu_s() - cpu)])
                taken[name].append(found)
        for name, rounds in taken.items():
            rate = given.rows / min(clock for clock, *_ in rounds[1:]) / 1e6
            _, jvm, python = np.median(rounds[1:], axis=0) / given.rows * 1e6
            print(
                f"{given.columns} {name}: {rate:.2f} M rows/s; us a row: JVM {jvm:.2f}, Python {python:.2f}", flush=True
            )
    spark.stop()


if __name__ == "__main__":
    main()
