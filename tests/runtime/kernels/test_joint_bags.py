"""Bags of many columns in one node: what each column's own node gives, whichever version of the loops runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import bag_columns, joint_bags, table  # noqa: F401
from sparkflow_runtime.kernels.bags import bag_ids, entries
from sparkflow_runtime.kernels.registry import Node, rows
from sparkflow_runtime.kernels.segments import gradients_of_picked, sums_of_picked
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

LOOPS = ("entries_each", "number_each", "sum_each", "spread_each")
TALL = [40, 0, 7, 40, 1]  # rows of the columns


@pytest.fixture(params=["compiled", "numpy"], autouse=True)
def _version(request: Any, monkeypatch: Any) -> None:
    for name in LOOPS:
        loop = getattr(joint_bags, name)
        made = loop.compile() if request.param == "compiled" else loop.numpy
        monkeypatch.setattr(joint_bags, name, Version(made))


class Version:
    def __init__(self, run: Callable[..., Any]):
        self.run, self.calls = run, 0

    def prepare(self) -> None: ...

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.run(*args)


def made(op: str, **attrs: Any) -> Callable[..., Any]:
    attrs |= {"_fused_from": [f"column{k}" for k in range(attrs.get("N", 1))]}
    cpu = rows(op)[1]
    assert cpu is not None
    return cpu.factory(Node("joint", op, attrs, "", np, None))  # type: ignore[arg-type]


def alike(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    assert [(f.dtype, f.shape, f.tobytes()) for f in found] == [(w.dtype, w.shape, w.tobytes()) for w in wanted]


def columns(kind: str = "int64") -> tuple[list[np.ndarray], ...]:
    """(indices, ids, shapes, what _BagIds gives of each)."""
    rng, out = np.random.default_rng(0), tuple[list[np.ndarray], ...]([[], [], [], []])
    for k, tall in enumerate(TALL):
        count = rng.integers(0, 3 * tall + 1) if k < 3 else tall
        where = np.stack([rng.integers(0, max(tall, 1), count), np.arange(count), np.arange(count)][: k % 2 + 2], 1)
        given = where, rng.integers(-2, 9, count), np.array([tall, *[count] * (where.shape[1] - 1)])
        own = bag_ids(np, *given, 3, only_known=True, out_idx=dtypes.as_dtype(kind), row_type=dtypes.as_dtype(kind))
        for held, one in zip(out, (*given, own)):
            held.append(one)
    return out


def test_entries() -> None:
    rng = np.random.default_rng(1)
    matrices = [rng.integers(-1, 3, (tall, 1 + tall % 3)) for tall in TALL]
    matrices[3] = matrices[3].T.copy().T
    wanted = [one for m in matrices for one in entries(np, m, np.int64(-1))]
    alike(made("_JointEntries", N=5)(*matrices, *[np.array(-1)] * 5), wanted)
    assert joint_bags.entries_each.calls == 1  # type: ignore[attr-defined]


def test_entries_of_text() -> None:
    words = [np.array([["a", ""], ["", "b"]], object), np.array([[""]], object)]
    found = made("_JointEntries", N=2)(*words, "", "")
    assert [f.tolist() for f in found] == [[[0, 0], [1, 1]], ["a", "b"], [], []]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_ids(kind: str) -> None:
    indices, ids, shapes, own = columns(kind)
    attrs = {"only_known": True, "out_idx": dtypes.as_dtype(kind), "row_type": dtypes.as_dtype(kind)}
    found = made("_JointBagIds", N=5, **attrs)(*indices, *ids, *shapes, *[np.array(3)] * 5)
    alike(found, [one for mine in own for one in mine])
    assert joint_bags.number_each.calls == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", [-1, 7])
def test_ids_of_a_row_that_is_not_there(row: int) -> None:
    indices, ids, shapes, _ = columns()
    indices[2] = np.concatenate([indices[2], np.full((1, indices[2].shape[1]), row)])
    ids[2] = np.append(ids[2], 1)
    attrs = {"only_known": False, "out_idx": dtypes.int64, "row_type": dtypes.int64}
    with pytest.raises(InvalidArgumentError, match=r"must lie in \[0, 7\)") as caught:
        made("_JointBagIds", N=5, **attrs)(*indices, *ids, *shapes, *[np.array(0)] * 5)
    assert caught.value.node_def.name == "column2"


@pytest.mark.parametrize("real", ["float32", "float64", "float16"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("name", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("hides", [True, False])
def test_sums_and_gradients(name: str, kind: str, real: str, hides: bool, columns_at_once: bool = True) -> None:
    rng, own = np.random.default_rng(2), columns(kind)[3]
    places, empty, of = ([mine[i] for mine in own] for i in (1, 2, 3))
    shapes = [(16,), (2,), (3, 2), (1,), ()]
    data = [rng.standard_normal((len(mine[0]), *s)).astype(real) for mine, s in zip(own, shapes)]
    hidden = empty if hides else []
    sums = made("_JointBagSums", N=5, kind=name, hides=hides)(*data, *places, *of, *hidden)
    none = hidden or [None] * 5
    wanted = [sums_of_picked(np, name, *mine, hidden=h) for *mine, h in zip(data, places, of, none)]
    alike(sums, wanted)
    calls = (1 if columns_at_once else 5) * (real != "float16")
    assert joint_bags.sum_each.calls == calls  # type: ignore[attr-defined]

    matrix = rng.standard_normal((40, 33)).astype(real)
    grads = [matrix[:, 2:18], wanted[1], wanted[2] + 1, matrix[:, 7:8], wanted[4] + 1]
    sizes = [np.array(len(d), np.int32) for d in data]
    wanted = [gradients_of_picked(np, name, *mine) for mine in zip(grads, places, of, sizes, none)]
    for counted, told in ((False, sizes), (True, data)):
        back = made("_JointBagGradients", N=5, kind=name, hides=hides, counted=counted)
        alike(back(*grads, *places, *of, *told, *hidden), wanted)
    assert joint_bags.spread_each.calls == 2 * calls  # type: ignore[attr-defined]


def test_large_ones_are_shared_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(bag_columns, "_SHARED", 1)
    test_sums_and_gradients("Mean", "int64", "float32", True, columns_at_once=False)
    with pytest.raises(InvalidArgumentError) as caught:
        data, places = [np.ones((2, 2), np.float32)] * 3, [np.array([0, 1]), np.array([1, 0]), np.array([0, 5])]
        made("_JointBagSums", N=3, kind="Sum", hides=False)(*data, *places, *[np.array([0, 1])] * 3)
    assert caught.value.node_def.name == "column2"


@pytest.mark.parametrize(("what", "value"), [("places", 9), ("places", -1), ("of", -1), ("of", 9)])
def test_numbers_out_of_range(what: str, value: int) -> None:
    given = {"places": [np.array([0, 2, 1]), np.array([1, 1, 0])], "of": [np.array([0, 0, 1]), np.array([0, 1, 1])]}
    given[what][1][2] = value
    data, empty = [np.ones((3, 2), np.float32)] * 2, [np.zeros(2, bool)] * 2
    with pytest.raises(InvalidArgumentError) as caught:
        made("_JointBagSums", N=2, kind="Sum", hides=True)(*data, *given["places"], *given["of"], *empty)
    assert caught.value.node_def.name == "column1"
    with pytest.raises(InvalidArgumentError) as caught:
        grads, sizes = [np.ones((2, 2), np.float32)] * 2, [np.array(3)] * 2
        back = made("_JointBagGradients", N=2, kind="Sum", hides=True, counted=False)
        back(*grads, *given["places"], *given["of"], *sizes, *empty)
    assert caught.value.node_def.name == "column1"


def test_sums_of_fewer_rows_than_are_hidden() -> None:
    with pytest.raises(InvalidArgumentError, match="3 rows that may be empty do not fit 2 segments"):
        inputs = [np.ones((2, 2), np.float32), np.array([0, 1]), np.array([0, 1]), np.zeros(3, bool)]
        made("_JointBagSums", N=1, kind="Sum", hides=True)(*inputs)
