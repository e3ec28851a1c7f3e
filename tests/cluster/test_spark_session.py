"""A Spark session as people use it: jobs that are cancelled, threads that train at once, tables with odd columns."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread

import sparkflow as tf
from sparkflow_connectors.spark_files import plan_of
from sparkflow_connectors.spark_schema import arrow_schema


def slow_model() -> Callable[..., Any]:
    """params: note, a file that says that the first step is there; steps wait from then on."""

    def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any]) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": features["x"] * w})
        loss = tf.reduce_mean(tf.square(features["x"] * w - labels))

        class Wait(tf.train.SessionRunHook):
            def after_run(self, run_context: Any, run_values: Any) -> None:
                open(params["note"], "a").close()
                time.sleep(0.2)
                if params.get("raises"):
                    time.sleep(2)
                    raise RuntimeError("of the model")

        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Wait()])

    return model_fn


def test_a_training_that_is_cancelled_in_spark_is_not_begun_anew(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    note = tmp_path / "note"

    def cancel() -> None:
        deadline = time.monotonic() + 100
        while not note.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        clusters.spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(
        tf.errors.CancelledError, match=r"^Spark's job of the training was cancelled: Job \d+ cancelled"
    ):
        clusters.train(
            "spark",
            table,
            tmp_path / "out",
            model_fn=slow_model(),
            params={"note": str(note)},
            sync=False,
            batch_size=8,
        )
    thread.join()
    assert not clusters.spark.sparkContext.statusTracker().getActiveJobsIds()
    none_left()


@pytest.mark.parametrize("whose", ["callers", pytest.param("own", marks=pytest.mark.slow)])
def test_a_training_in_a_job_group_of_its_caller(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any, whose: str
) -> None:
    """As each cell of some notebooks has one. It ends with that, and its own end leaves the others of the group."""
    context, ended = clusters.spark.sparkContext, list[BaseException]()
    options = {"workers": 1, "ps": 1, "sync": False, "batch_size": 8, "epochs": 50}

    def train(name: str, raises: int) -> None:
        context.setJobGroup("of a cell", "a cell")
        params = {"note": str(tmp_path / name), "raises": raises}
        try:
            clusters.train("spark", table, tmp_path / f"out-{name}", model_fn=slow_model(), params=params, **options)
        except BaseException as error:
            ended.append(error)

    threads = [
        InheritableThread(target=train, args=(n, f), daemon=True) for n, f in (("a", whose == "own"), ("b", False))
    ]
    for thread in threads:
        thread.start()
    _until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
    if whose == "own":
        threads[0].join(60)
        assert [type(error) for error in ended] == [tf.errors.InternalError] and "of the model" in str(ended[0])
        time.sleep(2)
        assert threads[1].is_alive()
    context.cancelJobGroup("of a cell")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(ended) == 2 and isinstance(ended[1], tf.errors.CancelledError), ended
    none_left()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_plans_of_two_threads_leave_the_output_alone(
    clusters: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, out = clusters.spark.range(3), sys.stdout
    plans: list[str] = []
    threads = [threading.Thread(target=lambda: plans.extend(plan_of(frame) for _ in range(10))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        print(".", end="")
    assert sys.stdout is out and set(capsys.readouterr().out) == {"."}
    assert len(plans) == 40 and len(set(plans)) == 1 and plans[0].startswith("== Physical Plan ==")


def test_columns_of_types_that_arrow_has_not(clusters: Any, tmp_path: Path) -> None:
    """Of array() and map() the elements are void, and said to be never null."""
    frame = clusters.spark.sql("select 1.5f x, array() a, map() m, array(array()) b, null n")
    assert [kind.type_name for kind in arrow_schema(frame).types[1:4]] == [
        "array<void>", "map<void,void>", "array<array<void>>"
    ]  # fmt: skip
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.float32, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"twice": 2.0 * x})
    scored = tf.spark.load_model(str(tmp_path / "m")).transform(frame)
    assert scored.first() == (1.5, [], {}, [[]], None, 3.0)


@pytest.mark.parametrize(
    "value, kind",
    [
        ("array()", "array<void>"),
        ("array(parse_json('1'))", "array<variant>"),
        ("named_struct('v', parse_json('1'))", "struct<v:variant>"),
        ("parse_json('1')", "variant"),
    ],
)
def test_types_that_no_record_has(clusters: Any, tmp_path: Path, value: str, kind: str) -> None:
    frame = clusters.spark.sql(f"select 1 y, {value} x")
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(f"column 'x': {kind} cannot be written")):
        frame.write.format("tfrecord").mode("append").save(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists(), "nothing half-written"


def test_an_order_that_no_task_gets(clusters: Any, tmp_path: Path) -> None:
    frame = clusters.spark.sql("select id x, make_ym_interval(0, cast(id as int)) since, map(id, 1) m from range(9)")
    for order_by, message in (
        ("since", "'since' has type interval year to month, which no task"),
        ("m", r"'m' has type map<bigint,int>, by which rows cannot be sorted\. Name a column"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            tf.spark.train(
                frame, slow_model(), label=None, features=["x"], order_by=order_by, checkpoint_dir=str(tmp_path / "out")
            )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "session, options, left",
    [
        pytest.param("dynamic", {}, [0, 2, 7], marks=pytest.mark.slow),
        ("static", {}, [7]),
        pytest.param("static", {"partitionOverwriteMode": "DYNAMIC"}, [0, 2, 7], marks=pytest.mark.slow),
        ("dynamic", {"partitionOverwriteMode": "static"}, [7]),
    ],
)
def test_overwriting_partitions_as_the_session_says(
    clusters: Any, tmp_path: Path, session: str, options: dict[str, str], left: list[int]
) -> None:
    spark, path = clusters.spark, str(tmp_path / "out")
    tf.local.to_tfrecord(pa.table({"id": range(3), "day": [0, 1, 2]}), path, partition_by=["day"])
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", session)
    try:
        writer = spark.sql("select 7L id, 1L day").write.format("tfrecord").mode("overwrite")
        writer.options(partitionBy="day", **options).save(path)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(tf.local.read_tfrecord(path)["id"].to_pylist()) == left


def test_a_stream_is_for_train_stream(clusters: Any, tmp_path: Path) -> None:
    stream = clusters.spark.readStream.format("rate").load()
    with pytest.raises(tf.errors.InvalidArgumentError, match="train_stream is for streaming ones"):
        tf.spark.train(stream, slow_model(), label=None, features=["value"], checkpoint_dir=str(tmp_path / "out"))


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow optimization")
@pytest.mark.parametrize("act", ["toPandas", pytest.param("collect", marks=pytest.mark.slow)])
def test_files_that_are_gone_before_they_are_scored(clusters: Any, tmp_path: Path, act: str) -> None:
    """Spark, which reads them as they have more columns than the model reads, told it by an error of Py4J's."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.float64, [None], name="x")
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"twice": x * 2})
    (tmp_path / "table").mkdir()
    for i in range(2):
        pq.write_table(pa.table({name: [1.0, 2.0] for name in "xyzvw"}), tmp_path / "table" / f"{i}.parquet")
    rows = clusters.spark.read.parquet(str(tmp_path / "table"))
    scored = tf.spark.load_model(str(tmp_path / "m")).transform(rows)
    (tmp_path / "table" / "1.parquet").unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"table/1\.parquet: Spark cannot read the file: .* not exist"):
        getattr(scored, act)()
    with pytest.raises(Py4JJavaError):
        getattr(rows, act)()  # what runs no function of ours stays Spark's
