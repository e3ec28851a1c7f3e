"""The loops that write tf.train.Example messages, framed as in a TFRecord file or bare, and features by themselves."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import crc, varints
from sparkflow_runtime.records.crc import crc_of
from sparkflow_runtime.records.native import byte_at, move, raw, set_byte, set_uint32, set_word, uint32_at, word_at
from sparkflow_runtime.records.varints import put_varint, spread, varint_size

# Columns of the table that describes a feature: its kind, the addresses of its values, offsets and presence (a byte a
# message, or 0) and of the ends of its strings, and where its size and name begin and end in `heads`. OFFSETS 0: each
# message has one value, of its own number. HEAD8: where the bytes before the Feature of an entry of less than 128 bytes
# stand, but for the entry's length; after them is room for a word. PLAIN: 2 or 3 of a feature that is one float or
# number in each message, else 0; FIRST and TAIL: what its entry has in its first word and after its name, but for the
# bytes of the payload in their lengths.
KIND, VALUES, OFFSETS, PRESENT, ENDS, HEAD, HEAD_END, HEAD8, PLAIN, FIRST, TAIL, WIDTH = range(12)
_LENGTHS = 1 << 8 | 1 << 24 | 1 << 40  # a byte more of the payload in the three lengths of a tail
MESSAGES = 4  # a kind beside those of Feature: strings that are features themselves, in a FeatureList


def _string_bytes(ends: Any, first: int, last: int) -> int:
    total = 0
    for k in range(first, last):
        length = word_at(ends, k + 1) - word_at(ends, k)
        total += 1 + varint_size(length) + length
    return total


def _int_bytes(values: Any, first: int, last: int) -> int:
    total = 0
    for k in range(first, last):
        total += varint_size(unsigned(word_at(values, k)))
    return total


def unsigned(value: int) -> int:
    return value & (1 << 64) - 1


def _put_values(out: Any, at: int, kind: int, values: Any, ends: Any, first: int, last: int) -> int:
    if kind == 1 or kind == MESSAGES:
        for k in range(first, last):
            start, length = word_at(ends, k), word_at(ends, k + 1) - word_at(ends, k)
            set_byte(out, at, 10)
            at = put_varint(out, at + 1, length)
            move(values, start, length, out, at)
            at += length
    elif kind == 2:
        move(values, 4 * first, 4 * (last - first), out, at)
        at += 4 * (last - first)
    else:
        for k in range(first, last):
            at = put_varint(out, at, unsigned(word_at(values, k)))
    return at


def _put_single(out: Any, at: int, table: Any, heads: Any, k: int) -> int:
    """The whole entry of a feature with one value, number k, by words; -1: it needs the long way."""
    kind, values, ends = word_at(table, KIND), word_at(table, VALUES), word_at(table, ENDS)
    size, start = word_at(table, HEAD_END) - word_at(table, HEAD), 0
    if kind == 1:
        start = word_at(ends, k)
        payload = word_at(ends, k + 1) - start
    elif kind == 2:
        payload = 4
    else:
        payload = varint_size(unsigned(word_at(values, k)))
    length = size + 6 + payload
    if length >= 128 or payload == 0 or (payload > 8 and kind == 3):
        return -1
    head = heads + word_at(table, HEAD8)
    set_word(out + at, 0, word_at(head, 0) | length << 8)
    for j in range(8, size + 2, 8):
        set_word(out + at + j, 0, word_at(head + j, 0))
    at += size + 2
    set_word(
        out + at, 0, 18 | (payload + 4) << 8 | (kind << 3 | 2) << 16 | (payload + 2) << 24 | (10 | payload << 8) << 32
    )
    at += 6
    if kind == 1:
        move(values, start, payload, out, at)
    elif kind == 2:
        set_uint32(out, at, uint32_at(values, 4 * k))
    else:
        set_word(out + at, 0, spread(word_at(values, k), payload))
    return at + payload


def _put_plain(out: Any, at: int, row: Any, heads: Any, i: int) -> int:
    """The entry of a PLAIN feature; -1: its number is too long, or negative."""
    values, name_end = word_at(row, VALUES), word_at(row, HEAD_END) - word_at(row, HEAD) + 2
    if word_at(row, PLAIN) == 2:
        payload, word = 4, int(uint32_at(values, 4 * i))
    else:
        number = word_at(values, i)
        payload = varint_size(unsigned(number))
        if payload > 8:
            return -1
        word = spread(number, payload)
    set_word(out + at, 0, word_at(row, FIRST) + (payload << 8))
    k = 8
    while k < name_end:
        set_word(out + at + k, 0, word_at(heads + word_at(row, HEAD8) + k, 0))
        k += 8
    set_word(out + at + name_end, 0, word_at(row, TAIL) + payload * _LENGTHS)
    set_word(out + at + name_end + 6, 0, word)
    return at + name_end + 6 + payload


def _put_feature(out: Any, at: int, table: Any, heads: Any, i: int) -> int:
    """One entry of the map of features, of message i."""
    kind, values, ends = word_at(table, KIND), word_at(table, VALUES), word_at(table, ENDS)
    first, last = i, i + 1
    if word_at(table, OFFSETS):
        first, last = word_at(word_at(table, OFFSETS), i), word_at(word_at(table, OFFSETS), i + 1)
    if last - first == 1 and word_at(table, HEAD8) >= 0:
        single = _put_single(out, at, table, heads, first)
        if single >= 0:
            return single
    payload, listed = _sizes(kind, values, ends, first, last)
    feature = listed if kind == MESSAGES else 1 + varint_size(listed) + listed
    head, head_size = word_at(table, HEAD), word_at(table, HEAD_END) - word_at(table, HEAD)
    set_byte(out, at, 10)
    at = put_varint(out, at + 1, head_size + 1 + varint_size(feature) + feature)
    for k in range(head_size):
        set_byte(out, at + k, byte_at(heads, head + k))
    at += head_size
    set_byte(out, at, 18)
    at = put_varint(out, at + 1, feature)
    if kind != MESSAGES:
        at = _put_list_head(out, at, kind, payload, listed)
    return _put_values(out, at, kind, values, ends, first, last)


def _sizes(kind: int, values: Any, ends: Any, first: int, last: int) -> tuple[int, int]:
    """Bytes of the values, and of the list with its tags."""
    if kind == 1 or kind == MESSAGES:
        listed = payload = _string_bytes(ends, first, last)
    else:
        payload = 4 * (last - first) if kind == 2 else _int_bytes(values, first, last)
        listed = 1 + varint_size(payload) + payload if payload else 0
    return payload, listed


def _put_list_head(out: Any, at: int, kind: int, payload: int, listed: int) -> int:
    set_byte(out, at, kind << 3 | 2)
    at = put_varint(out, at + 1, listed)
    if kind != 1 and payload:
        set_byte(out, at, 10)
        at = put_varint(out, at + 1, payload)
    return at


def _teach() -> None:
    import numpy as np
    from numba.extending import overload, register_jitable

    crc.teach()
    varints.teach()

    @overload(unsigned)
    def _(value: Any) -> Any:
        def same_bits(value: Any) -> Any:
            return np.uint64(value)

        return same_bits

    functions: list[Any] = [_string_bytes, _int_bytes, _sizes, _put_list_head, _put_values, _put_single, _put_plain]
    functions.append(_put_feature)
    for function in functions:
        register_jitable(function)


@compiled(["int64(int64[:,::1], uint8[::1], int64, int64, uint8[::1], int64[::1])"], before=_teach)
def rows(table: Any, heads: Any, framed: bool, tag: int, out: Any, ends: Any) -> int:
    """Write messages one after the other, each a map of features with this tag before it; ends[i]: where message i
    (with its frame) ends. How much was written; `out` must have room for it all."""
    view, names, features = raw(out), raw(heads), raw(table)
    at, guess = 0, 2  # bytes that the size of a message takes: those of the one before, mostly
    for i in range(len(ends)):
        start = at + 12 if framed else at
        body = start + 1 + guess
        at = body
        for c in range(len(table)):
            row = features + 8 * WIDTH * c
            if word_at(row, PLAIN):
                after = _put_plain(view, at, row, names, i)
                if after >= 0:
                    at = after
                    continue
            present = word_at(row, PRESENT)
            if present == 0 or byte_at(present, i):
                at = _put_feature(view, at, row, names, i)
        size = at - body
        if varint_size(size) != guess:
            guess = varint_size(size)
            move(view, body, size, view, start + 1 + guess)
            at = start + 1 + guess + size
        set_byte(view, start, tag)
        put_varint(view, start + 1, size)
        if framed:
            length = at - start
            for k in range(8):
                set_byte(view, start - 12 + k, length >> (8 * k) & 0xFF)
            set_uint32(view, start - 4, crc_of(view, start - 12, start - 4))
            set_uint32(view, at, crc_of(view, start, at))
            at += 4
        ends[i] = at
    return at


@compiled(["int64(int64[:,::1], uint8[::1], int64[::1])"], before=_teach)
def features(table: Any, out: Any, ends: Any) -> int:
    """Write the values of each message as a tf.train.Feature; ends[i]: where it ends. As `rows`, of one feature."""
    view, row, at = raw(out), raw(table), 0
    kind, values, strings = word_at(row, KIND), word_at(row, VALUES), word_at(row, ENDS)
    for i in range(len(ends)):
        first, last = i, i + 1
        if word_at(row, OFFSETS):
            first, last = word_at(word_at(row, OFFSETS), i), word_at(word_at(row, OFFSETS), i + 1)
        payload, listed = _sizes(kind, values, strings, first, last)
        at = _put_list_head(view, at, kind, payload, listed)
        at = _put_values(view, at, kind, values, strings, first, last)
        ends[i] = at
    return at
