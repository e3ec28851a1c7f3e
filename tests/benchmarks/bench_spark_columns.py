"""Columns between Spark's JVM and Python in two tasks: 40 columns plain and packed, ML vectors, TFRecord files.

    python tests/benchmarks/bench_spark_columns.py [--rows 500000] [--only packed,read]

Rows a second by the clock (the best of the rounds), and what two cores would do by the CPU time that the JVM and the
tasks took: the figure to go by on a machine that does other work. Needs Java.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pyarrow as pa

from sparkflow_connectors.columns import Column
from sparkflow_connectors.java import ensure_java
from sparkflow_connectors.packing import packing_of, tensors_of
from sparkflow_connectors.schema import resolve

DENSE, SLOTS, CORES = 13, 26, 2


def cpu_s() -> float:
    """Of everything this process has started, and all that these have."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.NoSuchProcess:
            continue
    return total


def drained(frame: Any, work: Callable[[pa.RecordBatch], Any]) -> Callable[[], Any]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            work(batch)
            rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({"n": [rows]})

    return lambda: frame.mapInArrow(run, "n long").collect()


def cases(spark: Any, rows: int, folder: str) -> dict[str, Callable[[], Any]]:
    from pyspark.ml.functions import array_to_vector

    from sparkflow_connectors.spark_schema import arrow_schema
    from sparkflow_connectors.spark_transform import arrays_of_vectors, selected

    names = ["cast(id % 2 as float) label", *(f"cast(randn({i}) as float) I{i}" for i in range(DENSE))]
    names += [f"cast(rand({i}) * 100000 as int) C{i}" for i in range(SLOTS)]
    wide = spark.range(0, rows, 1, 2).selectExpr(*names).cache()
    lists = spark.range(0, rows, 1, 2).selectExpr(f"transform(sequence(1, {DENSE}), i -> rand(1) * i) v")
    vectors = lists.select(array_to_vector("v").alias("v")).cache()
    wide.count(), vectors.count()

    def tensors(frame: Any, columns: Any) -> Callable[[], Any]:
        read = arrays_of_vectors(columns)
        packing = packing_of(read)
        plain = read.only(packing.plain)
        return drained(frame.select(*selected(columns, packing)), lambda batch: tensors_of(batch, plain, packing))

    def written(path: str) -> None:
        packed = ["label", f"array({','.join(f'I{i}' for i in range(DENSE))}) I"]
        packed.append(f"array({','.join(f'C{i}' for i in range(SLOTS))}) C")
        wide.selectExpr(*packed).write.format("tfrecord").mode("overwrite").save(path)

    def read_back() -> None:
        if not os.path.exists(f"{folder}/read"):
            written(f"{folder}/read")
        spark.read.format("tfrecord").load(f"{folder}/read").write.format("noop").mode("overwrite").save()

    vector = resolve(arrow_schema(vectors), [Column("v", shape=[DENSE])], None)
    plain = resolve(arrow_schema(wide), None, None)
    return {
        "plain": drained(wide, lambda batch: [c.to_numpy() for c in batch.columns]),
        "packed": tensors(wide, plain),
        "vectors": drained(vectors, lambda batch: batch.column(0).field("values").flatten().to_numpy()),
        "vectors_as_arrays": tensors(vectors, vector),
        "tfrecord_write": lambda: written(f"{folder}/written"),
        "tfrecord_read": read_back,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=500_000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="")
    args = p.parse_args()
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "3g"}
    spark = SparkSession.builder.master(f"local[{CORES}]").config(map=settings).getOrCreate()
    folder = tempfile.mkdtemp()
    try:
        for name, work in cases(spark, args.rows, folder).items():
            if args.only and name not in args.only.split(","):
                continue
            found = []
            for _ in range(args.rounds + 1):  # the first is not counted
                begun, cpu = time.perf_counter(), cpu_s()
                work()
                found.append((time.perf_counter() - begun, cpu_s() - cpu))
            clock, worked = (args.rows / min(times) for times in zip(*found[1:], strict=True))
            rates = {"rows_per_s": round(clock), "rows_per_s_by_cpu": round(worked * CORES)}
            print(json.dumps({"what": name, **rates}), flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
