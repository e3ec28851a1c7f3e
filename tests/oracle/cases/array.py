"""Ops on shapes and layouts, filling, sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.elementwise import _one
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import (
    ALL,
    COMPLEX,
    FLOATS,
    NUMBERS,
    WIDE,
    i32,
    i64,
    noise,
    np_dtype,
    ramp,
    s32,
    strings,
)
from tests.oracle.compare import ROUNDED, SUM, Tolerance

_GOOD = {"grad": True}

# ---------------------------------------------------------------------- passing on


def _passed(dtype: str) -> Iterator[Any]:
    yield from _one(dtype)
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3)], {}, _GOOD


cases("Identity", ALL, _passed)
cases("StopGradient", ALL, _passed)
cases("PreventGradient", ALL, _one)
cases(
    "PlaceholderWithDefault",
    ALL,
    lambda d: [
        ("same", [ramp(d, 2, 3)], {"shape": Shape((2, 3)), "dtype": as_dtype(d)}),
        ("open", [ramp(d, 2, 3)], {"shape": Shape((None, 3)), "dtype": as_dtype(d)}),
        ("any", [ramp(d, 2, 3)], {"shape": Shape(None), "dtype": as_dtype(d)}),
    ],
)
cases(
    "Const",
    ALL,
    lambda d: [
        (label, [], {"value": value, "dtype": as_dtype(d)})
        for label, value in (("matrix", ramp(d, 2, 3)), ("scalar", ramp(d, 1).reshape(())), ("empty", ramp(d, 0, 2)))
    ],
)


def _numerics(dtype: str) -> Iterator[Any]:
    dt = np_dtype(dtype)
    attrs = {"message": "checked"}
    yield "good", [ramp(dtype, 3, 4)], attrs
    yield "empty", [ramp(dtype, 0)], attrs
    yield "nan", [np.array([1, np.nan], dt)], attrs
    yield "inf", [np.array([1, np.inf], dt)], attrs
    yield "minus-inf", [np.array([1, -np.inf], dt)], attrs
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3)], attrs, _GOOD


cases("CheckNumerics", FLOATS, _numerics)

# ---------------------------------------------------------------------- what a shape is


def _shape_of(dtype: str) -> Iterator[Any]:
    for shape in ((2, 3), (), (0, 4), (1,)):
        for out in ("int32", "int64"):
            yield f"{shape}-{out}", [ramp(dtype, *shape)], {"out_type": as_dtype(out)}


cases("Shape", ALL, _shape_of)
cases("Size", ALL, _shape_of)
cases("Rank", ALL, lambda d: [(str(s), [ramp(d, *s)]) for s in ((2, 3), (), (0, 4))])
cases("ShapeN", ("float32", "string"), lambda d: [("three", [[ramp(d, 2, 3), ramp(d, 0), ramp(d, 4, 1, 2)]])])

# ---------------------------------------------------------------------- filling and sequences


def _fills(dtype: str) -> Iterator[Any]:
    value = ramp(dtype, 3)[1].reshape(()) if dtype != "string" else np.array(b"x", object)
    yield "matrix", [i32(2, 3), value]
    yield "int64", [i64(2, 3), value], {"index_type": as_dtype("int64")}
    yield "scalar", [np.zeros(0, np.int32), value]
    yield "empty", [i32(0, 3), value]
    yield "negative", [i32(-1, 3), value]
    yield "vector-value", [i32(2), ramp(dtype, 2)]
    yield "matrix-dims", [i32([2], [3]), value]
    if dtype in WIDE:
        yield "grad", [i32(2, 3), noise(dtype)], {}, {**_GOOD, "tolerance": SUM}


cases("Fill", ALL, _fills)
cases("ZerosLike", ALL, _passed)
cases("OnesLike", (*NUMBERS, "bool"), _passed)


def _ranges(dtype: str) -> Iterator[Any]:
    def numbers(*values: float) -> list[np.ndarray]:
        return [np.array(v, np_dtype(dtype)) for v in values]

    attrs = {"Tidx": as_dtype(dtype)}
    for label, values in {
        "up": (0, 5, 1),
        "step": (1, 10, 3),
        "exact": (0, 9, 3),
        "empty": (3, 3, 1),
        "none-up": (5, 3, 1),
        "zero-delta": (0, 5, 0),
    }.items():
        yield label, numbers(*values), attrs
    if not dtype.startswith("u"):
        yield "down", numbers(5, -3, -2), attrs
        yield "none-down", numbers(0, 5, -1), attrs
    if dtype in FLOATS:
        yield "fractions", numbers(0, 1, 0.25), attrs
        yield "tenths", numbers(0, 1, 0.1), attrs
        yield "long", numbers(0, 10, 0.3), attrs
    yield "vector", [np.array([0, 1], np_dtype(dtype)), *numbers(5, 1)], attrs


cases("Range", (*WIDE, "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint16", "uint32"), _ranges, ROUNDED)


def _lines(dtype: str) -> Iterator[Any]:
    def numbers(*values: float) -> list[np.ndarray]:
        return [np.array(v, np_dtype(dtype)) for v in values]

    for label, (a, b, n) in {
        "up": (0, 1, 5),
        "down": (3, -2, 4),
        "one": (2, 7, 1),
        "two": (2, 7, 2),
        "none": (0, 1, 0),
        "negative": (0, 1, -1),
        "many": (-1.5, 7, 33),
        "same": (2, 2, 3),
    }.items():
        yield label, [*numbers(a, b), s32(n)]
    yield "int64", [*numbers(0, 1), np.array(3, np.int64)]


cases("LinSpace", FLOATS, _lines, Tolerance(4, scaled=True))

# ---------------------------------------------------------------------- reshaping


def _reshapes(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for to in ([6, 4], [-1], [2, -1, 2], [24], [1, 24, 1], [4, 5], [-1, 5], [-1, -1], [-2, 12], [0, -1]):
        yield f"to{to}", [x, i32(*to)]
    yield "int64", [x, i64(4, -1)]
    yield "to-scalar", [ramp(dtype, 1), np.zeros(0, np.int32)]
    yield "from-scalar", [ramp(dtype, 1).reshape(()), i32(1, 1)]
    yield "empty", [ramp(dtype, 0, 3), i32(3, -1)]
    yield "empty-open", [ramp(dtype, 0, 3), i32(-1)]
    yield "empty-ambiguous", [ramp(dtype, 0, 3), i32(0, -1)]
    yield "matrix-shape", [x, i32([6, 4])]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 6), i32(3, -1)], {}, _GOOD


def _expansions(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3)
    for axis in (0, 1, 2, -1, -3, 3, -4):
        yield f"axis{axis}", [x, s32(axis)]
    yield "int64", [x, np.array(1, np.int64)]
    yield "vector-axis", [x, i32(1)]
    yield "scalar", [ramp(dtype, 1).reshape(()), s32(0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), s32(1)], {}, _GOOD


def _squeezes(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 1, 3, 1, 2)
    for axes in ([], [0], [2], [-2], [0, 2], [-4, -2], [1], [4], [-5]):
        yield f"axes{axes}", [x], {"squeeze_dims": axes}
    yield "to-scalar", [ramp(dtype, 1, 1)]
    yield "empty", [ramp(dtype, 0, 1)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 1, 3, 1)], {}, _GOOD


cases("Reshape", ALL, _reshapes)
cases("ExpandDims", ALL, _expansions)
cases("Squeeze", ALL, _squeezes)

# ---------------------------------------------------------------------- layout


def _transposes(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for perm in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [-1, 0, 1], [0, 1], [0, 0, 1], [0, 1, 3]):
        yield f"perm{perm}", [x, i32(*perm)]
    yield "int64", [x, i64(2, 0, 1)]
    yield "scalar", [ramp(dtype, 1).reshape(()), np.zeros(0, np.int32)]
    yield "empty", [ramp(dtype, 0, 3), i32(1, 0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3, 4), i32(2, 0, 1)], {}, _GOOD


def _tiles(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3)
    for times in ([1, 1], [2, 3], [0, 2], [3], [1, 2, 3], [-1, 1]):
        yield f"times{times}", [x, i32(*times)]
    yield "int64", [x, i64(2, 1)]
    yield "scalar", [ramp(dtype, 1).reshape(()), np.zeros(0, np.int32)]
    yield "empty", [ramp(dtype, 0, 3), i32(2, 2)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), i32(2, 3)], {}, {**_GOOD, "second": True, "tolerance": SUM}


def _pads(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3)
    yield "both", [x, i32([1, 2], [0, 3])]
    yield "none", [x, i32([0, 0], [0, 0])]
    yield "int64", [x, i64([1, 0], [0, 1])]
    yield "empty", [ramp(dtype, 0, 3), i32([1, 1], [0, 0])]
    yield "scalar", [ramp(dtype, 1).reshape(()), np.zeros((0, 2), np.int32)]
    yield "negative", [x, i32([-1, 0], [0, 0])]
    yield "mismatch", [x, i32([1, 1])]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), i32([1, 2], [0, 3])], {}, {**_GOOD, "second": True}


def _valued_pads(dtype: str) -> Iterator[Any]:
    value = np.array(b"p", object) if dtype == "string" else np.array(1, np_dtype(dtype))
    for label, inputs, *more in _pads(dtype):
        yield label, [*inputs, value], *([more[0], {**more[1], "tolerance": SUM}] if more else [])


def _mirrors(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 4)
    for mode in ("REFLECT", "SYMMETRIC"):
        attrs = {"mode": mode}
        yield f"{mode}-both", [x, i32([1, 2], [0, 3])], attrs
        yield f"{mode}-int64", [x, i64([1, 0], [0, 1])], attrs
        yield f"{mode}-whole", [x, i32([3, 3], [0, 0])], attrs
        yield f"{mode}-too-far", [x, i32([4, 0], [0, 0])], attrs
        yield f"{mode}-negative", [x, i32([-1, 0], [0, 0])], attrs
        if dtype in WIDE:
            own = {**_GOOD, "second": True, "tolerance": SUM}
            yield f"{mode}-grad", [noise(dtype, 3, 4), i32([1, 2], [0, 3])], attrs, own


def _foldings(dtype: str) -> Iterator[Any]:
    for mode in ("REFLECT", "SYMMETRIC"):
        attrs = {"mode": mode}
        yield f"{mode}-both", [ramp(dtype, 6, 7), i32([1, 2], [0, 3])], attrs
        yield f"{mode}-int64", [ramp(dtype, 6, 7), i64([2, 0], [1, 1])], attrs
        yield f"{mode}-whole", [ramp(dtype, 6, 1), i32([2, 2], [0, 0])], attrs
        yield f"{mode}-too-far", [ramp(dtype, 6, 1), i32([3, 2], [0, 0])], attrs
        if dtype in WIDE:
            yield f"{mode}-grad", [noise(dtype, 6, 7), i32([1, 2], [0, 3])], attrs, {**_GOOD, "tolerance": SUM}


def _reversals(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 3, 4)
    for axes in ([0], [1, 2], [-1], [0, 0], [3]):
        yield f"axes{axes}", [x, i32(*axes)]
    yield "int64", [x, i64(0)]
    yield "no-axes", [x, np.zeros(0, np.int32)]
    yield "empty", [ramp(dtype, 0, 3), i32(0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), i32(1)], {}, _GOOD


def _broadcasts(dtype: str) -> Iterator[Any]:
    for shape, to in (
        ((3,), [2, 3]), ((2, 1), [2, 3]), ((), [2, 2]), ((1,), [0]), ((0, 1), [0, 3]), ((2,), [3]), ((2, 3), [3])
    ):  # fmt: skip
        x = ramp(dtype, *shape) if shape else ramp(dtype, 1).reshape(())
        yield f"{shape}to{to}", [x, i32(*to)]
    yield "int64", [ramp(dtype, 3), i64(2, 3)]
    yield "to-scalar", [ramp(dtype, 1).reshape(()), np.zeros(0, np.int32)]
    yield "negative", [ramp(dtype, 1), i32(-1, 1)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 1), i32(2, 3, 4)], {}, {**_GOOD, "tolerance": SUM}


def _sequences(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 4, 2)
    yield "rows", [x, i64(2, 4, 0)], {"seq_dim": 1, "batch_dim": 0}
    yield "int32", [x, i32(1, 3, 4)], {"seq_dim": 1, "batch_dim": 0}
    yield "columns", [x, i64(2, 3, 1, 0)], {"seq_dim": 0, "batch_dim": 1}
    yield "last", [x, i64(2, 0)], {"seq_dim": 1, "batch_dim": 2}
    yield "empty", [ramp(dtype, 0, 4), np.zeros(0, np.int64)], {"seq_dim": 1, "batch_dim": 0}
    yield "too-long", [x, i64(2, 5, 0)], {"seq_dim": 1, "batch_dim": 0}
    yield "negative", [x, i64(2, -1, 0)], {"seq_dim": 1, "batch_dim": 0}
    yield "mismatch", [x, i64(2, 1)], {"seq_dim": 1, "batch_dim": 0}
    yield "same-axis", [x, i64(2, 1, 0)], {"seq_dim": 0, "batch_dim": 0}
    yield "bad-axis", [x, i64(2, 1, 0)], {"seq_dim": 3, "batch_dim": 0}
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 4, 2), i64(2, 4, 0)], {"seq_dim": 1, "batch_dim": 0}, {**_GOOD, "second": True}


cases("ReverseSequence", ALL, _sequences)
cases(
    "ConjugateTranspose",
    COMPLEX,
    lambda d: [("axes", [noise(d, 2, 3, 4), i32(2, 0, 1)], {}, {"grad": True}), ("wrong", [noise(d, 2, 3), i32(0)])],
)
cases("Transpose", ALL, _transposes)
cases("Tile", ALL, _tiles)
cases("Pad", ALL, _pads)
cases("PadV2", ALL, _valued_pads)
cases("MirrorPad", ALL, _mirrors)
cases("MirrorPadGrad", NUMBERS, _foldings, SUM)
cases("ReverseV2", ALL, _reversals)
cases("BroadcastTo", ALL, _broadcasts)


def _permutations(dtype: str) -> Iterator[Any]:
    for values in ([2, 0, 1], [0], [], [0, 0], [1, 2], [-1, 0]):
        yield str(values), [np.array(values, np_dtype(dtype))]
    yield "matrix", [np.array([[0, 1]], np_dtype(dtype))]


cases("InvertPermutation", ("int32", "int64"), _permutations)


def _joined(dtype: str) -> Iterator[Any]:
    words = strings("a", "", "c")
    yield "two", [[words, strings("x", "y", "z")]], {"separator": ""}
    yield "separator", [[words, strings("x", "y", "z")]], {"separator": "--"}
    yield "scalar", [[words, np.array(b"!", object)]], {"separator": "."}
    yield "scalars", [[np.array(b"?", object), np.array(b"!", object)]], {"separator": "."}
    yield "empty", [[strings(), strings()]], {"separator": ","}
    yield "one", [[words]], {"separator": ","}
    yield "mismatch", [[words, strings("x", "y")]], {"separator": ","}


cases("StringJoin", ("string",), _joined)
cases(
    "ShardedFilename",
    ("string",),
    lambda d: [("name", [np.array(b"/tmp/model", object), s32(i), s32(12)]) for i in (0, 3, 11)],
)
