"""The machine code of products of spread rows: a matrix whose rows are, table by table, rows of a few distinct ones.

    z = x w                x's columns of a table are rows[places]; so z = sum over tables of (rows w)[places]
    gradient of w = x' dz  = rows' s, where s has for each distinct row the sum of the rows of dz at its places
    gradient of rows = s w'

So a product is made once for each distinct row, not for each row of the batch, and x and its gradient are never made.

All arguments are addresses and numbers; spread_layout.py says what lies there. Rows of w, of its gradient and of z are
whole vectors. `room` is memory of the calling thread, in whole lines of the cache. most, widest: of the tables' counts
and widths.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from sparkflow_runtime.kernels.machine_build import OPTIONS, get64, pointer
from sparkflow_runtime.kernels.spread_layout import (
    COUNT,
    GRADIENT,
    LANES,
    LINE,
    PLACES,
    ROWS,
    SUMS,
    TURNED,
    WEIGHTS,
    WIDTH,
    WORDS,
)
from sparkflow_runtime.kernels.spread_tiles import (
    ACROSS,
    DEEP,
    NARROW,
    TILE,
    add,
    add_narrow,
    add_two,
    add_wide,
    move,
    multiply,
    sum_to,
    turn,
    turned,
)

BYTES = 4 * LANES
_PAIR = 2 * BYTES


@njit(**OPTIONS)
def _word(tables: int, table: int, which: int) -> int:
    return get64(tables + 8 * (WORDS * table + which))


@njit(**OPTIONS)
def _clear(into: int, bytes_: int) -> None:
    to = carray(pointer(into), (bytes_ // 4,), np.float32)
    for i in range(bytes_ // 4):
        to[i] = 0


@njit(**OPTIONS)
def _multiplied(tables: int, table: int, column: int, step: int, into: int) -> None:
    """The products of a table's distinct rows with one vector of columns."""
    count, width = _word(tables, table, COUNT), _word(tables, table, WIDTH)
    x, w = _word(tables, table, ROWS), _word(tables, table, WEIGHTS) + column
    tiles = (count + TILE - 1) // TILE
    for i in range(tiles):
        mine = count // tiles + (1 if i < count % tiles else 0)
        multiply(mine, x, 4 * width, width, w, step, into, BYTES)
        x += mine * 4 * width
        into += mine * BYTES


def forward(
    tables: int, count: int, height: int, step: int, first: int, last: int, z: int, more: int, room: int, most: int
) -> int:
    """The columns of z from vector `first` to vector `last`. step: of rows of w and of z. more: they are added."""
    one, other = room + height * BYTES, room + (height + most) * BYTES
    for column in range(first * BYTES, last * BYTES, BYTES):
        _clear(room, height * BYTES)
        for table in range(0, count - 1, 2):
            _multiplied(tables, table, column, step, one)
            _multiplied(tables, table + 1, column, step, other)
            a, b = _word(tables, table, PLACES), _word(tables, table + 1, PLACES)
            for i in range(height):
                add_two(room + i * BYTES, one + get64(a + 8 * i) * BYTES, other + get64(b + 8 * i) * BYTES)
        if count % 2:
            _multiplied(tables, count - 1, column, step, one)
            a = _word(tables, count - 1, PLACES)
            for i in range(height):
                add(room + i * BYTES, one + get64(a + 8 * i) * BYTES)
        for i in range(height):
            if more:
                add(z + column + i * step, room + i * BYTES)
            else:
                move(z + column + i * step, room + i * BYTES)
    return 0


def pack(dz: int, step: int, height: int, pairs: int, into: int) -> int:
    """dz by pairs of vectors of columns, one pair after the other."""
    for pair in range(pairs):
        for i in range(height):
            source = dz + i * step + pair * _PAIR
            move(into, source)
            move(into + BYTES, source + BYTES)
            into += _PAIR
    return 0


@njit(**OPTIONS)
def _turned_round(w: int, width: int, wide: int, step: int, into: int) -> None:
    """The table's rows of w as columns of [columns of w, wide]."""
    for row in range(0, width, TURNED):
        for column in range(0, step // 4, TURNED):
            at = w + row * step + 4 * column
            turn(at, step, width - row, into + 4 * (column * wide + row), 4 * wide)


@njit(**OPTIONS)
def _summed(places: int, height: int, dz: int, zeros: int, sums: int) -> None:
    """Of each distinct row the sum of dz's rows at its places, which are numbered as they appear first."""
    seen = 0
    for i in range(height):
        place = get64(places + 8 * i)
        to, new = sums + place * _PAIR, place == seen
        sum_to(to, zeros if new else to, dz + i * _PAIR)
        seen += 1 if new else 0


@njit(**OPTIONS)
def _add_to_rows(sums: int, count: int, w: int, wide: int, into: int) -> None:
    """into [count, wide] += sums times the two vectors of rows of w [columns, wide]."""
    at = 0
    while at < wide:
        x, y = sums, into + 4 * at
        narrow = wide - at < LANES
        tiles = (count + NARROW - 1) // NARROW if narrow else (count + TILE - 1) // TILE
        for i in range(tiles):
            mine = count // tiles + (1 if i < count % tiles else 0)
            if narrow:
                add_narrow(mine, x, _PAIR, 2 * LANES, w + 4 * at, 4 * wide, y, 4 * wide)
            else:
                add_wide(mine, x, _PAIR, 2 * LANES, w + 4 * at, 4 * wide, y, 4 * wide)
            x += mine * _PAIR
            y += mine * 4 * wide
        at += TURNED if narrow else LANES


def backward(
    tables: int, first: int, last: int, height: int, packed: int, step: int, room: int, most: int, widest: int
) -> int:
    """The sums and gradients of the tables from `first` to `last`. packed: dz as `pack` has it. step: of rows of w and
    of its gradient; widest: in whole turned blocks."""
    zeros, sums = room, room + (_PAIR + LINE - 1) // LINE * LINE
    around = sums + most * _PAIR
    wider = around + step * widest
    _clear(zeros, _PAIR)
    for table in range(first, last):
        count, width, rows = _word(tables, table, COUNT), _word(tables, table, WIDTH), _word(tables, table, ROWS)
        into, wide = _word(tables, table, SUMS), (width + TURNED - 1) // TURNED * TURNED
        made, tiles = into if wide == width else wider, (width + DEEP - 1) // DEEP
        if into:
            _turned_round(_word(tables, table, WEIGHTS), width, wide, step, around)
            _clear(made, count * 4 * wide)
        for pair in range(step // _PAIR):
            _summed(_word(tables, table, PLACES), height, packed + pair * height * _PAIR, zeros, sums)
            out = _word(tables, table, GRADIENT) + pair * _PAIR
            for part in range(0, _PAIR, ACROSS):
                at = 0
                for i in range(tiles):
                    deep = width // tiles + (1 if i < width % tiles else 0)
                    turned(deep, rows + 4 * at, 4 * width, sums + part, _PAIR, count, out + at * step + part, step)
                    at += deep
            if into:
                _add_to_rows(sums, count, around + pair * 2 * LANES * 4 * wide, wide, made)
        if into and made != into:
            to, of = carray(pointer(into), (count, width), np.float32), carray(pointer(made), (count, wide), np.float32)
            for i in range(count):
                for k in range(width):
                    to[i, k] = of[i, k]
    return 0
