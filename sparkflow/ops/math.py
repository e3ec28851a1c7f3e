"""Elementwise arithmetic, comparisons, casts, matrix products."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import ceil as ceil_of
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow.ops.elementwise import binary, of_ragged_operands, of_ragged_too, of_sparse_too, unary, unary_float
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- one argument

negative = of_sparse_too(unary("Neg", "-x."))
sign = of_sparse_too(unary("Sign", "-1, 0 or 1 by the sign of x, in x's type."))
square = of_sparse_too(unary("Square", "x * x."))
floor = unary_float("Floor", "The largest whole number not above x, in x's type.")
ceil = unary_float("Ceil", "The smallest whole number not below x, in x's type.")
rint = unary_float("Rint", "The nearest whole number, halves to even.")
sqrt = of_sparse_too(unary_float("Sqrt", "The square root; nan below zero."))
rsqrt = unary_float("Rsqrt", "1 / sqrt(x).")
exp = unary_float("Exp", "e ** x.")
expm1 = unary_float("Expm1", "e ** x - 1, exact near zero.")
log = unary_float("Log", "The natural logarithm; -inf at zero, nan below it.")
log1p = unary_float("Log1p", "log(1 + x), exact near zero.")
sigmoid = unary_float("Sigmoid", "1 / (1 + e ** -x).")
tanh = of_sparse_too(unary_float("Tanh", "The hyperbolic tangent."))
sin = unary_float("Sin", "The sine of x in radians.")
cos = unary_float("Cos", "The cosine of x in radians.")
erf = of_sparse_too(unary_float("Erf", "The Gauss error function."))
reciprocal = unary_float("Reciprocal", "1 / x.")
is_nan = unary("IsNan", "Where x is not a number.", "x: T -> y: bool", rules.same_float)
is_inf = unary("IsInf", "Where x is infinite.", "x: T -> y: bool", rules.same_float)
is_finite = unary("IsFinite", "Where x is neither infinite nor nan.", "x: T -> y: bool", rules.same_float)
logical_not = unary("LogicalNot", "Not x, for bool.", "x: bool -> y: bool")
unary("Abs", "|x|.")
unary("Round", "The nearest whole number, halves to even.")
unary("ComplexAbs", "|x| of complex numbers.", "x: T -> y: Tout", T=dtypes.complex64, Tout=dtypes.float32)
unary("Conj", "The complex conjugate.", "input: T -> output: T", T=dtypes.complex64)

# ---------------------------------------------------------------------- two arguments

multiply = binary("Mul", "x * y.")
subtract = binary("Sub", "x - y.")
pow = binary("Pow", "x ** y.")
floormod = binary("FloorMod", "The remainder of x / y with the sign of y, as Python's %.")
maximum = binary("Maximum", "The larger of x and y.")
minimum = binary("Minimum", "The smaller of x and y.")
squared_difference = binary("SquaredDifference", "(x - y) ** 2.")
truncatediv = binary("TruncateDiv", "x / y of integers, rounded towards zero.")
binary("DivNoNan", "x / y, and 0 where y is 0.")
equal = binary("Equal", "x == y.", "x: T, y: T -> z: bool", incompatible_shape_error=True)
not_equal = binary("NotEqual", "x != y.", "x: T, y: T -> z: bool", incompatible_shape_error=True)
less = binary("Less", "x < y.", "x: T, y: T -> z: bool")
less_equal = binary("LessEqual", "x <= y.", "x: T, y: T -> z: bool")
greater = binary("Greater", "x > y.", "x: T, y: T -> z: bool")
greater_equal = binary("GreaterEqual", "x >= y.", "x: T, y: T -> z: bool")
logical_and = binary("LogicalAnd", "x and y, for bool.", "x: bool, y: bool -> z: bool")
logical_or = binary("LogicalOr", "x or y, for bool.", "x: bool, y: bool -> z: bool")
real_div = realdiv = binary("RealDiv", "x / y of real or complex numbers.")
floor_div = binary("FloorDiv", "x / y rounded down.")
binary("Div", "x / y; of integers rounded towards zero, as C does.")
binary("Add", "x + y; of strings, one after the other.")
binary("AddV2", "x + y.")
for _op_type in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad"):
    op(_op_type, "y: T, dy: T -> z: T", rules.merged)

mod = floormod


@of_ragged_operands
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, elementwise with broadcasting; strings are put one after the other."""
    dtype = getattr(x, "dtype", None)  # of a variable: of references
    text = isinstance(x, (str, bytes)) or getattr(dtype, "base_dtype", dtype) == dtypes.string
    return apply_op("Add" if text else "AddV2", [x, y], name=name or "Add")


@of_ragged_too
@of_sparse_too
def abs(x: Any, name: str | None = None) -> Tensor:
    """|x|, elementwise; float32 for complex64, float64 for complex128."""
    x = convert_to_tensor(x, name="x")
    if not x.dtype.is_complex:
        return apply_op("Abs", [x], name=name)
    return apply_op("ComplexAbs", [x], {"Tout": x.dtype.real_dtype}, name or "Abs")


@of_ragged_too
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest whole number, halves to even; integers as they are."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else apply_op("Round", [x], name=name)


def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; x itself where it is real."""
    x = convert_to_tensor(x, name="x")
    return apply_op("Conj", [x], name=name) if x.dtype.is_complex else x


@of_ragged_operands
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 divides: integers of up to 16 bits become float32, larger ones float64."""
    with get_default_graph().name_scope(name or "truediv") as scope:
        x, y = _pair(x, y)
        if x.dtype.is_integer:
            wide = dtypes.float32 if x.dtype.size <= 2 else dtypes.float64
            x, y = cast(x, wide), cast(y, wide)
        return apply_op("RealDiv", [x, y], name=scope)


divide = truediv


@of_ragged_operands
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 divides: of integers rounded down."""
    with get_default_graph().name_scope(name or "div") as scope:
        x, y = _pair(x, y)
        return apply_op("FloorDiv" if x.dtype.is_integer else "RealDiv", [x, y], name=scope)


@of_ragged_operands
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0."""
    with get_default_graph().name_scope(name or "div_no_nan") as scope:
        return apply_op("DivNoNan", [*_pair(x, y)], name=scope)


@of_ragged_operands
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down, in x's type."""
    return apply_op("FloorDiv", [x, y], name=name or "floordiv")


@of_ragged_operands
def logical_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Exactly one of x and y, for bool."""
    with get_default_graph().name_scope(name or "LogicalXor") as scope:
        return apply_op("LogicalAnd", [logical_or(x, y), logical_not(logical_and(x, y))], name=scope)


def _pair(x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> tuple[Tensor, Tensor]:
    """x and y as tensors of one type, which a Tensor among them decides."""
    if isinstance(y, Tensor) and not isinstance(x, Tensor):
        return convert_to_tensor(x, y.dtype.base_dtype, names[0]), y
    x = convert_to_tensor(x, name=names[0])
    y = convert_to_tensor(y, None if isinstance(y, Tensor) else x.dtype.base_dtype, names[1])
    if x.dtype.base_dtype is not y.dtype.base_dtype:
        raise TypeError(f"x and y must have the same type, got {x.dtype.name} and {y.dtype.name}; use tf.cast")
    return x, y


# ---------------------------------------------------------------------- types

op("Cast", "x: SrcT -> y: DstT", rules.same, Truncate=False)


@of_sparse_too
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """x in another type; x itself where it has that type. Floats become integers by dropping the fraction."""
    want = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, want, name), x.indices, x.dense_shape)
    if hasattr(x, "with_flat_values"):  # ragged
        return x.with_flat_values(cast(x.flat_values, want, name))
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.base_dtype is want else apply_op("Cast", [x], {"DstT": want}, name)


def _caster(dtype: dtypes.DType, label: str) -> Callable[..., Any]:
    def build(x: Any, name: str = label) -> Any:
        return cast(x, dtype, name)

    build.__name__ = build.__qualname__ = "to_" + label[2:].lower()
    build.__doc__ = f"x as {dtype.name}."
    return build


to_float = _caster(dtypes.float32, "ToFloat")
to_double = _caster(dtypes.float64, "ToDouble")
to_int32 = _caster(dtypes.int32, "ToInt32")
to_int64 = _caster(dtypes.int64, "ToInt64")
to_bfloat16 = _caster(dtypes.bfloat16, "ToBFloat16")


@of_ragged_too
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """cast, with what lies outside dtype's range taken to its ends, or to the nearest numbers that value's type has.

    Of complex numbers the real parts, where dtype is real.
    """
    want = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name or "saturate_cast") as scope:
        value = convert_to_tensor(value, name="value")
        if value.dtype.is_complex and want.is_complex:
            return cast(value, want, scope)
        if value.dtype.is_complex:
            value = cast(value, value.dtype.real_dtype)
        source = value.dtype.base_dtype
        least, most, infinite = want.real_dtype.min, want.real_dtype.max, source.is_floating and want.is_integer
        if source.is_floating:
            own = float(source.min), float(source.max)
        else:
            own = source.min, source.max
        if own[0] < least or infinite:
            value = maximum(value, convert_to_tensor(_inside(builtins.max(least, own[0]), source), source))
        if own[1] > most or infinite:
            value = minimum(value, convert_to_tensor(_inside(builtins.min(most, own[1]), source), source))
        return cast(value, want, scope)


def _inside(limit: Any, source: dtypes.DType) -> Any:
    """The limit, or the number of this type before it: 2 ** 31 - 1 is none of float32, and 2 ** 31 is too large."""
    if source.is_integer:
        return limit
    found = source.np.type(float(limit))
    return np.nextafter(found, source.np.type(0)) if builtins.abs(float(found)) > builtins.abs(limit) else found


# ---------------------------------------------------------------------- sums of lists

op("AddN", "inputs: N * T -> sum: T", rules.merged)


@of_ragged_too
def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The elementwise sum of tensors of one shape and type. Raises InvalidArgumentError where shapes differ."""
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(f"add_n takes a non-empty list of tensors, got {inputs!r}")
    tensors = [convert_to_tensor(t) for t in inputs]
    if len(tensors) == 1:
        return apply_op("Identity", tensors, name=name) if name else tensors[0]
    return apply_op("AddN", [tensors], name=name)


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """As add_n; shape and tensor_dtype, where given, are checked against the inputs."""
    tensors = [convert_to_tensor(t, tensor_dtype) for t in inputs]
    total = add_n(tensors, name or "AccumulateN")
    if shape is not None:
        total.set_shape(shape)
    return total


# ---------------------------------------------------------------------- matrix products


def _matmul_rule(op: Operation) -> list[Dims]:
    """[m, k] x [k, n] -> [m, n] after the transposes."""
    a, b = (rules.require_matrix(op, side, t) for side, t in zip("ab", op.inputs))
    return [_product(op, a, b, op.attrs["transpose_a"], op.attrs["transpose_b"])]


def _product(op: Operation, a: Any, b: Any, flip_a: bool, flip_b: bool) -> tuple[int | None, int | None]:
    (m, k), (k2, n) = (a[::-1] if flip_a else a), (b[::-1] if flip_b else b)
    if None not in (k, k2) and k != k2:
        raise InvalidArgumentError(
            f"{op.type}: inner sizes must match, got {k} (a {shapes.show(a)}) and {k2} (b {shapes.show(b)})"
        )
    return m, n


def _batch_matmul_rule(op: Operation) -> list[Dims]:
    a, b = (rules.require_rank(op, side, t, 2, at_least=True) for side, t in zip("xy", op.inputs))
    if a is None or b is None:
        return [None]
    batch = shapes.broadcast(a[:-2], b[:-2], op.type)
    return [(*(batch or ()), *_product(op, a[-2:], b[-2:], op.attrs["adj_x"], op.attrs["adj_y"]))]


op("MatMul", "a: T, b: T -> product: T", _matmul_rule, transpose_a=False, transpose_b=False, grad_a=False, grad_b=False)
op(
    "SparseMatMul",
    "a: Ta, b: Tb -> product: float32",
    _matmul_rule,
    transpose_a=False,
    transpose_b=False,
    a_is_sparse=False,
    b_is_sparse=False,
    Ta=dtypes.float32,
    Tb=dtypes.float32,
)
op("BatchMatMulV2", "x: T, y: T -> output: T", _batch_matmul_rule, adj_x=False, adj_y=False, grad_x=False, grad_y=False)


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices [m, k] and [k, n], or of batches of them (leading axes broadcast).

    transpose swaps the last two axes first, adjoint also conjugates. The sparse hints change nothing. Of a bfloat16 and
    a float32 matrix the product is float32. Raises InvalidArgumentError where the inner sizes differ.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("matmul: give one of transpose and adjoint for an argument, not both")
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):  # so that a constant is called e.g. MatMul/b
        with get_default_graph().name_scope(name or "MatMul") as name:
            a, b = _pair(a, b, ("a", "b"))
    ranks = rules.rank_of(a), rules.rank_of(b)
    if builtins.any(r is None or r > 2 for r in ranks):
        a, b = (conj(a) if transpose_a else a), (conj(b) if transpose_b else b)
        attrs = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
        return apply_op("BatchMatMulV2", [a, b], attrs, name or "MatMul")
    if {a.dtype.base_dtype, b.dtype.base_dtype} == {dtypes.bfloat16, dtypes.float32}:
        turns = transpose_a or adjoint_a, transpose_b or adjoint_b
        return sparse_matmul(a, b, *turns, a_is_sparse, b_is_sparse, name or "MatMul")
    a, b = (conj(a) if adjoint_a else a), (conj(b) if adjoint_b else b)
    attrs = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
    return apply_op("MatMul", [a, b], attrs, name)


def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices [m, k] and [k, n] of float32 or bfloat16, each of its own type, as float32.

    a_is_sparse, b_is_sparse: hints that many values are 0; they change nothing. Raises InvalidArgumentError where the
    inner sizes differ, TypeError on another type.
    """
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    attrs |= {"a_is_sparse": a_is_sparse, "b_is_sparse": b_is_sparse}
    return apply_op("SparseMatMul", [a, b], attrs, name)


# ---------------------------------------------------------------------- sequences


def _range_rule(op: Operation) -> list[Dims]:
    for tensor in op.inputs:
        rules.require_rank(op, "start, limit and delta", tensor, 0)
    start, limit, delta = (constant_value(t) for t in op.inputs)
    if start is None or limit is None or delta is None:
        return [(None,)]
    if delta == 0:
        raise InvalidArgumentError(f"Range: delta must not be 0 (start {start}, limit {limit})")
    if (limit < start) if delta > 0 else (limit > start):
        raise InvalidArgumentError(f"Range: delta {delta} does not lead from start {start} to limit {limit}")
    if op.outputs[0].dtype.is_integer:
        return [(-((int(start) - int(limit)) // int(delta)),)]
    return [(ceil_of(builtins.abs((limit - start) / delta)),)]


def _linspace_rule(op: Operation) -> list[Dims]:
    num = constant_value(op.inputs[2])
    return [(None if num is None else int(num),)]


_RANGE = (dtypes.int32, dtypes.int64, dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)
op("Range", "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx", _range_rule, Tidx=dtypes.int32)
op("LinSpace", "start: T, stop: T, num: Tidx -> output: T", _linspace_rule, Tidx=dtypes.int32)


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """start, start + delta, ... below limit (above it for a negative delta); from 0 when one number is given.

    The type is dtype, or the widest of int32, int64 and floats among the arguments. Raises TypeError on others.
    """
    start, limit = (0, start) if limit is None else (start, limit)
    with get_default_graph().name_scope(name) as scope:
        parts = [convert_to_tensor(v, dtype, n) for v, n in zip((start, limit, delta), ("start", "limit", "delta"))]
        if not {*(kinds := [t.dtype.base_dtype for t in parts])} <= {*_RANGE}:
            raise TypeError(f"range: start, limit and delta are int32, int64 or floats, got {parts}; tf.cast converts")
        widest = builtins.max(kinds, key=_RANGE.index)
        return apply_op("Range", [cast(t, widest) for t in parts], name=scope)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    """num evenly spaced values from start to stop, both included; floats."""
    return apply_op("LinSpace", [start, stop, num], name=name or "LinSpace")


lin_space = linspace
