"""Tables and folders of a sceptical user: what is odd is written and comes back, or is refused before anything is."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import tfrecord
from sparkflow_connectors.tfrecord import open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord

VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)
VECTORS = [
    {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0]},
    None,
    {"type": 0, "size": 3, "indices": [2, 0], "values": [5.0, 0.5]},
    {"type": 0, "size": 2, "indices": [], "values": []},
    {"type": 1, "size": None, "indices": None, "values": []},
]


def test_many_columns_are_read_by_many_rows(tmp_path: Path) -> None:
    """A batch costs some microseconds a column: of a hundred rows, three times as much as their values."""
    there = pa.table({f"feature_{i}": pa.array([i] * 600, pa.float32()) for i in range(1000)})
    to_tfrecord(there, tmp_path / "out")
    found = list(open_tfrecord(tmp_path / "out").batches())
    assert len(found) == 1 and pa.Table.from_batches(found).equals(there)
    few = list(open_tfrecord(tmp_path / "out").batches(columns=["feature_7"]))
    assert len(few) > 3, "what is left out takes no memory of a batch"


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_vectors_are_lists_of_their_values(record_type: str, tmp_path: Path) -> None:
    """As spark-tensorflow-connector writes them, sparse ones too."""
    there = pa.table({"v": pa.array([{"type": 1, "values": [9.0]}, *VECTORS], VECTOR), "n": range(6)})
    to_tfrecord(there.slice(1), tmp_path / "out", record_type=record_type)
    found = read_tfrecord(tmp_path / "out")
    assert found.column("v").to_pylist() == [[1, 2], None, [0.5, 0, 5], [0, 0], []]
    assert found.schema.field("v").type == pa.list_(pa.float64())
    to_tfrecord(there.slice(0, 0), tmp_path / "out", "append", record_type=record_type)
    assert read_tfrecord(tmp_path / "out").num_rows == 5
    if record_type == "Example":
        (part,) = (tmp_path / "out").glob("part*")
        (first, *_) = tf.python_io.tf_record_iterator(str(part))
        assert list(tf.train.Example.FromString(first).features.feature["v"].float_list.value) == [1, 2]


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_views_of_lists(kind: Any, tmp_path: Path) -> None:
    there = pa.table({"x": pa.array([[7], [1, 2], None, [], [3]], kind(pa.int16())).slice(1), "s": [{"y": 1}] * 4})
    to_tfrecord(there, tmp_path / "out")
    assert read_tfrecord(tmp_path / "out").to_pylist() == there.to_pylist()


def test_a_struct_without_a_field(tmp_path: Path) -> None:
    """There is nothing to write, and what would be written could not be read."""
    for kind in (pa.struct([]), pa.struct([("inner", pa.struct([]))])):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"column 's.*': struct<> cannot be written as Example"
        ):
            to_tfrecord(pa.table({"s": pa.nulls(2, kind), "n": [1, 2]}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_value_that_is_too_long_for_a_folder(tmp_path: Path) -> None:
    for value, size in (("x" * 254, 256), ("é" * 50, 302)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"column 'p' has the value '.*a name of {size} bytes"
        ):
            to_tfrecord(pa.table({"p": ["a", value], "n": [1, 2]}), tmp_path / "out", partition_by=["p"])
    assert not (tmp_path / "out").exists()
    to_tfrecord(pa.table({"p": ["x" * 253], "n": [1]}), tmp_path / "out", partition_by=["p"])
    assert read_tfrecord(tmp_path / "out").column("p").to_pylist() == ["x" * 253]


def test_a_path_that_is_given_twice_is_read_twice(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"n": [1, 2]}), tmp_path / "out")
    (part,) = (tmp_path / "out").glob("part*")
    for paths in ([part, part], [tmp_path / "out", part], [tmp_path / "out"] * 2):
        assert read_tfrecord(paths).column("n").to_pylist() == [1, 2, 1, 2]
        assert open_tfrecord(paths).without_nulls == {"n"}


def test_folders_that_are_links(tmp_path: Path) -> None:
    """Their rows are not left out without a word; nor is a folder that holds itself read without an end."""
    to_tfrecord(pa.table({"n": [1, 2], "p": ["a", "b"]}), tmp_path / "out", partition_by=["p"])
    (tmp_path / "out" / "p=b").rename(tmp_path / "elsewhere")
    (tmp_path / "out" / "p=b").symlink_to(tmp_path / "elsewhere")
    assert sorted(read_tfrecord(tmp_path / "out").column("n").to_pylist()) == [1, 2]
    (tmp_path / "elsewhere" / "p=c").symlink_to(tmp_path / "out" / "p=b")
    with pytest.raises(tf.errors.FailedPreconditionError, match="p=c is a link to a folder that it is in"):
        read_tfrecord(tmp_path / "out")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are not left out without a word."""
    to_tfrecord(pa.table({"n": [1, 2], "p": ["a", "b"]}), tmp_path / "out", partition_by=["p"])
    scan = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("p=b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(tfrecord.os, "scandir", refused)
    with pytest.raises(
        tf.errors.PermissionDeniedError, match="p=b: this process may not list the files of that folder"
    ):
        read_tfrecord(tmp_path / "out")


def test_a_schema_of_too_few_records(tmp_path: Path) -> None:
    to_tfrecord(pa.table({"x": [[1]] * 3 + [[1, 2]]}), tmp_path / "out")
    (tmp_path / "out" / "_sparkflow_schema.json").unlink()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"has 2 values, .* or infer it from more records \(sample"
    ):
        read_tfrecord(tmp_path / "out", sample=2)
    assert read_tfrecord(tmp_path / "out", sample=0).column("x").to_pylist()[3] == [1, 2]


def test_names_of_pandas_that_are_there_twice(tmp_path: Path) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Column 'a' is there several times: give the columns diff"
    ):
        tf.local.to_tfrecord(pd.DataFrame([[1, 2]], columns=["a", "a"]), tmp_path / "out")


def test_a_partition_of_dask_that_is_written_twice_at_once(tmp_path: Path) -> None:
    """By a worker that was given up and lives: neither writes into the other's file, and one of them is shown."""
    from sparkflow_connectors.dask_tfrecord import _write
    from sparkflow_connectors.tfrecord_write import FolderWriter

    frames = [pd.DataFrame({"n": range(k)}) for k in (30_000, 3)]
    writer = FolderWriter(tmp_path / "out", pa.schema([("n", pa.int64())]))
    writer.begin()
    (lost, *_), (found, *_) = (_write(frame, 0, writer) for frame in frames)
    assert not lost.keys() & found.keys()
    writer.commit(found)
    assert read_tfrecord(tmp_path / "out").num_rows == 3 and len(list((tmp_path / "out").iterdir())) == 3


def test_categories_that_dask_does_not_know(tmp_path: Path) -> None:
    """Its frame says that they are strings."""
    import dask
    import dask.dataframe as dd

    frame = pd.DataFrame({"c": pd.Categorical([5, 7, None]), "s": pd.Categorical(["a", None, "b"]), "n": [1, 2, 3]})
    parts = dd.from_pandas(frame, npartitions=3)
    unknown = parts.assign(c=parts.c.cat.as_unknown(), s=parts.s.cat.as_unknown())
    with dask.config.set(scheduler="threads"):
        tf.dask.to_tfrecord(unknown, tmp_path / "out")
    found = read_tfrecord(tmp_path / "out").sort_by("n").to_pydict()
    assert found == {"c": [5, 7, None], "s": ["a", None, "b"], "n": [1, 2, 3]}


@pytest.mark.parametrize("record_type", ["Example", "ByteArray"])
def test_no_columns_and_columns_twice(record_type: str, tmp_path: Path) -> None:
    """Whoever only counts wants no column: there are as many rows all the same."""
    to_tfrecord(pa.table({"byteArray": [b"a", b"b", b""]}), tmp_path / "out", record_type=record_type)
    found = read_tfrecord(tmp_path / "out", columns=[])
    assert (found.num_rows, found.num_columns) == (3, 0)
    assert open_tfrecord(tmp_path / "out").table([], []).num_rows == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="column 'byteArray' is named twice in columns"):
        read_tfrecord(tmp_path / "out", columns=["byteArray"] * 2)
    pytest.importorskip("dask.dataframe")
    assert len(tf.dask.read_tfrecord(str(tmp_path / "out"), columns=[])) == 3


def test_a_decimal_that_floats_have_not(tmp_path: Path) -> None:
    """It would be infinite there, which is no decimal any more when it is read."""
    big = pa.table({"d": pa.array([Decimal(1), None, Decimal("-" + "1" * 40)], pa.decimal256(60, 2))})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"column 'd': 1.11111e\+39 is more than a feature holds"):
        to_tfrecord(big, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    to_tfrecord(big.slice(0, 2), tmp_path / "out")
    assert read_tfrecord(tmp_path / "out").column("d").to_pylist() == [Decimal(1), None]


@pytest.mark.parametrize(
    "kind", [pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(38, 0), pa.decimal256(38, 9)]
)
def test_decimals_near_their_precision(kind: Any, tmp_path: Path) -> None:
    """32 bits round them up, at times to one digit more than the type has."""
    most = Decimal(f"{10**kind.precision - 1}E-{kind.scale}")
    there = pa.table({"d": pa.array([most, Decimal(1), None, most.copy_negate()], kind)})
    to_tfrecord(there.append_column("l", pa.array([[most], [], None, [most]], pa.list_(kind))), tmp_path / "out")
    found = read_tfrecord(tmp_path / "out")
    first, one, none, last = found.column("d").to_pylist()
    assert (one, none, last) == (1, None, first.copy_negate()) and first <= most and float(first / most) > 1 - 6e-8
    assert found.column("l").to_pylist() == [[first], [], None, [first]]


def test_a_decimal_beyond_its_precision(tmp_path: Path) -> None:
    """What was never of the type is no decimal of it."""
    to_tfrecord(pa.table({"d": pa.array([1e8, 1.1e8], pa.float32())}), tmp_path / "out")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"column 'd': Cannot convert 110000000\.0+ to Decimal128"):
        read_tfrecord(tmp_path / "out", schema=pa.schema([("d", pa.decimal128(10, 2))]))


def test_a_schema_with_names_in_other_letters(tmp_path: Path) -> None:
    """Spark takes them for the same, and would be given nulls."""
    to_tfrecord(pa.table({"id": [1, 2], "Day": ["a", "b"]}), tmp_path / "out", partition_by=["Day"])
    for schema in (pa.schema([("ID", pa.int64())]), pa.schema([("id", pa.int64()), ("day", pa.string())])):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"features differ by case. Say '(id|Day)'"):
            read_tfrecord(tmp_path / "out", schema=schema)
    other = pa.schema([("id", pa.int64()), ("later", pa.int64())])
    assert read_tfrecord(tmp_path / "out", schema=other).column("later").to_pylist() == [None, None]
