"""Streaming DataFrames: each micro-batch is trained on once, by a stream that is stopped and begun again too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from sparkflow_connectors.ledger import saved_epoch
from tests.cluster.test_exactly_once import counting_model

ROWS, FILES = 900, 3
NOW = {"availableNow": True}


def write(folder: Path, number: int) -> None:
    """The rows that are `number` modulo FILES."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"row": np.arange(number, ROWS, FILES)}), folder / f"{number}.parquet")


def streamed(clusters: Any, folder: Path, notes: Path, kill: list[int], **options: Any) -> Any:
    notes.mkdir(exist_ok=True)
    source = clusters.spark.readStream.schema("row long").option("maxFilesPerTrigger", 1).parquet(str(folder / "table"))
    usual: dict[str, Any] = {
        "workers": 2,
        "ps": 2,
        "sync": True,
        "batch_size": 16,
        "uneven": "join",
        "checkpoint_s": 0.02,
    }
    params = {"rows": ROWS, "kill": kill, "notes": str(notes), "strategy": "ps"}
    usual |= {"checkpoint_dir": str(folder / "checkpoints"), "trigger": NOW, "params": params}
    return tf.spark.train_stream(source, counting_model(), label=None, features=["row"], **{**usual, **options})


def uses(model: Any) -> np.ndarray:
    return -tf.train.load_variable(model.figures["checkpoint"], "uses")


def test_each_micro_batch_is_used_once(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    write(tmp_path / "table", 0)
    write(tmp_path / "table", 1)
    seen = []
    first = streamed(clusters, tmp_path, tmp_path / "notes", [14], on_model=lambda m: seen.append(uses(m)))
    first.awaitTermination()
    assert [sorted(np.unique(used)) for used in seen] == [[0, 1], [0, 1]]
    assert [int(used.sum()) for used in seen] == [300, 600]
    assert saved_epoch(str(tmp_path / "checkpoints")) == 2
    write(tmp_path / "table", 2)
    second = streamed(clusters, tmp_path, tmp_path / "notes", [14])
    second.awaitTermination()
    assert (uses(second.model) == 1).all()
    none_left()


@pytest.mark.slow
@pytest.mark.parametrize(("uneven", "few"), [("join", 1), ("drop", 10)])
def test_a_small_micro_batch_is_no_end(
    clusters: Any, tmp_path: Path, none_left: Any, caplog: Any, uneven: str, few: int
) -> None:
    """One row for two workers; fewer than a batch where only full ones are used."""
    (tmp_path / "table").mkdir()
    for at, rows in enumerate(np.split(np.arange(96), [32, 32 + few])):
        path = tmp_path / "table" / f"{at}.parquet"
        pq.write_table(pa.table({"row": rows}), path)
        os.utime(path, (at + 1, at + 1))  # Spark takes the oldest first
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [], uneven=uneven)
    stream.awaitTermination()
    used = uses(stream.model)[:96]
    assert (used[:32] == 1).all() and saved_epoch(str(tmp_path / "checkpoints")) == 3
    if uneven == "join":
        assert (used == 1).all()
    else:
        assert not used[32:42].any() and used[42:].sum() == 32 and used.max() == 1
        assert "micro-batch 1 is passed over: worker" in caplog.text and "no full batch of 16 rows" in caplog.text
    none_left()


@pytest.mark.slow
def test_what_ends_a_training_ends_the_stream_and_is_raised(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    write(tmp_path / "table", 0)
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [4], max_restarts=0)
    with pytest.raises(tf.errors.UnavailableError, match="worker 1"):
        stream.awaitTermination()
    assert not stream.query.isActive
    again = streamed(clusters, tmp_path, tmp_path / "notes", [4])
    again.awaitTermination()
    assert uses(again.model)[::FILES].tolist() == [1] * 300, "it goes on at the row where it was"
    none_left()


@pytest.mark.slow
def test_a_stream_that_somebody_stops_has_ended(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """What it was at work on is cancelled by that, which Spark tells as an error of its query."""
    write(tmp_path / "table", 0)
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [], batch_size=1)
    deadline = time.monotonic() + 60
    while not (tmp_path / "checkpoints" / "checkpoint").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    stream.stop()
    assert stream.awaitTermination(30) is True
    assert stream.awaitTermination() is True and stream.model is None
    again = streamed(clusters, tmp_path, tmp_path / "notes", [], batch_size=1)
    again.awaitTermination()
    assert uses(again.model)[::FILES].tolist() == [1] * 300
    none_left()


@pytest.mark.slow
def test_rows_that_a_stream_would_pass_over(clusters: Any, tmp_path: Path, caplog: Any) -> None:
    """Epochs of a training that was no stream, in the same folder, would pass for micro-batches."""
    write(tmp_path / "table", 0)
    streamed(clusters, tmp_path, tmp_path / "notes", []).awaitTermination()
    again = streamed(clusters, tmp_path, tmp_path / "notes", [])
    again.awaitTermination()
    assert again.model.figures["examples"] == 0 and uses(again.model).sum() == 300, "there is nothing new"
    checkpoints = tmp_path / "checkpoints"
    tf.local.train(
        pa.table({"row": np.arange(99)}), counting_model(), label=None, features=["row"], epochs=3, validation=0.0,
        checkpoint_dir=str(checkpoints), params={"rows": ROWS, "kill": [], "notes": "", "strategy": "ps"},
    )  # fmt: skip
    write(tmp_path / "table", 1)
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="made 3 epochs and its stream has begun 1 micro-batches"
    ):
        streamed(clusters, tmp_path, tmp_path / "notes", [])
    for path in [*checkpoints.glob("model*"), checkpoints / "checkpoint"]:
        path.unlink()
    streamed(clusters, tmp_path, tmp_path / "notes", []).query.stop()
    assert "its stream has 1 micro-batches behind it: the model begins anew" in caplog.text


def test_a_folder_of_the_machine_where_spark_has_another_store(
    clusters: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would look for its notes in its own; ~ and spaces are what they are for `train`."""
    monkeypatch.setenv("HOME", str(tmp_path / "a home"))
    write(tmp_path / "table", 0)
    clusters.spark.conf.set("fs.defaultFS", "hdfs://nobody.invalid:1")
    source = clusters.spark.readStream.schema("row long").parquet(f"file://{tmp_path}/table")
    try:
        stream = tf.spark.train_stream(
            source, counting_model(), label=None, checkpoint_dir="~/c", trigger=NOW, uneven="join", workers=2,
            params={"rows": ROWS, "kill": [], "notes": "", "strategy": "ps"},
        )  # fmt: skip
        stream.awaitTermination()
    finally:
        clusters.spark.conf.unset("fs.defaultFS")
    assert saved_epoch(str(tmp_path / "a home" / "c")) == 1
    assert (tmp_path / "a home" / "c" / "stream" / "offsets" / "0").exists()


def test_what_a_stream_cannot_be_is_refused(clusters: Any, tmp_path: Path) -> None:
    table = clusters.spark.createDataFrame(pa.table({"row": [1, 2]}))
    with pytest.raises(tf.errors.InvalidArgumentError, match="for a streaming DataFrame"):
        tf.spark.train_stream(table, counting_model(), label=None, checkpoint_dir=str(tmp_path))
    (tmp_path / "table").mkdir()
    with pytest.raises(tf.errors.InvalidArgumentError, match="train_stream has no epochs"):
        streamed(clusters, tmp_path, tmp_path / "notes", [], epochs=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Column 'no' is missing"):
        tf.spark.train_stream(
            clusters.spark.readStream.schema("row long").parquet(str(tmp_path / "table")),
            counting_model(), label=None, features=["no"], checkpoint_dir=str(tmp_path),
        )  # fmt: skip
    for name, value, said in (
        ("batchsize", 3, "did you mean 'batch_size'"),
        ("order_by", "no", "no"),
        ("slots", "2", "slots must be a whole number of at least 1, got .2."),
        ("read_files", "no", "read_files must be True or False, got .no."),
        ("on_model", 3, "on_model must be a function"),
        ("trigger", {"now": True}, "trigger={'now': True} is none that"),
        ("trigger", {"processingTime": "soon"}, "Unrecognized number soon"),
        ("checkpoint_dir", "s3://bucket/x", "got the URL"),
        ("checkpoint_dir", None, "must be the path of a directory, got None"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            streamed(clusters, tmp_path, tmp_path / "notes", [], **{name: value})
    assert not (tmp_path / "checkpoints").exists()


def test_a_file_without_the_column_is_named(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """To Spark it is a file full of nulls."""
    write(tmp_path / "table", 0)
    renamed = tmp_path / "table" / "renamed.parquet"
    pq.write_table(pa.table({"line": np.arange(50)}), renamed)
    os.utime(renamed, (1 << 31, 1 << 31))  # Spark takes the oldest first
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Column 'row' .*is null at ") as told:
        stream.awaitTermination()
    assert f"These nulls are in file://{renamed}: files that lack the column, or call it otherwise" in str(told.value)
    assert uses(stream.model).sum() == 300 and not stream.query.isActive
    none_left()


@pytest.mark.slow
def test_a_file_with_nan_is_named(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    (tmp_path / "table").mkdir()
    for name, odd in [("good", 1.0), ("bad", float("nan"))]:
        columns = {"x": np.ones(40), "y": np.ones(40), "list": [[1.0, odd]] * 40}
        pq.write_table(pa.table(columns), tmp_path / "table" / f"{name}.parquet")

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        p = tf.get_variable("w", [], tf.float64) * features["x"] + tf.reduce_sum(features["list"], 1)
        loss = tf.reduce_mean(tf.square(p - (0.0 if labels is None else labels)))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions={"p": p}, loss=loss, train_op=step)

    source = clusters.spark.readStream.schema("x double, y double, list array<double>").parquet(str(tmp_path / "table"))
    stream = tf.spark.train_stream(
        source, model_fn, label="y", features=["x", tf.spark.Column("list", shape=[2])], sync=False, trigger=NOW,
        checkpoint_dir=str(tmp_path / "checkpoints"),
    )  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="column 'list' in ") as told:
        stream.awaitTermination()
    assert str(told.value).endswith(f"Such rows are in file://{tmp_path}/table/bad.parquet")
    none_left()


def test_a_file_that_is_gone_is_named(clusters: Any, tmp_path: Path, none_left: Any) -> None:
    """Spark would read what is left of the micro-batch. The name has what URLs have other signs for."""
    table, aside = tmp_path / "table", tmp_path / "aside"
    write(table, 0)
    later = table / "é 1%.parquet"
    pq.write_table(pa.table({"row": np.arange(1, ROWS, FILES)}), later)
    os.utime(later, (1 << 31, 1 << 31))  # Spark takes the oldest first
    stream = streamed(clusters, tmp_path, tmp_path / "notes", [], on_model=lambda model: later.rename(aside))
    with pytest.raises(
        tf.errors.NotFoundError, match=r"micro-batch 1: of its files 1 are gone .*\.parquet\), and their"
    ):
        stream.awaitTermination()
    assert uses(stream.model).sum() == 300
    aside.rename(later)
    again = streamed(clusters, tmp_path, tmp_path / "notes", [])
    again.awaitTermination()
    assert uses(again.model).tolist() == [1, 1, 0] * (ROWS // FILES)
    none_left()


def test_a_stream_goes_on_with_the_columns_it_began_with(clusters: Any, tmp_path: Path) -> None:
    """Other ones would be another model, in variables of the same names."""

    def begin(features: list[Any], of: str = "row", **options: Any) -> Any:
        source = clusters.spark.readStream.schema("row long").parquet(str(tmp_path / "table")).selectExpr(of)
        given = {"checkpoint_dir": str(tmp_path / "checkpoints"), "trigger": NOW, "label": None, "uneven": "join"}
        return tf.spark.train_stream(source, _of_one_column(), features=features, **{**given, **options})

    write(tmp_path / "table", 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="trigger="):
        begin(["row"], trigger={"now": True})
    assert not (tmp_path / "checkpoints").exists()
    begin(["row"]).awaitTermination()
    write(tmp_path / "table", 1)
    refused: list[tuple[list[Any], str, str]] = [
        (["line"], "row as line", r"'row' \(features\) as numbers, and this stream reads it not at all"),
        ([tf.spark.Column("row", hash_buckets=9)], "row", "as numbers, .* reads it as hashes modulo 9"),
        (["row"], "timestamp_micros(row) row", "as numbers, .* reads it as us"),
    ]
    for features, of, message in refused:
        with pytest.raises(tf.errors.FailedPreconditionError, match=message):
            begin(features, of)
    rate = clusters.spark.readStream.format("rate").load().selectExpr("value row")
    other = tf.spark.train_stream(
        rate, _of_one_column(), label=None, features=["row"], checkpoint_dir=str(tmp_path / "checkpoints"), trigger=NOW
    )
    with pytest.raises(Exception, match=r"For input string|STREAM_FAILED") as told:
        other.awaitTermination()
    assert "this DataFrame reads another source" in told.value.__notes__[0]
    wider = begin(["row"], "cast(row as double) row")
    wider.awaitTermination()
    assert tf.train.load_variable(wider.model.figures["checkpoint"], "sum") == sum(
        row for row in range(ROWS) if row % 3 < 2
    )


def _of_one_column() -> Any:
    """A model whose variable, which the column is summed in, has the same name whatever the column's is."""

    def model_fn(features: dict[str, Any], labels: Any, mode: str) -> Any:
        (column,) = features.values()
        total = tf.get_variable("sum", [], tf.float64, tf.zeros_initializer())
        x = tf.cast(column, tf.float64)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=x * total)
        loss = -total * tf.reduce_sum(x)
        step = tf.train.GradientDescentOptimizer(1.0)
        step = tf.train.SyncReplicasOptimizer(step, 1, 1)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=step.minimize(loss, tf.train.get_global_step()),
            training_hooks=[step.make_session_run_hook(True, num_tokens=0)],
        )  # fmt: skip

    return model_fn
