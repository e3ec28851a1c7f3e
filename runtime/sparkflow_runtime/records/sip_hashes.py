"""SipHash-2-4 of many strings at once, where they lie: what tf.string_to_hash_bucket_strong takes.

The loop is `hashes.sip_hash` once more, for machine code; the tests hold one against the other.
Source: Aumasson and Bernstein 2012.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import held_texts, native
from sparkflow_runtime.records.hashes import sip_hash
from sparkflow_runtime.records.held_texts import begin_at, length_at
from sparkflow_runtime.records.native import byte_at, uint64_at

_MASK = (1 << 64) - 1
_START = np.array([0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64)
_64, _255 = np.uint64(64), np.uint64(255)


def _turned(value: Any, by: int) -> Any:
    """To the left."""
    return (value << np.uint64(by)) | (value >> (_64 - np.uint64(by)))


def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a, c = a + b, c + d
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a, c = _turned(a, 32) + d, c + b
    return a, _turned(b, 17) ^ c, _turned(c, 32), _turned(d, 21) ^ a


def _word_of(s: int, at: int, n: int) -> Any:
    """The eight bytes from `at` on; of fewer those there are, with n above them."""
    if at + 8 <= n:
        return uint64_at(s, at)
    word = (np.uint64(n) & _255) << np.uint64(56)
    for i in range(n - at):
        word |= np.uint64(byte_at(s, at + i)) << np.uint64(8 * i)
    return word


@compiled(
    ["int64(int64, int64, uint64[::1], uint64[::1])"],
    before=native.teach,
    nogil=False,
    parts=(_turned, _round, _word_of, *held_texts.PARTS),
)
def _held(objects: int, kind: int, key: Any, out: Any) -> int:
    for i in range(len(out)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        s = begin_at(objects, i)
        a, b, c, d = key[0], key[1], key[2], key[3]
        for at in range(0, n + 1, 8):
            word = _word_of(s, at, n)
            d ^= word
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            a ^= word
        c ^= _255
        for _ in range(4):
            a, b, c, d = _round(a, b, c, d)
        out[i] = a ^ b ^ c ^ d
    return -1


@_held.otherwise
def _(objects: int, kind: int, key: Any, out: Any) -> int:
    first, second = (int(word) for word in key[:2] ^ _START[:2])
    return held_texts.each_text(objects, out, lambda text: sip_hash(text, first, second))


def sip_hashes_of(texts: np.ndarray, key0: int, key1: int) -> np.ndarray:
    """uint64, of an array of strings of the same shape, under a key of two words."""
    key, out = np.array([key0 & _MASK, key1 & _MASK] * 2, np.uint64) ^ _START, np.empty(texts.size, np.uint64)
    held_texts.over_texts(_held, texts, key, out)
    return out.reshape(texts.shape)
