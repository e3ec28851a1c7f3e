"""Kernels that keep SparseTensors as strings: three TensorProtos, of indices, values and shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import on_host
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.dtypes import DType, as_dtype, string
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import TensorProto
from sparkflow_runtime.wire.tensor_proto import as_bytes, make_ndarray, shape_proto
from sparkflow_runtime.wire.varints import with_lengths, without_lengths


def _written(array: np.ndarray, dtype: DType) -> bytes:
    """As TensorFlow writes it: the elements' bytes; of strings their lengths, then they themselves."""
    proto = TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape_proto(array.shape))
    if dtype == string:
        proto.tensor_content = with_lengths(map(as_bytes, array.reshape(-1).tolist()))
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return proto.SerializeToString()


def _read(raw: bytes, what: str, dtype: DType) -> np.ndarray:
    try:
        proto = TensorProto.FromString(raw)
        if as_dtype(proto.dtype) != dtype:
            raise InvalidArgumentError(
                f"a serialized SparseTensor has {what} of type {proto.dtype}, and {dtype.name} was asked for"
            )
        if dtype != string or not proto.tensor_content:
            return make_ndarray(proto)
        dims = [d.size for d in proto.tensor_shape.dim]
        elements = without_lengths(proto.tensor_content, prod(dims))
        return np.fromiter(elements, object, len(elements)).reshape(dims)
    except (DecodeError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"a serialized SparseTensor's {what} cannot be read: {error}") from None


_INT64 = as_dtype(np.int64)


def _three(indices: np.ndarray, values: np.ndarray, shape: np.ndarray, dtype: DType) -> list[bytes]:
    return [_written(indices, _INT64), _written(values, dtype), _written(shape, _INT64)]


def _checked(op: str, indices: Any, values: Any, shape: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = host(indices), host(values), host(shape)
    counts = [a.shape for a in found]
    if [len(c) for c in counts] != [2, 1, 1] or counts[0] != (*counts[1], *counts[2]):
        raise InvalidArgumentError(
            f"{op}: Input indices, values and shape must be [n, rank], [n] and [rank], got {[list(c) for c in counts]}"
        )
    return found


@on_host("SerializeSparse")
def _serialize(xp: Any, indices: Any, values: Any, shape: Any, *, T: DType, out_type: DType = string) -> Any:
    out = np.empty(3, object)
    out[:] = _three(*_checked("SerializeSparse", indices, values, shape), T)
    return out


@on_host("SerializeManySparse")
def _serialize_many(xp: Any, indices: Any, values: Any, shape: Any, *, T: DType, out_type: DType = string) -> Any:
    places, elements, dims = _checked("SerializeManySparse", indices, values, shape)
    if len(dims) < 2:
        raise InvalidArgumentError(
            f"SerializeManySparse: a SparseTensor of rank 2 or more is wanted, got one of rank {len(dims)}"
        )
    count = int(dims[0])
    rows = places[:, 0]
    if len(rows) and (rows.min() < 0 or rows.max() >= count or (np.diff(rows) < 0).any()):
        raise InvalidArgumentError(f"SerializeManySparse: the first indices must rise, within [0, {count})")
    begins = np.searchsorted(rows, np.arange(count + 1))
    out = np.empty((count, 3), object)
    for i in range(count):
        own = slice(begins[i], begins[i + 1])
        out[i] = _three(places[own, 1:], elements[own], dims[1:], T)
    return out


@on_host("DeserializeManySparse", multi=True)
def _deserialize_many(xp: Any, serialized: Any, *, dtype: DType) -> Any:
    rows = texts(serialized)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise InvalidArgumentError(
            f"DeserializeManySparse: three strings for each SparseTensor are wanted, got shape {list(rows.shape)}"
        )
    if not len(rows):
        raise InvalidArgumentError("DeserializeManySparse: no SparseTensor is given, so that their rank is not known")
    places, values, shapes = list[Any](), list[Any](), list[Any]()
    for i, (a, b, c) in enumerate(rows.tolist()):
        found = _read(a, "indices", _INT64), _read(b, "values", dtype), _read(c, "shape", _INT64)
        if shapes and len(found[2]) != len(shapes[0]):
            raise InvalidArgumentError(
                f"DeserializeManySparse: SparseTensor {i} has rank {len(found[2])}, those before it {len(shapes[0])}"
            )
        places.append(np.concatenate([np.full((len(found[0]), 1), i, np.int64), found[0]], 1))
        values.append(found[1])
        shapes.append(found[2])
    shape = np.array([len(rows), *np.max(shapes, 0)], np.int64)
    return [np.concatenate(places), np.concatenate(values), shape]
