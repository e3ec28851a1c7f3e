"""Bytes and words at addresses, for loops that numba compiles.

An array that machine code hands from function to function has its references counted each time, which costs more than
the work here: so the loops pass addresses. Whoever asks for one (`raw`) keeps the array. Python's own versions of these
functions are for the time until a loop is compiled, and for SPARKFLOW_NUMBA=0.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np


def raw(buffer: Any) -> int:
    return int(buffer.ctypes.data)


def byte_at(buffer: int, at: int) -> int:
    return ctypes.c_uint8.from_address(int(buffer + at)).value


def word_at(words: int, at: int) -> int:
    """Number `at` of int64 numbers."""
    return ctypes.c_int64.from_address(int(words + 8 * at)).value


def uint32_at(buffer: int, at: int) -> int:
    """Little endian, anywhere."""
    return int.from_bytes(ctypes.string_at(int(buffer + at), 4), "little")


def uint64_at(buffer: int, at: int) -> int:
    """The same of 8 bytes."""
    return int.from_bytes(ctypes.string_at(int(buffer + at), 8), "little")


def bytes_at(buffer: int, length: int) -> bytes:
    """In Python alone."""
    return ctypes.string_at(buffer, length)


def set_byte(buffer: int, at: int, value: int) -> None:
    ctypes.c_uint8.from_address(int(buffer + at)).value = value


def set_uint32(buffer: int, at: int, value: int) -> None:
    ctypes.memmove(int(buffer + at), value.to_bytes(4, "little"), 4)


def set_word(words: int, at: int, value: int) -> None:
    """The same as `word_at` reads, which may lie anywhere."""
    ctypes.c_int64.from_address(int(words + 8 * at)).value = value


def bits(value: int) -> int:
    """Of a number that is not negative, or an unsigned 64-bit one; at least 1."""
    return int(value | 1).bit_length()


def move(source: int, start: int, length: int, target: int, to: int) -> None:
    """Copy bytes; source and target may overlap."""
    ctypes.memmove(int(target + to), int(source + start), int(length))


@lru_cache(1)
def teach() -> None:
    """Give numba its own versions."""
    from numba.extending import overload

    load, store, memmove = _intrinsics()
    count_zeros = _leading_zeros()
    for function, version in (
        (raw, lambda buffer: lambda buffer: np.int64(buffer.ctypes.data)),
        (byte_at, lambda buffer, at: lambda buffer, at: np.int64(load(buffer + at, np.uint8))),
        (word_at, lambda words, at: lambda words, at: load(words + 8 * at, np.int64)),
        (uint32_at, lambda buffer, at: lambda buffer, at: load(buffer + at, np.uint32)),
        (uint64_at, lambda buffer, at: lambda buffer, at: load(buffer + at, np.uint64)),
        (set_byte, lambda buffer, at, value: lambda buffer, at, value: store(buffer + at, np.uint8(value))),
        (set_uint32, lambda buffer, at, value: lambda buffer, at, value: store(buffer + at, np.uint32(value))),
        (set_word, lambda words, at, value: lambda words, at, value: store(words + 8 * at, np.int64(value))),
        (bits, lambda value: lambda value: np.int64(64) - count_zeros(np.uint64(value) | np.uint64(1))),
        (
            move,
            lambda source, start, length, target, to: (
                lambda source, start, length, target, to: memmove(target + to, source + start, length)
            ),
        ),
    ):
        overload(function)(version)


def _intrinsics() -> tuple[Any, Any, Any]:
    """load(address, kind), store(address, value) at any alignment, memmove(target, source, length)."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic as untyped

    intrinsic: Any = untyped  # what it gives is called without the typing context

    @intrinsic
    def load(typing: Any, address: Any, kind: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = builder.load(builder.inttoptr(args[0], ir.IntType(kind.dtype.bitwidth).as_pointer()))
            word.align = 1
            return word

        return kind.dtype(types.int64, kind), generate

    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.inttoptr(args[0], ir.IntType(value.bitwidth).as_pointer())
            builder.store(args[1], place).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, value), generate

    @intrinsic
    def memmove(typing: Any, target: Any, source: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, start = (builder.inttoptr(a, cgutils.voidptr_t) for a in args[:2])
            cgutils.raw_memmove(builder, to, start, args[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return load, store, memmove


def _leading_zeros() -> Any:
    """Of an unsigned 64-bit number, int64: one instruction."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic as untyped

    intrinsic: Any = untyped

    @intrinsic
    def count(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), generate

    return count
