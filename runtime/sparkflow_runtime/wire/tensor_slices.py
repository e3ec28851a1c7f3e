"""Checkpoints of TensorFlow's V1 format, the default before 1.0: the same Index is made of them as of later ones.

    <prefix>                    a sorted table: '' -> what there is, and for each slice of a tensor, under the key that
                                later indexes have of it, -> the slice with its values, as a message
    <prefix>-00000-of-00002     or one table for each task

A piece is such a message, which `values` reads: numbers of fixed length are where it has them, others are varints.

Source: tensorflow/core/util/saved_tensor_slice.proto, tensorflow/core/framework/tensor.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from sparkflow_runtime.wire import sorted_table
from sparkflow_runtime.wire.checkpoint import Dims, Entry, Index, Piece
from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.dtypes import DType, string
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.wire.tensor_bundle import dtype_name, slice_box, slice_key
from sparkflow_runtime.wire.varints import varint

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {"float32": (5, "<f4"), "float64": (6, "<f8"), "complex64": (9, "<f4"), "complex128": (12, "<f8")}
"""dtype -> the field of TensorProto that has its numbers as they are, and what these are."""
_VARINTS = {
    "float16": 13, "bfloat16": 13, "int32": 7, "int16": 7, "int8": 7, "uint16": 7, "uint8": 7, "int64": 10, "bool": 11,
}  # fmt: skip
_STRINGS = 8

Span = tuple[int, int]


def decode(raw: Any, file: str, index: Index) -> None:
    """Add the tensors of the table in these bytes, those of `file`. Raises DataLossError where they are damaged."""
    try:
        rows = {key: (at, size) for key, at, size in sorted_table.places(raw)}
        start, size = rows[b""]
        for number, _, told in _fields(raw, start, start + size):
            if number == 1:
                for _, _, tensor in (f for f in _fields(raw, *told) if f[0] == 1):
                    _add(index, rows, raw, file, tensor)
    except (ValueError, KeyError, DecodeError, InvalidArgumentError) as error:
        text = "it does not say what it holds" if isinstance(error, KeyError) else str(error)
        raise DataLossError(f"{file} is no checkpoint of TensorFlow's V1 format, or is damaged: {text}") from None
    index.files[file] = len(raw)


def _add(index: Index, rows: dict[bytes, Span], raw: Any, file: str, tensor: Span) -> None:
    name, shape, kind, slices = "", TensorShapeProto(), 0, []
    for number, _, value in _fields(raw, *tensor):
        if number == 1:
            name = bytes(raw[slice(*value)]).decode()
        elif number == 2:
            shape = TensorShapeProto.FromString(bytes(raw[slice(*value)]))
        elif number == 3:
            kind = value
        elif number == 4:
            slices.append([_extent(raw, extent) for field, _, extent in _fields(raw, *value) if field == 1])
    dims, dtype = tuple(d.size for d in shape.dim), dtype_name(kind)
    index.entries.setdefault(name, Entry(dtype, dims))
    for extents in slices:
        begin, size = slice_box(name, dims, extents)
        row = rows.get(slice_key(name, extents))
        if row is None:
            raise ValueError(f"the slice {extents} of tensor {name!r} is not there")
        crc = crc32c(raw[row[0] : row[0] + row[1]])
        index.add(name, dtype, dims, Piece(file, name, begin, size, *row, crc))


def _extent(raw: Any, span: Span) -> tuple[int, int]:
    """Start and length; -1 where it is the whole dimension."""
    found = {number: value for number, _, value in _fields(raw, *span)}
    return found.get(1, 0), found.get(2, -1)


def _fields(raw: Any, at: int, end: int) -> Iterator[tuple[int, int, Any]]:
    """(number, kind, value) of a message's fields: the number that it is, or where its bytes are."""
    while at < end:
        tag, at = varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = varint(raw, at)
            yield number, kind, value
            continue
        if kind not in (_FIXED64, _LENGTH, _FIXED32):
            raise ValueError(f"byte {at} is no field of a message")
        size, at = varint(raw, at) if kind == _LENGTH else (8 if kind == _FIXED64 else 4, at)
        if at + size > end:
            raise ValueError(f"{size} bytes at byte {at} would reach beyond their message")
        yield number, kind, (at, at + size)
        at += size


def values(flat: np.ndarray, dtype: DType, size: Dims) -> np.ndarray:
    """The array that a piece's bytes hold. Raises ValueError where it has not so many values."""
    raw, count = flat.data, math.prod(size)
    [data] = [v for n, _, v in _fields(raw, 0, len(raw)) if n == 2] or [(0, 0)]
    [tensor] = [v for n, _, v in _fields(raw, *data) if n == 3] or [(0, 0)]
    found = list(_fields(raw, *tensor))
    if dtype is string:
        out = np.empty(count, object)
        out[:] = _as_many([bytes(raw[slice(*v)]) for n, _, v in found if n == _STRINGS], count)
        return out.reshape(size)
    if dtype.name in _FIXED:
        field, held = _FIXED[dtype.name]
        parts = [np.frombuffer(raw[slice(*v)], held) for n, _, v in found if n == field]
        numbers = (parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, held), *parts])).view(dtype.np)
        numbers = numbers if numbers.flags.aligned else numbers.copy()
    elif dtype.name in _VARINTS:
        of_field = [(kind, v) for n, kind, v in found if n == _VARINTS[dtype.name]]
        parts = [_numbers(flat[slice(*v)]) if kind == _LENGTH else np.array([v], np.uint64) for kind, v in of_field]
        numbers = _as(np.concatenate([np.empty(0, np.uint64), *parts]), dtype)
    else:
        raise ValueError(f"{dtype.name} is not known of that format")
    return _as_many(numbers, count).reshape(size)


def _as_many(found: Any, count: int) -> Any:
    if len(found) != count:
        raise ValueError(f"it has {len(found)} of {count} values")
    return found


def _as(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    if _VARINTS[dtype.name] == _VARINTS["float16"]:
        return numbers.astype(np.uint16).view(dtype.np)
    return numbers.astype(bool) if dtype.name == "bool" else numbers.view(np.int64).astype(dtype.np)


def _numbers(flat: np.ndarray) -> np.ndarray:
    """Varints, one after the other."""
    if not flat.size:
        return np.empty(0, np.uint64)
    last = np.flatnonzero(flat < 0x80)
    first = np.concatenate([[0], last[:-1] + 1])
    if not last.size or last[-1] != flat.size - 1 or (last - first > 9).any():
        raise ValueError("a number has no end")
    places = np.arange(flat.size) - np.repeat(first, last - first + 1)
    return np.add.reduceat((flat & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64), first)
