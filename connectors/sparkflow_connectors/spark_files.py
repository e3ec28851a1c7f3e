"""Whether a Spark DataFrame is nothing but parquet files, so that tasks may read these in its place.

Spark's plan says so, in words that are the same for all its ways to run (classic and Connect): a scan of parquet files
and at most a choice of their columns. Anything else is left to Spark: filters, other formats, tables with partition
columns, deleted rows (Delta), caches, samples. So are files in folders that give one of their columns its value: what
the files say of that column, Spark passes over.
"""

from __future__ import annotations

import os
import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkflow_connectors.files import local_paths, of_folders, row_groups, without
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.spark_connect import is_connect
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError

# Spark cuts long lists short ("... 38 more fields", "[file:/a/b..."): what a list holds is asked of a projection alone.
_SCAN = re.compile(
    r"FileScan parquet .*\] Batched: \w+, (?:Bucketed: false.*, )?DataFilters: \[\], Format: Parquet, "
    r"Location: InMemoryFileIndex\((\d+) paths\).*, PartitionFilters: \[\], PushedFilters: \[\], ReadSchema: struct<"
)
_COLUMNS = re.compile(r"Project \[(?:[^\s,()]+#\d+L?(?:, )?)+\]$")
_PASSING = ("ColumnarToRow",)
_LEAVES = "spark.sql.leafNodeDefaultParallelism"  # which the slots are by default
_SPLITS = re.compile(r"\bRange \(.*\bsplits=(\d+)\)")
_DEFAULT = "EXISTS_DEFAULT"  # of a column: what it is in files that were written before there was one
_OTHERWISE = (  # Spark then reads files in a way of its own
    "spark.sql.parquet.fieldId.read.enabled",  # finds columns by numbers, whatever their names are
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
)


def parquet_files(df: DataFrame) -> list[str] | None:
    """The files that the DataFrame is, all their rows and nothing else; None where it is something else, or where they
    are in a store that is not mounted. Damaged ones are Spark's to read, or to pass over, as its reader was told."""
    places = 0 if df.isStreaming else _places(plan_of(df))
    if not places or any(str(df.sparkSession.conf.get(name, "false")).lower() == "true" for name in _OTHERWISE):
        return None
    paths = local_paths(df.inputFiles())
    if paths and is_connect(df.sparkSession) and not all(map(os.path.exists, paths)):  # of the server's machines
        return None
    if paths and of_folders(paths) & {name.lower() for name in df.columns}:
        return None
    try:
        if paths and places > 1 and df.count() != sum(part.stop for part in row_groups(paths, {})):
            return None  # a file that was given twice is read twice, and told once
    except DataLossError:
        return None
    return paths


def check_columns(df: DataFrame, paths: list[str], read: Columns) -> None:
    """Raises InvalidArgumentError on a file without a column that the model reads, whose nulls are refused, and for
    which the table has no value of its own in such files (ALTER TABLE ADD COLUMN ... DEFAULT)."""
    given = {field.name for field in df.schema.fields if _DEFAULT in field.metadata}
    refused = [name for name, source in read.read.items() if source.column.default is None and name not in given]
    found = without(paths, refused)
    if found is not None:
        path, name = found
        raise InvalidArgumentError(
            f"{path}: column {name!r} is missing, and the model reads it. Write that file anew, leave it out, or give "
            f"the column a default: Column({name!r}, default=...)"
        )


def parallelism(spark: SparkSession) -> int | None:
    """Total slots as Spark tells them; None where it does not. Over Spark Connect it tells as how many parts a range
    would be made."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    found = _SPLITS.search(plan_of(spark.range(1)))
    return None if found is None or spark.conf.get(_LEAVES, None) else int(found[1])


def plan_of(df: DataFrame) -> str:
    """The physical plan, as `explain` prints it. To catch what is printed would be to catch other threads' lines too,
    and of two threads that do so at once one leaves the driver without an output.
    """
    frame: Any = df
    context = getattr(df.sparkSession, "_sc", None)
    if context is None:  # Spark Connect
        return str(frame._explain_string())
    return str(context._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple"))


def _places(plan: str) -> int:
    """How many folders or files the DataFrame was made of; 0 where it is more than files."""
    lines = [re.sub(r"^[\s:+\-|]*(?:\*\(\d+\) )?", "", line).rstrip() for line in plan.splitlines()]
    steps = [line for line in lines if line and not line.startswith("== ")]
    if not steps:
        return 0
    *above, scan = steps
    found = _SCAN.match(scan)
    if found is None or not all(line in _PASSING or _COLUMNS.match(line) for line in above):
        return 0
    return int(found[1])
