"""Inputs at the edges of ops, where random changes of the other cases once showed a difference."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import i32, strings

_EMPTY = np.empty((2, 0, 3), object)

cases("AsString", ("bool",), lambda d: [("wide", [np.array([True, False])], {"width": 8, "fill": "0"})])
cases(
    "UnsortedSegmentJoin",
    ("string",),
    lambda d: [
        ("first-empty", [strings("a", "", "c", "", "", "e", "", "x", ""), i32(1, 1, 1, 0, 0, 0, 2, 2, 3), i32(4)[0]],
         {"separator": "-"}),
    ],
)  # fmt: skip
cases(
    "StringSplitV2",
    ("string",),
    lambda d: [
        (f"to-the-end{n}", [strings("a b", " a b ", "a", "a b c", ""), np.array(b"", object)], {"maxsplit": n})
        for n in (1, 2, 3, -1)
    ],
)
cases("NthElement", ("float32",), lambda d: [("vector-n", [np.array([3, 1, 2], d), i32(2)])])
_LINES = np.array([[1, 2, 3]], np.float32), np.array([[np.nan, 0, 4]], np.float32)
for _op in ("LowerBound", "UpperBound"):
    cases(_op, ("float32",), lambda d: [("nan", list(_LINES))])
cases(
    "ReduceJoin",
    ("string",),
    lambda d: [
        (f"none{axes}{kept}", [_EMPTY, i32(*axes)], {"keep_dims": kept, "separator": "-"})
        for axes in ((0,), (1,), (2,), (1, 2))
        for kept in (True, False)
    ],
)
cases("InTopKV2", ("int32",), lambda d: [("no-classes", [np.zeros((3, 0), np.float32), i32(0, 1, 2), i32(1)[0]])])
cases("ConjugateTranspose", ("bool",), lambda d: [("bool", [np.ones((2, 3), bool), i32(1, 0)])])
for _value in (1, 0):
    cases(
        "SerializeTensor",
        ("bool", "int32", "float32", "float16", "bfloat16", "int64"),
        lambda d, v=_value: [(f"all-{v}", [np.full((2, 3), v).astype(d)])],
    )
