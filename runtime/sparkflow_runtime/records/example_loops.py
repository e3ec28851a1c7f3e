"""The loops that read tf.train.Example messages: every function here runs as machine code and as Python."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.native import byte_at, raw, uint32_at, word_at
from sparkflow_runtime.records.varints import BYTES, FIXED32, VARINT, skip, span, teach, varint


def fnv1a(buffer: Any, start: int, end: int) -> int:
    """FNV-1a, 32 bits."""
    found = 2166136261
    for at in range(start, end):
        found = ((found ^ byte_at(buffer, at)) * 16777619) & 0xFFFFFFFF
    return found


def _is_key(buffer: Any, start: int, end: int, text: Any, begins: Any, column: int) -> bool:
    begin = word_at(begins, column)
    if word_at(begins, column + 1) - begin != end - start:
        return False
    for k in range(end - start):  # noqa: SIM110 - numba knows no all()
        if byte_at(buffer, start + k) != byte_at(text, begin + k):
            return False
    return True


def _find(buffer: Any, start: int, end: int, text: Any, begins: Any, slots: Any, last_slot: int) -> int:
    """Which key buffer[start:end] is; -1: none."""
    at = fnv1a(buffer, start, end) & last_slot
    while word_at(slots, at) >= 0:
        if _is_key(buffer, start, end, text, begins, word_at(slots, at)):
            return word_at(slots, at)
        at = (at + 1) & last_slot
    return -1


def _teach() -> None:
    from numba.extending import register_jitable

    teach()
    for function in (fnv1a, _is_key, _find, _expected, _feature, _entry, _features, _slow):
        register_jitable(function)


def _expected(buffer: Any, at: int, end: int, text: Any, begins: Any, column: int) -> tuple[int, int, int]:
    """(kind, start, end) of the list in an entry of less than 128 bytes with this key and nothing but one list, which
    ends where the entry does; kind 0: it is another one."""
    size = word_at(begins, column + 1) - word_at(begins, column)
    value = at + 4 + size
    if value + 4 > end or byte_at(buffer, at) != 10 or byte_at(buffer, at + 2) != 10:
        return 0, 0, 0
    last = at + 2 + byte_at(buffer, at + 1)
    if last >= at + 130 or last > end or last < value + 4 or byte_at(buffer, at + 3) != size:
        return 0, 0, 0
    kind = byte_at(buffer, value + 2) >> 3
    fits = byte_at(buffer, value) == 18 and value + 2 + byte_at(buffer, value + 1) == last
    fits = fits and value + 4 + byte_at(buffer, value + 3) == last and byte_at(buffer, value + 2) & 7 == BYTES
    if not fits or kind < 1 or kind > 3 or not _is_key(buffer, at + 4, value, text, begins, column):
        return 0, 0, 0
    return kind, value + 4, last


def _feature(buffer: Any, at: int, end: int) -> tuple[int, int, int]:
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


def _entry(buffer: Any, at: int, end: int) -> tuple[int, int, int, int]:
    """(start, end) of the key and of the Feature in an entry of the map; the first is -1 where it is none."""
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


def _features(
    buffer: Any, at: int, end: int, text: Any, begins: Any, slots: Any, last_slot: int, guess: Any, i: int,
    kinds: Any, firsts: Any, lasts: Any,
) -> int:  # fmt: skip
    """Fill in message i from its Features in buffer[at:end]; the end, or -1 where they are none."""
    if at < 0:
        return -1
    position = 0
    while at < end:
        column = guess[position] if position < len(guess) else -1
        if column >= 0:
            kind, first, last = _expected(buffer, at, end, text, begins, column)
            if kind:
                kinds[column, i], firsts[column, i], lasts[column, i] = kind, first, last
                at, position = last, position + 1
                continue
        tag, at = varint(buffer, at, end)
        if at < 0:
            return -1
        if tag != 10:
            at = skip(buffer, at, end, tag & 7)
            if at < 0:
                return -1
            continue
        at, entry_end = span(buffer, at, end)
        if at < 0:
            return -1
        column = _slow(buffer, at, entry_end, text, begins, slots, last_slot, i, kinds, firsts, lasts)
        if column < -1:
            return -1
        if position < len(guess):
            guess[position] = column
        at, position = entry_end, position + 1
    return at


def _slow(
    buffer: Any, at: int, end: int, text: Any, begins: Any, slots: Any, last_slot: int, i: int,
    kinds: Any, firsts: Any, lasts: Any,
) -> int:  # fmt: skip
    """Fill in the feature of one entry of any form; its column, -1: of no interest, -2: it is no entry."""
    key, key_end, first, last = _entry(buffer, at, end)
    if key < 0:
        return -2
    column = _find(buffer, key, key_end, text, begins, slots, last_slot)
    if column >= 0:
        kind, first, last = _feature(buffer, first, last)
        if kind < 0:
            return -2
        kinds[column, i], firsts[column, i], lasts[column, i] = kind, first, last
    return column


_TYPES = "uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1]"


@compiled([f"int64({_TYPES}, uint8[:,::1], int64[:,::1], int64[:,::1])"], before=_teach)
def index(
    buffer: Any,
    starts: Any,
    ends: Any,
    text: Any,
    begins: Any,
    slots: Any,
    guess: Any,
    kinds: Any,
    firsts: Any,
    lasts: Any,
) -> int:
    """Fill in kind, start and end of each [feature, message]; the first message that is none, or -1.

    guess: which key the k-th entry of the message before had; messages of one writer mostly keep their order.
    """
    bytes_, text_, begins_, slots_ = raw(buffer), raw(text), raw(begins), raw(slots)
    for i in range(len(starts)):
        at, end = starts[i], ends[i]
        while at < end:
            tag, at = varint(bytes_, at, end)
            if at >= 0 and tag == 10:
                at, last = span(bytes_, at, end)
                at = _features(
                    bytes_, at, last, text_, begins_, slots_, len(slots) - 1, guess, i, kinds, firsts, lasts
                )  # fmt: skip
            elif at >= 0:
                at = skip(bytes_, at, end, tag & 7)
            if at < 0:
                return i
    return -1


_RUN = 256
_LISTS = "uint8[::1], int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64"


@compiled([f"int64({_LISTS}, uint32[::1], int64[:,::1])"], before=_teach)
def floats(buffer: Any, columns: Any, firsts: Any, lasts: Any, to: Any, size: int, out: Any, counts: Any) -> int:
    """Values of column c in message i: the first `size` to out[(c * n + i) * size:] or, where size is -1, all of them
    to out[to[c, i]:]. counts: how many there are. Gives the first message whose list is none, or -1."""
    bytes_ = raw(buffer)
    n = counts.shape[1]
    for turn in range(len(columns) * (-(-n // _RUN))):  # the columns of some messages, then of the next ones: cached
        c, first = turn % len(columns), turn // len(columns) * _RUN
        for i in range(first, min(n, first + _RUN)):
            at, end, count = firsts[columns[c], i], lasts[columns[c], i], 0
            place, room = ((c * n + i) * size, size) if size >= 0 else (to[c, i], end - at)
            while at < end:
                tag, at = varint(bytes_, at, end)
                if at < 0:
                    return i
                stop = at
                if tag == 10:
                    at, stop = span(bytes_, at, end)
                elif tag & 7 == FIXED32 and tag >> 3 == 1:
                    stop = at + 4
                else:
                    stop = at = skip(bytes_, at, end, tag & 7)
                if at < 0 or stop > end or (stop - at) & 3:
                    return i
                while at < stop:
                    if count < room:
                        out[place + count] = uint32_at(bytes_, at)
                    count += 1
                    at += 4
            counts[c, i] = count
    return -1


@compiled([f"int64({_LISTS}, uint64[::1], int64[:,::1])"], before=_teach)
def ints(buffer: Any, columns: Any, firsts: Any, lasts: Any, to: Any, size: int, out: Any, counts: Any) -> int:
    bytes_ = raw(buffer)
    n = counts.shape[1]
    for turn in range(len(columns) * (-(-n // _RUN))):  # the columns of some messages, then of the next ones: cached
        c, first = turn % len(columns), turn // len(columns) * _RUN
        for i in range(first, min(n, first + _RUN)):
            at, end, count = firsts[columns[c], i], lasts[columns[c], i], 0
            place, room = ((c * n + i) * size, size) if size >= 0 else (to[c, i], end - at)
            while at < end:
                tag, at = varint(bytes_, at, end)
                if at < 0:
                    return i
                stop = at
                if tag == 10:
                    at, stop = span(bytes_, at, end)
                elif tag & 7 == VARINT and tag >> 3 == 1:
                    stop = at + 1  # one number, as long as it is
                else:
                    stop = at = skip(bytes_, at, end, tag & 7)
                if at < 0:
                    return i
                while at < stop:
                    value, at = varint(bytes_, at, end)
                    if at < 0:
                        return i
                    if count < room:
                        out[place + count] = value
                    count += 1
                if tag == 10 and at != stop:
                    return i
            counts[c, i] = count
    return -1


@compiled([f"int64({_LISTS}, int64[:,::1], int64[:,::1])"], before=_teach)
def byte_spans(buffer: Any, columns: Any, firsts: Any, lasts: Any, to: Any, size: int, out: Any, counts: Any) -> int:
    bytes_ = raw(buffer)
    n = counts.shape[1]
    for turn in range(len(columns) * (-(-n // _RUN))):  # the columns of some messages, then of the next ones: cached
        c, first = turn % len(columns), turn // len(columns) * _RUN
        for i in range(first, min(n, first + _RUN)):
            at, end, count = firsts[columns[c], i], lasts[columns[c], i], 0
            place, room = ((c * n + i) * size, size) if size >= 0 else (to[c, i], end - at)
            while at < end:
                tag, at = varint(bytes_, at, end)
                if at < 0:
                    return i
                if tag == 10:
                    start, at = span(bytes_, at, end)
                    if at >= 0 and count < room:
                        out[place + count, 0], out[place + count, 1] = start, at
                    count += 1
                else:
                    at = skip(bytes_, at, end, tag & 7)
                if at < 0:
                    return i
            counts[c, i] = count
    return -1
