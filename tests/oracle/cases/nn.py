"""Biases, softmax and its losses, the k largest, random values' shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import FLOATS, NUMBERS, REAL, WIDE, i32, i64, noise, np_dtype, ramp, s32, special
from tests.oracle.compare import FUNCTION_SUM, SUM

_GOOD = {"grad": True, "second": True}


def _biases(dtype: str) -> Iterator[Any]:
    yield "matrix", [ramp(dtype, 2, 3), ramp(dtype, 3)]
    for form in ("NHWC", "NCHW"):
        channels = 4 if form == "NHWC" else 2
        yield f"{form}-4", [ramp(dtype, 2, 2, 3, 4), ramp(dtype, channels)], {"data_format": form}
        yield f"{form}-3", [ramp(dtype, 2, 2, 4), ramp(dtype, channels)], {"data_format": form}
        yield f"{form}-5", [ramp(dtype, 2, 2, 1, 3, 4), ramp(dtype, channels)], {"data_format": form}
        if dtype in WIDE:
            yield f"{form}-grad", [noise(dtype, 2, 2, 3, 4), noise(dtype, channels)], {"data_format": form}, _GOOD
    yield "empty", [ramp(dtype, 0, 3), ramp(dtype, 3)]
    yield "mismatch", [ramp(dtype, 2, 3), ramp(dtype, 2)]
    yield "vector", [ramp(dtype, 3), ramp(dtype, 3)]
    yield "matrix-bias", [ramp(dtype, 2, 3), ramp(dtype, 1, 3)]
    yield "bad-format", [ramp(dtype, 2, 3), ramp(dtype, 3)], {"data_format": "HWCN"}


def _bias_grads(dtype: str) -> Iterator[Any]:
    yield "matrix", [ramp(dtype, 2, 3)]
    for form in ("NHWC", "NCHW"):
        yield f"{form}-4", [ramp(dtype, 2, 2, 3, 4)], {"data_format": form}
        if dtype in WIDE:
            yield f"{form}-grad", [noise(dtype, 2, 2, 3, 4)], {"data_format": form}, _GOOD
    yield "empty", [ramp(dtype, 0, 3)]
    yield "vector", [ramp(dtype, 3)]


cases("BiasAdd", NUMBERS, _biases, SUM)
cases("BiasAddGrad", NUMBERS, _bias_grads, SUM)


def _rows(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 5)
    yield "matrix", [x]
    yield "vector", [ramp(dtype, 4)]
    yield "cube", [ramp(dtype, 2, 3, 4)]
    yield "one-class", [ramp(dtype, 3, 1)]
    yield "large", [np.array([[60000, -60000, 0], [1e4, 1e4, 1e4]]).astype(np_dtype(dtype))]
    yield "infinite", [np.array([[1, -np.inf, 2], [-np.inf, 0, -np.inf]], np_dtype(dtype))]
    yield "nan", [np.array([[1, np.nan, 2], [0, 1, 2]], np_dtype(dtype))]
    yield "plus-inf", [np.array([[1, np.inf, 2], [0, 1, 2]], np_dtype(dtype))]
    yield "empty", [ramp(dtype, 0, 3)]
    yield "no-classes", [ramp(dtype, 3, 0)]
    yield "scalar", [ramp(dtype, 1).reshape(())]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 5)], {}, _GOOD


cases("Softmax", FLOATS, _rows, FUNCTION_SUM)
cases("LogSoftmax", FLOATS, _rows, FUNCTION_SUM)


def _entropies(dtype: str) -> Iterator[Any]:
    labels = np.array([[0, 1, 0], [0.25, 0.25, 0.5]], np_dtype(dtype))
    yield "rows", [ramp(dtype, 2, 3), labels]
    yield "broadcast-labels", [ramp(dtype, 2, 3), labels[1:]]
    yield "broadcast-logits", [ramp(dtype, 1, 3), labels]
    yield "large", [np.array([[6e4, -6e4, 0], [100, 0, -100]]).astype(np_dtype(dtype)), labels]
    yield "minus-inf", [np.array([[-np.inf, 1, 2], [0, 1, -np.inf]], np_dtype(dtype)), labels]
    yield "nan", [np.array([[np.nan, 1, 2], [0, 1, 2]], np_dtype(dtype)), labels]
    yield "empty", [ramp(dtype, 0, 3), ramp(dtype, 0, 3)]
    yield "mismatch", [ramp(dtype, 2, 3), ramp(dtype, 2, 2)]
    yield "vector", [ramp(dtype, 3), ramp(dtype, 3)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 2, 3), labels], {}, _GOOD


def _sparse_entropies(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 4)
    yield "rows", [x, i64(0, 3, 1)]
    yield "int32", [x, i32(0, 3, 1)]
    yield "large", [np.array([[6e4, -6e4, 0], [100, 0, -100]]).astype(np_dtype(dtype)), i64(1, 2)]
    yield "minus-inf", [np.array([[-np.inf, 1, 2], [0, 1, -np.inf]], np_dtype(dtype)), i64(1, 2)]
    yield "empty", [ramp(dtype, 0, 4), np.zeros(0, np.int64)]
    yield "too-large", [x, i64(0, 4, 1)]
    yield "negative", [x, i64(0, -1, 1)]
    yield "mismatch", [x, i64(0, 1)]
    yield "vector", [ramp(dtype, 3), i64(0)]
    yield "no-classes", [ramp(dtype, 3, 0), i64(0, 0, 0)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 4), i64(0, 3, 1)], {}, _GOOD


cases("SoftmaxCrossEntropyWithLogits", FLOATS, _entropies, FUNCTION_SUM)
cases("SparseSoftmaxCrossEntropyWithLogits", FLOATS, _sparse_entropies, FUNCTION_SUM)


def _largest(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 3, 5)
    for k in (0, 1, 3, 5, 6, -1):
        yield f"k{k}", [x, s32(k)]
    yield "vector", [ramp(dtype, 6), s32(2)]
    yield "ties", [np.array([[1, 3, 3, 0, 3]], np_dtype(dtype)), s32(4)]
    yield "special", [special(dtype)[~np.isnan(special(dtype).astype(np.float64))], s32(6)]
    yield "empty", [ramp(dtype, 0, 3), s32(2)]
    yield "scalar", [ramp(dtype, 1).reshape(()), s32(0)]
    yield "vector-k", [x, i32(1, 2)]
    if dtype in WIDE:
        yield "grad", [noise(dtype, 3, 5), s32(2)], {}, {"grad": True, "tolerance": SUM}


cases("TopKV2", REAL, _largest)


def _hits(dtype: str) -> Iterator[Any]:
    x = np.array([[0.1, 0.7, 0.2, 0.2], [0.5, 0.5, 0.5, 0.1], [np.nan, 1, 2, 3], [1, np.inf, 2, 3]], np.float32)
    for targets in ([1, 0, 1, 1], [2, 3, 0, 0], [3, 1, 3, 2], [-1, 4, 7, -3]):
        yield str(targets), [x, np.array(targets, dtype)]
    yield "empty", [x[:0], np.zeros(0, dtype)]
    yield "mismatch", [x, np.array([0, 1], dtype)]


for _k in (0, 1, 2, 9):
    cases("InTopK", ("int32", "int64"), lambda d, k=_k: [(f"{c[0]}-{k}", c[1], {"k": k}) for c in _hits(d)])
    cases("InTopKV2", ("int32", "int64"), lambda d, k=_k: [(f"{c[0]}-{k}", [*c[1], np.array(k, d)]) for c in _hits(d)])
