"""Writings that replace the partitions they have rows of, and no other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import tfrecord_commit
from sparkflow_connectors.tfrecord import open_tfrecord

PARTITIONS = "overwrite_partitions"


def rows(folder: Path) -> list[tuple[Any, ...]]:
    table = tf.local.read_tfrecord(folder)
    return sorted(zip(*(table[name].to_pylist() for name in ("x", "day")), strict=True), key=str)


def write(folder: Path, x: list[Any], day: list[Any], mode: str = PARTITIONS) -> None:
    table = pa.table({"x": pa.array(x, None if x else pa.int64()), "day": pa.array(day, pa.string())})
    tf.local.to_tfrecord(table, folder, mode, partition_by=["day"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "f", [1, 2, 3, 4], ["a", "ü %/", None, "a"])
    return tmp_path / "f"


def test_only_the_partitions_with_rows_are_replaced(folder: Path) -> None:
    write(folder, [5, 6], ["a", "new"])
    assert rows(folder) == [(2, "ü %/"), (3, None), (5, "a"), (6, "new")]
    write(folder, [7, 8], [None, "ü %/"])
    assert rows(folder) == [(5, "a"), (6, "new"), (7, None), (8, "ü %/")]
    assert open_tfrecord(folder).without_nulls == {"x"}, "which is known of all files still"
    write(folder, [], [])
    assert len(rows(folder)) == 4
    write(folder, [9], ["a"], "overwrite")
    assert rows(folder) == [(9, "a")]


def test_a_folder_that_others_named(folder: Path) -> None:
    """Spark leaves letters as they are where this writes their bytes."""
    os.rename(folder / "day=%C3%BC%20%25%2F", folder / "day=ü %25%2F")
    (folder / "_sparkflow_schema.json").unlink()  # which is how records of others come
    write(folder, [5], ["ü %/"])
    assert rows(folder) == [(1, "a"), (3, None), (4, "a"), (5, "ü %/")]
    assert not (folder / "day=ü %25%2F").exists()


def test_a_writer_that_dies_before_it_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(folder: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tfrecord_commit, "_finish", die)
        with pytest.raises(KeyboardInterrupt):
            write(folder, [5], ["a"])
    assert rows(folder) == [(2, "ü %/"), (3, None), (5, "a")], "who comes next finishes it"


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    table = pa.table({"x": [1]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="is for folders with partitions: give partition_by"):
        tf.local.to_tfrecord(table, tmp_path / "g", PARTITIONS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds Example of x: int64"):
        write(folder, ["text"], ["a"])
    assert len(rows(folder)) == 4
