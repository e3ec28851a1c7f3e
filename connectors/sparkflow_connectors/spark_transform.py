"""A model's predictions as columns of a Spark DataFrame.

Only what the model reads goes to Python, packed (packing.py), and only predictions come back: an Arrow function of
columns, not mapInArrow, which would carry every other column there and back as well. So they also keep their types
whatever these are (ML vectors, intervals, variants).

A DataFrame that is nothing but parquet files (spark_files.py) is read by the tasks themselves instead, and what comes
back is the whole table: taking a value over costs Spark a third of handing one out. This needs no more columns beside
those that the model reads than it reads, all of types that the files have as Spark has them; otherwise Spark reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from sparkflow_connectors import files
from sparkflow_connectors.column_types import Source
from sparkflow_connectors.columns import DENSE
from sparkflow_connectors.model import ROWS, Model, Predictor, parts, rows_at_once
from sparkflow_connectors.packing import Packing, free_name, packing_of, quoted, tensors_of
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.spark_errors import name_errors
from sparkflow_connectors.spark_files import check_columns, parallelism, parquet_files
from sparkflow_connectors.spark_schema import arrow_schema, check_case, is_case_sensitive
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError

_PREDICTIONS = "sparkflow_predictions"
_LEAST_BYTES, _MOST_BYTES = 4 << 20, 128 << 20  # of files for a task, as Spark has it
# At once, of files, where they are not larger than `files.read` has them by itself. Spark takes 16,384 over at a tenth
# to a fifth more a row.
_ROWS_BACK = 1 << 16
_ROWS_OF_LISTS_BACK = 1 << 14  # a prediction of many values makes a row as large as one likes


def transform(model: Model, df: DataFrame) -> DataFrame:
    """The DataFrame with its predictions, scored where its partitions are."""
    name_errors()
    schema = arrow_schema(df)
    model.check(schema)
    _check_case(model, df)
    read = model.columns_of(schema)
    if (runs := _runs(df, read, schema)) is not None:
        scored = _scored_files(model, runs, schema)
        taken_over = _taken_over(model, df, read)
        found = df.sparkSession.range(0, len(runs), 1, len(runs)).mapInArrow(scored, taken_over)
        return found.unionAll(_none_of(df, taken_over))
    columns = arrays_of_vectors(read)
    packing = packing_of(columns)
    struct = from_arrow_schema(pa.schema(model.output_fields()))
    arrow_udf: Any = F.arrow_udf  # its stubs know no structs
    predict = arrow_udf(_predictions(model, columns, packing), struct)
    # A filter on a prediction would otherwise be pushed below it, and everything scored twice.
    predict = predict.asNondeterministic()
    # To Spark, which drops it in the end, names are one whatever their case.
    name = free_name(_PREDICTIONS, {taken.lower() for taken in [*df.columns, *struct.names]})
    scored = _by_rows(df).select("*", predict(*selected(read, packing)).alias(name))
    added = [F.col(name)[field.name].alias(field.name) for field in struct]
    return scored.select("*", *added).drop(name)


def _by_rows(df: DataFrame) -> DataFrame:
    """All the rows of the DataFrame, in a plan that gives rows and no column batches.

    Of a cache or of parquet files Spark would take column batches, make rows of them for the packing, columns again of
    what is joined to the predictions, and rows again of these: a third more of its work. A filter that is known to hold
    only when it runs stays in the plan, and costs nothing: where it has an expression that Spark does not compile (the
    second, which is never asked), it hands on the rows it gets instead of writing each one anew.
    """
    return df.where("spark_partition_id() >= 0 or array_sort(array(spark_partition_id()))[0] < 0")


def _check_case(model: Model, df: DataFrame) -> None:
    """Raises InvalidArgumentError where Spark, to which Price and price are one name, could not tell columns apart."""
    if not is_case_sensitive(df):
        _check_outputs(list(model.graph.outputs))
        check_case(df, [*model.columns.sources, *model.graph.outputs])


def _check_outputs(names: list[str]) -> None:
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise InvalidArgumentError(
                f"The model has predictions {other!r} and {name!r}, which are one name to Spark. Give one of them "
                f"another: transform(df, fetches={{{other!r}: {other!r}, 'other': {name!r}}}), or set "
                "spark.sql.caseSensitive to true"
            )


def _taken_over(model: Model, df: DataFrame, read: Columns) -> StructType:
    """The schema of files with their predictions. A prediction is never null, nor is a column whose nulls are refused:
    Spark, told so, does not ask it of each value, which is a quarter of what taking it over costs."""
    refused = {name for name, source in read.read.items() if source.column.default is None}
    kept = [StructField(f.name, f.dataType, f.nullable and f.name not in refused, f.metadata) for f in df.schema.fields]
    added = from_arrow_schema(pa.schema(model.output_fields())).fields
    return StructType([*kept, *(StructField(f.name, f.dataType, nullable=False) for f in added)])


def _none_of(df: DataFrame, schema: StructType) -> DataFrame:
    """No row, by a plan that reads the DataFrame: what the tasks read Spark would not know otherwise, and would let a
    table be overwritten by its own predictions, whose rows are gone before they are read.

    Spark looks for that in the plan as it is analyzed. Then it optimizes, and of a union with what a filter leaves
    nothing of, the other part is left as it was. The filter is above the function, which gives the branch the schema:
    were a column nullable in one branch, it would be in both.
    """
    renamed = df.toDF(*(f"c{i}" for i in range(len(df.columns))))  # mapInArrow finds no name with a dot in it
    return renamed.mapInArrow(_as_they_are, schema).where(F.lit(False))


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _runs(df: DataFrame, read: Columns, schema: pa.Schema) -> list[list[files.Part]] | None:
    """What each task reads, where tasks are to read the DataFrame's files; files that differ are left to Spark."""
    others, slots = [f.type for f in schema if f.name not in read.read], parallelism(df.sparkSession)
    if slots is None or len(others) > len(read.read) or any(map(pa.types.is_nested, others)):
        return None
    types = dict(zip(schema.names, schema.types, strict=True))
    paths = parquet_files(df) if len(types) == len(schema) else None
    if not paths:
        return None
    try:
        groups = [part for part in files.row_groups(paths, types) if part.stop]
    except InvalidArgumentError:  # Spark widens types, and takes a column that is not there for nulls
        check_columns(df, paths, read)
        return None
    except DataLossError:  # in a footer: Spark passes such a file over, where its reader was told to
        return None
    share = sum(map(os.path.getsize, paths)) // slots
    return files.runs(groups, min(max(share, _LEAST_BYTES), _MOST_BYTES)) or None


def _scored_files(model: Model, runs: list[list[files.Part]], schema: pa.Schema) -> Any:
    """The function of a partition: its number -> the rows of its files with their predictions."""
    types = dict(zip(schema.names, schema.types, strict=True))
    lists = any(pa.types.is_nested(field.type) for field in model.output_fields())
    rows = _ROWS_OF_LISTS_BACK if lists else _ROWS_BACK
    if (most := rows_at_once(model)) < ROWS:  # large ones
        rows = most

    def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in [part for batch in batches for run in batch.column(0).to_pylist() for part in runs[run]]:
            with files.named(part):
                yield from model.score_all(b.select(schema.names) for b in files.read([part], types, rows))

    return score


def arrays_of_vectors(columns: Columns) -> Columns:
    """The columns as they are when `selected` has made arrays of the vectors among them."""

    def changed(source: Source) -> Source:
        return replace(source, arrow=pa.list_(_value_type(source))) if _is_dense_vector(source) else source

    label = columns.label_source and changed(columns.label_source)
    return replace(columns, sources={n: changed(s) for n, s in columns.sources.items()}, label_source=label)


def selected(columns: Columns, packing: Packing) -> list[SparkColumn]:
    """What Spark selects of a table with these columns for the packing's plain columns and its blocks, in that order.

    Vectors become arrays before they leave the JVM, which Python takes over several times faster.
    """
    return [_plain(columns.read[name]) for name in packing.plain] + [F.expr(text) for text in packing.packed]


def _is_dense_vector(source: Source) -> bool:
    return source.is_vector and source.column.kind == DENSE


def _value_type(source: Source) -> pa.DataType:
    return pa.float32() if source.column.cast == dtypes.float32 else pa.float64()


def _plain(source: Source) -> SparkColumn:
    found = F.col(quoted(source.name))
    if not _is_dense_vector(source):
        return found
    from pyspark.ml.functions import vector_to_array

    as_array = vector_to_array(found, "float64" if _value_type(source) == pa.float64() else "float32")
    return F.when(found.isNotNull(), as_array).alias(source.name)


def _predictions(model: Model, columns: Columns, packing: Packing) -> Any:
    """The function of a partition: what is selected of its batches -> structs of predictions."""
    names = [*packing.plain, *packing.blocks]
    plain, fields = columns.only(packing.plain), model.output_fields()

    def predict(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        predictor, row = Predictor(model), 0
        for given in batches:
            arrays = list(given) if isinstance(given, tuple) else [given]  # Spark hands a single column over as it is
            for batch in parts(pa.RecordBatch.from_arrays(arrays, names), predictor.rows):
                found = predictor(tensors_of(batch, plain, packing, row), batch.num_rows)
                row += batch.num_rows
                yield pa.StructArray.from_arrays(found, fields=fields)

    return predict
