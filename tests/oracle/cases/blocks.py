"""Blocks of space, rolls, updates at index vectors, patches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import ALL, NUMBERS, REAL, WIDE, i32, i64, noise, ramp, s32
from tests.oracle.compare import SUM

_GOOD = {"grad": True, "second": True}


def _own(dtype: str) -> dict[str, Any]:
    return _GOOD if dtype in WIDE else {}


_SPACE = tuple(t for t in ALL if t != "string")
cases(
    "SpaceToBatch",
    _SPACE,
    lambda d: [
        ("square", [ramp(d, 2, 4, 6, 3), i32([0, 0], [1, 1])], {"block_size": 2}, _own(d)),
        ("uneven", [ramp(d, 2, 5, 6, 3), i32([0, 0], [1, 1])], {"block_size": 2}),
        ("rank", [ramp(d, 2, 4, 6), i32([0, 0], [1, 1])], {"block_size": 2}),
    ],
)
cases(
    "BatchToSpace",
    _SPACE,
    lambda d: [
        ("square", [ramp(d, 8, 2, 3, 3), i32([0, 1], [1, 1])], {"block_size": 2}, _own(d)),
        ("uneven", [ramp(d, 6, 2, 3, 3), i32([0, 0], [1, 1])], {"block_size": 2}),
    ],
)
_DEPTHS = ("float32", "float64", "float16", "int32", "uint8", "int64", "bfloat16", "bool", "complex64", "string")
cases(
    "SpaceToDepth",
    _DEPTHS,
    lambda d: [
        ("square", [ramp(d, 2, 4, 6, 3)], {"block_size": 2}, _own(d)),
        ("three", [ramp(d, 1, 3, 6, 1)], {"block_size": 3}),
        ("uneven", [ramp(d, 2, 5, 6, 3)], {"block_size": 2}),
        ("one", [ramp(d, 2, 4, 6, 3)], {"block_size": 1}),
        ("rank", [ramp(d, 4, 6, 3)], {"block_size": 2}),
        ("empty", [ramp(d, 0, 4, 6, 3)], {"block_size": 2}),
    ],
)
cases(
    "DepthToSpace",
    _DEPTHS,
    lambda d: [
        ("square", [ramp(d, 2, 2, 3, 8)], {"block_size": 2}, _own(d)),
        ("three", [ramp(d, 1, 1, 2, 9)], {"block_size": 3}),
        ("uneven", [ramp(d, 2, 2, 3, 6)], {"block_size": 2}),
    ],
)


def _rolls(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 5)
    for shift in (1, -2, 7, 0):
        yield f"columns{shift}", [x, s32(shift), s32(1)]
    yield "both", [x, i32(1, 2), i32(0, 1)], {}, _own(dtype)
    yield "twice", [x, i64(1, 3), i32(1, -1)]
    yield "vector", [ramp(dtype, 4), s32(3), np.array(0, np.int64)]
    yield "empty", [ramp(dtype, 0, 2), s32(1), s32(1)]
    yield "axis", [x, s32(1), s32(2)]
    yield "sizes", [x, i32(1, 2), i32(0)]
    yield "scalar", [ramp(dtype, 1).reshape(()), s32(1), s32(0)]


cases("Roll", ALL, _rolls)


def _updates(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 3)
    yield "points", [x, i32([0, 1], [3, 2]), ramp(dtype, 2, seed=5)], {}, _own(dtype)
    yield "rows", [x, i32([0], [3]), ramp(dtype, 2, 3, seed=6)], {}, _own(dtype)
    yield "int64", [x, i64([[0], [1]], [[3], [2]]), ramp(dtype, 2, 2, 3, seed=6)]
    yield "none", [x, np.zeros((0, 1), np.int32), ramp(dtype, 0, 3)]
    yield "outside", [x, i32([4]), ramp(dtype, 1, 3)]
    yield "negative", [x, i32([-1]), ramp(dtype, 1, 3)]
    yield "mismatch", [x, i32([0], [3]), ramp(dtype, 2, 2)]
    yield "too-deep", [x, i32([0, 0, 0]), ramp(dtype, 1)]


def _repeated(dtype: str) -> Iterator[Any]:
    yield from _updates(dtype)
    yield "repeated", [ramp(dtype, 4, 3), i32([0], [3], [0]), ramp(dtype, 3, 3, seed=7)]
    if dtype in WIDE:
        yield "grad-repeated", [noise(dtype, 4, 3), i32([0], [3], [0]), noise(dtype, 3, 3, seed=7)], {}, {"grad": True}


cases("TensorScatterUpdate", ALL, _updates)
for _kind in ("Add", "Sub"):
    cases(f"TensorScatter{_kind}", NUMBERS, _repeated, SUM)


def _extremes(dtype: str) -> Iterator[Any]:
    """Their gradients have no gradients that agree: ties."""
    for label, inputs, *more in _repeated(dtype):
        yield label, inputs, {}, {"grad": True} if more and more[-1] else {}


for _kind in ("Max", "Min"):
    cases(f"TensorScatter{_kind}", REAL, _extremes)
