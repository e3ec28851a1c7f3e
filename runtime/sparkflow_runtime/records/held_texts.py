"""Strings as an array of Python's objects holds them, read where they lie by loops that numba compiles.

CPython keeps the length of a bytes object behind its header of reference count and type, and its bytes behind a hash:
so a loop that has the address of the array finds them all, where joining them first costs 50 ns each. Such a loop keeps
the GIL (`nogil=False`), since another thread could take the objects out of the array meanwhile; it takes the array's
address and the address of `bytes` itself, looks at each object's type before its bytes, and returns the number of the
first that is of another type, or -1.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.records.native import word_at
from sparkflow_runtime.wire.errors import InvalidArgumentError

_TYPE, _LENGTH, _BYTES = 1, 2, 32  # words, words and bytes from where an object begins
AS_EXPECTED = sys.implementation.name == "cpython" and (object.__basicsize__, bytes.__basicsize__) == (16, 33)


def length_at(objects: int, at: int, kind: int) -> int:
    """Of bytes object `at`; -1 where that is something else."""
    one = word_at(objects, at)
    return word_at(one, _LENGTH) if one != 0 and word_at(one, _TYPE) == kind else -1


def begin_at(objects: int, at: int) -> int:
    """Where its bytes begin, behind which a zero byte is."""
    return word_at(objects, at) + _BYTES


PARTS = (length_at, begin_at)


def each_text(objects: int, out: np.ndarray, function: Callable[[bytes], Any]) -> int:
    """What such a loop does, in Python: function of each."""
    for i in range(len(out)):
        at = objects + 8 * i
        text = ctypes.py_object.from_address(at).value if word_at(at, 0) else None
        if type(text) is not bytes:
            return i
        out[i] = function(text)
    return -1


def over_texts(loop: Compiled, texts: np.ndarray, *arguments: Any) -> np.ndarray:
    """loop(the address of the objects, that of their type, *arguments), for an array of strings. Returns the array that
    holds the objects which the loop has read.

    Raises InvalidArgumentError where one is no bytes object.
    """
    array = np.ascontiguousarray(texts, object)
    call = loop if AS_EXPECTED else loop.numpy
    wrong = call(address_of(array), id(bytes), *arguments)
    if wrong >= 0:  # a type of its own that is made of bytes, as numpy's, or no string at all
        array = np.fromiter(map(_plain, array.reshape(-1).tolist()), object, array.size)
        call(address_of(array), id(bytes), *arguments)
    return array


def address_of(array: np.ndarray) -> int:
    """Where its elements begin."""
    return int(array.__array_interface__["data"][0])


def _plain(text: Any) -> bytes:
    if not isinstance(text, bytes):
        raise InvalidArgumentError(f"A string tensor holds bytes, got {text!r} ({type(text).__name__})")
    return b"".join([text, b""])
