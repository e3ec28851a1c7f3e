"""The machine code of direct convolution: how a batch is cut into pieces, and those into tiles (conv_direct_tiles.py);
and the products of Winograd's way, which are made of the same tiles.

All arguments are addresses and numbers; conv_direct_layout.py says what lies there. `room` is memory of the calling
thread: the words of a piece, its padded input, and its output where that has not whole vectors of channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit
from numba.core import types
from numba.extending import intrinsic

from sparkflow_runtime.kernels.conv_direct_layout import (
    ALONG,
    AXIS,
    CELL,
    DEEP,
    FIRST,
    GROUP,
    HIGH,
    IMAGES,
    IMAGES_IN,
    LENGTH,
    MADE,
    OFFSETS,
    OUT,
    OUT_BYTES,
    PARTS,
    RUNS,
    SIZE,
    SPAN,
    STRIDE,
    TAPS,
    VECTORS,
    WIDE,
    X_D,
    X_H,
    X_N,
    X_W,
    Y_D,
    Y_FIRST,
    Y_H,
    Y_N,
    Y_W,
)
from sparkflow_runtime.kernels.conv_direct_tiles import (
    BYTES,
    LANES,
    TILE,
    forward_1,
    forward_2,
    gradient_1,
    gradient_2,
)
from sparkflow_runtime.kernels.machine_build import OPTIONS, get64, pointer
from sparkflow_runtime.kernels.vectors import I64, at

# ---------------------------------------------------------------------- pieces


def _setting(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], at(builder, args[0], I64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


_set64: Any = intrinsic(_setting)


@njit(**OPTIONS)
def _word(plan: int, which: int) -> int:
    return get64(plan + 8 * which)


@njit(**OPTIONS)
def _say(piece: int, which: int, value: int) -> None:
    _set64(piece + 8 * which, value)


@njit(**OPTIONS)
def _copy(into: int, source: int, count: int) -> None:
    to, of = carray(pointer(into), (count,), np.float32), carray(pointer(source), (count,), np.float32)
    for i in range(count):
        to[i] = of[i]


@njit(**OPTIONS)
def _clear(into: int, count: int) -> None:
    to = carray(pointer(into), (count,), np.float32)
    for i in range(count):
        to[i] = 0


@njit(**OPTIONS)
def _padded(
    x: int, plan: int, images: int, d0: int, h0: int, w0: int, deep: int, high: int, wide: int, into: int
) -> None:
    """Copy the cells from (d0, h0, w0) on, zeros where they lie outside."""
    cell, inner = _word(plan, CELL), _word(plan, SIZE + 2)
    left, right = max(0, -w0), max(0, w0 + wide - inner)
    middle = max(0, wide - left - right)
    left, right = min(left, wide), wide - middle - min(left, wide)
    for n in range(images):
        for d in range(d0, d0 + deep):
            for h in range(h0, h0 + high):
                if 0 <= d < _word(plan, SIZE) and 0 <= h < _word(plan, SIZE + 1):
                    row = ((n * _word(plan, SIZE) + d) * _word(plan, SIZE + 1) + h) * inner + w0 + left
                    _clear(into, left * cell // 4)
                    _copy(into + left * cell, x + row * cell, middle * cell // 4)
                    _clear(into + (left + middle) * cell, right * cell // 4)
                else:
                    _clear(into, wide * cell // 4)
                into += wide * cell


@njit(**OPTIONS)
def _begin(x: int, plan: int, number: int, room: int) -> int:
    """Write the words of a piece; returns where its input begins."""
    part, n0 = number % _word(plan, PARTS), number // _word(plan, PARTS) * _word(plan, GROUP)
    images = min(_word(plan, GROUP), _word(plan, IMAGES_IN) - n0)
    out_d, out_h, first_d, first_h = _word(plan, OUT), _word(plan, OUT + 1), 0, 0
    if _word(plan, AXIS) == 1:
        first_d = part * _word(plan, ALONG)
        out_d = min(_word(plan, ALONG), out_d - first_d)
    else:
        first_h = part * _word(plan, ALONG)
        out_h = min(_word(plan, ALONG), out_h - first_h)
    out_w, cell = _word(plan, OUT + 2), _word(plan, CELL)
    deep = (out_d - 1) * _word(plan, STRIDE) + _word(plan, SPAN)
    high = (out_h - 1) * _word(plan, STRIDE + 1) + _word(plan, SPAN + 1)
    wide = (out_w - 1) * _word(plan, STRIDE + 2) + _word(plan, SPAN + 2)
    d0 = _word(plan, FIRST) + first_d * _word(plan, STRIDE)
    h0 = _word(plan, FIRST + 1) + first_h * _word(plan, STRIDE + 1)
    w0 = _word(plan, FIRST + 2)
    all_d, all_h, all_w = _word(plan, SIZE), _word(plan, SIZE + 1), _word(plan, SIZE + 2)
    x += n0 * all_d * all_h * all_w * cell
    if d0 >= 0 and h0 >= 0 and w0 >= 0 and d0 + deep <= all_d and h0 + high <= all_h and w0 + wide <= all_w:
        met = x + ((d0 * all_h + h0) * all_w + w0) * cell
    else:
        met = room + 8 * (OFFSETS + _word(plan, RUNS))
        _padded(x, plan, images, d0, h0, w0, deep, high, wide, met)
        all_d, all_h, all_w = deep, high, wide
    _say(room, IMAGES, images)
    _say(room, DEEP, out_d)
    _say(room, HIGH, out_h)
    _say(room, WIDE, out_w)
    _say(room, X_N, all_d * all_h * all_w * cell)
    _say(room, X_D, all_h * all_w * cell * _word(plan, STRIDE))
    _say(room, X_H, all_w * cell * _word(plan, STRIDE + 1))
    _say(room, X_W, cell * _word(plan, STRIDE + 2))
    for axis in range(4):
        _say(room, Y_N + axis, _word(plan, OUT_BYTES + axis))
    begins = n0 * _word(plan, OUT_BYTES) + first_d * _word(plan, OUT_BYTES + 1) + first_h * _word(plan, OUT_BYTES + 2)
    _say(room, Y_FIRST, begins)
    _say(room, VECTORS, (_word(plan, MADE) + LANES - 1) // LANES)
    for run in range(_word(plan, RUNS)):
        tap = TAPS + 3 * run
        _say(
            room,
            OFFSETS + run,
            ((_word(plan, tap) * all_h + _word(plan, tap + 1)) * all_w + _word(plan, tap + 2)) * cell,
        )
    return met


@njit(**OPTIONS)
def _whole(plan: int, room: int) -> bool:
    return _word(plan, MADE) == _word(room, VECTORS) * LANES


@njit(**OPTIONS)
def _in_room(plan: int, room: int, y: int, made: int, back: bool) -> None:
    """Let the piece's output lie at `made`, with whole vectors of channels; back: copy it to y, else from y."""
    count, bytes_ = _word(plan, MADE), _word(room, VECTORS) * BYTES
    for n in range(_word(room, IMAGES)):
        for d in range(_word(room, DEEP)):
            for h in range(_word(room, HIGH)):
                there = y + n * _word(plan, OUT_BYTES) + d * _word(plan, OUT_BYTES + 1) + h * _word(plan, OUT_BYTES + 2)
                for _ in range(_word(room, WIDE)):
                    if back:
                        _copy(there, made, count)
                    else:
                        _copy(made, there, count)
                        _clear(made + 4 * count, bytes_ // 4 - count)
                    made += bytes_
                    there += _word(plan, OUT_BYTES + 3)
    if not back:
        _packed_strides(room, bytes_)


@njit(**OPTIONS)
def _packed_strides(room: int, bytes_: int) -> None:
    _say(room, Y_W, bytes_)
    _say(room, Y_H, bytes_ * _word(room, WIDE))
    _say(room, Y_D, bytes_ * _word(room, WIDE) * _word(room, HIGH))
    _say(room, Y_N, bytes_ * _word(room, WIDE) * _word(room, HIGH) * _word(room, DEEP))


@njit(**OPTIONS)
def _row(x: int, w: int, y: int, plan: int, room: int, single: bool) -> None:
    """The outputs of one row, tile by tile, all about as long."""
    step, y_step, table, wide = _word(room, X_W), _word(room, Y_W), room + 8 * OFFSETS, _word(room, WIDE)
    tiles = (wide + TILE - 1) // TILE
    for i in range(tiles):
        count = wide // tiles + (1 if i < wide % tiles else 0)
        if single:
            forward_1(count, x, step, table, _word(plan, RUNS), _word(plan, LENGTH), w, BYTES, y, y_step)
        else:
            forward_2(count, x, step, table, _word(plan, RUNS), _word(plan, LENGTH), w, 2 * BYTES, y, y_step)
        x += count * step
        y += count * y_step


@njit(**OPTIONS)
def _weights(x: int, dy: int, out: int, plan: int, room: int, run: int, single: bool) -> None:
    """The weights of one run, tile by tile."""
    length, out_step = _word(plan, LENGTH), _word(room, VECTORS) * BYTES
    tiles = (length + TILE - 1) // TILE
    x += _word(room, OFFSETS + run)
    out += run * length * out_step
    for i in range(tiles):
        count = length // tiles + (1 if i < length % tiles else 0)
        if single:
            gradient_1(count, x, dy, room, out, out_step)
        else:
            gradient_2(count, x, dy, room, out, out_step)
        x += 4 * count
        out += count * out_step


# ---------------------------------------------------------------------- what is called


def forward(x: int, w: int, y: int, plan: int, first: int, last: int, room: int, made: int) -> int:
    """The outputs of the pieces from `first` to `last`. w: [two vectors of channels (at the end perhaps one), weights,
    channels]. made: where in the room an output goes first that has not whole vectors."""
    for number in range(first, last):
        met = _begin(x, plan, number, room)
        mine = y + _word(room, Y_FIRST)
        into, whole = mine, _whole(plan, room)
        if not whole:
            into = made
            _packed_strides(room, _word(room, VECTORS) * BYTES)
        weights, vectors, done = w, _word(room, VECTORS), 0
        while done < vectors:
            taken = min(2, vectors - done)
            for n in range(_word(room, IMAGES)):
                for d in range(_word(room, DEEP)):
                    for h in range(_word(room, HIGH)):
                        here = met + n * _word(room, X_N) + d * _word(room, X_D) + h * _word(room, X_H)
                        there = into + n * _word(room, Y_N) + d * _word(room, Y_D) + h * _word(room, Y_H)
                        _row(here, weights, there + done * BYTES, plan, room, taken == 1)
            weights += _word(plan, RUNS) * _word(plan, LENGTH) * taken * BYTES
            done += taken
        if not whole:
            _in_room(plan, room, mine, made, True)
    return 0


def gradient(x: int, dy: int, out: int, plan: int, first: int, last: int, room: int, made: int) -> int:
    """Add to the gradient of the filter, [weights, whole vectors of channels], what the pieces give."""
    for number in range(first, last):
        met = _begin(x, plan, number, room)
        given = dy + _word(room, Y_FIRST)
        if not _whole(plan, room):
            _in_room(plan, room, given, made, False)
            given = made
        for d in range(_word(room, DEEP)):
            here, there = met + d * _word(room, X_D), given + d * _word(room, Y_D)
            for done in range(0, _word(room, VECTORS), 2):
                single = _word(room, VECTORS) - done == 1
                for run in range(_word(plan, RUNS)):
                    _weights(here, there + done * BYTES, out + done * BYTES, plan, room, run, single)
    return 0


def products(
    v: int,
    v_matrix: int,
    v_row: int,
    u: int,
    u_matrix: int,
    m: int,
    m_matrix: int,
    m_row: int,
    rows: int,
    takes: int,
    made: int,
    offset: int,
) -> int:
    """m = v u for each of the 36 matrices of Winograd's way: v [rows, takes], u [takes, made], m [rows, made]. Matrices
    lie `*_matrix` bytes apart, rows of v and m `*_row`. made: whole vectors. offset: of the one run, as in a piece."""
    tiles = (rows + TILE - 1) // TILE
    for q in range(36):
        for done in range(0, 4 * made, 2 * BYTES):
            weights, x, y = u + q * u_matrix + done, v + q * v_matrix, m + q * m_matrix + done
            for i in range(tiles):
                count = rows // tiles + (1 if i < rows % tiles else 0)
                if 4 * made - done == BYTES:
                    forward_1(count, x, v_row, offset, 1, takes, weights, 4 * made, y, m_row)
                else:
                    forward_2(count, x, v_row, offset, 1, takes, weights, 4 * made, y, m_row)
                x += count * v_row
                y += count * m_row
    return 0
