"""Strings told apart: which of them are the same, by a table of hashes of where Python holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.held_texts import PARTS, begin_at, length_at, over_texts
from sparkflow_runtime.records.native import teach, uint64_at

_FEW = 16  # for fewer a dictionary takes less time than a call of a loop
_UNREAD = -2


def distinct_texts(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(the different ones in order of first appearance, which of them each of a vector is (int64)). None where the
    loop is not there."""
    if texts.size < _FEW:
        number_texts.prepare()
        return None
    size = 1 << (2 * texts.size - 1).bit_length()
    slots, marks = np.zeros(size, np.int64), np.empty(size, np.uint64)
    firsts, which = np.empty(texts.size, np.int64), np.empty(texts.size, np.int64)
    count = np.zeros(1, np.int64)
    held = over_texts(number_texts, texts, slots, marks, firsts, which, count)
    return None if count[0] == _UNREAD else (held[firsts[: count[0]]], which)


def last_word(start: int, n: int) -> Any:
    """The last 8 bytes, or as many as there are; an object begins more than 8 bytes before its first."""
    if n == 0:
        return np.uint64(0)
    word = np.uint64(uint64_at(start, n - 8))
    return word if n >= 8 else word >> np.uint64(64 - 8 * n)


def hash_of(start: int, n: int) -> Any:
    found, mixed, fold = np.uint64(n), np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # 2**64 by the golden ratio
    at = 0
    while at + 8 < n:
        found = (found ^ np.uint64(uint64_at(start, at))) * mixed
        found ^= found >> fold
        at += 8
    found = (found ^ last_word(start, n)) * mixed
    found ^= found >> fold
    found *= mixed
    return found ^ found >> fold


def are_equal(one: int, other: int, n: int) -> bool:
    at = 0
    while at + 8 < n:
        if uint64_at(one, at) != uint64_at(other, at):
            return False
        at += 8
    return last_word(one, n) == last_word(other, n)


@compiled(
    ["int64(int64, int64, int64[::1], uint64[::1], int64[::1], int64[::1], int64[::1])"],
    before=teach,
    nogil=False,
    parts=[*PARTS, last_word, hash_of, are_equal],
)
def number_texts(objects: int, kind: int, slots: Any, marks: Any, firsts: Any, which: Any, count: Any) -> int:
    """slots: zeros, a power of two and more of them than strings; marks: as many. firsts: where the first of each is,
    which: the number of each string's among them, count[0]: how many there are."""
    slots[:] = 0
    found, last = 0, np.uint64(len(slots) - 1)
    for i in range(len(which)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start = begin_at(objects, i)
        mark = hash_of(start, n)
        at = mark & last
        while True:
            number = slots[at] - 1
            if number < 0:
                slots[at], marks[at] = found + 1, mark
                firsts[found], which[i] = i, found
                found += 1
                break
            first = firsts[number]
            alike = marks[at] == mark and length_at(objects, first, kind) == n
            if alike and are_equal(start, begin_at(objects, first), n):
                which[i] = number
                break
            at = (at + np.uint64(1)) & last
    count[0] = found
    return -1


@number_texts.otherwise
def _(objects: int, kind: int, slots: Any, marks: Any, firsts: Any, which: Any, count: Any) -> int:
    """A dictionary of the strings is faster than these arrays."""
    count[0] = _UNREAD
    return -1
