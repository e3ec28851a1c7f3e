"""What tasks leave out of damaged record files, told at the driver."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf

LOGGING = "spark.sql.pyspark.worker.logging.enabled"
ROWS, FILES = 100, 4


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> str:
    """Files of 25 records; of the second one is damaged, of the third two are, and the last has lost its last one."""
    tf.local.to_tfrecord(pa.table({"x": range(ROWS)}), str(tmp_path / "out"), rows_per_file=ROWS // FILES)
    for path, places in zip(files(str(tmp_path / "out")), ([], [3], [5, 9], [])):
        data = bytearray(path.read_bytes())
        size = len(data) // (ROWS // FILES)
        for place in places:
            data[place * size + 14] ^= 255
        path.write_bytes(data if path != files(str(tmp_path / "out"))[-1] else data[:-size])
    return str(tmp_path / "out")


def files(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("part-*"))


def expected(folder: str) -> dict[str, int]:
    return dict(zip(map(str, files(folder)[1:]), [1, 2, 1], strict=True))


def said(caplog: pytest.LogCaptureFixture) -> dict[str, int]:
    told = (record.getMessage().split(": ", 1) for record in caplog.records if record.name == "sparkflow")
    return {path: int(what.split()[0]) for path, what in told}


@pytest.mark.slow
def test_of_a_spark_job(clusters: Any, folder: str) -> None:
    spark = clusters.spark
    frame = spark.read.format("tfrecord").option("onError", "skip").load(folder)
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"{LOGGING} is not true"):
        tf.spark.damaged_records(spark)
    spark.conf.set(LOGGING, "true")
    try:
        assert frame.count() == 96 and frame.repartition(3).count() == 96
        assert tf.spark.damaged_records(spark) == expected(folder), "those of the last reading"
    finally:
        spark.conf.unset(LOGGING)


def test_of_dask_workers(clusters: Any, folder: str, caplog: pytest.LogCaptureFixture) -> None:
    client = clusters.dask
    with caplog.at_level(logging.WARNING, "sparkflow"):
        frame = tf.dask.read_tfrecord(folder, on_error="skip")
        assert len(frame) == 96
        deadline = time.monotonic() + 10
        while len(said(caplog)) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert said(caplog) == expected(folder)
    assert len(frame.compute()) == 96
    assert tf.dask.damaged_records(client) == expected(folder)
    counts = tf.local.Counts()
    assert tf.local.read_tfrecord(folder, counts=counts, on_error="skip").num_rows == 96 and counts.damaged == 4
    assert frame.compute(scheduler="sync")["x"].sum() == sum(range(ROWS)) - 28 - 55 - 59 - 99, "without a cluster too"
