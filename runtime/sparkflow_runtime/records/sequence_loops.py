"""The loops that read the features of feature lists straight into tensors, where nothing is wrong with them.

What is wrong (a feature that is none, of another kind, or with another number of values than asked for) ends a loop;
whoever calls it reads the lists again by `sequences.feature_lists`, slower, which knows in words what it is.
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.example_entries import feature, teach
from sparkflow_runtime.records.native import move, raw, set_word
from sparkflow_runtime.records.varints import FIXED32, VARINT, skip, span, varint


def _teach() -> None:
    from numba.extending import register_jitable

    teach()
    register_jitable(_values)


def _values(buffer: Any, kind: int, at: int, end: int, out: Any, to: int) -> int:
    """How many values the list of that kind has; -1: it is none. out: where to, unless it is 0: from value `to` on
    their bits (float32, int64), or where a string begins and ends (two int64)."""
    first, packed = to, FIXED32 if kind == 2 else VARINT
    while at < end:
        tag, at = varint(buffer, at, end)
        if at < 0:
            return -1
        stop = at
        if tag == 10:
            at, stop = span(buffer, at, end)
        elif kind != 1 and tag >> 3 == 1 and tag & 7 == packed:
            stop = at + 4 if kind == 2 else at + 1  # one number, as long as it is
        else:
            stop = at = skip(buffer, at, end, tag & 7)
        if at < 0 or (kind == 2 and (stop > end or (stop - at) & 3)):
            return -1
        if kind == 1:
            if tag == 10:
                if out != 0:
                    set_word(out, 2 * to, at)
                    set_word(out, 2 * to + 1, stop)
                to += 1
            at = stop
        elif kind == 2:
            if out != 0:
                move(buffer, at, stop - at, out, 4 * to)
            to += (stop - at) >> 2
            at = stop
        else:
            while at < stop:
                value, at = varint(buffer, at, end)
                if at < 0:
                    return -1
                if out != 0:
                    set_word(out, to, value)
                to += 1
            if tag == 10 and at != stop:
                return -1
    return to - first


@compiled(
    ["int64(uint8[::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1], int64[:,::1], int64[:,::1])"],
    before=_teach,
)
def count(buffer: Any, firsts: Any, lasts: Any, kinds: Any, sizes: Any, steps: Any, values: Any) -> int:
    """How many features and values each [list, message] has, at buffer[firsts:lasts]; not 0: a list is not as it
    should be. kinds: of each list. sizes: how many values each of its features has; -1: any number."""
    bytes_ = raw(buffer)
    for c in range(len(kinds)):
        for i in range(firsts.shape[1]):
            at, end, found, total = firsts[c, i], lasts[c, i], 0, 0
            while at < end:
                tag, at = varint(bytes_, at, end)
                if at < 0:
                    return 1
                if tag != 10:
                    at = skip(bytes_, at, end, tag & 7)
                    if at < 0:
                        return 1
                    continue
                at, stop = span(bytes_, at, end)
                if at < 0:
                    return 1
                kind, first, last = feature(bytes_, at, stop)
                more = 0
                if kind == kinds[c]:
                    more = _values(bytes_, kind, first, last, 0, 0)
                elif kind != 0:
                    return 1
                if more < 0 or (sizes[c] >= 0 and more != sizes[c]):
                    return 1
                found, total, at = found + 1, total + more, stop
            steps[c, i], values[c, i] = found, total
    return 0


@compiled(
    ["int64(uint8[::1], int64[::1], int64[::1], int64, int64, uint8[::1], int64[:,::1])"],
    before=_teach,
)
def fill(buffer: Any, firsts: Any, lasts: Any, kind: int, room: int, out: Any, indices: Any) -> int:
    """The values of one list that `count` has found right. out: bytes of the values. room: the values that each
    message has room for, or -1: they follow each other, and `indices` gets (message, step, place) of each."""
    bytes_, out_, to = raw(buffer), raw(out), 0
    for i in range(len(firsts)):
        at, end, step = firsts[i], lasts[i], 0
        if room >= 0:
            to = i * room
        while at < end:
            tag, at = varint(bytes_, at, end)
            if at < 0:
                return 1
            if tag != 10:
                at = skip(bytes_, at, end, tag & 7)
                if at < 0:
                    return 1
                continue
            at, stop = span(bytes_, at, end)
            if at < 0:
                return 1
            found, first, last = feature(bytes_, at, stop)
            more = _values(bytes_, kind, first, last, out_, to) if found == kind else 0
            if more < 0:
                return 1
            if room < 0:
                for k in range(more):
                    indices[to + k, 0], indices[to + k, 1], indices[to + k, 2] = i, step, k
            to, step, at = to + more, step + 1, stop
    return 0
