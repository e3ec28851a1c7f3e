"""The types of a Spark DataFrame's columns as its tasks get them."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas import types


def arrow_schema(df: Any) -> pa.Schema:
    """In Arrow; a type that Spark gives no Python task is named and has no dtype."""
    to_arrow: Any = types.to_arrow_type
    zone = {"timezone": df.sparkSession.conf.get("spark.sql.session.timeZone")}
    known = inspect.signature(to_arrow).parameters
    options = {name: value for name, value in zone.items() if name in known}  # Spark 4.1 takes none: it says UTC

    def of(kind: Any) -> pa.DataType:
        try:
            return to_arrow(kind, **options)
        except PySparkException:
            return pa.opaque(pa.null(), kind.simpleString(), "spark")

    return pa.schema([pa.field(f.name, of(f.dataType), f.nullable) for f in df.schema.fields])
