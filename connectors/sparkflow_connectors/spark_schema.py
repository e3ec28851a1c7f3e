"""The types of a Spark DataFrame's columns as its tasks get them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas import types

from sparkflow_connectors.packing import quoted
from sparkflow_connectors.schema import VECTOR_LENGTH, unsortable
from sparkflow_connectors.spark_connect import is_stopped
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError


def in_zone(convert: Callable[..., Any], zone: str | None) -> Callable[..., Any]:
    """One of Spark's functions that say a type in Arrow, with timestamps in that zone; Spark 4.1's know UTC alone."""
    return partial(convert, timezone=zone) if "timezone" in inspect.signature(convert).parameters else convert


def check_frame(df: Any) -> None:
    """Raises InvalidArgumentError on anything but a DataFrame of Spark."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidArgumentError(
            f"Expected a Spark DataFrame, got {type(df).__module__}.{type(df).__name__}. Pandas DataFrames and Arrow "
            "tables become one by spark.createDataFrame, or are for tf.local"
        )


def is_case_sensitive(df: Any) -> bool:
    return str(df.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def check_case(df: Any, names: Iterable[str]) -> None:
    """Raises InvalidArgumentError where Spark, to which Price and price are one name, takes another column for one of
    the model's."""
    if is_case_sensitive(df):
        return
    columns: dict[str, list[str]] = {}
    for column in df.columns:
        columns.setdefault(column.lower(), []).append(column)
    for name in names:
        for other in columns.get(name.lower(), ()):
            if other != name:
                raise InvalidArgumentError(
                    f"The table has a column {other!r}, which Spark takes for {name!r}, of the model. Rename or drop "
                    "it, or set spark.sql.caseSensitive to true"
                )


def arrow_schema(df: Any) -> pa.Schema:
    """In Arrow; a type that Spark gives no Python task is named and has no dtype. Raises as `check_frame` does, and
    FailedPreconditionError on what is left of a session that was stopped."""
    check_frame(df)
    if is_stopped(df.sparkSession):  # Spark itself would tell of attributes of None, or null pointers
        raise FailedPreconditionError(
            "The Spark session of this DataFrame was stopped. Make a new session, and the DataFrame anew from it"
        )
    to_arrow = in_zone(types.to_arrow_type, df.sparkSession.conf.get("spark.sql.session.timeZone"))

    def of(kind: Any) -> pa.DataType:
        try:
            return to_arrow(kind)
        except (PySparkException, ValueError):  # of array() the elements are void and never null, of map() the keys
            return pa.opaque(pa.null(), kind.simpleString(), "spark")

    typed = [(f, of(f.dataType)) for f in df.schema.fields]
    return pa.schema([pa.field(f.name, kind, f.nullable or pa.types.is_null(kind), _told(f)) for f, kind in typed])


def _told(field: Any) -> dict[str, str] | None:
    """What pyspark.ml's stages say of the vectors that they make."""
    told = (field.metadata or {}).get("ml_attr")
    length = told.get("num_attrs") if isinstance(told, dict) else None
    return {VECTOR_LENGTH: str(length)} if isinstance(length, int) and length > 0 else None


def sorted_within(df: Any, order_by: str) -> Any:
    """The DataFrame with the rows of each partition in the order of a column. Raises InvalidArgumentError on a type by
    which Spark sorts nothing, such as maps; over Spark Connect that is told when it runs."""
    try:
        return df.sortWithinPartitions(F.col(quoted(order_by)))
    except AnalysisException as error:
        if "ORDERING_TYPE" not in str(error):
            raise
        raise unsortable(order_by, df.schema[order_by].dataType.simpleString()) from None
