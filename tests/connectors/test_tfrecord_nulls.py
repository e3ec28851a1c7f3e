"""Folders of record files: which columns are known to have no null, and the size of batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.tfrecord import open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import FolderWriter, to_tfrecord


def test_batches_of_a_block_are_alike(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"s": ["x" * 370] * 23_000}), str(tmp_path / "out"))
    rows = [batch.num_rows for batch in open_tfrecord(str(tmp_path / "out")).batches()]
    assert sum(rows) == 23_000 and min(rows) > 2_000, "no handful of rows at the end of a block"


def test_columns_without_a_null_are_known(tmp_path: Path) -> None:
    folder, n = str(tmp_path / "out"), 25
    rows = pa.table(
        {
            "id": pa.array(range(n), pa.int32()),
            "flag": [i % 3 == 0 for i in range(n)],
            "x": [[float(i)] for i in range(n)],
            "day": [f"d{i % 2}" for i in range(n)],
            "name": [None if i % 5 == 0 else "n" for i in range(n)],
            "s": pa.array([{"a": None}] * n, pa.struct([("a", pa.int64())])),
        }
    )
    to_tfrecord(rows, folder, rows_per_file=10)
    assert open_tfrecord(folder).without_nulls == {"id", "flag", "x", "day"}, "a struct of nulls is read as a null"
    to_tfrecord(rows.set_column(0, "id", pa.nulls(n, pa.int32())), folder, "append")
    assert open_tfrecord(folder).without_nulls == {"flag", "x", "day"}
    both = [folder, str(tmp_path / "other")]
    to_tfrecord(rows.set_column(1, "flag", pa.nulls(n, pa.bool_())), both[1], "append")
    assert open_tfrecord(both).without_nulls == {"x", "day"}
    first = next((tmp_path / "out").glob("part*"))
    (tmp_path / "out" / "theirs").write_bytes(first.read_bytes())  # another writer may leave features out
    assert not open_tfrecord(folder).without_nulls
    to_tfrecord(rows, folder, "append")
    assert not open_tfrecord(folder).without_nulls, "not of what is appended to such files"
    to_tfrecord(rows, folder, "overwrite", partition_by=["day"])
    assert open_tfrecord(folder).without_nulls == {"id", "flag", "x", "day"}
    writer = FolderWriter(folder, rows.schema, "append", partition_by=["day"])
    writer.begin()
    writer.commit(writer.write(iter(rows.to_batches()), 0))
    assert not open_tfrecord(folder).without_nulls, "where nobody says whether there are nulls"


def test_a_folder_of_nulls_where_none_may_be(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"a": [1, 2], "day": ["x", None]}), str(tmp_path / "out"), partition_by=["day"])
    never = pa.schema([("a", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="partition column 'day' is null, the schema says it is"):
        read_tfrecord(str(tmp_path / "out"), schema=never)


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
@pytest.mark.parametrize("rows", [0, 3])
def test_columns_of_nothing_but_null(record_type: str, rows: int, tmp_path: Path) -> None:
    """Spark's void, as spark-tfrecord writes it: without a feature. The schema file remembers it."""
    folder = str(tmp_path / "out")
    void = {
        "v": pa.nulls(rows),
        "s": pa.array([{"a": 1, "n": None}] * rows, pa.struct([("a", pa.int8()), ("n", pa.null())])),
    }
    for there in (pa.table(void | {"n": pa.array(range(rows), pa.int64())}), pa.table({"v": void["v"]})):
        to_tfrecord(there, folder, "overwrite", record_type)
        to_tfrecord(there, folder, "append", record_type)
        back = read_tfrecord(folder)
        assert back.schema == there.schema and back.to_pylist() == 2 * there.to_pylist()
        assert "v" not in open_tfrecord(folder).without_nulls
    to_tfrecord(pa.table({"v": [1, 2]}), folder, "overwrite", record_type)
    with pytest.raises(tf.errors.InvalidArgumentError, match="feature 'v' holds int64, the schema says null"):
        read_tfrecord(folder, schema=there.schema)


INNER = pa.struct([pa.field("c", pa.int64(), nullable=False), ("d", pa.list_(pa.int64()))])
OUTER = pa.struct(
    [pa.field("a", pa.int64(), nullable=False), pa.field("in", INNER, nullable=False), ("x", pa.string())]
)


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_a_null_struct_of_fields_that_are_never_null(record_type: str, tmp_path: Path) -> None:
    """As Spark makes them by a left join."""
    rows = [None, {"a": 1, "in": {"c": 2, "d": None}, "x": "y"}, {"a": 1, "in": {"c": 2, "d": [3]}, "x": None}]
    there = pa.table({"s": pa.array(rows, OUTER)})
    to_tfrecord(there, tmp_path / "out", record_type=record_type)
    back = read_tfrecord(tmp_path / "out")
    assert back.schema == there.schema and back.to_pylist() == there.to_pylist()
    back.validate(full=True)
    some = pa.struct([("a", pa.int64()), ("in", pa.struct([("c", pa.int64())]))])
    for row, lacking in (({"a": 1}, "s.in.c"), ({"in": {"c": 1}}, "s.a")):
        to_tfrecord(pa.table({"s": pa.array([row], some)}), tmp_path / "other", "overwrite", record_type)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"has no feature '{lacking}', which the schema says"):
            read_tfrecord(tmp_path / "other", schema=there.schema)


def test_a_struct_that_is_never_null_has_nulls_in_all_its_fields(tmp_path: Path) -> None:
    """Spark, told that it is never null, does not ask, and ended with a NullPointerException."""
    inner = pa.struct([("b", pa.string())])
    struct = pa.struct([("a", pa.int64()), pa.field("in", inner, nullable=False)])
    nothing = {"a": None, "in": {"b": None}}
    schema = pa.schema([pa.field("s", struct, nullable=False), ("t", struct)])
    there = pa.Table.from_pylist([{"s": nothing, "t": {"a": 1, "in": {"b": None}}}, {"s": nothing, "t": None}], schema)
    to_tfrecord(there, tmp_path / "out")
    back = read_tfrecord(tmp_path / "out")
    assert back.schema == schema and back.to_pylist() == there.to_pylist()


def test_a_null_where_the_schema_says_there_is_none(tmp_path: Path) -> None:
    """Nothing is written: a reader would find a feature missing."""
    never = [pa.field(name, pa.int64(), nullable=False) for name in "ab"]
    nulls = [pa.array([1, 2]), pa.array([1, None])]
    plain = pa.Table.from_arrays(nulls, schema=pa.schema(never))
    struct = pa.StructArray.from_arrays([*nulls], fields=never)
    for rows, named in ((plain, "b"), (pa.table({"n": [1, 2], "s": struct}), "s.b")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"column '{named}': row 1 of the batch is null, and"):
            to_tfrecord(rows, tmp_path / "out")
        assert not (tmp_path / "out").exists()
