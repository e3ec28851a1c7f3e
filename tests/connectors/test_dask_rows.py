"""Which rows of a Dask DataFrame's partitions a worker has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

dask_engine = pytest.importorskip("sparkflow_connectors.dask")

JOB: Any = SimpleNamespace(workers=3, columns=SimpleNamespace(read=["row"]))
FRAME = pd.DataFrame({"row": np.arange(10)[::-1], "part": np.arange(10) - 5})


def rows(rank: int, frames: list[pd.DataFrame], partition_by: str | None, order_by: str | None) -> list[int]:
    found = dask_engine._rows(JOB, rank, frames, partition_by, order_by)
    return [int(row) for frame in found for row in frame["row"]]


@pytest.mark.parametrize("order_by", [None, "row"])
def test_a_worker_without_a_partition_has_no_rows(order_by: str | None) -> None:
    """There are fewer partitions than workers."""
    assert rows(1, [], None, order_by) == []


@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_integers_of_every_kind_say_whose_a_row_is(backend: Any) -> None:
    frame = FRAME if backend is None else FRAME.convert_dtypes(dtype_backend=backend)
    frames = [frame.iloc[:4], frame.iloc[4:4], frame.iloc[4:]]
    for rank in range(JOB.workers):
        expected = [row for row, part in zip(FRAME["row"], FRAME["part"]) if part % JOB.workers == rank]
        assert rows(rank, frames, "part", None) == expected
        assert rows(rank, frames, "part", "row") == sorted(expected)
