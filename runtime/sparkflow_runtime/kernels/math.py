"""Elementwise kernels and matrix products."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import exp_loops, few_rows, fused_machine, parallel, special, special_loops
from sparkflow_runtime.kernels.compression import CODECS, MIN_ITEMS
from sparkflow_runtime.kernels.fused_machine import Machine, Member
from sparkflow_runtime.kernels.fused_steps import RECIPES, Whole, expm1, log1p
from sparkflow_runtime.kernels.host import one_int
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.kernels.stacked_products import products
from sparkflow_runtime.kernels.stepwise import stepwise
from sparkflow_runtime.wire.dtypes import DType, string
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

_OTHER_TYPE = frozenset(["ComplexAbs", "IsNan", "IsInf", "IsFinite"])  # than that of the inputs


def direct(op: str, name: str, inputs: int = 1) -> None:
    """The array module's own function of that name, with nothing in between."""
    in_place = () if op in _OTHER_TYPE else tuple(range(inputs))
    bound(op, stateful=False, in_place=in_place)(lambda node: getattr(node.xp, name))


_ONES = {np.dtype(kind): np.ones((), kind) for kind in (np.float32, np.float64)}


def _one(xp: Any, x: Any) -> Any:
    """1 in x's type, as numpy takes it fastest beside an array: a scalar costs 150 ns more a call."""
    held = _ONES.get(x.dtype) if xp is np else None
    return x.dtype.type(1) if held is None else held


# ---------------------------------------------------------------------- one argument

for _op, _name in {
    "Neg": "negative",
    "Abs": "abs",
    "ComplexAbs": "abs",
    "Sign": "sign",
    "Square": "square",
    "Floor": "floor",
    "Ceil": "ceil",
    "Rint": "rint",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Tanh": "tanh",
    "Sin": "sin",
    "Cos": "cos",
    "IsNan": "isnan",
    "IsInf": "isinf",
    "IsFinite": "isfinite",
    "LogicalNot": "logical_not",
    "Conj": "conj",
}.items():
    direct(_op, _name)
kernel("Round", aliases=True)(lambda xp, x: x if x.dtype.kind in "iub" else xp.rint(x))
stepwise("Log1p")(lambda xp, x: log1p(Whole(xp), x))
stepwise("Expm1")(lambda xp, x: expm1(Whole(xp), x))
stepwise("Rsqrt")(lambda xp, x: x.dtype.type(1) / xp.sqrt(x))
kernel("Reciprocal")(lambda xp, x: x.dtype.type(1) / x)


@bound("Erf", stateful=False)
def _erf(node: Node) -> Function:
    exp_loops.erf_all.prepare()
    special_loops.erf_parts.prepare()
    xp = node.xp

    def run(x: Any) -> Any:
        if exp_loops.takes(x):
            return exp_loops.erf(x)
        return special.erf(xp, x) if xp is not np else special.by_blocks(lambda v: special.erf(np, v), x.dtype, x)

    return run


@bound("Erfc", stateful=False)
def _erfc(node: Node) -> Function:
    exp_loops.erfc_all.prepare()
    special_loops.erfc_parts.prepare()
    xp = node.xp

    def run(x: Any) -> Any:
        if exp_loops.takes(x):
            return exp_loops.erfc(x)
        if xp is np:
            return special.by_blocks(lambda v: special.erfc(np, v), x.dtype, x)
        return special.erfc(xp, xp.asarray(x, xp.float64)).astype(x.dtype)

    return run


@stepwise("Sigmoid")
def _sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)): exact far below zero too, where exp(-x) overflows into a quotient of 0."""
    one = _one(xp, x)
    return one / (one + xp.exp(-x))


def _of_output(op: str, gradient: Callable[[Any, Any, Any], Any], conjugates: bool = False) -> None:
    """The gradient of a function, from its output y, which some of TensorFlow's kernels conjugate themselves."""

    def run(xp: Any, y: Any, dy: Any) -> Any:
        if y.shape != dy.shape:
            raise InvalidArgumentError(f"{op}: y and dy must have the same shape, got {y.shape} and {dy.shape}")
        return gradient(xp, xp.conj(y) if conjugates and y.dtype.kind == "c" else y, dy)

    (stepwise(op, 2) if op in RECIPES else kernel(op))(run)


_of_output("SigmoidGrad", lambda xp, y, dy: dy * y * (_one(xp, y) - y))
_of_output("TanhGrad", lambda xp, y, dy: dy * (_one(xp, y) - y * y))
_of_output("SqrtGrad", lambda xp, y, dy: xp.where(dy == 0, dy, dy * y.dtype.type(0.5) / y), True)  # 0 / 0 is 0
_of_output("RsqrtGrad", lambda xp, y, dy: dy * y.dtype.type(-0.5) * y * y * y, True)
_of_output("ReciprocalGrad", lambda xp, y, dy: -dy * y * y, True)

# ---------------------------------------------------------------------- two arguments

for _op, _name in {
    "AddV2": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "RealDiv": "true_divide",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
}.items():
    direct(_op, _name, 2)


@bound("Add", stateful=False, in_place=(0, 1))
def _add(node: Node) -> Function:
    """Of strings, one after the other; numpy gives a scalar of them as bytes, which no kernel takes."""
    return node.xp.add if node.attr("T") is not string else lambda x, y: np.asarray(x + y, object)


kernel("Pow")(lambda xp, x, y: _power(xp, x, y))
kernel("DivNoNan")(lambda xp, x, y: xp.where(y == 0, x.dtype.type(0), x / xp.where(y == 0, x.dtype.type(1), y)))


@stepwise("SquaredDifference", 2)
def _squared_difference(xp: Any, x: Any, y: Any) -> Any:
    d = x - y
    return d * (xp.conj(d) if d.dtype.kind == "c" else d)


_PRODUCTS = (2, 3)  # powers that are faster so: numpy's takes 50 ns for a negative number, and TensorFlow does the same


def _power(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu" and y.size and bool((y < 0).any()):
        raise InvalidArgumentError("Pow: integers to negative powers are not integers; cast to a float type")
    if xp is np and y.ndim == 0 and x.dtype in _ONES and y in _PRODUCTS:
        square = x * x
        return square if y == 2 else square * x
    return xp.power(x, y)


def _divisor(x: Any, y: Any, what: str) -> None:
    if x.dtype.kind in "iu" and x.size and ((y == 0).any() if y.ndim else not y.item()):
        raise InvalidArgumentError(f"{what}: integer division by zero")


def _truncated(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return xp.trunc(x / y)
    quotient = x // y
    return quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))


def _modulo(xp: Any, x: Any, y: Any) -> Any:
    """Of the divisor's sign. cupy's is x - floor(x / y) * y, which loses digits, and is nan for an infinite y."""
    if xp is np or x.dtype.kind in "iu":
        return xp.mod(x, y)
    rest = xp.fmod(x, y)
    return xp.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _checked(op: str, divide: Callable[[Any, Any, Any], Any]) -> None:
    """A division that refuses a zero among integer divisors."""

    def run(xp: Any, x: Any, y: Any) -> Any:
        _divisor(x, y, op)
        return divide(xp, x, y)

    kernel(op)(run)


def _comparison(op: str, name: str) -> None:
    """The ufunc itself, but for strings, whose comparison numpy gives as objects."""

    def factory(node: Node) -> Function:
        compare = getattr(node.xp, name)
        if node.attr("T") is not string:
            return compare
        return lambda x, y: np.asarray(compare(x, y)).astype(bool)

    bound(op, stateful=False)(factory)


_checked("Div", lambda xp, x, y: _truncated(xp, x, y) if x.dtype.kind in "iu" else x / y)
_checked("TruncateDiv", _truncated)
_checked("FloorDiv", lambda xp, x, y: xp.floor_divide(x, y) if x.dtype.kind in "iu" else xp.floor(x / y))
_checked("FloorMod", _modulo)

for _op, _name in {
    "Equal": "equal",
    "NotEqual": "not_equal",
    "Less": "less",
    "LessEqual": "less_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
}.items():
    _comparison(_op, _name)


# ---------------------------------------------------------------------- types, sums, products


@kernel("Cast", aliases=True)
def _cast(xp: Any, x: Any, *, DstT: DType) -> Any:
    """As C does: the fraction is dropped; a complex number loses its imaginary part."""
    if x.dtype.kind == "c" and not DstT.is_complex:
        x = x.real
    if DstT.np.kind == "O" or x.dtype.kind == "O":
        raise UnimplementedError(f"Cast: strings cannot be cast ({x.dtype} to {DstT.name})")
    if xp is np and getattr(x, "size", 0) >= MIN_ITEMS:
        there, back = CODECS.get(DstT.name), CODECS.get(x.dtype.name)
        if there is not None and x.dtype == np.float32:
            return there[0](x)
        if back is not None and DstT.np == np.float32:
            return back[1](x)
    return x.astype(DstT.np, copy=False) if hasattr(x, "ndim") else DstT.np.type(x)


@bound("AddN", aliases=True, stateful=False, in_place=(0, 1))
def _add_n(node: Node) -> Function:
    count = len(node.inputs)
    if count == 2:
        return node.xp.add
    if count < _MANY or node.xp is not np:
        return functools.partial(_sum_of, node.xp)
    machine = Machine([Member("AddN", tuple((False, i) for i in range(count)))], [0], count)
    fused_machine.prepare()

    def of_many(*inputs: Any, out: Any = None) -> Any:
        fits = type(inputs[0]) is np.ndarray and inputs[0].nbytes <= _MOST_BYTES
        found = machine.run(inputs, out) if fits else None
        return _sum_of(np, *inputs, out=out) if found is None else found[0]

    return of_many


_MANY, _MOST_BYTES = 10, 1 << 17  # arrays, of that size: a block of each in turn costs less than a call for each


def _sum_of(xp: Any, *inputs: Any, out: Any = None) -> Any:
    """From left to right: the order of the sum is that of the inputs."""
    if len(inputs) == 1:
        return inputs[0]
    if isinstance(inputs[0], np.generic):
        return functools.reduce(operator.add, inputs)  # ten times faster than the ufunc
    total = xp.add(inputs[0], inputs[1], out=out)
    out = total if getattr(total, "ndim", 0) else None
    for value in inputs[2:]:
        total = xp.add(total, value, out=out)
    return total


kernel("ClipByValue")(lambda xp, t, low, high: xp.maximum(xp.minimum(t, high), low))


@bound("MatMul", stateful=False)
@bound("SparseMatMul", stateful=False)
def _matmul(node: Node) -> Function:
    xp, turn_a, turn_b = node.xp, node.attr("transpose_a", False), node.attr("transpose_b", False)
    mixed = node.op == "SparseMatMul"  # whose product is float32

    def run(a: Any, b: Any) -> Any:
        if mixed:
            a, b = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
        if turn_a:
            a = a.T
        if turn_b:
            b = b.T
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise InvalidArgumentError(
                f"{node.op}: matrix sizes do not match: {a.shape} x {b.shape} (after the transposes)"
            )
        return product(xp, a, b)

    return run


@kernel("_ColumnsTogether")
def _columns_together(xp: Any, x: Any, *, first: int = 0, rows: int = -1) -> Any:
    """A matrix, or the given rows of it, with the items of a column side by side in memory."""
    x = x[first : first + rows] if rows >= 0 else x
    if xp is not np or x.ndim != 2 or not x.flags.c_contiguous:
        return xp.asfortranarray(x)
    made = np.empty(x.shape[::-1], x.dtype)
    rows = max(1, (32 if x.strides[0] % 4096 == 0 else 64) // x.itemsize)  # whose lines stay in the first cache
    for at in range(0, len(x), rows):
        made[:, at : at + rows] = x[at : at + rows].T
    return made.T


_TINY = 1 << 15  # multiplications


def product(xp: Any, a: Any, b: Any) -> Any:
    """In the type of the operands. Of bfloat16 numpy's product is float32; and of float16, which no BLAS has, sums are
    float32 as in TensorFlow."""
    if xp is np and a.dtype == b.dtype == np.float16:
        return product(xp, a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    if xp is np and a.ndim == b.ndim == 2 and a.dtype == b.dtype and a.dtype.char in "fd":
        (m, k), n = a.shape, b.shape[1]
        if m * k * n < _TINY and min(m, k, n) > 1:
            return a.dot(b)  # BLAS's product as of matmul, in half the time to get there
        return few_rows.product(a, b) if few_rows.fits(a, b) else parallel.product(a, b)
    found = products(a, b) if xp is np else xp.matmul(a, b)
    return found if found.dtype == a.dtype else found.astype(a.dtype)


@kernel("BatchMatMulV2")
def _batch_matmul(xp: Any, x: Any, y: Any, *, adj_x: bool = False, adj_y: bool = False) -> Any:
    x, y = _adjoint(xp, x) if adj_x and x.ndim > 1 else x, _adjoint(xp, y) if adj_y and y.ndim > 1 else y
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-2]:
        raise InvalidArgumentError(
            f"BatchMatMulV2: inner sizes do not match: {x.shape} x {y.shape} (after the adjoints)"
        )
    return product(xp, x, y)


def _adjoint(xp: Any, x: Any) -> Any:
    flipped = xp.swapaxes(x, -1, -2)
    return xp.conj(flipped) if x.dtype.kind == "c" else flipped


@kernel("Range")
def _range(xp: Any, start: Any, limit: Any, delta: Any) -> Any:
    if any(v.size != 1 for v in (start, limit, delta)):
        raise InvalidArgumentError(
            f"Range: start, limit and delta are scalars, got shapes {start.shape}, {limit.shape}, {delta.shape}"
        )
    if delta == 0:
        raise InvalidArgumentError(f"Range: delta must not be 0 (start {start}, limit {limit})")
    if (limit < start) if delta > 0 else (limit > start):
        raise InvalidArgumentError(f"Range: delta {delta} does not lead from start {start} to limit {limit}")
    if start.dtype.kind in "iu":
        return xp.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    count = math.ceil(abs((limit - start) / delta))  # in start's precision, as TensorFlow counts
    return start + xp.arange(count).astype(start.dtype) * delta


@kernel("LinSpace")
def _linspace(xp: Any, start: Any, stop: Any, num: Any) -> Any:
    if one_int(num) < 1:
        raise InvalidArgumentError(f"LinSpace: num must be at least 1, got {one_int(num)}")
    return xp.linspace(start.item(), stop.item(), one_int(num), dtype=start.dtype)
