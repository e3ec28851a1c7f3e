"""Functions beyond arithmetic: trigonometric, hyperbolic, of gamma and beta; parts of complex numbers; bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math, math_reduce, rules
from sparkflow.ops.elementwise import binary, of_ragged_too, unary, unary_float
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

tan = unary_float("Tan", "The tangent of x in radians.")
asin = unary_float("Asin", "The angle in [-pi/2, pi/2] whose sine is x; nan outside [-1, 1].")
acos = unary_float("Acos", "The angle in [0, pi] whose cosine is x; nan outside [-1, 1].")
atan = unary_float("Atan", "The angle in (-pi/2, pi/2) whose tangent is x.")
sinh = unary_float("Sinh", "The hyperbolic sine.")
cosh = unary_float("Cosh", "The hyperbolic cosine.")
asinh = unary_float("Asinh", "The inverse of the hyperbolic sine.")
acosh = unary_float("Acosh", "The inverse of the hyperbolic cosine; nan below 1.")
atanh = unary_float("Atanh", "The inverse of the hyperbolic tangent; nan outside [-1, 1].")
erfc = unary_float("Erfc", "1 - erf(x), exact where that is small.")
lgamma = unary_float("Lgamma", "log |gamma(x)|.")
digamma = unary_float("Digamma", "The derivative of lgamma.")
erfinv = unary_float("Erfinv", "The inverse of erf; nan outside [-1, 1].")
ndtri = unary_float("Ndtri", "What a normal variable stays below with probability x; nan outside [0, 1].")
atan2 = binary("Atan2", "The angle of the point (x, y), in (-pi, pi].", "y: T, x: T -> z: T")
igamma = binary("Igamma", "The lower regularized incomplete gamma function P(a, x).", "a: T, x: T -> z: T")
igammac = binary("Igammac", "The upper regularized incomplete gamma function Q(a, x).", "a: T, x: T -> z: T")
zeta = binary("Zeta", "The sum over n >= 0 of (q + n) ** -x.", "x: T, q: T -> z: T")
polygamma = binary("Polygamma", "The a-th derivative of digamma at x.", "a: T, x: T -> z: T")
xlogy = binary("Xlogy", "x * log(y), and 0 where x is 0.")
xdivy = binary("Xdivy", "x / y, and 0 where x is 0.")
xlog1py = binary("Xlog1py", "x * log1p(y), and 0 where x is 0.")
multiply_no_nan = binary("MulNoNan", "x * y, and 0 where y is 0, whatever x is.")
truncatemod = binary("TruncateMod", "The remainder of x / y with the sign of x, as C's %.")
op("IgammaGradA", "a: T, x: T -> z: T", rules.broadcast)
op("RandomGammaGrad", "alpha: T, sample: T -> output: T", rules.broadcast)
op("Betainc", "a: T, b: T, x: T -> z: T", lambda op: [_broadcast_all(op)])

bitwise_and = binary("BitwiseAnd", "The bits that are set in x and in y.")
bitwise_or = binary("BitwiseOr", "The bits that are set in x or in y.")
bitwise_xor = binary("BitwiseXor", "The bits that are set in exactly one of x and y.")
left_shift = binary("LeftShift", "x with its bits moved up by y, in [0, bits of the type).")
right_shift = binary("RightShift", "x with its bits moved down by y; a negative x keeps its sign.")
invert = unary("Invert", "x with every bit flipped.")
population_count = unary("PopulationCount", "How many bits of x are set.", "x: T -> y: uint8")


def _broadcast_all(op: Operation) -> Dims:
    return shapes.broadcast(
        shapes.broadcast(op.inputs[0]._shape, op.inputs[1]._shape, op.type), op.inputs[2]._shape, op.type
    )


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularized incomplete beta integral I_x(a, b); scalars go with every element."""
    return apply_op("Betainc", [a, b, x], name=name)


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc; nan outside [0, 2]."""
    with get_default_graph().name_scope(name or "erfcinv"):
        x = convert_to_tensor(x, name="start")
        return math.multiply(math.negative(ndtri(math.multiply(x, 0.5))), 0.5**0.5)


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """log |Beta(x)| over the last axis: the sum of lgamma(x) less lgamma of the sum."""
    with get_default_graph().name_scope(name or "lbeta"):
        x = convert_to_tensor(x, name="x")
        parts = math_reduce.reduce_sum(lgamma(x), -1)
        return math.subtract(parts, lgamma(math_reduce.reduce_sum(x, -1)))


@of_ragged_too
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    with get_default_graph().name_scope(name or "LogSigmoid") as scope:
        return math.negative(apply_op("Softplus", [math.negative(x)]), name=scope)


# ---------------------------------------------------------------------- complex numbers

_PARTS: dict[str, Any] = {"T": dtypes.complex64, "Tout": dtypes.float32}
for _op_type in ("Real", "Imag", "Angle"):
    op(_op_type, "input: T -> output: Tout", rules.same, **_PARTS)
op("Complex", "real: T, imag: T -> out: Tout", rules.broadcast, T=dtypes.float32, Tout=dtypes.complex64)


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """real + i imag, of two floats of one type. Raises TypeError on other types."""
    with get_default_graph().name_scope(name or "Complex") as scope:
        real, imag = convert_to_tensor(real, name="real"), convert_to_tensor(imag, name="imag")
        pair = real.dtype.base_dtype, imag.dtype.base_dtype
        whole = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(pair[0])
        if whole is None or pair[0] is not pair[1]:
            raise TypeError(f"real and imag have incorrect types: {pair[0].name} {pair[1].name}")
        return apply_op("Complex", [real, imag], {"Tout": whole}, scope)


def _part(op_type: str, doc: str, of_real: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def build(input: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            return of_real(x)
        return apply_op(op_type, [x], {"Tout": x.dtype.real_dtype}, name)

    build.__name__ = build.__qualname__ = op_type.lower()
    build.__doc__ = doc
    return build


def _angle_of_real(x: Tensor) -> Tensor:
    pi = math.multiply(apply_op("OnesLike", [x]), convert_to_tensor(3.141592653589793, x.dtype.base_dtype))
    return apply_op("Select", [math.less(x, apply_op("ZerosLike", [x])), pi, apply_op("ZerosLike", [x])])


real = _part("Real", "The real part; x itself where it is real.", lambda x: x)
imag = _part("Imag", "The imaginary part; zeros where x is real.", lambda x: apply_op("ZerosLike", [x]))
angle = _part("Angle", "The angle of complex numbers; 0 or pi of real ones.", _angle_of_real)


# ---------------------------------------------------------------------- types


def _bitcast_rule(op: Operation) -> list[Dims]:
    dims, old, new = op.inputs[0]._shape, op.inputs[0].dtype.size, op.attrs["type"].size
    if dims is None or old == new:
        return [dims]
    if old > new:
        return [(*dims, old // new)]
    if not dims or dims[-1] not in (None, new // old):
        raise InvalidArgumentError(
            f"Bitcast: the last size must be {new // old}, got shape {dims} of {old}-byte values"
        )
    return [dims[:-1]]


op("Bitcast", "input: T -> output: type", _bitcast_rule)


@of_ragged_too
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The same bytes read as another type; a smaller type adds a last axis, a larger one takes it."""
    return apply_op("Bitcast", [input], {"type": dtypes.as_dtype(type)}, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Tensor:
    """x as complex64."""
    return math.cast(x, dtypes.complex64, name)


def to_complex128(x: Any, name: str = "ToComplex128") -> Tensor:
    """x as complex128."""
    return math.cast(x, dtypes.complex128, name)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """scalar * x, of IndexedSlices too. Raises ValueError unless the first is a scalar."""
    dtype = x.dtype.base_dtype if hasattr(x, "dtype") else None
    scalar = convert_to_tensor(scalar, dtype, "scalar")
    if scalar._shape != ():
        raise ValueError(f"Only scalar multiply works, got shape {scalar.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(math.multiply(scalar, x.values), x.indices, x.dense_shape)
    return math.multiply(scalar, x, name)
