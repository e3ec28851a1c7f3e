"""Parquet files that workers read themselves: who reads which rows, and what is said of files that are wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow_connectors import files
from sparkflow_connectors.columns import Column
from sparkflow_connectors.layout import Layout, put, rows_of
from sparkflow_connectors.rows import file_pieces
from sparkflow_connectors.schema import resolve
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError

ROWS = [0, 1000, 7, 430]


def table(rows: int, first: int = 0) -> pa.Table:
    n = np.arange(first, first + rows)
    return pa.table({"id": n, "x": n.astype(np.float32) / 2, "y": n.astype(np.float32)})


COLUMNS = resolve(table(1).schema, ["id", "x"], "y")


class AJob:
    columns, layout, feed_bytes, batch_size = COLUMNS, Layout.of(COLUMNS), 1 << 20, 10


JOB: Any = AJob()


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    found = []
    for i, rows in enumerate(ROWS):
        found.append(str(tmp_path / f"part-{i}.parquet"))
        pq.write_table(table(rows, sum(ROWS[:i])), found[-1], row_group_size=100)
    return found


def ids(parts: list[files.Part], types: files.Types = COLUMNS.types) -> list[int]:
    return [i for batch in files.read(parts, types) for i in batch.column("id").to_pylist()]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_are_equal_and_have_each_row_once(paths: list[str], workers: int) -> None:
    shares = files.shares(paths, COLUMNS.types, workers, seed=4)
    read = [ids(parts) for parts in shares]
    assert Counter(i for share in read for i in share) == Counter(range(sum(ROWS)))
    assert max(map(len, read)) - min(map(len, read)) <= 1
    assert (
        shares
        == files.shares(paths, COLUMNS.types, workers, seed=4)
        != files.shares(paths, COLUMNS.types, workers, seed=5)
    )
    assert workers == 1 or max(read[0]) - min(read[0]) > 800, "of all files, not of the first ones"


def test_pieces_are_rows_of_the_layout(paths: list[str]) -> None:
    (share,) = files.shares(paths, COLUMNS.types, 1, seed=4)
    rows = 0
    for piece in file_pieces(share, JOB):
        block = JOB.layout.empty(rows_of(piece))
        put(block, 0, piece, 0, rows_of(piece))
        columns = JOB.layout.columns(block)
        assert (columns["x"] * 2 == columns["id"]).all() and (columns["y"] == columns["id"]).all()
        rows += rows_of(piece)
    assert rows == sum(ROWS)


def test_a_null_is_told_with_its_file(paths: list[str]) -> None:
    holed = table(430, 1007).to_pylist()
    holed[205]["x"] = None
    pq.write_table(pa.Table.from_pylist(holed, table(1).schema), paths[3], row_group_size=100)
    (share,) = files.shares(paths, COLUMNS.types, 1, seed=4)
    with pytest.raises(
        InvalidArgumentError, match=r"part-3\.parquet, row group 2 from row 0 on: .*'x'.* null at row 5"
    ):
        list(file_pieces(share, JOB))


def test_files_that_differ_are_refused(paths: list[str]) -> None:
    pq.write_table(table(9).set_column(1, "x", pa.array(np.arange(9.0))), paths[2])
    with pytest.raises(InvalidArgumentError, match=r"part-2\.parquet: column 'x' has type double, and .* said float"):
        files.shares(paths, COLUMNS.types, 2, seed=4)
    pq.write_table(table(9).select(["id", "y"]), paths[2])
    with pytest.raises(InvalidArgumentError, match=r"part-2\.parquet: column 'x' is there 0 times"):
        files.shares(paths, COLUMNS.types, 2, seed=4)


def test_damaged_files_are_told(paths: list[str]) -> None:
    (share,) = files.shares(paths, COLUMNS.types, 1, seed=4)
    whole = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataLossError, match=r"part-1\.parquet: its footer cannot be read"):
        files.shares(paths, COLUMNS.types, 2, seed=4)
    with pytest.raises(DataLossError, match=r"part-1\.parquet: its footer cannot be read"):
        ids(share)
    Path(paths[1]).write_bytes(b"PAR1" + b"\xff" * (len(whole) // 2) + whole[len(whole) // 2 + 4 :])
    with pytest.raises(DataLossError, match=r"part-1\.parquet: row group \d+ cannot be read"):
        ids(share)
    for rows, size in ((3, 100), (1001, 100), (1000, 99), (2000, 200)):  # fewer rows or more, in whatever groups
        pq.write_table(table(rows), paths[1], row_group_size=size)
        with pytest.raises(DataLossError, match=r"part-1\.parquet is another file than at the start"):
            ids(share)
    Path(paths[1]).unlink()
    with pytest.raises(NotFoundError, match=r"part-1\.parquet: the file is not there.* cannot overwrite the path"):
        ids(share)


_WORDS = [f"{i}" * 1000 for i in range(8)]


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        (pa.array([bytes([i % 256]) * 100_000 for i in range(100)]), True),
        (pa.array([_WORDS[i % 8] for i in range(5000)]), False),  # a file of 20 KB
        (pa.array([""] * 200 + [_WORDS[i % 8] for i in range(5000)]), False),
        (pa.array([[i % 8] * 500 for i in range(1000)]), False),
        (pa.array([{"a": [_WORDS[i % 8]] * 3, "b": i} for i in range(1000)]), False),
    ],
)
def test_so_many_bytes_are_read_at_once(values: pa.Array, plain: bool, tmp_path: Path) -> None:
    """Whatever rows take in the file."""
    path, types = str(tmp_path / "one.parquet"), {"n": pa.int64(), "x": values.type}
    table = pa.table({"n": range(len(values)), "x": values})
    pq.write_table(table, path, use_dictionary=not plain)
    (whole,) = files.row_groups([path], types)
    for part in (whole, whole._replace(start=13, stop=len(values) - 7)):
        read = list(files.read([part], types, batch_bytes=1 << 20))
        assert pa.Table.from_batches(read).equals(table.slice(part.start, part.stop - part.start))
        assert max(batch.nbytes for batch in read) < 2.1 * 2**20 and len(read) < 50
    assert len(list(files.read([whole], types, batch_bytes=1 << 30))) == 1


def test_a_long_text_that_becomes_a_number(tmp_path: Path) -> None:
    """What is read of a file is bounded by its own size, not by what a step gets of it."""
    path, columns = str(tmp_path / "one.parquet"), [Column("x", hash_buckets=10)]
    pq.write_table(pa.table({"x": [_WORDS[i % 8] * 3 for i in range(2000)]}), path)
    job: Any = AJob()
    job.columns = resolve(pq.read_schema(path), columns, None)
    job.layout = Layout.of(job.columns)
    pieces = list(file_pieces(files.row_groups([path], job.columns.types), job))
    assert sum(map(rows_of, pieces)) == 2000 and max(map(rows_of, pieces)) * 3000 <= job.feed_bytes / 3


def test_a_flipped_bit_is_found_in_training_too(tmp_path: Path) -> None:
    """By the checksums of pages, which Spark writes; without any, it is another number."""
    path = str(tmp_path / "one.parquet")
    plain = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(pa.table({"x": np.arange(1000)}), path, **plain)
    job: Any = AJob()
    job.columns = resolve(pq.read_schema(path), ["x"], None)
    job.layout = Layout.of(job.columns)
    content = Path(path).read_bytes()
    at = content.index(np.arange(500, 502).tobytes())
    Path(path).write_bytes(content[:at] + b"\0" + content[at + 1 :])
    parts = [files.Part(path, 0, 0, 1000, 1000, 1)]
    with pytest.raises(DataLossError, match=r"one\.parquet: row group 0 cannot be read: .*CRC"):
        list(file_pieces(parts, job))
    assert files.without([path], ["X"]) is None and files.without([path], ["x", "y"]) == (path, "y")


def test_a_column_that_is_a_partition_folder_is_there(tmp_path: Path) -> None:
    path = tmp_path / "day%20x=3" / "k=" / "one.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), path)
    assert files.without([str(path)], ["x", "Day X", "k"]) is None
    assert files.without([str(path)], ["one.parquet"]) == (str(path), "one.parquet")
    pq.write_table(pa.table({"x": [1]}).slice(1), path)
    assert files.without([str(path)], ["one.parquet"]) is None, "no row is without it"
    assert files.of_folders([str(path), "/Day=4/b=c.parquet"]) == {"day x", "k", "day"}


@pytest.mark.parametrize(
    ("told", "julian"),
    [
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "4.1.0", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "3.0.0"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("kind", [pa.date32(), pa.list_(pa.date32()), pa.struct([("t", pa.timestamp("us"))])])
def test_dates_of_another_calendar_are_the_engines_to_read(
    told: dict[str, str], julian: bool, kind: pa.DataType, tmp_path: Path
) -> None:
    schema = pa.schema([("x", kind), ("n", pa.int64())], told)
    pq.write_table(pa.table({"x": pa.nulls(2, kind), "n": [1, 2]}, schema), tmp_path / "one.parquet")
    path = str(tmp_path / "one.parquet")
    found = files.schema(path)
    types = dict(zip(found.names, found.types, strict=True))
    assert files.reads_the_same(path, types) == (not julian) and files.reads_the_same(path, {"n": pa.int64()})
    assert len(files.row_groups([path], {"n": pa.int64()})) == 1
    if julian:
        with pytest.raises(InvalidArgumentError, match="its dates may be of the Julian calendar, as Spark 2"):
            files.row_groups([path], types)
    else:
        assert len(files.row_groups([path], types)) == 1


DAYS = pa.array([19000, None, -30000], pa.int32()).cast(pa.date32())  # 1887 is the last
TIMES = pa.array([10**15, None, -3 * 10**15]).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        TIMES,
        TIMES.cast(pa.timestamp("ns")),
        pa.ListArray.from_arrays([0, 1, 2, 3], DAYS),
        pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), TIMES], ["s", "t"]),
        pa.array([-(2**31) + 5] * 3, pa.int32()).cast(pa.date32()),  # in a year that Python has not
    ],
)
def test_days_of_files_that_are_not_of_spark(values: pa.Array, tmp_path: Path) -> None:
    """Which calendar they are of, options say that no plan shows: they are read where that is the same."""
    path, types = str(tmp_path / "one.parquet"), {"x": values.type}
    other = pa.array([{"never": "read"}] * 3)
    for rows, same in ((values.slice(0, 2), values[0] != values[-1]), (values, False), (values.slice(1, 0), True)):
        pq.write_table(pa.table({"o": other.slice(0, len(rows)), "x": rows}), path, row_group_size=2)
        assert files.reads_the_same(path, types) == same
    pq.write_table(pa.table({"o": other, "x": values}), path, write_statistics=False)
    assert not files.reads_the_same(path, types) and files.reads_the_same(path, {"o": other.type})
    with pytest.raises(InvalidArgumentError, match="its dates may be of the Julian calendar"):
        files.row_groups([path], types)


def test_tables_without_rows_are_refused(tmp_path: Path) -> None:
    pq.write_table(table(0), tmp_path / "none.parquet")
    with pytest.raises(InvalidArgumentError, match="The table is empty: there is no row in its 1 files"):
        files.shares([str(tmp_path / "none.parquet")], COLUMNS.types, 2, seed=1)


def test_only_mounted_files_are_read() -> None:
    assert files.local_paths(["file:///b/x%20y.parquet", "/a.parquet"]) == ["/a.parquet", "/b/x y.parquet"]
    assert files.local_paths(["file:///b/x.parquet", "hdfs://host/b.parquet"]) is None
    assert files.local_paths(["s3a://bucket/b.parquet"]) is None
