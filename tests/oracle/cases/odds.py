"""Small ops of arrays, Bessel's functions, neighbouring floats, strings in other encodings."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.tensor_proto import make_tensor_proto
from tests.oracle.cases.table import cases
from tests.oracle.cases.values import ALL, WIDE, i32, noise, ramp, s32, strings
from tests.oracle.compare import EXACT, Tolerance


def _shapes(dtype: str) -> Iterator[Any]:
    yield "three", [[ramp(dtype, 2, 3), ramp(dtype, 4), ramp(dtype)]]
    yield "wide", [[ramp(dtype, 2, 3)]], {"out_type": as_dtype("int64")}


def _one(dtype: str) -> Iterator[Any]:
    yield "matrix", [ramp(dtype, 2, 3)]
    yield "scalar", [ramp(dtype)]


def _protos(dtype: str) -> Iterator[Any]:
    attrs = {"out_type": as_dtype(dtype)}
    for label, shape in (("matrix", (2, 3)), ("scalar", ()), ("empty", (0, 2))):
        yield label, [np.array(make_tensor_proto(ramp(dtype, *shape)).SerializeToString(), object)], attrs
    yield "other", [np.array(make_tensor_proto(ramp("int16", 2)).SerializeToString(), object)], attrs
    yield "broken", [np.array(b"\xff\xff", object)], attrs


def _packed(dtype: str) -> Iterator[Any]:
    text = b"some text, some text"
    for kind, raw in (("", text), ("ZLIB", zlib.compress(text)), ("GZIP", gzip.compress(text))):
        out = np.empty(2, object)
        out[:] = [raw, raw]
        yield f"kind{kind}", [out], {"compression_type": kind}
    yield "broken", [strings("abc")], {"compression_type": "ZLIB"}
    yield "unknown", [strings("abc")], {"compression_type": "LZ"}


def _rows(dtype: str) -> Iterator[Any]:
    method = np.array(b"farmhash64", object)
    for dims in ((3,), (2, 3), (2, 1), (1, 2, 40)):
        yield f"rows{len(dims)}", [ramp(dtype, *dims), method]
    yield "no-rows", [ramp(dtype, 2, 3)[:0], method]
    yield "scalar", [ramp(dtype), method]
    yield "other", [ramp(dtype, 2), np.array(b"md5", object)]


def _bessel(dtype: str) -> Iterator[Any]:
    x = np.array([0, 1e-3, 0.5, -0.7, 3, -8, 15, 29.5, -31, 60], dtype)
    yield "some", [x]
    yield "slope", [x[1:7]], {}, {"grad": True}
    yield "ends", [np.array([np.inf, -np.inf, np.nan, 500], dtype)]


def _decaying(dtype: str) -> Iterator[Any]:
    """Where some functions have a pole at 0, and are not defined below."""
    x = np.array([1e-3, 0.3, 0.99, 1.01, 1.6, 3, 8, 12, 15, 24.9, 25.1, 38, 60], dtype)
    yield "some", [x]
    yield "slope", [x[1:9]], {}, {"grad": True, "tolerance": Tolerance(256, floor=0.1)}
    yield "ends", [np.array([0, -1, np.nan] if dtype == "float64" else [-1, np.nan], dtype)]


def _next(dtype: str) -> Iterator[Any]:
    yield "some", [np.array([0, 1, -1, np.inf, np.nan], dtype), np.array([1, 0, -2, 0, 0], dtype)]
    yield "broadcast", [noise(dtype, 3, 1), noise(dtype, 4)], {}, {"grad": True}


def _joined(dtype: str) -> Iterator[Any]:
    x = strings("a", "b", "c", "d", "e", "f")
    yield "vector", [x, i32(1, 0, 1, 3, 0, 1), s32(4)], {"separator": "-"}
    yield "matrix", [x.reshape(3, 2), i32(1, 0, 1), s32(2)], {"separator": ","}
    yield "pairs", [x.reshape(3, 2), i32([1, 0], [1, 1], [0, 0]), s32(2)]
    yield "outside", [x, i32(1, 0, 1, 3, 0, 1), s32(3)]


def _coded(dtype: str) -> Iterator[Any]:
    x = np.empty(4, object)
    x[:] = ["aäß😀".encode(), b"", b"a\xffb", b"x\x01\x1fy\n"]
    for errors in ("replace", "ignore", "strict"):
        for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
            attrs = {"input_encoding": "UTF-8", "output_encoding": target, "errors": errors}
            yield f"{errors}{target}", [x], attrs
    plain = {"input_encoding": "UTF-8", "output_encoding": "UTF-8"}
    yield "char", [x], {**plain, "replacement_char": 63}
    yield "controls", [x], {**plain, "replace_control_characters": True}
    yield "wide", [np.array("ab".encode("utf-16-be"), object)], {**plain, "input_encoding": "UTF-16-BE"}
    yield "unknown", [x], {**plain, "input_encoding": "nonsense"}


cases("ShapeN", ("float32", "string"), _shapes)
cases("GuaranteeConst", WIDE, _one)
cases("SerializeTensor", ("float32", "int64"), _one)
cases("ParseTensor", tuple(d for d in ALL if d not in ("uint32", "uint64")), _protos)
cases("DecodeCompressed", ("string",), _packed)
cases("Fingerprint", ALL, _rows)
for _op in ("BesselI0", "BesselI0e", "BesselI1", "BesselI1e"):
    cases(_op, WIDE, _bessel, Tolerance(64))
for _op in ("BesselJ0", "BesselJ1", "BesselY0", "BesselY1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e"):
    cases(_op, WIDE, _decaying, Tolerance(64, floor=0.1))
for _op in ("Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence"):
    cases(_op, WIDE, _decaying, Tolerance(64, floor=0.1))
cases("NextAfter", WIDE, _next, EXACT)
cases("UnsortedSegmentJoin", ("string",), _joined)
cases("UnicodeTranscode", ("string",), _coded)
