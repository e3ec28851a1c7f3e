"""Settings of a Spark session that would end every training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

import sparkflow as tf
from sparkflow_connectors.spark import SparkEngine

IDLE = "spark.sql.execution.pyspark.udf."


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"spark.dynamicAllocation.enabled": "true"}, r"spark\.dynamicAllocation\.enabled is true, .* Set it to false"),
        (
            {f"{IDLE}killOnIdleTimeout": "true", f"{IDLE}idleTimeoutSeconds": "60"},
            r"killOnIdleTimeout is true, .* \(idleTimeoutSeconds is 60\), .* Set it to false",
        ),
        ({f"{IDLE}killOnIdleTimeout": "true", f"{IDLE}idleTimeoutSeconds": "0s"}, None),
        ({f"{IDLE}killOnIdleTimeout": "false", f"{IDLE}idleTimeoutSeconds": "60"}, None),
        ({"spark.dynamicAllocation.enabled": "false"}, None),
    ],
)
def test_what_would_end_a_training_is_refused_before(settings: dict[str, str], message: str | None) -> None:
    session, job = SimpleNamespace(conf=SimpleNamespace(get=settings.get)), SimpleNamespace(workers=2)
    engine = SparkEngine(cast(Any, session), cast(Any, None), 2, cast(Any, None))
    if message is None:
        engine.check(cast(Any, job))
    else:
        with pytest.raises(tf.errors.FailedPreconditionError, match=message):
            engine.check(cast(Any, job))
