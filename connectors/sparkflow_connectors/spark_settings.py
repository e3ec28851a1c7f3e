"""Settings of a Spark session with which no training comes to its end: refused before anything starts."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.wire.errors import FailedPreconditionError

_IDLE = "spark.sql.execution.pyspark.udf."


def check_settings(conf: Any) -> None:
    """Raises FailedPreconditionError. conf: of the session."""
    if _is_set(conf, "spark.dynamicAllocation.enabled"):
        raise FailedPreconditionError(
            "spark.dynamicAllocation.enabled is true, with which Spark runs no barrier stage (SPARK-24942). "
            "Set it to false for this application"
        )
    idle = str(conf.get(f"{_IDLE}idleTimeoutSeconds", "0"))
    if _is_set(conf, f"{_IDLE}killOnIdleTimeout") and set(idle) & set("123456789"):
        raise FailedPreconditionError(
            f"{_IDLE}killOnIdleTimeout is true, with which Spark kills a task's Python that hands it nothing for so "
            f"long (idleTimeoutSeconds is {idle}), and a training's does at its end alone. Set it to false (as Spark "
            "has it where spark.python.worker.killOnIdleTimeout does not say otherwise)"
        )


def _is_set(conf: Any, name: str) -> bool:
    return str(conf.get(name, "false")).lower() == "true"
