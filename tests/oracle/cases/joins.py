"""Tensors put together and taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import ALL, WIDE, i32, i64, noise, ramp, s32
from tests.oracle.compare import SUM

_GOOD = {"grad": True, "second": True}


def _concats(dtype: str) -> Iterator[Any]:
    a, b, c = ramp(dtype, 2, 3), ramp(dtype, 4, 3), ramp(dtype, 2, 5)
    yield "rows", [[a, b], s32(0)]
    yield "columns", [[a, c], s32(1)]
    yield "last", [[a, c], s32(-1)]
    yield "three", [[a, b, a], s32(0)]
    yield "int64", [[a, b], np.array(0, np.int64)]
    yield "empty", [[a, ramp(dtype, 0, 3)], s32(0)]
    yield "all-empty", [[ramp(dtype, 0, 3), ramp(dtype, 0, 3)], s32(0)]
    yield "mismatch", [[a, c], s32(0)]
    yield "ranks", [[a, ramp(dtype, 3)], s32(0)]
    yield "bad-axis", [[a, a], s32(2)]
    yield "scalars", [[ramp(dtype, 1).reshape(()), ramp(dtype, 1).reshape(())], s32(0)]
    if dtype in WIDE:
        yield "grad", [[noise(dtype, 2, 3), noise(dtype, 2, 3)], s32(1)], {}, _GOOD
        yield "grad-unequal", [[noise(dtype, 2, 3), noise(dtype, 4, 3)], s32(0)], {}, _GOOD
        yield "grad-last", [[noise(dtype, 2, 3), noise(dtype, 2, 1)], s32(-1)], {}, _GOOD


def _packs(dtype: str) -> Iterator[Any]:
    a, b = ramp(dtype, 2, 3), ramp(dtype, 2, 3, seed=9)
    for axis in (0, 1, 2, -1, -3, 3, -4):
        yield f"axis{axis}", [[a, b]], {"axis": axis}
    yield "one", [[a]]
    yield "scalars", [[ramp(dtype, 1).reshape(()), ramp(dtype, 1).reshape(())]]
    yield "empty", [[ramp(dtype, 0, 2), ramp(dtype, 0, 2)]], {"axis": 1}
    yield "mismatch", [[a, ramp(dtype, 3, 2)]]
    if dtype in WIDE:
        yield "grad", [[noise(dtype, 2, 3), noise(dtype, 2, 3)]], {"axis": 1}, _GOOD


def _unpacks(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3)
    yield "rows", [x], {"num": 2}
    yield "columns", [x], {"num": 3, "axis": 1}
    yield "last", [x], {"num": 3, "axis": -1}
    yield "vector", [ramp(dtype, 4)], {"num": 4}
    yield "none", [ramp(dtype, 0, 3)], {"num": 0}
    yield "empty-rows", [ramp(dtype, 2, 0)], {"num": 2}
    yield "wrong", [x], {"num": 3}
    yield "bad-axis", [x], {"num": 2, "axis": 2}
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3)], {"num": 3, "axis": 1}, _GOOD


def _splits(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 6)
    yield "rows", [s32(0), x], {"num_split": 2}
    yield "columns", [s32(1), x], {"num_split": 3}
    yield "last", [s32(-1), x], {"num_split": 6}
    yield "one", [s32(0), x], {"num_split": 1}
    yield "uneven", [s32(0), x], {"num_split": 3}
    yield "bad-axis", [s32(2), x], {"num_split": 2}
    yield "bad-axis-low", [s32(-3), x], {"num_split": 2}
    yield "empty", [s32(0), ramp(dtype, 0, 2)], {"num_split": 2}
    yield "scalar", [s32(0), ramp(dtype, 1).reshape(())], {"num_split": 1}
    if dtype in WIDE:
        yield "grad", [s32(1), noise(dtype, 2, 4)], {"num_split": 2}, _GOOD


def _sized_splits(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 6)
    yield "rows", [x, i64(1, 3), s32(0)], {"num_split": 2}
    yield "int32", [x, i32(1, 3), s32(0)], {"num_split": 2}
    yield "open", [x, i64(1, -1, 2), s32(1)], {"num_split": 3}
    yield "zero-size", [x, i64(0, 4), s32(0)], {"num_split": 2}
    yield "last", [x, i64(2, 4), s32(-1)], {"num_split": 2}
    yield "one", [x, i64(4), s32(0)], {"num_split": 1}
    yield "too-few", [x, i64(1, 1), s32(0)], {"num_split": 2}
    yield "too-many", [x, i64(3, 3), s32(0)], {"num_split": 2}
    yield "two-open", [x, i64(-1, -1), s32(0)], {"num_split": 2}
    yield "bad-axis", [x, i64(1, 3), s32(2)], {"num_split": 2}
    yield "wrong-count", [x, i64(1, 3), s32(0)], {"num_split": 3}
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 4), i64(1, 3), s32(1)], {"num_split": 2}, _GOOD


cases("ConcatV2", ALL, _concats)
cases("Pack", ALL, _packs)
cases("Unpack", ALL, _unpacks)
cases("Split", ALL, _splits)
cases("SplitV", ALL, _sized_splits)
cases(
    "ConcatOffset",
    ("int32",),
    lambda d: [
        ("rows", [s32(0), [i32(2, 3), i32(4, 3), i32(1, 3)]]),
        ("columns", [s32(1), [i32(2, 3), i32(2, 5)]]),
        ("last", [s32(-1), [i32(2, 3), i32(2, 5)]]),
        ("mismatch", [s32(0), [i32(2, 3), i32(2, 5)]]),
        ("ranks", [s32(0), [i32(2, 3), i32(2)]]),
        ("bad-axis", [s32(2), [i32(2, 3), i32(2, 3)]]),
    ],
)

# ---------------------------------------------------------------------- partition and stitch


def _partitions(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 5, 2)
    yield "rows", [x, i32(0, 2, 0, 1, 2)], {"num_partitions": 3}
    yield "empty-part", [x, i32(0, 2, 0, 0, 2)], {"num_partitions": 4}
    yield "matrix", [ramp(dtype, 2, 2, 3), i32([0, 1], [1, 0])], {"num_partitions": 2}
    yield "empty", [ramp(dtype, 0, 2), np.zeros(0, np.int32)], {"num_partitions": 2}
    yield "scalars", [ramp(dtype, 4), i32(1, 0, 1, 0)], {"num_partitions": 2}
    yield "too-large", [x, i32(0, 2, 0, 3, 2)], {"num_partitions": 3}
    yield "negative", [x, i32(0, 2, 0, -1, 2)], {"num_partitions": 3}
    yield "mismatch", [x, i32(0, 2)], {"num_partitions": 3}
    if dtype in WIDE:
        yield "grad", [noise(dtype, 5, 2), i32(0, 2, 0, 1, 2)], {"num_partitions": 3}, _GOOD


def _stitches(dtype: str) -> Iterator[Any]:
    yield "rows", [[i32(3, 0), i32(1, 2)], [ramp(dtype, 2, 2), ramp(dtype, 2, 2, seed=5)]]
    yield "overlap", [[i32(0, 1), i32(1, 0)], [ramp(dtype, 2, 2), ramp(dtype, 2, 2, seed=5)]]
    yield "within", [[i32(0, 0, 1)], [ramp(dtype, 3, 2)]]
    yield "scalars", [[s32(1), i32([0, 2])], [ramp(dtype, 3), ramp(dtype, 1, 2, 3)]]
    yield "empty", [[np.zeros(0, np.int32)], [ramp(dtype, 0, 2)]]
    yield "mismatch", [[i32(0, 1)], [ramp(dtype, 3, 2)]]
    yield "rest", [[i32(0), i32(1)], [ramp(dtype, 1, 2), ramp(dtype, 1, 3)]]
    yield "negative", [[i32(-1, 0)], [ramp(dtype, 2, 2)]]
    if dtype in WIDE:
        yield "grad", [[i32(3, 0), i32(1, 2)], [noise(dtype, 2, 2), noise(dtype, 2, 2, seed=5)]], {}, _GOOD


cases("DynamicPartition", ALL, _partitions)
cases("DynamicStitch", ALL, _stitches, SUM)
cases("ParallelDynamicStitch", ALL, _stitches, SUM)
