"""Elementwise ops: every awkward value, alone or against every other; broadcast, empty and scalar shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import (
    ALL,
    COMPLEX,
    FLOATS,
    INTS,
    NUMBERS,
    REAL,
    SIGNED,
    WIDE,
    finite,
    noise,
    np_dtype,
    positive,
    ramp,
    special,
)
from tests.oracle.compare import EXACT, FUNCTION, ROUNDED, SAME, Tolerance

# ---------------------------------------------------------------------- one argument


def _one(dtype: str) -> Iterator[Any]:
    """The awkward values (of complex numbers, whose infinities libraries disagree on, the finite ones), and shapes."""
    yield "values", [special(dtype)]
    yield "scalar", [ramp(dtype, 1)[0].reshape(()) if dtype != "string" else ramp(dtype, 1).reshape(())]
    yield "empty", [ramp(dtype, 0, 3)]
    yield "matrix", [ramp(dtype, 3, 5)]


def _one_smooth(dtype: str) -> Iterator[Any]:
    if dtype in (*WIDE, *COMPLEX):
        yield "smooth", [noise(dtype, 3, 4)], {}, {"grad": True, "second": True}


def _one_positive(dtype: str) -> Iterator[Any]:
    if dtype in (*WIDE, *COMPLEX):
        yield "smooth", [positive(dtype, 3, 4)], {}, {"grad": True, "second": True}


for _op in ("Neg", "Abs", "Sign", "Square", "Conj", "Floor", "Ceil", "Rint", "Round"):
    cases(_op, NUMBERS, _one, ROUNDED if _op in ("Square", "Sign") else EXACT)
    cases(_op, (*WIDE, *COMPLEX), _one_smooth, FUNCTION)
for _op in ("IsNan", "IsInf", "IsFinite"):
    cases(_op, FLOATS, _one)
for _op in ("Sqrt", "Rsqrt", "Reciprocal", "Exp", "Expm1", "Log", "Log1p", "Sigmoid", "Tanh", "Sin", "Cos", "Erf"):
    cases(_op, (*FLOATS, *COMPLEX), _one, FUNCTION)
    domain = _one_positive if _op in ("Sqrt", "Rsqrt", "Reciprocal", "Log", "Log1p") else _one_smooth
    cases(_op, (*WIDE, *COMPLEX), domain, Tolerance(64))
cases("LogicalNot", ("bool",), _one)
for _dtype, _out in (("complex64", "float32"), ("complex128", "float64")):
    cases("ComplexAbs", (_dtype,), lambda d, o=_out: [(*c, {"Tout": as_dtype(o)}) for c in _one(d)], ROUNDED)
    cases(
        "ComplexAbs",
        (_dtype,),
        lambda d, o=_out: [("smooth", [noise(d, 3, 4)], {"Tout": as_dtype(o)}, {"grad": True, "second": True})],
        FUNCTION,
    )

for _op in ("Relu", "Relu6"):
    cases(_op, REAL, _one, SAME)
    cases(_op, WIDE, _one_smooth)
for _op in ("Elu", "Selu", "Softplus", "Softsign"):
    cases(_op, FLOATS, _one, Tolerance(4, floor=1))
    cases(_op, WIDE, _one_smooth, Tolerance(64))
for _alpha in (0.2, 1.5, -0.5):
    cases("LeakyRelu", FLOATS, lambda d, a=_alpha: [(f"{c[0]}-{a}", c[1], {"alpha": a}) for c in _one(d)], ROUNDED)
    cases("LeakyRelu", WIDE, lambda d, a=_alpha: [("smooth", [noise(d, 3, 4)], {"alpha": a}, {"grad": True})], ROUNDED)


# ---------------------------------------------------------------------- an output and its gradient


def _gradient_pair(dtype: str) -> Iterator[Any]:
    x = finite(dtype)
    yield "grid", [np.repeat(x, len(x)), np.tile(x, len(x))]
    yield "empty", [ramp(dtype, 0, 3), ramp(dtype, 0, 3)]
    yield "scalar", [ramp(dtype, 2)[0].reshape(()), ramp(dtype, 3)[1].reshape(())]
    yield "mismatch", [ramp(dtype, 2), ramp(dtype, 3)]
    if dtype in WIDE:
        yield "smooth", [positive(dtype, 3, 4), noise(dtype, 3, 4)], {}, {"grad": True}


for _op in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad"):
    cases(_op, (*FLOATS, *COMPLEX), _gradient_pair, FUNCTION)
for _op in ("ReluGrad", "Relu6Grad"):
    cases(_op, REAL, _gradient_pair)
for _op in ("EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"):
    cases(_op, FLOATS, _gradient_pair, FUNCTION)
cases("LeakyReluGrad", FLOATS, lambda d: [(*c[:2], {"alpha": 0.3}, *c[3:]) for c in _gradient_pair(d)], ROUNDED)

# ---------------------------------------------------------------------- two arguments


def _grid(values: np.ndarray) -> list[np.ndarray]:
    return [values[:, None], values[None, :]]


def _two(dtype: str) -> Iterator[Any]:
    yield "grid", _grid(special(dtype))
    yield from _two_shapes(dtype)


def _quotients(dtype: str) -> Iterator[Any]:
    """Without the quotients that TensorFlow flushes to zero, and without complex zeros below."""
    x = special(dtype)
    below = x[x != 0] if dtype in COMPLEX else x
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            size = np.abs(x.astype(np.float64))
            x = below = x[(size == 0) | ((size > 1e-4) & (size < 1e3)) | ~np.isfinite(size)]
    yield "grid", [x[:, None], below[None, :]]
    yield from _two_shapes(dtype)


def _two_shapes(dtype: str) -> Iterator[Any]:
    yield "scalar", [ramp(dtype, 2)[:1].reshape(()), ramp(dtype, 3)[:1].reshape(())]
    yield "vector-scalar", [ramp(dtype, 4), ramp(dtype, 3)[1:2].reshape(())]
    yield "ranks", [ramp(dtype, 2, 1, 3), ramp(dtype, 4, 1)]
    yield "empty", [ramp(dtype, 0, 3), ramp(dtype, 1, 3)]
    yield "empty-scalar", [ramp(dtype, 0), ramp(dtype, 1).reshape(())]
    yield "mismatch", [ramp(dtype, 2), ramp(dtype, 3)]


def _two_smooth(dtype: str) -> Iterator[Any]:
    """Gradients: equal shapes, broadcast ones, an empty one."""
    good = {"grad": True, "second": True}
    yield "smooth", [positive(dtype, 3, 4), positive(dtype, 3, 4, seed=3)], {}, good
    yield "smooth-ranks", [positive(dtype, 2, 1, 4), positive(dtype, 3, 1, seed=3)], {}, good
    yield "smooth-scalar", [positive(dtype, 3), positive(dtype, seed=3)], {}, good
    yield "smooth-empty", [positive(dtype, 0, 3), positive(dtype, 1, 3, seed=3)], {}, {"grad": True}


for _op in ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum"):
    cases(_op, NUMBERS, _two, {"Mul": ROUNDED, "Maximum": SAME, "Minimum": SAME}.get(_op, EXACT))
    cases(_op, (*WIDE, *COMPLEX), _two_smooth, Tolerance(16, scaled=True))
cases("Add", ("string",), _two)
for _op in ("RealDiv", "Div", "SquaredDifference"):
    cases(_op, NUMBERS, _two if _op == "SquaredDifference" else _quotients, FUNCTION)
    cases(_op, (*WIDE, *COMPLEX), _two_smooth, Tolerance(32, scaled=True))
for _op in ("FloorDiv", "FloorMod", "TruncateDiv", "DivNoNan"):
    cases(_op, NUMBERS, _quotients, ROUNDED)
    cases(_op, (*WIDE, *COMPLEX) if _op == "DivNoNan" else WIDE, _two_smooth, Tolerance(32, scaled=True))


def _nonzero(dtype: str) -> Iterator[Any]:
    """Integer division without its errors."""
    x = special(dtype)
    yield "nonzero", [x[:, None], x[x != 0][None, :]]


for _op in ("Div", "FloorDiv", "FloorMod", "TruncateDiv"):
    cases(_op, INTS, _nonzero)


def _powers(dtype: str) -> Iterator[Any]:
    if dtype in INTS:
        x = special(dtype)
        yield "grid", [x[:, None], np.arange(6, dtype=x.dtype)[None, :]]
        if dtype in SIGNED:
            yield "negative", [x, np.full_like(x, -1)]
    elif dtype in COMPLEX:
        yield "smooth-values", [noise(dtype, 3, 4), noise(dtype, 3, 4, seed=5)]
    else:
        yield "grid", _grid(special(dtype))
    yield from (c for c in _two_shapes(dtype) if dtype not in SIGNED)


cases("Pow", NUMBERS, _powers, FUNCTION)
cases("Pow", (*WIDE, *COMPLEX), _two_smooth, Tolerance(64, scaled=True))
cases(
    "Pow",
    WIDE,
    lambda d: [("at-zero", [np.array([0, 0, -1.5, -2, 3], np_dtype(d)), np.array([0, 2, 2, 3, -1], np_dtype(d))])],
    FUNCTION,
    grad=True,
)
for _op in ("Equal", "NotEqual"):
    cases(_op, ALL, _two)
for _op in ("Less", "LessEqual", "Greater", "GreaterEqual"):
    cases(_op, REAL, _two)
for _op in ("LogicalAnd", "LogicalOr"):
    cases(_op, ("bool",), _two)
for _dtype in WIDE:  # ties and kinks
    for _op in ("Maximum", "Minimum"):
        tie = [np.array([1, 2, 0], np_dtype(_dtype)), np.array([1, 1, -0.0], np_dtype(_dtype))]
        cases(_op, (_dtype,), lambda d, t=tie: [("tie", t, {}, {"grad": True})], SAME)
    for _op in ("Abs", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Sign"):
        kink = np.array([0, -0.0, 6, -1], np_dtype(_dtype))
        cases(_op, (_dtype,), lambda d, k=kink: [("kink", [k], {}, {"grad": True})], FUNCTION)


def _clipped(dtype: str) -> Iterator[Any]:
    x = special(dtype)
    low, high = np.array(1, x.dtype), np.array(3, x.dtype)
    yield "values", [x, low, high]
    yield "crossed", [x, high, low]
    yield "vectors", [x, np.full_like(x, 1), np.full_like(x, 2)]
    yield "empty", [x[:0], low, high]
    if dtype in WIDE:
        good = {"grad": True}
        yield "smooth", [noise(dtype, 3, 4), np.array(-0.5, x.dtype), np.array(0.5, x.dtype)], {}, good
        yield "at-bounds", [np.array([-1, 0, 1, 2], x.dtype), np.array(-1, x.dtype), np.array(1, x.dtype)], {}, good


cases("ClipByValue", REAL, _clipped)

# ---------------------------------------------------------------------- types, sums of lists


def _casts(dtype: str) -> Iterator[Any]:
    """Within the range of the target, where C defines the result."""
    for want in (*NUMBERS, "bool"):
        values = finite(dtype)
        if dtype not in (*COMPLEX, "bool") and (want.startswith("uint") or want == "bool"):
            values = values[values >= 0]
        yield f"to-{want}", [values], {"DstT": as_dtype(want)}
    yield "empty", [finite(dtype)[:0]], {"DstT": as_dtype("float32")}
    if dtype in FLOATS:
        for want in FLOATS:
            yield f"special-to-{want}", [special(dtype)], {"DstT": as_dtype(want)}
    if dtype in INTS:
        for want in INTS:
            yield f"wrap-to-{want}", [special(dtype)], {"DstT": as_dtype(want)}
    if dtype in (*WIDE, *COMPLEX):
        for want in (*FLOATS, *COMPLEX):
            yield f"grad-{want}", [noise(dtype, 4)], {"DstT": as_dtype(want)}, {"grad": want in (*WIDE, *COMPLEX)}


cases("Cast", (*NUMBERS, "bool"), _casts, EXACT)


def _sums(dtype: str) -> Iterator[Any]:
    yield "two", [[finite(dtype), finite(dtype)]]
    yield "four", [[ramp(dtype, 2, 3, seed=s) for s in range(4)]]
    yield "one", [[special(dtype)]]
    yield "nine", [[ramp(dtype, 3, seed=s) for s in range(9)]]
    yield "scalars", [[ramp(dtype, 2)[0].reshape(()), ramp(dtype, 3)[0].reshape(())]]
    yield "empty", [[ramp(dtype, 0, 2), ramp(dtype, 0, 2)]]
    yield "mismatch", [[ramp(dtype, 2), ramp(dtype, 3)]]
    if dtype in WIDE:
        yield "grad", [[noise(dtype, 3), noise(dtype, 3, seed=4)]], {}, {"grad": True}


cases("AddN", NUMBERS, _sums, ROUNDED)
