"""Slices, gathers, scatters, choices among elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import (
    ALL,
    FLOATS,
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
    strings,
)
from tests.oracle.compare import SUM

_GOOD = {"grad": True, "second": True}

# ---------------------------------------------------------------------- slices


def _slices(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 5)
    for begin, size in (
        ([0, 0], [4, 5]), ([1, 2], [2, 3]), ([1, 2], [-1, -1]), ([4, 5], [0, 0]), ([0, 0], [0, -1]),
        ([-1, 0], [1, 1]), ([0, 0], [5, 1]), ([3, 0], [2, 1]), ([0, 0], [-2, 1]), ([0], [1]),
    ):  # fmt: skip
        yield f"{begin}{size}", [x, i32(*begin), i32(*size)]
    yield "int64", [x, i64(1, 2), i64(2, -1)]
    yield "scalar", [ramp(dtype, 1).reshape(()), np.zeros(0, np.int32), np.zeros(0, np.int32)]
    yield "empty", [ramp(dtype, 0, 3), i32(0, 1), i32(-1, 2)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 4, 5), i32(1, 2), i32(2, -1)], {}, _GOOD


_STRIDED = {  # (begin, end, strides, masks)
    "plain": ([0, 1], [2, 4], [1, 1], {}),
    "steps": ([0, 0], [4, 5], [2, 3], {}),
    "backwards": ([3, 4], [0, 0], [-1, -2], {}),
    "open": ([1, 1], [0, 0], [1, 1], {"begin_mask": 2, "end_mask": 3}),
    "open-backwards": ([0, 0], [0, 0], [-1, -1], {"begin_mask": 3, "end_mask": 3}),
    "negative": ([-3, -2], [-1, 5], [1, 1], {}),
    "past-end": ([0, 2], [100, 100], [1, 1], {}),
    "before-start": ([-100, 0], [2, 5], [1, 1], {}),
    "nothing": ([3, 0], [1, 5], [1, 1], {}),
    "one-axis": ([1], [3], [1], {}),
    "index": ([2, 0], [3, 5], [1, 1], {"shrink_axis_mask": 1}),
    "index-negative": ([-1, 0], [0, 5], [1, 1], {"shrink_axis_mask": 1}),
    "two-indices": ([2, 3], [3, 4], [1, 1], {"shrink_axis_mask": 3}),
    "index-outside": ([4, 0], [5, 5], [1, 1], {"shrink_axis_mask": 1}),
    "index-below": ([-5, 0], [0, 5], [1, 1], {"shrink_axis_mask": 1}),
    "new-axis": ([0, 0, 1], [0, 4, 3], [1, 1, 1], {"new_axis_mask": 1}),
    "ellipsis": ([0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}),
    "ellipsis-nothing": ([0, 0, 1], [4, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}),
    "ellipsis-new": ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2}),
    "new-and-index": ([0, 1, 2], [0, 2, 3], [1, 1, 1], {"new_axis_mask": 1, "shrink_axis_mask": 6}),
    "zero-stride": ([0, 0], [2, 2], [0, 1], {}),
    "too-many": ([0, 0, 0], [1, 1, 1], [1, 1, 1], {}),
    "two-ellipses": ([0, 0], [0, 0], [1, 1], {"ellipsis_mask": 3}),
    "index-backwards": ([2, 0], [1, 5], [-1, 1], {"shrink_axis_mask": 1}),
}
_MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)


def _strided(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 5)
    for label, (begin, end, strides, masks) in _STRIDED.items():
        yield label, [x, i32(*begin), i32(*end), i32(*strides)], {**_MASKS, **masks}
        if dtype in WIDE and label not in ("zero-stride", "too-many", "two-ellipses", "index-outside", "index-below"):
            inputs = [noise(dtype, 4, 5), i32(*begin), i32(*end), i32(*strides)]
            yield f"grad-{label}", inputs, {**_MASKS, **masks}, _GOOD
    yield "int64", [x, i64(0, 1), i64(2, 4), i64(1, 1)], _MASKS
    yield "empty", [ramp(dtype, 0, 3), i32(0), i32(2), i32(1)], _MASKS


def _strided_grads(dtype: str) -> Iterator[Any]:
    for label in ("plain", "steps", "backwards", "open", "index", "new-axis", "ellipsis", "nothing", "two-indices"):
        begin, end, strides, masks = _STRIDED[label]
        key: list[Any] = []
        for i, bounds in enumerate(zip(begin, end, strides)):
            bit = {
                m: masks.get(f"{m}_mask", 0) >> i & 1 for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
            }
            whole = slice(None if bit["begin"] else bounds[0], None if bit["end"] else bounds[1], bounds[2])
            key.append(
                ... if bit["ellipsis"] else None if bit["new_axis"] else bounds[0] if bit["shrink_axis"] else whole
            )
        shape = np.zeros((4, 5))[tuple(key)].shape
        yield label, [i32(4, 5), i32(*begin), i32(*end), i32(*strides), ramp(dtype, *shape)], {**_MASKS, **masks}
        if dtype in WIDE:
            inputs = [i32(4, 5), i32(*begin), i32(*end), i32(*strides), noise(dtype, *shape)]
            yield f"grad-{label}", inputs, {**_MASKS, **masks}, _GOOD
    yield "mismatch", [i32(4, 5), i32(0, 0), i32(2, 2), i32(1, 1), ramp(dtype, 3, 2)], _MASKS


def _ensured(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3)
    for dims in ((2, 3), (None, 3), (None, 2), (2,), (None, None)):
        yield str(dims), [x], {"shape": Shape(dims)}


cases("EnsureShape", ALL, _ensured)
cases("Slice", ALL, _slices)
cases("StridedSlice", ALL, _strided)
cases("StridedSliceGrad", ALL, _strided_grads)

# ---------------------------------------------------------------------- gathers and scatters


def _gathers(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 3)
    yield "rows", [x, i32(2, 0, 2)]
    yield "int64", [x, i64(2, 0, 2)]
    yield "scalar", [x, s32(1)]
    yield "matrix", [x, i32([0, 1], [3, 3])]
    yield "none", [x, np.zeros(0, np.int32)]
    yield "of-vector", [ramp(dtype, 4), i32(3, 1)]
    yield "of-vector-scalar", [ramp(dtype, 4), s32(3)]
    yield "empty", [ramp(dtype, 0, 3), np.zeros(0, np.int32)]
    yield "too-large", [x, i32(0, 4)]
    yield "negative", [x, i32(0, -1)]
    yield "from-empty", [ramp(dtype, 0, 3), i32(0)]
    yield "of-scalar", [ramp(dtype, 1).reshape(()), i32(0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 4, 3), i32(2, 0, 2)], {}, {**_GOOD, "tolerance": SUM}
        yield "grad-matrix", [noise(dtype, 4, 3), i32([0, 1], [3, 3])], {}, {**_GOOD, "tolerance": SUM}


def _gathers_along(dtype: str) -> Iterator[Any]:
    for label, inputs, *more in _gathers(dtype):
        yield label, [*inputs, s32(0)], *more
    x = ramp(dtype, 2, 4, 3)
    for axis in (1, 2, -1, -3):
        yield f"axis{axis}", [x, i32(1, 0, 1), s32(axis)]
        yield f"axis{axis}-matrix", [x, i32([1, 0], [1, 1]), s32(axis)]
        if dtype in WIDE:
            yield (
                f"grad{axis}",
                [noise(dtype, 2, 4, 3), i32([1, 0], [1, 1]), s32(axis)],
                {},
                {**_GOOD, "tolerance": SUM},
            )
    yield "axis-int64", [x, i32(1, 0, 1), np.array(1, np.int64)]
    yield "bad-axis", [x, i32(0), s32(3)]
    yield "bad-axis-low", [x, i32(0), s32(-4)]
    yield "batched", [ramp(dtype, 2, 4), i32([1, 0], [3, 3]), s32(1)], {"batch_dims": 1}
    yield "batched-axis", [ramp(dtype, 2, 3, 4), i32([1, 0], [3, 3]), s32(2)], {"batch_dims": 1}
    yield "batched-negative", [ramp(dtype, 2, 4), i32([1, 0], [3, 3]), s32(1)], {"batch_dims": -1}
    yield "batched-mismatch", [ramp(dtype, 2, 4), i32([1, 0], [3, 3], [1, 1]), s32(1)], {"batch_dims": 1}
    if dtype in WIDE:
        own = {"grad": True, "tolerance": SUM}
        yield "grad-batched", [noise(dtype, 2, 4, 3), i32([1, 0], [3, 3]), s32(1)], {"batch_dims": 1}, own


def _gathers_nd(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 4, 3)
    yield "points", [x, i32([0, 1], [3, 2])]
    yield "rows", [x, i32([0], [3])]
    yield "int64", [x, i64([0, 1], [3, 2])]
    yield "deep", [ramp(dtype, 2, 3, 4), i32([[0, 1], [1, 2]])]
    yield "one", [x, i32(1, 1)]
    yield "whole", [x, np.zeros((2, 0), np.int32)]
    yield "none", [x, np.zeros((0, 2), np.int32)]
    yield "too-large", [x, i32([0, 3])]
    yield "negative", [x, i32([-1, 0])]
    yield "too-deep", [x, i32([0, 0, 0])]
    yield "scalar-index", [x, s32(0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 4, 3), i32([0, 1], [3, 2], [0, 1])], {}, {**_GOOD, "tolerance": SUM}
        yield "grad-rows", [noise(dtype, 4, 3), i32([0], [3], [0])], {}, {**_GOOD, "tolerance": SUM}


def _scatters_nd(dtype: str) -> Iterator[Any]:
    yield "points", [i32([0, 1], [3, 2]), ramp(dtype, 2), i32(4, 3)]
    yield "repeated", [i32([0, 1], [3, 2], [0, 1]), ramp(dtype, 3), i32(4, 3)]
    yield "rows", [i32([0], [3]), ramp(dtype, 2, 3), i32(4, 3)]
    yield "int64", [i64([0], [3]), ramp(dtype, 2, 3), i64(4, 3)]
    yield "none", [np.zeros((0, 1), np.int32), ramp(dtype, 0, 3), i32(4, 3)]
    yield "into-empty", [np.zeros((0, 1), np.int32), ramp(dtype, 0, 3), i32(0, 3)]
    yield "too-large", [i32([4]), ramp(dtype, 1, 3), i32(4, 3)]
    yield "negative", [i32([-1]), ramp(dtype, 1, 3), i32(4, 3)]
    yield "mismatch", [i32([0], [3]), ramp(dtype, 2, 2), i32(4, 3)]
    if dtype in WIDE:
        yield "grad", [i32([0], [3], [0]), noise(dtype, 3, 3), i32(4, 3)], {}, _GOOD


cases("Gather", ALL, _gathers)
cases("GatherV2", ALL, _gathers_along)
cases("GatherNd", ALL, _gathers_nd)
cases("ScatterNd", (*NUMBERS, "bool", "string"), _scatters_nd, SUM)

# ---------------------------------------------------------------------- choices


def _selects(dtype: str) -> Iterator[Any]:
    a, b = ramp(dtype, 3, 4), ramp(dtype, 3, 4, seed=8)
    mask = np.arange(12).reshape(3, 4) % 3 == 0
    yield "elements", [mask, a, b]
    yield "scalar", [np.array(True), a, b]
    yield "scalars", [np.array(False), ramp(dtype, 1).reshape(()), ramp(dtype, 2)[:1].reshape(())]
    yield "empty", [mask[:0], a[:0], b[:0]]
    if dtype in FLOATS:
        yield "special", [np.arange(len(special(dtype))) % 2 == 0, special(dtype), special(dtype)[::-1].copy()]
    yield "mismatch", [mask, a, ramp(dtype, 2, 2)]
    if dtype in WIDE:
        yield "grad", [mask, noise(dtype, 3, 4), noise(dtype, 3, 4, seed=6)], {}, _GOOD


def _selects_rows(dtype: str) -> Iterator[Any]:
    yield from _selects(dtype)
    rows = np.array([True, False, True])
    yield "rows", [rows, ramp(dtype, 3, 4), ramp(dtype, 3, 4, seed=8)]
    yield "rows-mismatch", [rows, ramp(dtype, 2, 4), ramp(dtype, 2, 4, seed=8)]
    yield "mask-mismatch", [np.ones((3, 3), bool), ramp(dtype, 3, 4), ramp(dtype, 3, 4, seed=8)]
    if dtype in WIDE:
        yield "grad-rows", [rows, noise(dtype, 3, 4), noise(dtype, 3, 4, seed=6)], {}, _GOOD


def _selects_broadcast(dtype: str) -> Iterator[Any]:
    yield from _selects(dtype)
    mask = np.array([[True], [False], [True]])
    yield "broadcast", [mask, ramp(dtype, 4), ramp(dtype, 3, 1)]
    if dtype in WIDE:
        yield "grad-broadcast", [mask, noise(dtype, 4), noise(dtype, 3, 1)], {}, {**_GOOD, "tolerance": SUM}


def _positions(dtype: str) -> Iterator[Any]:
    yield "values", [special(dtype)]
    yield "matrix", [ramp(dtype, 3, 4)]
    yield "empty", [ramp(dtype, 0, 4)]
    yield "scalar", [ramp(dtype, 3)[1].reshape(())]


cases("Select", ALL, _selects_rows)
cases("SelectV2", ALL, _selects_broadcast)
cases("Where", (*NUMBERS, "bool"), _positions)


def _one_hots(dtype: str) -> Iterator[Any]:
    on, off = (
        strings("y", "n")
        if dtype == "string"
        else np.array([True, False] if dtype == "bool" else [3, 1], np_dtype(dtype))
    )
    on, off = (np.array(v, np_dtype(dtype)) for v in (on, off))
    indices = i64([0, 2], [-1, 5])
    for axis in (-1, 0, 1, 2, 3, -2):
        yield f"axis{axis}", [indices, s32(3), on, off], {"axis": axis}
    for kind in ("int32", "uint8", "int8"):
        yield kind, [np.array([0, 1, 2], kind), s32(3), on, off]
    yield "scalar", [np.array(1, np.int64), s32(3), on, off]
    yield "empty", [np.zeros(0, np.int64), s32(3), on, off]
    yield "no-depth", [indices, s32(0), on, off]
    yield "negative-depth", [indices, s32(-1), on, off]


cases("OneHot", ALL, _one_hots)


def _uniques(dtype: str) -> Iterator[Any]:
    x = strings("b", "a", "b", "", "a") if dtype == "string" else np.array([3, 1, 3, 0, 1]).astype(np_dtype(dtype))
    for out in ("int32", "int64"):
        yield f"repeats-{out}", [x], {"out_idx": as_dtype(out)}
    yield "different", [ramp(dtype, 6)]
    yield "empty", [ramp(dtype, 0)]
    yield "matrix", [ramp(dtype, 2, 3)]
    if dtype not in FLOATS:
        yield "special", [np.concatenate([special(dtype)] * 2)]


def _differences(dtype: str) -> Iterator[Any]:
    x = special(dtype)[2:8] if dtype in FLOATS else special(dtype)[:6]  # 0 and -0 may count as one
    yield "some", [np.concatenate([x, x]), x[1:3]]
    yield "all", [x, x]
    yield "none", [x, x[:0]]
    yield "int64", [x, x[2:]], {"out_idx": as_dtype("int64")}
    yield "empty", [x[:0], x]
    yield "matrix", [ramp(dtype, 2, 3), x]


cases("Unique", (*REAL, "bool", "string"), _uniques)
cases("UniqueWithCounts", (*REAL, "bool", "string"), _uniques)
cases("ListDiff", (*REAL, "bool", "string"), _differences)
