"""Paths of record files as users write them: patterns, relative ones, and of files that are replaced meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.tfrecord import open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import FolderWriter, to_tfrecord


def number(value: int) -> pa.Table:
    return pa.table({"x": [value]})


def found(pattern: str) -> list[int]:
    return sorted(read_tfrecord(pattern).column("x").to_pylist())


def test_what_a_pattern_leaves_out(tmp_path: Path) -> None:
    """Spark's users write folder/*, which also fits what lies beside records, and what a writer has not shown yet."""
    for value in (1, 2):
        to_tfrecord(number(value), tmp_path / "out", mode="append")
    other = FolderWriter(tmp_path / "out", number(3).schema, "append")
    other.begin()
    other.write(iter(number(3).to_batches()), 0)
    assert found(f"{tmp_path}/out/*") == [1, 2]
    assert found(f"{tmp_path}//*//part-*") == found(f"{tmp_path}/*") == [1, 2]
    with pytest.raises(tf.errors.NotFoundError, match="there is no record file"):
        read_tfrecord(f"{tmp_path}/out/*/part-*")
    assert found(f"{other.temporary}/part-*") == [3], "who names a hidden folder wants it"
    other.abort()


def test_a_pattern_that_begins_with_what_is_hidden(tmp_path: Path) -> None:
    to_tfrecord(number(1), tmp_path / "_raw" / "out")
    assert found(f"{tmp_path}/_raw/*") == [1]
    to_tfrecord(pa.table({"_day": [7], "x": [2]}), tmp_path / "days", partition_by=["_day"])
    assert found(f"{tmp_path}/days/*") == [2], "a folder of a partition"


def test_one_of_several_names(tmp_path: Path) -> None:
    """As Hadoop has it: those there are."""
    for name in ("2020-01", "2020-02", "2021-01"):
        to_tfrecord(number(int(name.replace("-", ""))), tmp_path / name)
    assert found(f"{tmp_path}/{{2020-02,2021-01,2022-01}}") == [202002, 202101]
    assert found(f"{tmp_path}/{{2020,2021}}-{{01,02}}") == [202001, 202002, 202101]
    assert found(f"{tmp_path}/202{{0-0{{1,2}},1*}}") == [202001, 202002, 202101]
    with pytest.raises(tf.errors.NotFoundError, match=r"\{a,b\}: there is no record file"):
        read_tfrecord(f"{tmp_path}/{{a,b}}")
    to_tfrecord(number(5), tmp_path / "{a,b}")
    assert found(f"{tmp_path}/{{a,b}}") == [5], "a folder of that name"


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor of Spark has a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    writer = FolderWriter("out", number(1).schema)
    assert writer.temporary.startswith(f"{tmp_path}/out/")
    to_tfrecord(number(1), "out")
    for path in ("out", "./o*", "file:out"):
        assert all(os.path.dirname(file) == f"{tmp_path}/out" for file in open_tfrecord(path).files)


def test_a_folder_that_is_overwritten_before_it_is_read(tmp_path: Path) -> None:
    to_tfrecord(number(1), tmp_path / "out")
    listed = open_tfrecord(tmp_path / "out")
    to_tfrecord(number(2), tmp_path / "out", mode="overwrite")
    with pytest.raises(
        tf.errors.NotFoundError, match=r"tfrecord is gone since its folder was listed.*Read the folder a"
    ):
        listed.table()


@pytest.mark.parametrize("path", [None, 3, [None], b"folder"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="path: expected the name of a folder or file, got"):
        tf.local.read_tfrecord(path)


def test_partitions_by_what_is_no_name(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="partition_by: column 3 is missing; the table has x"):
        tf.local.to_tfrecord(pa.table({"x": [1]}), tmp_path / "out", partition_by=cast(Any, 3))
