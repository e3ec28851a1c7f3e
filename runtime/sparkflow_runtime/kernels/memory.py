"""The process's memory as one array, so that one compiled loop can walk through many arrays.

A loop that numba compiles takes a fixed list of arguments; 260 tables are 260 addresses in one array instead. An
address here is a position in `memory(dtype)`, an array of that dtype that spans the address space:
`memory(d)[at : at + n]` are the n items at position `at`, for numpy and for machine code alike. Whoever passes a
position keeps the array it stands for alive and has checked every index that the loop adds to it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

_BITS = 47  # of a user-space address


@cache
def memory(dtype: np.dtype[Any]) -> np.ndarray:
    """All memory as items of dtype. Item 0 stands for address `itemsize`: an array cannot begin at address 0."""
    items = (1 << _BITS) // dtype.itemsize - 1
    raw = (ctypes.c_uint8 * (items * dtype.itemsize)).from_address(dtype.itemsize)
    return np.frombuffer(raw, dtype)  # type: ignore[call-overload]


@cache
def copying(dtype: np.dtype[Any]) -> np.ndarray:
    """All memory as integers of the size of dtype (2, 4 or 8), at the same positions: for loops that only copy."""
    return memory(np.dtype(f"i{dtype.itemsize}"))


def address(array: np.ndarray) -> int:
    """Where the array begins: a tenth of the time that its `__array_interface__` takes."""
    if type(array) is not np.ndarray or _WORDS is None:  # numpy's scalars are not laid out so
        return int(array.__array_interface__["data"][0])
    return _WORDS[(id(array) >> 3) + _POINTER]


def position(array: np.ndarray) -> int:
    """Where the array begins, counted in items of its own dtype; it must be aligned."""
    return address(array) // array.itemsize - 1


def positions(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """`position` of each, all of one dtype, as uint64: a tenth of the time for hundreds of arrays."""
    if _WORDS is None:
        return np.array([position(a) for a in arrays], np.uint64)
    objects = np.fromiter(map(id, arrays), np.int64, len(arrays))
    addresses = memory(np.dtype(np.int64))[objects // 8 + _POINTER]
    return (addresses // (arrays[0].itemsize if len(arrays) else 1) - 1).view(np.uint64)


_DATA = 16  # bytes from the start of a numpy array's object to the pointer to its data, after its count and its type
_POINTER = _DATA // 8 - 1  # items of `memory` from one to the other


def _finds_data() -> bool:
    """Whether this interpreter's numpy has it there."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != _DATA:
        return False
    probe = np.arange(4)
    return int(memory(np.dtype(np.int64))[id(probe) // 8 + _POINTER]) == probe.__array_interface__["data"][0]


_WORDS = memory(np.dtype(np.int64)).data if _finds_data() else None


def rows_ready(array: np.ndarray) -> bool:
    """Whether each row (along axis 0) lies in one aligned piece of host memory; rows may be apart from each other."""
    if type(array) is not np.ndarray or not array.flags.aligned:
        return False
    if array.flags.c_contiguous:
        return True
    strides, size = array.strides, array.itemsize
    if array.ndim < 2 or strides[0] % size:
        return array.ndim == 1 and strides[0] % size == 0
    return strides[1] == size if array.ndim == 2 else array.size > 0 and bool(array[0].flags.c_contiguous)


def stride(array: np.ndarray) -> int:
    """Items from one row to the next."""
    return int(array.strides[0]) // array.itemsize if array.ndim else 0
