"""Entries of an Example's map of features: which key each is of, and where its list lies; for compiled loops.

Nearly every writer gives an entry one form: key, then a Feature with one list and nothing else, all in less than 128
bytes. Its six tags and lengths are then two words, which are compared as a whole, and so is the key. A list that is one
value is read on the way: of a key that is expected, all that stands before the value is known but for three lengths,
which follow from each other (`form`). Whatever looks otherwise goes the long way, field by field.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sparkflow_runtime.records import varints
from sparkflow_runtime.records.native import byte_at, uint32_at, word_at
from sparkflow_runtime.records.varints import BYTES, joined, signed, skip, span, varint

DIRECT = 16  # set in a kind: `first` is the one value itself, or the one string begins there
# The words of a key's form: how an entry begins that has this key and one value of the kind that is wanted. HEAD,
# SECOND and TAIL are what stands at its beginning, in the eight bytes up to the key's end (at SECOND_AT) and after the
# key, all but the lengths; the masks leave those out, and what is beyond the key.
HEAD, HEAD_MASK, SIZE, SECOND_AT, SECOND, SECOND_MASK, TAIL, KIND, FORM = range(9)
_LENGTHS = 1 << 8 | 1 << 24 | 1 << 40  # a byte more of the value in the three lengths of a tail
_TAIL = (1 << 48) - 1
REACH = 160  # bytes from an entry's beginning that may be read of one in the usual form
_U64 = (1 << 64) - 1
_MIX, _MIX_LAST = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


def mixed(first: int, last: int, size: int) -> int:
    """A hash, not negative, of a key's first and last words and its size."""
    first, last, size = int(first), int(last), int(size)
    found = ((first & _U64) ^ (last * _MIX_LAST & _U64)) + size & _U64
    found = found * _MIX & _U64
    return (found ^ found >> 32) >> 1


def first_word(buffer: Any, at: int, size: int, limit: int) -> int:
    """The first bytes of a key, up to 8, as an int64; others are 0. limit: where the buffer ends."""
    if size >= 8:
        return word_at(buffer + at, 0)
    if at + 8 <= limit:
        return word_at(buffer + at, 0) & ((1 << (8 * size)) - 1)
    word = 0
    for k in range(size):
        word |= byte_at(buffer, at + k) << (8 * k)
    return word


def last_word(buffer: Any, at: int, size: int) -> int:
    return word_at(buffer + at + size - 8, 0) if size > 8 else 0


def _is_key(buffer: Any, at: int, size: int, first: int, names: Any, begins: Any, column: int) -> bool:
    """Whether the key at `at`, whose first word is known, is this one."""
    begin = word_at(begins, column)
    if word_at(begins, column + 1) - begin != size or first_word(names, begin, size, begin + 8) != first:
        return False
    k = 8
    while k + 8 < size:
        if word_at(buffer + at + k, 0) != word_at(names + begin + k, 0):
            return False
        k += 8
    return last_word(buffer, at, size) == last_word(names, begin, size)


def find(buffer: Any, at: int, size: int, limit: int, names: Any, begins: Any, slots: Any, last_slot: int) -> int:
    """Which key the `size` bytes are; -1: none."""
    first = first_word(buffer, at, size, limit)
    slot = mixed(first, last_word(buffer, at, size), size) & last_slot
    while word_at(slots, slot) >= 0:
        if _is_key(buffer, at, size, first, names, begins, word_at(slots, slot)):
            return word_at(slots, slot)
        slot = (slot + 1) & last_slot
    return -1


def quick(buffer: Any, at: int, end: int, limit: int) -> tuple[int, int]:
    """(size of the key, end of the entry) of an entry in the usual form, whose key begins at `at` + 4; (-1, 0): it has
    another one, or is too near the end of the buffer to be read by words."""
    if at + 12 > limit:
        return -1, 0
    head = word_at(buffer + at, 0)
    size, last = head >> 24 & 255, at + 2 + (head >> 8 & 255)
    value = at + 4 + size
    if head & 0xFF00FF != 0xA000A or last >= at + 130 or last > end or value + 4 > last or value + 16 > limit:
        return -1, 0
    inside = last - value - 2
    tail = word_at(buffer + value, 0)
    if tail & 0xFF07FFFF != 18 | inside << 8 | 2 << 16 | (inside - 2) << 24:
        return -1, 0
    kind = tail >> 19 & 31
    return (size, last) if 1 <= kind <= 3 else (-1, 0)


def form(name: bytes, kind: int) -> list[int]:
    """Of an entry with this key (of one over 110 bytes, nothing is alike) and one value of this kind, as int64."""
    size = len(name)
    if size > 110:
        return [0, 255, *[0] * (FORM - 2)]
    entry, second_at = bytes([10, 0, 10, size]) + name + bytes(8), max(size - 4, 0)
    mask = 0 if size <= 4 else _U64 - 255 if size == 5 else _U64  # at 1 is the length
    head, second = (int.from_bytes(entry[at : at + 8], "little") for at in (0, second_at))
    tail = 18 | 4 << 8 | (kind << 3 | 2) << 16 | 2 << 24 | 10 << 32 if kind else 0
    head_mask = (1 << 8 * min(8, 4 + size)) - 1 - (127 << 8)
    words = (head, head_mask, size, second_at, second & mask, mask, tail, kind)
    return [word - (1 << 64) if word >> 63 else word for word in words]


def has_key(buffer: Any, at: int, form: Any, names: Any, begins: Any, column: int) -> bool:
    """Whether the entry at `at`, REACH before the end of the buffer, has that key, and is less than 128 bytes long."""
    head, second = word_at(buffer + at, 0), word_at(buffer + at + word_at(form, SECOND_AT), 0)
    wrong = (head ^ word_at(form, HEAD)) & word_at(form, HEAD_MASK)
    wrong |= (second & word_at(form, SECOND_MASK)) ^ word_at(form, SECOND)
    if wrong != 0:
        return False
    size = word_at(form, SIZE)
    return size <= 12 or _is_key(buffer, at + 4, size, word_at(buffer + at + 4, 0), names, begins, column)


def alone(buffer: Any, at: int, end: int, form: Any) -> int:
    """The bytes of the one value in an entry that `has_key`; 0 where it has not one value of the form's kind."""
    length = byte_at(buffer, at + 1)
    size = length - word_at(form, SIZE) - 8
    tail = word_at(buffer + at + 4 + word_at(form, SIZE), 0)
    if (tail ^ (word_at(form, TAIL) + size * _LENGTHS)) & _TAIL != 0 or size < 1 or at + 2 + length > end:
        return 0
    return size


def place(buffer: Any, value: int, last: int, wanted: int) -> tuple[int, int]:
    """(kind, first) of the list of an entry in the usual form, whose Feature's tag is at `value`. wanted: the kind of
    which one value is read at once."""
    tail = word_at(buffer + value, 0)
    kind, payload = tail >> 19 & 31, last - value - 6
    if kind != wanted or payload < 1 or tail >> 32 & 0xFFFF != 10 | payload << 8:
        return kind, value + 4
    if kind == 1:
        return kind | DIRECT, value + 6
    if kind == 2:
        return (kind | DIRECT, uint32_at(buffer, value + 6)) if payload == 4 else (kind, value + 4)
    if payload <= 8:
        number = joined(word_at(buffer + value + 6, 0), payload)
        return (kind | DIRECT, number) if number >= 0 else (kind, value + 4)
    long, stop = varint(buffer, value + 6, last)
    return (kind | DIRECT, signed(long)) if stop == last else (kind, value + 4)


def feature(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
    """(kind, start, end) of the list in a Feature; kind -1: the bytes are no Feature."""
    kind, first, last = 0, 0, 0
    while at < end:
        tag, at = varint(buffer, at, end)
        if at < 0:
            return -1, 0, 0
        if tag & 7 == BYTES and 1 <= tag >> 3 <= 3:
            kind, (first, last) = int(tag >> 3), span(buffer, at, end)
            at = last
        else:
            at = skip(buffer, at, end, tag & 7)
        if at < 0:
            return -1, 0, 0
    return kind, first, last


def entry(buffer: Any, at: int, end: int) -> tuple[int, int, int, int]:
    """(start, end) of the key and of the Feature in an entry of any form; the first is -1 where it is none."""
    key, key_end, first, last = at, at, at, at
    while at < end:
        tag, at = varint(buffer, at, end)
        if at < 0:
            return -1, 0, 0, 0
        if tag == 10:
            key, key_end = span(buffer, at, end)
            at = key_end
        elif tag == 18:
            first, last = span(buffer, at, end)
            at = last
        else:
            at = skip(buffer, at, end, tag & 7)
        if at < 0:
            return -1, 0, 0, 0
    return key, key_end, first, last


@lru_cache(1)
def teach() -> None:
    import numpy as np
    from numba.extending import overload, register_jitable

    varints.teach()

    @overload(mixed)
    def _(first: Any, last: Any, size: Any) -> Any:
        def hashed(first: Any, last: Any, size: Any) -> Any:
            found = (np.uint64(first) ^ np.uint64(last) * np.uint64(_MIX_LAST)) + np.uint64(size)
            found *= np.uint64(_MIX)
            return np.int64((found ^ found >> np.uint64(32)) >> np.uint64(1))

        return hashed

    for function in (first_word, last_word, _is_key, find, has_key, alone, quick, place, feature, entry):
        register_jitable(function)
