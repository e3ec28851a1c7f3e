"""Strings against a pattern's table (regex_machines.py), where Python holds them: matched as a whole, and rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.regex_machines import Machine
from sparkflow_runtime.kernels.text_makers import functions, new_text, put, teach
from sparkflow_runtime.kernels.text_parts import find_texts
from sparkflow_runtime.records.held_texts import AS_EXPECTED, PARTS, address_of, begin_at, length_at, over_texts
from sparkflow_runtime.records.native import byte_at, move

_TABLE, _MARKS, _VECTOR = (f"Array({kind}, 1, 'C', readonly=True)" for kind in ("uint16", "uint8", "int64"))
_UNREAD, _ROOM = 2, 1 << 16


def all_match(texts: np.ndarray, machine: Machine, always: bool) -> np.ndarray | None:
    """Which of a vector match (bool), by a machine of whole strings. None where the loops are not there, unless always:
    then Python goes through them."""
    return _asked(match_all, texts, machine, always)


def that_match(texts: np.ndarray, machine: Machine, always: bool) -> np.ndarray | None:
    """Which of a vector hold a match (bool)."""
    return _asked(search_all, texts, machine, always)


def _asked(loop: Compiled, texts: np.ndarray, machine: Machine, always: bool) -> np.ndarray | None:
    found = np.full(texts.size, _UNREAD, np.uint8)
    held = over_texts(loop, texts, *machine[:4], found)
    if found.max(initial=0) == _UNREAD and always and AS_EXPECTED:
        loop.loop(address_of(held), id(bytes), *machine[:4], found)
    return found.view(np.bool_) if found.max(initial=0) < _UNREAD else None


def rewritten(
    texts: np.ndarray, machine: Machine, pieces: Sequence[bytes | int], every: bool, always: bool
) -> np.ndarray | None:  # fmt: skip
    """A vector of strings with every match, or the first, replaced by the pieces, of which numbers are groups. A match
    takes at least a byte. None where the loop is not there, unless always and it writes no group but the first."""
    begins, lengths = np.empty((2, texts.size), np.int64)
    if not AS_EXPECTED:
        return None
    held = over_texts(find_texts, texts, begins, lengths)
    longest, out = int(lengths.max(initial=0)), held.copy()
    groups = max((piece for piece in pieces if isinstance(piece, int)), default=0)
    if longest >= 0:
        literal = np.frombuffer(b"".join(piece for piece in pieces if isinstance(piece, bytes)) or b"\0", np.uint8)
        widths = np.array([-1 - piece if isinstance(piece, int) else len(piece) for piece in pieces], np.int64)
        spans = np.empty((2 * groups + 2) * (longest + 1), np.int64)
        seen, stack = np.empty(_ROOM if groups else 0, np.uint8), np.empty(6 * _ROOM if groups else 0, np.int64)
        wrong = replace_all(
            address_of(held), id(bytes), *machine, groups, seen, stack, address_of(literal), widths, int(every), spans,
            address_of(out), out.size, *functions(),
        )  # fmt: skip
        if wrong < 0:
            return out
    replace_all.prepare()
    return _rewritten_by_python(held, machine, pieces, every) if always and not groups else None


def _rewritten_by_python(held: np.ndarray, machine: Machine, pieces: Sequence[bytes | int], every: bool) -> np.ndarray:
    out = held.copy()
    for i, text in enumerate(held):
        parts, before, start = [], 0, begin_at(address_of(held), i)
        at, end = next_match(start, len(text), 0, *machine[:4])
        while end >= 0:
            parts += [text[before:at], *[piece if isinstance(piece, bytes) else text[at:end] for piece in pieces]]
            before = end
            at, end = next_match(start, len(text), end, *machine[:4]) if every else (end, -1)
        out[i] = b"".join([*parts, text[before:]])
    return out


@compiled(
    [f"int64(int64, int64, {_TABLE}, {_MARKS}, int64, int64, uint8[::1])"], before=teach, nogil=False, parts=PARTS
)
def match_all(objects: int, kind: int, table: Any, marks: Any, begin: int, later: int, found: Any) -> int:
    for i in range(len(found)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, state = begin_at(objects, i), np.uint64(begin)
        for at in range(n):
            state = np.uint64(table[state << np.uint64(8) | np.uint64(byte_at(start, at))])
            if state == np.uint64(0):
                break
        found[i] = 1 if marks[state] & 2 != 0 else 0
    return -1


@match_all.otherwise
def _(objects: int, kind: int, table: Any, marks: Any, begin: int, later: int, found: Any) -> int:
    return -1


def next_match(start: int, n: int, at: int, table: Any, marks: Any, begin: int, later: int) -> Any:
    """(where the next match from `at` on begins, where it ends); (n, -1) where there is none."""
    first, eight, dead = np.uint64(later) << np.uint64(8), np.uint64(8), np.uint64(0)
    while at < n:
        state = np.uint64(begin)
        if at > 0:
            if later == 0:
                break
            while at < n and table[first | np.uint64(byte_at(start, at))] == 0:
                at += 1
            if at == n:
                break
            state = np.uint64(later)
        place, end = at, -1
        while state != dead:
            mark = marks[state]
            if mark & 1 != 0:
                end = place
            if place == n:
                if mark & 2 != 0:
                    end = n
                break
            state = np.uint64(table[state << eight | np.uint64(byte_at(start, place))])
            place += 1
        if end > at:
            return at, end
        at += 1
    return n, -1


@compiled(
    [f"int64(int64, int64, {_TABLE}, {_MARKS}, int64, int64, uint8[::1])"],
    before=teach,
    nogil=False,
    parts=[*PARTS, next_match],
)
def search_all(objects: int, kind: int, table: Any, marks: Any, begin: int, later: int, found: Any) -> int:
    for i in range(len(found)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        _, end = next_match(begin_at(objects, i), n, 0, table, marks, begin, later)
        found[i] = 1 if end >= 0 else 0
    return -1


@search_all.otherwise
def _(objects: int, kind: int, table: Any, marks: Any, begin: int, later: int, found: Any) -> int:
    return -1


def groups_of(
    start: int, n: int, begin: int, end: int, program: Any, entry: int, seen: Any, stack: Any, spans: Any, first: int,
    groups: int,
) -> bool:  # fmt: skip
    """spans[first + 2 * g], and the next one: where group g of a match begins and ends, -1 where it took no part. False
    where there is no room: the ways through the program are tried in their order, none twice (BitState of RE2)."""
    wide = end - begin + 1
    if len(program) // 4 * wide > len(seen):
        return False
    seen[: len(program) // 4 * wide] = 0
    for k in range(2 * groups + 2):
        spans[first + k] = -1
    spans[first], spans[first + 1] = begin, end
    stack[0], stack[1], stack[2], top = entry, begin, 0, 3
    while top > 0:
        top -= 3
        order, at = stack[top], stack[top + 1]
        if stack[top + 2] != 0:  # what a save that led nowhere had been before
            spans[order] = at
            continue
        while True:
            if seen[order * wide + at - begin] != 0:
                break
            seen[order * wide + at - begin] = 1
            kind, one, other = program[4 * order], program[4 * order + 1], program[4 * order + 2]
            if kind == 0:
                if at == end:
                    return True
                break
            if kind == 2:
                stack[top], stack[top + 1], stack[top + 2], top = other, at, 0, top + 3
                order = one
                continue
            if kind == 1:
                if at == end or byte_at(start, at) < one or byte_at(start, at) > other:
                    break
                at += 1
            elif (kind == 3 and at != 0) or (kind == 4 and at != n):
                break
            elif kind == 5 and one <= 2 * groups + 1:
                stack[top], stack[top + 1], stack[top + 2], top = first + one, spans[first + one], 1, top + 3
                spans[first + one] = at
            order = program[4 * order + 3]
    return False


@compiled(
    [
        f"int64(int64, int64, {_TABLE}, {_MARKS}, int64, int64, {_VECTOR}, int64, int64, uint8[::1], int64[::1], "
        f"int64, {_VECTOR}, int64, int64[::1], int64, int64, int64, int64)"
    ],
    before=teach,
    nogil=False,
    parts=[*PARTS, put, next_match, groups_of],
)
def replace_all(
    objects: int, kind: int, table: Any, marks: Any, begin: int, later: int, program: Any, entry: int, groups: int,
    seen: Any, stack: Any, literal: int, widths: Any, every: int, spans: Any, out: int, count: int, make: int,
    drop: int,
) -> int:  # fmt: skip
    """Into `out`, which holds the strings as they are. spans: room for all matches of a string and their groups. -1, or
    the number of the first that is no bytes object, or that there was no memory or room for."""
    wide = 2 * groups + 2
    for i in range(count):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, held, total = begin_at(objects, i), 0, n
        at, end = next_match(start, n, 0, table, marks, begin, later)
        while end >= 0:
            spans[held], spans[held + 1] = at, end
            if groups > 0 and not groups_of(start, n, at, end, program, entry, seen, stack, spans, held, groups):
                return i
            total -= end - at
            for width in widths:
                total += width if width >= 0 else spans[held - 2 * width - 1] - spans[held - 2 * width - 2]
            held += wide
            if every == 0:
                break
            at, end = next_match(start, n, end, table, marks, begin, later)
        if held == 0:
            continue
        one = new_text(make, 0, total)
        if one == 0:
            return i
        put(out, i, one, drop)
        to, before = begin_at(out, i), 0
        for k in range(0, held, wide):
            source = literal
            move(start, before, spans[k] - before, to, 0)
            to += spans[k] - before
            for width in widths:
                if width >= 0:
                    move(source, 0, width, to, 0)
                    to, source = to + width, source + width
                else:
                    place = spans[k - 2 * width - 2]
                    size = spans[k - 2 * width - 1] - place
                    move(start, place, size, to, 0)
                    to += size
            before = spans[k + 1]
        move(start, before, n - before, to, 0)
    return -1


@replace_all.otherwise
def _(*_: Any) -> int:
    return 0


def prepare() -> None:
    for loop in (find_texts, match_all, search_all, replace_all):
        loop.prepare()
