"""tf.train.Example messages, many at once, as columns: where each feature's values lie, and the values.

`index` finds the features asked for in every message; the readers then take the values of features out of all messages.
Both are one loop in machine code, without the GIL and without an object a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparkflow_runtime.records import example_loops as loops
from sparkflow_runtime.records.example_loops import fnv1a
from sparkflow_runtime.records.native import raw

MISSING, BYTES_LIST, FLOAT_LIST, INT64_LIST = 0, 1, 2, 3  # the last three: field numbers of Feature
KIND_NAMES = ("nothing", "string", "float", "int64")
# kind -> (the loop, what it writes, what that is, further dimensions)
_READERS = {
    BYTES_LIST: (loops.byte_spans, np.int64, np.int64, (2,)),
    FLOAT_LIST: (loops.floats, np.uint32, np.float32, ()),
    INT64_LIST: (loops.ints, np.uint64, np.int64, ()),
}


@dataclass(frozen=True)
class Keys:
    """Names of features, so that a loop finds them: `slots` is a hash table of their positions, -1 where free."""

    names: tuple[bytes, ...]
    text: np.ndarray  # uint8: all names
    begins: np.ndarray  # int64[n + 1]
    slots: np.ndarray  # int64, a power of two of them

    @staticmethod
    def of(names: Sequence[bytes]) -> Keys:
        """Raises ValueError on a name that is there twice."""
        if len(set(names)) != len(names):
            raise ValueError(f"a feature is named twice: {list(names)}")
        begins = np.cumsum([0, *map(len, names)]).astype(np.int64)
        text = np.frombuffer(bytearray(b"".join(names) or b"\0"), np.uint8)
        slots = np.full(max(8, 1 << (4 * len(names)).bit_length()), -1, np.int64)
        for i in range(len(names)):
            at = fnv1a(raw(text), begins[i], begins[i + 1]) & (len(slots) - 1)
            while slots[at] >= 0:
                at = (at + 1) & (len(slots) - 1)
            slots[at] = i
        return Keys(tuple(names), text, begins, slots)


class BadMessage(ValueError):
    """`index`: which of the messages is no Example."""

    def __init__(self, index: int):
        super().__init__(f"message {index} is no tf.train.Example")
        self.index = index


@dataclass(frozen=True)
class Index:
    """Where the features of messages lie. kinds: uint8[feature, message], MISSING where a message lacks it. The places
    have room for more messages than there are."""

    keys: Keys
    buffer: np.ndarray
    kinds: np.ndarray
    _firsts: np.ndarray
    _lasts: np.ndarray

    def dense(self, columns: Sequence[int], kind: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(values, counts): [columns, messages, size], uninitialised where a message has fewer, and int64[columns,
        messages], how many it has. Bytes: [..., size, 2], where each starts and ends in the buffer. The columns must
        hold that kind or be missing. Raises BadMessage."""
        values, counts = self._read(columns, kind, size, len(columns) * self.kinds.shape[1] * size, None)
        return values.reshape(*counts.shape, size, *values.shape[1:]), counts

    def counts(self, columns: Sequence[int], kind: int) -> np.ndarray:
        return self._read(columns, kind, 0, 0, None)[1]

    def ragged(self, columns: Sequence[int], kind: int) -> tuple[list[np.ndarray], np.ndarray]:
        """(all values of each column, message after message, and counts as above)."""
        counts = self.counts(columns, kind)
        ends = np.cumsum(counts).reshape(counts.shape)
        values, _ = self._read(columns, kind, -1, int(counts.sum()), ends - counts)
        return [values[e[-1] - c.sum() : e[-1]] if len(c) else values for e, c in zip(ends, counts)], counts

    def _read(
        self, columns: Sequence[int], kind: int, size: int, total: int, to: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        loop, written, dtype, width = _READERS[kind]
        out, counts = np.empty((total, *width), written), np.zeros((len(columns), self.kinds.shape[1]), np.int64)
        to = np.zeros((1, 1), np.int64) if to is None else to
        bad = loop(self.buffer, np.array(columns, np.int64), self._firsts, self._lasts, to, size, out, counts)
        if bad >= 0:
            raise BadMessage(int(bad))
        return out.view(dtype), counts


def index(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray, keys: Keys) -> Index:
    """Of messages buffer[starts[i]:ends[i]]; buffer: uint8, contiguous and writable. Raises BadMessage."""
    n = len(starts)
    shape = len(keys.names), n + 8  # rows of 4,096 bytes would all want the same lines of the cache
    kinds, firsts, lasts = np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    guess = np.full(2 * len(keys.names) + 8, -1, np.int64)
    bad = loops.index(buffer, starts, ends, keys.text, keys.begins, keys.slots, guess, kinds, firsts, lasts)
    if bad >= 0:
        raise BadMessage(int(bad))
    return Index(keys, buffer, kinds[:, :n], firsts, lasts)
