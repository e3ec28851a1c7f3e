"""Tables of float16 and bfloat16 are changed as float32 ones are, and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import half_rows
from sparkflow_runtime.kernels.half_rows import Rows, put_rows
from sparkflow_runtime.kernels.halves import narrowed, widened
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.kernels.updates import Updater
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError
from tests.runtime.kernels.test_training_kernels import CASES, DECAYED, bind

DTYPES = [np.dtype(np.float16), dtypes.bfloat16.np]
SHAPES = [(9, 4), (5, 3), (40, 1)]
RULES = [(op, slots, [*before, *after], attrs) for op, _, slots, before, after, attrs in [*CASES, DECAYED]]


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


def positive(rng: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return narrowed(rng.uniform(0.1, 1.6, shape).astype(np.float32), dtype)


def both(dtype: Any, slots: int, factors: list[float]) -> tuple[list[Any], list[Any], list[Any]]:
    """(tables with their slots, the same as float32, factors)."""
    rng = np.random.default_rng(slots)
    tables = [[positive(rng, shape, dtype) for _ in range(slots + 1)] for shape in SHAPES]
    return tables, [[widened(a) for a in held] for held in tables], [np.float32(f).astype(dtype) for f in factors]


def same(tables: list[Any], wide: list[Any]) -> None:
    for held, other in zip(tables, wide):
        for a, b in zip(held, other):
            np.testing.assert_array_equal(a.view(np.uint16), narrowed(b, a.dtype).view(np.uint16))


@pytest.mark.parametrize("how", ["summed", "distinct", ""])
@pytest.mark.parametrize(("op", "slots", "factors", "attrs"), [r for r in RULES if "Sparse" in r[0]])
def test_rows(dtype: Any, how: str, op: str, slots: int, factors: list[float], attrs: dict[str, Any]) -> None:
    tables, wide, scalars = both(dtype, slots, factors)
    rng, updater = np.random.default_rng(1), Updater(np, op, attrs)
    ids = [np.array(rows, np.int64) for rows in ([4, 0, 2, 4, 4], [1, 3], [])]
    if how == "distinct":
        ids[0] = np.array([4, 0, 2], np.int32)
    grads = [narrowed(rng.standard_normal((i.size, *s[1:])).astype(np.float32), dtype) for i, s in zip(ids, SHAPES)]
    updater.sparse(tables, grads, ids, scalars, how, ["t"] * 3)
    updater.sparse(wide, [widened(g) for g in grads], ids, scalars, how, ["t"] * 3)
    same(tables, wide)


@pytest.mark.parametrize(("op", "slots", "factors", "attrs"), [r for r in RULES if "Sparse" not in r[0]])
@pytest.mark.parametrize("turned", [False, True])
def test_whole_variables(
    dtype: Any, op: str, slots: int, factors: list[float], attrs: dict[str, Any], turned: bool
) -> None:
    tables, wide, scalars = both(dtype, slots, factors)
    rng, updater = np.random.default_rng(1), Updater(np, op, attrs)
    for held, other, shape in zip(tables, wide, SHAPES):
        grad = narrowed(rng.standard_normal(shape[::-1] if turned else shape).astype(np.float32), dtype)
        grad = grad.T if turned else grad
        updater.dense(held, grad, scalars)
        updater.dense(other, widened(grad), scalars)
    same(tables, wide)


def test_decay_goes_by_blocks(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_rows, "_BLOCK", 7)
    test_rows(dtype, "summed", DECAYED[0], DECAYED[2], [*DECAYED[3], *DECAYED[4]], DECAYED[5])


@pytest.mark.parametrize("rows", [[0, 9], [-1, 2]])
def test_an_id_that_is_no_row_changes_nothing(dtype: Any, rows: list[int]) -> None:
    tables, wide, scalars = both(dtype, 1, [0.1])
    grads = [narrowed(np.ones((2, *s[1:]), np.float32), dtype) for s in SHAPES]
    ids = [np.array(rows), np.array([0, 1]), np.array([0, 1])]
    with pytest.raises(InvalidArgumentError, match=r"\bt0: indices\[\d\] = (9|-1) is not in \[0, 9\)"):
        Updater(np, "SparseApplyAdagrad", {}).sparse(tables, grads, ids, scalars, "summed", ["t0", "t1", "t2"])
    same(tables, wide)


@pytest.mark.parametrize("loop", [put_rows.numpy, put_rows.compile()])
def test_rows_are_put_back_where_they_were(dtype: Any, loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_rows, "_call", loop)
    tables, wide, _ = both(dtype, 0, [])
    arrays, ids = [t[0] for t in tables], [np.array([3, 0]), np.empty(0, np.int64), np.array([39])]
    rows = Rows(arrays, ids)
    for mine, (table,), of in zip(rows.arrays, wide, ids):
        np.testing.assert_array_equal(mine, table[of])
        mine *= 2
        table[of] *= 2
    rows.put_back()
    same(tables, wide)


def test_rows_travel_as_they_are_and_gradients_as_sums(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    columns = [np.array([5, 1, 5, 5, 0]), np.array([2, 2, 2, 2, 2])]
    distinct, counts, places, sizes, *_ = bind("_DistinctIds", N=2)(*columns)
    tables = [positive(rng, shape, dtype) for shape in ((9, 4), (5, 3))]
    found = bind("_GatherDistinct", N=2, of=[0, 1])(*tables, distinct, counts)
    wanted = np.concatenate([tables[0][[5, 1, 0]].reshape(-1), tables[1][2]])
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))
    grads = [positive(rng, (5, width), dtype) for width in (4, 3)]
    sums = bind("_SumToDistinct", N=2, of=[0, 1])
    narrow, wide = sums(*grads, counts, places, sizes), sums(*map(widened, grads), counts, places, sizes)
    assert narrow.dtype == dtype and wide.dtype == np.float32
    np.testing.assert_array_equal(narrow.view(np.uint16), narrowed(wide, dtype).view(np.uint16))


def test_sums_of_rows_are_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    rows, ids = positive(rng, (50, 3), dtype), rng.integers(0, 4, 50)
    found, wide = sum_rows(np, rows, ids, 5), sum_rows(np, widened(rows), ids, 5)
    np.testing.assert_array_equal(found.view(np.uint16), narrowed(wide, dtype).view(np.uint16))
    with pytest.raises(IndexError, match="id 7 of row 1"):
        sum_rows(np, rows[:2], np.array([0, 7]), 5)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_gradients_of_picked_rows_are_rounded_once(dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(5)
    grad, indices, ids = positive(rng, (3, 4), dtype), np.array([4, 0, 4, 1, 4]), np.array([0, 0, 1, 2, 2])
    run = bind(f"SparseSegment{kind}Grad")
    found, wide = (run(g, indices, ids, np.int32(6)) for g in (grad, widened(grad)))
    np.testing.assert_array_equal(found.view(np.uint16), narrowed(wide, dtype).view(np.uint16))
