"""Which rows of a Dask DataFrame's partitions a worker has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf

dask_engine = pytest.importorskip("sparkflow_connectors.dask")
dask_partitions = pytest.importorskip("sparkflow_connectors.dask_partitions")

INVALID = tf.errors.InvalidArgumentError
JOB: Any = SimpleNamespace(workers=3, columns=SimpleNamespace(read=["row"]))
FRAME = pd.DataFrame({"row": np.arange(10)[::-1], "part": np.arange(10) - 5})


def rows(rank: int, frames: list[pd.DataFrame], partition_by: str | None, order_by: str | None) -> list[int]:
    if partition_by is not None:
        given = [dask_partitions.Frame(frame) for frame in frames]
        own = dask_partitions._owned(range(len(given)), given, JOB.workers, rank, partition_by, order_by)
        assert [number for number, _ in own] == list(range(len(given)))
        frames = [frame.pandas for _, frame in own]
    if order_by is not None:
        frames = [dask_engine._ordered(frames, order_by)]
    return [int(row) for frame in frames for row in frame["row"]]


@pytest.mark.parametrize("order_by", [None, "row"])
def test_a_worker_without_a_partition_has_no_rows(order_by: str | None) -> None:
    """There are fewer partitions than workers."""
    assert list(dask_engine._pieces(JOB, {}, order_by)) == []


@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_integers_of_every_kind_say_whose_a_row_is(backend: Any) -> None:
    frame = FRAME if backend is None else FRAME.convert_dtypes(dtype_backend=backend)
    frames = [frame.iloc[:4], frame.iloc[4:4], frame.iloc[4:]]
    for rank in range(JOB.workers):
        expected = [row for row, part in zip(FRAME["row"], FRAME["part"]) if part % JOB.workers == rank]
        assert rows(rank, frames, "part", None) == expected
        assert rows(rank, frames, "part", "row") == sorted(expected)


def test_a_small_integer_says_which_of_many_workers_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOB, "workers", 200)
    frame = pd.DataFrame({"row": [0, 1], "part": np.array([-1, 127], np.int8)})
    assert rows(199, [frame], "part", None) == [0] and rows(127, [frame], "part", None) == [1]


@pytest.mark.parametrize("values", [[{"a": 1}, {"a": 2}], [np.zeros(2), np.ones(2)], ["a", 1]])
def test_an_order_that_pandas_has_not(values: list[Any]) -> None:
    frame = pd.DataFrame({"row": [0, 1], "o": pd.Series(values, dtype=object)})
    for given in (frame, frame.assign(o=pd.array([[2], [1]], pd.ArrowDtype(pa.list_(pa.int64()))))):
        with pytest.raises(INVALID, match=r"order_by: column 'o' has type .*, by which rows cannot be sorted\. Name a"):
            rows(0, [given], None, "o")
