"""Sets along the last axis, and floats rounded to a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import WIDE, i64, noise, np_dtype, strings
from tests.oracle.compare import ROUNDED, SAME, SUM

_KINDS = ("intersection", "union", "a-b", "b-a")


def _values(dtype: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if dtype == "string":
        return strings(*map(str, array.reshape(-1))).reshape(array.shape)
    return array.astype(np_dtype(dtype))


def _dense(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a = _values(dtype, [[[1, 2, 2], [5, 3, 9]], [[7, 7, 7], [0, 1, 2]]])
    return a, _values(dtype, [[[2, 4], [9, 5]], [[1, 3], [2, 2]]])


def _sparse(dtype: str) -> list[np.ndarray]:
    where = i64([0, 0, 0], [0, 0, 2], [0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 3])
    return [where, _values(dtype, [2, 1, 3, 7, 2, 2]), i64(2, 2, 4)]


def _dense_dense(dtype: str) -> Iterator[Any]:
    a, b = _dense(dtype)
    for kind in _KINDS:
        yield kind, [a, b], {"set_operation": kind}
    yield "empty", [a[:0], b[:0]], {"set_operation": "union"}
    yield "kind", [a, b], {"set_operation": "xor"}
    yield "shapes", [a, b[:1]], {"set_operation": "union"}
    yield "vector", [a[0, 0], b[0, 0]], {"set_operation": "union"}


def _dense_sparse(dtype: str) -> Iterator[Any]:
    a, _ = _dense(dtype)
    for kind in _KINDS:
        yield kind, [a, *_sparse(dtype)], {"set_operation": kind}
    yield "groups", [a[:, :1], *_sparse(dtype)], {"set_operation": "union"}


def _sparse_sparse(dtype: str) -> Iterator[Any]:
    own = _sparse(dtype)
    other = [i64([0, 0, 1], [1, 1, 0], [1, 1, 1]), _values(dtype, [1, 2, 8]), i64(2, 2, 2)]
    for kind in _KINDS:
        yield kind, [*own, *other], {"set_operation": kind}
    yield "groups", [*own, *other[:2], i64(3, 2, 2)], {"set_operation": "union"}
    yield "outside", [*own, *other[:2], i64(1, 2, 2)], {"set_operation": "union"}
    yield "order", [own[0][::-1].copy(), *own[1:], *other], {"set_operation": "union"}


def _sizes(dtype: str) -> Iterator[Any]:
    yield "some", _sparse(dtype)


for _op, _make in (
    ("DenseToDenseSetOperation", _dense_dense), ("DenseToSparseSetOperation", _dense_sparse),
    ("SparseToSparseSetOperation", _sparse_sparse), ("SetSize", _sizes),
):  # fmt: skip
    cases(_op, ("int32", "int64", "uint8", "string"), _make)

# ---------------------------------------------------------------------- few bits

_X = (noise("float32", 4, 5) * 4).astype(np.float32)
_BOUNDS = [(-2.0, 3.0), (0.0, 4.0), (-3.0, -0.0), (1.0, 3.0), (0.0, 0.0)]


def _f(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def _args(dtype: str) -> Iterator[Any]:
    for low, high in _BOUNDS[:3]:
        for bits, narrow in ((8, False), (3, True)):
            attrs = {"min": low, "max": high, "num_bits": bits, "narrow_range": narrow}
            yield f"{low}{high}{bits}", [_X], attrs, {"grad": True}
    yield "bits", [_X], {"num_bits": 1}
    yield "order", [_X], {"min": 2.0, "max": 1.0}


def _vars(dtype: str) -> Iterator[Any]:
    for low, high in _BOUNDS:
        for bits, narrow in ((8, False), (3, True)):
            yield (
                f"{low}{high}{bits}",
                [_X, _f(low), _f(high)],
                {"num_bits": bits, "narrow_range": narrow},
                {"grad": True},
            )
    yield "vector", [_X, _f([1.0]), _f(2.0)]


def _channels(dtype: str) -> Iterator[Any]:
    low, high = _f([-1, -2, 0, -3, 0]), _f([1, 2, 3, -1, 0])
    for x in (_X, _X[0], _X.reshape(2, 2, 5)):
        yield f"{x.ndim}", [x, low, high], {}, {"grad": True}
    yield "few", [_X, low[:4], high]


def _gradients(*more: Any) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        yield "some", [noise(dtype, 4, 5, seed=5), _X, *more], {"num_bits": 4}
        yield "shapes", [noise(dtype, 4, 4, seed=5), _X, *more], {"num_bits": 4}

    return make


def _there_and_back(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 4, 5) * 4
    low, high = np.array(-2, dtype), np.array(5, dtype)
    for given in (True, False):
        for signed in (True, False):
            for mode in ("HALF_TO_EVEN", "HALF_UP"):
                attrs = {"range_given": given, "signed_input": signed, "num_bits": 5, "round_mode": mode}
                yield f"{given}{signed}{mode}", [x, low, high], attrs
    yield "narrow", [x, low, high], {"narrow_range": True, "range_given": True}, {"grad": True}
    along = [x, np.linspace(-1, -3, 4).astype(dtype), np.linspace(1, 4, 4).astype(dtype)]
    yield "axis-own", along, {"axis": 0, "range_given": False}
    yield "order", [x, high, low], {"range_given": True}


def _there_and_back_grads(dtype: str) -> Iterator[Any]:
    yield "some", [noise(dtype, 4, 5), noise(dtype, 4, 5, seed=3), np.array(-0.5, dtype), np.array(0.7, dtype)]


cases("FakeQuantWithMinMaxArgs", ("float32",), _args, ROUNDED)
cases("FakeQuantWithMinMaxVars", ("float32",), _vars, ROUNDED)
cases("FakeQuantWithMinMaxVarsPerChannel", ("float32",), _channels, ROUNDED)
cases("FakeQuantWithMinMaxArgsGradient", ("float32",), _gradients(), SUM)
cases("FakeQuantWithMinMaxVarsGradient", ("float32",), _gradients(_f(-2.0), _f(1.0)), SUM)
_EACH = (_f([-1, -2, 0, -3, 0]), _f([1, 2, 3, -1, 0]))
cases("FakeQuantWithMinMaxVarsPerChannelGradient", ("float32",), _gradients(*_EACH), SUM)
cases("QuantizeAndDequantizeV2", WIDE, _there_and_back, ROUNDED)
cases("QuantizeAndDequantizeV4", WIDE, _there_and_back, ROUNDED)
cases("QuantizeAndDequantizeV4Grad", WIDE, _there_and_back_grads, SAME)
