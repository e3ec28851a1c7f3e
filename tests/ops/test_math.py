"""Elementwise ops and matrix products against numpy: values and dtypes; shape rules; operators."""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from sparkflow.framework.graph import Graph
from sparkflow.ops import (
    array,
    array_slice,
    math,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)
X = np.array([[-2.5, -1.0, -0.25], [0.0, 0.5, 3.0]])
POSITIVE = np.array([0.125, 0.5, 1.0, 9.0])

ANYWHERE = [
    (math.negative, np.negative),
    (math.sign, np.sign),
    (math.abs, np.abs),
    (math.square, np.square),
    (math.floor, np.floor),
    (math.ceil, np.ceil),
    (math.round, np.rint),
    (math.rint, np.rint),
    (math.exp, np.exp),
    (math.expm1, np.expm1),
    (math.sigmoid, special.expit),
    (math.tanh, np.tanh),
    (math.sin, np.sin),
    (math.cos, np.cos),
    (math.erf, special.erf),
]
ABOVE_ZERO = [
    (math.sqrt, np.sqrt),
    (math.rsqrt, lambda x: 1 / np.sqrt(x)),
    (math.log, np.log),
    (math.log1p, np.log1p),
    (math.reciprocal, np.reciprocal),
]
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 1e-6, np.float64: 1e-14}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("build, expected", ANYWHERE + ABOVE_ZERO)
def test_unary_floats(evaluate: Any, build: Any, expected: Any, dtype: Any) -> None:
    x = (X if (build, expected) in ANYWHERE else POSITIVE).astype(dtype)
    got = evaluate(build, x)
    assert got.dtype == dtype
    want = expected(x.astype(np.float64))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("build, expected", ANYWHERE[:4])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_unary_integers(evaluate: Any, build: Any, expected: Any, dtype: Any) -> None:
    x = np.array([-3, 0, 7], dtype)
    got = evaluate(build, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected(x))


def test_erf_to_the_last_digits(evaluate: Any) -> None:
    x = np.concatenate([np.linspace(-7, 7, 2001), [np.inf, -np.inf, 1e-300, 0.46875]])
    np.testing.assert_allclose(evaluate(math.erf, x), special.erf(x), rtol=4e-16, atol=0)


def test_sigmoid_does_not_overflow(evaluate: Any) -> None:
    got = evaluate(math.sigmoid, np.array([-1000, 1000], np.float32))
    np.testing.assert_array_equal(got, [0, 1])


def test_integers_have_no_square_root(graph: Graph) -> None:
    with pytest.raises(TypeError, match=r"Sqrt.*int32.*tf\.cast"):
        math.sqrt(array.placeholder("int32", [2]))


BINARY = [
    (math.add, np.add),
    (math.subtract, np.subtract),
    (math.multiply, np.multiply),
    (math.maximum, np.maximum),
    (math.minimum, np.minimum),
    (math.squared_difference, lambda x, y: (x - y) ** 2),
    (math.floormod, np.mod),
    (math.floordiv, np.floor_divide),
]
COMPARISONS = [
    (math.equal, np.equal),
    (math.not_equal, np.not_equal),
    (math.less, np.less),
    (math.less_equal, np.less_equal),
    (math.greater, np.greater),
    (math.greater_equal, np.greater_equal),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("build, expected", BINARY)
def test_binary(evaluate: Any, build: Any, expected: Any, dtype: Any) -> None:
    x, y = np.array([[-7, -1], [4, 9]], dtype), np.array([2, -3], dtype)
    got = evaluate(build, x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected(x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("build, expected", COMPARISONS)
def test_comparisons(evaluate: Any, build: Any, expected: Any, dtype: Any) -> None:
    x, y = np.array([1, 2, 3], dtype), np.array([[2], [3]], dtype)
    got = evaluate(build, x, y)
    assert got.dtype == bool
    np.testing.assert_array_equal(got, expected(x, y))


def test_strings_compare_and_join(evaluate: Any) -> None:
    x, y = np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)
    np.testing.assert_array_equal(evaluate(math.equal, x, y), [True, False])
    assert evaluate(math.add, x, y).tolist() == [b"aa", b"bc"]
    one = evaluate(lambda s, t: array.reshape(math.add(array_slice.gather(s, 1), t[0]), [1]), x, y)
    assert one.tolist() == [b"ba"]


def test_divisions_of_integers(evaluate: Any) -> None:
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    assert evaluate(math.div, x, y).tolist() == [3, -4, -4, 3]
    assert evaluate(math.truncatediv, x, y).tolist() == [3, -3, -3, 3]
    assert evaluate(math.floordiv, x, y).tolist() == [3, -4, -4, 3]
    assert evaluate(math.floormod, x, y).tolist() == [1, 1, -1, -1]
    true = evaluate(math.truediv, x, y)
    assert true.dtype == np.float64 and true.tolist() == [3.5, -3.5, -3.5, 3.5]
    assert evaluate(math.truediv, x.astype(np.int8), y.astype(np.int8)).dtype == np.float32


@pytest.mark.parametrize("build", [math.div, math.floordiv, math.floormod, math.truncatediv])
def test_integer_division_by_zero(evaluate: Any, build: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="division by zero"):
        evaluate(build, np.array([1], np.int32), np.array([0], np.int32))


def test_div_no_nan(evaluate: Any) -> None:
    got = evaluate(math.div_no_nan, np.array([1, 2], np.float32), np.array([0, 4], np.float32))
    assert got.tolist() == [0, 0.5] and got.dtype == np.float32


def test_pow(evaluate: Any) -> None:
    got = evaluate(math.pow, np.array([2, 3], np.int32), np.array([10, 2], np.int32))
    assert got.tolist() == [1024, 9] and got.dtype == np.int32
    with pytest.raises(InvalidArgumentError, match="negative powers"):
        evaluate(math.pow, np.array([2], np.int32), np.array([-1], np.int32))


def test_logic(evaluate: Any) -> None:
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert evaluate(math.logical_and, x, y).tolist() == (x & y).tolist()
    assert evaluate(math.logical_or, x, y).tolist() == (x | y).tolist()
    assert evaluate(math.logical_xor, x, y).tolist() == (x ^ y).tolist()
    assert evaluate(math.logical_not, x).tolist() == (~x).tolist()


def test_special_values(evaluate: Any) -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert evaluate(math.is_nan, x).tolist() == [False, True, False, False]
    assert evaluate(math.is_inf, x).tolist() == [False, False, True, True]
    assert evaluate(math.is_finite, x).tolist() == [True, False, False, False]


def test_complex(evaluate: Any) -> None:
    x = np.array([3 + 4j], np.complex64)
    got = evaluate(math.abs, x)
    assert got.dtype == np.float32 and got.tolist() == [5]
    assert evaluate(math.conj, x).tolist() == [3 - 4j]
    assert evaluate(lambda t: math.cast(t, "float32"), x).tolist() == [3]


@pytest.mark.parametrize(
    "value, dtype, expected",
    [
        (np.array([-1.9, 1.9]), np.int32, [-1, 1]),
        (np.array([0, 3]), np.bool_, [False, True]),
        (np.array([True, False]), np.float32, [1, 0]),
        (np.array([300], np.int32), np.uint8, [44]),
        (np.array([1.0], np.float32), np.complex64, [1 + 0j]),
        (np.array([0.1], np.float64), np.float16, [np.float16(0.1)]),
    ],
)
def test_cast(evaluate: Any, value: np.ndarray, dtype: Any, expected: Any) -> None:
    got = evaluate(lambda x: math.cast(x, dtype), value)
    assert got.dtype == dtype
    assert got.tolist() == [np.dtype(dtype).type(e).item() for e in expected]


def test_casters_and_saturation(evaluate: Any) -> None:
    x = np.array([1, 2], np.int64)
    for build, dtype in ((math.to_float, "f4"), (math.to_double, "f8"), (math.to_int32, "i4"), (math.to_int64, "i8")):
        assert evaluate(build, x).dtype == dtype
    got = evaluate(lambda t: math.saturate_cast(t, "uint8"), np.array([-5, 5, 500], np.int32))
    assert got.tolist() == [0, 5, 255]


def test_add_n(evaluate: Any) -> None:
    parts = [np.full((2, 2), i, np.int32) for i in range(4)]
    got = evaluate(lambda *xs: math.add_n(xs), *parts)
    assert got.dtype == np.int32 and (got == 6).all()
    assert (evaluate(lambda *xs: math.accumulate_n(xs, shape=[2, 2]), *parts) == 6).all()
    assert (parts[0] == 0).all(), "an input must not be changed"
    with pytest.raises(ValueError, match="non-empty"):
        math.add_n([])


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("batch_a, batch_b", [((), ()), ((3,), (3,)), ((3, 1), (2,))])
def test_matmul(evaluate: Any, flip_a: bool, flip_b: bool, batch_a: Any, batch_b: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(*batch_a, 2, 4)), rng.normal(size=(*batch_b, 4, 5))
    want = a @ b
    a, b = np.swapaxes(a, -1, -2) if flip_a else a, np.swapaxes(b, -1, -2) if flip_b else b
    got = evaluate(lambda x, y: math.matmul(x, y, flip_a, flip_b), a, b)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_matmul_names_both_shapes(graph: Graph) -> None:
    a, b = array.placeholder("float32", [2, 3]), array.placeholder("float32", [4, 5])
    with pytest.raises(
        InvalidArgumentError, match=r"inner sizes must match, got 3 \(a \(2, 3\)\) and 4 \(b \(4, 5\)\)"
    ):
        math.matmul(a, b)
    assert math.matmul(array.placeholder("float32"), a).op.type == "BatchMatMulV2"


def test_matmul_checks_when_it_runs(evaluate: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3\) x \(4, 5\)"):
        evaluate(
            lambda a, b: math.matmul(array.reshape(a, [2, -1]), b), np.ones(6), np.ones((4, 5)), known_shapes=False
        )


def test_broadcast_names_both_shapes(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match=r"AddV2: shapes \(2, 3\) and \(4,\) do not broadcast"):
        math.add(array.zeros([2, 3]), array.zeros([4]))


@pytest.mark.parametrize("args", [(5,), (2, 7), (1, 10, 3), (10, 0, -4), (0.0, 1.0, 0.25), (5, 5)])
def test_range(evaluate: Any, args: Any) -> None:
    got = evaluate(lambda: math.range(*args))
    np.testing.assert_array_equal(got, np.arange(*args))
    assert got.dtype == (np.float32 if isinstance(args[0], float) else np.int32)


@pytest.mark.parametrize("args", [(5, 2), (2, 5, -1), (0, 5, 0)])
def test_a_range_that_leads_nowhere(evaluate: Any, args: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Range: delta"):
        evaluate(lambda: math.range(*args))
    with pytest.raises(InvalidArgumentError, match="Range: delta"):
        evaluate(math.range, *(np.array(v, np.float32) for v in (*args, 1)[:3]), known_shapes=False)


def test_linspace(evaluate: Any) -> None:
    got = evaluate(lambda: math.linspace(0.0, 1.0, 5))
    assert got.dtype == np.float32 and got.tolist() == [0, 0.25, 0.5, 0.75, 1]


OPERATORS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators(evaluate: Any, sign: str) -> None:
    x, y = np.array([1.0, 2.0, 3.5], np.float32), np.array([2.0, 2.0, 2.0], np.float32)
    apply = OPERATORS[sign]
    for a, b in ((x, y), (x, 2.0)):
        np.testing.assert_allclose(evaluate(lambda t, b=b: apply(t, b), a), apply(a, b))
    np.testing.assert_allclose(evaluate(lambda t: apply(2.0, t), x), apply(2.0, x))
    np.testing.assert_allclose(evaluate(lambda t: apply(y, t), x), apply(y, x))  # numpy leaves the choice to the Tensor


def test_operators_on_bools_and_alone(evaluate: Any) -> None:
    x, y = np.array([True, False]), np.array([True, True])
    for apply in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b):
        assert evaluate(apply, x, y).tolist() == apply(x, y).tolist()
    assert evaluate(lambda a: ~a, x).tolist() == [False, True]
    z = np.array([-1.0, 2.0])
    assert evaluate(lambda a: -a, z).tolist() == [1, -2] and evaluate(builtins.abs, z).tolist() == [1, 2]
    m = np.arange(4.0).reshape(2, 2)
    assert (evaluate(lambda a: a @ a, m) == m @ m).all()


def test_equality_is_identity(graph: Graph) -> None:
    x, y = array.zeros([2]), array.zeros([2])
    assert x == x and x != y and len({x, y}) == 2


def test_an_object_of_ones_own_may_stand_at_the_right(graph: Graph) -> None:
    class Train:
        def __rmul__(self, left: Any) -> tuple[str, Any]:
            return "train", left

        def __rsub__(self, left: Any) -> Any:
            return NotImplemented

    x = array.placeholder("float32", [2])
    assert x * Train() == ("train", x)
    for apply in (lambda: x - Train(), lambda: x + Train()):  # no answer, and no such method
        with pytest.raises(TypeError, match="Train object at"):
            apply()


def test_names_are_tensorflows(graph: Graph) -> None:
    x = array.placeholder("float32", [2, 2], name="x")
    assert [t.op.name for t in (x + 1, x - 1, x * 2, x / 2, x @ x, -x, math.add(x, 1), x[0])] == [
        *("add", "sub", "mul", "truediv", "matmul", "Neg", "Add_1", "strided_slice")  # case does not tell names apart
    ]
    assert (x + 1).op.type == "AddV2"
    assert graph.get_operation_by_name("add/y").type == "Const"


@pytest.mark.parametrize("flip", [False, True])
def test_a_few_rows_by_a_large_matrix(evaluate: Any, flip: bool) -> None:
    rng = np.random.default_rng(0)
    rows, large = rng.standard_normal((3, 1100)), rng.standard_normal((1000, 1100) if flip else (1100, 1000))
    got = evaluate(lambda a, b: math.matmul(a, b, transpose_b=flip), rows, large)
    np.testing.assert_allclose(got, rows @ (large.T if flip else large), rtol=1e-9, atol=1e-9)


def test_strings_are_not_cast(graph: Any) -> None:
    with Session() as session, pytest.raises(UnimplementedError, match="strings cannot be cast"):
        session.run(math.cast(array.identity(["1"]), "int32"))
