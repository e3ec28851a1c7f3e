"""Single precision exponentials, softmax and the error function by arithmetic alone: one pass over memory.

Loops of machine code have no exp, and numpy's has other bits on each processor. The one here has the same bits
everywhere, in loops and over arrays, within 2 units in the last place; below the normal numbers it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.crew_layout import MOST_BLOCKS
from sparkflow_runtime.kernels.parallel import PER_ITEM, allowed, crew_for, runs, share

F = np.float32
_LOG2E, _LN2_HIGH, _LN2_LOW = F(1.4426950408889634), F(0.693359375), F(-2.12194440e-4)
_ROUND = F(12582912.0)  # 1.5 * 2 ** 23: what is added to it is rounded, and stands in its lowest bits
_ROUND_BITS = np.int32(0x4B400000 - 127)  # less the exponent of 1
_LEAST, _MOST, _BITS, _ZERO, _ONE, _INFINITE = F(-87.3), F(88.3), np.int32(23), F(0), F(1), F(np.inf)
# exp(r) = 1 + r + r^2 P(r) for |r| <= ln(2) / 2: a minimax fit
_E4, _E3, _E2, _E1, _E0 = F(0.00138143206), F(0.00836885069), F(0.0416684004), F(0.166665196), F(0.49999994)


_SHARED = 1 << 17  # elements from which threads of Python pay
_AT_ONCE = 1 << 15  # elements that a thread of the crew takes, or more


def exp_inside(held: Any) -> Any:
    """exp of one number from -87.3 to 88.3."""
    shifted = np.float32(held * _LOG2E + _ROUND)
    whole = shifted - _ROUND
    r = (held - whole * _LN2_HIGH) - whole * _LN2_LOW
    tail = (((_E4 * r + _E3) * r + _E2) * r + _E1) * r + _E0
    made = tail * (r * r) + r + _ONE
    power = np.int32((np.float32(shifted).view(np.int32) - _ROUND_BITS) << _BITS)
    return made * np.int32(power).view(np.float32)


def exp32(x: Any) -> Any:
    """exp of one number."""
    held = x if x >= _LEAST else _LEAST
    held = held if held <= _MOST else _MOST
    made = exp_inside(held)
    made = _ZERO if x < _LEAST else made
    return made if x <= _MOST else x * _INFINITE  # NaN stays itself


def _exp_inside_of(held: np.ndarray) -> np.ndarray:
    shifted = held * _LOG2E + _ROUND
    whole = shifted - _ROUND
    r = (held - whole * _LN2_HIGH) - whole * _LN2_LOW
    tail = (((_E4 * r + _E3) * r + _E2) * r + _E1) * r + _E0
    made = tail * (r * r) + r + _ONE
    return made * ((shifted.view(np.int32) - _ROUND_BITS) << _BITS).view(np.float32)


@np.errstate(all="ignore")
def exp_of(x: np.ndarray) -> np.ndarray:
    """The same of an array."""
    held = np.where(x >= _LEAST, x, _LEAST)
    made = _exp_inside_of(np.where(held <= _MOST, held, _MOST))
    made = np.where(x < _LEAST, _ZERO, made)
    return np.where(x <= _MOST, made, x * _INFINITE)


def in_parts(loop: Compiled, count: int, each: int, *arrays: Any, least: int = 1) -> None:
    """loop(*arrays, start, stop) over `count` things of `each` elements, in several threads where there are many.
    least: things that a thread takes at once, or more."""
    mates = crew_for(count * each * PER_ITEM) if count > 1 else None
    address = loop.entry(arrays) if mates is not None else 0
    if mates is not None and address:
        length = max(least, _AT_ONCE // max(1, each), -(-count // MOST_BLOCKS))
        if mates.loop(address, arrays, runs(count, length)):
            return
    if count * each < _SHARED or allowed() < 2:
        loop(*arrays, 0, count)
        return

    def work(parts: Sequence[tuple[int, int]]) -> None:
        if parts:
            loop(*arrays, parts[0][0], sum(parts[-1]))

    share(work, runs(count, max(least, _SHARED // (4 * max(1, each)))))


# ---------------------------------------------------------------------- softmax


def ordered(x: Any) -> Any:
    """A number as an integer: of two numbers the larger one has the larger integer."""
    bits = np.float32(x).view(np.int32)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


def largest(row: Any, sign: Any) -> Any:
    """Of the row times 1 or -1; NaN where there is one. Comparing integers goes by the vector, as comparing numbers
    that may be NaN does not."""
    most, strange = np.int32(-0x80000000), False
    for k in range(np.uint64(row.shape[0])):
        strange |= row[k] != row[k]
        one = ordered(row[k] * sign)
        most = one if one > most else most
    back = np.int32(most ^ (np.int32(most >> np.int32(31)) & np.int32(0x7FFFFFFF)))
    return np.float32(np.nan) if strange else np.int32(back).view(np.float32)


def total(row: Any) -> Any:
    """Eight running sums, then those; what is left is added one by one."""
    a = b = c = d = e = f = g = h = _ZERO
    eights = np.uint64(row.shape[0] // 8 * 8)
    for k in range(np.uint64(0), eights, np.uint64(8)):
        a, b, c, d = a + row[k], b + row[k + 1], c + row[k + 2], d + row[k + 3]
        e, f, g, h = e + row[k + 4], f + row[k + 5], g + row[k + 6], h + row[k + 7]
    whole = ((a + e) + (c + g)) + ((b + f) + (d + h))
    for k in range(eights, np.uint64(row.shape[0])):
        whole += row[k]
    return whole


@compiled(
    ["void(Array(float32, 2, 'C', readonly=True), float32[:,::1], float32[::1], float32[::1], int64, int64)"],
    parts=[exp_inside, exp32, ordered, largest, total],
)
def softmax_rows(x: Any, out: Any, most: Any, sums: Any, start: Any, stop: Any) -> None:
    """out = exp(x - most) / sums, with the largest of each row and the sum of its exponentials."""
    for r in range(start, stop):
        given, made = x[r], out[r]
        m = largest(given, _ONE)
        for k in range(np.uint64(given.shape[0])):
            made[k] = exp32(given[k] - m)
        s = total(made)
        most[r], sums[r] = m, s
        share = _ONE / s
        for k in range(np.uint64(given.shape[0])):
            made[k] *= share


@softmax_rows.otherwise
@np.errstate(all="ignore")
def _(x: Any, out: Any, most: Any, sums: Any, start: Any, stop: Any) -> None:
    part = slice(start, stop)
    most[part] = np.max(x[part], 1)
    exps = exp_of(x[part] - most[part, None])
    sums[part] = totals(exps)
    np.multiply(exps, (_ONE / sums[part])[:, None], out=out[part])


def totals(rows: np.ndarray) -> np.ndarray:
    """`total` of each row."""
    eights = rows.shape[1] // 8
    sums = np.zeros((len(rows), 8), np.float32)
    for k in range(eights):
        sums += rows[:, 8 * k : 8 * k + 8]
    for half in (4, 2, 1):
        sums = sums[:, :half] + sums[:, half : 2 * half]
    whole = sums[:, 0]
    for k in range(8 * eights, rows.shape[1]):
        whole = whole + rows[:, k]
    return whole


def takes(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float32 and x.size > 0


def softmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(softmax over the last axis, the largest of each row, the sum of its exponentials less that) of what `takes`."""
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    out, most, sums = np.empty_like(rows), np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
    in_parts(softmax_rows, len(rows), rows.shape[1], rows, out, most, sums)
    return out.reshape(x.shape), most.reshape(*x.shape[:-1], 1), sums.reshape(*x.shape[:-1], 1)


# ---------------------------------------------------------------------- the error function

# erf(x) = x P(x^2) / Q(x^2) for |x| <= 3.92, a minimax fit; 1 beyond
_A6, _A5, _A4, _A3 = F(1.99244557e-08), F(-1.95783967e-06), F(1.41848959e-04), F(3.70152756e-03)
_A2, _A1, _A0 = F(5.05730528e-02), F(1.99922451e-01), F(1.12837911)
_B4, _B3, _B2, _B1 = F(9.56020816e-04), F(1.43530303e-02), F(1.14997556e-01), F(5.10508315e-01)
_ERF_END = F(3.92)
# erfc(x) = exp(-x^2) t P(t) with t = 1 / (1 + 0.4 x) for x >= 0.4, a minimax fit; 0 beyond 9.3
_C1, _C2, _C3, _C4, _C5 = F(0.225675449), F(0.225643694), F(0.208396435), F(0.164325938), F(0.157729924)
_C6, _C7, _C8, _C9 = F(-0.0409367606), F(0.212525859), F(-0.211186171), F(0.057833869)
_ERFC_BEGIN, _ERFC_END, _SPLIT = F(0.4), F(9.3), F(4097)
_SIXTH, _HALF, _TWO = F(-1 / 6), F(0.5), F(2)


def erf_inside(held: Any) -> Any:
    """erf of a number, or of an array, up to 3.92."""
    t = held * held
    upper = (((((_A6 * t + _A5) * t + _A4) * t + _A3) * t + _A2) * t + _A1) * t + _A0
    lower = (((_B4 * t + _B3) * t + _B2) * t + _B1) * t + _ONE
    return held * upper / lower


def erf32(x: Any) -> Any:
    held = x if x <= _ERF_END else _ERF_END
    held = held if held >= -_ERF_END else -_ERF_END
    made = erf_inside(held)
    return made if x == x else x


@compiled(["void(Array(float32, 1, 'C', readonly=True), float32[::1], int64, int64)"], parts=[erf_inside, erf32])
def erf_all(x: Any, out: Any, start: Any, stop: Any) -> None:
    for i in range(np.uint64(start), np.uint64(stop)):
        out[i] = erf32(x[i])


@erf_all.otherwise
@np.errstate(all="ignore")
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    x = x[start:stop]
    held = np.where(x <= _ERF_END, x, _ERF_END)
    held = np.where(held >= -_ERF_END, held, -_ERF_END)
    out[start:stop] = np.where(x == x, erf_inside(held), x)


def erfc_tail(far: Any) -> Any:
    """erfc(far) / exp(-high^2), for a number or an array, and high: far to as many digits as its square has."""
    split = far * _SPLIT
    high = split - (split - far)
    less = (far - high) * (far + high)
    t = _ONE / (_ONE + _ERFC_BEGIN * far)
    tail = ((((_C9 * t + _C8) * t + _C7) * t + _C6) * t + _C5) * t + _C4
    tail = (((tail * t + _C3) * t + _C2) * t + _C1) * t
    return tail * (((_SIXTH * less + _HALF) * less - _ONE) * less + _ONE), high


@compiled(
    ["void(Array(float32, 1, 'C', readonly=True), float32[::1], int64, int64)"],
    parts=[exp_inside, erf_inside, erfc_tail],
)
def erfc_all(x: Any, out: Any, start: Any, stop: Any) -> None:
    for i in range(np.uint64(start), np.uint64(stop)):
        # Not a function of its own: of that LLVM pairs the two polynomials, and then the loop cannot go by the vector.
        far = x[i] if x[i] >= _ZERO else -x[i]
        far = far if far <= _ERFC_END else _ERFC_END
        tail, high = erfc_tail(far)
        tail = tail * exp_inside(-(high * high))
        tail = tail if x[i] <= _ERFC_END else _ZERO
        near = erf_inside(far)
        made = tail if x[i] >= _ZERO else _TWO - tail
        near = _ONE - near if x[i] >= _ZERO else _ONE + near
        made = near if far < _ERFC_BEGIN else made
        out[i] = made if x[i] == x[i] else x[i]


@erfc_all.otherwise
@np.errstate(all="ignore")
def _(x: Any, out: Any, start: Any, stop: Any) -> None:
    x = x[start:stop]
    far = np.where(x >= _ZERO, x, -x)
    far = np.where(far <= _ERFC_END, far, _ERFC_END)
    tail, high = erfc_tail(far)
    tail = tail * _exp_inside_of(-(high * high))
    tail = np.where(x <= _ERFC_END, tail, _ZERO)
    made = np.where(x >= _ZERO, tail, _TWO - tail)
    near = erf_inside(far)
    near = np.where(x >= _ZERO, _ONE - near, _ONE + near)
    made = np.where(far < _ERFC_BEGIN, near, made)
    out[start:stop] = np.where(x == x, made, x)


def erf(x: np.ndarray) -> np.ndarray:
    """Of what `takes`."""
    return _of_all(erf_all, x)


def erfc(x: np.ndarray) -> np.ndarray:
    """Of what `takes`."""
    return _of_all(erfc_all, x)


def _of_all(loop: Compiled, x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, np.float32)
    in_parts(loop, x.size, 1, np.ascontiguousarray(x).reshape(-1), out.reshape(-1))
    return out
