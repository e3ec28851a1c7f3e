"""What each elementwise op is made of: numpy ufuncs, in the order in which its kernel calls them.

A recipe gets a tracer and operands and gives an operand. Tracing it writes a program of steps, and as the ufuncs and
their order are the kernel's, the program gives the kernel's bits. `tests/runtime/kernels/test_fused.py` holds every
recipe against its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

BOOL = np.dtype(bool)
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543773  # Klambauer 2017, s. 2


@dataclass(frozen=True)
class Operand:
    """kind: 'input', 'const' or 'step'; index: its place among those. full: an element for every one of the result;
    by_rows: an input that has one for every row of it instead."""

    kind: str
    index: int
    dtype: np.dtype[Any]
    full: bool
    by_rows: bool = False


@dataclass(frozen=True)
class Step:
    """ufunc: a numpy ufunc's name with its loop's types, or 'select' or 'widen' (bool to a float 0 or 1)."""

    ufunc: str
    args: tuple[Operand, ...]
    out: Operand


class Unsupported(Exception):
    """The machine has no step for these types; the body then runs node by node."""


@dataclass
class Tracer:
    of_numpy = True
    steps: list[Step] = field(default_factory=list)
    consts: list[np.ndarray] = field(default_factory=list)

    def const(self, value: float, like: Operand) -> Operand:
        self.consts.append(np.array(value, like.dtype))
        return Operand("const", len(self.consts) - 1, like.dtype, False)

    def call(self, name: str, *args: Operand) -> Operand:
        """A ufunc; a bool beside a float is widened first, as numpy's casting does."""
        floats = {a.dtype for a in args if a.dtype != BOOL}
        if len(floats) > 1:
            raise Unsupported(f"{name} of {floats}")
        if floats and any(a.dtype == BOOL for a in args):
            (wide,) = floats
            args = tuple(self._widened(a, wide) if a.dtype == BOOL else a for a in args)
        result = _result(name, args[0].dtype, len(args))
        return self._step(f"{name}:{''.join(a.dtype.char for a in args)}->{result.char}", args, result)

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Operand:
        if condition.dtype != BOOL or yes.dtype != no.dtype:
            raise Unsupported(f"select of {condition.dtype}, {yes.dtype}, {no.dtype}")
        return self._step("select", (condition, yes, no), yes.dtype)

    def filled(self, value: float, like: Operand) -> Operand:
        return self._step("copy", (self.const(value, like),), like.dtype, like.full)

    def _widened(self, operand: Operand, dtype: np.dtype[Any]) -> Operand:
        if dtype.kind != "f":
            raise Unsupported(f"bool beside {dtype}")
        return self._step("widen", (operand,), dtype)

    def _step(self, name: str, args: tuple[Operand, ...], dtype: np.dtype[Any], full: bool = False) -> Operand:
        out = Operand("step", len(self.steps), dtype, full or any(a.full for a in args))
        self.steps.append(Step(name, args, out))
        return out


@lru_cache(maxsize=1024)
def _result(name: str, dtype: np.dtype[Any], count: int) -> np.dtype[Any]:
    """The type of a ufunc's result. Raises Unsupported where numpy has no loop for the very types."""
    wanted = dtype.char * count + "->"
    for types in getattr(np, name).types:
        if types.startswith(wanted) and len(types) == len(wanted) + 1:
            return np.dtype(types[-1])
    raise Unsupported(f"np.{name} of {dtype}")


Recipe = Callable[..., Operand]


def _ufunc(name: str) -> Recipe:
    return lambda t, attrs, *args: t.call(name, *args)


def _add_n(t: Tracer, attrs: dict[str, Any], *args: Operand) -> Operand:
    if len(args) == 1:
        raise Unsupported("AddN of one")
    total = t.call("add", args[0], args[1])
    for one in args[2:]:
        total = t.call("add", total, one)
    return total


def _sigmoid(t: Tracer, attrs: dict[str, Any], x: Operand) -> Operand:
    one = t.const(1, x)
    return t.call("true_divide", one, t.call("add", one, t.call("exp", t.call("negative", x))))


def _times(t: Tracer, *factors: Operand) -> Operand:
    """From left to right."""
    product = t.call("multiply", factors[0], factors[1])
    for one in factors[2:]:
        product = t.call("multiply", product, one)
    return product


def _squared_difference(t: Tracer, attrs: dict[str, Any], x: Operand, y: Operand) -> Operand:
    d = t.call("subtract", x, y)
    return t.call("multiply", d, d)


class Whole:
    """In a tracer's place: takes the steps on whole arrays, one after the other."""

    def __init__(self, xp: Any):
        self._xp, self.of_numpy = xp, xp is np

    def const(self, value: float, like: Any) -> Any:
        return like.dtype.type(value)

    def call(self, name: str, *args: Any) -> Any:
        return getattr(self._xp, name)(*args)

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        return self._xp.where(condition, yes, no)


# The following take a tracer's operands, or arrays. Of single precision numpy's log1p and expm1 take numbers one by one
# where a processor has no AVX-512: 7 and 11 ns each, and 2.5 and 5 as they are made here, within 4 units in the last
# place.


def _by_parts(t: Any, x: Any) -> bool:
    return t.of_numpy and x.dtype == np.float32


def log1p(t: Any, x: Any) -> Any:
    """log(u) for u = 1 + x, less what rounding added to u."""
    if not _by_parts(t, x):
        return t.call("log1p", x)
    one = t.const(1, x)
    u = t.call("add", one, x)
    added = t.call("true_divide", t.call("subtract", t.call("subtract", u, one), x), u)
    # NaN where x is -1 or infinite, and so is the logarithm; far less than 1 otherwise
    return t.call("subtract", t.call("log", u), t.call("fmax", added, t.const(-1, x)))


def _expm1_below_1(t: Any, x: Any) -> Any:
    """2 h / (1 - h) for h = tanh(x / 2), which loses no digits there."""
    if not _by_parts(t, x):
        return t.call("expm1", x)
    h = t.call("tanh", t.call("multiply", x, t.const(0.5, x)))
    return t.call("true_divide", t.call("add", h, h), t.call("subtract", t.const(1, x), h))


def expm1(t: Any, x: Any) -> Any:
    if not _by_parts(t, x):
        return t.call("expm1", x)
    one = t.const(1, x)
    return t.select(t.call("less", x, one), _expm1_below_1(t, x), t.call("subtract", t.call("exp", x), one))


def elu(t: Any, x: Any) -> Any:
    zero = t.const(0, x)
    return t.call("add", t.call("maximum", x, zero), _expm1_below_1(t, t.call("minimum", x, zero)))


def selu(t: Any, x: Any) -> Any:
    zero = t.const(0, x)
    low = t.call("multiply", t.const(SELU_ALPHA, x), _expm1_below_1(t, t.call("minimum", x, zero)))
    return t.call("multiply", t.const(SELU_SCALE, x), t.call("add", t.call("maximum", x, zero), low))


def softplus(t: Any, x: Any) -> Any:
    rest = log1p(t, t.call("exp", t.call("negative", t.call("absolute", x))))
    return t.call("add", t.call("maximum", x, t.const(0, x)), rest)


def _taking(recipe: Callable[[Any, Any], Any]) -> Recipe:
    return lambda t, attrs, x: recipe(t, x)


def _elu_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, y: Operand) -> Operand:
    low = t.call("multiply", dy, t.call("add", y, t.const(1, y)))
    return t.select(t.call("less", y, t.const(0, y)), low, dy)


def _selu_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, y: Operand) -> Operand:
    low = t.call("add", y, t.const(SELU_SCALE * SELU_ALPHA, y))
    return t.call("multiply", dy, t.select(t.call("less", y, t.const(0, y)), low, t.filled(SELU_SCALE, y)))


def _softplus_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, x: Operand) -> Operand:
    return t.call("true_divide", dy, t.call("add", t.const(1, x), t.call("exp", t.call("negative", x))))


def _softsign_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, x: Operand) -> Operand:
    return t.call("true_divide", dy, t.call("square", t.call("add", t.const(1, x), t.call("absolute", x))))


def _leaky_relu(t: Tracer, attrs: dict[str, Any], x: Operand) -> Operand:
    alpha = attrs.get("alpha", 0.2)
    if not alpha:
        return t.select(t.call("greater", x, t.const(0, x)), x, t.call("multiply", x, t.const(0, x)))
    return t.call("maximum" if alpha <= 1 else "minimum", x, t.call("multiply", x, t.const(alpha, x)))


def _select(t: Tracer, attrs: dict[str, Any], condition: Operand, yes: Operand, no: Operand) -> Operand:
    return t.select(condition, yes, no)


def _relu6_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, x: Operand) -> Operand:
    inside = t.call("logical_and", t.call("greater", x, t.const(0, x)), t.call("less", x, t.const(6, x)))
    return t.call("multiply", dy, inside)


def _leaky_relu_grad(t: Tracer, attrs: dict[str, Any], dy: Operand, x: Operand) -> Operand:
    low = t.call("multiply", dy, t.const(attrs.get("alpha", 0.2), dy))
    return t.select(t.call("greater", x, t.const(0, x)), dy, low)


def _sqrt_grad(t: Tracer, attrs: dict[str, Any], y: Operand, dy: Operand) -> Operand:
    quotient = t.call("true_divide", t.call("multiply", dy, t.const(0.5, y)), y)
    return t.select(t.call("equal", dy, t.const(0, dy)), dy, quotient)


def _one_less(t: Tracer, x: Operand) -> Operand:
    return t.call("subtract", t.const(1, x), x)


def trace(t: Tracer, op: str, attrs: dict[str, Any], args: Sequence[Operand]) -> Operand:
    """Write down the steps of one op; attrs: those of PARAMETERS that it has. Raises Unsupported where its kernel might
    refuse the arguments' shapes."""
    alike = args[1:] if op == "Select" and args[0].by_rows else args
    if (op in ("Select", "Expm1") or op.endswith("Grad")) and not all(a.full for a in alike):
        raise Unsupported(f"{op} wants arguments of one shape")
    return RECIPES[op](t, attrs, *args)


PARAMETERS = ("alpha",)  # the attributes that recipes look at
RECIPES: dict[str, Recipe] = {
    **{
        op: _ufunc(name)
        for op, name in {
            "Neg": "negative",
            "Abs": "absolute",
            "Sign": "sign",
            "Square": "square",
            "Floor": "floor",
            "Ceil": "ceil",
            "Rint": "rint",
            "Sqrt": "sqrt",
            "Exp": "exp",
            "Log": "log",
            "Tanh": "tanh",
            "LogicalNot": "logical_not",
            "Add": "add",
            "AddV2": "add",
            "Sub": "subtract",
            "Mul": "multiply",
            "RealDiv": "true_divide",
            "Maximum": "maximum",
            "Minimum": "minimum",
            "LogicalAnd": "logical_and",
            "LogicalOr": "logical_or",
            "Equal": "equal",
            "NotEqual": "not_equal",
            "Less": "less",
            "LessEqual": "less_equal",
            "Greater": "greater",
            "GreaterEqual": "greater_equal",
        }.items()
    },
    "Reciprocal": lambda t, attrs, x: t.call("true_divide", t.const(1, x), x),
    "Rsqrt": lambda t, attrs, x: t.call("true_divide", t.const(1, x), t.call("sqrt", x)),
    "Sigmoid": _sigmoid,
    "AddN": _add_n,
    "SquaredDifference": _squared_difference,
    "Select": _select,
    "SelectV2": _select,
    "ZerosLike": lambda t, attrs, x: t.filled(0, x),
    "OnesLike": lambda t, attrs, x: t.filled(1, x),
    "Relu": lambda t, attrs, x: t.call("maximum", x, t.const(0, x)),
    "Relu6": lambda t, attrs, x: t.call("minimum", t.call("maximum", x, t.const(0, x)), t.const(6, x)),
    "Elu": _taking(elu),
    "Selu": _taking(selu),
    "EluGrad": _elu_grad,
    "SeluGrad": _selu_grad,
    "SoftplusGrad": _softplus_grad,
    "SoftsignGrad": _softsign_grad,
    "Softplus": _taking(softplus),
    "Log1p": _taking(log1p),
    "Expm1": _taking(expm1),
    "Softsign": lambda t, attrs, x: t.call("true_divide", x, t.call("add", t.const(1, x), t.call("absolute", x))),
    "LeakyRelu": _leaky_relu,
    "ReluGrad": lambda t, attrs, dy, x: t.call("multiply", dy, t.call("greater", x, t.const(0, x))),
    "Relu6Grad": _relu6_grad,
    "LeakyReluGrad": _leaky_relu_grad,
    "SigmoidGrad": lambda t, attrs, y, dy: _times(t, dy, y, _one_less(t, y)),
    "TanhGrad": lambda t, attrs, y, dy: t.call("multiply", dy, _one_less(t, t.call("multiply", y, y))),
    "SqrtGrad": _sqrt_grad,
    "RsqrtGrad": lambda t, attrs, y, dy: _times(t, dy, t.const(-0.5, y), y, y, y),
    "ReciprocalGrad": lambda t, attrs, y, dy: _times(t, t.call("negative", dy), y, y),
}
