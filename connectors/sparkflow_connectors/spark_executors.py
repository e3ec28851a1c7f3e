"""Whether Spark's executors have a task slot for each worker of a training.

Spark checks a barrier stage against the slots of all its executors too, but only every 15 seconds, forty times, and
without a word: executors that are still to come, or to come back after a loss, are better waited for here, and a number
that there will never be is better refused.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from sparkflow_connectors.spark_files import parallelism
from sparkflow_connectors.waiting import RETURN_TIMEOUT_S, Patience
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError

UNASKED_TIMEOUT_S = 30.0  # where the cluster alone knows how many there will be
_ASK_EVERY_S = 0.2
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,")

log = logging.getLogger("sparkflow")


def await_slots(spark: SparkSession, workers: int, unasked_s: float = UNASKED_TIMEOUT_S) -> None:
    """Return when there are so many. unasked_s: how long to wait where it is not known how many there will be.

    Raises InvalidArgumentError where there will never be, FailedPreconditionError where they do not come in time.
    """
    patience = Patience()
    while (slots := slots_now(spark)) is not None and slots < workers:
        most = most_slots(spark, slots)
        if most is not None and most < workers:
            raise InvalidArgumentError(_too_few(spark, workers, f"the cluster has {max(slots, most)}"))
        waited_s = patience.waited_s("executors")
        if waited_s > (unasked_s if most is None else RETURN_TIMEOUT_S):
            raise FailedPreconditionError(
                _too_few(spark, workers, f"for {waited_s:.0f} s the executors that run have had {slots}")
            )
        patience.say("waiting for Spark's executors: they have %d task slots, %d are needed", slots, workers)
        time.sleep(_ASK_EVERY_S)


def _too_few(spark: SparkSession, workers: int, there: str) -> str:
    cpus = _task_cpus(spark)
    each = f" of {cpus} cores each (spark.task.cpus)" if cpus > 1 else ""
    return (
        f"{workers} workers need {workers} task slots at once{each}, and {there}. Use fewer workers, or give the "
        "application more cores (spark.executor.instances x spark.executor.cores, or local[N])"
    )


def slots_now(spark: SparkSession) -> int | None:
    """Of the executors that run, busy or not, as Spark counts them for a barrier stage; None where it does not tell.

    `defaultParallelism` is another number where spark.default.parallelism or spark.task.cpus is set.
    """
    context = getattr(spark, "_sc", None)
    if context is not None:
        of_jvm: Any = context._jsc.sc()
        try:
            return int(of_jvm.maxNumConcurrentTasks(of_jvm.resourceProfileManager().defaultResourceProfile()))
        except Py4JError:  # a Spark that counts otherwise
            pass
    if _conf(spark, "spark.default.parallelism") is not None:
        return None
    cores = parallelism(spark)
    return None if cores is None else cores // _task_cpus(spark)


def most_slots(spark: SparkSession, now: int) -> int | None:
    """How many there will be at the most, as far as the application's settings tell; None where they do not."""
    master, cpus = _conf(spark, "spark.master") or "local", _task_cpus(spark)
    if (asked := _LOCAL_CLUSTER.match(master)) is not None:
        return int(asked[1]) * (int(asked[2]) // cpus)
    if master.startswith("local"):
        return now
    executors, cores = _conf(spark, "spark.executor.instances"), _conf(spark, "spark.executor.cores")
    return None if executors is None or cores is None else int(executors) * (int(cores) // cpus)


def _task_cpus(spark: SparkSession) -> int:
    return int(_conf(spark, "spark.task.cpus") or 1)


def _conf(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)
