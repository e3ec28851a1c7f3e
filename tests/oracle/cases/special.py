"""Functions beyond arithmetic, parts of complex numbers, bits, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import COMPLEX, FLOATS, INTS, WIDE, i32, noise, np_dtype, ramp, special
from tests.oracle.compare import Tolerance

_LOOSE = Tolerance(64, floor=0.1)  # next to a root the digits of the argument decide
_GOOD = {"grad": True, "tolerance": Tolerance(256, scaled=True)}


def _between(dtype: str, low: float, high: float, *shape: int, seed: int = 3) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(low, high, shape)
    if dtype in COMPLEX:
        return (values + 0.5j * values[..., ::-1]).astype(np_dtype(dtype))
    return values.astype(np_dtype(dtype))


def _unary(low: float, high: float) -> Callable[[str], Iterator[Any]]:
    def make(dtype: str) -> Iterator[Any]:
        yield "inside", [_between(dtype, low, high, 3, 4)]
        yield "scalar", [_between(dtype, low, high, 1).reshape(())]
        yield "empty", [_between(dtype, low, high, 0)]
        if dtype in WIDE:
            yield "special", [np.array([0.0, np.nan, 1.0, 0.5], np_dtype(dtype))]
            yield "grad", [_between(dtype, low, high, 7)], {}, _GOOD

    return make


for _op, _bounds in {
    "Tan": (-1.2, 1.2),
    "Asin": (-0.9, 0.9),
    "Acos": (-0.9, 0.9),
    "Atan": (-3, 3),
    "Sinh": (-3, 3),
    "Cosh": (-3, 3),
    "Asinh": (-3, 3),
    "Acosh": (1.1, 4),
    "Atanh": (-0.9, 0.9),
}.items():
    cases(_op, (*FLOATS, *COMPLEX), _unary(*_bounds), _LOOSE)
for _op, _bounds in {"Erfc": (-3, 3), "Lgamma": (0.1, 9), "Digamma": (0.2, 9)}.items():
    cases(_op, FLOATS, _unary(*_bounds), _LOOSE)
    cases(_op, WIDE, lambda d, op=_op: [("below", [np.array([-0.5, -1.5, -2.25, 12.0, 30.0], d)])], _LOOSE)


def _pairs(low: tuple[float, float], high: tuple[float, float]) -> Callable[[str], Iterator[Any]]:
    def make(dtype: str) -> Iterator[Any]:
        def two(a: tuple[int, ...], b: tuple[int, ...]) -> list[np.ndarray]:
            return [_between(dtype, low[0], high[0], *a), _between(dtype, low[1], high[1], *b, seed=4)]

        yield "inside", two((3, 4), (3, 4))
        yield "broadcast", two((3, 1), (4,))
        yield "empty", two((0,), (1,))
        if dtype in WIDE:
            yield "grad", two((3, 4), (4,)), {}, _GOOD

    return make


cases("Atan2", FLOATS, _pairs((-2, -2), (2, 2)), _LOOSE)
cases("Igamma", WIDE, _pairs((0.2, 0.1), (9, 12)), _LOOSE)
cases("Igammac", WIDE, _pairs((0.2, 0.1), (9, 12)), Tolerance(512, floor=0.1))
cases("IgammaGradA", ("float64",), lambda d: list(_pairs((0.2, 0.1), (6, 6))(d))[:3], Tolerance(1e7, scaled=True))
cases("Zeta", WIDE, _pairs((1.5, 0.2), (6, 4)), _LOOSE)
cases("Xlogy", (*FLOATS, *COMPLEX), _pairs((0.2, 0.1), (9, 12)), _LOOSE)
cases("Xdivy", (*FLOATS, *COMPLEX), _pairs((0.2, 0.1), (9, 12)), _LOOSE)
for _op in ("Xlogy", "Xdivy"):
    cases(_op, WIDE, lambda d: [("zeros", [np.array([0, 0, 1], d), np.array([0, 2, 3], d)], {}, _GOOD)], _LOOSE)


def _polygammas(dtype: str) -> Iterator[Any]:
    x = _between(dtype, 0.2, 5, 3, 4)
    for n in (0, 1, 2, 3):
        yield f"order{n}", [np.full((3, 4), n, dtype), x]
    yield "grad", [np.full((3, 4), 1, dtype), x], {}, _GOOD


def _betas(dtype: str) -> Iterator[Any]:
    a, b, x = (_between(dtype, low, high, 3, 4, seed=s) for s, (low, high) in enumerate([(0.2, 4), (0.2, 4), (0, 1)]))
    yield "inside", [a, b, x]
    yield "ends", [a[0, :2], b[0, :2], np.array([0, 1], dtype)]
    yield "scalars", [a[0, 0].reshape(()), b[0, 0].reshape(()), x]


cases("Polygamma", WIDE, _polygammas, _LOOSE)
cases("Betainc", WIDE, _betas, _LOOSE)


def _remainders(dtype: str) -> Iterator[Any]:
    x, y = np.array([7, -7, 7, -7], np_dtype(dtype)), np.array([3, 3, -3, -3], np_dtype(dtype))
    yield "signs", [x, y]
    yield "broadcast", [x[:, None], y[:1]]


cases("TruncateMod", ("int32", "int64", *WIDE), _remainders)

# ---------------------------------------------------------------------- bits


def _bits(dtype: str) -> Iterator[Any]:
    x = special(dtype)
    yield "values", [x, x[::-1].copy()]
    yield "broadcast", [x[:, None], x[:3]]


def _shifts(dtype: str) -> Iterator[Any]:
    x = special(dtype)
    top = np.dtype(dtype).itemsize * 8 - 1
    for n in (0, 1, 3, top):
        yield f"by{n}", [x, np.array(n, dtype)]


for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    cases(_op, INTS, _bits)
for _op in ("LeftShift", "RightShift"):
    cases(_op, INTS, _shifts)
cases("Invert", INTS, lambda d: [("values", [special(d)]), ("empty", [special(d)[:0]])])
cases("PopulationCount", INTS, lambda d: [("values", [special(d)]), ("empty", [special(d)[:0]])])


def _bitcasts(dtype: str) -> Iterator[Any]:
    for to, inner in (("int32", ()), ("uint8", ()), ("float64", (2,)), ("uint8", ()), ("uint16", ())):
        yield f"to-{to}", [ramp(dtype, 3, *inner)], {"type": as_dtype(to)}
    yield "scalar", [ramp(dtype, 3)[1]], {"type": as_dtype("int32")}
    yield "wrong", [ramp(dtype, 3)], {"type": as_dtype("float64")}


cases("Bitcast", ("float32", "int32"), _bitcasts)

# ---------------------------------------------------------------------- complex numbers

_REAL = {"complex64": "float32", "complex128": "float64"}


def _parts(dtype: str) -> Iterator[Any]:
    attrs = {"Tout": as_dtype(_REAL[dtype])}
    yield "values", [special(dtype)], attrs
    yield "grad", [noise(dtype, 3, 4)], attrs, {"grad": True, "tolerance": Tolerance(16, floor=0.1)}


def _joined(dtype: str) -> Iterator[Any]:
    attrs = {"Tout": as_dtype({v: k for k, v in _REAL.items()}[dtype])}
    yield "values", [special(dtype), special(dtype)[::-1].copy()], attrs
    grad = {"grad": True, "tolerance": Tolerance(16, floor=0.1)}
    yield "broadcast", [noise(dtype, 3, 1), noise(dtype, 4)], attrs, grad


for _op in ("Real", "Imag", "Angle"):
    cases(_op, COMPLEX, _parts, Tolerance(4))
cases("Complex", WIDE, _joined)

# ---------------------------------------------------------------------- Fourier transforms

_FOURIER = Tolerance(64, scaled=True)


def _complex_signals(rank: int) -> Callable[[str], Iterator[Any]]:
    def make(dtype: str) -> Iterator[Any]:
        yield "plain", [noise(dtype, *(4, 6, 5)[-rank:])]
        yield "batch", [noise(dtype, 2, *(4, 6, 5)[-rank:])]
        yield "one", [noise(dtype, *(1,) * rank)]
        if rank < 3:
            yield "grad", [noise(dtype, 2, *(4, 6)[-rank:])], {}, {"grad": True, "tolerance": _FOURIER}
        yield "low-rank", [np.zeros((1,) * (rank - 1), np_dtype(dtype))]

    return make


def _real_signals(rank: int, inverse: bool) -> Callable[[str], Iterator[Any]]:
    def make(dtype: str) -> Iterator[Any]:
        whole = {"float32": "complex64", "float64": "complex128"}[dtype]
        types = {"Treal": as_dtype(dtype), "Tcomplex": as_dtype(whole)}
        kind = whole if inverse else dtype
        sizes = (4, 6, 5)[-rank:]
        for n in (5, 8):
            signal = (*sizes[:-1], n // 2 + 1 if inverse else n)
            length = i32(*sizes[:-1], n)
            own = {"grad": rank < 3, "tolerance": _FOURIER}
            yield f"n{n}", [noise(kind, 2, *signal), length], types, own
            yield f"cut{n}", [noise(kind, *signal[:-1], signal[-1] + 2), length], types

    return make


for _suffix, _rank in (("", 1), ("2D", 2), ("3D", 3)):
    cases(f"FFT{_suffix}", COMPLEX, _complex_signals(_rank), _FOURIER)
    cases(f"IFFT{_suffix}", COMPLEX, _complex_signals(_rank), _FOURIER)
    cases(f"RFFT{_suffix}", WIDE, _real_signals(_rank, False), _FOURIER)
    cases(f"IRFFT{_suffix}", WIDE, _real_signals(_rank, True), _FOURIER)
