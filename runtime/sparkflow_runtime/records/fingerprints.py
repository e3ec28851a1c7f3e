"""FarmHash's Fingerprint64 of many strings at once, where they lie: what tf.string_to_hash_bucket_fast takes.

The loop is `hashes.fingerprint64` once more, for machine code; the tests hold one against the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import held_texts, native
from sparkflow_runtime.records.hashes import fingerprint64
from sparkflow_runtime.records.held_texts import begin_at, length_at
from sparkflow_runtime.records.native import byte_at, uint32_at, uint64_at

_K0, _K1, _K2 = (np.uint64(k) for k in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F))
_1, _2, _3, _9, _47, _64, _255 = (np.uint64(n) for n in (1, 2, 3, 9, 47, 64, 255))


def _rotated(value: Any, by: int) -> Any:
    return (value >> np.uint64(by)) | (value << (_64 - np.uint64(by)))


def _shifted(value: Any) -> Any:
    return value ^ (value >> _47)


def _mixed(u: Any, v: Any, mul: Any) -> Any:
    return _shifted((v ^ _shifted((u ^ v) * mul)) * mul) * mul


def _up_to_16(s: int, n: int) -> Any:
    mul = _K2 + np.uint64(n) * _2
    if n >= 8:
        a, b = uint64_at(s, 0) + _K2, uint64_at(s, n - 8)
        return _mixed(_rotated(b, 37) * mul + a, (_rotated(a, 25) + b) * mul, mul)
    if n >= 4:
        return _mixed(np.uint64(n) + (np.uint64(uint32_at(s, 0)) << _3), np.uint64(uint32_at(s, n - 4)), mul)
    if n > 0:
        y = np.uint64(byte_at(s, 0) + (byte_at(s, n >> 1) << 8))
        z = np.uint64(n + (byte_at(s, n - 1) << 2))
        return _shifted(y * _K2 ^ z * _K0) * _K2
    return _K2


def _up_to_32(s: int, n: int) -> Any:
    mul = _K2 + np.uint64(n) * _2
    a, b = uint64_at(s, 0) * _K1, uint64_at(s, 8)
    c, d = uint64_at(s, n - 8) * mul, uint64_at(s, n - 16) * _K2
    return _mixed(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, mul)


def _up_to_64(s: int, n: int) -> Any:
    mul = _K2 + np.uint64(n) * _2
    a, b = uint64_at(s, 0) * _K2, uint64_at(s, 8)
    c, d = uint64_at(s, n - 8) * mul, uint64_at(s, n - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _mixed(y, a + _rotated(b + _K2, 18) + c, mul)
    e, f = uint64_at(s, 16) * mul, uint64_at(s, 24)
    g, h = (y + uint64_at(s, n - 32)) * mul, (z + uint64_at(s, n - 24)) * mul
    return _mixed(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, mul)


def _weak(s: int, a: Any, b: Any) -> tuple[Any, Any]:
    w, x, y, z = uint64_at(s, 0), uint64_at(s, 8), uint64_at(s, 16), uint64_at(s, 24)
    a += w
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    return a + z, b + _rotated(a, 44) + c


def _longer(s: int, n: int) -> Any:
    x = np.uint64(81)
    y = x * _K1 + np.uint64(113)
    z = _shifted(y * _K2 + np.uint64(113)) * _K2
    v0 = v1 = w0 = w1 = np.uint64(0)
    x = x * _K2 + uint64_at(s, 0)
    at, end = 0, ((n - 1) // 64) * 64
    mul, last = _K1, False
    while True:  # blocks of 64 bytes, and at last the 64 bytes that end the string
        scale = _9 if last else _1
        x = _rotated(x + y + v0 + uint64_at(s, at + 8), 37) * mul
        y = _rotated(y + v1 + uint64_at(s, at + 48), 42) * mul
        x ^= w1 * scale
        y += v0 * scale + uint64_at(s, at + 40)
        z = _rotated(z + w0, 33) * mul
        v0, v1 = _weak(s + at, v1 * mul, x + w0)
        w0, w1 = _weak(s + at + 32, z + w1, y + uint64_at(s, at + 16))
        z, x = x, z
        if last:
            break
        at += 64
        if at == end:
            last, at, mul = True, n - 64, _K1 + ((z & _255) << _1)
            w0 += np.uint64((n - 1) & 63)
            v0 += w0
            w0 += v0
    return _mixed(_mixed(v0, w0, mul) + _shifted(y) * _K0 + z, _mixed(v1, w1, mul) + x, mul)


def fingerprint_at(s: int, n: int) -> Any:
    """Of the n bytes at an address."""
    if n <= 16:
        return _up_to_16(s, n)
    if n <= 32:
        return _up_to_32(s, n)
    if n <= 64:
        return _up_to_64(s, n)
    return _longer(s, n)


PARTS = (_rotated, _shifted, _mixed, _up_to_16, _up_to_32, _up_to_64, _weak, _longer, fingerprint_at)


@compiled(["void(int64, int64[::1], uint64[::1])"], before=native.teach, parts=PARTS)
def _all(data: int, offsets: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] = fingerprint_at(data + offsets[i], offsets[i + 1] - offsets[i])


@_all.otherwise
def _(data: int, offsets: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] = fingerprint64(native.bytes_at(data + int(offsets[i]), int(offsets[i + 1] - offsets[i])))


@compiled(["int64(int64, int64, uint64[::1])"], before=native.teach, nogil=False, parts=(*PARTS, *held_texts.PARTS))
def _held(objects: int, kind: int, out: Any) -> int:
    for i in range(len(out)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        out[i] = fingerprint_at(begin_at(objects, i), n)
    return -1


@_held.otherwise
def _(objects: int, kind: int, out: Any) -> int:
    return held_texts.each_text(objects, out, fingerprint64)


_10, _DIGITS = np.uint64(10), 24  # more than a number has, with its sign


def _written(value: int, text: int) -> int:
    """The decimal digits of a number, up to text[_DIGITS]; where they begin."""
    at = _DIGITS
    left = ~np.uint64(value) + _1 if value < 0 else np.uint64(value)
    while True:
        rest = left // _10
        at -= 1
        native.set_byte(text, at, int(left - rest * _10) + 48)
        left = rest
        if left == 0:
            break
    if value < 0:
        at -= 1
        native.set_byte(text, at, 45)
    return at


@compiled(
    ["void(int64[::1], int64, uint64[::1])"],
    before=native.teach,
    parts=(*PARTS, _written),
)
def _of_numbers(values: Any, text: int, out: Any) -> None:
    for i in range(len(out)):
        at = _written(values[i], text)
        out[i] = fingerprint_at(text + at, _DIGITS - at)


@_of_numbers.otherwise
def _(values: Any, text: int, out: Any) -> None:
    out[:] = [fingerprint64(b"%d" % value) for value in values.tolist()]


def fingerprints_of_numbers(values: np.ndarray) -> np.ndarray:
    """uint64[n]: of the decimal digits of int64[n], as str() and tf.as_string write them."""
    out, text = np.empty(len(values), np.uint64), np.empty(_DIGITS, np.uint8)
    _of_numbers(np.array(values, np.int64), text.ctypes.data, out)
    return out


def fingerprints(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """uint64[n]: of the strings data[offsets[i]:offsets[i + 1]] (uint8, int64[n + 1])."""
    out = np.empty(len(offsets) - 1, np.uint64)
    _all(data.ctypes.data, np.array(offsets), out)  # an array that may be read-only would be another type
    return out


def fingerprints_of(texts: np.ndarray) -> np.ndarray:
    """uint64, of an array of strings of the same shape."""
    out = np.empty(texts.size, np.uint64)
    held_texts.over_texts(_held, texts, out)
    return out.reshape(texts.shape)
