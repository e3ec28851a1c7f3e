"""Averages that are taken together: those that each accumulator would give, however its gradients came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import joint_takes, merging
from sparkflow_runtime.kernels.crew import Crew
from sparkflow_runtime.kernels.distinct_loops import merge_rows
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.accumulators import SparseAccumulator
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError

SHAPES = [(40, 4), (9, 2, 3), (100, 1)]
COUNTS = [[12, 0, 7], [5, 9, 0], [1, 3, 30]]  # rows that each replica gives each table


def accumulators(reduction: str, dtype: Any = dtypes.float32) -> list[SparseAccumulator]:
    return [SparseAccumulator(f"a{i}", dtype, shape, reduction) for i, shape in enumerate(SHAPES)]


def bind(op: str, **attrs: Any) -> Any:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def gradients(replica: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(replica)
    sizes = zip(COUNTS[replica], SHAPES)
    return [(rng.permutation(s[0])[:n], rng.standard_normal((n, *s[1:])).astype("f4")) for n, s in sizes]


def give(held: list[SparseAccumulator], replica: int, dtype: str = "i8", rounded: Any = dtypes.float32) -> None:
    """As a worker sends them: one array of rows, one of ids, one of counts. rounded: what numbers the rows are."""
    mine = [(ids, rows.astype(rounded.np).astype(held[0].dtype.np)) for ids, rows in gradients(replica)]
    add = bind("_AccumulateDistinct", N=3, of=[0, 1, 2], row_shapes=[Shape(s[1:]) for s in SHAPES], _replica=replica)
    ids = np.concatenate([i for i, _ in mine]).astype(dtype)
    add(*held, np.int64(0), np.concatenate([v.ravel() for _, v in mine]), ids, np.array([len(i) for i, _ in mine]))


def taken(held: list[SparseAccumulator], **attrs: Any) -> list[Any]:
    found: list[Any] = []

    def done(error: Any, outputs: Any = ()) -> None:
        assert error is None
        found.extend(outputs)

    bind("_JointTake", N=3, **attrs)(None, done, *held, np.int32(2))
    return found


def ordered(ids: np.ndarray, rows: np.ndarray) -> tuple[list[int], bytes]:
    order = np.argsort(ids)
    return ids[order].tolist(), rows[order].tobytes()


def apart(rows: np.ndarray, ids: np.ndarray, counts: np.ndarray, members: list[int]) -> dict[int, Any]:
    found, at, begin = {}, 0, 0
    for member, count in zip(members, counts.tolist()):
        shape = SHAPES[member][1:]
        size = count * int(np.prod(shape))
        found[member] = ordered(ids[at : at + count], rows[begin : begin + size].reshape(count, *shape))
        at, begin = at + count, begin + size
    assert (at, begin) == (ids.size, rows.size)
    return found


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
@pytest.mark.parametrize("members", [[0, 1, 2], [2, 0]])
@pytest.mark.parametrize("how", ["together", "narrow ids", "one by itself", "two of one replica"])
def test_rows_that_stay_together(how: str, members: list[int], reduction: str) -> None:
    results = []
    for sets in ({}, {"set_sizes": [len(members)], "set_members": members}):
        held = accumulators(reduction)
        for replica in (2, 0, 1):  # in another order than that of the sum
            if how == "one by itself" and replica == 1:
                for accumulator, shape, (ids, rows) in zip(held, SHAPES, gradients(replica)):
                    accumulator.apply_rows(0, ids, rows, shape, replica)
            else:
                give(held, replica, "i4" if how == "narrow ids" else "i8")
        if how == "two of one replica":
            ids, rows = gradients(0)[2]
            held[2].apply_rows(0, ids, rows, SHAPES[2], 0)
        results.append(taken(held, **sets))
        assert all(a.num_accumulated == 0 and a.step == 1 for a in held)
    alone, joint = results
    want = {m: ordered(alone[3 * m], alone[3 * m + 1]) for m in range(3)}
    found = {m: ordered(joint[3 * m], joint[3 * m + 1]) for m in range(3) if m not in members}
    found |= apart(*joint[9:], members)
    assert found == want
    assert all(joint[3 * m] is None for m in members)


def test_the_same_as_each_accumulator_gives() -> None:
    held, others = accumulators("MEAN"), accumulators("MEAN")
    for replica in range(3):
        give(held, replica)
        give(others, replica)
    joint = taken(held)
    for i, other in enumerate(others):
        own: list[Any] = []
        other.take(2, lambda error, outputs, own=own: own.extend(outputs))
        assert ordered(joint[3 * i], joint[3 * i + 1]) == ordered(own[0], own[1])
        assert joint[3 * i + 2].tolist() == own[2].tolist()


def test_gradients_of_an_earlier_step_are_dropped() -> None:
    held = accumulators("MEAN")
    held[1].set_step(1)
    give(held, 0)
    assert [a.num_accumulated for a in held] == [1, 0, 1]


def test_rows_that_do_not_fit_change_nothing() -> None:
    held = accumulators("MEAN")
    add = bind("_AccumulateDistinct", N=3, of=[0, 1, 2], row_shapes=[Shape(s[1:]) for s in SHAPES])
    counts, rows = np.array([1, 1, 1]), np.zeros(11, np.float32)
    for ids, given in (([0, 9, 0], rows), ([0, 0, -1], rows), ([0, 0, 0], rows[1:]), ([0, 0, 0], rows.astype("f8"))):
        with pytest.raises(InvalidArgumentError):
            add(*held, np.int64(0), given, np.array(ids), counts)
    assert all(a.num_accumulated == 0 for a in held)


def test_what_is_held_is_nobody_elses_memory() -> None:
    held = accumulators("SUM")
    add = bind("_AccumulateDistinct", N=3, of=[0, 1, 2], row_shapes=[Shape(s[1:]) for s in SHAPES])
    ids, rows = np.array([3, 4, 5]), np.ones(11, np.float32)
    for _ in range(2):
        add(*held, np.int64(0), rows, ids, np.array([1, 1, 1]))
        ids[:], rows[:] = 0, -1
        ids[:], rows[:] = [3, 4, 5], 2
    found = taken(held)
    assert [found[3 * i].tolist() for i in range(3)] == [[3], [4], [5]]
    assert all((found[3 * i + 1] == 3).all() for i in range(3))


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
def test_threads_make_the_same_averages(crew: Crew, reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "crew", crew)
    monkeypatch.setattr(merging, "HANDED_OVER", 1)
    handed: list[int] = []
    monkeypatch.setattr(crew, "run", lambda table: (handed.append(len(table)), Crew.run(crew, table)))
    merge_rows.wait(60)
    results = []
    for threads in (1, 4):
        monkeypatch.setattr(joint_takes, "filling", lambda threads=threads: threads)
        held = accumulators(reduction)
        for replica in range(3):
            give(held, replica)
        results.append([a.tobytes() for a in taken(held, set_sizes=[3], set_members=[0, 1, 2])[9:]])
    assert results[0] == results[1] and len(handed) == 1 and handed[0] > 1


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("sets", [{}, {"set_sizes": [3], "set_members": [0, 1, 2]}])
def test_halves_are_added_up_as_float32_and_rounded_once(reduction: str, half: Any, sets: dict[str, Any]) -> None:
    made = []
    for dtype in (half, dtypes.float32):
        held = accumulators(reduction, dtype)
        for replica in (2, 0, 1):
            give(held, replica, rounded=half)
        if not sets:  # one that came by itself
            ids, rows = gradients(0)[2]
            held[2].apply_rows(0, ids, rows.astype(half.np).astype(dtype.np), SHAPES[2], 0)
        made.append(taken(held, **sets))
    for got, wide in zip(*made):
        if got is None or got.dtype != half.np:
            np.testing.assert_array_equal(got, wide)
        else:
            np.testing.assert_array_equal(got.view(np.uint16), wide.astype(half.np).view(np.uint16))
