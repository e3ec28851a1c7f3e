"""Sparse tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import WIDE, i32, i64, noise, np_dtype, ramp
from tests.oracle.compare import Tolerance

_GOOD = {"grad": True}
_SUM = Tolerance(64, scaled=True)
AT = i64([0, 1], [1, 0], [1, 3], [3, 2])
SHAPE = i64(4, 5)
AT3 = i64([0, 0, 1], [0, 1, 0], [2, 0, 0])
_SOME = ("float32", "float64", "int32", "int64")


def _own(dtype: str) -> dict[str, Any]:
    return _GOOD if dtype in WIDE else {}


def _products(dtype: str) -> Iterator[Any]:
    v = noise(dtype, 4) if dtype in WIDE else ramp(dtype, 4)
    for fa in (False, True):
        for fb in (False, True):
            b = ramp(dtype, *((2, 4 if fa else 5) if fb else (4 if fa else 5, 2)))
            yield f"{fa}{fb}", [AT, v, SHAPE, b], {"adjoint_a": fa, "adjoint_b": fb}, _own(dtype)
    yield "none", [AT[:0], v[:0], SHAPE, ramp(dtype, 5, 2)]
    yield "mismatch", [AT, v, SHAPE, ramp(dtype, 4, 2)]
    yield "outside", [AT + 3, v, SHAPE, ramp(dtype, 5, 2)]


def _densed(dtype: str) -> Iterator[Any]:
    text = dtype == "string"
    v, nothing = ramp(dtype, 4), np.array(b"" if text else 0, np_dtype(dtype))
    own = _own(dtype)
    yield "matrix", [AT, SHAPE, v, nothing], {}, own
    yield "vector", [i64(1, 3), i64(5), v[:2], nothing]
    yield "int32", [AT.astype(np.int32), i32(4, 5), v, nothing]
    yield "one-value", [AT, SHAPE, v[0].reshape(()) if not text else np.array(v[0], object), nothing]
    yield "out-of-order", [AT[::-1].copy(), SHAPE, v, nothing]
    yield "unchecked", [AT[::-1].copy(), SHAPE, v, nothing], {"validate_indices": False}
    yield "outside", [AT + 3, SHAPE, v, nothing]
    yield "none", [AT[:0], SHAPE, v[:0], nothing]


def _ordered(dtype: str) -> Iterator[Any]:
    order = [2, 0, 3, 1]
    yield "mixed", [AT[order], ramp(dtype, 4), SHAPE], {}, _own(dtype)
    yield "empty", [AT[:0], ramp(dtype, 0), SHAPE]


def _two(dtype: str) -> list[np.ndarray]:
    return [AT, ramp(dtype, 4), SHAPE, i64([0, 0], [1, 3], [3, 4]), ramp(dtype, 3, seed=3), SHAPE]


def _sums(dtype: str) -> Iterator[Any]:
    for limit in (0, 1):
        yield f"thresh{limit}", [*_two(dtype), np.array(limit, dtype)], {}, _own(dtype)
    yield "mismatch", [*_two(dtype)[:5], i64(4, 6), np.array(0, dtype)]


cases("SparseTensorDenseMatMul", _SOME, _products, _SUM)
cases("SparseToDense", (*_SOME, "string", "bool"), _densed)
cases("SparseReorder", (*_SOME, "string"), _ordered)
cases("SparseAdd", _SOME, _sums)
cases("SparseAddGrad", WIDE, lambda d: [("some", [ramp(d, 3), AT, AT[1:3], i64([0, 1], [1, 0], [3, 2])])])
cases("SparseTensorDenseAdd", _SOME, lambda d: [("some", [AT, ramp(d, 4), SHAPE, ramp(d, 4, 5)], {}, _own(d))])
for _kind in ("Maximum", "Minimum"):
    cases(f"SparseSparse{_kind}", _SOME, lambda d: [("some", _two(d))])
for _kind in ("Add", "Mul", "Div"):
    cases(
        f"SparseDenseCwise{_kind}",
        _SOME,
        lambda d, k=_kind: [
            (
                f"{s}",
                [AT, ramp(d, 4) + np_dtype(d).type(9), SHAPE, ramp(d, *s) * 2 + np_dtype(d).type(41)],
                {},
                _own(d) if k != "Add" else {},
            )
            for s in ((4, 5), (1, 5), (4, 1))
        ],
    )


def _reduced(dtype: str) -> Iterator[Any]:
    for axes in ([0], [1], [-1], [0, 1], []):
        for keep in (False, True):
            at = np.array(axes, np.int32)
            yield f"{axes}{keep}", [AT, ramp(dtype, 4), SHAPE, at], {"keep_dims": keep}, {}
    yield "rank3", [AT3, ramp(dtype, 3), i64(3, 2, 2), i32(1, 2)]
    yield "outside", [AT, ramp(dtype, 4), SHAPE, i32(2)]
    if dtype in WIDE:
        yield "grad", [AT, noise(dtype, 4), SHAPE, i32(1)], {}, _GOOD


cases("SparseReduceSum", _SOME, _reduced)
cases("SparseReduceSumSparse", _SOME, lambda d: [c[:3] for c in _reduced(d)])
cases("SparseReduceMax", _SOME, lambda d: [c[:3] for c in _reduced(d)])
cases("SparseReduceMaxSparse", _SOME, lambda d: [c[:3] for c in _reduced(d)])


def _joined(dtype: str) -> Iterator[Any]:
    v, w = ramp(dtype, 4), ramp(dtype, 2, seed=5)
    for axis in (0, 1, -1):
        other = i64(4, 3) if axis else i64(2, 5)
        yield f"axis{axis}", [[AT, i64([0, 2], [1, 1])], [v, w], [SHAPE, other]], {"concat_dim": axis}
    yield "mismatch", [[AT, AT[:2]], [v, w], [SHAPE, i64(3, 6)]], {"concat_dim": 0}


def _sliced(dtype: str) -> Iterator[Any]:
    for start, size in (([0, 0], [4, 5]), ([1, 0], [2, 4]), ([1, 1], [9, 9]), ([3, 3], [1, 1])):
        yield f"{start}{size}", [AT, ramp(dtype, 4), SHAPE, i64(*start), i64(*size)], {}, _own(dtype)


cases("SparseConcat", (*_SOME, "string"), _joined)
cases("SparseSlice", _SOME, _sliced)
cases("SparseSliceGrad", WIDE, lambda d: [("some", [ramp(d, 2), AT, i64(1, 0), i64([0, 0], [2, 2])])])
cases(
    "SparseReshape",
    ("int64",),
    lambda d: [(f"{s}", [AT, SHAPE, i64(*s)]) for s in ([5, 4], [-1, 2], [20], [2, 2, 5], [3, 7], [-1, -1])],
)
cases(
    "SparseSoftmax",
    WIDE,
    lambda d: [
        ("matrix", [AT, noise(d, 4), SHAPE], {}, {"grad": True, "tolerance": _SUM}),
        ("rank3", [AT3, noise(d, 3), i64(3, 2, 2)]),
    ],
    _SUM,
)


def _filled(dtype: str) -> Iterator[Any]:
    default = np.array(b"?" if dtype == "string" else 7, np_dtype(dtype))
    yield "some", [AT, ramp(dtype, 4), SHAPE, default], {}, _own(dtype)
    yield "none", [AT[:0], ramp(dtype, 0), SHAPE, default]
    yield "full", [i64([0, 0], [1, 0]), ramp(dtype, 2), i64(2, 2), default]


cases("SparseFillEmptyRows", (*_SOME, "string"), _filled)
cases("SparseFillEmptyRowsGrad", WIDE, lambda d: [("some", [i64(0, 2, 3), ramp(d, 5)])])
