"""Rows that indices pick, summed by segment, and the way back: machine code and numpy give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.kernels import bag_loops, fill_loops, segment_loops

KINDS = [segment_loops.SUM, segment_loops.MEAN, segment_loops.SQRT_N]


def case(dtype: str, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, indices, ascending ids; the ids leave some segments out."""
    rng = np.random.default_rng(width)
    data = (rng.standard_normal((40, width)) * 10.0 ** rng.integers(-4, 4, (40, 1))).astype(dtype)
    data[:5] = -0.0
    return data, rng.integers(0, 40, 90), np.sort(rng.integers(0, 30, 90))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", ["int32", "int64"])
def test_both_versions_of_the_sums(number: str, kind: int, width: int, dtype: str) -> None:
    data, indices, ids = case(dtype, width)
    indices, ids = indices.astype(number), ids.astype(number)
    hidden = np.arange(33) % 5 == 0 if width > 1 else np.empty(0, bool)
    wanted = np.zeros((33, width), dtype)
    for i, row in zip(ids, data[indices]):
        wanted[i] += row
    times = np.maximum(np.bincount(ids, minlength=33), 1)[:, None]
    wanted /= (np.ones_like(times) if kind == 0 else times if kind == 1 else np.sqrt(times)).astype(dtype)
    wanted[: len(hidden)][hidden] = 0
    for loop in (segment_loops.sum_picked.compile(), segment_loops.sum_picked.numpy):
        out = np.zeros_like(wanted)
        assert loop(data, indices, ids, kind, hidden.view(np.uint8), out) == -1
        assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("number", ["int32", "int64"])
def test_both_versions_of_the_way_back(number: str, kind: int, dtype: str, skips: bool) -> None:
    grad, indices, ids = case(dtype, 3)
    indices, ids = indices.astype(number), ids.astype(number)
    skipped = np.arange(40) % 7 == 0 if skips else np.zeros(40, bool)
    found = []
    for loop in (segment_loops.spread_picked.compile(), segment_loops.spread_picked.numpy):
        out, times = np.zeros((40, 3), grad.dtype), np.zeros(40 if kind else 0, np.int64)
        assert loop(grad, indices, ids, kind, skipped.view(np.uint8), times, out) == -1
        found.append(out)
    divided = grad / np.maximum(np.bincount(ids, minlength=40), 1)[:, None].astype(dtype) ** (0, 1, 0.5)[kind]
    divided[skipped] = 0
    wanted = np.zeros_like(grad)
    np.add.at(wanted, indices, divided[ids])
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("wrong", [(7, 40, None), (7, -1, None), (3, None, -1), (9, None, 1), (89, None, 33)])
def test_what_does_not_fit(wrong: tuple[int, int | None, int | None]) -> None:
    data, indices, ids = case("float32", 2)
    ids[:9] = 2
    at, index, number = wrong
    indices[at], ids[at] = indices[at] if index is None else index, ids[at] if number is None else number
    for loop in (segment_loops.sum_picked.compile(), segment_loops.sum_picked.numpy):
        assert loop(data, indices, ids, 0, np.empty(0, np.uint8), np.zeros((33, 2), np.float32)) == at
    if number != 1:  # out of order is no matter on the way back
        skipped, times = np.zeros(33, np.uint8), np.zeros(33, np.int64)
        for loop in (segment_loops.spread_picked.compile(), segment_loops.spread_picked.numpy):
            assert loop(data[:33], indices, ids, 1, skipped, times.copy(), np.zeros((40, 2), np.float32)) == at


@pytest.mark.parametrize("entries", [0, 1, 50])
def test_every_row_has_an_entry(entries: int) -> None:
    rng = np.random.default_rng(entries)
    indices = np.stack([rng.integers(0, 20, entries), np.arange(entries)], 1).astype(np.int64)
    given = [(row, i) for i, row in enumerate(indices[:, 0])]
    wanted = sorted(given + [(row, -1) for row in {*range(20)} - {*indices[:, 0]}])
    for loop in (fill_loops.place_entries.compile(), fill_loops.place_entries.numpy):
        row_of, places, empty = np.empty(entries + 20, np.int64), np.empty(entries, np.int64), np.empty(20, np.uint8)
        total = loop(indices, np.empty(20, np.int64), row_of, places, empty)
        assert row_of[:total].tolist() == [row for row, _ in wanted]
        assert [wanted.index(one) for one in given] == places.tolist()
        assert empty.tolist() == [r not in indices[:, 0] for r in range(20)]


@pytest.mark.parametrize("bad", [-1, 20])
def test_an_entry_of_no_row(bad: int) -> None:
    indices = np.array([[0, 0], [bad, 0]])
    for loop in (fill_loops.place_entries.compile(), fill_loops.place_entries.numpy):
        room = [np.empty(n, np.int64) for n in (20, 22, 2)]
        assert loop(indices, *room, np.empty(20, np.uint8)) == -1


@pytest.mark.parametrize("only_known", [0, 1])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("entries", [0, 1, 50, 400])
def test_both_versions_of_the_numbers_of_bags(entries: int, kind: str, only_known: int) -> None:
    rng = np.random.default_rng(entries)
    indices = np.stack([rng.integers(0, 20, entries), np.arange(entries)], 1).astype(np.int64)
    ids, most, found = rng.integers(-3, 30, entries), entries + 20, []
    for loop in (bag_loops.number_bags.compile(), bag_loops.number_bags.numpy):
        row_of, where, empty = np.zeros(most, kind), np.zeros(most, kind), np.zeros(20, np.uint8)
        distinct, room = np.zeros(most, np.int64), np.ones(21 + most + max(16, 4 * most), np.uint64)
        total = loop(indices.reshape(-1), 2, ids, 7, only_known, row_of, where, empty, distinct, room)
        found.append([a.tolist() for a in (row_of[:total], where[:total], empty, distinct[: int(room[0])])])
    rows, where, empty, distinct = found[0]
    assert found[0] == found[1]
    kept = [(row, i) for (row, _), i in zip(indices.tolist(), ids.tolist()) if i >= 0 or not only_known]
    given = kept + [(row, 7) for row in {*range(20)} - {row for row, _ in kept}]
    assert sorted(given) == sorted((row, distinct[i]) for row, i in zip(rows, where)) and rows == sorted(rows)
    assert empty == [row not in {row for row, _ in kept} for row in range(20)]


@pytest.mark.parametrize("bad", [-1, 20])
def test_a_bag_of_no_row(bad: int) -> None:
    indices, ids = np.array([[0, 0], [bad, 0]]), np.array([1, 2])
    for loop in (bag_loops.number_bags.compile(), bag_loops.number_bags.numpy):
        room = np.empty(22, np.int64), np.empty(22, np.int64), np.empty(20, np.uint8), np.empty(22, np.int64)
        assert loop(indices.reshape(-1), 2, ids, 0, 0, *room, np.empty(200, np.uint64)) == -1
