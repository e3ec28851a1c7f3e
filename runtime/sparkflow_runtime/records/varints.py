"""Protobuf's variable-length numbers, for loops that numba compiles: `teach` gives numba these functions.

Buffers are addresses (native.py); a position of -1 says that the bytes are no message.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.records import native
from sparkflow_runtime.records.native import bits, byte_at, set_byte

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
_U64 = (1 << 64) - 1
_MOST = 1 << 62
_TOPS = 0x8080808080808080  # the bit of each byte that says that more follow


def varint(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """(the value as an unsigned 64-bit number, where the next thing begins)."""
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = byte_at(buffer, at)
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _U64, at
        shift += 7
    return 0, -1


def as_length(value: int) -> int:
    """More than any buffer has, where it does not fit."""
    return min(value, _MOST)


def span(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Of a length and what it measures: (start, end) of the latter."""
    value, at = varint(buffer, at, end)
    length = as_length(value)
    if at < 0 or length > end - at:
        return -1, -1
    return at, at + length


def skip(buffer: Any, at: int, end: int, wire_type: int) -> int:
    """Where the field that has its value at `at` ends."""
    if wire_type == VARINT:
        return varint(buffer, at, end)[1]
    if wire_type == BYTES:
        return span(buffer, at, end)[1]
    width = 8 if wire_type == FIXED64 else 4 if wire_type == FIXED32 else end + 1
    return at + width if width <= end - at else -1


def varint_size(value: int) -> int:
    """Of a number that is not negative."""
    return (9 * bits(value) + 64) >> 6


def put_varint(out: Any, at: int, value: int) -> int:
    """Where the next thing begins. `value` is not negative, or an unsigned 64-bit number."""
    while value >= 128:
        set_byte(out, at, value & 127 | 128)
        value >>= 7
        at += 1
    set_byte(out, at, value)
    return at + 1


def joined(word: int, size: int) -> int:
    """The number whose `size` bytes (1 to 8) are the lowest of a word; -1: they are not one number."""
    word, size = int(word) & _U64 >> (64 - 8 * int(size)), int(size)
    if word & _TOPS != _TOPS & ((1 << (8 * size - 8)) - 1):
        return -1
    return sum((word >> 8 * k & 127) << 7 * k for k in range(size))


def spread(value: int, size: int) -> int:
    """A word (int64) whose lowest `size` bytes (1 to 8) are that number; the others are 0."""
    value, size = int(value), int(size)
    word = sum((value >> 7 * k & 127) << 8 * k for k in range(size)) | _TOPS & ((1 << (8 * size - 8)) - 1)
    return word - (1 << 64) if word >> 63 else word


def signed(value: int) -> int:
    """The int64 of the same bits."""
    return value - (1 << 64) if value >> 63 else value


@lru_cache(1)
def teach() -> None:
    """Have numba know these functions, once."""
    from numba.extending import register_jitable

    native.teach()
    _teach_reading()
    _teach_words()
    for function in (span, skip, varint_size, put_varint):
        register_jitable(function)


def _teach_reading() -> None:
    from numba import njit
    from numba.extending import overload

    @overload(as_length)
    def _(value: Any) -> Any:
        def length(value: Any) -> Any:
            return np.int64(value) if value < np.uint64(_MOST) else _MOST

        return length

    @overload(varint)
    def _(buffer: Any, at: Any, end: Any) -> Any:
        def read(buffer: Any, at: Any, end: Any) -> Any:
            if at < end and byte_at(buffer, at) < 128:  # nearly all
                return np.uint64(byte_at(buffer, at)), at + 1
            return long(buffer, at, end)

        return read

    @njit(nogil=True)
    def long(buffer: Any, at: Any, end: Any) -> Any:
        value, shift = np.uint64(0), np.uint64(0)
        while at < end and shift < 70:
            byte = np.uint64(byte_at(buffer, at))
            at += 1
            value |= (byte & np.uint64(127)) << shift
            if byte < 128:
                return value, at
            shift += np.uint64(7)
        return np.uint64(0), -1


def _teach_words() -> None:
    from numba.extending import overload

    @overload(joined)
    def _(word: Any, size: Any) -> Any:
        def number(word: Any, size: Any) -> Any:
            used = np.uint64(_U64) >> np.uint64(64 - 8 * size)
            w = np.uint64(word) & used
            if w & np.uint64(_TOPS) != np.uint64(_TOPS) & (used >> np.uint64(8)):
                return np.int64(-1)
            w = (w & np.uint64(0x007F007F007F007F)) | (w & np.uint64(0x7F007F007F007F00)) >> np.uint64(1)
            w = (w & np.uint64(0x00003FFF00003FFF)) | (w & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
            w = (w & np.uint64(0x000000000FFFFFFF)) | (w & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4)
            return np.int64(w)

        return number

    @overload(spread)
    def _(value: Any, size: Any) -> Any:
        def word(value: Any, size: Any) -> Any:
            w = np.uint64(value)
            w = (w & np.uint64(0x000000000FFFFFFF)) | (w & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4)
            w = (w & np.uint64(0x00003FFF00003FFF)) | (w & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2)
            w = (w & np.uint64(0x007F007F007F007F)) | (w & np.uint64(0x3F803F803F803F80)) << np.uint64(1)
            return np.int64(w | np.uint64(_TOPS) & ((np.uint64(1) << np.uint64(8 * size - 8)) - np.uint64(1)))

        return word

    @overload(signed)
    def _(value: Any) -> Any:
        def same_bits(value: Any) -> Any:
            return np.int64(value)

        return same_bits
