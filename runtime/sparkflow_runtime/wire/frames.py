"""Frames: one message as bytes. A fixed header, meta bytes, a packed tensor table, and the tensors' raw buffers.

    header   magic "SPKF", version u8, kind u8, method u16, call id u64, meta bytes u32, tensors u32, table bytes u32,
             payload bytes u64; all little endian
    meta     whatever the method says (protobuf, JSON)
    table    per tensor, in 8-byte words: dtype enum | ndim << 8, each dimension, offset in the payload, bytes
    payload  each tensor in C order, from the first multiple of 64 after its predecessor; the gaps are zero

Where the kind has the bit ELSEWHERE, the payload lies in shared memory (transport/shared.py), and its Place follows
the table instead: segment u32, new u32.

A string tensor's bytes are one u64 length per element and then the elements. Nothing here does I/O. The header is
checked before anything is allocated; the table is checked before anything is viewed: a frame from anywhere can be
refused, never misread. Decoding strings makes Python objects, up to about six times their payload; nothing else is
copied.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError

REQUEST, REPLY, ERROR, PUSH, HEARTBEAT, GOODBYE, FORGET = range(1, 8)  # FORGET: the segment that is its call id
ELSEWHERE = 0x80
MAGIC, VERSION = b"SPKF", 1
MAX_PAYLOAD_BYTES, MAX_META_BYTES, MAX_TENSORS, MAX_NDIM = 16 << 30, 64 << 20, 65_536, 32
ALIGN_BYTES = 64

_HEADER = struct.Struct("<4sBBHQIIIQ")
HEADER_BYTES = _HEADER.size
_KIND_AT = 5
_PLACE = struct.Struct("<II")
PLACE_BYTES = _PLACE.size
_WORD_BYTES, _FIXED_WORDS = 8, 3
_ENTRY_BYTES = (_FIXED_WORDS * _WORD_BYTES, (_FIXED_WORDS + MAX_NDIM) * _WORD_BYTES)
_JOIN_META_BYTES = 64 << 10  # a longer meta travels as its own buffer
_CACHED_TABLE_BYTES = 32 << 10  # steps repeat their tables: small ones are checked once
_MANY = 8  # tensors of a frame from which on its table is kept
_PADS = [bytes(n) for n in range(ALIGN_BYTES)]

# Never a dtype of Python objects: its buffer holds addresses, which mean nothing elsewhere and much harm when believed.
_NUMPY = {t.as_datatype_enum: t.np for t in dtypes.ALL.values() if not (t.np.hasobject or t.is_quantized)}
_ENUM = {np_type: enum for enum, np_type in _NUMPY.items()}
_STRING = dtypes.string.as_datatype_enum
_NO_BUFFER = {dtypes.bfloat16.as_datatype_enum}  # numpy exports no Python buffer of these: they are sent as bytes
_LYING = {np_type for np_type, enum in _ENUM.items() if enum not in _NO_BUFFER}
_LENGTH = np.dtype("<u8")

Buffer = Any  # bytes, or an array in C order that exports its memory


class Header(NamedTuple):
    kind: int
    method: int
    call_id: int
    meta_bytes: int
    tensors: int
    table_bytes: int
    payload_bytes: int
    elsewhere: bool = False

    @property
    def frame_bytes(self) -> int:
        head = HEADER_BYTES + self.meta_bytes + self.table_bytes
        return head + (PLACE_BYTES if self.elsewhere else self.payload_bytes)


class Place(NamedTuple):
    """Which segment of shared memory holds a payload; `new`: its descriptor comes with this frame."""

    segment: int
    new: bool


def parse_header(data: Any, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Header:
    """The header in the first HEADER_BYTES of `data`, all of its sizes within bounds.

    Raises DataLossError where `data` is no header of this version, InvalidArgumentError where a size passes its
    bound.
    """
    if len(data) < HEADER_BYTES:
        raise DataLossError(f"Frame header: {len(data)} bytes, expected {HEADER_BYTES}")
    magic, version, said, method, call_id, meta_bytes, tensors, table_bytes, payload_bytes = _HEADER.unpack_from(data)
    kind, elsewhere = said & ~ELSEWHERE, said >= ELSEWHERE
    if magic != MAGIC or version != VERSION:
        raise DataLossError(
            f"Frame header: magic {magic!r} version {version}, expected {MAGIC!r} version {VERSION}. "
            "The peer is no sparkflow, another version of it, or the stream lost its place"
        )
    if not REQUEST <= kind <= FORGET or elsewhere > payload_bytes:
        raise DataLossError(
            f"Frame header: kind {said:#x} with {payload_bytes} payload bytes, expected {REQUEST} to {FORGET}, and "
            f"with the bit {ELSEWHERE:#x} a payload"
        )
    if meta_bytes > MAX_META_BYTES or tensors > MAX_TENSORS or payload_bytes > max_payload_bytes:
        raise _too_big(meta_bytes, tensors, payload_bytes, max_payload_bytes)
    low, high = _ENTRY_BYTES
    if table_bytes % _WORD_BYTES or not tensors * low <= table_bytes <= tensors * high or payload_bytes > 0 == tensors:
        raise DataLossError(
            f"Frame header: {table_bytes} table bytes and {payload_bytes} payload bytes do not fit {tensors} tensors"
        )
    return Header(kind, method, call_id, meta_bytes, tensors, table_bytes, payload_bytes, elsewhere)


def encode(kind: int, method: int, call_id: int, meta: bytes = b"", tensors: Sequence[Any] = ()) -> list[Buffer]:
    """The frame as buffers to send one after the other; contiguous arrays are among them as they are.

    tensors: arrays, numpy scalars or anything np.asarray takes, of a dtype in wire.dtypes (str elements become
    UTF-8). Raises InvalidArgumentError on another dtype, on ndim above 32, and on a size that `parse_header` would
    refuse.
    """
    again = _laid_again(tensors) if len(tensors) >= _MANY else None
    table, payload, payload_bytes = again or _laid_out(tensors)
    if len(meta) > MAX_META_BYTES or len(tensors) > MAX_TENSORS or payload_bytes > MAX_PAYLOAD_BYTES:
        raise _too_big(len(meta), len(tensors), payload_bytes, MAX_PAYLOAD_BYTES)
    header = _HEADER.pack(MAGIC, VERSION, kind, method, call_id, len(meta), len(tensors), len(table), payload_bytes)
    if len(meta) > _JOIN_META_BYTES:
        return [header, meta, table, *payload]
    return [header + meta + table, *payload]


def _laid_out(tensors: Sequence[Any]) -> tuple[bytes, list[Buffer], int]:
    """The table, the payload and its bytes."""
    words: list[int] = []
    payload: list[Buffer] = []
    offset = gap = 0
    for tensor in tensors:
        array = tensor if type(tensor) is np.ndarray else np.asarray(tensor)
        enum = _ENUM.get(array.dtype)
        if enum is None or not array.flags.c_contiguous or enum in _NO_BUFFER:
            enum, shape, data, nbytes = _encode_rare(array)
        else:
            shape, data, nbytes = array.shape, array, array.nbytes
        if gap:
            payload.append(_PADS[gap])
            offset += gap
        if len(shape) > MAX_NDIM:
            raise InvalidArgumentError(f"Cannot send a tensor of {len(shape)} dimensions, at most {MAX_NDIM}: {shape}")
        words += (enum | len(shape) << 8, *shape, offset, nbytes)
        if nbytes:
            payload.append(data)
        offset += nbytes
        gap = -nbytes % ALIGN_BYTES
    return struct.pack(f"<{len(words)}Q", *words), payload, offset


def _laid_again(tensors: Sequence[Any]) -> tuple[bytes, list[Buffer], int] | None:
    """As `_laid_out`, of arrays whose dtypes and shapes are known: steps repeat them. None where they do not lie as
    they are sent."""
    if set(map(type, tensors)) != {np.ndarray} or not all([tensor.flags.c_contiguous for tensor in tensors]):
        return None
    known = _table_of(tuple([tensor.dtype for tensor in tensors]), tuple([tensor.shape for tensor in tensors]))
    if known is None:
        return None
    table, pads, payload_bytes = known
    payload = [part for pair in zip(pads, tensors) for part in pair] if pads else list(tensors)
    return table, payload, payload_bytes


@lru_cache(maxsize=64)
def _table_of(
    dtypes: tuple[np.dtype[Any], ...], shapes: tuple[tuple[int, ...], ...]
) -> tuple[bytes, list[bytes], int] | None:
    """(the table, the gap before each array where there are gaps, the payload's bytes); None where an array is not sent
    as it lies."""
    if not _LYING.issuperset(dtypes) or max(map(len, shapes)) > MAX_NDIM:
        return None
    sizes = [prod(shape) * dtype.itemsize for dtype, shape in zip(dtypes, shapes)]
    gaps = [0, *(-size % ALIGN_BYTES for size in sizes[:-1])]
    words: list[int] = []
    offset = 0
    for dtype, shape, size, gap in zip(dtypes, shapes, sizes, gaps):
        offset += gap
        words += (_ENUM[dtype] | len(shape) << 8, *shape, offset, size)
        offset += size
    return struct.pack(f"<{len(words)}Q", *words), [_PADS[gap] for gap in gaps] if any(gaps) else [], offset


def frame_bytes(buffers: Sequence[Buffer]) -> int:
    """The size of a frame that `encode` made."""
    return Header(*_HEADER.unpack_from(buffers[0])[2:]).frame_bytes


def split(buffers: Sequence[Buffer]) -> tuple[list[Buffer], list[Buffer]]:
    """The head and the payload of a frame that `encode` made."""
    at = 3 if len(buffers) > 1 and len(buffers[0]) == HEADER_BYTES and _HEADER.unpack_from(buffers[0])[5] else 1
    return list(buffers[:at]), list(buffers[at:])


def with_payload_at(head: Sequence[Buffer], place: Place) -> list[Buffer]:
    """The frame of this head (see `split`) whose payload lies in shared memory."""
    first = bytearray(head[0])
    first[_KIND_AT] |= ELSEWHERE
    return [bytes(first), *head[1:], _PLACE.pack(*place)]


def parse_place(data: Any) -> Place:
    segment, new = _PLACE.unpack(data)
    return Place(segment, bool(new))


def decode(header: Header, meta: Any, table: Any, payload: np.ndarray) -> list[np.ndarray]:
    """The frame's tensors: views into `payload` (uint8, one-dimensional), string tensors as object arrays of bytes.

    Raises DataLossError where the table contradicts the header or itself.
    """
    got = (len(meta), len(table), len(payload))
    if got != (header.meta_bytes, header.table_bytes, header.payload_bytes):
        raise DataLossError(
            f"Frame: {got} bytes of meta, table and payload, but its header says "
            f"{(header.meta_bytes, header.table_bytes, header.payload_bytes)}"
        )
    if not header.tensors:
        return []
    layout = _layout if len(table) <= _CACHED_TABLE_BYTES else _layout.__wrapped__
    tensors: list[np.ndarray] = []
    for run in layout(bytes(table), header.tensors, header.payload_bytes):
        tensors += run.views(payload)
    return tensors


class _Run(NamedTuple):
    """`copies` tensors of one dtype and shape, side by side (often: a step's gradients). One view is cut in rows."""

    copies: int
    enum: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    strides: tuple[int, ...] | None

    def views(self, payload: np.ndarray) -> list[np.ndarray]:
        if self.enum == _STRING:
            return [_decode_strings(payload[self.offset : self.offset + self.nbytes], self.shape)]
        dtype = _NUMPY[self.enum]
        if self.strides is not None:
            return list(np.ndarray((self.copies, *self.shape), dtype, payload, self.offset, self.strides))
        if not self.nbytes:
            return [np.empty(self.shape, dtype)]
        return [np.ndarray(self.shape, dtype, payload, self.offset)]


@lru_cache(maxsize=256)
def _layout(table: bytes, tensors: int, payload_bytes: int) -> list[_Run]:
    """The table's entries, checked, with neighbours of one dtype and shape joined."""
    words = struct.unpack(f"<{len(table) // _WORD_BYTES}Q", table)
    runs: list[_Run] = []
    at = end = 0
    for index in range(tensors):
        ndim = words[at] >> 8 if at < len(words) else 0
        if ndim > MAX_NDIM or at + _FIXED_WORDS + ndim > len(words):
            raise DataLossError(
                f"Tensor {index} of {tensors}: ndim {ndim}, expected at most {MAX_NDIM} and {len(table)} "
                "bytes of table to hold it"
            )
        enum, shape = words[at] & 0xFF, words[at + 1 : at + 1 + ndim]
        offset, nbytes = words[at + 1 + ndim : at + _FIXED_WORDS + ndim]
        start = -(-end // ALIGN_BYTES) * ALIGN_BYTES
        end = offset + nbytes
        _check_entry(index, enum, shape, nbytes)
        if offset != start or end > payload_bytes:
            raise DataLossError(
                f"Tensor {index} of {tensors}: bytes {offset} to {end}, expected from {start} and inside "
                f"the payload of {payload_bytes}"
            )
        runs.append(_Run(1, enum, shape, offset, nbytes, None))
        at += _FIXED_WORDS + ndim
    if at != len(words) or end != payload_bytes:
        raise DataLossError(
            f"Frame: {tensors} tensors use {at * _WORD_BYTES} of {len(table)} table bytes and {end} of "
            f"{payload_bytes} payload bytes"
        )
    return _join_runs(runs)


def _check_entry(index: int, enum: int, shape: tuple[int, ...], nbytes: int) -> None:
    size = prod(shape)
    if enum == _STRING:
        fits = size * _LENGTH.itemsize <= nbytes and (size or not nbytes)
        item_bytes = _LENGTH.itemsize
    elif enum in _NUMPY:
        item_bytes = _NUMPY[enum].itemsize
        fits = size * item_bytes == nbytes
    else:
        raise DataLossError(f"Tensor {index}: dtype enum {enum} is not one of {sorted([*_NUMPY, _STRING])}")
    if not fits or prod(d or 1 for d in shape) * item_bytes >= 1 << 63:  # numpy's own bound, for shapes as (0, huge)
        raise DataLossError(f"Tensor {index}: {nbytes} bytes do not make dtype enum {enum}, shape {shape}")


def _join_runs(entries: list[_Run]) -> list[_Run]:
    runs: list[_Run] = []
    for entry in entries:
        last = runs[-1] if runs else entry
        if runs and entry.nbytes and entry.shape and entry.enum != _STRING and last[1:3] == entry[1:3]:
            runs[-1] = last._replace(copies=last.copies + 1)
        else:
            runs.append(entry)
    return [run._replace(strides=_strides(run)) if run.copies > 1 else run for run in runs]


def _strides(run: _Run) -> tuple[int, ...]:
    """Row strides of a run: from tensor to tensor the padded size, within one C order."""
    item_bytes, strides = _NUMPY[run.enum].itemsize, []
    for axis in range(len(run.shape)):
        strides.append(prod(run.shape[axis + 1 :]) * item_bytes)
    return (-(-run.nbytes // ALIGN_BYTES) * ALIGN_BYTES, *strides)


def _encode_rare(array: np.ndarray) -> tuple[int, tuple[int, ...], Buffer, int]:
    """(enum, shape, buffer, bytes) of an array that cannot go out as it lies: strided, swapped, string, bfloat16."""
    if array.dtype.kind in "OSU":
        data = _encode_strings(array)
        return _STRING, array.shape, data, len(data)
    native = array.dtype.newbyteorder("=")
    enum = _ENUM.get(native)
    if enum is None:
        raise InvalidArgumentError(f"Cannot send a tensor of dtype {array.dtype}; known are {', '.join(dtypes.ALL)}")
    flat = np.ascontiguousarray(array, dtype=native).reshape(-1).view(np.uint8)
    return enum, array.shape, flat, flat.nbytes


def _encode_strings(array: np.ndarray) -> bytes:
    items = [x.encode() if isinstance(x, str) else x for x in array.reshape(-1).tolist()]
    wrong = {type(x).__name__ for x in items if not isinstance(x, bytes)}
    if wrong:
        raise InvalidArgumentError(
            f"A string tensor holds bytes or str, got elements of type {', '.join(sorted(wrong))}"
        )
    return np.fromiter(map(len, items), _LENGTH, len(items)).tobytes() + b"".join(items)


def _decode_strings(data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, object)
    lengths = data[: out.size * _LENGTH.itemsize].view(_LENGTH).tolist()
    at = len(lengths) * _LENGTH.itemsize
    if at + sum(lengths) != len(data):
        raise DataLossError(
            f"String tensor of shape {shape}: its elements have {sum(lengths)} bytes, the payload {len(data) - at}"
        )
    raw, items = data.tobytes(), []
    for length in lengths:
        items.append(raw[at : at + length])
        at += length
    out.reshape(-1)[:] = items
    return out


def _too_big(meta_bytes: int, tensors: int, payload_bytes: int, max_payload_bytes: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Frame too big: meta {meta_bytes} bytes (at most {MAX_META_BYTES}), {tensors} tensors (at most "
        f"{MAX_TENSORS}), payload {payload_bytes} bytes (at most {max_payload_bytes}). Send it in parts, or allow more"
    )
