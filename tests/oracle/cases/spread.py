"""Quantiles, products without nan, norms, running sums of logarithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import COMPLEX, FLOATS, INTS, WIDE, i32, noise, np_dtype, ramp, s32
from tests.oracle.compare import FUNCTION_SUM, ROUNDED, Tolerance

_LOOSE = Tolerance(64, floor=0.1)
_GOOD = {"grad": True, "tolerance": Tolerance(256, scaled=True)}


def _quantiles(low: float, high: float) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        inside = np.linspace(low, high, 13)[1:-1].astype(np_dtype(dtype))
        yield "inside", [inside]
        yield "empty", [inside[:0]]
        yield "scalar", [inside[3].reshape(())]
        if dtype in WIDE:
            yield "ends", [np.array([low, high, np.nan, low - 1, high + 1], dtype)]
            yield (
                "near",
                [
                    np.array([low + 1e-6, high - 1e-6, low + 1e-3], dtype),
                ],
                {},
                {"tolerance": Tolerance(1e7)},
            )
            yield "grad", [inside], {}, _GOOD

    return make


def _pairs(dtype: str) -> Iterator[Any]:
    x, y = noise(dtype, 3, 4), noise(dtype, 4, seed=4)
    y = np.abs(y) if dtype not in COMPLEX else y
    yield "broadcast", [x, y], {}, _GOOD if dtype in WIDE else {}
    yield "zeros", [np.array([0, 1, 0, 2], np_dtype(dtype)), np.array([0, 0, 2, 1], np_dtype(dtype))]
    yield "empty", [x[:0], y]


def _products(dtype: str) -> Iterator[Any]:
    yield from _pairs(dtype)
    if dtype in FLOATS:
        yield "infinite", [np.array([np.inf, np.nan, 3], np_dtype(dtype)), np.array([0, 0, np.inf], np_dtype(dtype))]


def _norms(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 3, 4) if dtype not in INTS else ramp(dtype, 3, 4)
    for axes in (i32(0), i32(1), i32(0, 1), s32(-1)):
        for keep in (False, True):
            yield f"{axes.tolist()}{keep}", [x, axes], {"keep_dims": keep}, _GOOD if dtype in WIDE else {}
    yield "empty", [x[:0], i32(0)], {"keep_dims": False}
    yield "outside", [x, i32(2)], {"keep_dims": False}


def _running(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 3, 4)
    for axis in (0, 1):
        for exclusive in (False, True):
            for reverse in (False, True):
                attrs = {"exclusive": exclusive, "reverse": reverse}
                yield (
                    f"{axis}{exclusive}{reverse}",
                    [x, s32(axis)],
                    attrs,
                    _GOOD if dtype in WIDE and not exclusive else {},
                )
    yield "empty", [x[:0], s32(0)]


cases("Erfinv", WIDE, _quantiles(-1, 1), _LOOSE)
cases("Ndtri", WIDE, _quantiles(0, 1), _LOOSE)
cases("Xlog1py", ("float16", *WIDE, "complex64"), _pairs, _LOOSE)
cases("MulNoNan", ("float16", *WIDE, "complex64"), _products, ROUNDED)
cases("EuclideanNorm", (*FLOATS, "int32", "int64"), _norms, FUNCTION_SUM)
cases("CumulativeLogsumexp", ("float16", *WIDE), _running, _LOOSE)
cases(
    "RandomGammaGrad",
    WIDE,
    lambda d: [("some", [np.array([0.5, 1, 2, 7], d), np.array([0.3, 1, 2.5, 6], d)])],
    Tolerance(20000, scaled=True),
)
