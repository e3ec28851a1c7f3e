"""Gradients of functions beyond arithmetic."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.broadcast import unbroadcast
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import math_special as special
from sparkflow.ops import operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.array import reshape, shape, zeros_like
from sparkflow.ops.array_select import where
from sparkflow.ops.math import (
    cast,
    conj,
    cos,
    divide,
    equal,
    exp,
    log,
    log1p,
    negative,
    reciprocal,
    rsqrt,
    square,
)


def _slope(op_type: str, slope: Any) -> None:
    """dx = dy * conj(f'(x)); slope(x, y) is f'."""
    gradient(op_type)(lambda op, dy: dy * slope(conj(op.inputs[0]), conj(op.outputs[0])))


_slope("Tan", lambda x, y: square(reciprocal(cos(x))))
_slope("Asin", lambda x, y: rsqrt(1.0 - square(x)))
_slope("Acos", lambda x, y: negative(rsqrt(1.0 - square(x))))
_slope("Atan", lambda x, y: reciprocal(1.0 + square(x)))
_slope("Sinh", lambda x, y: special.cosh(x))
_slope("Cosh", lambda x, y: special.sinh(x))
_slope("Asinh", lambda x, y: reciprocal(special.cosh(y)))
_slope("Acosh", lambda x, y: reciprocal(special.sinh(y)))
_slope("Atanh", lambda x, y: reciprocal(1.0 - square(x)))
_slope("Erfc", lambda x, y: exp(negative(square(x))) * (-2 / sqrt(pi)))
_slope("Lgamma", lambda x, y: special.digamma(x))
_slope("Erfinv", lambda x, y: exp(square(y)) * (sqrt(pi) / 2))
_slope("Ndtri", lambda x, y: exp(square(y) / 2.0) * sqrt(2 * pi))
_slope("Digamma", lambda x, y: special.polygamma(zeros_like(x) + 1.0, x))


def _both(op_type: str, by_first: Any, by_second: Any) -> None:
    """The gradients of a function of two, summed to their inputs' shapes; by_... is None where there is none."""

    def grad(op: Operation, dy: Tensor) -> Any:
        x, y = op.inputs
        pair = unbroadcast(op, lambda: by_first(x, y, dy), lambda: by_second(x, y, dy))
        return tuple(None if by is None else found for by, found in zip((by_first, by_second), pair))

    gradient(op_type)(grad)


def _igamma_slope(a: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    """dP/dx = x ** (a - 1) e ** -x / gamma(a)."""
    return dy * exp(negative(x) + (a - 1.0) * log(x) - special.lgamma(a))


_both(
    "Atan2",
    lambda y, x, dy: dy * (x / (square(x) + square(y))),
    lambda y, x, dy: dy * (negative(y) / (square(x) + square(y))),
)
_both("Igamma", lambda a, x, dy: dy * apply_op("IgammaGradA", [a, x]), _igamma_slope)
_both(
    "Igammac",
    lambda a, x, dy: negative(dy * apply_op("IgammaGradA", [a, x])),
    lambda a, x, dy: negative(_igamma_slope(a, x, dy)),
)
_both("Zeta", None, lambda x, q, dy: dy * (negative(x) * special.zeta(x + 1.0, q)))
_both("Polygamma", None, lambda a, x, dy: dy * special.polygamma(a + 1.0, x))
_both("Xlogy", lambda x, y, dy: dy * special.xlogy(_not_zero(x), y), lambda x, y, dy: dy * special.xdivy(x, y))
_both(
    "Xdivy",
    lambda x, y, dy: dy * special.xdivy(_not_zero(x), y),
    lambda x, y, dy: dy * special.xdivy(negative(x), square(y)),
)


_both(
    "Xlog1py", lambda x, y, dy: dy * special.xlog1py(_not_zero(x), y), lambda x, y, dy: dy * special.xdivy(x, y + 1.0)
)
_both("MulNoNan", lambda x, y, dy: special.multiply_no_nan(dy, y), lambda x, y, dy: special.multiply_no_nan(x, dy))


def _not_zero(x: Tensor) -> Tensor:
    return cast(apply_op("NotEqual", [x, zeros_like(x)]), x.dtype)


@gradient("Betainc")
def _betainc(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """By x alone: x ** (a - 1) (1 - x) ** (b - 1) / Beta(a, b)."""
    a, b, x = op.inputs

    def by_x() -> Tensor:
        log_beta = special.lgamma(a) + special.lgamma(b) - special.lgamma(a + b)
        slope = exp((b - 1.0) * log1p(negative(x)) + special.xlogy(a - 1.0, x) - log_beta)
        return reshape(dy * slope, shape(x))

    return None, None, by_x


# ---------------------------------------------------------------------- complex numbers


@gradient("Real")
def _real(op: Operation, dy: Tensor) -> Tensor:
    return special.complex(dy, zeros_like(dy))


@gradient("Imag")
def _imag(op: Operation, dy: Tensor) -> Tensor:
    return special.complex(zeros_like(dy), dy)


@gradient("Angle")
def _angle(op: Operation, dy: Tensor) -> Tensor:
    """-dy / (imag(x) + i real(x)), 0 at 0: the rule of TensorFlow."""
    x = op.inputs[0]
    slope = divide(special.complex(dy, zeros_like(dy)), special.complex(special.imag(x), special.real(x)))
    return where(equal(x, zeros_like(x)), zeros_like(slope), negative(slope))


@gradient("Complex")
def _complex(op: Operation, dy: Tensor) -> Any:
    return unbroadcast(op, lambda: special.real(dy), lambda: special.imag(dy))


not_differentiable(
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Invert", "PopulationCount", "Bitcast"),
    *("IgammaGradA", "TruncateMod"),
)
