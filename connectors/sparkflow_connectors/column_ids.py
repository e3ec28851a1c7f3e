"""Strings, bytes and whole numbers as ids: their places in a vocabulary, or a hash."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.columns import Column
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.fingerprints import fingerprints


def in_unit(column: Column, value: Any) -> Any:
    """As the tensor has it: a string of a column that is looked up is looked up."""
    if column.is_by_id and isinstance(value, str):
        return ids(column, pa.array([value]))[0].as_py()
    return value.encode() if isinstance(value, str) else value


def ids(column: Column, array: pa.Array) -> pa.Array:
    """Of strings, bytes and whole numbers, int64."""
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
    array = array.cast(pa.large_binary())
    if column.default is not None:
        array = array.fill_null(_as_bytes(column.default))
    prints = _fingerprints(array)
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if column.vocabulary is None:
        return pa.array((prints % np.uint64(column.hash_buckets)).astype(np.int64), mask=null)
    vocabulary = _vocabulary(tuple(column.vocabulary))
    found, known = vocabulary.positions(array, prints)
    other: Any = -1
    if column.num_oov_buckets:
        other = (prints % np.uint64(column.num_oov_buckets)).astype(np.int64) + len(vocabulary.words)
    return pa.array(np.where(known, found, other), mask=null)


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class _Vocabulary:
    """Words by their fingerprints: a table that is made once, not for each batch."""

    def __init__(self, words: tuple[str, ...]):
        self.words = pa.array(words, pa.large_string()).cast(pa.large_binary())
        prints = _fingerprints(self.words)
        self._order = np.argsort(prints, kind="stable")
        self._sorted = prints[self._order]

    def positions(self, array: pa.Array, prints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64 positions, which of them are right); a null has none."""
        if not len(self.words):
            return np.zeros(len(array), np.int64), np.zeros(len(array), bool)
        at = np.minimum(np.searchsorted(self._sorted, prints), len(self.words) - 1)
        found = self._order[at]
        same = pc.equal(self.words.take(pa.array(found)), array)
        return found, pc.fill_null(same, False).to_numpy(zero_copy_only=False)


@lru_cache(maxsize=16)
def _vocabulary(words: tuple[str, ...]) -> _Vocabulary:
    return _Vocabulary(words)


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
