"""Each compiled loop against its numpy version: the same bits, whatever repeats, gaps, strides and odd numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import memory as memory_module
from sparkflow_runtime.kernels import row_loops, update_loops
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.memory import address, memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.row_loops import unsigned

COUNTS, SIZES, WIDTHS = [40, 0, 300, 1, 7], [9, 4, 1000, 1, 3], [16, 3, 8, 5, 1]
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38]


def versions(loop: Compiled) -> list[Any]:
    """Machine code and numpy; the loop itself is left as it was."""
    again = Compiled(loop.loop, [s.signature for s in loop.sources], parts=loop._parts)
    return [again.compile(), loop.numpy]


def ids_of(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    ids = np.concatenate([rng.integers(0, s, n) for n, s in zip(COUNTS, SIZES)])
    return ids, np.cumsum([0, *COUNTS])


def numbers(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.05] = rng.choice(np.array(ODD[:2], dtype))
    return x


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def test_memory_is_the_arrays_own() -> None:
    x = np.arange(12.0).reshape(3, 4)
    at = position(x)
    np.testing.assert_array_equal(memory(x.dtype)[at : at + 12], x.ravel())
    row_loops.rows_at(memory(x.dtype), at, 2, 2, 4)[...] = -1
    assert x.tolist() == [[-1, -1, 2, 3], [-1, -1, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("item", ["f4", "f8"])
def test_many_positions_at_once(item: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.zeros((6, 8), item)
    arrays = [whole, whole[2:, 3:], whole[::-1], whole.reshape(-1)[5:], np.zeros((0, 3), item), np.zeros((), item)]
    assert positions(arrays).dtype == np.uint64
    assert positions(arrays).tolist() == [position(a) for a in arrays] and positions([]).tolist() == []
    found = [position(a) for a in arrays]
    monkeypatch.setattr(memory_module, "_WORDS", None)  # an interpreter whose arrays have it elsewhere
    assert positions(arrays).tolist() == [position(a) for a in arrays] == found and positions([]).dtype == np.uint64


def test_where_an_array_begins() -> None:
    for x in (np.zeros((6, 8))[2:, 3:], np.zeros(()), np.float64(3), np.zeros(3).view(np.recarray)):
        assert address(x) == x.__array_interface__["data"][0]


def test_rows_that_lie_in_one_piece() -> None:
    x = np.zeros((4, 6), np.float32)
    assert rows_ready(x) and rows_ready(x[:, 2:4]) and rows_ready(x[::-1]) and rows_ready(np.zeros(3))
    assert (stride(x[:, 2:4]), stride(x[::2]), stride(x[::-1])) == (6, 12, -6)
    assert rows_ready(x[:, 0]) and rows_ready(np.zeros((3, 4, 2))[::2]) and not rows_ready(np.zeros((3, 4, 2))[:, ::2])
    assert not rows_ready(x[:, ::2])
    assert not rows_ready(np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32))


def test_first_outside() -> None:
    rng = np.random.default_rng(0)
    ids, starts = ids_of(rng)
    for bad, value in ((None, 0), (3, 9), (3, -1), (len(ids) - 1, 3), (0, 1 << 40)):
        wrong = ids.copy()
        if bad is not None:
            wrong[bad] = value
        found = {f(*map(unsigned, (wrong, starts[:-1], starts[1:], SIZES))) for f in versions(row_loops.first_outside)}
        assert found == {-1 if bad is None else bad}


@pytest.mark.parametrize("dtype", row_loops.ITEMS)
def test_gather_rows(dtype: str) -> None:
    rng = np.random.default_rng(1)
    ids, starts = ids_of(rng)
    tables = [rng.integers(-9, 9, (s, w)).astype(dtype) for s, w in zip(SIZES, WIDTHS)]
    outs = []
    for gather in versions(row_loops.gather_rows):
        side = np.zeros((max(COUNTS), sum(WIDTHS)), dtype)
        at = position(side) + np.cumsum([0, *WIDTHS[:-1]])
        where, steps = [position(t) for t in tables], np.full(5, side.shape[1])
        gather(memory(side.dtype), *map(unsigned, (where, WIDTHS, ids, starts[:-1], starts[1:], at, steps)))
        outs.append(side)
    same_bits(*outs)
    left = 0
    for t, table in enumerate(tables):
        mine = ids[starts[t] : starts[t + 1]]
        np.testing.assert_array_equal(outs[0][: len(mine), left : left + WIDTHS[t]], table[mine])
        left += WIDTHS[t]


@pytest.mark.parametrize("dtype", row_loops.FLOATS)
def test_sum_by_id(dtype: str) -> None:
    rng = np.random.default_rng(2)
    ids, starts = ids_of(rng)
    grads = numbers(rng, (max(COUNTS), sum(WIDTHS)), dtype)
    at, widths = position(grads) + np.cumsum([0, *WIDTHS[:-1]]), np.array(WIDTHS)
    ends = np.cumsum(widths * COUNTS)
    results = []
    for sum_by_id in versions(row_loops.sum_by_id):
        sums, distinct, counts = np.zeros(ends[-1], dtype), unsigned(np.full(len(ids), -1)), unsigned(np.zeros(5))
        heads, sums_at = np.ones(4 * max(COUNTS), np.uint64), unsigned(np.full(6, position(sums)))
        given = map(unsigned, (widths, ids, starts[:-1], starts[1:], at, np.full(5, grads.shape[1])))
        sum_by_id(memory(sums.dtype), *given, sums_at, distinct, counts, heads)
        results.append((sums, distinct, counts, sums_at - sums_at[0]))
    for machine, plain in zip(*results):
        same_bits(machine, plain)
    left = 0
    for t, count in enumerate(results[0][2].tolist()):
        mine = ids[starts[t] : starts[t + 1]]
        assert results[0][1][starts[t] :][:count].tolist() == list(dict.fromkeys(mine.tolist()))
        got = results[0][0][results[0][3][t] : results[0][3][t + 1]].reshape(count, WIDTHS[t])
        for i, number in enumerate(dict.fromkeys(mine.tolist())):
            want = np.zeros(WIDTHS[t], dtype)
            for row in grads[: len(mine)][mine == number][:, left : left + WIDTHS[t]]:
                want = want + row
            same_bits(got[i], want)
        left += WIDTHS[t]


# rule, slots, factors with the flag last
RULES: list[tuple[str, int, list[float]]] = [
    ("gradient_descent", 0, [0.1]),
    ("momentum", 1, [0.1, 0.9, 0]),
    ("momentum", 1, [0.1, 0.9, 1]),
    ("adagrad", 1, [0.1, 1]),
    ("adagrad", 1, [0.1, 0]),
    ("adam", 2, [0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, 0]),
    ("adam", 2, [0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, 1]),
    ("rms_prop", 2, [0.1, 0.9, 0.8, 1e-8]),
    ("ftrl", 2, [0.1, 0.02, 0.01, -0.5, 0]),
    ("ftrl", 2, [0.1, 0.02, 0.01, -0.5, 1]),
    ("ftrl", 2, [0.1, 0.0, 0.0, -0.5, 1]),
    ("ftrl", 2, [0.1, 0.02, 0.01, 0.3, -0.5, 0]),
    ("ftrl", 2, [0.1, 0.02, 0.01, 0.3, -0.5, 1]),
]


@pytest.mark.parametrize("dtype", row_loops.FLOATS)
@pytest.mark.parametrize(("rule", "slots", "factors"), RULES)
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_updates(rule: str, slots: int, factors: list[float], dtype: str, odd: bool) -> None:
    results = []
    for update in versions(getattr(update_loops, rule)):
        rng = np.random.default_rng(3)
        rows, starts = ids_of(rng)
        tables = [[np.abs(numbers(rng, (s, w), dtype)) for _ in range(slots + 1)] for s, w in zip(SIZES, WIDTHS)]
        grads = numbers(rng, (max(COUNTS), sum(WIDTHS)), dtype)
        if odd:
            grads[rng.random(grads.shape) < 0.05] = rng.choice(np.array(ODD, dtype))
        at = position(grads) + np.cumsum([0, *WIDTHS[:-1]])
        batch = np.stack([np.array(WIDTHS), starts[:-1], np.array(COUNTS), at, np.full(5, grads.shape[1])], 1)
        where = np.array([[position(a) for a in held] for held in tables])
        for _ in range(2):
            update(memory(grads.dtype), *map(unsigned, (where, batch, rows)), np.array(factors, dtype))
        results.append([a for held in tables for a in held])
    for machine, plain in zip(*results):
        same = (machine == plain) | (np.isnan(machine) & np.isnan(plain))  # the sign of a nan is nobody's promise
        assert same.all()
        same_bits(np.signbit(machine) & ~np.isnan(machine), np.signbit(plain) & ~np.isnan(plain))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint32"])
def test_join_columns(dtype: str) -> None:
    rng = np.random.default_rng(6)
    parts = [rng.integers(0, 9, (70, w)).astype(dtype) for w in (3, 1, 0, 8, 17)]
    assert row_loops.columns_ready(parts)
    np.testing.assert_array_equal(row_loops.join_columns(parts), np.concatenate(parts, 1))
    for bad in (parts[0].T, parts[0][:9], parts[0].astype(np.int8), parts[0].astype("float64"), parts[3][:, ::2]):
        assert not row_loops.columns_ready([*parts, bad])
    assert row_loops.join_columns([p[:0] for p in parts]).shape == (0, 29)


@pytest.mark.parametrize("width", [1, 5, 16, 17, 40, 300])
def test_rows_that_are_fetched_ahead(width: int) -> None:
    """More of them than are asked for ahead, of one line of the cache and of several, up to the last row of a table."""
    rng = np.random.default_rng(width)
    rows, count = 50, 33
    start = [rng.standard_normal((rows, width)).astype(np.float32), np.ones((rows, width), np.float32)]
    ids, grads = rng.permutation(rows)[:count], rng.standard_normal((count, width)).astype(np.float32)
    results = []
    for adagrad in versions(update_loops.adagrad):
        held = [a.copy() for a in start]
        refs, batch = unsigned([[position(a) for a in held]]), unsigned([[width, 0, count, position(grads), width]])
        adagrad(memory(grads.dtype), refs, batch, unsigned(ids), np.array([0.1, 1], np.float32))
        results.append(held)
    for one, other in zip(*results):
        same_bits(one, other)
    assert (results[0][0][ids] != start[0][ids]).all()
    np.testing.assert_array_equal(np.delete(results[0][0], ids, 0), np.delete(start[0], ids, 0))
