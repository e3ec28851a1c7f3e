"""A sparse matrix by a dense one: machine code and numpy give the same bits, those of adding entry after entry."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.kernels.sparse_products import add_products, product


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("entries", "width"), [(0, 3), (60, 1), (200, 7), (5, 0)])
@pytest.mark.parametrize("side", [0, 1])
def test_both_versions(side: int, entries: int, width: int, dtype: str) -> None:
    rng = np.random.default_rng(entries)
    indices = rng.integers(0, 9, (entries, 2))
    values, b = rng.standard_normal(entries).astype(dtype), rng.standard_normal((9, width)).astype(dtype)
    wanted = np.zeros((9, width), dtype)
    for value, at in zip(values, indices):
        wanted[at[side]] += value * b[at[1 - side]]
    for loop in (add_products.compile(), add_products.numpy):
        out = np.zeros_like(wanted)
        assert loop(values, indices, b, side, out) == -1
        assert out.tobytes() == wanted.tobytes()
    assert product(indices, values, b[::1], 9, side)[0].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("bad", [(-1, 0), (0, -1), (9, 0), (0, 9)])
def test_an_entry_outside(bad: tuple[int, int]) -> None:
    indices = np.array([[1, 1], bad])
    for loop in (add_products.compile(), add_products.numpy):
        assert loop(np.ones(2, np.float32), indices, np.ones((9, 2), np.float32), 0, np.zeros((9, 2), np.float32)) == 1
