"""Variables' kernels, called as a plan calls them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import rows, state  # noqa: F401
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError


def bind(op: str, resources: ResourceManager | None = None, name: str = "n", **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node(name, op, attrs, "CPU", np, resources or ResourceManager()))


def variable(value: Any) -> Variable:
    array = np.array(value)
    made = Variable("w", dtypes.as_dtype(array.dtype), array.shape)
    made.value = array
    return made


def test_a_variable_is_made_once_per_name_and_task() -> None:
    held = ResourceManager()
    attrs = {"dtype": dtypes.float32, "shape": Shape((2,)), "container": "", "shared_name": ""}
    assert bind("VariableV2", held, "w", **attrs)() is bind("VariableV2", held, "w", **attrs)()
    shared = {**attrs, "shared_name": "w"}
    assert bind("VariableV2", held, "other", **shared)() is bind("VariableV2", held, "w", **attrs)()
    assert bind("VariableV2", held, "v", **attrs)() is not bind("VariableV2", held, "w", **attrs)()
    with pytest.raises(InvalidArgumentError, match="float32, and this graph declares int32"):
        bind("VariableV2", held, "w", **{**attrs, "dtype": dtypes.int32})


def test_assign_owns_its_memory() -> None:
    ref = Variable("w", dtypes.float32, (2, 2))
    incoming = np.frombuffer(np.arange(4, dtype=np.float32).tobytes(), np.float32).reshape(2, 2)  # read-only, a view
    assert bind("Assign", validate_shape=True, use_locking=True)(ref, incoming) is ref
    assert ref.value.flags.owndata and ref.value.flags.writeable and not np.shares_memory(ref.value, incoming)
    np.testing.assert_array_equal(ref.value, incoming)


@pytest.mark.parametrize("dtype", [np.float32, object])
def test_who_has_read_a_variable_sees_what_is_assigned(dtype: Any) -> None:
    """Through a view as well; memory that cannot be written to, and another shape, are left alone."""
    assign, ref = bind("Assign"), variable(np.array([0, 1, 2], dtype))
    held, view = ref.read(), ref.read()[::-1]
    assign(ref, np.array([3, 4, 5], dtype))
    assert held.tolist() == [3, 4, 5] and view.tolist() == [5, 4, 3]
    assign(ref, view)
    assert held.tolist() == [5, 4, 3]
    assign(ref, held * 2, held * 2)
    assert held.tolist() == [10, 8, 6]
    held.flags.writeable = False
    assign(ref, np.array([1, 1, 1], dtype))
    assert held.tolist() == [10, 8, 6] and ref.read().tolist() == [1, 1, 1]


def test_assign_of_a_view_of_itself() -> None:
    ref = variable(np.arange(4, dtype=np.float32))
    bind("Assign")(ref, ref.value[::-1])
    np.testing.assert_array_equal(ref.value, [3, 2, 1, 0])


def test_assign_reuses_memory_that_nothing_else_holds() -> None:
    ref = variable(np.zeros(3, np.float32))
    before = ref.value.ctypes.data
    bind("Assign")(ref, np.ones(3, np.float32))
    assert ref.value.ctypes.data == before


@pytest.mark.parametrize("turned", [False, True])
def test_assign_copies_large_arrays_whole(turned: bool) -> None:
    """In blocks and threads where both lie in order, by numpy otherwise; 16 MiB and a remainder."""
    ref = variable(np.zeros((2049, 2051), np.float32))
    before = ref.value.ctypes.data
    drawn = np.random.default_rng(0).random((2049, 2051), np.float32)
    given = np.asfortranarray(drawn) if turned else drawn
    bind("Assign")(ref, given)
    assert ref.value.ctypes.data == before
    np.testing.assert_array_equal(ref.value, given)


def test_assign_checks_shapes_unless_told_not_to() -> None:
    ref = variable(np.zeros((3, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"lhs shape= \[3,2\] rhs shape= \[2,2\]"):
        bind("Assign", validate_shape=True)(ref, np.ones((2, 2), np.float32))
    bind("Assign", validate_shape=False)(ref, np.ones((2, 2), np.float32))
    assert ref.value.shape == (2, 2)
    open_shape = Variable("w", dtypes.float32, (None, 2))
    with pytest.raises(InvalidArgumentError):
        bind("Assign")(open_shape, np.ones((2, 3), np.float32))
    bind("Assign")(open_shape, np.ones((5, 2), np.float32))


def test_assign_of_scalars_and_strings() -> None:
    ref = Variable("n", dtypes.int64, ())
    bind("Assign")(ref, np.int64(3))
    bind("AssignAdd")(ref, np.int64(4))
    assert ref.value == 7 and ref.value.dtype == np.int64 and ref.value.shape == ()
    text = Variable("t", dtypes.string, (2,))
    bind("Assign")(text, np.array([b"a", b"bc"], object))
    assert text.value.tolist() == [b"a", b"bc"]


@pytest.mark.parametrize(("op", "expected"), [("AssignAdd", [1.5, 2.5]), ("AssignSub", [0.5, 1.5])])
def test_assign_update(op: str, expected: list[float]) -> None:
    ref = variable(np.array([1, 2], np.float32))
    assert bind(op)(ref, np.array([0.5, 0.5], np.float32)) is ref
    assert ref.value.dtype == np.float32
    np.testing.assert_array_equal(ref.value, expected)
    with pytest.raises(InvalidArgumentError, match=r"shape \[2\], the value \[\]"):
        bind(op)(ref, np.float32(1))


def test_uninitialized() -> None:
    ref = Variable("w", dtypes.float32, (2,))
    assert not bind("IsVariableInitialized")(ref)
    for op in ("AssignAdd", "ScatterAdd"):
        args = (np.zeros(1, np.int32),) if op == "ScatterAdd" else ()
        with pytest.raises(FailedPreconditionError, match="uninitialized value w"):
            bind(op)(ref, *args, np.ones(2, np.float32))


SCATTERS = {
    "ScatterUpdate": lambda row, update: update,
    "ScatterAdd": lambda row, update: row + update,
    "ScatterSub": lambda row, update: row - update,
    "ScatterMul": lambda row, update: row * update,
    "ScatterDiv": lambda row, update: row / update,
    "ScatterMin": np.minimum,
    "ScatterMax": np.maximum,
}


@pytest.mark.parametrize("op", SCATTERS)
@pytest.mark.parametrize("indices", [[4, 0, 2], [1, 1, 0, 1], [[0, 3], [3, 1]], 2, []])
@pytest.mark.parametrize("scalar", [False, True])
def test_scatter_goes_row_by_row(op: str, indices: Any, scalar: bool) -> None:
    rng = np.random.default_rng(0)
    at = np.array(indices, np.int32)
    start = rng.standard_normal((5, 2)).astype(np.float32)
    updates = np.float32(3) if scalar else rng.standard_normal((*at.shape, 2)).astype(np.float32)
    ref = variable(start)
    expected = ref.value.copy()
    rows_ = np.broadcast_to(updates, (*at.shape, 2)).reshape(-1, 2)
    for i, row in zip(at.ravel(), rows_):
        expected[i] = SCATTERS[op](expected[i], row)
    assert bind(op)(ref, at, updates) is ref
    assert ref.value.dtype == np.float32
    np.testing.assert_array_equal(ref.value, expected)


@pytest.mark.parametrize(("bad", "where"), [([0, 7], "indices[1] = 7"), ([[0, 1], [-1, 2]], "indices[1,0] = -1")])
def test_scatter_out_of_range_changes_nothing(bad: Any, where: str) -> None:
    ref = variable(np.zeros((5, 2), np.float32))
    at = np.array(bad, np.int64)
    with pytest.raises(InvalidArgumentError) as error:
        bind("ScatterAdd")(ref, at, np.ones((*at.shape, 2), np.float32))
    assert f"{where} is not in [0, 5)" in str(error.value)
    np.testing.assert_array_equal(ref.value, 0)


def test_scatter_shapes() -> None:
    ref = variable(np.zeros((5, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"updates.shape \[2,3\], indices.shape \[2\], params.shape \[5,2\]"):
        bind("ScatterAdd")(ref, np.array([0, 1]), np.ones((2, 3), np.float32))


def test_concurrent_scatters_lose_nothing() -> None:
    ref = variable(np.zeros((50, 4), np.float32))
    add, at = bind("ScatterAdd"), np.arange(50)

    def work() -> None:
        for _ in range(200):
            add(ref, at, np.ones((50, 4), np.float32))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(ref.value, 800)


def test_rounds_keep_the_order_of_repeats() -> None:
    indices = np.random.default_rng(1).integers(0, 7, 100)
    seen: dict[int, list[int]] = {}
    for part in rows.rounds(np, indices):
        assert len(set(indices[part])) == len(part)
        for position in part:
            seen.setdefault(int(indices[position]), []).append(int(position))
    assert all(positions == sorted(positions) for positions in seen.values())
    assert sorted(p for positions in seen.values() for p in positions) == list(range(100))
