"""Whether there are task slots for a training; the sessions are stand-ins, whose executors come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError

import sparkflow as tf
from sparkflow_connectors import spark_executors
from sparkflow_connectors.spark_executors import await_slots, slots_now
from sparkflow_connectors.spark_slots import SlotWatch

YARN = {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "2"}


class Session:
    """Of classic Spark. slots: of the executors that run, look by look; the last number stays."""

    def __init__(self, slots: list[int], settings: dict[str, str], parallelism: int = 200):
        self.slots, self.looks = list(slots), 0
        profiles = SimpleNamespace(defaultResourceProfile=lambda: None)
        of_jvm = SimpleNamespace(maxNumConcurrentTasks=self.count, resourceProfileManager=lambda: profiles)
        self._sc = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: of_jvm), defaultParallelism=parallelism)
        self.conf = SimpleNamespace(get=settings.get)

    def count(self, profile: Any) -> int:
        self.looks += 1
        if not self.slots:
            raise Py4JError("there is no such method")
        return self.slots.pop(0) if len(self.slots) > 1 else self.slots[0]


def test_executors_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of YARN and Kubernetes come one by one; one that was lost comes back. Refused were both."""
    monkeypatch.setattr(spark_executors, "_ASK_EVERY_S", 0.0)
    spark: Any = Session([0, 2, 4, 6], YARN)
    await_slots(spark, 5)
    assert spark.looks == 4
    unasked: Any = Session([1, 3], {"spark.master": "spark://host:7077"})
    await_slots(unasked, 3)
    assert unasked.looks == 2


@pytest.mark.parametrize(
    "settings, workers, told",
    [
        (YARN, 7, "the cluster has 6"),
        ({"spark.master": "local[2]"}, 3, "the cluster has 2"),
        ({"spark.master": "local-cluster[2, 3, 1024]", "spark.task.cpus": "2"}, 3, "the cluster has 2"),
    ],
)
def test_more_workers_than_there_will_ever_be_slots(settings: dict[str, str], workers: int, told: str) -> None:
    spark: Any = Session([2], settings)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"^{workers} workers need {workers} task slots .*{told}"):
        await_slots(spark, workers)
    assert spark.looks == 1


def test_executors_that_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_executors, "_ASK_EVERY_S", 0.0)
    monkeypatch.setattr(spark_executors, "RETURN_TIMEOUT_S", 0.0)
    for settings in (YARN, {"spark.master": "spark://host:7077"}):
        spark: Any = Session([2], settings)
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"for 0 s the executors that run have had 2\. Use"):
            await_slots(spark, 5, unasked_s=0.0)


def test_slots_are_not_what_parts_a_shuffle_has_by_default() -> None:
    settings = {"spark.master": "local[4]", "spark.task.cpus": "2"}
    spark: Any = Session([2], settings | {"spark.default.parallelism": "200"})
    assert slots_now(spark) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at once of 2 cores each \(spark.task.cpus\), and "):
        await_slots(spark, 3)
    uncounted: Any = Session([], settings, parallelism=4)
    assert slots_now(uncounted) == 2
    uncounted = Session([], settings | {"spark.default.parallelism": "200"})
    assert slots_now(uncounted) is None


def test_an_executor_that_spark_misses_late_is_waited_for_five_minutes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its host went without a word: the barrier stage was begun with its slots, and waited ten minutes "for others"."""
    now_s, slots = [0.0], [2]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    caplog.set_level("INFO", "sparkflow")
    watch = SlotWatch(lambda: "other jobs of this application that run now: 0", 2, lambda: slots[0])
    for now_s[0] in (1.0, 20.0, 90.0):
        slots[0] = 2 if now_s[0] < 50 else 1
        watch.look()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "waiting for 2 free task slots of Spark; other jobs of this application that run now: 0",
        "waiting for 2 free task slots of Spark; the executors that run have 1: others were lost",
    ]
    now_s[0] = 380.0
    watch.look()
    now_s[0] = 391.0
    with pytest.raises(
        tf.errors.FailedPreconditionError, match=r"in 301 s: its 2 tasks .*; the executors that run have 1: others"
    ):
        watch.look()
