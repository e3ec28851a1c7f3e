"""float64 of Philox's words by arithmetic alone, with the same bits on numbers and on arrays: even ones, logarithms,
and Box and Muller's normal ones. Within some units in the last place of the C library's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.loop_parts import Instructions

D, L, N, U = np.float64, np.int64, np.int32, np.uint64
_TOP, _UPPER, _LOWER, _WITHOUT_SIGN = N(0xFFFFF), D(2.0**-20), D(2.0**-52), L(0xFFFFFFFF)
_ONE, _TWO, _MINUS_TWO, _HALF, _LN2 = D(1), D(2), D(-2), D(0.5), D(0.6931471805599453)
_ROOT_HALF, _BITS, _LEAST = L(D(np.sqrt(0.5)).view(L)), L(52), D(1e-7)
_A3, _A5, _A7, _A9, _A11, _A13, _A15, _A17, _A19, _A21 = (D(1 / k) for k in range(3, 22, 2))
_TWO_PI, _TWO_OVER_PI, _ROUND = D(2 * np.pi), D(2 / np.pi), D(6755399441055744.0)  # 1.5 * 2 ** 52
_PI_2_HIGH, _PI_2_LOW = D(1.57079632673412561417), D(6.07710050650619224932e-11)
_C = [D(1)]
for _k in range(1, 19):
    _C.append(D(_C[-1] / _k))
_S3, _S5, _S7, _S9, _S11, _S13, _S15, _S17 = (D((-1) ** (k // 2) * _C[k]) for k in range(3, 18, 2))
_C4, _C6, _C8, _C10, _C12, _C14, _C16, _C18 = (D((-1) ** (k // 2) * _C[k]) for k in range(4, 19, 2))
_LAST_BIT, _NEXT_BIT = N(1), N(2)


def even_of(low: Any, high: Any) -> Any:
    """float64 in [0, 1) of two words: 20 bits of the first, and the second."""
    return D(N(low) & _TOP) * _UPPER + D(L(N(high)) & _WITHOUT_SIGN) * _LOWER


def wide_log(x: Any) -> Any:
    """Of a positive number that is not subnormal, by the series of 2 artanh around 1; some -709 of 0."""
    bits = D(x).view(L)
    power = (bits - _ROOT_HALF) >> _BITS
    near = L(bits - (power << _BITS)).view(D)
    s = (near - _ONE) / (near + _ONE)
    z = s * s
    tail = (((((_A21 * z + _A19) * z + _A17) * z + _A15) * z + _A13) * z + _A11) * z + _A9
    tail = (((tail * z + _A7) * z + _A5) * z + _A3) * z
    return D(power) * _LN2 + (_TWO * s + _TWO * s * tail)


def wide_sine_cosine(x: Any) -> Any:
    """Of a number from 0 to 2 pi, by their series around the nearest quarter."""
    quarter = (x * _TWO_OVER_PI + _ROUND) - _ROUND
    r = (x - quarter * _PI_2_HIGH) - quarter * _PI_2_LOW
    z, turn = r * r, N(quarter)
    tail = (((_S17 * z + _S15) * z + _S13) * z + _S11) * z + _S9
    sine = r + r * z * (((tail * z + _S7) * z + _S5) * z + _S3)
    tail = (((_C18 * z + _C16) * z + _C14) * z + _C12) * z + _C10
    cosine = _ONE + (z * z * (((tail * z + _C8) * z + _C6) * z + _C4) - _HALF * z)
    odd = D(turn & _LAST_BIT)
    even = _ONE - odd
    upper, right = D(_LAST_BIT - (turn & _NEXT_BIT)), D(_LAST_BIT - ((turn + _LAST_BIT) & _NEXT_BIT))
    return (sine * even + cosine * odd) * upper, (cosine * even + sine * odd) * right


def _make_root64() -> Any:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def generated(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [ir.DoubleType()]), args)

    def root(typing: Any, x: Any) -> Any:
        return types.float64(types.float64), generated

    return intrinsic(root)


root64 = Instructions("root64", _make_root64)  # math.sqrt is a call of the C library's, which LLVM makes no vector of


def radius_squared(even: Any) -> Any:
    """Of two normal values; of 1e-7 where the number is 0, or nearly."""
    most = D(even > _LEAST)
    return _MINUS_TWO * wide_log(even * most + _LEAST * (_ONE - most))


def turn(even: Any) -> Any:
    """(sine, cosine) of so much of a whole turn."""
    return wide_sine_cosine(_TWO_PI * even)
