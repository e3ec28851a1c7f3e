"""The loops of rows that travel once: machine code and numpy give the same bits, and what a plain sum gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import distinct_loops
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.memory import memory, position
from sparkflow_runtime.kernels.row_loops import FLOATS, unsigned
from sparkflow_runtime.kernels.sorting import unique_parts
from sparkflow_runtime.resources.row_means import merged

COUNTS, WIDTHS, ROWS = [9, 0, 40, 1], [4, 3, 1, 5], 12


def versions(loop: Compiled) -> list[Callable[..., Any]]:
    return [loop.compile(), loop.numpy]


def ids_of(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *COUNTS])
    return rng.integers(0, ROWS, starts[-1]), starts


def test_number_ids() -> None:
    ids, starts = ids_of(np.random.default_rng(0))
    results = []
    for number_ids in versions(distinct_loops.number_ids):
        distinct, places, counts = (np.zeros(n, np.uint64) for n in (len(ids), len(ids), len(COUNTS)))
        number_ids(
            *map(unsigned, (ids, starts[:-1], starts[1:])),
            distinct,
            counts,
            places,
            np.ones(4 * max(COUNTS), np.uint64),
        )
        results.append((distinct[: int(counts.sum())], counts, places))
    for machine, plain in zip(*results):
        np.testing.assert_array_equal(machine, plain)
    distinct, counts, places = (r.astype(np.int64) for r in results[0])
    begins = np.cumsum(counts) - counts
    for t, (begin, count) in enumerate(zip(begins, counts)):
        mine = ids[starts[t] : starts[t + 1]]
        assert distinct[begin : begin + count].tolist() == list(dict.fromkeys(mine.tolist()))
        np.testing.assert_array_equal(distinct[begin:][places[starts[t] : starts[t + 1]]], mine)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("size", [0, 1, 500])
def test_distinct_of(dtype: str, size: int) -> None:
    ids = np.random.default_rng(0).integers(-90, 90, size).astype(dtype)
    distinct_loops.number_ids.compile()
    values, places = distinct_loops.distinct_of(ids)
    expected, positions, _ = unique_parts(np, ids)
    assert values.dtype == ids.dtype and values.tolist() == expected.tolist()
    assert places.tolist() == positions.tolist()


@pytest.mark.parametrize("dtype", FLOATS)
def test_sum_to_distinct(dtype: str) -> None:
    rng = np.random.default_rng(1)
    ids, starts = ids_of(rng)
    grads = rng.standard_normal((max(COUNTS), sum(WIDTHS))).astype(dtype)
    places, counts = np.zeros(len(ids), np.int64), []
    for a, b in pairwise(starts):
        known = {number: i for i, number in enumerate(dict.fromkeys(ids[a:b].tolist()))}
        places[a:b] = [known[n] for n in ids[a:b].tolist()]
        counts.append(len(known))
    lefts, to = np.cumsum([0, *WIDTHS[:-1]]), np.cumsum([0, *np.multiply(counts, WIDTHS)])
    results = []
    for sum_to_distinct in versions(distinct_loops.sum_to_distinct):
        out = np.full(to[-1], np.nan, dtype)
        at, where, steps = lefts + position(grads), to[:-1] + position(out), np.full(len(WIDTHS), grads.shape[1])
        given = map(unsigned, (WIDTHS, places, starts[:-1], starts[1:], at, steps, where))
        sum_to_distinct(memory(out.dtype), *given)
        results.append(out)
    assert results[0].tobytes() == results[1].tobytes()
    for t, (count, width, left) in enumerate(zip(counts, WIDTHS, lefts)):
        want = np.zeros((count, width), dtype)
        for i, place in enumerate(places[starts[t] : starts[t + 1]]):
            want[place] += grads[i, left : left + width]
        assert results[0][to[t] : to[t + 1]].tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mean", [0, 1])
@pytest.mark.parametrize("order", ["ascending", "any", "alike"])
def test_merge_rows(dtype: str, mean: int, order: str) -> None:
    """Givers for two tables; one gives nothing."""
    rng, widths = np.random.default_rng(2), [3, 1]
    given = []
    for width in widths:
        lists = [rng.permutation(ROWS)[:n] for n in (7, 0, 9, 12)]
        if order != "any":
            lists = [np.sort(ids) if order == "ascending" else lists[-1][: len(ids)] for ids in lists]
        given.append([(ids, rng.standard_normal((len(ids), width)).astype(dtype)) for ids in lists])
    pairs = [pair for mine in given for pair in mine]
    ids, starts = np.concatenate([i for i, _ in pairs]), np.cumsum([0, *(len(i) for i, _ in pairs)])
    results = []
    for merge_rows in versions(distinct_loops.merge_rows):
        out = np.zeros(200, dtype)
        sums, counts = unsigned(np.full(3, position(out))), np.zeros(2, np.uint64)
        distinct, times = np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.uint64)
        at = [position(values) for _, values in pairs]
        begins = unsigned(starts) + np.uint64(position(ids))
        first = unsigned(widths), memory(np.dtype(np.uint64)), begins[:-1], begins[1:], unsigned(at)
        heads = np.ones(distinct_loops.room_to_merge(28), np.uint64)
        merge_rows(memory(out.dtype), *first, sums, distinct, counts, times, heads, mean)
        begins = (sums - sums[0]).tolist()
        sizes = zip(begins, begins[1:], widths)
        rows = [out[a:b].reshape(-1, width) for a, b, width in sizes]
        numbers = [distinct[: counts[0]], distinct[counts[0] :][: counts[1]]]  # with no gap between
        results.append(list(zip(rows, numbers)))
    for mine, machine, plain in zip(given, *results):
        assert machine[0].tobytes() == plain[0].tobytes()
        np.testing.assert_array_equal(machine[1], plain[1])
        over = merged([i.tolist() for i, _ in mine])
        for row, number in zip(*machine):
            places = [(g, int(np.flatnonzero(i == number)[0])) for g, (i, _) in enumerate(mine) if number in i]
            addends, by = [mine[g][1][i] for g, i in places], [over[g][i] for g, i in places]
            if order != "any":
                assert by == [len(addends)] * len(addends)
            apart = mean and order != "ascending"
            total = addends[0] / np.dtype(dtype).type(by[0]) if apart else addends[0].copy()
            for addend, count in zip(addends[1:], by[1:]):
                total += addend / np.dtype(dtype).type(count) if apart else addend
            assert row.tobytes() == (total / total.dtype.type(len(addends)) if mean and not apart else total).tobytes()


OF, SIZES = [0, 2, 1, 2, 3], [ROWS, ROWS, 1, ROWS, ROWS]


def laid_out(lay_out: Any, counts: Any, ids: Any, of: Any = OF, sizes: Any = SIZES) -> tuple[int, Any]:
    parts = np.zeros((6, len(of)), np.uint64)
    widths = unsigned([2, 3, 4, 1, 5][: len(of)])
    return lay_out(*map(unsigned, (counts, of)), widths, *map(unsigned, (sizes, ids)), parts), parts.tolist()


def test_lay_out() -> None:
    """Parts may share their ids, and come in any order."""
    ids, _ = ids_of(np.random.default_rng(0))
    for lay_out in versions(distinct_loops.lay_out):
        items, (widths, begins, counts, at, steps, ends) = laid_out(lay_out, COUNTS, ids)
        assert (widths, steps, begins, counts) == ([2, 3, 4, 1, 5], widths, [0, 9, 9, 9, 49], [9, 40, 0, 40, 1])
        assert (at, ends, items) == ([0, 18, 138, 138, 178], [9, 49, 9, 49, 50], 183)
        back = laid_out(lay_out, COUNTS, ids, [3, 0], [ROWS, ROWS])
        assert back[0] == 2 + 27 and back[1][1] == [49, 0]


@pytest.mark.parametrize(
    "counts, of, wrong",
    [([9, 0, 40, 2], OF, -2), ([9, 0, 42, -1], OF, -2), ([9, 0, 41], OF, -2), (COUNTS, [4, 0, 0, 0, 0], -2)],
)
def test_counts_of_other_ids(counts: list[int], of: list[int], wrong: int) -> None:
    ids, _ = ids_of(np.random.default_rng(0))
    for lay_out in versions(distinct_loops.lay_out):
        assert laid_out(lay_out, counts, ids, of)[0] == wrong


@pytest.mark.parametrize("outside", [ROWS, -1, 2**62])
def test_an_id_of_no_row(outside: int) -> None:
    ids, _ = ids_of(np.random.default_rng(0))
    ids[17] = outside
    for lay_out in versions(distinct_loops.lay_out):
        assert laid_out(lay_out, COUNTS, ids)[0] == -3
        assert laid_out(lay_out, COUNTS, ids, [0, 3], [ROWS, ROWS])[0] == 2 * 9 + 3  # nobody's here
