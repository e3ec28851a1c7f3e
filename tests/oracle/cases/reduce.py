"""Reductions, positions of extremes, running sums, sums by segment, matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import (
    COMPLEX,
    FLOATS,
    INTS,
    NUMBERS,
    REAL,
    WIDE,
    i32,
    i64,
    noise,
    np_dtype,
    ramp,
    s32,
    special,
)
from tests.oracle.compare import SUM, Tolerance

_NO_AXES = np.zeros(0, np.int32)


def _reductions(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for axes in ([0], [1, 2], [-1], [0, 1, 2], [-3, 2], [2, 0]):
        yield f"axes{axes}", [x, i32(*axes)]
        yield f"keep{axes}", [x, i32(*axes)], {"keep_dims": True}
    yield "columns", [np.resize(x, (31, 12, 13)), i32(1)]  # enough for the loops of narrow columns
    yield "scalar-axis", [x, s32(1)]
    yield "int64-axis", [x, i64(1)]
    yield "no-axes", [x, _NO_AXES]
    yield "of-scalar", [ramp(dtype, 1).reshape(()), _NO_AXES]
    yield "empty-all", [ramp(dtype, 0, 3), i32(0, 1)]
    yield "empty-kept", [ramp(dtype, 0, 3), i32(0)]
    yield "empty-out", [ramp(dtype, 0, 3), i32(1)]
    yield "special", [special(dtype), i32(0)]
    yield "special-rows", [np.stack([special(dtype)] * 2), i32(0)]
    yield "bad-axis", [x, i32(3)]
    yield "bad-axis-low", [x, i32(-4)]
    yield "twice", [x, i32(0, 0)]
    if dtype in (*WIDE, *COMPLEX):
        good = {"grad": True, "second": True}
        for axes in ([0], [1, 2], [-1], []):
            at = i32(*axes) if axes else _NO_AXES
            yield f"grad{axes}", [noise(dtype, 2, 3, 4), at], {}, good
            yield f"grad-keep{axes}", [noise(dtype, 2, 3, 4), at], {"keep_dims": True}, good
        yield "grad-ties", [np.array([[1, 2, 2], [0, 0, 0]], np_dtype(dtype)), i32(1)], {}, {"grad": True}
        yield "grad-empty", [noise(dtype, 0, 3), i32(0)], {}, {"grad": True}


for _op in ("Sum", "Prod", "Mean"):
    cases(_op, NUMBERS, _reductions, Tolerance(16, scaled=True))
for _op in ("Max", "Min"):
    cases(_op, REAL, _reductions)
for _op in ("All", "Any"):
    cases(_op, ("bool",), _reductions)


def _positions(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 4, 2)
    for out in ("int32", "int64"):
        for axis in (0, 1, -1):
            yield f"axis{axis}-{out}", [x, s32(axis)], {"output_type": as_dtype(out)}
    yield "ties", [np.array([[0, 1, 1], [1, 0, 0]], np_dtype(dtype)), s32(1)]
    yield "int64-axis", [x, np.array(1, np.int64)]
    yield "special", [special(dtype), s32(0)]
    if dtype in FLOATS:
        yield "nan", [np.array([[1, np.nan, 3], [np.nan, 1, 2], [3, 2, np.nan]], np_dtype(dtype)), s32(1)]
    yield "empty-out", [ramp(dtype, 0, 3), s32(1)]
    yield "empty-axis", [ramp(dtype, 0, 3), s32(0)]
    yield "bad-axis", [x, s32(3)]


for _op in ("ArgMax", "ArgMin"):
    cases(_op, (*REAL, "bool"), _positions)


def _running(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 4)
    for exclusive in (False, True):
        for reverse in (False, True):
            attrs = {"exclusive": exclusive, "reverse": reverse}
            name = f"{'ex' if exclusive else 'in'}{'-reverse' if reverse else ''}"
            for axis in (0, 1, -1):
                yield f"{name}-{axis}", [x, s32(axis)], attrs
            yield f"{name}-empty", [ramp(dtype, 0, 3), s32(0)], attrs
            yield f"{name}-one", [ramp(dtype, 1), s32(0)], attrs
            if dtype in (*WIDE, *COMPLEX):
                yield f"{name}-grad", [noise(dtype, 3, 4), s32(1)], attrs, {"grad": True, "second": True}
    yield "bad-axis", [x, s32(2)]
    yield "scalar", [ramp(dtype, 1).reshape(()), s32(0)]
    if dtype in FLOATS:
        yield "special", [special(dtype), s32(0)]
    if dtype in WIDE:
        yield "zero-grad", [np.array([2, 0, 3], np_dtype(dtype)), s32(0)], {}, {"grad": True}


cases("Cumsum", NUMBERS, _running, SUM)
cases("Cumprod", NUMBERS, _running, Tolerance(32, scaled=True))

# ---------------------------------------------------------------------- segments


def _unsorted(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 5, 2)
    yield "mixed", [x, i32(2, 0, 2, 3, 0), s32(4)]
    yield "negative", [x, i32(-1, 0, 2, -1, 0), s32(3)]
    yield "int64", [x, i64(2, 0, 2, 3, 0), s32(4)]
    yield "matrix-ids", [ramp(dtype, 2, 2, 3), i32([0, 1], [1, 0]), s32(2)]
    yield "whole", [ramp(dtype, 4), i32(0, 0, 0, 0), s32(1)]
    yield "gaps", [x, i32(5, 5, 5, 5, 5), s32(7)]
    yield "empty", [ramp(dtype, 0, 2), np.zeros(0, np.int32), s32(3)]
    yield "no-segments", [ramp(dtype, 0, 2), np.zeros(0, np.int32), s32(0)]
    yield "too-large", [x, i32(0, 1, 2, 3, 4), s32(4)]
    yield "mismatch", [x, i32(0, 1), s32(4)]
    yield "negative-count", [x, i32(0, 1, 2, 3, 4), s32(-1)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 5, 2), i32(2, 0, 2, -1, 0), s32(4)], {}, {"grad": True, "second": True}
        yield "grad-matrix", [noise(dtype, 2, 2, 3), i32([0, 1], [-1, 0]), s32(2)], {}, {"grad": True}


def _sorted_ids(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 5, 2)
    yield "runs", [x, i32(0, 0, 1, 2, 2)]
    yield "gaps", [x, i32(0, 0, 3, 3, 4)]
    yield "int64", [x, i64(0, 0, 1, 2, 2)]
    yield "empty", [ramp(dtype, 0, 2), np.zeros(0, np.int32)]
    yield "vector", [ramp(dtype, 3), i32(0, 1, 1)]
    yield "decreasing", [x, i32(0, 1, 0, 2, 2)]
    yield "negative", [x, i32(-1, 0, 1, 2, 2)]
    yield "mismatch", [x, i32(0, 1)]
    yield "matrix-ids", [ramp(dtype, 2, 2), i32([0, 0], [1, 1])]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 5, 2), i32(0, 0, 1, 3, 3)], {}, {"grad": True}


cases("UnsortedSegmentSum", NUMBERS, _unsorted, SUM)
cases("SegmentSum", NUMBERS, _sorted_ids, SUM)

# ---------------------------------------------------------------------- matrix products


def _products(dtype: str) -> Iterator[Any]:
    for ta in (False, True):
        for tb in (False, True):
            a, b = ramp(dtype, *((4, 3) if ta else (3, 4))), ramp(dtype, *((2, 4) if tb else (4, 2)))
            attrs = {"transpose_a": ta, "transpose_b": tb}
            yield f"{'t' if ta else 'n'}{'t' if tb else 'n'}", [a, b], attrs
            if dtype in (*WIDE, *COMPLEX):
                x, y = noise(dtype, *a.shape), noise(dtype, *b.shape, seed=7)
                yield f"grad-{int(ta)}{int(tb)}", [x, y], attrs, {"grad": True, "second": True}
    yield "no-inner", [ramp(dtype, 3, 0), ramp(dtype, 0, 2)]
    yield "no-rows", [ramp(dtype, 0, 4), ramp(dtype, 4, 2)]
    yield "mismatch", [ramp(dtype, 3, 4), ramp(dtype, 3, 4)]
    yield "vector", [ramp(dtype, 3), ramp(dtype, 3, 4)]
    if dtype in FLOATS:
        yield "nan", [np.array([[np.nan, 1], [np.inf, 0]], np_dtype(dtype)), np.eye(2).astype(np_dtype(dtype))]
    if dtype in INTS:
        top = np.iinfo(dtype).max
        yield "wrap", [np.full((2, 2), top, dtype), np.full((2, 2), 3, dtype)]


def _batches(dtype: str) -> Iterator[Any]:
    for ax in (False, True):
        for ay in (False, True):
            attrs = {"adj_x": ax, "adj_y": ay}
            x, y = ramp(dtype, 2, *((4, 3) if ax else (3, 4))), ramp(dtype, 2, *((2, 4) if ay else (4, 2)))
            yield f"{'a' if ax else 'n'}{'a' if ay else 'n'}", [x, y], attrs
            if dtype in (*WIDE, *COMPLEX):
                good = {"grad": True, "second": True}
                yield f"grad-{int(ax)}{int(ay)}", [noise(dtype, *x.shape), noise(dtype, *y.shape, seed=7)], attrs, good
    if dtype in (*WIDE, *COMPLEX):
        yield "grad-broadcast", [noise(dtype, 2, 1, 3, 4), noise(dtype, 5, 4, 2)], {}, {"grad": True}
        yield "grad-lead", [noise(dtype, 3, 4), noise(dtype, 5, 4, 2)], {}, {"grad": True}
    yield "broadcast", [ramp(dtype, 2, 1, 3, 4), ramp(dtype, 5, 4, 2)]
    yield "matrices", [ramp(dtype, 3, 4), ramp(dtype, 4, 2)]
    yield "no-batch", [ramp(dtype, 0, 3, 4), ramp(dtype, 0, 4, 2)]
    yield "no-inner", [ramp(dtype, 2, 3, 0), ramp(dtype, 2, 0, 2)]
    yield "mismatch", [ramp(dtype, 2, 3, 4), ramp(dtype, 2, 3, 4)]
    yield "mismatch-batch", [ramp(dtype, 2, 3, 4), ramp(dtype, 3, 4, 2)]
    yield "vector", [ramp(dtype, 4), ramp(dtype, 4, 2)]


def _sparse_products(dtype: str) -> Iterator[Any]:
    """Of the type and of float32."""
    hints = {"a_is_sparse": True, "b_is_sparse": True}
    for other in ("float32", "bfloat16"):
        for flip_a in (False, True):
            for flip_b in (False, True):
                a, b = noise(dtype, *((3, 2) if flip_a else (2, 3))), noise(other, *((4, 3) if flip_b else (3, 4)))
                attrs = {"transpose_a": flip_a, "transpose_b": flip_b, **(hints if flip_a else {})}
                both = dtype == other == "float32"  # of others TensorFlow has gradients only where shapes are known
                yield f"{other}-{flip_a:d}{flip_b:d}", [a, b], attrs, {"grad": both, "second": both}
        yield f"{other}-inner", [noise(dtype, 2, 3), noise(other, 2, 3)]


cases("MatMul", NUMBERS, _products, Tolerance(16, scaled=True))
cases("SparseMatMul", ("float32", "bfloat16"), _sparse_products, Tolerance(16, scaled=True))
cases("BatchMatMulV2", NUMBERS, _batches, Tolerance(16, scaled=True))

# ---------------------------------------------------------------------- what broadcasting does to shapes


def _shape_pairs(dtype: str) -> Iterator[Any]:
    make = i64 if dtype == "int64" else i32
    empty = np.zeros(0, np_dtype(dtype))
    for a, b in ([2, 3], [2, 3]), ([2, 1], [3]), ([1], [4, 5]), ([1, 1], [1]), ([0, 3], [1, 3]), ([5, 1, 2], [1, 4, 1]):
        yield f"{a}{b}", [make(*a), make(*b)]
    yield "scalar-left", [empty, make(2, 3)]
    yield "scalar-right", [make(1, 3), empty]
    yield "scalars", [empty, empty]
    yield "mismatch", [make(2), make(3)]


for _op in ("BroadcastArgs", "BroadcastGradientArgs"):
    cases(_op, ("int32", "int64"), _shape_pairs)


def _squares(dtype: str) -> Iterator[Any]:
    yield "values", [ramp(dtype, 3, 4)]
    yield "empty", [ramp(dtype, 0)]
    yield "scalar", [ramp(dtype, 3)[1].reshape(())]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 4)], {}, {"grad": True, "second": True}


cases("L2Loss", FLOATS, _squares, Tolerance(16))
