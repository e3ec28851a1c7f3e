"""Records of Dask, pandas and Arrow as Spark asks for them, and others who ask for another unit than was written."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkflow_connectors.tfrecord import read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord

NOON, DAY, TIME = dt.datetime(2024, 1, 1, 12), dt.date(2024, 1, 1), dt.time(1, 2, 3)
OLD = dt.datetime(1925, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("written", "value", "asked", "expected"),
    [
        *((pa.timestamp(unit), NOON, pa.timestamp("us"), NOON) for unit in ("s", "ms", "ns")),
        (pa.timestamp("ns"), OLD, pa.timestamp("us"), OLD),
        (pa.timestamp("us"), NOON, pa.timestamp("ns", "UTC"), NOON.replace(tzinfo=dt.UTC)),
        (pa.timestamp("ns", "Europe/Berlin"), NOON, pa.timestamp("us", "UTC"), NOON.replace(tzinfo=dt.UTC)),
        (pa.timestamp("ns"), NOON, pa.int64(), 1704110400000000000),
        (pa.date64(), DAY, pa.date32(), DAY),
        (pa.date32(), DAY, pa.timestamp("us"), dt.datetime(2024, 1, 1)),
        (pa.timestamp("ns"), NOON, pa.date32(), DAY),
        (pa.time32("s"), TIME, pa.time64("us"), TIME),
        (pa.list_(pa.timestamp("ns")), [NOON, OLD], pa.large_list(pa.timestamp("us")), [NOON, OLD]),
        (pa.list_(pa.date64(), 2), [DAY, DAY], pa.list_(pa.date32(), 2), [DAY, DAY]),
        (
            pa.struct([("t", pa.timestamp("s")), ("n", pa.int64())]),
            {"t": NOON, "n": 1},
            pa.struct([("t", pa.timestamp("us")), ("n", pa.int32())]),
            {"t": NOON, "n": 1},
        ),
    ],
)
def test_times_are_read_in_the_unit_that_was_written(
    written: pa.DataType, value: Any, asked: pa.DataType, expected: Any, tmp_path: Path
) -> None:
    if not pa.types.is_struct(written):  # of a null one, each feature is null
        value, expected = [value, None], [expected, None]
    else:
        value, expected = [value], [expected]
    to_tfrecord(pa.table({"x": pa.array(value, written), "k": [1] * len(value)}), tmp_path / "out")
    found = read_tfrecord(tmp_path / "out", schema=pa.schema([("x", asked)]))
    assert found["x"].type == asked and found["x"].to_pylist() == expected


@pytest.mark.parametrize(
    ("written", "value", "in_spark", "expected"),
    [
        (pa.uint8(), 200, "smallint", 200),
        (pa.uint16(), 60_000, "int", 60_000),
        (pa.uint32(), 1 << 31, "bigint", 1 << 31),
        (pa.uint64(), 1 << 62, "bigint", 1 << 62),
        (pa.float16(), 1.5, "float", 1.5),
        (pa.date64(), DAY, "date", DAY),
        (pa.timestamp("ns"), NOON, "timestamp_ntz", NOON),
        (pa.list_(pa.uint8()), [1, 255], "array<smallint>", [1, 255]),
        (pa.struct([("d", pa.date64())]), {"d": DAY}, "struct<d:date>", {"d": DAY}),
        (pa.decimal256(60, 2), Decimal("1.25"), "decimal(38,2)", Decimal("1.25")),
    ],
)
def test_spark_has_a_type_for_what_others_wrote(
    written: pa.DataType, value: Any, in_spark: str, expected: Any, tmp_path: Path
) -> None:
    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    to_tfrecord(pa.table({"x": pa.array([value], written)}), tmp_path / "out")
    source = TFRecordSource({"path": str(tmp_path / "out")})
    schema = source.schema()
    assert schema["x"].dataType.simpleString() == in_spark
    reader = source.reader(schema)
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))  # type: ignore[union-attr]
    assert batch["x"].to_pylist() == [expected]  # type: ignore[call-overload,union-attr]
