"""Fused nodes give the bits of the nodes they stand for: run by the machine, and node by node."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.kernels import fused_machine, fused_steps, parallel
from sparkflow_runtime.kernels.crew import crew
from sparkflow_runtime.kernels.fused_machine import Machine, Member
from sparkflow_runtime.kernels.fused_steps import RECIPES, Whole
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError

LOGICAL = {"LogicalNot", "LogicalAnd", "LogicalOr"}
ARITY = {"Select": 3, "SelectV2": 3, "AddN": 4}
INTEGERS = {"Neg", "Abs", "Sign", "Square", "Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "Equal", "Less", "Relu"}
SHAPES = [(), (1,), (7,), (3000,), (40, 50), (2, 3, 1025), (0, 4)]


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    assert fused_machine.wait(120), "the interpreter passes its own check on this machine"


def arity(op: str) -> int:
    recipe = RECIPES[op]
    names = list(inspect.signature(recipe).parameters.values())[2:]
    fixed = ARITY.get(op, len(names))
    return fixed if names and names[0].kind is not names[0].VAR_POSITIONAL else ARITY.get(op) or _ufunc_arity(op)


def _ufunc_arity(op: str) -> int:
    kernel = find(op, "CPU").factory(_node(op, np.dtype("f4")))
    return getattr(kernel, "nin", 2)


def _node(op: str, dtype: Any) -> Node:
    return Node("n", op, {"T": as_dtype(dtype)}, "", np, None)  # type: ignore[arg-type]


def values(op: str, dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if op in LOGICAL:
        return rng.integers(0, 2, shape).astype(bool)
    found = np.asarray(rng.normal(size=shape) * 3).astype(dtype)
    if found.size > 5 and found.dtype.kind == "f":
        found.flat[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    return found


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


TYPED = [(op, t) for op in RECIPES for t in ("f4", "f8", *(("i4", "i8") if op in INTEGERS else ()))]


@pytest.mark.parametrize(("op", "dtype"), TYPED)
@np.errstate(all="ignore")
def test_a_recipe_gives_its_kernels_bits(op: str, dtype: Any) -> None:
    count = arity(op)
    member = Member(op, tuple((False, i) for i in range(count)))
    run = find(op, "CPU").factory(_node(op, np.dtype(dtype)))
    for shape in SHAPES:
        inputs = tuple(values(op, dtype, shape, i) for i in range(count))
        if op.startswith("Select"):
            inputs = (inputs[0] > 0, *inputs[1:])
        if shape == () and not all(isinstance(i, np.ndarray) for i in inputs):
            inputs = tuple(np.asarray(i) for i in inputs)
        found = Machine([member], [0], count).run(inputs)
        assert found is not None, f"{op} of {dtype}, {shape} is for the machine"
        want = run(*inputs)
        assert same(np.asarray(found[0]), np.asarray(want)), shape


CHAIN = [
    Member("Mul", ((False, 0), (False, 1))),
    Member("Tanh", ((True, 0),)),
    Member("AddV2", ((True, 1), (False, 0))),
]


def by_hand(x: Any, y: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        tanh = np.tanh(np.multiply(x, y))
    return [np.add(tanh, x), tanh]


@pytest.mark.parametrize(
    "other",
    [(), (1,), (50,), (1, 50), (40, 1), (1, 1), (3, 40, 1), (1, 40, 1), (3, 1, 1), (3, 40, 50)],
)
def test_operands_are_broadcast(other: tuple[int, ...]) -> None:
    x, y = values("", np.float32, (3, 40, 50), 0), np.asarray(values("", np.float32, other, 1))
    found = Machine(CHAIN, [2, 1], 2).run((x, y))
    assert found is not None and all(same(a, b) for a, b in zip(found, by_hand(x, y)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "rows, row", [(9, 256), (700, 7), (5, 1023), (5, 1024), (4, 1025), (3, 5000), (1000, 1), (2, 3)]
)
def test_rows_over_and_over(rows: int, row: int, dtype: Any) -> None:
    """Rows shorter and longer than a block, of which a block begins anywhere, beside a column."""
    x, a, b = (values("", dtype, shape, i) for i, shape in enumerate([(rows, row), (row,), (rows, 1)]))
    members = [Member("Sub", ((False, 0), (False, 1))), Member("Mul", ((True, 0), (True, 0)))]
    members += [Member("AddV2", ((True, 1), (False, 2)))]
    found = Machine(members, [2], 3).run((x, a, b))
    with np.errstate(all="ignore"):
        wanted = (x - a) * (x - a) + b
    assert found is not None and found[0].tobytes() == wanted.tobytes()


def test_one_value_broadcast_by_a_view() -> None:
    x, y = values("", np.float32, (40, 50), 0), np.broadcast_to(np.float32(1.5), (40, 50))
    found = Machine(CHAIN, [2, 1], 2).run((x, y))
    assert found is not None and all(same(a, b) for a, b in zip(found, by_hand(x, y)))


@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize("chosen", [True, False])
@np.errstate(all="ignore")
def test_a_single_condition(size: int, chosen: bool) -> None:
    """SelectV2 by one flag, and a comparison whose result is one flag for all."""
    a, b = values("", np.float32, (size,), 0), values("", np.float32, (size,), 1)
    one = np.float32(1 if chosen else -1)
    flag = np.bool_(chosen)
    select = Machine([Member("SelectV2", ((False, 0), (False, 1), (False, 2)))], [0], 3)
    for yes, no in ((a, b), (a, one), (one, b)):
        found = select.run((flag, yes, no))
        assert found is not None and same(found[0], np.where(flag, yes, no))
    members = [
        Member("Greater", ((False, 1), (False, 2))),
        Member("SelectV2", ((True, 0), (False, 0), (False, 1))),
    ]
    found = Machine(members, [1], 3).run((a, one, np.float32(0)))
    assert found is not None and same(found[0], np.where(one > 0, a, one))
    view = np.broadcast_to(one, (size,))
    found = Machine([Member("ReluGrad", ((False, 0), (False, 1)))], [0], 2).run((b, view))
    assert found is not None and same(found[0], b * (view > 0))


@pytest.mark.parametrize("shape", [(16, 32), (700, 9), (5, 3, 500), (1, 8), (4, 1), (6, 6)])
def test_a_condition_that_chooses_rows(shape: tuple[int, ...]) -> None:
    """As a dynamic RNN holds the state of sequences that have ended."""
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    members = [Member("AddV2", ((False, 1), (False, 2)))]
    members += [Member("Select", ((False, 0), (True, 0), (False, 2))), Member("Mul", ((True, 1), (False, 1)))]
    machine = Machine(members, [2, 1], 3)
    column = (-1, *(1,) * (len(shape) - 1))
    for _ in range(2):
        flags = rng.random(shape[0]) < 0.5
        whole = rng.random(shape) < 0.5
        for condition, wide in ((flags, flags.reshape(column)), (whole, whole), (np.bool_(True), True)):
            found = machine.run((condition, x, y))
            chosen = np.where(wide, x + y, y)
            assert found is not None and same(found[0], chosen * x) and same(found[1], chosen)


@pytest.mark.parametrize("flags", [(32,), (1, 32), (17,), (16, 1, 1)])
def test_a_condition_of_another_shape_is_refused(flags: tuple[int, ...]) -> None:
    """Numpy would broadcast some of them: (32,) chooses no columns, but is a mistake."""
    x, y = (np.ones((16, 32), np.float32) for _ in range(2))
    members = [Member("Select", ((False, 0), (False, 1), (False, 2))), Member("Neg", ((True, 0),))]
    machine = Machine(members, [1], 3)
    assert machine.run((np.ones(16, bool), x, y)) is not None
    assert machine.run((np.ones(flags, bool), x, y)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(32, 512), (2000, 96), (3, 5, 64)])
def test_slices_by_columns_give_the_bits(shape: tuple[int, ...], dtype: Any) -> None:
    """As the gates of an LSTM come from Split, beside a whole array, a row and a number."""
    rng, half = np.random.default_rng(0), shape[-1] // 2
    x = rng.normal(size=shape).astype(dtype)
    left, right = x[..., :half], x[..., half:]
    whole, row = rng.normal(size=left.shape).astype(dtype), rng.normal(size=half).astype(dtype)
    members = [
        Member("Sigmoid", ((False, 0),)),
        Member("TanhGrad", ((True, 0), (False, 1))),
        Member("Mul", ((True, 1), (False, 2))),
        Member("AddV2", ((True, 2), (False, 3))),
    ]
    found = Machine(members, [3, 0], 4).run((left, right, whole, row))
    sigmoid = 1 / (1 + np.exp(-left))
    wanted = right * (1 - sigmoid * sigmoid) * whole + row
    assert found is not None and same(found[0], wanted.astype(dtype)) and same(found[1], sigmoid)


def refused(x: Any, y: Any) -> bool:
    return Machine(CHAIN, [2], 2).run((x, y)) is None


def test_what_the_machine_does_not_take() -> None:
    x = values("", np.float32, (40, 50), 0)
    assert refused(x[:, :10], x[:, :10]), "rows that are no whole registers"
    assert refused(x.T, x.T) and refused(x[:, ::2], x[:, ::2]), "another layout"
    assert refused(x.reshape(4, 10, 50), x.reshape(4, 10, 50)[:, :1].copy()), "repeats along an axis in the middle"
    assert refused(x, x.astype(np.float64)), "types that numpy would convert"
    assert refused(x[:, :1], x[:1]), "a result that no input has the shape of"
    unaligned = np.frombuffer(bytes(1 + x.nbytes), np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert refused(unaligned, x)


def test_an_op_that_wants_one_shape_is_left_to_its_kernel() -> None:
    """TanhGrad refuses what numpy would broadcast."""
    x, row = values("", np.float32, (4, 5), 0), values("", np.float32, (5,), 0)
    machine = Machine([Member("TanhGrad", ((False, 0), (False, 1)))], [0], 2)
    assert machine.run((x, x)) is not None and machine.run((x, row)) is None and machine.run((row, x)) is None


def test_shapes_and_types_may_change_from_call_to_call() -> None:
    machine = Machine(CHAIN, [2, 1], 2)
    for dtype in (np.float32, np.float64, np.float32):
        for a, b in (((4, 5), (5,)), ((4, 5), (4, 5)), ((3,), ()), ((4, 5), (4, 1)), ((7,), (7,))):
            x, y = values("", dtype, a, 0), np.asarray(values("", dtype, b, 1))
            found = machine.run((x, y))
            assert found is not None and all(same(p, q) for p, q in zip(found, by_hand(x, y)))


def test_a_full_input_that_becomes_small_is_noticed() -> None:
    """The second output has the shape of y, which was the result's at first."""
    members = [Member("AddV2", ((False, 0), (False, 1))), Member("Neg", ((False, 1),))]
    machine = Machine(members, [0, 1], 2)
    x, row = np.ones((4, 5), np.float32), np.ones(5, np.float32)
    assert machine.run((x, x)) is not None
    assert machine.run((x, row)) is None and machine.run((x, np.float32(1))) is None


def test_scalars_stay_scalars() -> None:
    found = Machine(CHAIN, [2], 2).run((np.float32(0.5), np.float32(0.25)))
    assert found is not None and same(found[0], np.tanh(np.float32(0.125)) + np.float32(0.5))


def test_threads_share_a_machine() -> None:
    machine = Machine(CHAIN, [2, 1], 2)

    def work(seed: int) -> bool:
        size = (17 * seed + 3, 11)
        x, y = values("", np.float32, size, seed), values("", np.float32, (11,), seed)
        found = [machine.run((x, y)) for _ in range(50)]
        return all(f is not None and all(same(a, b) for a, b in zip(f, by_hand(x, y))) for f in found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(16)))


def run_in_session(fetches: Any, feed: dict[Any, Any]) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def test_a_failing_node_is_named_in_a_fused_one(graph: Any) -> None:
    x, y = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.float32, [None], name="y")
    out = tf.exp(tf.add(tf.negative(x), y, name="mismatch"), name="out")
    assert run_in_session(out, {x: [1.0], y: [1.0]}) == [1.0]
    with pytest.raises(InvalidArgumentError, match=r"node mismatch \(AddV2\)") as caught:
        run_in_session(out, {x: [1.0, 2.0], y: [1.0, 2.0, 3.0]})
    assert caught.value.op.name == "mismatch"


@pytest.mark.parametrize("activation", [None, tf.nn.relu, tf.nn.relu6, tf.tanh])
@pytest.mark.parametrize("columns", [4, 1])
def test_a_layer_in_one_node(graph: Any, activation: Any, columns: int) -> None:
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype(np.float32) * 4 for s in ((9, 5), (5, 4), (columns,)))
    px, pw, pb = (tf.placeholder(tf.float32, s) for s in ([None, 5], [5, 4], [None]))
    out = tf.matmul(px, pw) + pb
    out = out if activation is None else activation(out)
    feed: dict[Any, Any] = {px: x, pw: w, pb: b}
    whole = run_in_session(out, feed)
    product = x @ w + b
    kernels: Sequence[Any] = {None: lambda v: v, tf.tanh: np.tanh}, activation  # type: ignore[assignment]
    if activation in (None, tf.tanh):
        assert same(whole, kernels[0][activation](product))
    else:
        assert same(whole, np.clip(product, 0, 6 if activation is tf.nn.relu6 else None).astype(np.float32))


def test_a_layer_that_fails_names_its_product(graph: Any) -> None:
    px, pw = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    out = tf.nn.relu(tf.matmul(px, pw, name="product") + tf.ones([4]))
    with pytest.raises(InvalidArgumentError, match=r"node product \(MatMul\)"):
        run_in_session(out, {px: np.ones((2, 3)), pw: np.ones((5, 4))})


def test_programs_are_shared_by_nodes_that_are_alike_and_by_no_others() -> None:
    x = np.linspace(-2, 2, 40, dtype=np.float32)
    for alpha in (0.25, 0.5, 0.25):
        member = Member.of("LeakyRelu", [(False, 0)], {"alpha": alpha, "T": as_dtype("float32")})
        found = Machine([member], [0], 1).run((x,))
        assert found is not None and same(found[0], np.maximum(x, x * np.float32(alpha)))


def test_a_dtype_that_is_not_numpys_own() -> None:
    """As arrays have that came by pickle: a node that met such a one first spoils no other node's program."""
    own, other = np.linspace(0, 1, 40, dtype=np.float32), pickle.loads(pickle.dumps(np.ones(40, np.float32)))
    members = [Member("Square", ((False, 0),)), Member("Rint", ((True, 0),))]
    for x in (other, own, other):
        found = Machine(members, [1], 1).run((x,))
        assert found is not None and same(np.asarray(found[0]), np.rint(np.square(np.asarray(x))))


@pytest.mark.parametrize("shape", [(600_007,), (2003, 301), (1, 700_000)])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_parts_that_threads_share_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], kind: str
) -> None:
    """A whole array, a row, a column and a number, and two outputs; also where an input's memory is taken."""
    crew.compile()
    rng = np.random.default_rng(0)
    x, row = rng.standard_normal(shape).astype(kind), rng.standard_normal(shape[-1]).astype(kind)
    column = rng.standard_normal((*shape[:-1], 1)).astype(kind)
    one = np.dtype(kind).type(0.5)
    members = [Member("Mul", ((False, 0), (False, 1))), Member("Sigmoid", ((True, 0),))]
    members += [Member("AddV2", ((True, 1), (False, 2))), Member("Maximum", ((True, 2), (False, 3)))]
    found = []
    for work in (parallel.crew_for, lambda work: None):
        monkeypatch.setattr(fused_machine, "crew_for", work)
        made = Machine(members, [3, 1], 4).run((x, row, column, one))
        free = x.copy()
        again = Machine(members, [3], 4).run((free, row, column, one), free)
        assert made is not None and again is not None and again[0] is free
        found.append([v.tobytes() for v in (*made, *again)])
    assert found[0] == found[1]
    monkeypatch.undo()
    turned = Machine(members[:2], [1], 2).run((x.T, x.T))
    assert turned is None or x.ndim == 1 or 1 in shape


@pytest.mark.parametrize(
    ("shape", "rows"), [((8,), True), ((3, 5), True), ((2000,), False), ((), False), ((0, 3), True)]
)
def test_small_outputs_are_rows_of_one_array(shape: tuple[int, ...], rows: bool) -> None:
    members = [Member("Mul", ((False, 0), (False, 1))), *(Member(op, ((True, 0),)) for op in ("Tanh", "Neg", "Exp"))]
    x, y = (np.asarray(values("Mul", "f4", shape, i)) for i in range(2))
    found = Machine(members, [0, 1, 2, 3], 2).run((x, y))
    assert found is not None and len(found) == 4
    assert len({id(one.base) for one in found if one.base is not None}) == rows
    with np.errstate(all="ignore"):
        product = x * y
        want = [product, np.tanh(product), -product, np.exp(product)]
    assert all(same(np.asarray(a), np.asarray(b)) for a, b in zip(found, want))


@pytest.mark.parametrize(("name", "least", "most"), [("log1p", -0.9, 1e30), ("expm1", -80, 80)])
def test_logarithms_and_exponentials_near_1_keep_their_digits(name: str, least: float, most: float) -> None:
    small = np.concatenate([s * np.logspace(-44, 0, 20_000) for s in (-1.0, 1.0)])
    x = np.concatenate([small, np.linspace(least, 30, 20_000), np.logspace(0, np.log10(most), 2_000)]).astype("f4")
    x = x[x >= least]
    with np.errstate(all="ignore"):  # expm1 computes both of its ways everywhere
        found = getattr(fused_steps, name)(Whole(np), x)
    exact = getattr(np, name)(x.astype(np.float64))
    assert found.dtype == np.float32
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))) < 8
    edges = np.array([-np.inf, -1, -0.0, 0, np.inf, np.nan, -2], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(getattr(fused_steps, name)(Whole(np), edges), getattr(np, name)(edges), rtol=1e-6)
