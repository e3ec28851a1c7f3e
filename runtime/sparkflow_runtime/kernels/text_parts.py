"""What lies where in strings: their lengths, parts and pieces, found where Python holds them.

Loops find addresses and lengths, of which text_makers.py makes strings. The functions return None where a loop is not
there, or where a string is not as most are: their callers then go string by string, and say what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.text_makers import functions, make_texts, new_text, put, teach, texts_at
from sparkflow_runtime.records import native
from sparkflow_runtime.records.held_texts import AS_EXPECTED, PARTS, address_of, begin_at, length_at, over_texts
from sparkflow_runtime.records.native import byte_at

_VECTOR, _TABLE = "Array(int64, 1, 'C', readonly=True)", "Array(uint8, 1, 'C', readonly=True)"
_UNREAD = -2
_FEW = 16  # for fewer Python takes less time than a call of a loop


@compiled(["int64(int64, int64, int64[::1], int64[::1])"], before=native.teach, nogil=False, parts=PARTS)
def find_texts(objects: int, kind: int, begins: Any, lengths: Any) -> int:
    """Where each string begins, and how many bytes it has."""
    for i in range(len(lengths)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        begins[i], lengths[i] = begin_at(objects, i), n
    return -1


@find_texts.otherwise
def _(objects: int, kind: int, begins: Any, lengths: Any) -> int:
    lengths[:] = _UNREAD
    return -1


@compiled(["int64(int64, int64, int64[::1])"], before=native.teach, nogil=False, parts=PARTS)
def count_characters(objects: int, kind: int, counts: Any) -> int:
    """The bytes of each that begin a character of UTF-8."""
    for i in range(len(counts)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, found = begin_at(objects, i), 0
        for at in range(n):
            found += byte_at(start, at) & 192 != 128
        counts[i] = found
    return -1


@count_characters.otherwise
def _(objects: int, kind: int, counts: Any) -> int:
    counts[:] = _UNREAD
    return -1


@compiled(
    [f"int64(int64, int64, {_VECTOR}, {_VECTOR}, int64, int64, int64[::1], int64[::1])"],
    before=native.teach,
    nogil=False,
    parts=PARTS,
)
def find_parts(
    objects: int, kind: int, places: Any, wanted: Any, step: int, step_wanted: int, begins: Any, lengths: Any
) -> int:
    """The part of each string that begins at its place, from the end where that is negative; with steps of 0 one place
    or one length is for all. A length below 0 is all that follows. Length -1: the place is not in the string."""
    for i in range(len(begins)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        at, most = places[i * step], wanted[i * step_wanted]
        at = at + n if at < 0 else at
        begins[i] = begin_at(objects, i) + at
        lengths[i] = -1 if at < 0 or at > n else (n - at if most < 0 else min(most, n - at))
    return -1


@find_parts.otherwise
def _(objects: int, kind: int, places: Any, wanted: Any, step: int, step_wanted: int, begins: Any, lengths: Any) -> int:
    lengths[:] = _UNREAD
    return -1


def after(start: int, at: int, n: int, count: int) -> Any:
    """(where so many characters of UTF-8 from `at` on end, how many of them there are)."""
    found = 0
    while at < n and found < count:
        at += 1
        while at < n and byte_at(start, at) & 192 == 128:
            at += 1
        found += 1
    return at, found


def before(start: int, n: int, count: int) -> Any:
    """(where so many of the last characters begin, how many of them there are)."""
    at, found = n, 0
    while at > 0 and found < count:
        at -= 1
        found += at == 0 or byte_at(start, at) & 192 != 128
    return at, found


@compiled(
    [f"int64(int64, int64, {_VECTOR}, {_VECTOR}, int64, int64, int64[::1], int64[::1])"],
    before=native.teach,
    nogil=False,
    parts=[*PARTS, after, before],
)
def find_characters(
    objects: int, kind: int, places: Any, wanted: Any, step: int, step_wanted: int, begins: Any, lengths: Any
) -> int:
    """The same in characters, of which what a string begins with is one. As TensorFlow has it, of lengths below 0
    nothing follows a place, and those from the end are outside."""
    for i in range(len(begins)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        place, most, start = places[i * step], wanted[i * step_wanted], begin_at(objects, i)
        at, found = after(start, 0, n, place) if place >= 0 else before(start, n, -place)
        end, _ = after(start, at, n, most)
        begins[i] = start + at
        lengths[i] = -1 if found != abs(place) or (place < 0 and most < 0) else end - at
    return -1


@find_characters.otherwise
def _(objects: int, kind: int, places: Any, wanted: Any, step: int, step_wanted: int, begins: Any, lengths: Any) -> int:
    lengths[:] = _UNREAD
    return -1


@compiled([f"int64(int64, int64, {_TABLE}, int64, int64[::1])"], before=native.teach, nogil=False, parts=PARTS)
def count_cut(objects: int, kind: int, cuts: Any, empty: int, counts: Any) -> int:
    """How many pieces each string has between bytes b with cuts[b] = 1; empty: whether those of no bytes count."""
    for i in range(len(counts)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, found, before = begin_at(objects, i), 0, -1
        for at in range(n):
            if cuts[byte_at(start, at)] != 0:
                found += empty != 0 or before + 1 < at
                before = at
        counts[i] = found + (empty != 0 or before + 1 < n)
    return -1


@count_cut.otherwise
def _(objects: int, kind: int, cuts: Any, empty: int, counts: Any) -> int:
    counts[:] = _UNREAD
    return -1


@compiled(["int64(int64, int64, int64, int64, int64[::1])"], before=native.teach, nogil=False, parts=PARTS)
def count_at(objects: int, kind: int, byte: int, empty: int, counts: Any) -> int:
    """The same of one byte, without a branch for each: processors then take many at once."""
    for i in range(len(counts)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, found = begin_at(objects, i), 0
        if empty != 0:
            for at in range(n):
                found += byte_at(start, at) == byte
            found += 1
        elif n > 0:
            for at in range(n - 1):
                found += (byte_at(start, at) == byte) & (byte_at(start, at + 1) != byte)
            found += byte_at(start, 0) != byte
        counts[i] = found
    return -1


@count_at.otherwise
def _(objects: int, kind: int, byte: int, empty: int, counts: Any) -> int:
    counts[:] = _UNREAD
    return -1


@compiled(
    [f"int64(int64, int64, {_TABLE}, int64, int64, int64, int64[:,::1], int64, int64)"],
    before=teach,
    nogil=False,
    parts=[*PARTS, put],
)
def make_cut(
    objects: int, kind: int, cuts: Any, empty: int, count: int, out: int, places: Any, make: int, drop: int
) -> int:  # fmt: skip
    """out[o] = the piece number places[o, 1] of string places[o, 0], of those that `count_cut` counts. -1, or the
    number of the first string of which there was no memory for one."""
    o = 0
    for i in range(count):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, before, number = begin_at(objects, i), -1, 0
        for at in range(n + 1):
            if at == n or cuts[byte_at(start, at)] != 0:
                if empty != 0 or before + 1 < at:
                    one = new_text(make, start + before + 1, at - before - 1)
                    if one == 0:
                        return i
                    put(out, o, one, drop)
                    places[o, 0], places[o, 1] = i, number
                    o, number = o + 1, number + 1
                before = at
    return -1


@make_cut.otherwise
def _(*_: Any) -> int:
    return 0


# ---------------------------------------------------------------------- of arrays


def lengths_of(array: np.ndarray, characters: bool) -> np.ndarray | None:
    """int32, in bytes or in characters of UTF-8."""
    counts = np.empty(array.size, np.int64)
    if array.size < _FEW:
        return None
    if characters:
        over_texts(count_characters, array, counts)
    else:
        over_texts(find_texts, array, np.empty(array.size, np.int64), counts)
    return counts.astype(np.int32).reshape(array.shape) if counts[0] != _UNREAD else None


def parts_of(array: np.ndarray, places: np.ndarray, wanted: np.ndarray, characters: bool) -> np.ndarray | None:
    """Of each string the part from its place on, so many bytes at most; each of the last two of the array's shape or
    one number. None also where a place is outside."""
    if array.size < _FEW:
        return None
    flat = [np.ascontiguousarray(v, np.int64).reshape(-1) for v in (places, wanted)]
    steps = [int(v.shape == array.shape) for v in (places, wanted)]
    begins, lengths = np.empty((2, array.size), np.int64)
    held = over_texts(find_characters if characters else find_parts, array, *flat, *steps, begins, lengths)
    found = texts_at(begins, lengths) if lengths.min() >= 0 else None
    del held  # until here the parts lay in its strings
    return None if found is None else found.reshape(array.shape)


def pieces_of(array: np.ndarray, cuts: bytes, empty: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(int64 [pieces, 2]: which string each piece is of, and its number in it; the pieces of all strings between any of
    these bytes; how many each string has)."""
    counts = np.empty(array.size, np.int64)
    if array.size < _FEW or not AS_EXPECTED:
        return None
    table = np.zeros(256, np.uint8)
    table[[*cuts]] = 1
    one = len(cuts) == 1
    held = over_texts(count_at if one else count_cut, array, cuts[0] if one else table, int(empty), counts)
    if counts[0] == _UNREAD:
        return None
    out = np.empty(int(counts.sum()), object)
    places = np.empty((out.size, 2), np.int64)
    wrong = make_cut(
        address_of(held), id(bytes), table, int(empty), array.size, address_of(out), places, *functions()
    )  # fmt: skip
    return (places, out, counts) if wrong < 0 else None


def characters_of(array: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(every byte of all strings as a string, how many bytes each has)."""
    begins, counts = np.empty((2, array.size), np.int64)
    if array.size < _FEW:
        return None
    held = over_texts(find_texts, array, begins, counts)
    if counts[0] == _UNREAD:
        return None
    total = int(counts.sum())
    places = np.arange(total) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
    found = texts_at(places, np.ones(total, np.int64))
    del held
    return None if found is None else (found, counts)


def prepare() -> None:
    for loop in (find_texts, count_characters, find_parts, find_characters, count_cut, count_at, make_cut, make_texts):
        loop.prepare()
