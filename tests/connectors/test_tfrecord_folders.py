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
from sparkflow_connectors.tfrecord import read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord

NAN = float("nan")


@pytest.mark.parametrize(
    "values", [[1.0, NAN, NAN, None, -0.0, 0.0, float("inf")], ["", "a=b", "/", ".", "..", "%", None]]
)
def test_each_row_is_in_one_folder(values: list[Any], tmp_path: Path) -> None:
    """NaN is no number that equals itself, and 0.0 equals -0.0: neither loses or doubles a row."""
    there = pa.table({"p": values, "q": [1] * len(values), "x": range(len(values))})
    to_tfrecord(there, tmp_path / "out", partition_by=["q", "p"])
    found = read_tfrecord(tmp_path / "out").sort_by("x")
    assert found.column("x").to_pylist() == there.column("x").to_pylist()
    assert list(map(str, found.column("p").to_pylist())) == list(map(str, values))


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
