"""The index of a checkpoint that TensorFlow wrote, as the Index that all readers know, and the other way round.

    <prefix>.index                  a sorted table: '' -> BundleHeader, name -> BundleEntry; of a tensor that is saved
                                    in slices the entry lists them, and each has an entry under a key of its own
    <prefix>.data-00000-of-00002    the tensors' bytes, one after the other, little end first; strings: their lengths as
                                    varints, the masked crc32c of the lengths, then all their bytes

Source: tensorflow/core/protobuf/tensor_bundle.proto, tensorflow/core/framework/tensor_slice.proto.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tensorboard.compat.proto import tensor_shape_pb2, types_pb2, versions_pb2

from sparkflow_runtime.wire import sorted_table
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX, Dims, Entry, Index, Piece
from sparkflow_runtime.wire.dtypes import ALL, as_dtype
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, UnimplementedError

VERSION = 1
_LITTLE = 0
_FIELD = descriptor_pb2.FieldDescriptorProto


def _messages() -> tuple[Any, Any]:
    """BundleHeader and BundleEntry, which the `tensorboard` package has no copy of."""
    shape, version = tensor_shape_pb2.TensorShapeProto.DESCRIPTOR, versions_pb2.VersionDef.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="sparkflow/tensor_bundle.proto", package="sparkflow.checkpoint", syntax="proto3",
        dependency=[shape.file.name, version.file.name],
    )  # fmt: skip
    whole, fixed, message = _FIELD.TYPE_INT64, _FIELD.TYPE_FIXED32, _FIELD.TYPE_MESSAGE
    one, many = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    rows: dict[str, list[tuple[str, int, int, int, str]]] = {
        "BundleHeader": [
            ("num_shards", 1, whole, one, ""),
            ("endianness", 2, whole, one, ""),
            ("version", 3, message, one, version.full_name),
        ],
        "BundleEntry": [
            ("dtype", 1, whole, one, ""),
            ("shape", 2, message, one, shape.full_name),
            ("shard_id", 3, whole, one, ""),
            ("offset", 4, whole, one, ""),
            ("size", 5, whole, one, ""),
            ("crc32c", 6, fixed, one, ""),
            ("slices", 7, message, many, "sparkflow.checkpoint.Slice"),
        ],
        "Slice": [("extent", 1, message, many, "sparkflow.checkpoint.Extent")],
        "Extent": [("start", 1, whole, one, ""), ("length", 2, whole, one, "")],
    }
    for name, fields in rows.items():
        made = file.message_type.add(name=name)
        for label, number, kind, count, of in fields:
            made.field.add(name=label, number=number, type=kind, label=count, type_name=f".{of}" if of else None)
    length = file.message_type[-1].field[-1]  # an extent without one is the whole dimension
    file.message_type[-1].oneof_decl.add(name="has_length")
    length.oneof_index = 0
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    header, entry = (pool.FindMessageTypeByName(f"sparkflow.checkpoint.{n}") for n in ("BundleHeader", "BundleEntry"))
    return message_factory.GetMessageClass(header), message_factory.GetMessageClass(entry)


BundleHeader, BundleEntry = _messages()


# ---------------------------------------------------------------------- reading


def decode(raw: bytes, where: str) -> Index:
    """The index in these bytes of the file `where`.

    Raises DataLossError where they are damaged or something else, UnimplementedError where another kind of machine or a
    later TensorFlow wrote them.
    """
    try:
        rows = dict(sorted_table.entries(raw))
        header = BundleHeader.FromString(rows.pop(b""))
        _check_header(header, where)
        index = Index(tensorflow=True)
        files = _Files(where, header.num_shards)
        for key, row in rows.items():
            if not key.startswith(b"\0"):  # a slice's, found by way of its tensor
                _add(index, rows, key.decode(), BundleEntry.FromString(row), files)
    except (ValueError, KeyError, DecodeError) as error:
        text = "it has no header" if isinstance(error, KeyError) else str(error)
        raise DataLossError(
            f"{where} is no checkpoint index, neither sparkflow's nor TensorFlow's, or is damaged: {text}. "
            "Restore an older checkpoint, or copy the files again"
        ) from None
    return index


def _check_header(header: Any, where: str) -> None:
    if header.endianness != _LITTLE:
        raise UnimplementedError(
            f"{where} was written on a machine that stores numbers big end first, which is not read here. Restore it "
            "with TensorFlow there, and save it on a little-endian machine"
        )
    if header.version.min_consumer > VERSION:
        raise UnimplementedError(
            f"{where} needs a reader of version {header.version.min_consumer} of TensorFlow's checkpoints; this "
            f"sparkflow reads version {VERSION}"
        )


class _Files:
    """Names of data files, by number. Raises ValueError on a number that there is not."""

    def __init__(self, where: str, count: int):
        self.stem, self.count = os.path.basename(where).removesuffix(INDEX_SUFFIX), count

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < self.count:
            raise ValueError(f"a tensor lies in data file {number} of {self.count}")
        return f"{self.stem}.data-{number:05d}-of-{self.count:05d}"


def _add(index: Index, rows: Mapping[bytes, bytes], name: str, entry: Any, files: _Files) -> None:
    dtype, shape = dtype_name(entry.dtype), tuple(d.size for d in entry.shape.dim)
    if entry.shape.unknown_rank or any(d < 0 for d in shape):
        raise ValueError(f"tensor {name!r} has the shape {list(shape)}")
    index.entries[name] = Entry(dtype, shape)  # there even where it has no slice
    for begin, size, key, part in _parts(rows, name, shape, entry):
        nbytes = math.prod(size) * ALL[dtype].size if _is_plain(dtype) else part.size
        if part.size != nbytes or part.offset < 0 or part.size < 0:
            raise ValueError(
                f"tensor {key!r}, {dtype}{list(size)}, has {part.size} bytes at offset {part.offset}, expected {nbytes}"
            )
        file = files[part.shard_id]
        crc = sorted_table.unmask(part.crc32c)
        try:
            index.add(name, dtype, shape, Piece(file, key, begin, size, part.offset, part.size, crc))
        except InvalidArgumentError as error:  # slices that overlap
            raise ValueError(str(error)) from None
        index.files[file] = max(index.files.get(file, 0), part.offset + part.size)


def _is_plain(dtype: str) -> bool:
    """Are its bytes the numbers themselves?"""
    return dtype in ALL and ALL[dtype].np.kind != "O"


def dtype_name(enum: int) -> str:
    """Ours, or TensorFlow's of a type that there is not here: other tensors of that checkpoint can be read."""
    try:
        return as_dtype(enum).name
    except TypeError:
        return types_pb2.DataType.Name(enum) if enum in types_pb2.DataType.values() else f"DT_{enum}"


def _parts(rows: Mapping[bytes, bytes], name: str, shape: Dims, entry: Any) -> Iterator[tuple[Dims, Dims, str, Any]]:
    """(begin, size, what to call it, its entry) of the pieces of a tensor."""
    if not entry.slices:
        yield (0,) * len(shape), shape, name, entry
    for part in entry.slices:
        extents = [(e.start, e.length if e.HasField("length") else -1) for e in part.extent]
        begin, size = slice_box(name, shape, extents)
        row = rows.get(slice_key(name, extents))
        if row is None:
            raise ValueError(f"the slice {extents} of tensor {name!r} has no entry")
        key = f"{name} {' '.join(map(str, shape))} {':'.join(f'{b},{n}' for b, n in zip(begin, size))}"
        yield begin, size, key, BundleEntry.FromString(row)


def slice_box(name: str, shape: Dims, extents: list[tuple[int, int]]) -> tuple[Dims, Dims]:
    """Begin and size of a slice. Raises ValueError where it is none of that shape."""
    if len(extents) != len(shape):
        raise ValueError(f"tensor {name!r} has the shape {list(shape)} and a slice {extents}")
    begin = tuple(0 if n < 0 else b for b, n in extents)
    size = tuple(d if n < 0 else n for (_, n), d in zip(extents, shape))
    if any(b < 0 or b + n > d for b, n, d in zip(begin, size, shape)):
        raise ValueError(f"a slice {extents} of tensor {name!r} reaches beyond its shape {list(shape)}")
    return begin, size


def slice_key(name: str, extents: list[tuple[int, int]]) -> bytes:
    """The key of a slice's entry: numbers and texts so written that bytes are in their order. Length -1: the whole."""
    escaped = name.encode().replace(b"\0", b"\0\xff")
    numbers = b"".join(_ordered(n) for extent in extents for n in extent)
    return _ordered_plain(0) + escaped + b"\0\x01" + _ordered_plain(len(extents)) + numbers


def _ordered_plain(number: int) -> bytes:
    """Of a number that is not negative: how many bytes, then these, the big end first."""
    size = (number.bit_length() + 7) // 8
    return bytes([size]) + number.to_bytes(size, "big")


def _ordered(number: int) -> bytes:
    """As many ones as it has bytes, then the number; all turned round where it is negative."""
    size = (number if number >= 0 else ~number).bit_length() // 7 + 1
    ones = ((1 << size) - 1) << 7 * size
    return (ones ^ (number & ((1 << 8 * size) - 1))).to_bytes(size, "big")


# ---------------------------------------------------------------------- writing


def encode(index: Index) -> bytes:
    """The index file of tensors that one data file holds whole."""
    header = BundleHeader(num_shards=1, endianness=_LITTLE, version=versions_pb2.VersionDef(producer=VERSION))
    rows = {b"": header.SerializeToString()}
    for name, entry in index.entries.items():
        (piece,) = entry.pieces
        rows[name.encode()] = BundleEntry(
            dtype=as_dtype(entry.dtype).as_datatype_enum,
            shape=tensor_shape_pb2.TensorShapeProto(
                dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=d) for d in entry.shape]
            ),
            offset=piece.offset,
            size=piece.nbytes,
            crc32c=sorted_table.mask(piece.crc32c),
        ).SerializeToString()
    return sorted_table.encode(sorted(rows.items()))
