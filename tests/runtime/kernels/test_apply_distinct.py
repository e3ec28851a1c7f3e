"""Updates by sums that came together: as one update a table, from each table's part of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import apply_distinct, update_loops, updates
from sparkflow_runtime.kernels.crew import Crew
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError

ROWS = [(3,), (), (2, 2), (5,)]  # of each part of the sums
COUNTS = np.array([2, 9, 3, 0, 4])  # ids that came; those of number 1 are of tables elsewhere
OF = [0, 2, 3, 4]
NAMES = [f"update_{t}" for t in range(4)]


def bind(op: str, /, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def variable(name: str, value: np.ndarray | None) -> Variable:
    made = Variable(name, dtypes.float32, None)
    made.value = value
    return made


def tables(dtype: str, members: list[int]) -> list[list[Variable]]:
    """For each member a variable and its slot."""
    rng = np.random.default_rng(3)
    made = [[rng.uniform(0.1, 1.0, (11, *row)).astype(dtype) for _ in range(2)] for row in ROWS]
    return [[variable(f"t{m}", made[m][0]), variable(f"t{m}/slot", made[m][1])] for m in members]


def travelled(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sums, ids, counts)."""
    rng = np.random.default_rng(4)
    items = sum(int(COUNTS[of] * np.prod(row)) for of, row in zip(OF, ROWS))
    ids = np.concatenate([rng.permutation(11)[:count] for count in COUNTS])
    return rng.standard_normal(items).astype(dtype), ids, COUNTS.copy()


def joint(members: list[int]) -> Callable[..., Any]:
    about: dict[str, Any] = {"N": len(members), "op": "SparseApplyAdagrad", "of": OF, "members": members}
    return bind("_ApplyDistinct", row_shapes=[Shape(r) for r in ROWS], _fused_from=NAMES, **about)


def given(own: list[list[Variable]]) -> list[Variable]:
    return [mine[k] for k in range(2) for mine in own]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("members", [[0, 1, 2, 3], [1, 2], [3, 0], [2]], ids=str)
def test_it_is_the_update_of_each_table(dtype: str, members: list[int]) -> None:
    sums, ids, counts = travelled(dtype)
    own, expected, rate = tables(dtype, members), tables(dtype, members), np.array(0.5, dtype)
    begins = np.cumsum([0, *(COUNTS[of] * int(np.prod(row)) for of, row in zip(OF, ROWS))])
    ends = np.cumsum(counts)
    run, alone = joint(members), bind("SparseApplyAdagrad")
    for _ in range(2):
        assert list(run(*given(own), rate, sums, ids, counts)) == [mine[0] for mine in own]
        for mine, m in zip(expected, members):
            rows = sums[begins[m] : begins[m + 1]].reshape(-1, *ROWS[m])
            alone(*mine, rate, rows, ids[ends[OF[m]] - counts[OF[m]] : ends[OF[m]]])
    for mine, theirs in zip(own, expected):
        assert [v.value.tobytes() for v in mine] == [v.value.tobytes() for v in theirs]


@pytest.mark.parametrize("members", [[0, 1, 2, 3], [1, 2], [0]], ids=str)
def test_no_view_is_made_of_sums_that_are_only_read(members: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As those in shared memory are. Of members that do not lie one after the other views are made."""
    sums, ids, counts = travelled("float32")
    sums.flags.writeable = False
    monkeypatch.setattr(apply_distinct, "update_tables", lambda *given: pytest.fail("by views"))
    own = tables("float32", members)
    before = own[0][0].value.copy()
    joint(members)(*given(own), np.float32(0.5), sums, ids, counts)
    assert (own[0][0].value != before).any()


def test_another_array_is_noticed() -> None:
    """An assignment may give a variable other memory, and a restored checkpoint other rows."""
    sums, ids, counts = travelled("float32")
    own, run, rate = tables("float32", [0, 1]), joint([0, 1]), np.float32(0.5)
    run(*given(own), rate, sums, ids, counts)
    before, own[1][0].value = own[1][0].value.copy(), own[1][0].value.copy()
    run(*given(own), rate, sums, ids, counts)
    assert (own[1][0].value != before).any()
    own[1][0].value = np.ones((3,), np.float32)  # fewer rows, and its slot has more
    with pytest.raises(InvalidArgumentError, match="'t1' and slot 't1/slot' do not have the same shape"):
        run(*given(own), rate, sums, ids, counts)
    own[1][0].value = None
    with pytest.raises(FailedPreconditionError, match="uninitialized value t1"):
        run(*given(own), rate, sums, ids, counts)


@pytest.mark.parametrize("members", [[0, 1, 2, 3], [3, 0]], ids=str)
@pytest.mark.parametrize("bad", [11, -1, 1 << 40])
def test_an_id_outside_changes_nothing(members: list[int], bad: int) -> None:
    sums, ids, counts = travelled("float32")
    own = tables("float32", members)
    before = [v.value.copy() for v in given(own)]
    ids[-1] = bad
    with pytest.raises(InvalidArgumentError, match=rf"{bad} is not in \[0, 11\)") as error:
        joint(members)(*given(own), np.float32(0.5), sums, ids, counts)
    assert error.value.node_def.name == NAMES[members.index(3)]
    assert all((a == v.value).all() for a, v in zip(before, given(own)))


def test_what_is_not_of_each_other_is_refused() -> None:
    """From another process may come anything."""
    sums, ids, counts = travelled("float32")
    own, run, rate = given(tables("float32", [0, 1])), joint([0, 1]), np.float32(0.5)
    for wrong in ((sums[:-1], ids, counts), (sums, ids[1:], counts), (sums, ids, counts[:-1]), (sums, ids, -counts)):
        with pytest.raises(InvalidArgumentError):
            run(*own, rate, *wrong)
    with pytest.raises(InvalidArgumentError, match="scalars"):
        run(*own, np.ones(2, np.float32), sums, ids, counts)


def test_even_ranges() -> None:
    for items in ([5], [1, 1], [0, 9, 0, 0, 3], [100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 90], [7] * 100):
        ranges = updates.even_ranges(np.array(items, np.uint64))
        assert ranges[0][0] == 0 and ranges[-1][1] == len(items) and len(ranges) <= 8
        assert all(a < b for a, b in ranges) and all(one[1] == two[0] for one, two in pairwise(ranges))
    assert len(ranges) == 8 and max(b - a for a, b in ranges) <= 13


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_update_that_all_wait_for_is_shared_out(crew: Crew, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same bits, in groups of tables; a group may have no rows."""
    monkeypatch.setattr(updates, "crew", crew)
    monkeypatch.setattr(updates, "HANDED_OVER", 1)
    handed: list[int] = []
    monkeypatch.setattr(crew, "run", lambda table: (handed.append(len(table)), Crew.run(crew, table)))
    update_loops.adagrad.wait(60)
    results = []
    for threads in (1, 4):
        monkeypatch.setattr(apply_distinct, "filling", lambda threads=threads: threads)
        own = tables(dtype, [0, 1, 2, 3])
        about: dict[str, Any] = {"N": 4, "op": "SparseApplyAdagrad", "of": OF, "members": [0, 1, 2, 3]}
        update = bind("_ApplyDistinct", row_shapes=[Shape(r) for r in ROWS], awaited=True, _fused_from=NAMES, **about)
        update(*given(own), np.dtype(dtype).type(0.1), *travelled(dtype))
        results.append([v.read().tobytes() for mine in own for v in mine])
    assert results[0] == results[1] and len(handed) == 1 and handed[0] > 1
