"""tf.train.Example messages, many at once, as columns: where each feature's values lie, and the values.

`index` finds the features asked for in every message; the readers then take the values of features out of all messages.
Both are one loop in machine code, without the GIL and without an object a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sparkflow_runtime.records import example_loops as loops
from sparkflow_runtime.records.example_entries import DIRECT, FORM, first_word, form, last_word, mixed
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
    text: np.ndarray  # uint8: all names, and room for a word
    begins: np.ndarray  # int64[n + 1]
    slots: np.ndarray  # int64, a power of two of them

    @staticmethod
    def of(names: Sequence[bytes]) -> Keys:
        """Raises ValueError on a name that is there twice."""
        if len(set(names)) != len(names):
            raise ValueError(f"a feature is named twice: {list(names)}")
        begins = np.cumsum([0, *map(len, names)]).astype(np.int64)
        text = np.frombuffer(bytearray(b"".join(names) + bytes(8)), np.uint8)
        slots = np.full(max(8, 1 << (4 * len(names)).bit_length()), -1, np.int64)
        for i, (name, begin) in enumerate(zip(names, begins.tolist())):
            first = first_word(raw(text), begin, len(name), len(text))
            at = mixed(first, last_word(raw(text), begin, len(name)), len(name)) & (len(slots) - 1)
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
    """Where the features of messages lie. The places have room for more messages than there are."""

    keys: Keys
    buffer: np.ndarray
    _forms: np.ndarray  # kinds, with DIRECT where `_firsts` has the value itself
    _firsts: np.ndarray
    _lasts: np.ndarray
    _whole: Sequence[bool] = ()  # of each feature that is read singly: whether every message has one value of it

    @cached_property
    def kinds(self) -> np.ndarray:
        """uint8[feature, message], MISSING where a message lacks it."""
        return self._forms & (DIRECT - 1)

    def whole(self, column: int) -> np.ndarray | None:
        """The values of a column that was told to be read singly, if every message has one; None: see `single`."""
        if not self._whole or not self._whole[column]:
            return None
        return self._direct(column, int(self._forms[column, 0]) & (DIRECT - 1))

    def single(self, column: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """(the first value of each message, counts) of a column that the index was told is read so. The rest is as
        of `dense`."""
        forms = self._forms[column]
        direct = forms == kind | DIRECT
        if not direct.all() and not (known := direct | (forms == MISSING)).all():
            return self._mixed(column, kind, direct, known)
        return self._direct(column, kind), direct.view(np.uint8)

    def _direct(self, column: int, kind: int) -> np.ndarray:
        firsts = self._firsts[column, : self._forms.shape[1]]
        if kind == BYTES_LIST:
            return np.stack([firsts, self._lasts[column, : len(firsts)]]).T
        return firsts.copy() if kind == INT64_LIST else firsts.astype(np.uint32).view(np.float32)

    def _mixed(self, column: int, kind: int, direct: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where some messages had to be left to the loop."""
        firsts, lasts = (np.array(places[column : column + 1]) for places in (self._firsts, self._lasts))
        for places in (firsts, lasts):
            places[0, : len(known)][known] = 0
        found = replace(self, _firsts=firsts, _lasts=lasts)
        values, counts = found._read([0], kind, 1, len(direct), None)
        values = np.where(direct if values.ndim == 1 else direct[:, None], self._direct(column, kind), values)
        return values, counts[0] + direct

    def dense(self, columns: Sequence[int], kind: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(values, counts): [columns, messages, size], uninitialised where a message has fewer, and int64[columns,
        messages], how many it has. Bytes: [..., size, 2], where each starts and ends in the buffer. The columns must
        hold that kind or be missing, and not be told to the index as single. Raises BadMessage."""
        values, counts = self._read(columns, kind, size, len(columns) * self._forms.shape[1] * size, None)
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
        out, counts = np.empty((total, *width), written), np.zeros((len(columns), self._forms.shape[1]), np.int64)
        to = np.zeros((1, 1), np.int64) if to is None else to
        bad = loop(self.buffer, np.array(columns, np.int64), self._firsts, self._lasts, to, size, out, counts)
        if bad >= 0:
            raise BadMessage(int(bad))
        return out.view(dtype), counts


class Room:
    """Memory for the places of an index, or for messages, for one after the other: fresh memory costs more than what is
    put there."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def take(self, keys: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(forms, all MISSING; firsts; lasts), until the next call."""
        cells = keys * n
        memory = self.take_bytes(17 * cells + 8)
        words = memory[: 16 * cells].view(np.int64).reshape(2, keys, n)
        forms = memory[16 * cells : 17 * cells].reshape(keys, n)
        forms[:] = MISSING
        return forms, words[0], words[1]

    def take_bytes(self, size: int) -> np.ndarray:
        """uint8[size], until the next call."""
        if len(self._bytes) < size:
            self._bytes = np.empty(size, np.uint8)
        return self._bytes[:size]


@lru_cache(256)
def _forms(names: tuple[bytes, ...], kinds: tuple[int, ...]) -> np.ndarray:
    return np.array([form(n, k) for n, k in zip(names, kinds, strict=True)], np.int64).reshape(-1, FORM)


def index(
    buffer: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    keys: Keys,
    singles: Sequence[int] = (),
    room: Room | None = None,
) -> Index:
    """Of messages buffer[starts[i]:ends[i]]; buffer: uint8, contiguous and writable. singles: for each key the kind of
    which one value is expected and `Index.single` will read; MISSING where another method will. room: where the places
    may be, until it is given to another index. Raises BadMessage."""
    n, k = len(starts), len(keys.names)
    # Rows of 4,096 bytes would all want the same lines of the cache.
    forms, firsts, lasts = (room or Room()).take(k, n + 8)
    kinds = tuple(singles) or (MISSING,) * k
    wanted, after = np.array(kinds, np.int64), np.full(k + 1, -1, np.int64)
    for places in (firsts, lasts):
        places[wanted == MISSING] = 0
    bad = loops.index(
        buffer, starts, ends, keys.text, keys.begins, keys.slots, after, wanted, _forms(keys.names, kinds), forms,
        firsts, lasts,
    )  # fmt: skip
    if bad >= 0:
        raise BadMessage(int(bad))
    forms = forms[:, :n]
    whole = (forms == (wanted | DIRECT).astype(np.uint8)[:, None]).all(1).tolist() if n and singles else ()
    return Index(keys, buffer, forms, firsts, lasts, whole)
