"""Counts, histograms, places by order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import REAL, WIDE, i32, i64, noise, ramp, s32

_SOME = ("int32", "int64", "float32", "float64")


def _counted(dtype: str) -> Iterator[Any]:
    x, none = i32(1, 0, 3, 1, 7, 1), np.zeros(0, dtype)
    yield "plain", [x, s32(5), none]
    yield "weights", [x, s32(8), ramp(dtype, 6)]
    yield "binary", [x, s32(5), none], {"binary_output": True}
    yield "int64", [i64(1, 0, 1), np.array(3, np.int64), none]
    yield "rows", [i32([1, 0, 1], [2, 2, 9]), s32(3), none]
    yield "rows-weights", [i32([1, 0, 1], [2, 2, 9]), s32(3), ramp(dtype, 2, 3)]
    yield "empty", [np.zeros(0, np.int32), s32(3), none]
    yield "negative", [i32(1, -1), s32(3), none]
    yield "negative-size", [x, s32(-1), none]


def _bins(dtype: str) -> Iterator[Any]:
    x = np.array([-1, 0, 1.5, 2, 5, 15, 4.99, 10, 20], dtype)
    for out in ("int32", "int64"):
        yield out, [x, np.array([0, 5], dtype), s32(5)], {"dtype": as_dtype(out)}
    yield "matrix", [ramp(dtype, 3, 4), np.array([-3, 4], dtype), s32(7)]
    yield "empty", [x[:0], np.array([0, 5], dtype), s32(5)]
    yield "no-bins", [x, np.array([0, 5], dtype), s32(0)]
    yield "falling", [x, np.array([5, 0], dtype), s32(5)]


def _nth(dtype: str) -> Iterator[Any]:
    for n in (0, 2, 4):
        for reverse in (False, True):
            yield f"{n}{reverse}", [ramp(dtype, 3, 5), s32(n)], {"reverse": reverse}
    yield "deep", [ramp(dtype, 2, 2, 3), s32(1)]
    yield "outside", [ramp(dtype, 3, 5), s32(5)]
    yield "negative", [ramp(dtype, 3, 5), s32(-1)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 5), s32(3)], {}, {"grad": True}


def _unravelled(dtype: str) -> Iterator[Any]:
    dims = np.array([3, 4, 5], dtype)
    yield "vector", [np.array([22, 0, 59], dtype), dims]
    yield "scalar", [np.array(22, dtype), dims]
    yield "outside", [np.array([60], dtype), dims]
    yield "zero", [np.array([0], dtype), np.array([3, 0], dtype)]


def _bounds(dtype: str) -> Iterator[Any]:
    ordered = np.array([[0, 3, 9, 9, 10], [1, 2, 3, 4, 5]], dtype)
    values = np.array([[2, 4, 9], [0, 2, 6]], dtype)
    for out in ("int32", "int64"):
        yield out, [ordered, values], {"out_type": as_dtype(out)}
    yield "empty", [ordered[:, :0], values]
    yield "rows", [ordered, values[:1]]
    yield "vector", [ordered[0], values]


def _bucketed(dtype: str) -> Iterator[Any]:
    edges = [-1.0, 0.1, 2.0, 2.0, 5.5]
    yield "plain", [ramp(dtype, 3, 4)], {"boundaries": edges}
    yield "on-an-edge", [np.array([-1, 0.1, 2, 5.5, 100, -100], dtype)], {"boundaries": edges}
    yield "none", [ramp(dtype, 3)], {"boundaries": []}
    yield "empty", [ramp(dtype, 0, 2)], {"boundaries": edges}
    yield "falling", [ramp(dtype, 3)], {"boundaries": [2.0, 1.0]}


cases("Bucketize", _SOME, _bucketed)
cases("DenseBincount", _SOME, _counted)
cases("HistogramFixedWidth", _SOME, _bins)
cases("NthElement", tuple(t for t in REAL if t != "uint64"), _nth)
cases("UnravelIndex", ("int32", "int64"), _unravelled)
for _op in ("LowerBound", "UpperBound"):
    cases(_op, _SOME, _bounds)


def _count_of_rows(dtype: str) -> list[Any]:
    values = np.array([[1, 1, 5], [0, 2, 2]], dtype)
    bounds: list[dict[str, int]] = [
        {},
        {"maxlength": 3},
        {"minlength": 9},
        {"minlength": 9, "maxlength": 4},
        {"maxlength": 0},
    ]
    weights = np.array([[0.5, 0.25, 1], [2, 3, 4]], np.float32)
    none = np.empty(0, np.float32)
    found = [(f"bounds{i}", [values, none], {"binary_output": False, **own}) for i, own in enumerate(bounds)]
    for label, x, w in [
        ("weights", values, weights), ("vector", values[0], none), ("empty", values[:, :0], none),
        ("nothing", values[0, :0], none), ("negative", -values, none), ("scalar", values[0, 0], none),
        ("other-weights", values, weights[0]),
    ]:  # fmt: skip
        found += [(f"{label}{b}", [x, w], {"binary_output": b}) for b in (False, True)]
    return found


def _sparsely_counted(dtype: str) -> list[Any]:
    at, values = np.array([[0, 1], [0, 2], [2, 0]]), np.array([1, 1, 4], dtype)
    none, sizes = np.empty(0, np.float32), np.array([3, 4])
    rows: list[Any] = [
        ("matrix", [at, values, sizes, none]),
        ("weights", [at, values, sizes, np.array([1, 2, 3], np.float32)]),
        ("vector", [at[:, :1], values, sizes[:1], none]),
        ("outside", [at + 3, values, sizes, none]),
        ("negative", [at, -values, sizes, none]),
    ]
    return [(label, inputs, {"binary_output": False}) for label, inputs in rows]


def _raggedly_counted(dtype: str) -> list[Any]:
    values, none = np.array([1, 1, 4], dtype), np.empty(0, np.float32)
    rows = [("rows", [0, 2, 2, 3]), ("first", [1, 2, 2, 3]), ("last", [0, 2, 2, 5]), ("none", [])]
    return [(label, [np.array(s, np.int64), values, none], {"binary_output": False}) for label, s in rows]


cases("DenseCountSparseOutput", ("int32", "int64"), _count_of_rows, every=True)
cases("SparseCountSparseOutput", ("int32", "int64"), _sparsely_counted)
cases("RaggedCountSparseOutput", ("int32", "int64"), _raggedly_counted)
