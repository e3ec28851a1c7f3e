"""Whether a Spark DataFrame is nothing but parquet files, so that tasks may read these in its place.

Spark's plan says so, in words that are the same for all its ways to run (classic and Connect): a scan of parquet files
and at most a choice of their columns. Anything else is left to Spark: filters, other formats, tables with partition
columns, deleted rows (Delta), caches, samples. So are files in folders that give one of their columns its value: what
the files say of that column, Spark passes over.
"""

from __future__ import annotations

import contextlib
import io
import re

from pyspark.sql import DataFrame, SparkSession

from sparkflow_connectors.files import local_paths, of_folders, row_groups

# Spark cuts long lists short ("... 38 more fields", "[file:/a/b..."): what a list holds is asked of a projection alone.
_SCAN = re.compile(
    r"FileScan parquet .*\] Batched: \w+, (?:Bucketed: false.*, )?DataFilters: \[\], Format: Parquet, "
    r"Location: InMemoryFileIndex\((\d+) paths\).*, PartitionFilters: \[\], PushedFilters: \[\], ReadSchema: struct<"
)
_COLUMNS = re.compile(r"Project \[(?:[^\s,()]+#\d+L?(?:, )?)+\]$")
_PASSING = ("ColumnarToRow",)
_BY_ID = "spark.sql.parquet.fieldId.read.enabled"  # columns are then found by numbers, whatever their names are


def parquet_files(df: DataFrame) -> list[str] | None:
    """The files that the DataFrame is, all their rows and nothing else; None where it is something else, or where they
    are in a store that is not mounted."""
    places = 0 if df.isStreaming else _places(plan_of(df))
    if not places or str(df.sparkSession.conf.get(_BY_ID, "false")).lower() == "true":
        return None
    paths = local_paths(df.inputFiles())
    if paths and of_folders(paths) & {name.lower() for name in df.columns}:
        return None
    if paths and places > 1 and df.count() != sum(part.stop for part in row_groups(paths, {})):
        return None  # a file that was given twice is read twice, and told once
    return paths


def parallelism(spark: SparkSession) -> int | None:
    """Total slots as classic Spark tells them; None over Spark Connect, which does not."""
    context = getattr(spark, "_sc", None)
    return None if context is None else int(context.defaultParallelism)


def plan_of(df: DataFrame) -> str:
    """The physical plan, as `explain` prints it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        df.explain()
    return printed.getvalue()


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
