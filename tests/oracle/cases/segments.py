"""Reductions over segments of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import REAL, WIDE, i32, i64, noise, np_dtype, ramp, s32
from tests.oracle.compare import SUM, Tolerance

_SUM = {"tolerance": SUM}
_GOOD = {"grad": True, "tolerance": Tolerance(64, scaled=True)}


def _sorted(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 5, 3)
    yield "rows", [x, i32(0, 0, 1, 2, 2)]
    yield "gaps", [x, i64(1, 1, 1, 4, 4)]
    yield "vector", [ramp(dtype, 4), i32(0, 1, 1, 1)]
    yield "empty", [x[:0], np.zeros(0, np.int32)]
    yield "falling", [x, i32(1, 0, 1, 2, 2)]
    yield "negative", [x, i32(-1, 0, 1, 2, 2)]
    yield "mismatch", [x, i32(0, 1)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 5, 3), i32(0, 0, 1, 3, 3)], {}, _GOOD
        yield "ties", [np.array([[1, 2], [1, 0], [3, 3]], np_dtype(dtype)), i32(0, 0, 1)], {}, _GOOD


def _unsorted(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 5, 3)
    yield "rows", [x, i32(3, 0, 1, 0, 3), s32(5)]
    yield "dropped", [x, i64(-1, 0, 1, -1, 0), s32(2)]
    yield "matrix-ids", [ramp(dtype, 2, 2, 3), i32([0, 1], [1, 0]), s32(2)]
    yield "empty", [x[:0], np.zeros(0, np.int32), s32(2)]
    yield "too-large", [x, i32(0, 0, 0, 0, 2), s32(2)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 5, 3), i32(3, 0, -1, 0, 3), s32(4)], {}, _GOOD
        yield "zeros", [np.array([[0, 2], [0, 3], [4, 0]], np_dtype(dtype)), i32(0, 0, 0), s32(1)], {}, _GOOD


for _kind in ("Mean", "Prod", "Max", "Min"):
    cases(f"Segment{_kind}", REAL, _sorted, SUM)
for _kind in ("Prod", "Max", "Min"):
    cases(f"UnsortedSegment{_kind}", REAL, _unsorted, SUM)


def _picked(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 3)
    yield "rows", [x, i32(3, 0, 1, 0), i32(0, 0, 1, 3)]
    yield "empty", [x, np.zeros(0, np.int32), np.zeros(0, np.int32)]
    yield "too-large", [x, i32(4), i32(0)]
    yield "falling", [x, i32(1, 2), i32(1, 0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 4, 3), i32(3, 0, 1, 0), i32(0, 0, 1, 3)], {}, _GOOD


def _picked_into(dtype: str) -> Iterator[Any]:
    for label, inputs, *more in _picked(dtype):
        yield label, [*inputs, s32(5)], *more
    yield "too-few", [ramp(dtype, 4, 3), i32(1, 2), i32(0, 3)], {}


def _picked_back(dtype: str) -> Iterator[Any]:
    yield "rows", [ramp(dtype, 4, 3), i32(3, 0, 1, 0), i32(0, 0, 1, 3), s32(5)]
    yield "too-large", [ramp(dtype, 4, 3), i32(5), i32(0), s32(5)]


for _kind in ("Sum", "Mean", "SqrtN"):
    cases(f"SparseSegment{_kind}", (*WIDE, "int32") if _kind == "Sum" else WIDE, _picked, SUM)
    cases(f"SparseSegment{_kind}WithNumSegments", WIDE, lambda d: list(_picked_into(d))[:-1], SUM)
    cases(f"SparseSegment{_kind}Grad", WIDE, _picked_back, SUM)
