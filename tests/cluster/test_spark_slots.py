"""A Spark cluster whose task slots are held by others: what a training says, and when it gives up."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import spark_slots


@pytest.fixture
def held(clusters: Any, tmp_path: Path) -> Iterator[Path]:
    """Both slots are taken, until the file is there."""
    free = tmp_path / "free"

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (free.parent / f"holds-{next(iter(batches)).column(0)[0]}").touch()
        deadline = time.monotonic() + 120
        while not free.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from ()

    rows = clusters.spark.range(0, 2, 1, 2).mapInArrow(hold, "id long")
    thread = threading.Thread(target=rows.collect, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("holds-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    yield free
    free.touch()
    thread.join(60)


class Freeing(logging.Handler):
    """Gives the slots back as soon as the training says that it waits."""

    def __init__(self, free: Path) -> None:
        super().__init__()
        self.free, self.said = free, ""

    def emit(self, record: logging.LogRecord) -> None:
        if "free task slots" in record.getMessage() and not self.said:
            self.said = record.getMessage()
            self.free.touch()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_slots, "_FIRST_WORD_S", 0.0)


@pytest.mark.slow
def test_a_training_says_that_it_waits_for_slots(
    clusters: Any, table: pa.Table, tmp_path: Path, held: Path, at_once: None, none_left: Any
) -> None:
    logger, handler = logging.getLogger("sparkflow"), Freeing(held)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        model = clusters.train("spark", table, tmp_path / "out")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert handler.said == "waiting for 2 free task slots of Spark; other jobs of this application that run now: 1"
    assert model.figures["attempts"] == 1
    none_left()


def test_slots_that_never_come_are_an_error(
    clusters: Any, table: pa.Table, tmp_path: Path, held: Path, monkeypatch: pytest.MonkeyPatch, none_left: Any
) -> None:
    monkeypatch.setattr(spark_slots, "CLAIM_TIMEOUT_S", 2.0)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"Spark ran no task of this training in \d+ s: its 2 "):
        clusters.train("spark", table, tmp_path / "out")
    assert not (tmp_path / "out").exists(), "nothing half-written"
    tracker = clusters.spark.sparkContext.statusTracker()
    assert len(tracker.getActiveJobsIds()) == 1, "the training's job is cancelled, the other one is not"
    none_left()


@pytest.mark.soak
def test_a_task_whose_python_stands_still_is_an_error(
    clusters: Any, table: pa.Table, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Spark waits for it without an end, and so did the other worker, which knows nobody yet."""
    pid = lambda batches: [pa.record_batch({"id": [os.getpid()]}) for _ in batches]  # noqa: E731
    used = clusters.spark.range(0, 2, 1, 2).mapInArrow(pid, "id long", barrier=True).collect()[0].id
    daemon = psutil.Process(used).ppid()  # of an executor, which takes any of its forks for the next task
    stopped = [python for python in _idle_pythons() if python.ppid() == daemon]
    monkeypatch.setattr(spark_slots, "_BEGIN_S", 10.0)
    try:
        for python in stopped:
            os.kill(python.pid, signal.SIGSTOP)
        with caplog.at_level("INFO", "sparkflow"):
            model = clusters.train("spark", table, tmp_path / "out", order_by=None)
    finally:
        for python in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # Spark has ended it with the attempt
                python.kill()
    assert "Spark runs their tasks, and their Python says nothing yet" in caplog.text
    assert re.search(r"workers \d did not begin within 10 s of the others in their barrier stage", caplog.text)
    assert model.figures["attempts"] > 1


def _idle_pythons() -> list[psutil.Process]:
    """Those that Spark keeps for its next tasks: forks of a daemon of each executor."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie, too
            if "pyspark.daemon" in " ".join(process.cmdline()):
                found.append(process)
    return [p for p in found if p.ppid() in {daemon.pid for daemon in found}]


PARALLEL = """
from tests.cluster.conftest import small_model, small_table
from sparkflow_connectors.java import ensure_java
import sparkflow as tf
from pyspark.sql import SparkSession

ensure_java()
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.default.parallelism", "200").getOrCreate()
rows = spark.createDataFrame(small_table(9))
for session in ("runs", "was stopped"):
    try:
        tf.spark.train(rows, small_model(), label="late", workers=2, checkpoint_dir="/none")
    except tf.errors.OpError as error:
        print(type(error).__name__, error.message)
    spark.stop()
"""


@pytest.mark.slow
def test_a_default_parallelism_is_no_number_of_slots_and_a_stopped_session_is_told() -> None:
    """By the first, a training of too many workers began, and Spark refused it ten minutes later without a word."""
    command = [sys.executable, "-c", PARALLEL]
    found = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert not found.returncode, found.stderr
    slots, stopped = found.stdout.splitlines()
    assert re.match("InvalidArgumentError 2 workers need 2 task slots at once, and the cluster has 1. Use", slots)
    assert stopped.startswith("FailedPreconditionError The Spark session of this DataFrame was stopped. Make a new")
