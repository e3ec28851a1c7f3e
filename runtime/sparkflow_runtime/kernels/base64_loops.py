"""Base64 with the letters of URLs, of many strings: read and written where Python holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.text_makers import functions, new_text, put, teach
from sparkflow_runtime.records.held_texts import AS_EXPECTED, PARTS, address_of, begin_at, length_at
from sparkflow_runtime.records.native import byte_at, set_byte, set_uint32, uint32_at

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_WRONG = 1 << 24
_TABLE = "Array(int64, 1, 'C', readonly=True)"
_FEW = 16  # for fewer Python takes less time than a call of a loop


def _pairs() -> np.ndarray:
    """The two letters of each 12 bits, the first one in the lower byte."""
    letters = np.frombuffer(_LETTERS, np.uint8).astype(np.int64)
    return (letters[:, None] | letters << 8).reshape(-1)


def _values() -> np.ndarray:
    found = np.full(256, _WRONG, np.int64)
    found[[*_LETTERS]] = np.arange(64)
    return found


_PAIRS, _VALUES = _pairs(), _values()


def encoded(texts: np.ndarray, pad: bool) -> np.ndarray | None:
    """None where the loop is not there, or one is no bytes object."""
    return _made(encode, texts, _PAIRS, int(pad))


def decoded(texts: np.ndarray) -> np.ndarray | None:
    """None also where one is no base64."""
    return _made(decode, texts, _VALUES)


def _made(loop: Compiled, texts: np.ndarray, *arguments: Any) -> np.ndarray | None:
    if not AS_EXPECTED or texts.size < _FEW:
        loop.prepare()
        return None
    held, out = np.ascontiguousarray(texts, object), np.empty(texts.size, object)
    wrong = loop(address_of(held), id(bytes), *arguments, address_of(out), out.size, *functions())
    return out.reshape(texts.shape) if wrong < 0 else None


@compiled(
    [f"int64(int64, int64, {_TABLE}, int64, int64, int64, int64, int64)"],
    before=teach,
    nogil=False,
    parts=[*PARTS, put],
)
def encode(objects: int, kind: int, pairs: Any, pad: int, out: int, count: int, make: int, drop: int) -> int:
    """-1, or the number of the first that is no bytes object, or that there was no memory for."""
    for i in range(count):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        left = n % 3
        letters = n // 3 * 4 + (0 if left == 0 else left + 1)
        total = letters + (4 - letters % 4) % 4 if pad != 0 else letters
        one = new_text(make, 0, total)
        if one == 0:
            return i
        put(out, i, one, drop)
        start, to, at, end = begin_at(objects, i), begin_at(out, i), 0, n - left
        while at < end:  # a word is four bytes, and the last three have a zero byte behind them
            word = np.uint64(uint32_at(start, at))
            bits = (word & 0xFF) << 16 | (word & 0xFF00) | (word >> 16 & 0xFF)
            set_uint32(to, 0, pairs[bits >> 12] | pairs[bits & 0xFFF] << 16)
            at, to = at + 3, to + 4
        if left != 0:
            rest = byte_at(start, at) << 16 | (byte_at(start, at + 1) << 8 if left == 2 else 0)
            first, last = pairs[rest >> 12], pairs[rest & 0xFFF]
            set_byte(to, 0, first & 0xFF)
            set_byte(to, 1, first >> 8)
            if left == 2:
                set_byte(to, 2, last & 0xFF)
            for k in range(letters, total):
                set_byte(begin_at(out, i), k, 61)
    return -1


@encode.otherwise
def _(*_: Any) -> int:
    return 0


@compiled(
    [f"int64(int64, int64, {_TABLE}, int64, int64, int64, int64)"], before=teach, nogil=False, parts=[*PARTS, put]
)
def decode(objects: int, kind: int, values: Any, out: int, count: int, make: int, drop: int) -> int:
    """-1, or the number of the first that is no base64; it may end with what fills its last four letters up."""
    for i in range(count):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start = begin_at(objects, i)
        if n > 0 and n % 4 == 0 and byte_at(start, n - 1) == 61:
            n -= 2 if byte_at(start, n - 2) == 61 else 1
        left = n % 4
        if left == 1:
            return i
        one = new_text(make, 0, n // 4 * 3 + (0 if left == 0 else left - 1))
        if one == 0:
            return i
        put(out, i, one, drop)
        to, at, end, seen = begin_at(out, i), 0, n - left, 0
        while at < end:
            bits = values[byte_at(start, at)] << 18 | values[byte_at(start, at + 1)] << 12
            bits |= values[byte_at(start, at + 2)] << 6 | values[byte_at(start, at + 3)]
            seen |= bits
            set_uint32(to, 0, (bits >> 16 & 0xFF) | (bits & 0xFF00) | (bits & 0xFF) << 16)
            at, to = at + 4, to + 3
        if left != 0:
            bits = values[byte_at(start, at)] << 18 | values[byte_at(start, at + 1)] << 12
            if left == 3:
                bits |= values[byte_at(start, at + 2)] << 6
                set_byte(to, 1, bits >> 8 & 0xFF)
            seen |= bits
            set_byte(to, 0, bits >> 16 & 0xFF)
        if seen >= 1 << 24:
            return i
    return -1


@decode.otherwise
def _(*_: Any) -> int:
    return 0
