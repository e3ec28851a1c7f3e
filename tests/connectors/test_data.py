"""Columns and partitions: what is checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors.local import partition, train
from sparkflow_connectors.schema import check_keys, check_partitioning, check_trainable, resolve
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

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


def test_an_order_that_arrow_has_not(tmp_path: Path) -> None:
    table = TABLE.append_column("l", pa.array([[i] for i in range(10)]))
    with pytest.raises(
        InvalidArgumentError, match=r"order_by: column 'l' has type list.*, by which rows cannot be sort"
    ):
        train(table, print, label="y", features=["a"], checkpoint_dir=str(tmp_path), order_by="l")


def test_partition_by_column_is_the_same_everywhere() -> None:
    parts = partition(TABLE, 3, "a", "a")
    assert [p.column("a").to_pylist() for p in parts] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [p.num_rows for p in partition(TABLE, 3, None, None)] == [3, 3, 4]
    with pytest.raises(InvalidArgumentError, match="partition_by: column 'b' must be an integer, got float"):
        check_partitioning(TABLE.schema, "b", None)


def test_a_small_integer_says_which_of_many_workers_has_a_row() -> None:
    table = pa.table({"key": pa.array([1, 127, -1], pa.int8())})
    assert [rank for rank, part in enumerate(partition(table, 200, "key", None)) if part.num_rows] == [1, 127, 199]


@pytest.mark.parametrize("key", [None, "a"])
def test_rows_of_every_form_of_arrow_are_shared_out(key: str | None) -> None:
    """Arrow itself picks none out of views and of run ends."""
    words = [[letter] for letter in "abcdefghij"]
    forms = {
        "view": pa.array(list("abcdefghij"), pa.string_view()), "views": pa.array(words, pa.list_(pa.string_view())),
        "runs": pa.RunEndEncodedArray.from_arrays([4, 10], [1, 2]), "ten": pa.array(np.arange(10, 0, -1)),
        "pairs": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(40).reshape(10, 2, 2)),
    }  # fmt: skip
    table = TABLE.select(["a"]).append_column("key", TABLE["a"])
    for name, array in forms.items():
        table = table.append_column(name, pa.chunked_array([array.slice(0, 3), array.slice(3)]))
    for order in ("ten", "view"):
        parts = partition(table, 2, key, order)
        for rank, part in enumerate(parts):
            rows = [r for r in range(10) if (r % 2 if key else r // 5) == rank][:: 1 if order == "view" else -1]
            assert part["a"].to_pylist() == rows and part["views"].to_pylist() == [words[r] for r in rows]
            assert part["runs"].to_pylist() == [1 if r < 4 else 2 for r in rows]
            assert part.schema.field("pairs").type == forms["pairs"].type
