"""What a training asks of a Spark Connect server, and what it does where none answers; the server is a stand-in."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

import sparkflow as tf
from sparkflow_connectors import launch, spark_connect
from sparkflow_connectors.spark import SparkEngine, SparkRun
from sparkflow_connectors.spark_files import parallelism, parquet_files
from sparkflow_connectors.spark_group import JobGroup
from sparkflow_connectors.spark_slots import SlotWatch, ToldStages

PLAN = "== Physical Plan ==\n*(1) Range (0, 1, step=1, splits=3)\n\n"
SCAN = (
    "== Physical Plan ==\n*(1) ColumnarToRow\n+- FileScan parquet [x#0L] Batched: true, DataFilters: [], "
    "Format: Parquet, Location: InMemoryFileIndex(1 paths)[file:/t], PartitionFilters: [], PushedFilters: [], "
    "ReadSchema: struct<x:bigint>"
)


class Connect:
    """A session of Spark Connect. `mute`: its server answers nothing, until `answers` is set."""

    def __init__(self, plan: str = PLAN, host: str = "127.0.0.1", mute: bool = False, **settings: str):
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.plan, self.mute, self.client = plan, mute, SimpleNamespace(host=host)
        self.is_stopped, self.answers, self.handlers = False, threading.Event(), list[Any]()
        self.conf = SimpleNamespace(get=self.get)

    def asked(self) -> None:
        if self.mute:
            self.answers.wait(20)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked()
        return self.settings.get(name, default)

    def range(self, *ends: int) -> Any:
        return SimpleNamespace(sparkSession=self, isStreaming=False, _explain_string=lambda: self.plan)

    def interruptTag(self, tag: str) -> None:
        self.asked()

    def addTag(self, tag: str) -> None:
        pass

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)


JOB: Any = SimpleNamespace(run_id="r", attempt=1, workers=5)


def test_slots_are_checked_before_anything_starts() -> None:
    """Spark would look for them forty times, and the training wait for ten minutes without a word."""
    spark: Any = Connect()
    assert parallelism(spark) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="5 workers need 5 task slots at once, and the cluster ha"):
        SparkEngine(spark, None, None, None).check(JOB)  # type: ignore[arg-type]
    spark.settings["spark.sql.leafNodeDefaultParallelism"] = "3"
    assert parallelism(spark) is None, "that many parts are no slots"
    assert parallelism(Connect(plan="Range of another form")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "told, other, held",
    [
        ({"stages": [(2, 0)], "inflight_tasks": 0}, False, True),
        ({"stages": [(2, 0)], "inflight_tasks": 2}, False, False),
        ({"stages": [(2, 2)], "inflight_tasks": 0}, False, False),
        ({"stages": [(2, 0)], "inflight_tasks": 0, "done": True}, False, False),
        ({"stages": None, "operation_id": "of a later client", "more": 1}, False, False),
        ({"stages": [(2, 0)], "inflight_tasks": 0}, True, False),
    ],
)
def test_a_training_knows_whether_it_waits_for_slots(told: dict[str, Any], other: bool, held: bool) -> None:
    stages = told["stages"] and [SimpleNamespace(num_tasks=n, num_completed_tasks=done) for n, done in told["stages"]]
    found = ToldStages()
    found.begin()
    if other:
        thread = threading.Thread(target=lambda: found(**{**told, "stages": stages}))
        thread.start()
        thread.join()
    else:
        found(**{**told, "stages": stages})
    assert (found.held_by() is not None) == held


def test_slots_that_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkflow_connectors.spark_slots.CLAIM_TIMEOUT_S", -1.0)
    spark: Any = Connect()
    group = JobGroup(spark, JOB)
    watch: SlotWatch = group.watch(2)
    group.enter()
    watch.look()
    spark.handlers[0](stages=[SimpleNamespace(num_tasks=2, num_completed_tasks=0)], inflight_tasks=0)
    monkeypatch.setattr(watch, "_next_s", 0.0)
    with pytest.raises(tf.errors.FailedPreconditionError, match="other jobs of the Spark Connect server may hold them"):
        watch.look()
    group.leave()
    assert not spark.handlers
    group.leave()  # where `enter` failed, say


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Its client asks it again and again for ten minutes, and so long did each end of an attempt take."""
    monkeypatch.setattr(spark_connect, "_ANSWER_S", 0.1)
    monkeypatch.setattr("sparkflow_connectors.spark._CANCEL_S", 0.1)
    spark: Any = Connect(mute=True)
    try:
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"server at 127\.0\.0\.1 has not answered"):
            SparkEngine(spark, None, None, None).driver_host()  # type: ignore[arg-type]
        run = object.__new__(SparkRun)
        run._group = JobGroup(spark, JOB)
        run._thread = threading.Thread(target=spark.answers.wait, daemon=True)
        run._thread.start()
        run.cancel()
        assert "job of the training is not cancelled: The Spark Connect server at 127.0.0.1" in caplog.text
    finally:
        spark.answers.set()


def test_a_session_that_a_server_does_not_know_any_more() -> None:
    def ask() -> None:
        raise PySparkException("The session has ended")

    with pytest.raises(
        tf.errors.FailedPreconditionError, match=r"has no such session any more \(The session has ended\)"
    ):
        spark_connect.answered(Connect(), ask)
    with pytest.raises(KeyError):
        spark_connect.answered(Connect(), lambda: {}["a mistake of ours"])


def test_a_session_that_is_stopped_is_no_failure() -> None:
    spark: Any = Connect()
    group = JobGroup(spark, JOB)
    assert not group.is_stopped()
    spark.is_stopped = True
    assert group.is_stopped()

    class Tasks:
        def collect(self) -> None:
            raise ValueError("Cannot invoke RPC: Channel closed!")

    run = object.__new__(SparkRun)
    run._group, run._error = group, None
    run._collect(Tasks())  # type: ignore[arg-type]
    with pytest.raises(launch.JobCancelled, match="the session was stopped"):
        run.ended()
    assert not spark.handlers


@pytest.mark.parametrize(
    "told, server, host",
    [("127.0.0.1", "203.0.113.9", "127.0.0.1"), ("203.0.113.9", "127.0.0.1", "127.0.0.1"), ("no.such", "::1", "[::1]")],
)
def test_tasks_reach_the_client_and_not_the_server(told: str, server: str, host: str) -> None:
    """The driver's address is of the server's machine, where a client elsewhere cannot listen."""
    assert spark_connect.driver_host(Connect(host=server, spark_driver_host=told)) == host


def test_files_that_only_the_server_sees_are_left_to_spark(tmp_path: Path) -> None:
    there = tmp_path / "t.parquet"
    frame: Any = Connect(plan=SCAN).range(1)
    frame.columns, frame.inputFiles = ["x"], lambda: [f"file://{there}"]
    assert parquet_files(frame) is None
    there.touch()
    assert parquet_files(frame) == [str(there)]
