"""Where things lie: ufuncs, tuples and arrays as CPython's and numpy's public headers lay them out, and the columns of
the tables that `fused_native` reads."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

HEAD, TUPLE = object.__basicsize__, tuple.__basicsize__
BLOCK = 1024  # elements
# columns of a program's table of operands
KIND, ITEM, VALUE, DTYPE, SCALAR, FULL = range(6)
INPUT, CONST, REGISTER, OUTPUT = range(4)
# columns of its table of steps
LOOP, DATA, COUNT, FIRST = range(4)  # FIRST.. FIRST+2: the arguments, then the result
RESULT = FIRST + 3
SELECT, WIDEN, COPY = -1, -2, -3  # in place of a loop's address
TAKEN, REFUSED = 0, 1
WORK = 128  # bytes: the pointers, strides and count that a loop is given


def room_bytes(operands: int, registers: int) -> int:
    """What a program needs beside its inputs and outputs: places, and blocks of registers and of what repeats."""
    return 128 + WORK + 7 * 8 * operands + 8 * BLOCK * (registers + 2 * operands)


@lru_cache(maxsize=1024)
def loop_of(ufunc: np.ufunc, types: str) -> tuple[int, int]:
    """(address, data) of a ufunc's inner loop for 'ff->f'. Raises KeyError where it has none."""
    if types not in ufunc.types:
        raise KeyError(types)
    at = ufunc.types.index(types)
    base, word = id(ufunc) + HEAD, ctypes.sizeof(ctypes.c_void_p)
    functions = ctypes.c_void_p.from_address(base + 16).value or 0
    data = ctypes.c_void_p.from_address(base + 16 + word).value
    loop = ctypes.c_void_p.from_address(functions + at * word).value or 0
    return loop, (ctypes.c_void_p.from_address(data + at * word).value or 0) if data else 0
