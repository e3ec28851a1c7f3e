"""Gamma values of Philox's words, each from a stream of its own: loops, and numpy versions with the same arithmetic.

Sources: Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; TensorFlow's random_op.cc for the
order of draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.philox_loops import turned
from sparkflow_runtime.kernels.random_values import Values
from sparkflow_runtime.kernels.wide_numbers import even_of, radius_squared, root64, turn, wide_log, wide_sine_cosine

D, N, U = np.float64, np.int32, np.uint64
_NONE, _ONE, _HALF, _SQUEEZE, _AGAIN = D(0), D(1), D(0.5), D(0.0331), D(-1)
_I1, _I2, _I3, _I4, _I5, _I6, _I7, _I8 = (U(k) for k in range(1, 9))
_ARITHMETIC: list[Callable[..., Any]] = [turned, even_of, wide_log, wide_sine_cosine, radius_squared, turn, root64]
_OF_VALUES = ", ".join(["float64[::1]"] * 5)


def tried(x: Any, u: Any, d: Any, c: Any) -> Any:
    """(a value, whether the quick test of three accepts it), of a normal and an even number."""
    v, squares = _ONE + c * x, x * x
    return d * (v * v * v), (v > _NONE) & (u < _ONE - _SQUEEZE * squares * squares)


@compiled([f"void({_OF_VALUES}, int32[::1], uint64[::1], int64)"], parts=[*_ARITHMETIC, tried])
def tries(out: Any, spare: Any, alpha: Any, d: Any, c: Any, bits: Any, stream: Any, first: Any) -> None:
    """out: values of scale 1, whose numbers begin at `first`, -1 where they are to be tried again; spare: the even
    number that each would draw next. d, c: what the method makes of alpha. bits: room for eight words of each. stream:
    the key, the counter's halves, and how far the counters of two values lie apart."""
    key, low, high, stride, count = stream[0], stream[1], stream[2], stream[3], U(out.shape[0])
    begin = low + U(first) * stride
    for i in range(count):
        e, f, g, h = turned(begin + i * stride, low, high, key)
        bits[_I8 * i], bits[_I8 * i + _I1], bits[_I8 * i + _I2], bits[_I8 * i + _I3] = N(e), N(f), N(g), N(h)
        e, f, g, h = turned(begin + i * stride + _I1, low, high, key)
        bits[_I8 * i + _I4], bits[_I8 * i + _I5], bits[_I8 * i + _I6], bits[_I8 * i + _I7] = N(e), N(f), N(g), N(h)
    for i in range(count):
        radius = root64(radius_squared(even_of(bits[_I8 * i], bits[_I8 * i + _I1])))
        x = turn(even_of(bits[_I8 * i + _I2], bits[_I8 * i + _I3]))[1] * radius
        value, good = tried(x, even_of(bits[_I8 * i + _I6], bits[_I8 * i + _I7]), d[i], c[i])
        out[i] = value if good & (alpha[i] != _ONE) else _AGAIN
        spare[i] = even_of(bits[_I8 * i + _I4], bits[_I8 * i + _I5])


@tries.otherwise
def _(out: Any, spare: Any, alpha: Any, d: Any, c: Any, bits: Any, stream: Any, first: Any) -> None:
    numbers = stream[1] + np.arange(first, first + len(out), dtype=U) * stream[3]
    w = np.stack([*turned(numbers, *stream[[1, 2, 0]]), *turned(numbers + _I1, *stream[[1, 2, 0]])]).astype(np.uint32)
    w = w.view(N)
    x = turn(even_of(w[2], w[3]))[1] * np.sqrt(radius_squared(even_of(w[0], w[1])))
    value, good = tried(x, even_of(w[6], w[7]), d, c)
    out[:] = np.where(good & (alpha != _ONE), value, _AGAIN)
    spare[:] = even_of(w[4], w[5])


def accepted(x: Any, u: Any, v: Any, d: Any) -> Any:
    """v: the cube."""
    squares = x * x
    quick = u < _ONE - _SQUEEZE * squares * squares
    return quick | (wide_log(u) < _HALF * squares + d * (_ONE - v + wide_log(v)))


@compiled([f"void({_OF_VALUES}, uint64[::1], int64)"], parts=[*_ARITHMETIC, accepted])
def tries_again(out: Any, spare: Any, alpha: Any, d: Any, c: Any, stream: Any, first: Any) -> None:
    """Those that are -1 from their beginning, until they are accepted; where alpha is 1, `spare` alone is drawn. A
    block of words makes two numbers, the second of which goes first."""
    key, low, high, stride = stream[0], stream[1], stream[2], stream[3]
    for i in range(U(out.shape[0])):
        if out[i] != _AGAIN:
            continue
        number, x, u, normals, evens = low + (U(first) + i) * stride, _NONE, _NONE, False, False
        other, other_even, going_on = _NONE, _NONE, alpha[i] != _ONE
        while going_on:
            if normals:
                x = other
            else:
                e, f, g, h = turned(number, low, high, key)
                sine, cosine = turn(even_of(g, h))
                radius, number = root64(radius_squared(even_of(e, f))), number + _I1
                x, other = cosine * radius, sine * radius
            normals, v = not normals, _ONE + c[i] * x
            if not v <= _NONE:
                if evens:
                    u = other_even
                else:
                    e, f, g, h = turned(number, low, high, key)
                    u, other_even, number = even_of(g, h), even_of(e, f), number + _I1
                evens, v = not evens, v * v * v
                out[i], going_on = d[i] * v, not accepted(x, u, v, d[i])
        e, f, g, h = turned(number, low, high, key)
        spare[i] = other_even if evens else even_of(g, h)


@tries_again.otherwise
def _(out: Any, spare: Any, alpha: Any, d: Any, c: Any, stream: Any, first: Any) -> None:
    again = np.flatnonzero(out == _AGAIN)
    values, each = Values(stream, stream[1] + (again + first).astype(U) * stream[3]), np.arange(len(again))
    todo = each[alpha[again] != _ONE]
    while len(todo):
        x, which = values.normal(todo), again[todo]
        v = _ONE + c[which] * x
        inside = ~(v <= _NONE)  # NaN, of a shape that is none, is accepted and stays
        todo_now, x, v, which = todo[inside], x[inside], v[inside], which[inside]
        u, v = values.even(todo_now), v * v * v
        out[which] = d[which] * v
        with np.errstate(invalid="ignore"):
            good = accepted(x, u, v, d[which])
        todo = np.sort(np.concatenate([todo[~inside], todo_now[~good]]))
    spare[again] = values.even(each)
