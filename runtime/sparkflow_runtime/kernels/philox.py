"""Philox 4x32-10 as TensorFlow counts with it, so that what is drawn for a seed has its bits.

Sources: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"; TensorFlow's random_distributions.h and
random_op_cpu.h for how words become numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import prod
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from sparkflow_runtime.kernels import philox_loops
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.parallel import runs, share

_LOW, _THIRTY_TWO = np.uint64(0xFFFFFFFF), np.uint64(32)
_WORD = 1 << 64
_MOST = (1 << 128) - 1
_PARTS = Struct("=4Q").pack
_MIXER = 0x02461E293EC8F720
_FEW = 1 << 14  # words for which nobody is asked to help
_VERY_FEW = 16  # words which Python reckons with faster than numpy
_TABLE = 1 << 17  # blocks from which threads of Python pay
RESERVED = 256  # words kept for a value that may be drawn again; a generator goes on by as many counters


class Stream(NamedTuple):
    """key and counter as whole numbers, of 64 and 128 bits."""

    key: int
    counter: int

    def at(self, number: int) -> Stream:
        """Behind so many blocks of four words."""
        return Stream(self.key, (self.counter + number) & _MOST)

    def parts(self, stride: int = 1) -> np.ndarray:
        """As loops take it, with how far the counters of two blocks lie apart."""
        return np.frombuffer(_PARTS(self.key, self.counter & (_WORD - 1), self.counter >> 64, stride), np.uint64)


def _unseeded() -> tuple[int, int]:
    return int.from_bytes(os.urandom(8)), int.from_bytes(os.urandom(8))


def of_op(seeds: tuple[int, int]) -> Stream:
    """As stateful ops, queues and datasets begin by theirs; two of 0 are a stream from the system."""
    if seeds == (0, 0):
        seeds = _unseeded()
    return Stream(seeds[0] % _WORD, seeds[1] % _WORD << 64)


class Draws:
    """The stream of a stateful op: each run takes what follows."""

    def __init__(self, stream: Stream):
        self._stream, self._lock = stream, Lock()

    def take(self, values: int) -> Stream:
        """The stream at which this run draws, with words kept for so many values that may be drawn again."""
        return self.skip(values * RESERVED)

    def skip(self, blocks: int) -> Stream:
        """The stream, which goes on behind so many blocks of words."""
        with self._lock:
            now = self._stream
            self._stream = now.at(blocks)
        return now


def of_seed(seed: tuple[int, int]) -> Stream:
    """As stateless ops mix their two seeds."""
    start = Stream(_MIXER, seed[0] % (1 << 64) | (seed[1] % (1 << 64)) << 64)
    mixed = [int(w) for w in words(start, 1)[0]]
    return Stream(mixed[0] | mixed[1] << 32, mixed[2] << 64 | mixed[3] << 96)


def first_words(seeds: np.ndarray) -> np.ndarray:
    """[n, 4] words: the first block of each of the streams that stateless ops have by two seeds, uint64 [n, 2]."""
    none = np.zeros(len(seeds), np.uint64)
    a, b, c, d = philox_loops.turned(seeds[:, 0], none, seeds[:, 1], np.uint64(_MIXER))
    mixed = philox_loops.turned(none, none, c | d << _THIRTY_TWO, a | b << _THIRTY_TWO)
    return np.stack(mixed, 1).astype(np.uint32)


def words(stream: Stream, blocks: int) -> np.ndarray:
    """[blocks, 4] words, of counters one behind the other."""
    out = np.empty((blocks, 4), np.uint32)
    _in_threads(philox_loops.words, out.reshape(-1).view(np.int32), stream.parts())
    return out


def words_at(stream: Stream, blocks: np.ndarray) -> np.ndarray:
    """[n, 4] words, of the blocks of these numbers (uint64)."""
    out = np.empty((len(blocks), 4), np.uint32)
    philox_loops.words_of(out.reshape(-1).view(np.int32), blocks, stream.parts(), 0, len(blocks))
    return out


def _in_threads(loop: Compiled, bits: np.ndarray, parts: np.ndarray) -> None:
    """All blocks; in as many threads as may fill new memory where they are those of a table."""
    if len(bits) < _FEW:
        loop(bits, parts, 0, len(bits) // 4)
        return
    if len(bits) < 4 * _TABLE:
        in_parts(loop, len(bits) // 4, 4, bits, parts)
        return

    def work(some: Sequence[tuple[int, int]]) -> None:
        if some:
            loop(bits, parts, some[0][0], sum(some[-1]))

    share(work, runs(len(bits) // 4, _TABLE // 2), multiplies=False)


# ---------------------------------------------------------------------- numbers of words


def wide_unit(w: np.ndarray) -> np.ndarray:
    """float64 in [0, 1) of two words each: 20 bits of the first, and the second."""
    return (w[..., 0::2] & np.uint32(0xFFFFF)) * 2.0**-20 + w[..., 1::2] * 2.0**-52


def _units(w: np.ndarray, dtype: Any) -> np.ndarray:
    if dtype == np.float64:
        return wide_unit(w)
    digits = 7 if dtype == ml_dtypes.bfloat16 else 10  # which float32 and the type itself can have
    values = (w.view(np.int32) & np.int32((1 << digits) - 1)).astype(np.float32)
    values *= np.float32(2.0**-digits)
    return values.astype(dtype)


def wide_normals(w: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Box and Muller's two float64 of two even ones."""
    radius, angle, shape = _polar(w)
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1).reshape(shape)


def _polar(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    even = wide_unit(w)
    return np.sqrt(-2 * np.log(np.maximum(even[..., 0::2], 1e-7))), 2 * np.pi * even[..., 1::2], even.shape


def _listed(stream: Stream, count: int, per_block: int) -> list[int]:
    """The words of very few values, as Python's numbers; of 64 bits where a block has two of them."""
    found: list[int] = words(stream, -(-count // per_block)).reshape(-1).tolist()
    return found if per_block == 4 else [a | b << 32 for a, b in zip(found[0::2], found[1::2])]


def whole(w: np.ndarray, dtype: Any) -> np.ndarray:
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


def _float32(loops: Sequence[Compiled], stream: Stream, shape: tuple[int, ...], stride: int = 1) -> np.ndarray:
    """What the loops make, one over what the other left."""
    size, parts = prod(shape), stream.parts(stride)
    if size < _FEW:
        bits = np.empty((size + 3) // 4 * 4, np.int32)
        for loop in loops:
            loop(bits, parts, 0, len(bits) // 4)
        return bits[:size].view(np.float32).reshape(shape)
    out = np.empty(shape, np.float32)  # its own memory, which whoever takes it may write into
    bits, behind = out.reshape(-1).view(np.int32), size // 4 * 4
    last, rest = np.empty(4, np.int32), stream.at(size // 4 * stride).parts(stride)
    for loop in loops:
        _in_threads(loop, bits[:behind], parts)
        loop(last, rest, 0, 1)
    bits[behind:] = last[: size - behind]
    return out


class Words:
    """What a stream gives, one behind the other."""

    def __init__(self, stream: Stream):
        self._stream, self._at = stream, 0

    def take(self, count: int) -> np.ndarray:
        """uint32, the next ones."""
        block, before = divmod(self._at, 4)
        self._at += count
        return words(self._stream.at(block), -(-(before + count) // 4)).reshape(-1)[before : before + count]

    def firsts(self, count: int) -> np.ndarray:
        """uint32, the first of each of so many values that may be drawn again."""
        numbers = np.arange(count, dtype=np.uint64) * np.uint64(RESERVED) + np.uint64(self._at // 4)
        self._at += count * RESERVED * 4
        return words_at(self._stream, numbers)[:, 0]

    def back(self, count: int) -> None:
        """So many are still to be taken."""
        self._at -= count

    def doubles(self, count: int) -> np.ndarray:
        """float64 in [0, 1), of two words each."""
        return wide_unit(self.take(2 * count))

    def longs(self, count: int) -> np.ndarray:
        """uint64, of two words each."""
        return whole(self.take(2 * count), np.uint64)


def uniform(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """In [0, 1)."""
    if dtype == np.float32:
        return _float32([philox_loops.units], stream, shape)
    if dtype == np.float64 and prod(shape) <= _VERY_FEW // 2:
        wide = _listed(stream, prod(shape), 2)[: prod(shape)]
        return np.array([(w & 0xFFFFF) * 2.0**-20 + (w >> 32) * 2.0**-52 for w in wide]).reshape(shape)
    return _each(stream, shape, dtype, _units)


def normal(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype == np.float64:
        return _each(stream, shape, dtype, wide_normals)
    return _float32([philox_loops.normals], stream, shape).astype(dtype, copy=False)


def full_range(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Integers of all values that the type has."""
    return _each(stream, shape, dtype, whole)


def integers(stream: Stream, shape: tuple[int, ...], low: int, high: int, dtype: Any) -> np.ndarray:
    """In [low, high)."""
    kind, count = np.dtype(dtype), prod(shape)
    per_block = 2 if kind.itemsize == 8 else 4
    if count * kind.itemsize <= 4 * _VERY_FEW:
        span = high - low
        found = [low + word % span for word in _listed(stream, count, per_block)[:count]]
        return np.array(found, kind).reshape(shape)
    unsigned = np.dtype(f"uint{8 * kind.itemsize}")
    drawn = _each(stream, shape, unsigned, whole) % unsigned.type(high - low)
    return (drawn + np.array(low, kind).view(unsigned)).view(kind)


def truncated(stream: Stream, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Normal values within two standard deviations. Each group of values draws from counters of its own."""
    if dtype == np.float64:
        return _wide_truncated(stream, shape)
    loops = philox_loops.normals, philox_loops.drawn_again
    return _float32(loops, stream, shape, RESERVED).astype(dtype, copy=False)


def _wide_truncated(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    count, per_group = prod(shape), 2
    groups = -(-count // per_group)
    begins = np.arange(groups, dtype=np.uint64) * np.uint64(per_group * RESERVED // 4)
    out = np.zeros((groups, per_group))
    filled, todo, drawn = np.zeros(groups, np.int64), np.arange(groups), 0
    while len(todo):
        found = wide_normals(words_at(stream, begins[todo] + np.uint64(drawn)), np.float64)
        for column in range(found.shape[1]):
            value = found[:, column]
            rows = np.flatnonzero((np.abs(value) < 2) & (filled[todo] < per_group))
            out[todo[rows], filled[todo[rows]]] = value[rows]
            filled[todo[rows]] += 1
        todo, drawn = todo[filled[todo] < per_group], drawn + 1
    return out.reshape(-1)[:count].reshape(shape)
