"""One Example at a time: the same loop as for many, without what many need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparkflow_runtime.records import example_loops as loops
from sparkflow_runtime.records.example import BYTES_LIST, FLOAT_LIST, MISSING, Keys, _forms
from sparkflow_runtime.records.example_entries import DIRECT, REACH

_BEHIND = bytes(REACH)


class Places:
    """What one thread's reads are written to; `after` is what it has learnt of the order of the keys."""

    def __init__(self, count: int) -> None:
        self.forms = np.empty((count, 9), np.uint8)
        self.firsts, self.lasts = np.zeros((2, count, 9), np.int64)
        self.after = np.full(count + 1, -1, np.int64)
        self.end = np.zeros(1, np.int64)


class Line:
    """Reads messages that are expected to have one value of each key, of these kinds."""

    def __init__(self, keys: Keys, kinds: Sequence[int]):
        self._keys, self._kinds = keys, list(kinds)
        self._wanted, self._begin = np.array(self._kinds, np.int64), np.zeros(1, np.int64)
        self._forms = _forms(keys.names, tuple(self._kinds))

    def places(self) -> Places:
        return Places(len(self._kinds))

    def read(self, message: bytes, places: Places) -> list[bytes | int | np.float32] | None:
        """The values, None where the message is not as expected, or cannot be read."""
        keys = self._keys
        places.forms.fill(MISSING)
        places.end[0] = len(message)
        buffer = np.frombuffer(bytearray(message + _BEHIND), np.uint8)
        bad = loops.index(
            buffer, self._begin, places.end, keys.text, keys.begins, keys.slots, places.after, self._wanted,
            self._forms, places.forms, places.firsts, places.lasts,
        )  # fmt: skip
        if bad >= 0:
            return None
        out: list[bytes | int | np.float32] = []
        firsts, lasts, read = places.firsts[:, 0].tolist(), places.lasts[:, 0].tolist(), places.forms[:, 0].tolist()
        for kind, form, first, last in zip(self._kinds, read, firsts, lasts):
            if form == kind == BYTES_LIST:
                first = _begin_of_one(message, first, last)
            elif form != kind | DIRECT:
                return None
            if kind == BYTES_LIST:
                if first < 0:
                    return None
                out.append(message[first:last])
            else:
                out.append(_float(first) if kind == FLOAT_LIST else first)
        return out


def _begin_of_one(message: bytes, at: int, end: int) -> int:
    """Where the one string of a list of bytes at [at, end) begins; -1: it is not one, in the usual form."""
    if at >= end or message[at] != 10:
        return -1
    size, shift = 0, 0
    while shift < 35 and at + 1 < end:
        at += 1
        size |= (message[at] & 127) << shift
        if message[at] < 128:
            return at + 1 if at + 1 + size == end else -1
        shift += 7
    return -1


def _float(word: int) -> np.float32:
    return np.uint32(word & 0xFFFFFFFF).view(np.float32)
