"""Which of Spark's plans are nothing but files: plans as Spark 4 prints them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from sparkflow_connectors.spark_files import _places

SCAN = (
    "FileScan parquet [a#0L,b#1,C#2,... 38 more fields] Batched: true, DataFilters: [], Format: Parquet, Location: "
    "InMemoryFileIndex(1 paths)[file:/tmp/x/tab..., PartitionFilters: [], PushedFilters: [], ReadSchema: "
    "struct<a:bigint,b:float,C:int..."
)
HEAD = "== Physical Plan ==\n"


@pytest.mark.parametrize(
    "plan",
    [
        f"{HEAD}*(1) ColumnarToRow\n+- {SCAN}\n\n",
        f"{HEAD}{SCAN}\n",
        f"{HEAD}*(1) Project [b#1, a#0L]\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}{SCAN.replace('DataFilters', 'Bucketed: false (disabled by query), DataFilters')}\n",
    ],
)
def test_plain_files(plan: str) -> None:
    assert _places(plan) == 1
    assert _places(plan.replace("(1 paths)", "(17 paths)")) == 17


@pytest.mark.parametrize(
    "plan",
    [
        HEAD,
        f"{HEAD}*(1) Filter (isnotnull(a#0L) AND (a#0L > 3))\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}*(1) ColumnarToRow\n+- {SCAN.replace('DataFilters: []', 'DataFilters: [isnotnull(a#0L)]')}\n",
        f"{HEAD}*(1) ColumnarToRow\n+- {SCAN.replace('PartitionFilters: []', 'PartitionFilters: [(day#3 = 1)]')}\n",
        f"{HEAD}*(1) Project [a#0L AS c#9L]\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}*(1) Project [a#0L, ... 26 more fields]\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}*(1) Project [(a#0L + 1) AS a#9L]\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}*(1) Sample 0.0, 0.5, false, 42\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}CollectLimit 10\n+- *(1) ColumnarToRow\n   +- {SCAN}\n",
        f"{HEAD}*(1) ColumnarToRow\n+- {SCAN.replace('parquet', 'orc').replace('Parquet', 'ORC')}\n",
        f"{HEAD}*(1) ColumnarToRow\n+- {SCAN.replace('InMemoryFileIndex', 'PreparedDeltaFileIndex')}\n",
        f"{HEAD}InMemoryTableScan [a#0L]\n   +- InMemoryRelation [a#0L], StorageLevel(disk)\n"
        f"         +- *(1) ColumnarToRow\n            +- {SCAN}\n",
        f"{HEAD}Union\n:- *(1) ColumnarToRow\n:  +- {SCAN}\n+- *(2) ColumnarToRow\n   +- {SCAN}\n",
    ],
)
def test_whatever_is_more_than_files(plan: str) -> None:
    assert not _places(plan)
