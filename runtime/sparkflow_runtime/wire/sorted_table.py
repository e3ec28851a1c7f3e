"""LevelDB's sorted table, which the index of a TensorFlow checkpoint is: keys, in order, and their values.

    block ...    entries, whose keys leave out what they share with the one before; restart points; a trailer of
                 1 byte that says how it is compressed, and 4 of the masked crc32c of all before
    footer       48 bytes: where the meta block and the block of blocks are, padding, the mark

Source: LevelDB's doc/table_format.md; format_description.txt of snappy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.varints import to_varint, varint

MARK = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER, _TRAILER = 48, 5
_PLAIN, _SNAPPY = 0, 1
_BLOCK_BYTES, _RESTART = 1 << 18, 16  # of the tables that are written here
_MASK = 0xA282EAD8


def mask(crc: int) -> int:
    """As it is stored: rotated and moved, so that the sum of bytes that hold a sum is no special number."""
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def unmask(stored: int) -> int:
    rotated = (stored - _MASK) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


# ---------------------------------------------------------------------- reading


def entries(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of a table's bytes. Raises ValueError where they are damaged, cut short or no table."""
    for offset, size in _blocks(raw):
        yield from _in_block(_block(raw, offset, size))


def places(raw: Any) -> Iterator[tuple[bytes, int, int]]:
    """(key, where its value is, how many bytes that has) of a table that is not compressed. Raises ValueError as above,
    and where it is."""
    for offset, size in _blocks(raw):
        block = _block(raw, offset, size)
        if raw[offset + size] != _PLAIN:
            raise ValueError(f"the block at byte {offset} is compressed")
        for key, at, length in _in_order(block):
            yield key, offset + at, length


def _blocks(raw: Any) -> Iterator[tuple[int, int]]:
    """Offset and size of the blocks."""
    if len(raw) < _FOOTER or raw[-len(MARK) :] != MARK:
        raise ValueError(f"its {len(raw)} bytes do not end as a table does: it is cut short, or another thing")
    footer = raw[-_FOOTER:]
    meta, at = _handle(footer, 0)
    blocks, _ = _handle(footer, at)
    _block(raw, *meta)  # it says nothing that is needed, but should be as it was
    for _, place in _in_block(_block(raw, *blocks)):
        yield _handle(place, 0)[0]


def _handle(raw: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Offset and size of a block."""
    offset, at = varint(raw, at)
    size, at = varint(raw, at)
    return (offset, size), at


def _block(raw: Any, offset: int, size: int) -> bytes:
    end = offset + size
    if end + _TRAILER > len(raw) - _FOOTER:
        raise ValueError(f"a block of {size} bytes at byte {offset} would reach beyond its {len(raw)} bytes")
    (stored,) = struct.unpack_from("<I", raw, end + 1)
    if unmask(stored) != crc32c(raw[offset : end + 1]):
        raise ValueError(f"the checksum of the {size} bytes at byte {offset} does not match")
    if raw[end] not in (_PLAIN, _SNAPPY):
        raise ValueError(f"the block at byte {offset} is compressed by method {raw[end]}, which is unknown")
    return raw[offset:end] if raw[end] == _PLAIN else unsnapped(raw[offset:end])


def _in_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    return ((key, block[at : at + size]) for key, at, size in _in_order(block))


def _in_order(block: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(key, where its value is, how many bytes that has)."""
    restarts = struct.unpack_from("<I", block, len(block) - 4)[0] if len(block) >= 4 else len(block)
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError(f"a block of {len(block)} bytes says that it has {restarts} restart points")
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        fresh, at = varint(block, at)
        size, at = varint(block, at)
        if shared > len(key) or at + fresh + size > end:
            raise ValueError(f"an entry of {fresh} + {size} bytes at byte {at} of a block does not fit")
        key = key[:shared] + block[at : at + fresh]
        at += fresh + size
        yield key, at - size, size


def unsnapped(raw: bytes) -> bytes:
    """The bytes that snappy made these of. Raises ValueError where they are damaged."""
    size, at = varint(raw, 0)
    out = bytearray()
    while at < len(raw):
        tag = raw[at]
        kind, high = tag & 3, tag >> 2
        extra = (max(high - 59, 0), 1, 2, 4)[kind]  # bytes of a length, or of a distance, that follow
        number = int.from_bytes(raw[at + 1 : at + 1 + extra], "little")
        at += 1 + extra
        if kind == 0:  # bytes as they are
            length = (number if extra else high) + 1
            if at + length > len(raw):
                raise ValueError(f"compressed bytes end at {len(raw)}, in the middle of {length}")
            out += raw[at : at + length]
            at += length
        else:  # bytes that were there already
            length, back = (4 + (high & 7), number | high >> 3 << 8) if kind == 1 else (high + 1, number)
            if not 0 < back <= len(out):
                raise ValueError(f"compressed byte {at} repeats what is {back} bytes back, of {len(out)}")
            start = len(out) - back
            run = out[start : start + length]
            out += (run * (length // len(run) + 1))[:length]
        if len(out) > size:
            break
    if len(out) != size:
        raise ValueError(f"compressed bytes make {len(out)} bytes, not the {size} that they say")
    return bytes(out)


# ---------------------------------------------------------------------- writing


def encode(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The table of these rows, whose keys must be in order."""
    out, places, pending = bytearray(), [], _Block()
    for key, value in rows:
        pending.add(key, value)
        if len(pending.out) >= _BLOCK_BYTES:
            places.append((pending.last, _append(out, pending)))
            pending = _Block()
    if pending.count:
        places.append((pending.last, _append(out, pending)))
    meta = _append(out, _Block())
    index = _Block(restart=1)
    for last, place in places:
        index.add(last, place)
    footer = meta + _append(out, index)
    return bytes(out) + footer.ljust(_FOOTER - len(MARK), b"\0") + MARK


class _Block:
    """Entries on their way into a block; every `restart`-th has its whole key."""

    def __init__(self, restart: int = _RESTART) -> None:
        self.out, self.restarts, self.count, self.last, self.restart = bytearray(), [0], 0, b"", restart

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count and self.count % self.restart == 0:
            self.restarts.append(len(self.out))
        elif self.count:
            limit = min(len(key), len(self.last))
            shared = next((i for i in range(limit) if key[i] != self.last[i]), limit)
        fresh = key[shared:]
        self.out += to_varint(shared) + to_varint(len(fresh)) + to_varint(len(value)) + fresh + value
        self.count, self.last = self.count + 1, key


def _append(out: bytearray, block: _Block) -> bytes:
    """Put the block at the end of `out`; its handle."""
    content = bytes(block.out) + struct.pack(f"<{len(block.restarts) + 1}I", *block.restarts, len(block.restarts))
    handle = to_varint(len(out)) + to_varint(len(content))
    stored = content + bytes([_PLAIN])
    out += stored + struct.pack("<I", mask(crc32c(stored)))
    return handle
