"""The hot loop of reading lines of comma-separated values: where each value is, and those numbers that it can read.

Integers up to 2**53 and powers of ten up to 22 are numbers of float64; a multiplication or division of two such rounds
once, as reading the text does (Clinger 1990). Other numbers are left to Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.native import byte_at, raw
from sparkflow_runtime.records.native import teach as teach_native

WHOLE, REAL, TEXT = range(3)  # kinds of columns
PLAIN, GONE, ODD = range(3)  # what a value is: read, missing, or left to Python
TENS = 10.0 ** np.arange(23)
TENS.flags.writeable = False


def teach() -> None:
    """Have numba know the functions here."""
    from numba.extending import register_jitable

    teach_native()
    for function in (_field, _quoted, _is_missing, _digits, _after_sign, whole_in, decimal_in):
        register_jitable(function)


def _field(text: int, at: int, end: int, delimiter: int, quote: int) -> tuple[int, int, int, bool]:
    """(where the value begins and ends, where its field does, whether it has doubled quotes); the field's end is -1
    where it is against the rules."""
    if at < end and byte_at(text, at) == quote:
        stop, doubled = _quoted(text, at + 1, end, quote)
        wrong = stop < 0 or (stop + 1 < end and byte_at(text, stop + 1) != delimiter)
        return at + 1, stop, -1 if wrong else stop + 1, doubled
    start = at
    while at < end:
        c = byte_at(text, at)
        if c == delimiter:
            break
        if c == quote or c == 10 or c == 13 or c == 0:
            return start, at, -1, False
        at += 1
    return start, at, at, False


def _quoted(text: int, at: int, end: int, quote: int) -> tuple[int, bool]:
    """(where the quotes that end the value are, whether there are doubled ones before); -1 where there are none."""
    doubled = False
    while True:
        while at < end and byte_at(text, at) != quote and byte_at(text, at) != 0:
            at += 1
        if at >= end or byte_at(text, at) == 0:
            return -1, doubled
        if at + 1 >= end or byte_at(text, at + 1) != quote:
            return at, doubled
        doubled = True
        at += 2


def _is_missing(text: int, start: int, size: int, missing: int, missing_size: int) -> bool:
    if size == 0:
        return True
    if size != missing_size:
        return False
    for i in range(size):  # noqa: SIM110 (a generator does not compile)
        if byte_at(text, start + i) != byte_at(missing, i):
            return False
    return True


def _digits(text: int, at: int, stop: int, value: int, most: int) -> tuple[int, int]:
    """(the value with the digits from `at` on behind it, `most` of them at most; where they end)."""
    last = min(stop, at + most)
    while at < last and 48 <= byte_at(text, at) <= 57:
        value = value * 10 + (byte_at(text, at) - 48)
        at += 1
    return value, at


def _after_sign(text: int, at: int) -> int:
    return at + 1 if byte_at(text, at) == 45 or byte_at(text, at) == 43 else at


def whole_in(text: int, start: int, stop: int) -> tuple[int, bool]:
    """(the number in a text that is not empty, whether it is one of less than 19 digits)."""
    first = _after_sign(text, start)
    value, at = _digits(text, first, stop, 0, 18)
    return -value if byte_at(text, start) == 45 else value, at == stop and at > first


def decimal_in(text: int, start: int, stop: int) -> tuple[int, int, bool]:
    """(digits, the power of ten that they are times, without the sign; whether one rounding makes that the number in a
    text that is not empty)."""
    first = _after_sign(text, start)
    value, at = _digits(text, first, stop, 0, 18)
    digits, scale = at - first, 0
    if at < stop and byte_at(text, at) == 46:
        point = at + 1
        value, at = _digits(text, point, stop, value, 18 - digits)
        digits, scale = digits + at - point, point - at
    if digits > 0 and at + 1 < stop and (byte_at(text, at) == 101 or byte_at(text, at) == 69):
        sign = at + 1
        first = _after_sign(text, sign)
        power, at = _digits(text, first, stop, 0, 4)
        scale += -power if byte_at(text, sign) == 45 else power
        digits = at - first
    return value, scale, at == stop and digits > 0 and value <= 9007199254740992 and -22 <= scale <= 22


@compiled(
    [
        "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], Array(uint8, 1, 'C', readonly=True), "
        "Array(float64, 1, 'C', readonly=True), int64[::1], int64[::1], int64[:,::1], float64[:,::1], int64[:,:,::1], "
        "uint8[:,::1], int64[:,::1], int64, int64, int64)"
    ],
    before=teach,
)
def read_lines(
    text: Any, ends: Any, missing: Any, tens: Any, columns: Any, kinds: Any, wholes: Any, reals: Any, spans: Any,
    states: Any, about: Any, delimiter: Any, quote: Any, exactly: Any,
) -> Any:  # fmt: skip
    """1 when all lines are read; 0 where one has another number of fields, or quotes or control characters where the
    rules have none: what is written then means nothing.

    text: the lines, one after the other, and a byte more. ends: [rows], of the lines. missing: what stands for no
    value, beside nothing. columns: by field, the number of its column or -1; fields beyond it are not looked at, and
    with `exactly` there may be none. kinds: [columns]. quote: -1 where quotes are like any character.
    Out: wholes and reals [columns, rows], the values of their kinds that are PLAIN; spans [columns, rows, 2], where a
    TEXT or ODD value begins and ends; states [columns, rows]; about [columns, 4], how many are GONE and ODD, the
    smallest and the largest PLAIN whole number.
    """
    wanted, at, line = columns.shape[0], 0, raw(text)
    for row in range(ends.shape[0]):
        end, field, more = ends[row], 0, True
        while more:  # after a delimiter there is one field more, empty at the end of a line
            start, stop, at, doubled = _field(line, at, end, delimiter, quote)
            if at < 0:
                return 0
            column = columns[field] if field < wanted else -1
            if column >= 0:
                kind = kinds[column]
                spans[column, row, 0] = start
                spans[column, row, 1] = stop
                if _is_missing(line, start, stop - start, raw(missing), missing.shape[0]):
                    states[column, row] = GONE
                    about[column, 0] += 1
                elif kind == WHOLE:
                    number, read = whole_in(line, start, stop)
                    states[column, row] = PLAIN if read else ODD
                    if read:
                        wholes[column, row] = number
                        about[column, 2] = min(about[column, 2], number)
                        about[column, 3] = max(about[column, 3], number)
                    else:
                        about[column, 1] += 1
                elif kind == REAL:
                    number, scale, read = decimal_in(line, start, stop)
                    states[column, row] = PLAIN if read else ODD
                    if read:
                        real = number * tens[scale] if scale >= 0 else number / tens[-scale]
                        reals[column, row] = -real if byte_at(line, start) == 45 else real
                    else:
                        about[column, 1] += 1
                else:
                    states[column, row] = ODD if doubled else PLAIN
                    about[column, 1] += doubled
            field += 1
            more = at < end and (exactly != 0 or field < wanted)
            at += more
        if field < wanted or (exactly != 0 and field > wanted):
            return 0
        at = end
    return 1


@read_lines.otherwise
def _(*arguments: Any) -> int:
    """Python reads lines faster than it would fill these arrays: it is told to."""
    return 0
