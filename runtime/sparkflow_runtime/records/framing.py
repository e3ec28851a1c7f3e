"""TFRecord framing: length (8 bytes), masked CRC-32C of these, the record, masked CRC-32C of that."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.crc import crc_of, masked_crc, teach
from sparkflow_runtime.records.native import byte_at, move, raw, set_byte, set_uint32, uint32_at

HEADER, FOOTER = 12, 4
_LENGTH = struct.Struct("<Q")
_SUM = struct.Struct("<I")


class Frames(NamedTuple):
    """Whole records of a buffer: where they start and end. `used`: how far the buffer was read; what follows is an
    unfinished record, or, where `bad` is a reason, the record that is damaged."""

    starts: np.ndarray
    ends: np.ndarray
    used: int
    bad: str = ""


_BAD = ("", "the checksum of the length", "the checksum of the record")


@compiled(["int64(uint8[::1], int64, int64[::1], int64[::1], int64[::1])"], before=teach)
def _walk(buffer: Any, verify: bool, starts: Any, ends: Any, told: Any) -> int:
    """Fill in where whole records start and end, as long as there is room; how many. told: how far it came, and the
    position in _BAD of what stopped it."""
    view, count, at, size = raw(buffer), 0, 0, len(buffer)
    while count < len(starts) and at + 12 <= size:
        length = 0
        for k in range(8):
            length |= byte_at(view, at + k) << (8 * k)
        checked = verify or length > size - at - 16
        if length < 0 or (checked and crc_of(view, at, at + 8) != uint32_at(view, at + 8)):
            told[1] = 1
            break
        if length > size - at - 16:
            break
        start, end = at + 12, at + 12 + length
        if verify and crc_of(view, start, end) != uint32_at(view, end):
            told[1] = 2
            break
        starts[count], ends[count] = start, end
        count += 1
        at = end + 4
    told[0] = at
    return count


def frames(buffer: np.ndarray, verify: bool = True, most: int | None = None) -> Frames:
    """The records of `buffer` (uint8), which begins with a record, up to the first damaged one; `most` of them.

    verify: check the sums. That of a length is always checked where the length reaches past the end.
    """
    room = len(buffer) // (HEADER + FOOTER) if most is None else min(most, len(buffer) // (HEADER + FOOTER))
    starts, ends, told = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(2, np.int64)
    count = _walk(buffer, verify, starts, ends, told)
    return Frames(starts[:count], ends[:count], int(told[0]), _BAD[told[1]])


def _plausible(buffer: np.ndarray, at: int) -> bool:
    """Whether what follows may be the beginning of a record."""
    header = buffer[at : at + HEADER].tobytes()
    return len(header) < HEADER or _SUM.unpack(header[8:])[0] == masked_crc(header[:8])


def next_record(buffer: np.ndarray, at: int) -> int | None:
    """Where the next header with a right sum begins, from `at` on; None: nowhere in this buffer."""
    data = buffer.tobytes()
    while (zeros := data.find(b"\0\0", at + 6)) >= 0:  # the upper bytes of a length are 0: quicker to find than a sum
        at = zeros - 6
        if at + HEADER > len(data):
            return None
        if _plausible(buffer, at):
            return at
        at += 1
    return None


def frame(data: bytes) -> bytes:
    """One record as it stands in a file."""
    return b"".join((_header(len(data)), data, _SUM.pack(masked_crc(data))))


@lru_cache(1024)  # many records are as long as others
def _header(length: int) -> bytes:
    packed = _LENGTH.pack(length)
    return packed + _SUM.pack(masked_crc(packed))


@compiled(["void(int64, int64[::1], uint8[::1])"], before=teach)
def _spread(source: int, offsets: Any, out: Any) -> None:
    view, at = raw(out), 0
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for k in range(8):
            set_byte(view, at + k, length >> (8 * k) & 0xFF)
        set_uint32(view, at + 8, crc_of(view, at, at + 8))
        move(source, offsets[i], length, view, at + 12)
        set_uint32(view, at + 12 + length, crc_of(source, offsets[i], offsets[i + 1]))
        at += length + 16


def framed(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Records data[offsets[i]:offsets[i + 1]] (uint8) as they stand in a file: uint8."""
    out = np.empty(int(offsets[-1] - offsets[0]) + (HEADER + FOOTER) * (len(offsets) - 1), np.uint8)
    _spread(data.ctypes.data, np.array(offsets), out)  # an array that may be read-only would be another type
    return out
