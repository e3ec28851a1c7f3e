"""How a Dask DataFrame's partitions are dealt to workers, and that what is refused of one names it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkflow as tf

partitions = pytest.importorskip("sparkflow_connectors.dask_partitions")
dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

INVALID = tf.errors.InvalidArgumentError
NUMBERS = pd.DataFrame({"x": [1, 2], "name": ["a", "b"]})


@pytest.mark.parametrize(
    ("rows", "shares"),
    [
        ([10, 10, 10, 10], [[0, 1], [2, 3]]),
        ([10, 10, 0, 0], [[0], [1, 2, 3]]),
        ([0, 0, 10, 10], [[0, 1, 2], [3]]),
        ([100, 1, 1, 1, 1], [[0], [1, 2, 3, 4]]),
        ([1, 1, 1, 1, 100], [[0, 1, 2, 3], [4]]),
        ([100, 5, 5], [[0], [1], [2]]),
        ([100, 1, 1, 1, 1], [[0], [1, 2], [3, 4]]),
        ([5, 5, 100], [[0], [1], [2]]),
        ([0, 7, 0], [[0, 1, 2], []]),
        ([7], [[0], [], []]),
        ([0, 0], [[0, 1], []]),
        ([], [[], []]),
        ([3, 4], [[0, 1]]),
    ],
)
def test_workers_have_runs_of_about_as_many_rows(rows: list[int], shares: list[list[int]]) -> None:
    assert [list(share) for share in partitions.dealt(rows, len(shares))] == shares


def test_every_partition_goes_to_one_worker_in_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        rows = (rng.integers(0, 9, rng.integers(0, 40)) * rng.integers(0, 2)).tolist()
        workers = int(rng.integers(1, 8))
        shares = partitions.dealt(rows, workers)
        assert [number for share in shares for number in share] == list(range(len(rows)))
        idle = sum(not any(rows[number] for number in share) for share in shares)
        assert idle == max(workers - sum(map(bool, rows)), 0)


def test_partitions_of_alike_rows_are_dealt_evenly() -> None:
    for count in range(1, 60):
        for workers in range(1, min(count, 9) + 1):
            most = max(map(len, partitions.dealt([6] * count, workers)))
            assert most == -(-count // workers)


def test_an_error_says_which_partition_it_is_of() -> None:
    with pytest.raises(INVALID, match=r"^Partition 3 of the table: it is odd$"), partitions.in_partition(3):
        raise INVALID(None, None, "it is odd")
    with pytest.raises(ZeroDivisionError) as raised, partitions.in_partition(4):
        print(1 / 0)
    assert pickle.loads(pickle.dumps(raised.value)).__notes__ == ["(in partition 4 of the table)"]


def length_model(folder: Path) -> Any:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.int64, [None])
        tf.saved_model.simple_save(session, str(folder / "m"), {"x": x}, {"double": x * 2})
    return tf.local.load_model(str(folder / "m"))


def scored(model: Any, *parts: Any) -> Any:
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "threads"}):
        frame = dd.from_delayed(
            [dask.delayed(lambda part=part: part)() for part in parts], meta=NUMBERS.iloc[:0], verify_meta=False
        )
        return model.transform(frame).compute()


def test_a_scored_partition_whose_columns_are_in_another_order(tmp_path: Path) -> None:
    found = scored(length_model(tmp_path), NUMBERS, NUMBERS[["name", "x"]])
    assert list(found.columns) == ["x", "name", "double"] and found["double"].tolist() == [2, 4, 2, 4]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (NUMBERS.assign(x=[0.5, 1.5]), "Column 'x' has type double, and the "),
        (NUMBERS.assign(more=1), "Column 'more' is in no other one. Make all partitions alike"),
        (NUMBERS[["x"]], "Column 'name' is missing; the table has 'x'"),
        (NUMBERS[["x", "name", "name"]], "Column 'name' is there 2 times"),
        (NUMBERS["x"], "A partition of the table is of type Series"),
        (NUMBERS.astype({"x": object}).assign(x=[None, None]), r"Column 'x' \(feature\) is null at row 0"),
    ],
    ids=["type", "more", "fewer", "twice", "Series", "null"],
)
def test_a_scored_partition_that_differs(odd: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(INVALID, match=f"^Partition 1 of the table: .*{message}"):
        scored(length_model(tmp_path), NUMBERS, odd)
