"""Record files through the real Spark and Dask."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_runtime.wire import temporaries

FIELDS = [
    "cast(id as int) i", "id % 2 = 0 flag", "array(cast(id as float), 1.5f) x", "concat('n', id % 3) name",
    "cast(id % 2 as short) p", "timestamp_micros(id) t", "named_struct('a', id, 'b', if(id % 5 = 0, null, 'x')) s",
    "date_add(date'2026-01-01', cast(id % 9 as int)) d", "if(id % 7 = 0, null, cast(id % 100 as byte)) b",
]  # fmt: skip


def test_spark_writes_and_reads(clusters: Any, tmp_path: Path) -> None:
    spark, folder = clusters.spark, str(tmp_path / "out")
    frame = spark.range(0, 3000, 1, 3).selectExpr(*FIELDS)
    frame.write.format("tfrecord").mode("append").option("codec", "gzip").option("partitionBy", "p").save(folder)
    back = spark.read.format("tfrecords").load(folder)
    assert {f.name: f.dataType for f in back.schema} == {f.name: f.dataType for f in frame.schema}
    assert [f.name for f in back.schema if f.nullable] == ["b"], "so Spark need not ask each value of the others"
    assert back.where("p = 1").count() == 1500 and back.count() == 3000
    assert back.select(frame.columns).orderBy("i").collect() == frame.orderBy("i").collect()
    pruned = spark.read.format("tfrecord").schema("i int, name string").load(folder)
    assert pruned.columns == ["i", "name"] and pruned.selectExpr("sum(i)").first()[0] == 3000 * 2999 // 2
    assert tf.local.read_tfrecord(folder, columns=["i"])["i"].to_pylist() != []

    for name, rows in (("one", spark.range(3)), ("other", spark.range(3, 9))):
        rows.write.format("tfrecord").mode("append").save(f"{tmp_path}/{name}")
    several = spark.read.format("tfrecord").load([f"{tmp_path}/one", f"file://{tmp_path}/other"])
    assert several.selectExpr("sum(id)").first()[0] == 36 and not several.schema["id"].nullable
    spark.range(9, 12).selectExpr("if(id = 9, null, id) id").write.format("tfrecord").mode("append").save(
        f"{tmp_path}/other"
    )
    more = spark.read.format("tfrecord").load(f"{tmp_path}/other")
    assert more.schema["id"].nullable and more.where("id is null").count() == 1

    spark.range(5).write.format("tfrecord").mode("overwrite").save(folder)
    assert [r.id for r in spark.read.format("tfrecord").load(folder).orderBy("id").collect()] == [0, 1, 2, 3, 4]

    spark.range(3).selectExpr("id", "null void").write.format("tfrecord").mode("append").save(f"{tmp_path}/void")
    void = spark.read.format("tfrecord").load(f"{tmp_path}/void")
    assert [f.dataType.simpleString() for f in void.schema] == ["bigint", "void"]
    assert sorted(tuple(row) for row in void.collect()) == [(0, None), (1, None), (2, None)]

    structs = spark.range(4).selectExpr(
        "id", "if(id < 2, null, named_struct('a', id)) joined", "named_struct('b', if(id > 1, null, id)) empty"
    )
    structs.write.format("tfrecord").mode("append").save(f"{tmp_path}/structs")
    back = spark.read.format("tfrecord").load(f"{tmp_path}/structs")
    assert not back.schema["joined"].dataType["a"].nullable and not back.schema["empty"].nullable
    assert back.orderBy("id").collect() == structs.orderBy("id").collect()

    from pyspark.ml.linalg import Vectors

    vectors = spark.createDataFrame([(Vectors.dense([1.0, 2.0]),), (Vectors.sparse(3, {2: 5.0}),)], ["v"])
    vectors.coalesce(1).write.format("tfrecord").mode("append").save(f"{tmp_path}/vectors")
    found = spark.read.format("tfrecord").load(f"{tmp_path}/vectors")
    assert sorted(r.v for r in found.collect()) == [[0, 0, 5], [1, 2]], "as lists of their values"


@pytest.mark.slow
def test_spark_says_what_is_wrong_and_leaves_nothing(clusters: Any, tmp_path: Path) -> None:
    spark, folder = clusters.spark, tmp_path / "out"
    _ = tf.spark.session  # a driver that has loaded it gets our errors
    with pytest.raises(tf.errors.NotFoundError, match=r"^/.*: no such file or directory$"):
        spark.read.format("tfrecord").load(str(folder)).count()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^tfrecord: option 'recordtyp' is unknown"):
        spark.range(3).write.format("tfrecord").mode("append").option("recordTyp", "Example").save(str(folder))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^s3a://bucket/x: record files .* s3a:// is none"):
        spark.range(3).write.format("tfrecord").mode("append").save("s3a://bucket/x")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^tfrecord: option sampleSize is a number.*'many'"):
        spark.read.format("tfrecord").option("sampleSize", "many").load(str(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^column .x.: .* a null inside its list"):
        frame = spark.range(4).selectExpr("array(id, if(id = 3, null, id)) x")
        frame.write.format("tfrecord").mode("append").save(str(folder))
    for value, kind in (("interval '2' month", "interval month"), ("parse_json('1')", "variant")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"^column 'c': {kind} cannot be written"):
            spark.range(4).selectExpr(f"{value} c").write.format("tfrecord").mode("append").save(str(folder))
    ticks = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", str(tmp_path / "notes"))
    with pytest.raises(tf.errors.UnimplementedError, match=r"^tfrecord: a stream is written .*foreachBatch"):
        ticks.format("tfrecord").start(str(folder)).awaitTermination(60)
    assert not folder.exists()
    spark.range(100).write.format("tfrecord").mode("append").save(str(folder))
    with pytest.raises(tf.errors.UnimplementedError, match=r"^tfrecord: .* cannot be read as a stream"):
        stream = spark.readStream.format("tfrecord").load(str(folder))
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "n")).start().awaitTermination(60)
    path = next(folder.glob("part*"))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        tf.errors.DataLossError, match=f"^{path}: the file ends inside the record that .*onError 'skip'"
    ):
        spark.read.format("tfrecord").load(str(folder)).selectExpr("sum(id)").collect()
    assert spark.read.format("tfrecord").option("onError", "skip").load(str(folder)).count() == 99


def dying(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes batches on; in one task, once, every Python of that executor is killed after the third."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psutil
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        for n, batch in enumerate(batches):
            yield batch
            if n == 2 and context.partitionId() == 1 and not mark.exists():
                mark.touch()
                daemon: Any = psutil.Process().parent()
                for process in [*daemon.children(), daemon]:  # the writer's, and this one
                    process.kill()

    return run


@pytest.mark.slow
def test_jobs_that_append_at_once_and_a_task_that_is_killed(clusters: Any, tmp_path: Path) -> None:
    spark, folder, rows = clusters.spark, tmp_path / "out", 30_000

    def append(job: int) -> None:
        tf.spark.register_tfrecord(spark)  # a new thread has no session
        frame = spark.range(job * rows, (job + 1) * rows, 1, 3)
        if job == 0:
            frame = frame.mapInArrow(dying(tmp_path / "killed"), "id long")
        frame.write.format("tfrecord").mode("append").save(str(folder))

    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(append, range(3)))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    assert (tmp_path / "killed").exists()
    assert sorted(tf.local.read_tfrecord(str(folder))["id"].to_pylist()) == list(range(3 * rows))
    assert len(list(folder.iterdir())) == 9 + 2, "nothing of the killed attempt"
    told = json.loads((folder / "_sparkflow_schema.json").read_text())["records"]
    assert sum(told.values()) == 3 * rows and {p.name for p in folder.glob("part*")} == told.keys()


def test_a_writing_ends_with_its_jvm(clusters: Any, tmp_path: Path) -> None:
    """What it leaves if it is killed is named so: the Python that plans a query ends before its tasks do."""
    spark, folder, seen = clusters.spark, tmp_path / "out", tmp_path / "seen"

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.write_text(next(folder.glob("_temporary*")).name)
        yield from batches

    spark.range(0, 9, 1, 1).mapInArrow(look, "id long").write.format("tfrecord").mode("append").save(str(folder))
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert re.fullmatch(rf"_temporary-\w+\.tmp-\w+\.{jvm}\.\d+-\w+", seen.read_text())
    assert temporaries.abandoned(seen.read_text()) is False
    assert not list(folder.glob("_temporary*"))


def test_dask_writes_and_reads(clusters: Any, tmp_path: Path) -> None:
    clusters.dask  # noqa: B018 - the cluster that computes
    folder = str(tmp_path / "out")
    table = clusters.table(500)
    tf.dask.to_tfrecord(clusters.frame("dask", table), folder)
    back = tf.dask.read_tfrecord(folder)
    assert back.npartitions == 2
    found = pa.Table.from_pandas(back.compute(), preserve_index=False).sort_by("row")
    assert found.select(table.column_names).equals(table)
    assert tf.dask.read_tfrecord(folder, columns=["row"])["row"].sum().compute() == 500 * 499 // 2
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.dask.to_tfrecord(clusters.frame("dask", table), folder)
    with pytest.raises(tf.errors.InvalidArgumentError, match="column 'y' is missing"):
        tf.dask.read_tfrecord(folder, columns=["y"])


@pytest.mark.parametrize(
    "second, message",
    [
        ({"v": ["a"]}, "^Partition 1 is not of the types that the frame says: Conversion failed for column v"),
        ({"w": [1]}, "^Column 'v' is missing in partition 1, which has w"),
    ],
)
def test_a_partition_of_dask_that_differs_is_not_written(
    clusters: Any, tmp_path: Path, second: dict[str, Any], message: str
) -> None:
    import dask.dataframe as dd
    import pandas as pd

    clusters.dask  # noqa: B018 - the cluster that computes
    frames = [pd.DataFrame({"v": [1, 2]}), pd.DataFrame(second)]
    frame = dd.from_map(lambda i: frames[i], [0, 1], meta=frames[0].iloc[:0], enforce_metadata=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.dask.to_tfrecord(frame, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
