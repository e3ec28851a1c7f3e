"""The hot loop of reading lines of comma-separated values: where each value is, and those numbers that it can read.

Integers up to 2**53 and powers of ten up to 22 are numbers of float64; a multiplication or division of two such rounds
once, as reading the text does (Clinger 1990). Other numbers are left to Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

WHOLE, REAL, TEXT = range(3)  # kinds of columns
PLAIN, GONE, ODD = range(3)  # what a value is: read, missing, or left to Python
TENS = 10.0 ** np.arange(23)
TENS.flags.writeable = False


@compiled(
    [
        "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], Array(uint8, 1, 'C', readonly=True), "
        "Array(float64, 1, 'C', readonly=True), int64[::1], int64[::1], int64[:,::1], float64[:,::1], int64[:,:,::1], "
        "uint8[:,::1], int64[:,::1], int64, int64, int64)"
    ]
)
def read_lines(
    text: Any, ends: Any, missing: Any, tens: Any, columns: Any, kinds: Any, wholes: Any, reals: Any, spans: Any,
    states: Any, about: Any, delimiter: Any, quote: Any, exactly: Any,
) -> Any:  # fmt: skip
    """1 when all lines are read; 0 where one has another number of fields, or quotes or control characters where the
    rules have none: what is written then means nothing.

    text: the lines, one after the other, and a byte more. ends: [rows], of the lines. missing: what stands for no
    value, beside nothing. columns: by field, the number of its column or -1; of fields beyond it none are wanted, and
    with `exactly` there may be none. kinds: [columns]. quote: -1 where quotes are like any character.
    Out: wholes and reals [columns, rows], the values of their kinds that are PLAIN; spans [columns, rows, 2], where a
    TEXT or ODD value begins and ends; states [columns, rows]; about [columns, 4], how many are GONE and ODD, the
    smallest and the largest PLAIN whole number.
    """
    wanted = columns.shape[0]
    at = 0
    for row in range(ends.shape[0]):
        end = ends[row]
        field = 0
        while True:
            start, stop, doubled = at, at, False
            if at < end and np.int64(text[at]) == quote:
                start = at = at + 1
                while True:
                    while at < end and np.int64(text[at]) != quote and text[at] != 0:
                        at += 1
                    if at >= end or text[at] == 0:
                        return 0
                    if at + 1 < end and np.int64(text[at + 1]) == quote:
                        doubled = True
                        at += 2
                    else:
                        break
                stop = at
                at += 1
                if at < end and np.int64(text[at]) != delimiter:
                    return 0
            else:
                while at < end:
                    c = np.int64(text[at])
                    if c == delimiter:
                        break
                    if c == quote or c == 10 or c == 13 or c == 0:
                        return 0
                    at += 1
                stop = at
            column = columns[field] if field < wanted else -1
            if column >= 0:
                kind, size = kinds[column], stop - start
                state = 0
                gone = size == 0 or size == missing.shape[0]
                if gone and size > 0:
                    for i in range(size):
                        if text[start + i] != missing[i]:
                            gone = False
                            break
                if gone:
                    state = 1
                elif kind == 2:
                    if doubled:
                        state = 2
                else:
                    i = start
                    negative = text[i] == 45
                    if negative or text[i] == 43:
                        i += 1
                    value, digits, scale = np.int64(0), 0, 0
                    while i < stop and 48 <= text[i] <= 57 and digits < 18:
                        value = value * 10 + (np.int64(text[i]) - 48)
                        digits += 1
                        i += 1
                    if kind == 0:
                        if i < stop or digits == 0:
                            state = 2
                        else:
                            value = -value if negative else value
                            wholes[column, row] = value
                            about[column, 2] = min(about[column, 2], value)
                            about[column, 3] = max(about[column, 3], value)
                    else:
                        if i < stop and text[i] == 46:
                            i += 1
                            while i < stop and 48 <= text[i] <= 57 and digits < 18:
                                value = value * 10 + (np.int64(text[i]) - 48)
                                digits += 1
                                scale -= 1
                                i += 1
                        if digits > 0 and i + 1 < stop and (text[i] == 101 or text[i] == 69):
                            i += 1
                            down = text[i] == 45
                            if down or text[i] == 43:
                                i += 1
                            power, some = np.int64(0), 0
                            while i < stop and 48 <= text[i] <= 57 and some < 4:
                                power = power * 10 + (np.int64(text[i]) - 48)
                                some += 1
                                i += 1
                            scale += int(-power if down else power)
                            if some == 0:
                                digits = 0
                        if i < stop or digits == 0 or value > 9007199254740992 or scale > 22 or scale < -22:
                            state = 2
                        else:
                            real = np.float64(value)
                            real = real * tens[scale] if scale >= 0 else real / tens[-scale]
                            reals[column, row] = -real if negative else real
                states[column, row] = state
                spans[column, row, 0] = start
                spans[column, row, 1] = stop
                if state == 1:
                    about[column, 0] += 1
                elif state == 2:
                    about[column, 1] += 1
            field += 1
            if at >= end:
                break
            at += 1  # the delimiter; after it there is one field more, empty at the end of a line
            if at == end:
                column = columns[field] if field < wanted else -1
                if column >= 0:
                    states[column, row] = 1
                    spans[column, row, 0] = at
                    spans[column, row, 1] = at
                    about[column, 0] += 1
                field += 1
                break
        if field < wanted or (exactly != 0 and field > wanted):
            return 0
        at = end
    return 1


@read_lines.otherwise
def _(*arguments: Any) -> int:
    """Python reads lines faster than it would fill these arrays: it is told to."""
    return 0
