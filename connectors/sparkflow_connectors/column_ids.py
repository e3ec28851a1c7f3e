"""Strings, bytes and whole numbers as ids: their places in a vocabulary, or a hash."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import arrow_of, is_valid, numpy_of, texts
from sparkflow_connectors.columns import Column
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.fingerprints import fingerprints, fingerprints_of_numbers


def in_unit(column: Column, value: Any) -> Any:
    """As the tensor has it: a string of a column that is looked up is looked up."""
    if column.is_by_id and isinstance(value, str):
        return ids(column, pa.array([value]))[0].as_py()
    return value.encode() if isinstance(value, str) else value


def default_of(column: Column) -> Any:
    """As the tensor has it; of a column that is looked up, text, bytes or a number whose digits are."""
    value = column.default
    if column.is_by_id:
        return ids(column, pa.array([_as_bytes(value)]))[0].as_py()
    return value.encode() if isinstance(value, str) else value


def ids(column: Column, array: pa.Array) -> pa.Array:
    """Of strings, bytes and whole numbers, int64."""
    if pa.types.is_integer(array.type):
        if column.vocabulary is None and (numbers := _numbers(column, array)) is not None:
            return _buckets(fingerprints_of_numbers(numbers), column, array if column.default is None else None)
        array = array.cast(pa.string())
    array = array.cast(pa.large_binary())
    if column.default is not None:
        array = array.fill_null(_as_bytes(column.default))
    prints = _fingerprints(array)
    if column.vocabulary is None:
        return _buckets(prints, column, array)
    vocabulary = _vocabulary(column.words)
    found, known = vocabulary.positions(array, prints)
    other: Any = -1
    if column.num_oov_buckets:
        other = (prints % np.uint64(column.num_oov_buckets)).astype(np.int64) + len(vocabulary.words)
    return arrow_of(np.where(known, found, other), _nulls(array))


def _numbers(column: Column, array: pa.Array) -> np.ndarray | None:
    """int64, with the default (or 0) in the place of nulls; None where that is no such number."""
    default = 0 if column.default is None else column.default
    if array.type == pa.uint64() or type(default) is not int or not -(2**63) <= default < 2**63:
        return None
    ready.wait()
    return numpy_of(array.cast(pa.int64()), default)


def _buckets(prints: np.ndarray, column: Column, array: pa.Array | None) -> pa.Array:
    """array: whose nulls are nulls."""
    found = (prints % np.uint64(column.hash_buckets)).astype(np.int64)
    return arrow_of(found, None if array is None else _nulls(array))


def _nulls(array: pa.Array) -> np.ndarray | None:
    return ~is_valid(array) if array.null_count else None


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class _Vocabulary:
    """Words by their fingerprints: a table that is made once, not for each batch.

    In the order of the fingerprints, `begins` tells where those begin that have the same upper bits: so many bits that
    it is mostly one or none.
    """

    def __init__(self, words: tuple[str, ...]):
        self.words = texts(words, pa.large_binary())
        prints = _fingerprints(self.words)
        self._order = np.argsort(prints, kind="stable")
        self._sorted = np.append(prints[self._order], np.uint64(2**64 - 1))
        bits = len(words).bit_length() + 1
        self._shift = np.uint64(64 - bits)
        counts = np.bincount((prints >> self._shift).astype(np.int64), minlength=1 << bits)
        self._begins = np.cumsum(counts) - counts

    def positions(self, array: pa.Array, prints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64 positions, which of them are right); a null has none."""
        if not len(self.words):
            return np.zeros(len(array), np.int64), np.zeros(len(array), bool)
        at = self._begins[prints >> self._shift]
        behind = np.flatnonzero(self._sorted[at] < prints)
        while len(behind):
            at[behind] += 1
            behind = behind[self._sorted[at[behind]] < prints[behind]]
        at = np.minimum(at, len(self.words) - 1)
        found = self._order[at]
        same = pc.equal(self.words.take(arrow_of(found)), array)
        return found, numpy_of(same, False)


@lru_cache(maxsize=16)
def _made(words: tuple[str, ...]) -> _Vocabulary:
    return _Vocabulary(words)


_by_identity: dict[int, tuple[tuple[str, ...], _Vocabulary]] = {}


def _vocabulary(words: tuple[str, ...]) -> _Vocabulary:
    """To find it by its words takes as long as there are words: for the same tuple that is done once."""
    found = _by_identity.get(id(words))
    if found is None or found[0] is not words:
        if len(_by_identity) >= 64:
            _by_identity.clear()
        found = _by_identity[id(words)] = words, _made(words)
    return found[1]


def _fingerprints(array: pa.Array) -> np.ndarray:
    """uint64; of a null, any."""
    ready.wait()
    _, ends, data = array.buffers()
    offsets = (
        np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
        if len(array)
        else np.zeros(1, np.int64)
    )
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return fingerprints(text, offsets)
