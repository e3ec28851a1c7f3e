"""The Spark job of a training as others see it: what cancels it, and whether it gets its slots."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from sparkflow_connectors.job import Job
from sparkflow_connectors.spark_connect import answered, is_stopped
from sparkflow_connectors.spark_executors import slots_now
from sparkflow_connectors.spark_slots import SlotWatch, ToldStages, TrackedStages


class JobGroup:
    """What lets one thread cancel another's Spark job: a job group, or a tag over Connect.

    (A session's tags cancel nothing in classic Spark, and Connect has no job groups.) Where the thread that trains has
    a group, as each cell of some notebooks, the job stays in that, so that it ends with it, and has a tag of its own.
    """

    def __init__(self, spark: SparkSession, job: Job):
        """From the thread that trains."""
        self._spark, self._context = spark, getattr(spark, "_sc", None)
        self.name = f"sparkflow-{job.run_id}"
        self._title = f"sparkflow training {job.run_id}, attempt {job.attempt}"
        self._callers = None if self._context is None else self._context.getLocalProperty("spark.jobGroup.id")
        self._told: Any = ToldStages()  # over Connect

    def thread(self, **options: Any) -> threading.Thread:
        """A thread with a JVM thread of its own in classic Spark, which is what a job group belongs to."""
        return InheritableThread(**options) if self._context is not None else threading.Thread(**options)

    def watch(self, workers: int) -> SlotWatch:
        if self._context is None:
            return SlotWatch(self._told.held_by, workers)
        stages = TrackedStages(self._context.statusTracker(), self._callers or self.name)
        return SlotWatch(stages.held_by, workers, partial(slots_now, self._spark))

    def enter(self) -> None:
        """From the thread that runs the job."""
        if self._context is None:
            self._spark.addTag(self.name)
            self._told.begin()
            self._spark.registerProgressHandler(self._told)
        elif self._callers is None:
            self._context.setJobGroup(self.name, self._title, interruptOnCancel=True)
        else:
            self._context.addJobTag(self.name)
            self._context.setInterruptOnCancel(True)

    def leave(self) -> None:
        """From the same thread, when the job is over."""
        if self._context is None:
            with contextlib.suppress(ValueError):  # `enter` failed
                self._spark.removeProgressHandler(self._told)

    def is_stopped(self) -> bool:
        """Whether the session is: any error may tell so."""
        return is_stopped(self._spark)

    def cancel(self, timeout_s: float) -> None:
        """Raises FailedPreconditionError where a server of Spark Connect does not answer within `timeout_s`."""
        if self.is_stopped():
            return
        if self._context is None:
            answered(self._spark, lambda: self._spark.interruptTag(self.name), timeout_s)
        elif self._callers is None:
            self._context.cancelJobGroup(self.name)
        else:
            self._context.cancelJobsWithTag(self.name)
