"""CRC-32C inside machine code: one instruction for 8 bytes where the processor has it, tables where it has not.

A single run of bytes is crc32c's work; for records of some hundred bytes a Python call each would cost more than
the sum itself.
"""

from __future__ import annotations

import ctypes
import platform
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.records.native import byte_at
from sparkflow_runtime.records.native import teach as teach_bytes
from sparkflow_runtime.wire.checksums import crc32c

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
# machine -> (feature, LLVM's name of the instruction, bits of the sum there)
_INSTRUCTIONS = {
    "x86_64": ("sse4.2", "llvm.x86.sse42.crc32.64.64", 64),
    "aarch64": ("crc", "llvm.aarch64.crc32cx", 32),
}


def masked_crc(data: bytes) -> int:
    """How TFRecord files store a sum: rotated right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _tables() -> np.ndarray:
    """Slicing by 8: row k is what a byte does k bytes later."""
    rows = np.empty((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        rows[0, byte] = crc
    for k in range(1, 8):
        rows[k] = rows[k - 1] >> 8 ^ rows[0][rows[k - 1] & 0xFF]
    return rows


TABLES = _tables()


def crc_of(buffer: int, start: int, end: int) -> int:
    """The masked sum of buffer[start:end], at an address; loops that call it are compiled `before=teach`."""
    return masked_crc(ctypes.string_at(int(buffer + start), int(end - start)))


@lru_cache(1)
def teach() -> None:
    """Give numba its own version of `crc_of`."""
    from numba import njit
    from numba.extending import overload

    teach_bytes()
    step = _instruction() or njit(_by_table)
    tables, mask = TABLES, np.uint32(_MASK_DELTA)

    @overload(crc_of)
    def _(buffer: Any, start: Any, end: Any) -> Any:
        def total(buffer: Any, start: Any, end: Any) -> Any:
            crc, at = np.uint32(0xFFFFFFFF), start
            while at + 8 <= end:
                crc = step(crc, buffer, at)
                at += 8
            while at < end:
                crc = np.uint32(tables[0, (crc ^ byte_at(buffer, at)) & 0xFF] ^ (crc >> np.uint32(8)))
                at += 1
            crc = np.uint32(crc ^ np.uint32(0xFFFFFFFF))
            return np.uint32(np.uint32(crc >> np.uint32(15) | crc << np.uint32(17)) + mask)

        return total


def _by_table(crc: Any, buffer: Any, at: Any) -> Any:
    return np.uint32(
        TABLES[7, (crc ^ byte_at(buffer, at)) & 0xFF]
        ^ TABLES[6, (crc >> 8 ^ byte_at(buffer, at + 1)) & 0xFF]
        ^ TABLES[5, (crc >> 16 ^ byte_at(buffer, at + 2)) & 0xFF]
        ^ TABLES[4, (crc >> 24 ^ byte_at(buffer, at + 3)) & 0xFF]
        ^ TABLES[3, byte_at(buffer, at + 4)]
        ^ TABLES[2, byte_at(buffer, at + 5)]
        ^ TABLES[1, byte_at(buffer, at + 6)]
        ^ TABLES[0, byte_at(buffer, at + 7)]
    )


def _instruction() -> Any:
    """The processor's own, as a function that numba knows; None where there is none."""
    from llvmlite import binding, ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    feature, name, bits = _INSTRUCTIONS.get(platform.machine(), ("", "", 0))
    if not feature or not binding.get_host_cpu_features().get(feature):
        return None

    @intrinsic
    def step(typing: Any, crc: Any, buffer: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.inttoptr(builder.add(args[1], args[2]), cgutils.voidptr_t)
            word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
            word.align = 1  # records begin anywhere
            sum_type = ir.IntType(bits)
            declared = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(sum_type, [sum_type, ir.IntType(64)]), name
            )
            given = builder.zext(args[0], sum_type) if bits > 32 else args[0]
            found = builder.call(declared, [given, word])
            return builder.trunc(found, ir.IntType(32)) if bits > 32 else found

        return types.uint32(types.uint32, types.int64, types.int64), generate

    return step
