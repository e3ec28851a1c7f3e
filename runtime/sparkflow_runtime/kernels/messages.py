"""DecodeProto and EncodeProto: fields of protobuf messages of any type, as tensors.

The bytes are walked field by field, so that what is there is told from what is at its default: sizes count it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor as F

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import on_host
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # how a value lies in a message
_WORD = (1 << 64) - 1


class Kind(NamedTuple):
    """Of a field's type: how its values lie, the types of tensors that take them, and both ways of a value."""

    wire: int
    types: tuple[str, ...]
    read: Callable[[Any], Any]
    written: Callable[[Any], Any]


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits
    return lambda v: (v + half) % whole - half


def _folded(v: Any) -> int:
    """Small where v is near zero, whatever its sign."""
    return (int(v) << 1 ^ int(v) >> 63) & _WORD


def _unfolded(v: int) -> int:
    return (v >> 1) ^ -(v & 1)


def _kind(wire: int, types: str, read: Callable[[Any], Any] = int, written: Callable[[Any], Any] = int) -> Kind:
    return Kind(wire, tuple(types.split()), read, written)


def _fixed(wire: int, code: str, types: str) -> Kind:
    form = struct.Struct(f"<{code}")
    return Kind(wire, tuple(types.split()), lambda raw: form.unpack(raw)[0], form.pack)


_INT32 = _kind(_VARINT, "int32 int64", _signed(32), lambda v: int(v) & _WORD)
_TEXT = Kind(_BYTES, ("string",), bytes, as_bytes)
_KINDS = {
    F.TYPE_DOUBLE: _fixed(_FIXED64, "d", "float64"),
    F.TYPE_FLOAT: _fixed(_FIXED32, "f", "float32 float64"),
    F.TYPE_INT64: _kind(_VARINT, "int64", _signed(64), lambda v: int(v) & _WORD),
    F.TYPE_UINT64: _kind(_VARINT, "uint64"),
    F.TYPE_INT32: _INT32,
    F.TYPE_ENUM: _INT32,
    F.TYPE_UINT32: _kind(_VARINT, "uint32 uint64", lambda v: v & 0xFFFFFFFF),
    F.TYPE_BOOL: _kind(_VARINT, "bool", bool),
    F.TYPE_FIXED64: _fixed(_FIXED64, "Q", "uint64"),
    F.TYPE_FIXED32: _fixed(_FIXED32, "I", "uint32 uint64"),
    F.TYPE_SFIXED64: _fixed(_FIXED64, "q", "int64"),
    F.TYPE_SFIXED32: _fixed(_FIXED32, "i", "int32 int64"),
    F.TYPE_SINT64: _kind(_VARINT, "int64", _unfolded, _folded),
    F.TYPE_SINT32: _kind(_VARINT, "int32 int64", _unfolded, _folded),
    F.TYPE_STRING: _TEXT,
    F.TYPE_BYTES: _TEXT,
    F.TYPE_MESSAGE: _TEXT,
}  # fmt: skip


class Field(NamedTuple):
    number: int
    repeated: bool
    packed: bool
    kind: Kind


class Message(NamedTuple):
    """fields: those asked for, in that order; made: the message's class, for what is not bytes yet."""

    fields: tuple[Field, ...]
    made: Any


@lru_cache(64)
def message(op: str, name: str, field_names: tuple[str, ...], types: tuple[str, ...], source: bytes) -> Message:
    """Raises InvalidArgumentError on a message or field that is not there, and on a type that does not fit."""
    try:
        found = _pool(op, source).FindMessageTypeByName(name)
    except KeyError:
        raise InvalidArgumentError(
            f"{op}: No descriptor found for message type {name!r} in its descriptor_source"
        ) from None
    fields = []
    for field_name, dtype in zip(field_names, types):
        field = found.fields_by_name.get(field_name)
        if field is None:
            known = ", ".join(sorted(found.fields_by_name))
            raise InvalidArgumentError(f"{op}: Unknown field: {field_name} in message type {name}, which has {known}")
        kind = _KINDS.get(field.type)
        if kind is None or dtype not in kind.types:
            fits = "none" if kind is None else " or ".join(kind.types)
            raise InvalidArgumentError(
                f"{op}: Unexpected output type for {name}.{field_name}: {dtype}, where only {fits} fits"
            )
        fields.append(Field(field.number, field.is_repeated, field.is_repeated and field.is_packed, kind))
    return Message(tuple(fields), message_factory.GetMessageClass(found))


def _pool(op: str, source: bytes) -> Any:
    """ "local://": what this process has imported; "bytes://" and the bytes of a FileDescriptorSet, or a file of it."""
    if source in (b"", b"local://"):
        return descriptor_pool.Default()
    raw = source.removeprefix(b"bytes://")
    if not source.startswith(b"bytes://"):
        try:
            with open(source, "rb") as file:
                raw = file.read()
        except OSError as error:
            raise InvalidArgumentError(
                f"{op}: descriptor_source {source.decode(errors='replace')!r}: {error.strerror}; give local://, "
                "bytes:// and a FileDescriptorSet, or a file with one"
            ) from None
    files = descriptor_pb2.FileDescriptorSet.FromString(raw)
    pool = descriptor_pool.DescriptorPool()
    for described in files.file:
        pool.AddSerializedFile(described.SerializeToString())
    return pool


def walked(raw: bytes, fields: dict[int, Field]) -> dict[int, list[Any]]:
    """By the field's number, its values there. Raises ValueError or IndexError where the bytes are no message."""
    found: dict[int, list[Any]] = {number: [] for number in fields}
    at, end = 0, len(raw)
    while at < end:
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        value, at = _value(raw, at, wire)
        field = fields.get(number)
        if field is None:
            continue
        if wire == field.kind.wire:
            values = [field.kind.read(value)]
        elif wire == _BYTES and field.repeated:
            values = _packed(value, field.kind)
        else:
            continue  # as protobuf does with a value that lies otherwise
        found[number] = found[number] + values if field.repeated else values
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _WORD, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _value(raw: bytes, at: int, wire: int) -> tuple[Any, int]:
    if wire == _VARINT:
        return _varint(raw, at)
    if wire == _BYTES:
        size, at = _varint(raw, at)
    elif wire in (_FIXED32, _FIXED64):
        size = 4 if wire == _FIXED32 else 8
    else:
        raise ValueError(f"a value of kind {wire}")
    if at + size > len(raw):
        raise ValueError(f"{at + size - len(raw)} bytes lack")
    return raw[at : at + size], at + size


def _packed(raw: bytes, kind: Kind) -> list[Any]:
    values, at = [], 0
    while at < len(raw):
        value, at = _value(raw, at, kind.wire)
        values.append(kind.read(value))
    return values


@on_host("DecodeProtoV2", multi=True)
def _decode(
    xp: Any, serialized: Any, *, message_type: Any, field_names: Sequence[Any], output_types: Sequence[DType],
    descriptor_source: Any = b"local://", message_format: Any = b"binary", sanitize: bool = False,
) -> list[Any]:  # fmt: skip
    names = tuple(as_bytes(name).decode() for name in field_names)
    types = tuple(dtype.name for dtype in output_types)
    plan = message("DecodeProto", as_bytes(message_type).decode(), names, types, as_bytes(descriptor_source))
    by_number, text = {field.number: field for field in plan.fields}, as_bytes(message_format) == b"text"
    batch = texts(serialized)
    rows = [_walked(as_bytes(raw), by_number, plan, text) for raw in batch.ravel()]
    sizes = np.array([[len(row[field.number]) for field in plan.fields] for row in rows], np.int32)
    out = [sizes.reshape(*batch.shape, len(plan.fields))]
    for i, (field, dtype) in enumerate(zip(plan.fields, output_types)):
        width = int(sizes[:, i].max(initial=1))  # of a field that no message has, too
        values = np.full((len(rows), width), b"" if dtype.name == "string" else 0, dtype.np)
        for row, found in zip(values, rows):
            row[: len(found[field.number])] = found[field.number]
        out.append(values.reshape(*batch.shape, width))
    return out


def _walked(raw: bytes, fields: dict[int, Field], plan: Message, text: bool) -> dict[int, list[Any]]:
    try:
        if text:
            raw = text_format.Parse(raw.decode(), plan.made()).SerializeToString()
        return walked(raw, fields)
    except (ValueError, IndexError, text_format.ParseError) as error:
        kind = "text" if text else "binary"
        raise DataLossError(f"DecodeProto: Unable to parse {kind} protobuf of {len(raw)} bytes: {error}") from None


@on_host("EncodeProto")
def _encode(
    xp: Any, sizes: Any, *values: Any, field_names: Sequence[Any], message_type: Any, Tinput_types: Sequence[DType],
    descriptor_source: Any = b"local://",
) -> Any:  # fmt: skip
    names = tuple(as_bytes(name).decode() for name in field_names)
    types = tuple(dtype.name for dtype in Tinput_types)
    plan = message("EncodeProto", as_bytes(message_type).decode(), names, types, as_bytes(descriptor_source))
    counts = np.asarray(host(sizes))
    if counts.ndim < 1 or counts.shape[-1] != len(names):
        raise InvalidArgumentError(
            f"EncodeProto: sizes should be [batch_size, len(field_names)], {len(names)}, got shape {counts.shape}"
        )
    batch = counts.shape[:-1]
    given = [np.asarray(host(value)) for value in values]
    for name, value, most in zip(names, given, counts.reshape(-1, len(names)).max(0, initial=0)):
        if value.shape[:-1] != batch or value.shape[-1] < most:
            raise InvalidArgumentError(
                f"EncodeProto: Values for field {name} must be {[*batch, int(most)]} at least, got {[*value.shape]}"
            )
    order = sorted(range(len(names)), key=lambda i: plan.fields[i].number)
    out = np.empty(counts.reshape(-1, len(names)).shape[0], object)
    for row, counted in enumerate(counts.reshape(-1, len(names))):
        parts = [_written(plan.fields[i], given[i].reshape(len(out), -1)[row, : counted[i]].tolist()) for i in order]
        out[row] = b"".join(parts)
    return out.reshape(batch)


def _written(field: Field, values: list[Any]) -> bytes:
    kind = field.kind
    parts = [kind.written(value) for value in values]
    if kind.wire == _VARINT:
        parts = [_number(part) for part in parts]
    if field.packed:
        return _tagged(field.number, _BYTES, b"".join(parts)) if parts else b""
    return b"".join(_tagged(field.number, kind.wire, part) for part in parts)


def _tagged(number: int, wire: int, value: bytes) -> bytes:
    return _number(number << 3 | wire) + (_number(len(value)) if wire == _BYTES else b"") + value


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
