"""Columns that become rows: the same by the loops and by numpy, whatever the columns are views of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.records import side_by_side
from sparkflow_runtime.records.side_by_side import LOOPS, put_columns

DTYPES = [np.bool_, np.int8, np.float16, np.float32, np.int32, np.int64, np.float64, np.complex128]


def columns_of(dtype: Any, count: int, rows: int) -> list[np.ndarray]:
    """Arrays of their own, every third item of one, items from the last to the first, and columns of rows."""
    rng = np.random.default_rng(count)
    plain = [rng.integers(0, 2 if dtype is np.bool_ else 100, rows).astype(dtype) for _ in range(count)]
    plain[0] = np.repeat(plain[0], 3)[::3]
    plain[-1] = plain[-1][::-1]
    if count > 3:
        plain[2] = np.stack([plain[2], plain[3]], 1)[:, 0]
    return plain


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "rows"), [(1, 300), (2, 1), (26, 1000), (7, 4099), (3, 0)])
@pytest.mark.parametrize("compiled", [True, False])
def test_rows_of_columns(dtype: Any, count: int, rows: int, compiled: bool, monkeypatch: Any) -> None:
    if compiled:
        for loop in LOOPS:
            loop.prepare()
            assert loop.wait(60)
    else:
        monkeypatch.setattr(side_by_side, "_LOOPS", {size: loop.numpy for size, loop in side_by_side._LOOPS.items()})
    columns = columns_of(dtype, count, rows)
    around = np.full((rows + 4, count), 3, dtype)
    put_columns(columns, 0, rows, around[2 : rows + 2])
    assert (around[2 : rows + 2] == np.stack(columns, 1)).all()
    assert (around[[0, 1, -2, -1]] == np.array(3, dtype)).all()
    if rows > 600:
        put_columns(columns, 33, 633, around[:600])
        assert (around[:600] == np.stack(columns, 1)[33:633]).all()


def test_columns_of_other_types_are_cast() -> None:
    out = np.empty((500, 2), np.float32)
    put_columns([np.arange(500), np.arange(500, dtype=">f4")], 0, 500, out)
    assert (out == np.arange(500)[:, None]).all()


def test_rows_beyond_a_column_are_not_read() -> None:
    out = np.zeros((500, 2), np.float32)
    with pytest.raises(IndexError, match="items 0 to 500 of a column of 499"):
        put_columns([np.ones(500, np.float32), np.ones(499, np.float32)], 0, 500, out)
    assert not out.any()
