"""Gradients of elementwise ops, matrix products and reductions. conj() is nothing but x for real numbers."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.shapes import fully_known, product
from sparkflow.grads.broadcast import summed_to, unbroadcast
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import (
    array,
    array_select,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.array_slice import gather
from sparkflow.ops.math import (
    cast,
    conj,
    cos,
    div_no_nan,
    equal,
    exp,
    floordiv,
    greater,
    greater_equal,
    less_equal,
    log,
    logical_and,
    matmul,
    maximum,
    negative,
    reciprocal,
    sign,
    sin,
    sparse_matmul,
    square,
)
from sparkflow.ops.math import range as range_
from sparkflow.ops.math_reduce import cumsum
from sparkflow_runtime.wire import dtypes

Pair = tuple[Any, Any]

# ---------------------------------------------------------------------- one argument

gradient("Neg", sparse=True)(lambda op, dy: _each(negative, dy))
gradient("Abs")(lambda op, dy: dy * sign(op.inputs[0]))
gradient("Square")(lambda op, dy: dy * (conj(op.inputs[0]) * 2.0))
gradient("Sqrt")(lambda op, dy: apply_op("SqrtGrad", [op.outputs[0], dy]))
gradient("Rsqrt")(lambda op, dy: apply_op("RsqrtGrad", [op.outputs[0], dy]))
gradient("Exp")(lambda op, dy: dy * conj(op.outputs[0]))
gradient("Expm1")(lambda op, dy: dy * conj(exp(op.inputs[0])))
gradient("Log")(lambda op, dy: dy * reciprocal(conj(op.inputs[0])))
gradient("Log1p")(lambda op, dy: dy * reciprocal(conj(op.inputs[0]) + 1.0))
gradient("Sigmoid")(lambda op, dy: apply_op("SigmoidGrad", [conj(op.outputs[0]), dy]))
gradient("Tanh")(lambda op, dy: apply_op("TanhGrad", [conj(op.outputs[0]), dy]))
gradient("Sin")(lambda op, dy: dy * conj(cos(op.inputs[0])))
gradient("Cos")(lambda op, dy: negative(dy * conj(sin(op.inputs[0]))))
gradient("Erf")(lambda op, dy: dy * (exp(negative(square(op.inputs[0]))) * 1.1283791670955126))  # 2 / sqrt(pi)
gradient("Reciprocal")(lambda op, dy: apply_op("ReciprocalGrad", [op.outputs[0], dy]))
gradient("Conj")(lambda op, dy: conj(dy))
gradient("Sign")(lambda op, dy: lambda: array.zeros_like(op.inputs[0]))
gradient("Floor", "Ceil", "Rint", "Round")(lambda op, dy: None)


@gradient("ComplexAbs")
def _complex_abs(op: Operation, dy: Tensor) -> Tensor:
    """y = |x|  =>  dx = dy x / y, 0 at 0."""
    x = op.inputs[0]
    return apply_op("DivNoNan", [cast(dy, x.dtype) * x, cast(op.outputs[0], x.dtype)])


def _each(function: Any, dy: Any) -> Any:
    """function of a gradient, of its rows where it is IndexedSlices."""
    if isinstance(dy, IndexedSlices):
        return IndexedSlices(function(dy.values), dy.indices, dy.dense_shape)
    return function(dy)


@gradient("SigmoidGrad")
def _sigmoid_grad_grad(op: Operation, d: Tensor) -> Pair:
    """z = y (1 - y) dy."""
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return lambda: d * dy * (1.0 - y * 2.0), lambda: apply_op("SigmoidGrad", [y, d])


@gradient("TanhGrad")
def _tanh_grad_grad(op: Operation, d: Tensor) -> Pair:
    """z = (1 - y^2) dy."""
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return lambda: d * dy * (y * -2.0), lambda: apply_op("TanhGrad", [y, d])


@gradient("SqrtGrad")
def _sqrt_grad_grad(op: Operation, d: Tensor) -> Pair:
    """z = dy / (2 y)."""
    y, z = op.inputs[0], op.outputs[0]
    return lambda: negative(conj(d / y) * z), lambda: d / y * 0.5


@gradient("RsqrtGrad")
def _rsqrt_grad_grad(op: Operation, d: Tensor) -> Pair:
    """z = -y^3 dy / 2."""
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return lambda: conj(d) * dy * square(y) * -1.5, lambda: apply_op("RsqrtGrad", [y, d])


@gradient("ReciprocalGrad")
def _reciprocal_grad_grad(op: Operation, d: Tensor) -> Pair:
    """z = -y^2 dy."""
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return lambda: conj(d) * dy * y * -2.0, lambda: apply_op("ReciprocalGrad", [y, d])


@gradient("Cast", sparse=True)
def _cast(op: Operation, dy: Any) -> Any:
    source = op.inputs[0].dtype.base_dtype
    return _each(lambda d: cast(d, source), dy) if source.is_floating or source.is_complex else None


# ---------------------------------------------------------------------- two arguments

gradient("Add", "AddV2", sparse=True)(lambda op, dz: unbroadcast(op, lambda: dz, lambda: dz))
gradient("Sub", sparse=True)(lambda op, dz: unbroadcast(op, lambda: dz, lambda: _each(negative, dz)))


@gradient("Mul")
def _mul(op: Operation, dz: Tensor) -> Pair:
    x, y = op.inputs
    return unbroadcast(op, lambda: dz * conj(y), lambda: conj(x) * dz)


@gradient("RealDiv", "Div")
def _div(op: Operation, dz: Tensor) -> Pair:
    """z = x / y  =>  dx = dz / y, dy = -dz x / y^2."""
    x, y = op.inputs
    return unbroadcast(op, lambda: dz / conj(y), lambda: dz * (negative(conj(x)) / conj(y) / conj(y)))


@gradient("DivNoNan")
def _div_no_nan(op: Operation, dz: Tensor) -> Pair:
    x, y = op.inputs
    safe = lambda a: apply_op("DivNoNan", [a, conj(y)])  # noqa: E731
    return unbroadcast(op, lambda: safe(dz), lambda: dz * safe(safe(negative(conj(x)))))


@gradient("Pow")
def _pow(op: Operation, dz: Tensor) -> Pair:
    """z = x^y  =>  dx = dz y x^(y-1), dy = dz z log(x), taken as 0 where x is not positive."""
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])

    def log_x() -> Tensor:
        if x.dtype.is_complex:
            usable = apply_op("NotEqual", [x, array.zeros_like(x)])
        else:
            usable = greater(x, 0.0)
        return array_select.where(usable, log(array_select.where(usable, x, array.ones_like(x))), array.zeros_like(x))

    return unbroadcast(op, lambda: dz * y * apply_op("Pow", [x, y - 1.0]), lambda: dz * z * log_x())


@gradient("SquaredDifference")
def _squared_difference(op: Operation, dz: Tensor) -> Pair:
    x, y = op.inputs
    half = dz * 2.0
    return unbroadcast(op, lambda: half * (x - y), lambda: negative(half * (x - y)))


@gradient("Maximum", "Minimum")
def _extremum(op: Operation, dz: Tensor) -> Pair:
    """To the operand that was taken; to x where both are equal."""
    taken = (greater_equal if op.type == "Maximum" else less_equal)(*op.inputs)
    zeros = array.zeros_like(dz)
    pick = array_select.where
    return unbroadcast(op, lambda: pick(taken, dz, zeros), lambda: pick(taken, zeros, dz))


@gradient("FloorMod")
def _floor_mod(op: Operation, dz: Tensor) -> Pair:
    """z = x - y floor(x / y)."""
    x, y = op.inputs
    return unbroadcast(op, lambda: dz, lambda: dz * negative(floordiv(x, y)))


gradient("FloorDiv", "TruncateDiv")(lambda op, dz: (None, None))
gradient("AddN", sparse=True)(lambda op, dz: [dz] * len(op.inputs))


@gradient("ClipByValue")
def _clip_by_value(op: Operation, dz: Tensor) -> tuple[Any, Any, Any]:
    t, low, high = op.inputs
    below, above = apply_op("Less", [t, low]), greater(t, high)
    zeros = array.zeros_like(dz)
    inside = logical_and(greater_equal(t, low), less_equal(t, high))
    pick = array_select.where

    return (
        lambda: pick(inside, dz, zeros),
        lambda: summed_to(pick(below, dz, zeros), low),
        lambda: summed_to(pick(above, dz, zeros), high),
    )


# ---------------------------------------------------------------------- matrix products


@gradient("MatMul")
def _matmul(op: Operation, dc: Tensor) -> Pair:
    """C = A B  =>  dA = dC B', dB = A' dC (Giles 2008, s. 2.2)."""
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    match op.attr("transpose_a"), op.attr("transpose_b"):
        case False, False:
            return lambda: matmul(dc, b, False, True), lambda: matmul(a, dc, True, False)
        case False, True:
            return lambda: matmul(dc, b), lambda: matmul(dc, a, True, False)
        case True, False:
            return lambda: matmul(b, dc, False, True), lambda: matmul(a, dc)
    return lambda: matmul(b, dc, True, True), lambda: matmul(dc, a, True, True)


@gradient("SparseMatMul")
def _sparse_matmul(op: Operation, dc: Tensor) -> Pair:
    """As MatMul; each gradient in the type of its input."""
    a, b = op.inputs
    turn_a, turn_b = op.attr("transpose_a"), op.attr("transpose_b")
    of_a = [(dc, b, False, not turn_b), (b, dc, turn_b, True)][turn_a]
    of_b = [(a, dc, not turn_a, False), (dc, a, True, turn_a)][turn_b]
    return lambda: cast(sparse_matmul(*of_a), a.dtype), lambda: cast(sparse_matmul(*of_b), b.dtype)


@gradient("BatchMatMulV2")
def _batch_matmul(op: Operation, dc: Tensor) -> Pair:
    """As MatMul, summed over the leading axes that were broadcast."""
    x, y = op.inputs

    def product(a: Tensor, b: Tensor, adj_a: bool, adj_b: bool) -> Tensor:
        return apply_op("BatchMatMulV2", [a, b], {"adj_x": adj_a, "adj_y": adj_b})

    match op.attr("adj_x"), op.attr("adj_y"):
        case False, False:
            dx, dy = lambda: product(dc, y, False, True), lambda: product(x, dc, True, False)
        case False, True:
            dx, dy = lambda: product(dc, y, False, False), lambda: product(dc, x, True, False)
        case True, False:
            dx, dy = lambda: product(y, dc, False, True), lambda: product(x, dc, False, False)
        case _:
            dx, dy = lambda: product(y, dc, True, True), lambda: product(dc, x, True, True)
    batch_x, batch_y = (None if t._shape is None else t._shape[:-2] for t in (x, y))
    if fully_known(batch_x) and batch_x == batch_y:
        return dx, dy
    return lambda: _batch_summed(dx(), x, y), lambda: _batch_summed(dy(), y, x)


def _batch_summed(grad: Tensor, own: Tensor, other: Tensor) -> Tensor:
    sizes, theirs = array.shape(own), array.shape(other)
    axes, _ = apply_op("BroadcastGradientArgs", [sizes[:-2], theirs[:-2]])
    return array.reshape(apply_op("Sum", [grad, axes]), sizes)


# ---------------------------------------------------------------------- reductions


def kept_sizes(op: Operation) -> Tensor:
    """The shape of a reduction's output had it kept the reduced axes as 1."""
    x, axes = op.inputs
    dims, known = x._shape, constant_value(axes)
    if dims is not None and known is not None:
        gone = {int(a) % len(dims) for a in known.ravel()}
        if all(d is not None or i in gone for i, d in enumerate(dims)):
            return convert_to_tensor([1 if i in gone else d for i, d in enumerate(dims)], dtypes.int32)
    sizes, count = array.shape(x), array.rank(x)
    axes = apply_op("Reshape", [(cast(axes, dtypes.int32) + count) % count, [-1]])
    ones = array.fill(array.shape(axes), convert_to_tensor(1, dtypes.int32))
    return apply_op("DynamicStitch", [[range_(0, count, 1), axes], [sizes, ones]])


def _spread(op: Operation, value: Tensor) -> Tensor:
    """A tensor of the output's shape, reshaped so that it broadcasts against the input."""
    return value if op.attr("keep_dims") else array.reshape(value, kept_sizes(op))


@gradient("Sum")
def _sum(op: Operation, dy: Tensor) -> Pair:
    return lambda: array.broadcast_to(_spread(op, dy), array.shape(op.inputs[0])), None


@gradient("Mean")
def _mean(op: Operation, dy: Tensor) -> Pair:
    x, y = op.inputs[0], op.outputs[0]

    def grad() -> Tensor:
        if fully_known(x._shape) and fully_known(y._shape):
            share: Any = float(product(x._shape) // max(1, product(y._shape)))
        else:
            share = cast(floordiv(array.size(x), maximum(array.size(y), 1)), dy.dtype)
        return array.broadcast_to(_spread(op, dy / share), array.shape(x))

    return grad, None


@gradient("Max", "Min")
def _extreme(op: Operation, dy: Tensor) -> Pair:
    """Shared equally among the elements that reach the extreme."""
    x, axes = op.inputs

    def grad() -> Tensor:
        hit = cast(equal(_spread(op, op.outputs[0]), x), dy.dtype)
        count = apply_op("Sum", [hit, axes], {"keep_dims": True})
        return hit / count * _spread(op, dy)

    return grad, None


@gradient("Prod")
def _prod(op: Operation, dy: Tensor) -> Pair:
    """The product of all others, from the left and from the right, so that zeros do no harm."""
    x, axes = op.inputs

    def grad() -> Tensor:
        count = array.rank(x)
        reduced = apply_op("Reshape", [(cast(axes, dtypes.int32) + count) % count, [-1]])
        others, _ = apply_op("ListDiff", [range_(0, count, 1), reduced])
        perm = concat([reduced, others], 0)
        moved = array.transpose(x, perm)
        sizes = array.shape(moved)
        rows = apply_op("Prod", [gather(array.shape(x), reduced), 0])
        flat = array.reshape(moved, apply_op("Pack", [[rows, -1]]))
        left = apply_op("Cumprod", [flat, 0], {"exclusive": True})
        right = apply_op("Cumprod", [flat, 0], {"exclusive": True, "reverse": True})
        rest = array.transpose(array.reshape(conj(left) * conj(right), sizes), array.invert_permutation(perm))
        return rest * _spread(op, dy)

    return grad, None


@gradient("Cumsum")
def _cumsum(op: Operation, dy: Tensor) -> Pair:
    exclusive, backwards = op.attr("exclusive"), not op.attr("reverse")
    return lambda: cumsum(dy, op.inputs[1], exclusive, backwards), None


@gradient("Cumprod")
def _cumprod(op: Operation, dy: Tensor) -> Pair:
    """The sum over all products that an element is in, divided by the element; of a 0 it is 0, as in TensorFlow."""
    exclusive, backwards = op.attr("exclusive"), not op.attr("reverse")
    return lambda: div_no_nan(cumsum(op.outputs[0] * dy, op.inputs[1], exclusive, backwards), op.inputs[0]), None


@gradient("UnsortedSegmentSum")
def _unsorted_segment_sum(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """Each row gets the gradient of its segment; a dropped one (of a negative id) gets 0."""
    ids = op.inputs[1]

    def grad() -> Tensor:
        rows = gather(dy, maximum(ids, array.zeros_like(ids)))
        kept = greater_equal(ids, array.zeros_like(ids))
        extra = array.rank(rows) - array.rank(kept)
        ones = array.fill(apply_op("Pack", [[extra]]), convert_to_tensor(1, dtypes.int32))
        mask = array.reshape(cast(kept, dy.dtype), concat([array.shape(kept), ones], 0))
        return rows * mask

    return grad, None, None


gradient("SegmentSum")(lambda op, dy: (lambda: gather(dy, op.inputs[1]), None))


@gradient("LinSpace")
def _linspace(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    return None, None, None


not_differentiable(
    *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot"),
    *("IsNan", "IsInf", "IsFinite", "All", "Any", "ArgMax", "ArgMin", "Range"),
    *("BroadcastGradientArgs", "BroadcastArgs"),
)
