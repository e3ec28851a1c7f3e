"""The loops that read tf.train.Example messages: every function here runs as machine code and as Python."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.example_entries import (
    DIRECT,
    FORM,
    KIND,
    REACH,
    SIZE,
    alone,
    entry,
    feature,
    find,
    has_key,
    place,
    quick,
    teach,
)
from sparkflow_runtime.records.native import byte_at, raw, set_byte, set_word, uint32_at, word_at
from sparkflow_runtime.records.varints import FIXED32, VARINT, joined, skip, span, varint

BYTES_DIRECT = DIRECT + 1


def _teach() -> None:
    from numba.extending import register_jitable

    teach()
    for function in (_features, _number, _any_form):
        register_jitable(function)


def _features(
    buffer: Any, at: int, end: int, limit: int, names: Any, begins: Any, slots: Any, last_slot: int, after: Any,
    wanted: Any, forms: Any, i: int, n: int, kinds: Any, firsts: Any, lasts: Any,
) -> int:  # fmt: skip
    """Fill in message i from its Features in buffer[at:end]; the end, or -1 where they are none."""
    if at < 0:
        return -1
    before = 0  # the column of the entry before, plus 1
    while at < end:
        column, known = word_at(after, before), False
        if column >= 0 and at + REACH <= limit:
            form = forms + 8 * FORM * column
            known = has_key(buffer, at, form, names, begins, column)
            payload = alone(buffer, at, end, form) if known else 0
            if payload > 0:
                value, cell, kind = at + 10 + word_at(form, SIZE), column * n + i, word_at(form, KIND)
                number = _number(buffer, value, payload, kind)
                if number >= 0:
                    set_byte(kinds, cell, kind | DIRECT)
                    set_word(firsts, cell, number)
                    if kind == 1:
                        set_word(lasts, cell, value + payload)
                    before, at = column + 1, value + payload
                    continue
        size, last = quick(buffer, at, end, limit)
        if size >= 0:
            if not known:
                column = find(buffer, at + 4, size, limit, names, begins, slots, last_slot)
                set_word(after, before, column)
            if column >= 0:
                kind, first = place(buffer, at + 4 + size, last, word_at(wanted, column))
                cell = column * n + i
                set_byte(kinds, cell, kind)
                set_word(firsts, cell, first)
                if kind <= BYTES_DIRECT:  # a list, or a string
                    set_word(lasts, cell, last)
                before = column + 1
            at = last
            continue
        tag, at = varint(buffer, at, end)
        if at >= 0 and tag == 10:
            at, last = span(buffer, at, end)
            if at >= 0:
                column = _any_form(buffer, at, last, limit, names, begins, slots, last_slot, i, n, kinds, firsts, lasts)
                before, at = (column + 1, last) if column >= 0 else (before, last if column == -1 else -1)
        elif at >= 0:
            at = skip(buffer, at, end, tag & 7)
        if at < 0:
            return -1
    return at


def _number(buffer: Any, at: int, size: int, kind: int) -> int:
    """What `firsts` has for the one value in `size` bytes: a string's place, a float's bits or a number; -1: it is none
    of these, or a number that is negative or too long for a word."""
    if kind == 3:
        return joined(word_at(buffer + at, 0), size) if size <= 8 else -1
    if kind == 1:
        return at
    return int(uint32_at(buffer, at)) if size == 4 else -1


def _any_form(
    buffer: Any, at: int, end: int, limit: int, names: Any, begins: Any, slots: Any, last_slot: int, i: int, n: int,
    kinds: Any, firsts: Any, lasts: Any,
) -> int:  # fmt: skip
    """Fill in the feature of one entry of any form; its column, -1: of no interest, -2: it is no entry."""
    key, key_end, first, last = entry(buffer, at, end)
    if key < 0:
        return -2
    column = find(buffer, key, key_end - key, limit, names, begins, slots, last_slot)
    if column >= 0:
        kind, first, last = feature(buffer, first, last)
        if kind < 0:
            return -2
        cell = column * n + i
        set_byte(kinds, cell, kind)
        set_word(firsts, cell, first)
        set_word(lasts, cell, last)
    return column


_TYPES = "uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1]"


@compiled([f"int64({_TYPES}, int64[:,::1], uint8[:,::1], int64[:,::1], int64[:,::1])"], before=_teach)
def index(
    buffer: Any,
    starts: Any,
    ends: Any,
    names: Any,
    begins: Any,
    slots: Any,
    after: Any,
    wanted: Any,
    forms: Any,
    kinds: Any,
    firsts: Any,
    lasts: Any,
) -> int:
    """Fill in kind, start and end of each [feature, message]; the first message that is none, or -1.

    after: which key came after each, at [0] the first one, in the messages before; those of one writer mostly keep
    their order, with gaps. wanted: the kind of which single values are read at once, by key; then `kinds` has DIRECT,
    and `firsts` the value. forms: of each key and its kind.
    """
    bytes_, names_, begins_, slots_, after_, wanted_, forms_ = (
        raw(buffer), raw(names), raw(begins), raw(slots), raw(after), raw(wanted), raw(forms)
    )  # fmt: skip
    kinds_, firsts_, lasts_, n, limit, last_slot = (
        raw(kinds), raw(firsts), raw(lasts), kinds.shape[1], len(buffer), len(slots) - 1
    )  # fmt: skip
    for i in range(len(starts)):
        at, end = starts[i], ends[i]
        while at < end:
            tag, at = varint(bytes_, at, end)
            if at >= 0 and tag == 10:
                at, last = span(bytes_, at, end)
                at = _features(
                    bytes_, at, last, limit, names_, begins_, slots_, last_slot, after_, wanted_, forms_, i, n,
                    kinds_, firsts_, lasts_,
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
    to out[to[c, i]:]; 0: they are only counted. counts: how many there are. Gives the first message whose list is none,
    or -1."""
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
                if size == 0:
                    count, at = count + ((stop - at) >> 2), stop
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
                if size == 0 and tag == 10 and at < stop:
                    if byte_at(bytes_, stop - 1) >= 128:
                        return i
                    for k in range(at, stop):  # each number ends with such a byte; what is too long the next call tells
                        count += byte_at(bytes_, k) < 128
                    at = stop
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
