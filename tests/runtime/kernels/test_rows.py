"""What does numpy's `at` and `reduceat` on a GPU: the ways taken there, by numpy's functions under another name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.row_reductions import extreme
from sparkflow_runtime.kernels.rows import combine_in_rounds, put_rows
from sparkflow_runtime.kernels.sorting import grouped, reduced_runs
from sparkflow_runtime.kernels.sum_loops import sum_rows

OTHER: Any = SimpleNamespace(**vars(np))  # is not numpy, as cupy is not
IDS = [[3], [0, 0, 0, 0, 0], [4, 1, 4, 4, 0, 1, 4, 4, 4, 4], list(range(6)), [7] * 33 + [2, 5, 5]]


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_runs(name: str, shape: tuple[int, ...], ids: list[int]) -> None:
    rows = np.random.default_rng(0).integers(-2, 3, (len(ids), *shape))
    ordered, order, starts = grouped(np, np.array(ids))
    found, wanted = (reduced_runs(xp, name, rows[order], ordered, starts) for xp in (OTHER, np))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("ids", IDS)
def test_sums(ids: list[int]) -> None:
    rows = np.random.default_rng(1).integers(-9, 9, (len(ids), 3)).astype(np.float32)
    found, wanted = (sum_rows(xp, rows, np.array(ids), 8) for xp in (OTHER, np))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("ids", IDS)
def test_rows_that_repeat(ids: list[int]) -> None:
    rows = np.random.default_rng(2).standard_normal((len(ids), 3))
    held, put = np.ones((8, 3)), np.ones((8, 3))
    combine_in_rounds(OTHER, np.subtract, held, np.array(ids), rows)
    put_rows(OTHER, put, np.array(ids), rows)
    wanted, last = np.ones((8, 3)), np.ones((8, 3))
    for at, row in zip(ids, rows):
        wanted[at] -= row
        last[at] = row
    np.testing.assert_array_equal(held, wanted)
    np.testing.assert_array_equal(put, last)


def test_the_last_of_repeated_rows_is_the_only_one_put() -> None:
    class Once(np.ndarray):
        def __setitem__(self, ids: Any, rows: Any) -> None:
            assert len(np.unique(ids)) == len(ids)
            super().__setitem__(ids, rows)

    put_rows(OTHER, np.zeros((8, 2)).view(Once), np.array(IDS[2]), np.ones((10, 2)))


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3), None), ((2, 3), -1), ((2, 0), -1), ((0, 3), -1), ((0, 3), (0, 1))]
)
def test_extremes(shape: tuple[int, ...], axis: Any) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    found = extreme(np, "max", x, axis, True, -np.inf)
    wanted = x.max(axis, keepdims=True, initial=-np.inf)
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist() and found.shape == wanted.shape
