"""Rows summed by number: machine code and numpy give the same bits, those of adding one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import sum_loops


def added(rows: np.ndarray, ids: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    for row, at in zip(rows, ids):
        out[at] += row
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "count", "width"), [(0, 3, 2), (1, 1, 1), (400, 3, 5), (300, 250, 1), (90, 9, 0)])
def test_both_versions(rows: int, count: int, width: int, dtype: str) -> None:
    rng = np.random.default_rng(rows)
    data = (rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-4, 4, (rows, 1))).astype(dtype)
    data[: rows // 2] = -0.0
    ids = rng.integers(0, count, rows)
    wanted = added(data, ids, count)
    assert sum_loops.sum_rows(np, data, ids, count).tobytes() == wanted.tobytes()
    if rows and width:
        for loop in (sum_loops.add_rows.compile(), sum_loops.add_rows.numpy):
            out = np.zeros_like(wanted)
            assert loop(data, ids, out) == -1
            assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64", "float32"])
@pytest.mark.parametrize("id_type", ["int32", "int64"])
def test_any_type_and_shape(dtype: str, id_type: str) -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(-9, 9, (30, 2, 3)).astype(dtype)[::-1]  # not contiguous
    ids = rng.integers(0, 5, 30).astype(id_type)
    total = sum_loops.sum_rows(np, data, ids, 5)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total, added(data, ids, 5))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 5, 3), 1), ((6, 5), 1), ((2, 3, 4, 2), 2), ((1, 7, 1), 1), ((2, 1, 3), 1)]
)
def test_rows_along_another_axis(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    """As a look-up along that axis has its gradient: the same bits, without a copy side by side."""
    rng = np.random.default_rng(axis)
    data = np.moveaxis((rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)).astype(dtype), axis, 0)
    ids = rng.integers(0, 3, len(data))
    total, wanted = sum_loops.sum_rows(np, data, ids, 3), added(data, ids, 3)
    assert total.shape == wanted.shape
    assert total.tobytes() == wanted.tobytes()
    rows = np.ascontiguousarray(np.moveaxis(data, 0, axis)).reshape(
        -1, len(data), 1 if axis == data.ndim - 1 else shape[-1]
    )
    outs = [np.zeros((len(rows), 3, rows.shape[2]), dtype) for _ in range(2)]
    for loop, out in zip((sum_loops.add_rows_within.compile(), sum_loops.add_rows_within.numpy), outs):
        assert loop(rows, ids, out) == -1
    assert outs[0].tobytes() == outs[1].tobytes()


@pytest.mark.parametrize("bad", [-1, 4, 1 << 40])
def test_an_id_that_is_no_row(bad: int) -> None:
    ids = np.array([0, 3, bad, 1])
    for loop in (sum_loops.add_rows.compile(), sum_loops.add_rows.numpy):
        out: Any = np.zeros((4, 2), np.float32)
        assert loop(np.ones((4, 2), np.float32), ids, out) == 2
    with pytest.raises(IndexError, match=r"row 2 is not in \[0, 4\)"):
        sum_loops.sum_rows(np, np.ones((4, 2), np.float32), ids, 4)
    with pytest.raises(IndexError, match=r"row 2 is not in \[0, 4\)"):
        sum_loops.sum_rows(np, np.ones((2, 4, 3), np.float32).swapaxes(0, 1), ids, 4)
    within: Any = np.zeros((2, 4, 3), np.float32)
    assert sum_loops.add_rows_within.numpy(np.ones((2, 4, 3), np.float32), ids, within) == 2
    with pytest.raises(ValueError, match="3 ids for 4 rows"):
        sum_loops.sum_rows(np, np.ones((4, 2), np.float32), ids[:3], 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "count", "rest"), [((50,), 7, (5,)), ((3, 4), 200, (2, 3)), ((9,), 4, ()), ((), 3, (4,))]
)
def test_adding_to_what_is_held(shape: tuple[int, ...], count: int, rest: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(count)
    held, rows = (rng.standard_normal((*s, *rest)).astype(dtype) for s in ((count,), shape))
    ids = rng.integers(0, count, shape)
    wanted = held.copy()
    np.add.at(wanted, ids, rows)
    whole = held.copy()
    assert sum_loops.add_at(whole, ids, rows) and whole.tobytes() == wanted.tobytes()
    width = held[0].size
    for loop in (sum_loops.add_more.compile(), sum_loops.add_more.numpy):
        out = held.copy().reshape(count, width)
        loop(rows.reshape(-1, width), np.atleast_1d(ids).reshape(-1), out)
        assert out.tobytes() == wanted.tobytes()


def test_what_adding_does_not_take() -> None:
    held = np.zeros((3, 2), np.float32)
    assert not sum_loops.add_at(held.T, np.array([0]), np.ones((1, 3), np.float32))
    assert not sum_loops.add_at(held, np.array([0]), np.ones((1, 2)))
    assert not sum_loops.add_at(held, np.array([], np.int64), np.ones((0, 2), np.float32))
    assert not sum_loops.add_at(np.zeros((3, 0), np.float32), np.array([0]), np.ones((1, 0), np.float32))
    assert not held.any()
