"""Numbers written as strings by loops: whole ones, and real ones with so many decimals, as C's printf rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.text_makers import functions, new_text, put, teach
from sparkflow_runtime.records.held_texts import AS_EXPECTED, PARTS, address_of, begin_at
from sparkflow_runtime.records.native import set_byte

_NUMBERS, _REALS, _TENS = (f"Array({kind}, 1, 'C', readonly=True)" for kind in ("int64", "uint64", "uint64"))
MOST_DECIMALS, MOST_DIGITS = 9, 6
_POWERS = np.array([10**n for n in range(20)], np.uint64)
_FEW = 16  # for fewer Python takes less time than a call of a loop


def whole_texts(numbers: np.ndarray) -> np.ndarray | None:
    """Of int64 numbers. None where the loop is not there."""
    return _made(write_wholes, np.ascontiguousarray(numbers, np.int64))


def real_texts(numbers: np.ndarray, decimals: int, shortest: bool = False) -> tuple[np.ndarray, np.ndarray] | None:
    """(the strings, which of them were not written (bool)): what is not finite, or above 2**52.
    shortest: so many digits at the most, as %g writes them, if that takes no exponent."""
    odd = np.zeros(numbers.size, bool)
    bits = np.ascontiguousarray(numbers, np.float64).view(np.uint64)
    if not (1 <= decimals <= MOST_DIGITS if shortest else decimals <= MOST_DECIMALS):
        return None
    out = _made(write_reals, bits, _POWERS, decimals, int(shortest), odd.view(np.uint8))
    return None if out is None else (out, odd)


def _made(loop: Compiled, numbers: np.ndarray, *arguments: Any) -> np.ndarray | None:
    if not AS_EXPECTED or numbers.size < _FEW:
        loop.prepare()
        return None
    out = np.empty(numbers.size, object)
    return out if loop(numbers.reshape(-1), *arguments, address_of(out), *functions()) < 0 else None


def digits_of(number: Any) -> int:
    """How many an unsigned number has."""
    count, bound = 1, np.uint64(10)
    while number >= bound and count < 20:
        count += 1
        bound = bound * np.uint64(10) if count < 20 else bound
    return count


def write_digits(number: Any, count: int, to: int) -> None:
    """The last `count` digits, from `to` on."""
    ten = np.uint64(10)
    for k in range(count):
        rest = number // ten
        digit: Any = np.int64(number - rest * ten)
        set_byte(to, count - 1 - k, digit + 48)
        number = rest


@compiled(
    [f"int64({_NUMBERS}, int64, int64, int64)"],
    before=teach,
    nogil=False,
    parts=[*PARTS, put, digits_of, write_digits],
)
def write_wholes(numbers: Any, out: int, make: int, drop: int) -> int:
    """-1, or the number of the first there was no memory for."""
    for i in range(len(numbers)):
        number = numbers[i]
        sign = 1 if number < 0 else 0
        size = np.uint64(0) - np.uint64(number) if number < 0 else np.uint64(number)
        count = digits_of(size)
        one = new_text(make, 0, count + sign)
        if one == 0:
            return i
        put(out, i, one, drop)
        to = begin_at(out, i)
        if sign != 0:
            set_byte(to, 0, 45)
        write_digits(size, count, to + sign)
    return -1


@write_wholes.otherwise
def _(*_: Any) -> int:
    return 0


def rounded(fraction: Any, shift: int, times: Any, odd: Any) -> Any:
    """fraction * times / 2**shift, to the nearest whole number, of two the even one (odd: whether what comes before
    it decides that). fraction has 53 bits at the most, times 30; 0 < shift."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    below, above = (fraction & low) * times, (fraction >> half) * times
    lower = (above << half) + below
    upper = (above >> half) + (np.uint64(1) if lower < below else np.uint64(0))
    one, none = np.uint64(1), np.uint64(0)
    if shift > 95:
        return none  # less than a half
    if shift < 64:
        by = np.uint64(shift)
        found = lower >> by | upper << (np.uint64(64) - by)
        rest, middle, more = lower & ((one << by) - one), one << (by - one), none
    elif shift == 64:
        found, rest, middle, more = upper, lower, one << np.uint64(63), none
    else:
        by = np.uint64(shift - 64)
        found, rest, middle, more = upper >> by, upper & ((one << by) - one), one << (by - one), lower
    even = (found | odd) & one == none
    up = rest > middle or (rest == middle and (more > none or not even))
    return found + one if up else found


def fitting(whole: Any, fraction: Any, shift: int, digits: int, powers: Any) -> int:
    """With how many decimals a number has so many digits; -1 where %g writes it with an exponent."""
    if whole > np.uint64(0):
        return digits - digits_of(whole)
    if fraction == np.uint64(0):
        return 0
    decimals = digits + 3
    found = rounded(fraction, shift, powers[decimals], np.uint64(0))
    if found <= powers[digits - 1]:  # which may have been rounded up to that
        return -1
    while found >= powers[digits] and decimals > digits:
        decimals -= 1
        found = rounded(fraction, shift, powers[decimals], np.uint64(0))
    return decimals


@compiled(
    [f"int64({_REALS}, {_TENS}, int64, int64, uint8[::1], int64, int64, int64)"],
    before=teach,
    nogil=False,
    parts=[*PARTS, put, digits_of, write_digits, rounded, fitting],
)
def write_reals(
    bits: Any, powers: Any, most: int, shortest: int, odd: Any, out: int, make: int, drop: int
) -> int:  # fmt: skip
    """The same of the bits of float64 numbers, with `most` decimals or, if shortest, digits; odd: those that are
    left."""
    none, one, ten, decimals = np.uint64(0), np.uint64(1), np.uint64(10), most
    for i in range(len(bits)):
        exponent: Any = np.int64(bits[i] >> np.uint64(52)) & 2047
        fraction: Any = bits[i] & np.uint64(4503599627370495)
        if exponent > 0:
            fraction |= one << np.uint64(52)
        shift = 1075 - (exponent if exponent > 0 else 1)
        if shift < 1:
            odd[i] = 1
            continue
        whole = none
        if shift <= 52:
            whole = fraction >> np.uint64(shift)
            fraction &= (one << np.uint64(shift)) - one
        if shortest != 0:
            decimals = fitting(whole, fraction, shift, most, powers)
            if decimals < 0:
                odd[i] = 1
                continue
        after = rounded(fraction, shift, powers[decimals], whole if decimals == 0 else none)
        if after >= powers[decimals]:
            whole, after = whole + one, none
        if shortest != 0:
            if whole >= powers[most]:
                odd[i] = 1
                continue
            while decimals > 0 and after % ten == none:
                after, decimals = after // ten, decimals - 1
        sign: Any = np.int64(bits[i] >> np.uint64(63))
        count = digits_of(whole)
        text = new_text(make, 0, sign + count + (decimals + 1 if decimals > 0 else 0))
        if text == 0:
            return i
        put(out, i, text, drop)
        to = begin_at(out, i)
        if sign != 0:
            set_byte(to, 0, 45)
        write_digits(whole, count, to + sign)
        if decimals > 0:
            set_byte(to, sign + count, 46)
            write_digits(after, decimals, to + sign + count + 1)
    return -1


@write_reals.otherwise
def _(*_: Any) -> int:
    return 0
