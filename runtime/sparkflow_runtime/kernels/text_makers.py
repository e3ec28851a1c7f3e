"""Bytes objects made by loops that numba compiles: cut out of memory, and joined.

A loop calls CPython's own constructor, whose address it is given, for a quarter of what a slice costs in Python. It
keeps the GIL. Where it is not there (not compiled yet, or not CPython), the functions here return None and their
callers do without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import native
from sparkflow_runtime.records.held_texts import AS_EXPECTED, PARTS, address_of, begin_at, length_at
from sparkflow_runtime.records.native import move, set_word, word_at

_VECTOR = "Array(int64, 1, 'C', readonly=True)"
_FEW = 16  # for fewer Python's own slices take less time than a call of a loop


def new_text(make: int, source: int, length: int) -> int:
    """The address of a bytes object, of which the caller owns a reference; its bytes are not set where source is 0.
    0 where there is no memory, as Python's error says then."""
    raise NotImplementedError("for machine code alone")


def release(drop: int, one: int) -> None:
    """Give a reference back."""
    raise NotImplementedError("for machine code alone")


@lru_cache(1)
def teach() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic as untyped
    from numba.extending import overload

    intrinsic: Any = untyped
    word = ir.IntType(64)

    def function(builder: Any, address: Any, kind: Any) -> Any:
        return builder.inttoptr(address, kind.as_pointer())

    @intrinsic
    def construct(typing: Any, make: Any, source: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.call(function(builder, args[0], ir.FunctionType(word, [word, word])), args[1:])

        return types.int64(types.int64, types.int64, types.int64), generate

    @intrinsic
    def decrease(typing: Any, drop: Any, one: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.call(function(builder, args[0], ir.FunctionType(ir.VoidType(), [word])), args[1:])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    native.teach()
    overload(new_text)(lambda make, source, length: lambda make, source, length: construct(make, source, length))
    overload(release)(lambda drop, one: lambda drop, one: decrease(drop, one))


def put(objects: int, at: int, one: int, drop: int) -> None:
    """Into an array of objects, which owns the reference from then on."""
    before = word_at(objects, at)
    set_word(objects, at, one)
    if before != 0:
        release(drop, before)


@lru_cache(1)
def functions() -> tuple[int, int]:
    """The addresses of CPython's constructor of bytes, and of what gives a reference back."""
    made, dropped = ctypes.pythonapi.PyBytes_FromStringAndSize, ctypes.pythonapi.Py_DecRef
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (made, dropped))  # type: ignore[return-value]


@compiled([f"int64({_VECTOR}, {_VECTOR}, int64, int64, int64)"], before=teach, nogil=False, parts=[put])
def make_texts(begins: Any, lengths: Any, objects: int, make: int, drop: int) -> int:
    """objects[i] = the bytes at begins[i]. -1, or the number of the first there was no memory for."""
    for i in range(len(begins)):
        one = new_text(make, begins[i], lengths[i])
        if one == 0:
            return i
        put(objects, i, one, drop)
    return -1


@make_texts.otherwise
def _(*_: Any) -> int:
    return 0


@compiled(
    [f"int64({_VECTOR}, {_VECTOR}, int64, int64, int64, int64, int64, int64, int64)"],
    before=teach,
    nogil=False,
    parts=[*PARTS, put],
)
def join_texts(
    inputs: Any, steps: Any, kind: int, between: int, wide: int, objects: int, count: int, make: int, drop: int
) -> int:
    """objects[i] = object number i * steps[k] of each of the inputs, with `wide` bytes between them. -1, or the number
    of the first that there was no memory for, or of which a part is no bytes object."""
    for i in range(count):
        total = wide * max(len(inputs) - 1, 0)
        for k in range(len(inputs)):
            n = length_at(inputs[k], i * steps[k], kind)
            if n < 0:
                return i
            total += n
        one = new_text(make, 0, total)
        if one == 0:
            return i
        to = begin_at(inputs[0], i * steps[0]) - word_at(inputs[0], i * steps[0])
        for k in range(len(inputs)):
            if k > 0 and wide > 0:
                move(between, 0, wide, one, to)
                to += wide
            n = length_at(inputs[k], i * steps[k], kind)
            move(begin_at(inputs[k], i * steps[k]), 0, n, one, to)
            to += n
        put(objects, i, one, drop)
    return -1


@join_texts.otherwise
def _(*_: Any) -> int:
    return 0


def texts_at(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray | None:
    """A vector of the bytes at these addresses (int64). The caller keeps what they are cut out of."""
    if not AS_EXPECTED or len(begins) < _FEW:
        make_texts.prepare()
        return None
    out = np.empty(len(begins), object)
    return out if make_texts(begins, lengths, address_of(out), *functions()) < 0 else None


def texts_of(buffer: np.ndarray, spans: np.ndarray) -> np.ndarray | None:
    """The same of [n, 2] (start, end) in a buffer."""
    start = buffer.__array_interface__["data"][0]
    return texts_at(spans[:, 0] + start, spans[:, 1] - spans[:, 0])


def joined(parts: Sequence[np.ndarray], steps: Sequence[int], count: int, between: bytes = b"") -> np.ndarray | None:
    """A vector of `count` strings, each of which is the object number i * step of each contiguous part, in their order.
    None also where one is no bytes object."""
    if not AS_EXPECTED or count < _FEW or not parts:
        join_texts.prepare()
        return None
    inputs, out = np.array([address_of(part) for part in parts], np.int64), np.empty(count, object)
    held = np.frombuffer(between or b"\0", np.uint8)
    wrong = join_texts(
        inputs, np.array(steps, np.int64), id(bytes), address_of(held), len(between), address_of(out), count,
        *functions(),
    )  # fmt: skip
    return out if wrong < 0 else None
