"""The update steps against the formulas written out, in float64 and one row after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import decay_loops, rules, update_blocks, updates
from sparkflow_runtime.kernels.memory import memory, position, positions
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.kernels.training import Locks
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError

Arrays = list[np.ndarray]


def gradient_descent(w: Arrays, g: np.ndarray, lr: float) -> Arrays:
    return [w[0] - lr * g]


def momentum(w: Arrays, g: np.ndarray, lr: float, mu: float) -> Arrays:
    accum = mu * w[1] + g
    return [w[0] - lr * accum, accum]


def nesterov(w: Arrays, g: np.ndarray, lr: float, mu: float) -> Arrays:
    accum = mu * w[1] + g
    return [w[0] - lr * g - lr * mu * accum, accum]


def adagrad(w: Arrays, g: np.ndarray, lr: float) -> Arrays:
    accum = w[1] + g**2
    return [w[0] - lr * g / np.sqrt(accum), accum]


def adagrad_frozen(w: Arrays, g: np.ndarray, lr: float) -> Arrays:
    return [w[0] - lr * g / np.sqrt(w[1]), w[1]]


def adam(w: Arrays, g: np.ndarray, p1: float, p2: float, lr: float, b1: float, b2: float, eps: float) -> Arrays:
    m, v = b1 * w[1] + (1 - b1) * g, b2 * w[2] + (1 - b2) * g**2
    return [w[0] - lr * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(v) + eps), m, v]


def ftrl(w: Arrays, g: np.ndarray, lr: float, l1: float, l2: float, power: float) -> Arrays:
    return ftrl_v2(w, g, lr, l1, l2, 0.0, power)


def ftrl_v2(w: Arrays, g: np.ndarray, lr: float, l1: float, l2: float, shrinkage: float, power: float) -> Arrays:
    accum = w[1] + g**2
    sigma = (accum**-power - w[1] ** -power) / lr
    linear = w[2] + g + 2 * shrinkage * w[0] - sigma * w[0]
    curve = accum**-power / lr + 2 * l2
    return [np.where(np.abs(linear) > l1, (np.sign(linear) * l1 - linear) / curve, 0), accum, linear]


def rms_prop(w: Arrays, g: np.ndarray, lr: float, rho: float, mu: float, eps: float) -> Arrays:
    ms = rho * w[1] + (1 - rho) * g**2
    mom = mu * w[2] + lr * g / np.sqrt(ms + eps)
    return [w[0] - mom, ms, mom]


def centered(w: Arrays, g: np.ndarray, lr: float, rho: float, mu: float, eps: float) -> Arrays:
    mg, ms = rho * w[1] + (1 - rho) * g, rho * w[2] + (1 - rho) * g**2
    mom = mu * w[3] + lr * g / np.sqrt(ms - mg**2 + eps)
    return [w[0] - mom, mg, ms, mom]


def adadelta(w: Arrays, g: np.ndarray, lr: float, rho: float, eps: float) -> Arrays:
    accum = rho * w[1] + (1 - rho) * g**2
    step = np.sqrt(w[2] + eps) / np.sqrt(accum + eps) * g
    return [w[0] - lr * step, accum, rho * w[2] + (1 - rho) * step**2]


def proximal(w: Arrays, g: np.ndarray, lr: Any, l1: float, l2: float) -> Arrays:
    moved = w[0] - lr * g
    return [np.sign(moved) * np.maximum(np.abs(moved) - lr * l1, 0) / (1 + lr * l2)]


def proximal_adagrad(w: Arrays, g: np.ndarray, lr: float, l1: float, l2: float) -> Arrays:
    accum = w[1] + g**2
    return [*proximal(w[:1], g, lr / np.sqrt(accum), l1, l2), accum]


def adagrad_da(w: Arrays, g: np.ndarray, lr: float, l1: float, l2: float, step: float) -> Arrays:
    total, squares = w[1] + g, w[2] + g**2
    near = np.sign(total) * np.maximum(np.abs(total) - l1 * step, 0)
    return [-lr * near / (l2 * step * lr + np.sqrt(squares)), total, squares]


# op, formula, number of slots, factors before and after (grad[, indices]), attributes
CASES: list[tuple[str, Callable[..., Arrays], int, list[float], list[float], dict[str, Any]]] = [
    ("ApplyGradientDescent", gradient_descent, 0, [0.1], [], {}),
    ("ApplyMomentum", momentum, 1, [0.1], [0.9], {}),
    ("ApplyMomentum", nesterov, 1, [0.1], [0.9], {"use_nesterov": True}),
    ("ApplyAdagrad", adagrad, 1, [0.1], [], {}),
    ("ApplyAdagrad", adagrad_frozen, 1, [0.1], [], {"update_slots": False}),
    ("ApplyAdam", adam, 2, [0.9, 0.999, 0.1, 0.9, 0.999, 1e-8], [], {}),
    ("ApplyFtrl", ftrl, 2, [], [0.1, 0.02, 0.01, -0.5], {}),
    ("ApplyFtrl", ftrl, 2, [], [0.1, 0.02, 0.01, -0.7], {}),
    ("ApplyFtrlV2", ftrl_v2, 2, [], [0.1, 0.02, 0.01, 0.3, -0.5], {}),
    ("ApplyRMSProp", rms_prop, 2, [0.1, 0.9, 0.8, 1e-8], [], {}),
    ("ApplyCenteredRMSProp", centered, 3, [0.1, 0.9, 0.8, 3.0], [], {}),
    ("ApplyAdadelta", adadelta, 2, [0.5, 0.9, 1e-3], [], {}),
    ("ApplyProximalGradientDescent", proximal, 0, [0.1, 0.5, 0.3], [], {}),
    ("ApplyProximalAdagrad", proximal_adagrad, 1, [0.1, 0.5, 0.3], [], {}),
    ("ApplyAdagradDA", adagrad_da, 2, [], [0.1, 0.05, 0.3, 7.0], {}),
    ("SparseApplyCenteredRMSProp", centered, 3, [0.1, 0.9, 0.8, 3.0], [], {}),
    ("SparseApplyAdadelta", adadelta, 2, [0.5, 0.9, 1e-3], [], {}),
    ("SparseApplyProximalGradientDescent", proximal, 0, [0.1, 0.5, 0.3], [], {}),
    ("SparseApplyProximalAdagrad", proximal_adagrad, 1, [0.1, 0.5, 0.3], [], {}),
    ("SparseApplyAdagradDA", adagrad_da, 2, [], [0.1, 0.05, 0.3, 7.0], {}),
    ("SparseApplyMomentum", momentum, 1, [0.1], [0.9], {}),
    ("SparseApplyMomentum", nesterov, 1, [0.1], [0.9], {"use_nesterov": True}),
    ("SparseApplyAdagrad", adagrad, 1, [0.1], [], {}),
    ("SparseApplyFtrl", ftrl, 2, [], [0.1, 0.02, 0.01, -0.5], {}),
    ("SparseApplyFtrlV2", ftrl_v2, 2, [], [0.1, 0.02, 0.01, 0.3, -0.5], {}),
    ("SparseApplyRMSProp", rms_prop, 2, [0.1, 0.9, 0.8, 1e-8], [], {}),
]
SPARSE = [c for c in CASES if c[0].startswith("Sparse")]


def bind(op: str, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def refs(num_slots: int, dtype: Any, shape: tuple[int, ...] = (5, 2)) -> list[Variable]:
    rng = np.random.default_rng(num_slots)
    made = []
    for i in range(num_slots + 1):
        ref = Variable(f"w{i}", dtypes.as_dtype(dtype), shape)
        ref.value = (np.abs(rng.standard_normal(shape)) + 0.1).astype(dtype)
        made.append(ref)
    return made


def scalars(values: list[float], dtype: Any) -> list[Any]:
    return [np.array(v, dtype) for v in values]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("op", "formula", "slots", "before", "after", "attrs"), [c for c in CASES if c not in SPARSE])
def test_dense(op: str, formula: Any, slots: int, before: Any, after: Any, attrs: dict[str, Any], dtype: Any) -> None:
    held = refs(slots, dtype)
    expected = [r.value.astype(np.float64) for r in held]
    memory = [r.value.ctypes.data for r in held]
    step = bind(op, **attrs)
    for seed in range(3):
        g = np.random.default_rng(seed).standard_normal((5, 2)).astype(dtype)
        expected = formula(expected, g.astype(np.float64), *scalars(before + after, np.float64))
        assert step(*held, *_around(op, before, after, dtype, g)) is held[0]
    tolerance = {np.float16: 3e-2, np.float32: 1e-5, np.float64: 1e-12}[dtype]
    for ref, want in zip(held, expected):
        assert ref.value.dtype == dtype
        np.testing.assert_allclose(ref.value, want, rtol=tolerance, atol=tolerance)
    assert [r.value.ctypes.data for r in held] == memory  # changed in place


def _around(op: str, before: list[float], after: list[float], dtype: Any, *middle: Any) -> list[Any]:
    return [*scalars(before, dtype), *middle, *scalars(after, dtype)]


@pytest.mark.parametrize("indices", [[4, 0, 2], [1, 1, 0, 1, 4, 0], []])
@pytest.mark.parametrize(("op", "formula", "slots", "before", "after", "attrs"), SPARSE)
def test_sparse(
    op: str, formula: Any, slots: int, before: Any, after: Any, attrs: dict[str, Any], indices: Any
) -> None:
    held = refs(slots, np.float32)
    expected = [r.value.astype(np.float64) for r in held]
    at = np.array(indices, np.int64)
    g = np.random.default_rng(5).standard_normal((len(at), 2)).astype(np.float32)
    for i, row in zip(at, g.astype(np.float64)):
        new = formula([e[i] for e in expected], row, *(before + after))
        for e, n in zip(expected, new):
            e[i] = n
    assert bind(op, **attrs)(*held, *_around(op, before, after, np.float32, g, at)) is held[0]
    for ref, want in zip(held, expected):
        assert ref.value.dtype == np.float32
        np.testing.assert_allclose(ref.value, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "formula", "slots", "before", "after", "attrs"), SPARSE)
def test_sparse_out_of_range(op: str, formula: Any, slots: int, before: Any, after: Any, attrs: dict[str, Any]) -> None:
    held = refs(slots, np.float32)
    start = [r.value.copy() for r in held]
    for bad in ([1, 5], [1, -1]):
        at, g = np.array(bad, np.int32), np.ones((2, 2), np.float32)
        with pytest.raises(InvalidArgumentError, match=rf"indices\[1\] = {bad[1]} is not in \[0, 5\)"):
            bind(op)(*held, *_around(op, before, after, np.float32, g, at))
    for ref, old in zip(held, start):
        np.testing.assert_array_equal(ref.value, old)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("power", [-0.5, -0.7])
@pytest.mark.parametrize(("op", "wanted"), [("ApplyFtrl", [0, 0]), ("SparseApplyFtrl", [np.nan, np.nan])])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_ftrl_of_nothing_yet(op: str, wanted: list[float], power: float, dtype: Any) -> None:
    """A gradient of 0 on an accumulator of 0, and one that is nan: only the dense op makes 0 of what is not over l1."""
    held = refs(2, dtype, (1, 2))
    held[1].value, held[2].value = np.zeros((1, 2), dtype), np.zeros((1, 2), dtype)
    at = [np.zeros(1, np.int32)] if op.startswith("Sparse") else []
    grad = np.array([[0, np.nan]], dtype)
    bind(op)(*held, *_around(op, [], [0.1, 0.0, 0.0, power], dtype, grad, *at))
    np.testing.assert_array_equal(held[0].value, [wanted])


def test_refusals() -> None:
    var, accum = refs(1, np.float32)
    lr, g = np.float32(0.1), np.ones((5, 2), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"same shape \[5,2\] \[2,5\]"):
        bind("ApplyAdagrad")(var, accum, lr, g.T)
    with pytest.raises(InvalidArgumentError, match="slot 's'"):
        slot = Variable("s", dtypes.float32, (2,))
        slot.value = np.ones(2, np.float32)
        bind("ApplyAdagrad")(var, slot, lr, g)
    with pytest.raises(InvalidArgumentError, match="are scalars"):
        bind("ApplyAdagrad")(var, accum, np.ones(2, np.float32), g)
    with pytest.raises(InvalidArgumentError, match=r"grad \[2,3\], indices \[2\], var 'w0' \[5,2\]"):
        bind("SparseApplyAdagrad")(var, accum, lr, np.ones((2, 3), np.float32), np.array([0, 1]))
    with pytest.raises(FailedPreconditionError):
        bind("ApplyAdagrad")(var, Variable("s", dtypes.float32, (5, 2)), lr, g)


def test_scalar_variable() -> None:
    ref = Variable("b", dtypes.float32, ())
    ref.value = np.array(1.0, np.float32)
    bind("ApplyGradientDescent")(ref, np.float32(0.5), np.float32(1))
    assert ref.value == np.float32(0.5) and ref.value.dtype == np.float32


@pytest.mark.parametrize("op", ["ApplyGradientDescent", "ApplyMomentum", "ApplyAdam"])
def test_large_variables_are_changed_piece_by_piece(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    rule, num_refs = getattr(rules, updates.UPDATES[op].rule), updates.UPDATES[op].num_refs
    rng = np.random.default_rng(0)
    arrays = [rng.random((7, 1000), np.float32) for _ in range(num_refs + 1)]
    scalars = [np.float32(s) for s in (0.9, 0.9, 0.1, 0.9, 0.9, 1e-3)]
    scalars = scalars[: {"ApplyGradientDescent": 1, "ApplyMomentum": 2, "ApplyAdam": 6}[op]]
    whole, pieces = ([a.copy() for a in arrays] for _ in range(2))
    rule(np, {}, whole[:-1], whole[-1], *scalars)
    monkeypatch.setattr(update_blocks, "_PIECE", 64)
    for held, grad in update_blocks.pieces(np, pieces[:-1], pieces[-1]):
        assert grad.shape == (64,) or grad.size < 64
        rule(np, {}, held, grad, *scalars)
    for a, b in zip(whole, pieces):
        np.testing.assert_array_equal(a, b)


NONE = np.empty(0, np.int64)
DECAYED = ("_SparseApplyDecayedAdam", None, 2, [0.1, 0.9, 0.99, 1e-3, 0.1, 0.01], [], {})


@pytest.mark.parametrize("how", ["summed", "distinct"])
@pytest.mark.parametrize(("op", "formula", "slots", "before", "after", "attrs"), [*SPARSE, DECAYED])
def test_all_tables_at_once_in_groups_and_one_by_one_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    op: str,
    formula: Any,
    slots: int,
    before: Any,
    after: Any,
    attrs: dict[str, Any],
) -> None:
    """Few rows are summed at once, many by as many tables as the cache holds; what no loop takes goes by the rule."""
    rng = np.random.default_rng(3)
    ids = [rng.permutation(50)[:30] if how == "distinct" else rng.integers(0, 50, 80) for _ in range(2)]
    grads = [rng.standard_normal((len(i), 21)).astype(np.float32) for i in ids]
    start = [[rng.uniform(0.3, 0.5, (50, 21)).astype(np.float32) for _ in range(slots + 1)] for _ in ids]
    found = []
    for few, chunk, taken in ((1 << 13, 1 << 18, True), (0, 1 << 18, True), (0, 1 << 10, True), (0, 0, False)):
        monkeypatch.setattr(updates, "_FEW", few)
        monkeypatch.setattr(updates, "_CHUNK", chunk)
        monkeypatch.setattr(updates.Updater, "takes", lambda *_, taken=taken: taken)
        tables = [[a.copy() for a in held] for held in start]
        given = scalars([*before, *after], np.float32)
        updates.Updater(np, op, attrs).sparse(tables, grads, ids, given, how, ["a", "b"])
        found.append(np.array(tables).tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("how", ["summed", "distinct"])
def test_rows_that_decay(how: str, dtype: Any) -> None:
    """Those that no index names too, in tables of different sizes, of one of which nothing is named."""
    rng, rate, beta1, beta2, epsilon = np.random.default_rng(5), 0.1, 0.9, 0.99, 1e-2
    shapes, ids = [(7, 3), (70_000, 1), (4, 0), (5, 2)], [np.array([6, 0]), np.arange(0, 70_000, 7), NONE, NONE]
    grads = [rng.standard_normal((len(i), s[1])).astype(dtype) for i, s in zip(ids, shapes)]
    tables = [[rng.uniform(0.3, 0.5, s).astype(dtype) for _ in range(3)] for s in shapes]
    wanted = []
    for held, mine, grad in zip(tables, ids, grads):
        var, m, v = (a.astype(np.float64) for a in held)
        m, v = m * beta1, v * beta2
        m[mine] += grad * 0.1
        v[mine] += grad.astype(np.float64) ** 2 * 0.01
        wanted.append([var - rate * m / (np.sqrt(v) + epsilon), m, v])
    given = scalars([rate, beta1, beta2, epsilon, 0.1, 0.01], dtype)
    updater = updates.Updater(np, "_SparseApplyDecayedAdam", {})
    updater.sparse(tables, grads, ids, given, how, list("abcd"))
    for got, want in zip(tables, wanted):
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 if dtype is np.float32 else 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_decay_loops_in_numpy(dtype: str) -> None:
    rng, made = np.random.default_rng(4), []
    given = [rng.random((9, 5)).astype(dtype) for _ in range(3)]
    factors, ids = np.array([0.1, 0.9, 0.99, 1e-4], dtype), np.array([3, 4, 8, 0], np.uint64)
    copy, decay = decay_loops.copy_rows, decay_loops.decay
    for copied, decayed in ((copy.compile(), decay.compile()), (copy.numpy, decay.numpy)):
        held, aside = [a.copy() for a in given], np.zeros(60, dtype)
        refs, batch = positions(held).reshape(1, 3), np.array([[5, 0, 4, 0, 5]], np.uint64)
        space, to = memory(np.dtype(dtype)), position(aside)
        copied(space, refs, batch, ids, to, 0)
        decayed(space, refs, np.array([[0, 2, 30], [0, 32, 13]], np.uint64), factors)
        copied(space, refs, batch, ids, to, 1)
        made.append(b"".join(a.tobytes() for a in (*held, aside)))
        for old, new in zip(given, held):
            np.testing.assert_array_equal(new[ids.view(np.int64)], old[ids.view(np.int64)])
            assert (new[[1, 2, 5, 6, 7]] != old[[1, 2, 5, 6, 7]]).all()
    assert made[0] == made[1]


def test_a_gradient_that_is_one_number_repeated() -> None:
    """As that of a sum is: rows that have no memory of their own."""
    ids, made = np.array([3, 0, 3, 1]), []
    for grad in (np.broadcast_to(np.float32(0.5), (4, 6)), np.full((4, 6), 0.5, np.float32)):
        tables = [[np.ones((5, 6), np.float32) * (k + 1) for k in range(2)]]
        updates.Updater(np, "SparseApplyAdagrad", {}).sparse(tables, [grad], [ids], [np.float32(0.1)], "summed", ["a"])
        made.append(b"".join(a.tobytes() for a in tables[0]))
    assert made[0] == made[1]


def test_locks_are_those_of_the_variables_that_are_given() -> None:
    """Each is taken once, and let go also where the work fails."""
    first, second = ([Variable(f"{name}{i}") for i in range(3)] for name in "ab")
    locks = Locks()
    for given, others in ((first, second), (first, second), (second, first), ([first[0], first[0]], second)):
        with pytest.raises(ZeroDivisionError), locks.of(given):
            assert all(v.lock.locked() for v in given) and not any(v.lock.locked() for v in others)
            raise ZeroDivisionError
        assert not any(v.lock.locked() for v in (*first, *second))
