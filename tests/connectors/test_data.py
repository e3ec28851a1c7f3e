"""Columns, spools and the order of rows: everything about the data that needs no process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors import spool
from sparkflow_connectors.feeding import Feeder, shard, steps_per_epoch
from sparkflow_connectors.local import partition
from sparkflow_connectors.schema import check_keys, check_partitioning, check_trainable, resolve
from sparkflow_connectors.training import start_position
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError, ResourceExhaustedError

TABLE = pa.table(
    {"a": np.arange(10), "b": np.arange(10, dtype=np.float32), "s": list("abcdefghij"), "y": np.ones(10, np.float32)}
)
COLUMNS = resolve(TABLE.schema, ["a", "b"], "y")


def test_resolve_reads_types_from_the_table() -> None:
    assert COLUMNS.all == {"a": dtypes.int64, "b": dtypes.float32, "y": dtypes.float32}


@pytest.mark.parametrize(
    ("features", "label", "message"),
    [
        (["a", "z"], "y", "Column 'z' is missing; the table has 'a', 'b', 's', 'y'"),
        (["a", "s"], "y", "Column 's' has type string: a training reads strings as numbers. Give it a voc"),
        ({"a": dtypes.int32}, "y", "Column 'a' has type int64, and the model asks for int32"),
        (["a", "y"], "y", "is the label and among the features"),
        (["a"], "nothing", "Column 'nothing' is missing"),
        ([], "y", "no feature column"),
    ],
)
def test_resolve_refuses(features: Any, label: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_trainable(resolve(TABLE.schema, features, label))


def test_spool_keeps_rows_and_leaves_no_file(tmp_path: Path) -> None:
    rows = spool.Spool(spool.write(TABLE.to_batches(max_chunksize=3), COLUMNS, str(tmp_path)), COLUMNS)
    assert os.listdir(tmp_path) == [], "it never has a name"
    assert rows.rows == 10
    assert rows.take(np.array([7, 2]))["a"].tolist() == [7, 2]
    rows.close()


@pytest.mark.parametrize(("column", "what"), [("y", "label"), ("a", "feature")])
def test_spool_refuses_nulls_and_leaves_nothing(tmp_path: Path, column: str, what: str) -> None:
    values = TABLE.column(column).to_pylist()
    values[5] = None
    holed = TABLE.set_column(
        TABLE.schema.get_field_index(column),
        TABLE.schema.field(column),
        pa.array(values, TABLE.schema.field(column).type),
    )
    with pytest.raises(InvalidArgumentError, match=rf"'{column}' \({what}\) is null at row 5"):
        spool.write(holed.to_batches(max_chunksize=4), COLUMNS, str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_spool_refuses_a_type_that_changes_half_way(tmp_path: Path) -> None:
    other = pa.RecordBatch.from_pydict({"a": ["x"], "b": [1.0], "y": [1.0]})
    with pytest.raises(InvalidArgumentError, match="'a' has type string"):
        spool.write([*TABLE.to_batches(), other], COLUMNS, str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [([0, 0], "is empty"), ([1, 0, 0], "more workers"), ([5, 0], r"Partitions \[1\] of 2 are empty")],
)
def test_row_counts_are_checked(rows: list[int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        spool.check_rows(rows)


def test_epochs_cover_every_training_row_and_depend_on_seed_rank_and_epoch_alone() -> None:
    a, again, other = (shard(7, rank, 103, 0.1, 10, 10) for rank in (0, 0, 1))
    assert len(a.train) == 93 and len(a.validation) == 10
    assert sorted([*a.train, *a.validation]) == list(range(103))
    first, second = a.order(0), a.order(1)
    assert first.tolist() == again.order(0).tolist()
    assert first.tolist() != second.tolist() != other.order(0).tolist()
    assert set(first) == set(a.train) and len(first) == 100
    assert first[93:].tolist() == first[:7].tolist(), "the last batch is filled with the epoch's first rows"


def test_synchronous_workers_make_equally_many_steps() -> None:
    rows = [100, 37]
    assert [steps_per_epoch(rows, r, 0.0, 10, True) for r in (0, 1)] == [10, 10]
    assert [steps_per_epoch(rows, r, 0.0, 10, False) for r in (0, 1)] == [10, 4]


def test_resume_goes_to_the_step_or_to_the_epoch() -> None:
    saved = [2, 5, 100, 10, 2, 5, 37, 10]
    assert start_position(saved, [100, 37], 10, 1) == (2, 5)
    assert start_position(saved, [100, 38], 10, 1) == (2, 0), "other rows: the epoch begins again"
    assert start_position(saved, [100, 37, 5], 10, 0) == (2, 0)
    assert start_position(None, [1], 10, 0) == (0, 0)


def test_feeder_starts_where_it_is_told() -> None:
    part, seen, closed = shard(1, 0, 40, 0.0, 4, 10), [], []
    feeder = Feeder(
        part, lambda i: {"row": i}, lambda rows: seen.extend(rows["row"]), lambda: closed.append(1), (1, 3), 3
    )
    feeder.start()
    feeder.join(10)
    assert seen == [*part.order(1)[12:], *part.order(2)] and closed == [1] and feeder.error is None


def test_a_full_disk_says_where_and_how_much(tmp_path: Path) -> None:
    with pytest.raises(ResourceExhaustedError, match=r"Cannot spool 10 rows \(\d+ bytes\) to .*nowhere: No such file"):
        spool.write(TABLE.to_batches(), COLUMNS, str(tmp_path / "nowhere"))


def test_columns_that_are_there_twice() -> None:
    twice = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(InvalidArgumentError, match="Column 'a' is there 2 times"):
        resolve(twice.schema, ["a"], None)
    with pytest.raises(InvalidArgumentError, match="must be a list of column names, got the string 'ab'"):
        resolve(TABLE.schema, "ab", None)


@pytest.mark.parametrize("what", ["partition_by", "order_by"])
def test_keys_of_rows_are_there_and_not_null(what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{what}: column 'z' is missing; the table has 'a', 'b'"):
        check_partitioning(TABLE.schema, **{"partition_by": None, "order_by": None, what: "z"})
    holed = pa.table({"k": pa.array([1, None, 3])})
    with pytest.raises(InvalidArgumentError, match=f"{what}: column 'k' is null at row 101"):
        check_keys(holed, {what: "k"}, 100)


def test_partition_by_column_is_the_same_everywhere() -> None:
    parts = partition(TABLE, 3, "a", "a")
    assert [p.column("a").to_pylist() for p in parts] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [p.num_rows for p in partition(TABLE, 3, None, None)] == [3, 3, 4]
    with pytest.raises(InvalidArgumentError, match="partition_by: column 'b' must be an integer, got float"):
        check_partitioning(TABLE.schema, "b", None)
