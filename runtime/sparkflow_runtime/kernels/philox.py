"""Philox 4x32-10 as TensorFlow counts with it, so that stateless draws and tf.random.Generator have its bits.

Sources: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"; TensorFlow's random_distributions.h and
random_op_cpu.h for how words become numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS, _WORD, _LOW = 10, 1 << 32, np.uint64(0xFFFFFFFF)
_THIRTY_TWO = np.uint64(32)
_BLOCK = 1 << 14  # counters at once: their words stay in the cache
RESERVED = 256  # words kept for a value that may be drawn again; a generator goes on by as many counters


class Stream(NamedTuple):
    """key and counter as whole numbers, of 64 and 128 bits."""

    key: int
    counter: int

    def at(self, number: int) -> Stream:
        """Behind so many blocks of four words."""
        return Stream(self.key, (self.counter + number) % (1 << 128))


def of_seed(seed: tuple[int, int]) -> Stream:
    """As stateless ops mix their two seeds."""
    start = Stream(0x02461E293EC8F720, seed[0] % (1 << 64) | (seed[1] % (1 << 64)) << 64)
    mixed = [int(w) for w in words(start, 1)[0]]
    return Stream(mixed[0] | mixed[1] << 32, mixed[2] << 64 | mixed[3] << 96)


def words(stream: Stream, blocks: int) -> np.ndarray:
    """[blocks, 4] words, of counters one behind the other."""
    return words_at(stream, np.arange(blocks, dtype=np.uint64))


def words_at(stream: Stream, blocks: np.ndarray) -> np.ndarray:
    """[n, 4] words, of the blocks of these numbers (uint64)."""
    out = np.empty((len(blocks), 4), np.uint32)
    for first in range(0, len(blocks), _BLOCK):
        _fill(out[first : first + _BLOCK], stream, blocks[first : first + _BLOCK])
    return out


def _fill(out: np.ndarray, stream: Stream, blocks: np.ndarray) -> None:
    low = np.uint64(stream.counter & ((1 << 64) - 1))
    first = low + blocks
    behind = np.uint64(stream.counter >> 64) + (first < low).astype(np.uint64)
    a, b, c, d = first & _LOW, first >> _THIRTY_TWO, behind & _LOW, behind >> _THIRTY_TWO
    keys = stream.key & 0xFFFFFFFF, stream.key >> 32 & 0xFFFFFFFF
    for _ in range(_ROUNDS):
        x, y = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, c = (y >> _THIRTY_TWO) ^ b ^ np.uint64(keys[0]), (x >> _THIRTY_TWO) ^ d ^ np.uint64(keys[1])
        b, d = y & _LOW, x & _LOW
        keys = (keys[0] + _WEYL[0]) % _WORD, (keys[1] + _WEYL[1]) % _WORD
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = a, b, c, d


# ---------------------------------------------------------------------- numbers of words


def _unit(w: np.ndarray) -> np.ndarray:
    """float32 in [0, 1) of a word each."""
    return ((w & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _wide_unit(w: np.ndarray) -> np.ndarray:
    """float64 in [0, 1) of two words each."""
    high, low = w[..., 0::2].astype(np.uint64), w[..., 1::2].astype(np.uint64)
    mantissa = (high & np.uint64(0xFFFFF)) << _THIRTY_TWO | low
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0


def _units(w: np.ndarray, dtype: Any) -> np.ndarray:
    if dtype == np.float64:
        return _wide_unit(w)
    if dtype == np.float16:
        bits = (w & np.uint32(0x3FF)).astype(np.uint16) | np.uint16(15 << 10)
        return bits.view(np.float16) - np.float16(1)
    if dtype == ml_dtypes.bfloat16:
        bits = (w & np.uint32(0x7F)).astype(np.uint16) | np.uint16(127 << 7)
        return bits.view(ml_dtypes.bfloat16) - ml_dtypes.bfloat16(1)
    return _unit(w)


def _normals(w: np.ndarray, dtype: Any) -> np.ndarray:
    """Box and Muller's two normal values of two even ones."""
    wide = dtype == np.float64
    even = _wide_unit(w) if wide else _unit(w)
    kind = even.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(even[..., 0::2], kind(1e-7))))
    angle = (2 * np.pi * even[..., 1::2].astype(np.float64)).astype(kind)
    out = np.empty_like(even)
    out[..., 0::2], out[..., 1::2] = np.sin(angle) * radius, np.cos(angle) * radius
    return out.astype(dtype)


def _whole(w: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers of all values that the type has."""
    if np.dtype(dtype).itemsize == 8:
        pairs = w[..., 0::2].astype(np.uint64) | w[..., 1::2].astype(np.uint64) << _THIRTY_TWO
        return pairs.view(dtype)
    return np.ascontiguousarray(w).view(dtype)


def _each(stream: Stream, shape: tuple[int, ...], dtype: Any, make: Callable[[np.ndarray, Any], np.ndarray]) -> Any:
    """Values of all words, in order."""
    count = prod(shape)
    per_block = 2 if np.dtype(dtype).itemsize == 8 else 4
    found = make(words(stream, -(-count // per_block)), dtype)
    return found.reshape(-1)[:count].reshape(shape)


def uniform(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """In [0, 1)."""
    return _each(stream, shape, dtype, _units)


def normal(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return _each(stream, shape, dtype, _normals)


def full_range(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Integers of all values that the type has."""
    return _each(stream, shape, dtype, _whole)


def integers(stream: Stream, shape: tuple[int, ...], low: int, high: int, dtype: Any) -> np.ndarray:
    """In [low, high)."""
    kind = np.dtype(dtype)
    unsigned = np.dtype(f"uint{8 * kind.itemsize}")
    drawn = _each(stream, shape, unsigned, _whole) % unsigned.type(high - low)
    return (drawn + np.array(low, kind).view(unsigned)).view(kind)


def truncated(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Normal values within two standard deviations. Each group of values draws from counters of its own."""
    count, per_group = prod(shape), 2 if dtype == np.float64 else 4
    groups = -(-count // per_group)
    begins = np.arange(groups, dtype=np.uint64) * np.uint64(per_group * RESERVED // 4)
    out = np.zeros((groups, per_group), np.float64 if dtype == np.float64 else np.float32)
    filled, todo, drawn = np.zeros(groups, np.int64), np.arange(groups), 0
    while len(todo):
        found = _normals(words_at(stream, begins[todo] + np.uint64(drawn)), out.dtype)
        for column in range(found.shape[1]):
            value = found[:, column]
            rows = np.flatnonzero((np.abs(value) < 2) & (filled[todo] < per_group))
            out[todo[rows], filled[todo[rows]]] = value[rows]
            filled[todo[rows]] += 1
        todo, drawn = todo[filled[todo] < per_group], drawn + 1
    return out.reshape(-1)[:count].reshape(shape).astype(dtype)
