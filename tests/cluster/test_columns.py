"""Columns of every kind through the real Spark and Dask: scored, and trained on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from sparkflow_connectors import launch
from sparkflow_connectors.columns import Column
from sparkflow_connectors.graphs import prediction_graph
from sparkflow_connectors.job import Job
from sparkflow_connectors.model import Model
from sparkflow_connectors.schema import resolve
from sparkflow_connectors.spark import _files
from sparkflow_connectors.spark_files import parquet_files, plan_of
from sparkflow_connectors.spark_schema import arrow_schema

INVALID = tf.errors.InvalidArgumentError

# The program that makes the model runs on its own and is gone afterwards: nobody who scores can import it.
PROGRAM = """
import sys
import sparkflow as tf
def program():
    read = {"x": tf.placeholder(tf.float32, [None, 3], "x"), "v": tf.placeholder(tf.float64, [None, 4], "v")}
    for name, dtype in dict(age=tf.int32, price=tf.float64, at=tf.int64, flag=tf.bool, name=tf.string).items():
        read[name] = tf.placeholder(dtype, [None], name)
    w = tf.get_variable("w", initializer=tf.constant([[1.0], [10.0], [100.0]]))
    users = tf.get_variable("users", initializer=tf.reshape(tf.range(30, dtype=tf.float32), [15, 2]))
    score = tf.add(tf.matmul(read["x"], w)[:, 0], tf.cast(read["age"], tf.float32), name="score")
    late = tf.logical_and(read["flag"], read["at"] > 500_000_000, name="late")
    money = tf.add(read["price"], tf.reduce_sum(read["v"] * [1.0, 2.0, 3.0, 4.0], 1), name="money")
    pair = tf.gather(users, read["age"] % 15, name="pair")
    said = tf.strings.join([read["name"], tf.as_string(read["age"])], name="said")
    return read, {"score": score, "late": late, "money": money, "pair": pair, "said": said}
with tf.Session() as session:
    read, made = program()
    session.run(tf.global_variables_initializer())
    tf.saved_model.simple_save(session, sys.argv[1] + "/export", read, made)
    tf.train.Saver().save(session, sys.argv[1] + "/checkpoint/model")
"""
COLUMNS = {
    "x": Column("xs", cast=tf.float32), "v": "features", "age": Column("age", default=7), "price": "price", "at": "at",
    "flag": Column("flag", default=False), "name": Column("name", default="?"),
}  # fmt: skip
ROWS = 600


@pytest.fixture(autouse=True, scope="module")
def functions_by_value() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    (path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", str(path)], cwd=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path / "program.py").unlink()
    return str(path)


def expected(rows: np.ndarray) -> pd.DataFrame:
    """What the model says of row i of the table."""
    age = np.where(rows % 5 == 0, 7, rows)
    xs = np.stack([rows, rows / 2, np.ones(len(rows))], 1)
    dense = np.stack([rows, -rows, rows, rows * 0 + 1.5], 1)
    features = np.where((rows % 3 == 0)[:, None], [0.0, 5.0, 0.0, 7.0], dense)
    return pd.DataFrame(
        {
            "score": (xs @ [1.0, 10.0, 100.0] + age).astype(np.float32),
            "late": (rows % 4 == 1) & (rows > 500),
            "money": rows / 4 + features @ [1.0, 2.0, 3.0, 4.0],
            "pair": [[2.0 * (a % 15), 2.0 * (a % 15) + 1] for a in age],
            "said": [("?" if i % 7 == 0 else f"n{i}") + str(a) for i, a in zip(rows, age, strict=True)],
        }
    )


def same(found: pd.DataFrame, rows: np.ndarray) -> None:
    wanted = expected(rows)
    for name in ("score", "money"):
        np.testing.assert_allclose(found[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-6)
    assert found["late"].tolist() == wanted["late"].tolist()
    assert found["said"].tolist() == wanted["said"].tolist()
    assert [list(p) for p in found["pair"]] == wanted["pair"].tolist()


@pytest.fixture(scope="module")
def frame(clusters: Any) -> Any:
    """ML vectors, dense and sparse; nulls; a decimal, a timestamp, lists of doubles; an interval that nobody reads."""
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import LongType, StructField, StructType

    spark = clusters.spark

    def vector(i: int) -> Any:
        return Vectors.sparse(4, [1, 3], [5.0, 7.0]) if i % 3 == 0 else Vectors.dense(i, -i, i, 1.5)

    schema = StructType([StructField("id", LongType()), StructField("features", VectorUDT())])
    frame = spark.createDataFrame([(i, vector(i)) for i in range(ROWS)], schema).coalesce(2)
    return frame.selectExpr(
        "id", "features", "array(cast(id as double), id / 2, 1d) xs", "if(id % 5 = 0, null, cast(id as int)) age",
        "cast(id / 4 as decimal(12, 2)) price", "timestamp_seconds(id) at", "if(id % 2 = 0, null, id % 4 = 1) flag",
        "if(id % 7 = 0, null, concat('n', id)) name", "make_ym_interval(1, 2) as interval",
    ).cache()  # fmt: skip


def test_spark_scores_by_a_saved_model(frame: Any, folder: str) -> None:
    scored = tf.spark.load_model(f"{folder}/export", COLUMNS).transform(frame)
    assert [f.name for f in scored.schema] == [*frame.columns, "late", "money", "pair", "said", "score"]
    assert scored.schema.fields[: len(frame.columns)] == frame.schema.fields
    types = {f.name: f.dataType.simpleString() for f in scored.schema}
    assert {n: types[n] for n in ("score", "late", "money", "pair", "said")} == {
        "score": "float", "late": "boolean", "money": "double", "pair": "array<float>", "said": "string",
    }  # fmt: skip
    rows = sorted(scored.drop("interval").collect(), key=lambda r: r["id"])  # PySpark itself cannot collect one
    same(pd.DataFrame([r.asDict() for r in rows]), np.arange(ROWS))
    assert [(type(r["features"]).__name__, *r["features"].toArray()) for r in rows[2:4]] == [
        ("DenseVector", 2.0, -2.0, 2.0, 1.5), ("SparseVector", 0.0, 5.0, 0.0, 7.0),
    ]  # fmt: skip


@pytest.mark.slow
def test_spark_scores_once_whatever_follows(frame: Any, folder: str) -> None:
    """A filter on a prediction is not pushed below it, and empty partitions and tables are scored as well."""
    model = tf.spark.load_model(f"{folder}/export", COLUMNS)
    frame = frame.drop("interval")
    scored = model.transform(frame).where("score > 1000 and money > 0").selectExpr("score + money s", "id", "score")
    assert scored._jdf.queryExecution().executedPlan().toString().count("ArrowEvalPython") == 1
    want = expected(np.arange(ROWS))
    assert scored.count() == ((want["score"] > 1000) & (want["money"] > 0)).sum()
    assert model.transform(frame.where("id = 3").repartition(4)).collect()[0]["said"] == "n33"
    assert model.transform(frame.where("id < 0")).collect() == []
    twice = model.transform(frame, fetches={"score": "score"}).withColumnRenamed("score", "first")
    both = model.transform(twice, fetches={"again": "score", "text": "said"}).where("first != again")
    assert both.columns[-2:] == ["again", "text"] and both.count() == 0
    cached = frame.cache()
    plan = plan_of(model.transform(cached))
    assert " +- Filter ((SPARK_PARTITION_ID() >= 0) OR " in plan, "by rows, not by column batches; not compiled"
    assert model.transform(cached).count() == frame.count() == ROWS
    cached.unpersist()


@pytest.mark.slow
def test_tasks_read_files_that_they_score(clusters: Any, folder: str, tmp_path: Path) -> None:
    """Nothing but files, and few other columns: what the tasks give back is what Spark would have read."""
    from pyspark.sql import functions as F

    spark, pair = clusters.spark, {"inputs": {"age": "age:0"}, "outputs": {"p": "pair"}}
    model = tf.spark.load_model(f"{folder}/export", {"age": Column("age", default=7)}, **pair)
    written = spark.range(0, 5000, 1, 3).selectExpr("cast(id as int) age", "concat('n', id) note")
    written.write.option("parquet.block.size", 8192).parquet(str(tmp_path / "files"))
    table = spark.read.parquet(str(tmp_path / "files"))
    scored = model.transform(table)
    assert "MapInArrow" in plan_of(scored) and scored.schema.fields[:2] == table.schema.fields
    found = scored.toPandas()
    assert found["note"].tolist() == [f"n{i}" for i in range(5000)] == [f"n{i}" for i in found["age"]]
    assert [list(p) for p in found["p"]] == [[2.0 * (i % 15), 2.0 * (i % 15) + 1] for i in range(5000)]
    assert scored.where("p[0] > 27 and age < 100").count() == 6
    for other in (table.where("age < 9"), table.withColumn("more", F.lit(1)), table.selectExpr("age", "note n")):
        assert "ArrowEvalPython" in plan_of(model.transform(other))
    wide = table.selectExpr("*", "named_struct('a', age) s").write.mode("overwrite")
    wide.parquet(str(tmp_path / "nested"))
    assert "ArrowEvalPython" in plan_of(model.transform(spark.read.parquet(str(tmp_path / "nested"))))
    holed = spark.range(5).selectExpr("if(id = 3, null, cast(id as int)) age", "'' note")
    holed.write.parquet(str(tmp_path / "holed"))
    refusing = tf.spark.load_model(f"{folder}/export", **pair)
    nullable = [field.nullable for field in refusing.transform(table).schema.fields]
    assert nullable == [False, True, False], "where nulls are refused there is none"
    with pytest.raises(
        Exception, match=r"holed/part-.*parquet, row group 0 from row 0 on: Column 'age' .* null at row"
    ):
        refusing.transform(spark.read.parquet(str(tmp_path / "holed"))).collect()
    twice = model.transform(spark.read.parquet(str(tmp_path / "files"), str(tmp_path / "files")))
    assert twice.count() == 10_000, "what is given twice is there twice"
    both = [str(tmp_path / name) for name in ("files", "holed")]
    assert "MapInArrow" in plan_of(model.transform(spark.read.parquet(*both)))
    table.where("age < 9").write.partitionBy("age").parquet(str(tmp_path / "folders"))
    folders = spark.read.parquet(str(tmp_path / "folders"))
    assert sorted(r.p[0] for r in refusing.transform(folders).collect()) == [2.0 * i for i in range(9)]
    damaged = sorted((tmp_path / "files").glob("part-*"))[0]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:100] + bytes([whole[100] ^ 8]) + whole[101:])
    with pytest.raises(tf.errors.DataLossError, match=rf"^{damaged}: row group 0 cannot be read: .* CRC"):
        scored.collect()
    damaged.write_bytes(whole)
    pq.write_table(pa.table({"note": ["m"]}), tmp_path / "files" / "new.parquet")
    gone = spark.read.schema("age int, note string").parquet(str(tmp_path / "files"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"/new.parquet: column 'age' is missing, and the model"):
        refusing.transform(gone)
    assert model.transform(gone).where("note = 'm'").collect()[0]["p"] == [14.0, 15.0]


def ages(folder: str, **column: Any) -> Any:
    """A model of the column `age` alone, whose prediction is [2 age, 2 age + 1]."""
    columns = {"age": Column("age", **column)}
    return tf.spark.load_model(f"{folder}/export", columns, inputs={"age": "age:0"}, outputs={"p": "pair"})


@pytest.mark.slow
def test_a_table_is_not_overwritten_by_its_own_predictions(clusters: Any, folder: str, tmp_path: Path) -> None:
    """Spark refuses that of a table that is read, so it must know that the tasks read it; at no cost to them."""
    spark = clusters.spark
    spark.sql("drop table if exists scored_in_place")
    spark.range(7).selectExpr("cast(id as int) age").write.option("path", str(tmp_path)).saveAsTable("scored_in_place")
    try:
        scored = ages(folder).transform(spark.table("scored_in_place"))
        steps = [line.strip(" +-:").partition(" ")[0] for line in plan_of(scored).splitlines() if line.strip()]
        assert [step for step in steps if step != "=="] == ["MapInArrow", "*(1)"], "Range, and nothing else"
        assert [field.nullable for field in scored.schema] == [False, False]
        assert scored.join(scored, "age").count() == 7 and scored.cache().count() == 7
        scored.unpersist()
        scored.createOrReplaceTempView("scored_view")
        with pytest.raises(Exception, match="UNSUPPORTED_OVERWRITE"):
            scored.write.mode("overwrite").saveAsTable("scored_in_place")
        with pytest.raises(Exception, match="UNSUPPORTED_OVERWRITE"):
            spark.sql("insert overwrite scored_in_place select age from scored_view")
        assert spark.table("scored_in_place").count() == 7
    finally:
        spark.sql("drop table if exists scored_in_place")


def test_a_column_is_what_its_folder_says(clusters: Any, folder: str, tmp_path: Path) -> None:
    """So Spark has it, whatever the files say of it."""
    for age in (1, 2):
        (tmp_path / f"age={age}").mkdir()
        table = pa.table({"age": pa.array([age + 4] * 2, pa.int32()), "note": ["a", "b"]})
        pq.write_table(table, tmp_path / f"age={age}" / "a.parquet")
    table = clusters.spark.read.parquet(str(tmp_path))
    for read in (table, table.select("age")):
        scored = ages(folder).transform(read)
        assert "ArrowEvalPython" in plan_of(scored)
        assert sorted((r.age, r.p[0]) for r in scored.collect()) == [(1, 2.0)] * 2 + [(2, 4.0)] * 2
    assert parquet_files(table) is None and len(parquet_files(table.select("note")) or []) == 2


def test_a_column_that_was_added_has_its_default(clusters: Any, folder: str, tmp_path: Path) -> None:
    """In files that were written before, which are Spark's to read, to train on as well."""
    spark = clusters.spark
    spark.sql("drop table if exists grown")
    spark.range(3).coalesce(1).selectExpr("id").write.option("path", str(tmp_path / "table")).saveAsTable("grown")
    try:
        spark.sql("alter table grown add column age int default 7")
        table = spark.table("grown")
        assert [row.p for row in ages(folder).transform(table).collect()] == [[14.0, 15.0]] * 3
        spark.sql("insert into grown values (9, 3)")
        table = spark.table("grown")
        assert sorted(row.p[0] for row in ages(folder).transform(table).collect()) == [6.0] + [14.0] * 3
        assert _files(table, Job(None, resolve(arrow_schema(table), ["id"], "age"), str(tmp_path / "run"))) is None
    finally:
        spark.sql("drop table if exists grown")


def test_a_training_names_the_file_without_a_column(clusters: Any, tmp_path: Path) -> None:
    for name, columns in (("0", ["id"]), ("1", ["id", "age"]), ("2", ["id"])):
        pq.write_table(pa.table({"id": [1], "age": pa.array([2], pa.int32())}).select(columns), tmp_path / name)
    for names, named in (("01", "0"), ("12", "2")):
        table = clusters.spark.read.schema("id long, age int").parquet(*(str(tmp_path / name) for name in names))
        with pytest.raises(INVALID, match=rf"/{named}: column 'age' is missing, and the model reads it"):
            tf.spark.train(table, _none, features=["id"], label="age", checkpoint_dir=str(tmp_path / "run"))
        columns = [Column("id"), Column("age", default=7)]
        assert _files(table, Job(None, resolve(arrow_schema(table), columns, None), str(tmp_path / "run"))) is None


def test_outputs_that_are_one_name_to_spark(clusters: Any, folder: str) -> None:
    table = clusters.spark.range(3).selectExpr("cast(id as int) age")
    with pytest.raises(INVALID, match=r"predictions 'p' and 'P', which are one name to Spark\. Give"):
        ages(folder).transform(table, fetches={"p": "p", "P": "p"})
    clusters.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert ages(folder).transform(table, fetches={"p": "p", "P": "p"}).columns == ["age", "p", "P"]
    finally:
        clusters.spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("name", ["a.b", "a`b", "ä b"])
def test_files_whose_columns_have_odd_names(clusters: Any, folder: str, tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({name: pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    table = clusters.spark.read.parquet(str(tmp_path))
    model = tf.spark.load_model(f"{folder}/export", {"age": name}, inputs={"age": "age:0"}, outputs={"p": "pair"})
    scored = model.transform(table)
    assert "MapInArrow" in plan_of(scored) and sorted(row.p[0] for row in scored.collect()) == [2.0, 4.0]


def test_a_training_of_columns_that_are_one_name_to_spark(clusters: Any, tmp_path: Path) -> None:
    table = clusters.spark.range(3).selectExpr("id", "1f x", "2f X", "3f y")
    with pytest.raises(INVALID, match=r"a column 'X', which Spark takes for 'x', of the model\. Rename or drop"):
        tf.spark.train(table, _none, features=["x"], label="y", checkpoint_dir=str(tmp_path / "run"))


def test_files_are_read_as_spark_was_told_to(clusters: Any, folder: str, tmp_path: Path) -> None:
    """By options of the reader that no plan shows, and by settings."""
    spark, old = clusters.spark, [19000, -150_000]  # 1559
    days = pa.array(old, pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"age": pa.array([1, 2], pa.int32()), "day": days}), tmp_path / "a.parquet")
    table = spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(tmp_path))
    scored, told = ages(folder).transform(table), [row.day for row in table.orderBy("age").collect()]
    assert [row.day for row in scored.orderBy("age").collect()] == told != days.to_pylist()
    assert "MapInArrow" in plan_of(ages(folder).transform(table.select("age"))), "which has no days"
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    try:
        assert "ArrowEvalPython" in plan_of(ages(folder).transform(table.select("age")))
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")


@pytest.mark.parametrize("how", ["option", "setting"])
def test_damaged_files_are_passed_over_where_spark_was_told_to(
    clusters: Any, folder: str, tmp_path: Path, how: str
) -> None:
    spark, name = clusters.spark, "ignoreCorruptFiles"
    pq.write_table(pa.table({"age": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"cut")
    told = spark.read.schema("age int").option(name, how == "option").parquet(str(tmp_path))
    if how == "setting":
        told = spark.read.schema("age int").parquet(str(tmp_path))
        with pytest.raises(tf.errors.DataLossError, match=r"b\.parquet"):
            ages(folder).transform(told).collect()
        spark.conf.set(f"spark.sql.files.{name}", "true")
    try:
        assert sorted(row.age for row in ages(folder).transform(told).collect()) == [1, 2]
        assert parquet_files(told) is None or how == "option"
    finally:
        spark.conf.unset(f"spark.sql.files.{name}")


@pytest.mark.slow
def test_spark_says_what_does_not_fit(frame: Any, folder: str) -> None:
    model = tf.spark.load_model(f"{folder}/export", COLUMNS)
    for table, message in (
        (frame.drop("price"), "Column 'price' is missing; the table has 'id', 'features'"),
        (frame.withColumnRenamed("name", "said").selectExpr("*", "'' name"), "already has a column 'said'"),
        (frame.selectExpr("* except (age)", "id as age"), "'age' has type int64, and the model reads int32"),
        (frame.selectExpr("* except (features)", "1d as features"), "'features' has type double, which is one value"),
    ):
        with pytest.raises(INVALID, match=message):
            model.transform(table)
    for table, message in (
        (
            frame.selectExpr("* except (price)", "if(id = 77, null, price) price"),
            r"Column 'price' is null at row \d+ of",
        ),
        (
            frame.selectExpr("* except (features)", "if(id = 77, null, features) features"),
            "Column 'features'.* is null",
        ),
        (frame.selectExpr("* except (xs)", "if(id = 77, array(1d), xs) xs"), "Column 'xs' has 1 values at row"),
        (frame.selectExpr("* except (at)", "if(id = 77, null, at) at"), "Column 'at' is null at row"),
    ):
        with pytest.raises(INVALID, match="^" + message):
            model.transform(table).selectExpr("sum(score)").collect()


def test_sparse_vectors_stay_sparse(frame: Any, tmp_path: Path) -> None:
    """A model function takes them as a SparseTensor."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", initializer=tf.constant([[1.0], [2.0], [3.0], [4.0]], tf.float64))
        p = tf.sparse_tensor_dense_matmul(features["features"], w)[:, 0]
        return tf.estimator.EstimatorSpec(mode, predictions={"p": p, "count": tf.cast(p, tf.int64)})

    columns = resolve(arrow_schema(frame), [Column("features", kind="sparse", shape=[4], length=4)], None)
    graph = prediction_graph(Job(model_fn, columns, str(tmp_path), sync=False))
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        tf.get_variable("w", initializer=tf.constant([[1.0], [2.0], [3.0], [4.0]], tf.float64))
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    rows = Model(graph, columns, prefix).transform(frame.select("id", "features")).collect()
    ids = np.array([r["id"] for r in rows])
    np.testing.assert_allclose([r["p"] for r in rows], expected(ids)["money"] - ids / 4)


def _none(features: Any, labels: Any, mode: str) -> Any:
    raise AssertionError("nothing is trained")


def test_a_training_takes_vectors_as_arrays(frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes these over at half the price; sparse ones stay as they are."""
    monkeypatch.setattr(launch, "train", lambda engine, job: (engine, job))
    whole, sparse = Column("features", shape=[4], pad=9), Column("features", shape=[4], kind="sparse", length=4)
    for column, kind in ((whole, "array<double>"), (sparse, "vector")):
        features, given = [column, "id"], {"label": None, "checkpoint_dir": str(tmp_path)}
        engine, job = tf.spark.train(frame, _none, features=features, order_by="id", **given)
        assert [field.dataType.simpleString() for field in engine._rows.schema] == [kind, "bigint"]
        pieces = [*engine._source.pieces(job, 0, iter(engine._rows._collect_as_arrow()))]
        found = {c.name: np.concatenate([p[i] for p in pieces]) for i, c in enumerate(job.layout.components)}
        assert found["id"].tolist() == [*range(ROWS)]
        if column is whole:
            money = found["features"] @ [1.0, 2.0, 3.0, 4.0] + found["id"] / 4
            np.testing.assert_allclose(money, expected(found["id"])["money"])
        else:
            assert found["features/length"].tolist() == [2 if i % 3 == 0 else 4 for i in range(ROWS)]
    engine, job = tf.spark.train(frame, _none, features=[Column("features", shape=[5], pad=9)], **given)
    with pytest.raises(INVALID, match=r"'features' has a vector of size 4 at row 0 of .* its shape is \[5\]"):
        [*engine._source.pieces(job, 0, iter(engine._rows._collect_as_arrow()))]


def pandas_table(rows: np.ndarray) -> pd.DataFrame:
    """The same as pandas has it, with lists and decimals in Arrow's types: Dask makes texts of objects."""
    dense = np.stack([rows, -rows, rows, rows * 0 + 1.5], 1)
    vectors = np.where((rows % 3 == 0)[:, None], [0.0, 5.0, 0.0, 7.0], dense)
    return pd.DataFrame(
        {
            "id": rows, "features": pd.array(vectors.tolist(), DOUBLES),
            "xs": pd.array([[i, i / 2, 1.0] for i in rows], DOUBLES),
            "age": pd.array([None if i % 5 == 0 else i for i in rows], "Int32"),
            "price": pd.array([Decimal(int(i)) / 4 for i in rows], pd.ArrowDtype(pa.decimal128(12, 2))),
            "at": pd.to_datetime(rows, unit="s", utc=True).astype("datetime64[us, UTC]"),
            "flag": pd.array([None if i % 2 == 0 else i % 4 == 1 for i in rows], "boolean"),
            "name": [None if i % 7 == 0 else f"n{i}" for i in rows],
        }
    )  # fmt: skip


DOUBLES = pd.ArrowDtype(pa.list_(pa.float64()))
DASK_COLUMNS = {**COLUMNS, "v": Column("features", shape=[4])}


def test_dask_scores_by_a_saved_model(clusters: Any, folder: str) -> None:
    import dask.dataframe as dd

    assert clusters.dask is not None
    parts, meta = np.array_split(np.arange(ROWS), 3), pandas_table(np.arange(1)).iloc[:0]
    frame = dd.from_map(lambda rows: pandas_table(rows), parts, meta=meta)
    model = tf.dask.load_model(f"{folder}/export", DASK_COLUMNS)
    scored = model.transform(frame)
    assert list(scored.columns) == [*frame.columns, "late", "money", "pair", "said", "score"]
    found = scored.compute().sort_values("id").reset_index(drop=True)
    same(found, np.arange(ROWS))
    assert {n: str(t) for n, t in scored.dtypes.items() if n in ("score", "late", "money")} == {
        "score": "float32", "late": "bool", "money": "float64",
    }  # fmt: skip
    assert found.dtypes.drop(["pair", "said"]).to_dict() == scored.dtypes.drop(["pair", "said"]).to_dict()
    assert len(scored[["id", "pair"]].shuffle("id").compute()) == ROWS, "lists travel between partitions"
    nothing = model.transform(frame[frame["id"] >= 400], fetches=["score"]).compute()
    assert sorted(nothing["id"]) == list(range(400, ROWS)), "a partition without rows is scored too"


def test_dask_says_what_does_not_fit(clusters: Any, folder: str) -> None:
    import dask.dataframe as dd

    assert clusters.dask is not None
    meta = pandas_table(np.arange(1)).iloc[:0]
    model = tf.dask.load_model(f"{folder}/export", DASK_COLUMNS)

    def spoiled(rows: np.ndarray, what: str) -> pd.DataFrame:
        frame = pandas_table(rows)
        if rows[0] == 0:
            return frame
        if what == "type":
            return frame.assign(age=frame["age"].astype("float64"))
        if what == "null":
            return frame.assign(price=frame["price"].where(frame["id"] != 350))
        return frame.drop(columns=["at"])

    for what, message in (
        ("type", "Column 'age' has type double, and the model reads int32"),
        ("null", "Column 'price'.* is null at row 50 of its partition"),
        ("gone", "Column 'at' is missing; the table has 'id'"),
    ):
        frame = dd.from_map(
            spoiled, [np.arange(300), np.arange(300, 600)], what=what, meta=meta, enforce_metadata=False
        )
        with pytest.raises(INVALID, match=message):
            model.transform(frame).compute()
    frame = dd.from_pandas(pandas_table(np.arange(6)), npartitions=2)
    for table, message in (
        (frame.drop(columns=["price"]), "Column 'price' is missing"),
        (frame.assign(said=""), "already has a column 'said'"),
        (frame.assign(age=1.5), "'age' has type double, and the model reads int32"),
    ):
        with pytest.raises(INVALID, match=message):
            model.transform(table)


def test_a_training_reads_columns_of_any_name_and_lists_of_lists(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """Names that Spark would take for fields of structs, of packed columns, of others, and of those that order rows."""
    frame = clusters.spark.range(0, 90, 1, 2).selectExpr(
        "cast(id as float) `a.b`", "2 * id `größe x`", "concat('n', id) `s.t`", "id `k.1`", "-id `o ``p`",
        "array(array(id, 1L), array(2L, 3L)) `n.n`", "cast(id as float) label",
    )  # fmt: skip

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        seen = tf.get_variable("seen", [3], tf.float32, tf.zeros_initializer(), trainable=False)
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        nested = tf.cast(tf.reduce_sum(features["n.n"][:, 0, 0]), tf.float32)
        sums = tf.stack([tf.reduce_sum(features["a.b"]), nested, tf.cast(tf.size(features["s.t"]), tf.float32)])
        p = features["a.b"] * w + tf.cast(features["größe x"] + features["s.t"], tf.float32) * 0.0
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": p})
        loss = tf.reduce_mean(tf.square(p - labels))
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, tf.assign_add(seen, sums)))

    features = ["a.b", "größe x", Column("s.t", hash_buckets=9), Column("n.n", shape=[2, 2])]
    model = tf.spark.train(
        frame, model_fn, label="label", features=features, checkpoint_dir=str(tmp_path / "out"), partition_by="k.1",
        order_by="o `p", workers=2, ps=1, batch_size=16, epochs=1, validation=0.0, uneven="join", sync=False,
    )  # fmt: skip
    assert model.variables()["seen"].tolist() == [89 * 45, 89 * 45, 90]
    assert model.transform(frame).selectExpr("sum(p)").first()[0] == 0
    none_left()


@pytest.mark.slow
def test_the_schema_of_a_spark_query() -> None:
    query = (
        "select 1Y a, array(1.5f) l, current_timestamp() t, cast(1 as decimal(9, 2)) d, 'x' s, binary('x') image, "
        "map(1, 2) m, make_ym_interval(1, 2) i"
    )
    command = [sys.executable, "-m", "sparkflow", "schema", "--spark", query, "--column", "l:shape=1,default=0"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "MASTER": "local[1]"}, timeout=280
    )
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert lines["a"] == "int8 int8 [rows] null is refused"
    assert lines["l"] == "list<element: float not null> float32 [rows, 1] null is 0"
    assert lines["t"].startswith("timestamp[us, tz=") and "us since 1970-01-01 UTC" in lines["t"]
    assert lines["d"].startswith("decimal128(9, 2) float64 [rows]")
    assert lines["s"] == "string string [rows] a training needs a vocabulary or hash_buckets, null is refused"
    assert lines["image"].startswith("binary string [rows]")
    assert lines["m"].startswith("map<int32, int32> - - which has no dtype; convert it first")
    assert lines["i"].startswith("interval year to month ")
