"""Numbers that strings name, read where Python holds the strings, and how often a byte is in each."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.csv_loops import TENS, decimal_in, teach, whole_in
from sparkflow_runtime.records.held_texts import PARTS, begin_at, each_text, length_at, over_texts
from sparkflow_runtime.records.native import byte_at

_OUT = "uint8[::1]"


def wholes(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int64 of each string, which of them were not read (bool)): what is not plain, or has 19 digits or more."""
    out, odd = np.zeros(texts.size, np.int64), np.empty(texts.size, bool)
    over_texts(read_wholes, texts, out, odd.view(np.uint8))
    return out, odd


def reals(texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(float64 of each string, which of them were not read): what is not plain, or takes more than one rounding."""
    out, odd = np.zeros(texts.size, np.float64), np.empty(texts.size, bool)
    over_texts(read_reals, texts, TENS, out, odd.view(np.uint8))
    return out, odd


def counts_of(texts: np.ndarray, byte: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each string (how many pieces it has between these bytes, how many of those are empty), int64."""
    pieces, empty = np.empty(texts.size, np.int64), np.empty(texts.size, np.int64)
    over_texts(count_pieces, texts, byte, pieces, empty)
    return pieces, empty


@compiled([f"int64(int64, int64, int64[::1], {_OUT})"], before=teach, nogil=False, parts=PARTS)
def read_wholes(objects: int, kind: int, out: Any, odd: Any) -> int:
    for i in range(len(out)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start = begin_at(objects, i)
        number, read = whole_in(start, 0, n)
        odd[i] = 0 if read else 1
        if read:
            out[i] = number
    return -1


@read_wholes.otherwise
def _(objects: int, kind: int, out: Any, odd: Any) -> int:
    """Python reads lists of strings faster than it would fill these arrays."""
    odd[:] = 1
    return -1


@compiled(
    [f"int64(int64, int64, Array(float64, 1, 'C', readonly=True), float64[::1], {_OUT})"],
    before=teach,
    nogil=False,
    parts=PARTS,
)
def read_reals(objects: int, kind: int, tens: Any, out: Any, odd: Any) -> int:
    for i in range(len(out)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start = begin_at(objects, i)
        number, scale, read = decimal_in(start, 0, n)
        odd[i] = 0 if read else 1
        if read:
            real = number * tens[scale] if scale >= 0 else number / tens[-scale]
            out[i] = -real if byte_at(start, 0) == 45 else real
    return -1


@read_reals.otherwise
def _(objects: int, kind: int, tens: Any, out: Any, odd: Any) -> int:
    odd[:] = 1
    return -1


@compiled(["int64(int64, int64, int64, int64[::1], int64[::1])"], before=teach, nogil=False, parts=PARTS)
def count_pieces(objects: int, kind: int, byte: int, pieces: Any, empty: Any) -> int:
    for i in range(len(pieces)):
        n = length_at(objects, i, kind)
        if n < 0:
            return i
        start, found, gone, before = begin_at(objects, i), 1, 0, -1
        for at in range(n):
            if byte_at(start, at) == byte:
                found += 1
                gone += before == at - 1
                before = at
        pieces[i] = found
        empty[i] = gone + (before == n - 1)
    return -1


@count_pieces.otherwise
def _(objects: int, kind: int, byte: int, pieces: Any, empty: Any) -> int:
    cut, found = bytes([byte]), np.empty(len(pieces), object)
    wrong = each_text(objects, found, lambda text: text.split(cut))
    if wrong < 0:
        pieces[:] = [*map(len, found)]
        empty[:] = [row.count(b"") for row in found]
    return wrong
