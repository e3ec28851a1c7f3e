"""Small kernels of arrays: tensors as bytes, the time."""

from __future__ import annotations

import gzip
import math
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel, on_host
from sparkflow_runtime.kernels.strings import each, texts
from sparkflow_runtime.records.fingerprints import fingerprints, fingerprints_of
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.wire.protos import TensorProto
from sparkflow_runtime.wire.tensor_proto import as_bytes, make_ndarray, make_tensor_proto

kernel("GuaranteeConst", aliases=True)(lambda xp, x: x)
kernel("ParallelConcat")(lambda xp, *values: xp.concatenate(values))


@bound("Timestamp")
def _timestamp(node: Node) -> Function:
    return lambda: np.array(time.time())


@on_host("SerializeTensor")
def _serialize(xp: Any, x: Any) -> Any:
    out = np.empty((), object)
    out[()] = make_tensor_proto(np.asarray(host(x)), short=False).SerializeToString()
    return out


@on_host("ParseTensor")
def _parse(xp: Any, serialized: Any, *, out_type: DType) -> Any:
    raw = as_bytes(texts(serialized).item())
    try:
        found = make_ndarray(TensorProto.FromString(raw))
    except (DecodeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"ParseTensor: these {len(raw)} bytes are no TensorProto: {error}") from None
    if found.dtype != out_type.np:
        raise InvalidArgumentError(f"ParseTensor: the tensor is {found.dtype}, but {out_type.name} was asked for")
    return xp.asarray(found) if found.dtype != object else found


@on_host("Fingerprint")
def _fingerprint(xp: Any, data: Any, method: Any) -> Any:
    kind = as_bytes(texts(method).item())
    if kind != b"farmhash64":
        raise InvalidArgumentError(f"Unsupported fingerprint method: {kind.decode(errors='replace')}")
    if data.ndim < 1:
        raise InvalidArgumentError("Fingerprint: data must have rank 1 or higher, got a scalar")
    rows = np.asarray(host(data))
    if rows.dtype == object:
        rows = fingerprints_of(texts(rows))
        if rows.size == len(rows):  # one in each row
            return rows.astype("<u8").view(np.uint8).reshape(-1, 8)
    width = rows.itemsize * math.prod(rows.shape[1:])
    raw = np.frombuffer(rows.tobytes(), np.uint8) if rows.size else np.empty(0, np.uint8)
    found = fingerprints(raw, np.arange(len(rows) + 1, dtype=np.int64) * width)
    return found.astype("<u8").view(np.uint8).reshape(-1, 8)


_COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "ZLIB": zlib.decompress, "GZIP": gzip.decompress}


@on_host("DecodeCompressed")
def _decompress(xp: Any, x: Any, *, compression_type: Any = "") -> Any:
    kind = compression_type.decode() if isinstance(compression_type, bytes) else compression_type
    if kind not in _COMPRESSIONS:
        raise InvalidArgumentError(f"Only ZLIB, GZIP or NONE are supported compressions, got {kind!r}")

    def one(text: bytes) -> bytes:
        try:
            return _COMPRESSIONS[kind](text)
        except (OSError, EOFError, zlib.error) as error:
            raise DataLossError(f"DecodeCompressed: not {kind} data: {error}") from None

    return each(x, one)
