"""Bags with weights, of one column and of many: what the nodes that they stand for give, whichever version runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import bag_columns, table, weighted_bags  # noqa: F401
from sparkflow_runtime.kernels.math_reduce import segment_sum, unsorted_segment_sum
from sparkflow_runtime.wire.errors import InvalidArgumentError
from tests.runtime.kernels.test_joint_bags import Version, made

KINDS = ("Sum", "Mean", "SqrtN")


@pytest.fixture(params=["compiled", "numpy"], autouse=True)
def _version(request: Any, monkeypatch: Any) -> None:
    for name in ("sum_weighted", "spread_weighted"):
        loop = getattr(weighted_bags, name)
        run = loop.compile() if request.param == "compiled" else loop.numpy
        monkeypatch.setattr(weighted_bags, name, Version(run))


def alike(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    assert [(f.dtype, f.shape) for f in found] == [(w.dtype, w.shape) for w in wanted]
    for f, w in zip(found, wanted):
        np.testing.assert_array_equal(f, w)  # NaN where it is NaN


def quotient(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(by == 0, x.dtype.type(0), x / by)


def divided(name: str, x: np.ndarray, weights: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """What DivNoNan makes of it."""
    if name == "Sum":
        return x
    spread = weights.reshape(-1, 1)
    of = segment_sum(np, spread if name == "Mean" else spread * spread, ids)
    return quotient(x, of if name == "Mean" else np.sqrt(of))


def wanted_sums(name: str, data: Any, places: Any, ids: Any, weights: Any, hidden: Any) -> np.ndarray:
    out = divided(name, segment_sum(np, data[places] * weights.reshape(-1, 1), ids), weights, ids)
    return out if hidden is None else np.where(hidden[:, None], out.dtype.type(0), out)


def wanted_back(name: str, grad: Any, places: Any, ids: Any, weights: Any, size: int, hidden: Any) -> np.ndarray:
    grad = grad if hidden is None else np.where(hidden[:, None], grad.dtype.type(0), grad)
    return unsorted_segment_sum(np, divided(name, grad, weights, ids)[ids] * weights.reshape(-1, 1), places, size)


def columns(real: str, kind: str) -> list[list[Any]]:
    """Rows, places, ids, weights and what is hidden, of columns of each width; every id is there."""
    rng, out = np.random.default_rng(3), list[list[Any]]([[], [], [], [], []])
    for k, (count, width) in enumerate([(40, 16), (0, 3), (7, 1), (33, 5)]):
        ids = np.sort(np.concatenate([np.arange(count), rng.integers(0, max(count, 1), 2 * count)])).astype(kind)
        weights = rng.choice([0.0, -0.5, 0.25, 1.5, 2.0], len(ids)).astype(real)
        weights[ids == 3] = 0
        if k == 2 and len(weights):
            weights[0], weights[-1] = np.nan, np.inf
        places = rng.integers(0, count + 2, len(ids)).astype(kind)
        mine = rng.standard_normal((count + 2, width)).astype(real), places, ids, weights, rng.random(count) < 0.2
        for held, one in zip(out, mine):
            held.append(one)
    return out


@pytest.mark.parametrize("real", ["float32", "float64", "float16"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_and_gradients(name: str, kind: str, real: str, hides: bool, at_once: bool = True) -> None:
    data, places, ids, weights, empty = columns(real, kind)
    hidden = empty if hides else []
    none = hidden or [None] * 4
    wanted = [wanted_sums(name, *mine) for mine in zip(data, places, ids, weights, none)]
    attrs = {"kind": name, "hides": hides}
    alike(made("_JointWeightedSums", N=4, **attrs)(*data, *places, *ids, *weights, *hidden), wanted)
    one = made("_WeightedSums", **attrs)(data[3], places[3], ids[3], weights[3], *hidden[3:])
    alike([one], wanted[3:])
    calls = (1 if at_once else 4) * (real != "float16")
    sums: Any = weighted_bags.sum_weighted
    assert sums.calls == calls + (real != "float16")

    matrix = np.random.default_rng(4).standard_normal((40, 33)).astype(real)
    grads = [matrix[:, 2:18], wanted[1], wanted[2] * 0 + 1, matrix[:33, 7:12]]
    sizes = [np.array(len(d), np.int32) for d in data]
    wanted = [wanted_back(name, *mine) for mine in zip(grads, places, ids, weights, map(int, sizes), none)]
    for counted, told in ((False, sizes), (True, data)):
        back = made("_JointWeightedGradients", N=4, counted=counted, **attrs)
        alike(back(*grads, *places, *ids, *weights, *told, *hidden), wanted)
    one = made("_WeightedGradients", **attrs)(grads[3], places[3], ids[3], weights[3], sizes[3], *hidden[3:])
    alike([one], wanted[3:])
    spread: Any = weighted_bags.spread_weighted
    assert spread.calls == 2 * calls + (real != "float16")


@pytest.mark.filterwarnings("ignore:invalid value")
def test_large_ones_are_shared_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(bag_columns, "_SHARED", 1)
    test_sums_and_gradients("SqrtN", "int64", "float32", True, at_once=False)


ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_weights_and_ids_of_other_numbers() -> None:
    """One weight is every id's, as one row would be every weight's; others are refused, as Mul refuses them."""
    ids, twice = np.array([0, 1, 1]), np.full(1, 2, np.float32)
    node = made("_WeightedSums", kind="Sum", hides=False)
    assert node(ROWS, np.array([2, 0, 1]), ids, twice).tolist() == [[8, 10], [4, 8]]
    assert node(ROWS, np.array([2]), ids, np.array([1, 2, 3], np.float32)).tolist() == [[4, 5], [20, 25]]
    back = made("_WeightedGradients", kind="Sum", hides=False)
    grad = np.array([[1, 2], [3, 4]], np.float32)
    found = back(grad, np.array([2]), ids, np.array([1, 2, 3], np.float32), np.array(3))
    assert found.tolist() == [[0, 0], [0, 0], [1 + 6 + 9, 2 + 8 + 12]]
    with pytest.raises(InvalidArgumentError, match=r"Mul: Incompatible shapes: \[3, 2\] vs. \[2, 1\]"):
        node(ROWS, np.array([2, 0, 1]), ids, np.ones(2, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"Mul: Incompatible shapes: \[3, 2\] vs. \[2, 1\]"):
        back(grad, np.array([2, 0, 1]), ids, np.ones(2, np.float32), np.array(3))


@pytest.mark.parametrize(("what", "value", "says"), [
    ("places", 9, r"indices\[2\] = 9 is not in \[0, 3\)"), ("places", -1, "= -1 is not in"),
    ("ids", 0, "must not decrease"), ("ids", -1, "must not decrease"),
])  # fmt: skip
def test_numbers_out_of_range(what: str, value: int, says: str) -> None:
    given = {"places": [np.array([0, 2, 1])] * 2, "ids": [np.array([0, 1, 1])] * 2}
    given[what][1] = np.array([*given[what][1][:2], value])
    weights, empty = [np.ones(3, np.float32)] * 2, [np.zeros(2, bool)] * 2
    for kind in KINDS:
        node = made("_JointWeightedSums", N=2, kind=kind, hides=True)
        with pytest.raises(InvalidArgumentError, match=says) as caught:
            node(ROWS, ROWS, *given["places"], *given["ids"], *weights, *empty)
        assert caught.value.node_def.name == "column1"


def test_a_gradient_for_rows_that_are_not_there() -> None:
    """Too large a number is refused; a negative one gives nothing, as in UnsortedSegmentSum."""
    back = made("_WeightedGradients", kind="Mean", hides=False)
    given = np.array([0, 1, 1]), np.ones(3, np.float32), np.array(3)
    grad = np.ones((2, 2), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 3 is not in \[0, 3\)"):
        back(grad, np.array([0, 3, 1]), *given)
    assert back(grad, np.array([0, -1, 1]), *given).tolist() == [[1, 1], [0.5, 0.5], [0, 0]]


def test_what_is_hidden_has_to_fit() -> None:
    hidden, ids = np.zeros(3, bool), np.array([0, 1])
    with pytest.raises(InvalidArgumentError, match="3 rows that may be empty do not fit 2"):
        made("_WeightedSums", kind="Mean", hides=True)(ROWS, ids, ids, np.ones(2, np.float32), hidden)
    with pytest.raises(InvalidArgumentError, match="3 rows that may be empty do not fit 2"):
        back = made("_WeightedGradients", kind="Mean", hides=True)
        back(ROWS[:2], ids, ids, np.ones(2, np.float32), np.array(3), hidden)
