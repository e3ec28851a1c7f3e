"""Partition folders of every name and number, and records that do not fit the schema they are read by."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.tfrecord import Dataset, Options, read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord

NAN = float("nan")


@pytest.mark.parametrize(
    "values",
    [
        [1.0, NAN, NAN, None, -0.0, 0.0, float("inf")],
        ["", "a=b", "/", ".", "..", "%", None, "__HIVE_DEFAULT_PARTITION__"],
    ],
)
def test_each_row_is_in_one_folder(values: list[Any], tmp_path: Path) -> None:
    """NaN is no number that equals itself, and 0.0 equals -0.0: neither loses or doubles a row."""
    there = pa.table({"p": values, "q": [1] * len(values), "x": range(len(values))})
    to_tfrecord(there, tmp_path / "out", partition_by=["q", "p"])
    found = read_tfrecord(tmp_path / "out").sort_by("x")
    assert found.column("x").to_pylist() == there.column("x").to_pylist()
    assert list(map(str, found.column("p").to_pylist())) == list(map(str, values))


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_folders_of_times(kind: str, zone: str | None, tmp_path: Path) -> None:
    per_s, ms = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind], [0, 1_500, -86_400_001, None, 1_700_000_000_123]
    values = [None if t is None else t * per_s // 1000 for t in ms]
    there = pa.table({"p": pa.array(values, pa.timestamp(kind, zone)), "x": range(5)})
    to_tfrecord(there, tmp_path / "out", partition_by=["p"])
    found = read_tfrecord(tmp_path / "out").sort_by("x")
    assert found.select(["p", "x"]).equals(there)
    late = pa.table({"p": pa.array([1 << 40], pa.timestamp("s", zone)), "x": [1]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"timestamp\[s.*\] has a time beyond the years 1 to 9999"):
        to_tfrecord(late, tmp_path / "late", partition_by=["p"])
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("name", ["_p", ".p", "a=b /", "a/b", "ü", "p.q", "%2E", " "])
def test_a_folder_for_any_name_of_a_column(name: str, tmp_path: Path) -> None:
    there = pa.table({name: ["a", "b", None], "x": [1, 2, 3]})
    to_tfrecord(there, tmp_path / "out", partition_by=[name])
    found = read_tfrecord(tmp_path / "out").sort_by("x")
    assert found.schema.equals(there.schema) and found.to_pylist() == there.to_pylist()


@pytest.fixture
def few_open_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("codec", ["", "gzip", "zlib"])
def test_more_folders_than_files_may_be_open(codec: str, tmp_path: Path, few_open_files: None) -> None:
    there = pa.table({"p": np.arange(24_000) % 350, "x": range(24_000)})
    to_tfrecord(there, tmp_path / "out", partition_by=["p"], codec=codec)
    found = read_tfrecord(tmp_path / "out").sort_by("x")
    assert found.equals(there.select(found.column_names).cast(found.schema))


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.time64("us")])
def test_types_that_name_no_folder(kind: pa.DataType, tmp_path: Path) -> None:
    there = pa.table({"p": pa.nulls(2, kind), "x": [1, 2]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"partition_by: column 'p' is .* name no folders"):
        to_tfrecord(there, tmp_path / "out", partition_by=["p"])
    assert not (tmp_path / "out").exists()


def test_only_the_folders_columns_of_byte_arrays(tmp_path: Path) -> None:
    there = pa.table({"p": [1, 1, 2], "b": pa.array([b"x", b"", b"yy"])})
    to_tfrecord(there, tmp_path / "out", record_type="ByteArray", partition_by=["p"])
    assert read_tfrecord(tmp_path / "out", columns=["p"]).column("p").to_pylist() == [1, 1, 2]


@pytest.mark.parametrize(
    "kind, message",
    [
        (pa.list_(pa.list_(pa.int64())), "lists of lists need recordType SequenceExample"),
        (pa.list_(pa.list_(pa.list_(pa.int64()))), "has no feature type"),
        (pa.map_(pa.string(), pa.int64()), "has no feature type"),
        (pa.duration("us"), "has no feature type"),
        (pa.list_(pa.int64(), 2), r"the record at byte 0: column 'x': .*FixedSizeList"),
    ],
)
def test_schemas_that_records_cannot_be_read_by(kind: pa.DataType, message: str, tmp_path: Path) -> None:
    to_tfrecord(pa.table({"x": [1, 2, 3]}), tmp_path / "out")
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        read_tfrecord(tmp_path / "out", schema=pa.schema([("x", kind)]))


def test_a_feature_without_a_value_where_none_is_null(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"x": pa.array([[1], [], [2]])}), tmp_path / "out")
    assert read_tfrecord(tmp_path / "out", schema=pa.schema([("x", pa.int64())])).column("x").to_pylist() == [
        1,
        None,
        2,
    ]
    never = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="byte 30 has no feature 'x', which the schema says is never"
    ):
        read_tfrecord(tmp_path / "out", schema=never)


def test_a_double_that_floats_have_not(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"x": [1e300, -1e300, 1.5]}), tmp_path / "out")
    assert read_tfrecord(tmp_path / "out").column("x").to_pylist() == [float("inf"), float("-inf"), 1.5]


def test_empty_files_have_no_record(tmp_path: Path) -> None:
    """As TensorFlow reads them, and gzip."""
    for name in ("a.tfrecord", "b.tfrecord.gz", "c.tfrecord.zlib"):
        (tmp_path / name).touch()
    assert read_tfrecord(tmp_path, schema=pa.schema([("x", pa.int64())])).num_rows == 0
    assert read_tfrecord(tmp_path).column_names == []


@pytest.mark.parametrize(("first", "then"), [([], ["p"]), (["p"], []), (["p"], ["q"]), (["p"], ["p", "q"])])
def test_appending_with_other_folders(first: list[str], then: list[str], tmp_path: Path) -> None:
    """Such a folder could not be read any more."""
    there = pa.table({"p": [1, 2], "q": [3, 4], "x": [5, 6]})
    to_tfrecord(there, tmp_path / "out", partition_by=first)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"has (no partition )?folders.* give the same partition_by"
    ):
        to_tfrecord(there, tmp_path / "out", mode="append", partition_by=then)
    assert read_tfrecord(tmp_path / "out").num_rows == 2


def test_appending_in_another_order_of_folders(tmp_path: Path) -> None:
    there = pa.table({"p": [1, 2], "q": [3, 4], "x": [5, 6]})
    for names in (["p", "q"], ["q", "p"]):
        to_tfrecord(there, tmp_path / "out", mode="append", partition_by=names)
    assert read_tfrecord(tmp_path / "out").sort_by("p").to_pydict() == {
        "p": [1, 1, 2, 2],
        "q": [3, 3, 4, 4],
        "x": [5, 5, 6, 6],
    }


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"b": [1]}, "with 'a', float, which what is appended has not"),
        ({"a": [1]}, "with 'a', float, which what is appended has as int64"),
        ({"a": [[2.0]], "b": [1]}, ""),
    ],
)
def test_appending_to_records_of_others(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    record = tf.train.Example()
    record.features.feature["a"].float_list.value.append(5)
    with tf.python_io.TFRecordWriter(tmp_path / "f.tfrecord") as writer:
        writer.write(record.SerializeToString())
    if message:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            to_tfrecord(pa.table(columns), tmp_path, mode="append")
        assert [p.name for p in tmp_path.iterdir()] == ["f.tfrecord"]
    else:
        to_tfrecord(pa.table(columns), tmp_path, mode="append")
        found = read_tfrecord(tmp_path).sort_by("b").to_pydict()
        assert found == {"a": [[2.0], [5.0]], "b": [1, None]}


def test_matrices_in_partitions_of_several_files(tmp_path: Path) -> None:
    """Parts of a table, of which Arrow picks out other matrices."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(range(32)), 2)
    x = pa.FixedSizeListArray.from_arrays(rows, 2)
    table = pa.table({"row": range(8), "x": x, "p": [0, 1] * 4}).slice(1)
    to_tfrecord(table, tmp_path / "out", "error", "SequenceExample", partition_by=["p"], rows_per_file=3)
    assert read_tfrecord(tmp_path / "out").sort_by("row").to_pylist() == table.to_pylist()


def test_a_folder_whose_name_reads_as_a_pattern(tmp_path: Path) -> None:
    for name in ("a[b]", "b?", "*"):
        to_tfrecord(pa.table({"x": [1]}), tmp_path / name)
        assert read_tfrecord(tmp_path / name).num_rows == 1
    for rows in (0, 1.5):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"a whole number of at least 1, got {rows}"):
            to_tfrecord(pa.table({"x": [1]}), tmp_path / "none", rows_per_file=rows)  # type: ignore[arg-type]


def test_small_files_are_shared_out_to_tasks(tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    for i, size in enumerate([1, 20, 20, 100, 5, 5]):
        with open(tmp_path / f"{i}.tfrecord", "wb") as file:
            file.truncate(size << 20)
    source = TFRecordSource({"path": str(tmp_path)})
    parts = source.reader(StructType([StructField("x", LongType())])).partitions()
    found = [[Path(path).stem for path in part.paths] for part in parts]
    assert found == [["0", "1"], ["2"], ["3"], ["4", "5"]]


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("GzipCodec", ".gz"), ("DefaultCodec", ".zlib"), ("DeflateCodec", ".zlib"), ("BZip2Codec", "")],
)
def test_codecs_by_the_names_of_hadoop(codec: str, suffix: str, tmp_path: Path) -> None:
    name = f"org.apache.hadoop.io.compress.{codec}"
    if not suffix:
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"expected one of none, gzip, zlib, .*{name}"):
            to_tfrecord(pa.table({"x": [1]}), tmp_path / "out", codec=name)
        return
    to_tfrecord(pa.table({"x": [1]}), tmp_path / "out", codec=name)
    assert [p.suffix for p in (tmp_path / "out").glob("part*")] == [suffix]
    assert read_tfrecord(tmp_path / "out", codec=name).num_rows == 1


def test_where_spark_writes() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    source = TFRecordSource({"path": "out", "writeLocality": "local"})
    with pytest.raises(tf.errors.InvalidArgumentError, match="writeLocality can be 'distributed' alone, got 'local'"):
        source.writer(StructType([StructField("x", LongType())]), overwrite=True)


def test_a_table_of_sparks_catalog_is_refused_when_it_is_made() -> None:
    """What Spark 4.3 tells the source then; of what reads the table it tells nothing."""
    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    told = {"owner": "me", "path": "file:/out", "location": "file:/out", "provider": "tfrecord"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="CREATE TEMPORARY VIEW records USING"):
        TFRecordSource(told).schema()


def test_options_as_messages_spell_them(tmp_path: Path) -> None:
    """Errors name them as Spark has them; as Dask spells them they are taken, too."""
    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    to_tfrecord(pa.table({"x": [[1], [1, 2]], "y": [1, 2]}), tmp_path / "out")
    (file,) = (tmp_path / "out").glob("part*")
    (tmp_path / "out" / "_sparkflow_schema.json").unlink()
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(tf.errors.DataLossError, match="option onError 'skip' leaves such records out"):
        TFRecordSource({"path": str(tmp_path / "out"), "sample": "0"}).schema()
    found = TFRecordSource({"path": str(tmp_path / "out"), "on_error": "skip", "sample": "5"}).schema()
    assert found.simpleString() == "struct<x:bigint,y:bigint>"


@pytest.mark.parametrize(
    ("option", "instead"),
    [("compression", r"\. Instead, the codec is named by codec$"), ("mergeSchema", "sampleSize=0"), ("x", "Mode$")],
)
def test_options_of_other_sources(option: str, instead: str) -> None:
    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"option '{option.lower()}' is unknown; there .*{instead}"
    ):
        TFRecordSource({"path": "folder", option: "1"}).schema()


def test_one_column_is_named_without_a_list(tmp_path: Path) -> None:
    """Its letters are no columns, though each may be one."""
    there = pa.table({"day": [1, 2], "d": [3, 4], "a": [5, 6], "y": [7, 8]})
    to_tfrecord(there, tmp_path / "out", partition_by="day")
    assert sorted(path.name for path in (tmp_path / "out").glob("*=*")) == ["day=1", "day=2"]
    assert read_tfrecord(tmp_path / "out", columns="day").to_pydict() == {"day": [1, 2]}
    assert list(tf.dask.read_tfrecord(tmp_path / "out", columns="day").columns) == ["day"]


def test_what_a_dask_task_is_sent_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    """Each would carry what is known of all files: of 20,000 files, gigabytes in all."""
    from distributed.protocol.pickle import dumps

    sizes = []
    for files in (2, 200):
        to_tfrecord(pa.table({"p": range(files), "x": range(files)}), tmp_path / str(files), partition_by=["p"])
        frame = tf.dask.read_tfrecord(tmp_path / str(files))
        sizes.append(max(len(dumps(task)) for task in frame.optimize().__dask_graph__().values()))
        assert frame["p"].compute(scheduler="synchronous").sum() == frame["x"].compute(scheduler="synchronous").sum()
    assert sizes[1] < sizes[0] + 100


def test_columns_are_found_once() -> None:
    """Arrow lists all names anew for each question about one."""
    asked = []

    class Asked:
        def __init__(self, schema: pa.Schema):
            self.schema = schema

        def __iter__(self) -> Iterator[pa.Field]:
            asked.append("all")
            return iter(self.schema)

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(self.schema, name)

    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(500)])
    dataset = Dataset((), Asked(schema), "Example", Options())  # type: ignore[arg-type]
    assert dataset._of_columns(schema.names) == schema
    assert len(asked) < 5, asked
