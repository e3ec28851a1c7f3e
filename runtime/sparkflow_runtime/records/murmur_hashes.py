"""MurmurHash64A of many strings at once, where they lie: what tf.string_to_hash_bucket takes.

The loop is `hashes.hash64` once more, for machine code; the tests hold one against the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import held_texts, native
from sparkflow_runtime.records.hashes import hash64
from sparkflow_runtime.records.held_texts import begin_at, length_at
from sparkflow_runtime.records.native import byte_at, uint64_at

_M, _SEED, _47 = np.uint64(0xC6A4A7935BD1E995), np.uint64(0xDECAFCAFFE), np.uint64(47)


def _shifted(value: Any) -> Any:
    return value ^ (value >> _47)


@compiled(["int64(int64, int64, uint64[::1])"], before=native.teach, nogil=False, parts=(_shifted, *held_texts.PARTS))
def _held(objects: int, kind: int, out: Any) -> int:
    for i in range(len(out)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        s, found, whole = begin_at(objects, i), _SEED ^ (np.uint64(n) * _M), n - n % 8
        for at in range(0, whole, 8):
            found = (found ^ (_shifted(uint64_at(s, at) * _M) * _M)) * _M
        if whole < n:
            rest = np.uint64(0)
            for at in range(whole, n):
                rest |= np.uint64(byte_at(s, at)) << np.uint64(8 * (at - whole))
            found = (found ^ rest) * _M
        out[i] = _shifted(_shifted(found) * _M)
    return -1


@_held.otherwise
def _(objects: int, kind: int, out: Any) -> int:
    return held_texts.each_text(objects, out, hash64)


def murmur_hashes_of(texts: np.ndarray) -> np.ndarray:
    """uint64, of an array of strings of the same shape."""
    out = np.empty(texts.size, np.uint64)
    held_texts.over_texts(_held, texts, out)
    return out.reshape(texts.shape)
