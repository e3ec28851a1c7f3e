"""In which files of a stream's micro-batch the rows are that a training refused: Spark is asked for them once more."""

from __future__ import annotations

import contextlib
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType

from sparkflow_connectors.packing import quoted
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire.errors import InvalidArgumentError

_MOST_FILES = 3
_NULL, _NOT_FINITE = " is null at ", " rows have nan or inf: "


def with_files(error: InvalidArgumentError, batch: DataFrame, columns: Columns) -> InvalidArgumentError:
    """The same, with the files of the rows that it is about, where it refuses nulls, or tells of rows that have nan or
    inf, and Spark tells the files."""
    if _NULL in error.message:
        named = [name for name in columns.read if f"Column {name!r} " in error.message]
        files = _files(batch, [F.col(quoted(name)).isNull() for name in named[:1]])
        told = f"These nulls are in {files}: files that lack the column, or call it otherwise, are read as nulls, too"
    elif _NOT_FINITE in error.message:
        after = error.message.partition(_NOT_FINITE)[2]
        named = [name for name in columns.read if f"{name!r} in " in after]
        files = _files(batch, [_not_finite(F.col(quoted(name)), batch.schema[name].dataType) for name in named])
        told = f"Such rows are in {files}"
    else:
        return error
    return InvalidArgumentError(f"{error.message}. {told}") if files else error


def _files(batch: DataFrame, odd: list[Column]) -> str:
    """That have rows where one of these is true; "" where Spark does not tell."""
    if not odd:
        return ""
    with contextlib.suppress(PySparkException):
        rows = batch.where(reduce(or_, odd)).select(F.input_file_name().alias("file"))
        return ", ".join(sorted(row.file for row in rows.distinct().limit(_MOST_FILES).collect() if row.file))
    return ""


def _not_finite(column: Column, kind: DataType) -> Column:
    """Whether a value of such a type has nan or inf."""
    if isinstance(kind, (FloatType, DoubleType)):
        return F.isnan(column) | (F.abs(column) == F.lit(float("inf")))
    if isinstance(kind, ArrayType):
        return F.exists(column, lambda value: _not_finite(value, kind.elementType))
    return F.lit(False)
