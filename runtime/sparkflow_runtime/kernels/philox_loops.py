"""Words of Philox 4x32-10, and uniform and normal numbers of them, by the vector.

Loops and numpy versions call the same arithmetic, on numbers and on arrays. All numbers are bits in an int32 array, as
a second array over the same memory would keep LLVM from using vectors.

Sources: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"; Box and Muller 1958.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.loop_parts import Inlined, Instructions

F, D, N, U = np.float32, np.float64, np.int32, np.uint64
_MULTIPLIER_A, _MULTIPLIER_C, _WEYL_A, _WEYL_C = U(0xD2511F53), U(0xCD9E8D57), U(0x9E3779B9), U(0xBB67AE85)
_ROUNDS, _LOW, _WORD = U(10), U(0xFFFFFFFF), U(32)
_NONE, _FIRST, _SECOND, _THIRD, _FOUR = U(0), U(1), U(2), U(3), U(4)
_CHUNK = U(1 << 9)  # blocks whose words are still in the nearest cache when they become numbers
_AT_ONCE = 1 << 12  # the same of numpy's versions


@Inlined
def turned(first: Any, low: Any, high: Any, key: Any) -> Any:
    """The four words of a counter, each in 64 bits. first: low and the number of the block; low, high: the counter."""
    behind = high + U(first < low)
    a, b, c, d = first & _LOW, first >> _WORD, behind & _LOW, behind >> _WORD
    p, q, r = key & _LOW, key >> _WORD, _NONE
    while r < _ROUNDS:
        x, y = a * _MULTIPLIER_A, c * _MULTIPLIER_C
        a, b, c, d = (y >> _WORD) ^ b ^ p, y & _LOW, (x >> _WORD) ^ d ^ q, x & _LOW
        p, q, r = (p + _WEYL_A) & _LOW, (q + _WEYL_C) & _LOW, r + _FIRST
    return a, b, c, d


def _blocks(stream: Any, numbers: np.ndarray) -> np.ndarray:
    """[n, 4] words as int32."""
    return np.stack(turned(stream[1] + numbers * stream[3], *stream[[1, 2, 0]]), 1).astype(np.uint32).view(N)


def _in_chunks(bits: Any, stream: Any, start: Any, stop: Any, make: Callable[[np.ndarray], np.ndarray]) -> None:
    """make(words [n, 4]) -> as many bits."""
    for first in range(start, stop, _AT_ONCE):
        numbers = np.arange(first, min(first + _AT_ONCE, stop), dtype=U)
        bits[4 * first : 4 * (first + len(numbers))] = make(_blocks(stream, numbers)).reshape(-1)


@compiled(["void(int32[::1], uint64[::1], int64, int64)"], parts=[turned])
def words(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    """Those of blocks start to stop. stream: the key, the counter's lower and upper half of block 0, and how far the
    counters of two blocks lie apart (1, but for normal values)."""
    key, low, high = stream[0], stream[1], stream[2]
    for i in range(U(start), U(stop)):
        a, b, c, d = turned(low + i, low, high, key)
        bits[_FOUR * i], bits[_FOUR * i + _FIRST] = N(a), N(b)
        bits[_FOUR * i + _SECOND], bits[_FOUR * i + _THIRD] = N(c), N(d)


@words.otherwise
def _(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    _in_chunks(bits, stream, start, stop, lambda w: w)


@compiled(["void(int32[::1], uint64[::1], uint64[::1], int64, int64)"], parts=[turned])
def words_of(bits: Any, numbers: Any, stream: Any, start: Any, stop: Any) -> None:
    """Those of blocks with these numbers."""
    key, low, high = stream[0], stream[1], stream[2]
    for i in range(U(start), U(stop)):
        a, b, c, d = turned(low + numbers[i], low, high, key)
        bits[_FOUR * i], bits[_FOUR * i + _FIRST] = N(a), N(b)
        bits[_FOUR * i + _SECOND], bits[_FOUR * i + _THIRD] = N(c), N(d)


@words_of.otherwise
def _(bits: Any, numbers: Any, stream: Any, start: Any, stop: Any) -> None:
    bits[4 * start : 4 * stop] = _blocks(stream, numbers[start:stop]).reshape(-1)


# ---------------------------------------------------------------------- uniform

_MANTISSA, _UNIT = N(0x7FFFFF), F(2.0**-23)


def unit(word: Any) -> Any:
    """The float32 in [0, 1) that a word's lowest 23 bits make."""
    return F(F(N(word & _MANTISSA)) * _UNIT)


def unit_bits(word: Any) -> Any:
    return F(unit(N(word))).view(N)


@compiled(["void(int32[::1], uint64[::1], int64, int64)"], parts=[turned, unit, unit_bits])
def units(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    """One float32 in [0, 1) of each word."""
    key, low, high = stream[0], stream[1], stream[2]
    for i in range(U(start), U(stop)):
        a, b, c, d = turned(low + i, low, high, key)
        bits[_FOUR * i], bits[_FOUR * i + _FIRST] = unit_bits(a), unit_bits(b)
        bits[_FOUR * i + _SECOND], bits[_FOUR * i + _THIRD] = unit_bits(c), unit_bits(d)


@units.otherwise
def _(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    _in_chunks(bits, stream, start, stop, unit_bits)


# ---------------------------------------------------------------------- normal

_ONE, _TWO, _MINUS_TWO, _LN2 = D(1), D(2), F(-2), D(0.6931471805599453)
_ROOT_HALF, _LEAST = N(0x3F3504F3), N(F(1e-7).view(N))  # float32's bits
_BITS, _SIGN, _LAST, _NEXT = N(23), N(31), N(1), N(2)
_TWO_PI, _TWO_OVER_PI, _ROUND = D(2 * np.pi), D(2 / np.pi), D(6755399441055744.0)  # 1.5 * 2 ** 52
_PI_2_HIGH, _PI_2_LOW = D(1.57079632673412561417), D(6.07710050650619224932e-11)
_A3, _A5, _A7, _A9, _A11, _A13, _A15 = (D(1 / k) for k in (3, 5, 7, 9, 11, 13, 15))
_S3, _S5, _S7, _S9, _S11, _S13 = (D(1 / k) for k in (-6, 120, -5040, 362880, -39916800, 6227020800))
_C2, _C4, _C6, _C8, _C10, _C12, _C14 = (
    D(1 / k) for k in (-2, 24, -720, 40320, -3628800, 479001600, -87178291200)
)  # fmt: skip


def log_unit(word: Any) -> Any:
    """log of `unit`, of 1e-7 where that is less; by the series of 2 artanh around 1, within 1e-12."""
    whole = N(word & _MANTISSA)
    bits = N(F(F(whole) * _UNIT).view(N) | (N(N(whole - _LAST) >> _SIGN) & _LEAST))
    power = N(N(bits - _ROOT_HALF) >> _BITS)
    near = D(N(bits - N(power << _BITS)).view(F))
    s = (near - _ONE) / (near + _ONE)
    z = s * s
    tail = ((((((_A15 * z + _A13) * z + _A11) * z + _A9) * z + _A7) * z + _A5) * z + _A3) * z
    return D(power) * _LN2 + (_TWO * s + _TWO * s * tail)


def sine_cosine(x: Any) -> Any:
    """Of a number from 0 to 2 pi, by their series around the nearest quarter, within 1e-13."""
    quarter = (x * _TWO_OVER_PI + _ROUND) - _ROUND
    r = (x - quarter * _PI_2_HIGH) - quarter * _PI_2_LOW
    z, turn = r * r, N(quarter)
    sine = r + r * z * (((((_S13 * z + _S11) * z + _S9) * z + _S7) * z + _S5) * z + _S3)
    cosine = _ONE + z * ((((((_C14 * z + _C12) * z + _C10) * z + _C8) * z + _C6) * z + _C4) * z + _C2)
    odd = D(N(turn & _LAST))
    even = _ONE - odd
    upper, right = D(N(_LAST - N(turn & _NEXT))), D(N(_LAST - N(N(turn + _LAST) & _NEXT)))
    return (sine * even + cosine * odd) * upper, (cosine * even + sine * odd) * right


def _make_root() -> Any:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def generated(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [ir.FloatType()]), args)

    def root32(typing: Any, x: Any) -> Any:
        return types.float32(types.float32), generated

    return intrinsic(root32)


_root = Instructions("_root", _make_root)  # math.sqrt is a call of the C library's, which LLVM makes no vector of


def _normals_of(w: np.ndarray) -> np.ndarray:
    """float32 [..., n] of words as int32, two of each two."""
    radius = np.sqrt(_MINUS_TWO * F(log_unit(w[..., 0::2])))
    sine, cosine = sine_cosine(D(F(_TWO_PI * D(unit(w[..., 1::2])))))
    return np.stack([F(sine) * radius, F(cosine) * radius], -1).reshape(w.shape)


@compiled(
    ["void(int32[::1], uint64[::1], int64, int64)"],
    parts=[turned, unit, log_unit, sine_cosine, _root],
)
def normals(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    """Two float32 of two words each."""
    key, low, high, stride = stream[0], stream[1], stream[2], stream[3]
    for chunk in range(U(start), U(stop), _CHUNK):
        end = min(chunk + _CHUNK, U(stop))
        for i in range(chunk, end):
            a, b, c, d = turned(low + i * stride, low, high, key)
            bits[_FOUR * i], bits[_FOUR * i + _FIRST] = N(a), N(b)
            bits[_FOUR * i + _SECOND], bits[_FOUR * i + _THIRD] = N(c), N(d)
        for i in range(_SECOND * chunk, _SECOND * end):
            radius = _root(F(_MINUS_TWO * F(log_unit(bits[_SECOND * i]))))
            sine, cosine = sine_cosine(D(F(_TWO_PI * D(unit(bits[_SECOND * i + _FIRST])))))
            bits[_SECOND * i] = F(F(sine) * radius).view(N)
            bits[_SECOND * i + _FIRST] = F(F(cosine) * radius).view(N)


@normals.otherwise
def _(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    _in_chunks(bits, stream, start, stop, lambda w: _normals_of(w).view(N))


# ---------------------------------------------------------------------- normal, within two deviations

_LIMIT, _WITHOUT_SIGN = N(F(2).view(N)), N(0x7FFFFFFF)


@compiled(
    ["void(int32[::1], uint64[::1], int64, int64)"],
    parts=[turned, unit, log_unit, sine_cosine, _root],
)
def drawn_again(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    """Of `normals`, each four of which have counters of their own: those beyond two deviations give way to the next
    ones, and these to what the four's next counters give."""
    key, low, high, stride = stream[0], stream[1], stream[2], stream[3]
    for i in range(U(start), U(stop)):
        count = _NONE
        for k in range(_FOUR):
            one = bits[_FOUR * i + k]
            bits[_FOUR * i + count] = one
            count += U(N(one & _WITHOUT_SIGN) < _LIMIT)
        number = low + i * stride
        while count < _FOUR:
            number += _FIRST
            a, b, c, d = turned(number, low, high, key)
            for pair in range(_SECOND):
                even, odd = (N(a), N(b)) if pair == _NONE else (N(c), N(d))
                radius = _root(F(_MINUS_TWO * F(log_unit(even))))
                sine, cosine = sine_cosine(D(F(_TWO_PI * D(unit(odd)))))
                one = F(F(sine) * radius).view(N)
                if N(one & _WITHOUT_SIGN) < _LIMIT and count < _FOUR:
                    bits[_FOUR * i + count] = one
                    count += _FIRST
                one = F(F(cosine) * radius).view(N)
                if N(one & _WITHOUT_SIGN) < _LIMIT and count < _FOUR:
                    bits[_FOUR * i + count] = one
                    count += _FIRST


@drawn_again.otherwise
def _(bits: Any, stream: Any, start: Any, stop: Any) -> None:
    rows = bits[4 * start : 4 * stop].reshape(-1, 4)
    inside = (rows & _WITHOUT_SIGN) < _LIMIT
    rows[:] = np.take_along_axis(rows, np.argsort(~inside, 1, "stable"), 1)
    filled, todo, drawn = inside.sum(1), np.flatnonzero(~inside.all(1)), 0
    while len(todo):
        drawn += 1
        counters = stream[1] + (todo + start).astype(U) * stream[3] + U(drawn)
        w = np.stack(turned(counters, *stream[[1, 2, 0]]), 1).astype(np.uint32).view(N)
        for one in _normals_of(w).view(N).T:
            good = np.flatnonzero(((one & _WITHOUT_SIGN) < _LIMIT) & (filled[todo] < 4))
            rows[todo[good], filled[todo[good]]] = one[good]
            filled[todo[good]] += 1
        todo = todo[filled[todo] < 4]


# ---------------------------------------------------------------------- orders


@compiled(["void(int64[::1], uint32[::1])"])
def swapped(order: Any, drawn: Any) -> None:
    """Each changes places with itself or one behind it, in order."""
    for i in range(order.shape[0] - 1):
        other = i + np.int64(drawn[i]) % (order.shape[0] - i)
        order[i], order[other] = order[other], order[i]


@swapped.otherwise
def _(order: Any, drawn: Any) -> None:
    count = len(order)
    others = np.arange(count - 1) + drawn[: count - 1].astype(np.int64) % np.arange(count, 1, -1)
    for i, other in enumerate(others.tolist()):
        order[i], order[other] = order[other], order[i]
