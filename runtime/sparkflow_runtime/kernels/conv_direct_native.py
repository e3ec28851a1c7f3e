"""The machine code of direct convolution: tiles of outputs that stay in registers while all of their taps are added.

A tile is a few neighbours in a row (up to TILE) by one or two vectors of channels. Its inner loop multiplies numbers of
the input, one a neighbour, with a vector of weights: as many multiplications as the processor can do, and no matrix of
columns in between. numba cannot promise that the sums stay in registers, so the tiles are written here in LLVM's terms.

All arguments are addresses and numbers; conv_direct_layout.py says what lies there. `room` is memory of the calling
thread: the words of a piece, its padded input, and its output where that has not whole vectors of channels.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit
from numba.core import cgutils, types
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
    lanes,
    tile,
)
from sparkflow_runtime.kernels.machine_build import OPTIONS, get64, pointer

LANES, TILE = lanes(), tile()
_I64, _I32, _F32 = ir.IntType(64), ir.IntType(32), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)
_NONE = ir.Constant(_VECTOR, None)
_BYTES = 4 * LANES

# ---------------------------------------------------------------------- tiles, in LLVM's terms


def _at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _vector(builder: Any, address: Any) -> Any:
    loaded = builder.load(_at(builder, address, _VECTOR))
    loaded.align = 4
    return loaded


def _keep_vector(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _at(builder, address, _VECTOR)).align = 4


def _everywhere(builder: Any, address: Any) -> Any:
    """The number at an address, in all lanes."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, builder.load(_at(builder, address, _F32)), _I32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_I32, LANES), None))


def _multiply_add(builder: Any, a: Any, b: Any, sums: Any) -> None:
    """sums += a * b, rounded once."""
    name, module = f"llvm.fma.v{LANES}f32", builder.module
    known = module.globals.get(name) or ir.Function(module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), name)
    builder.store(builder.call(known, [a, b, builder.load(sums)]), sums)


def _sums(builder: Any, rows: int, vectors: int) -> list[list[Any]]:
    return [[cgutils.alloca_once(builder, _VECTOR) for _ in range(vectors)] for _ in range(rows)]


def _plus(builder: Any, address: Any, count: Any, by: int) -> Any:
    return builder.add(address, builder.mul(count, _I64(by)))


def _neighbours(builder: Any, first: Any, step: Any, count: int) -> list[Any]:
    """first + i * step, where two of three are an addition of their own: there are not registers enough for all."""
    twice = builder.mul(step, _I64(2))
    found: list[Any] = []
    for i in range(count):
        third = _plus(builder, first, step, i - i % 3) if i % 3 == 0 else found[-(i % 3)]
        found.append(third if i % 3 == 0 else builder.add(third, step if i % 3 == 1 else twice))
    return found


def _forward_tile(count: int, vectors: int) -> Any:
    """y = for `count` neighbours of a row the sums over `runs` runs of `length` numbers side by side; the weights of
    all runs lie one after the other."""

    def typed(typing: Any, x: Any, step: Any, table: Any, runs: Any, length: Any, w: Any, y: Any, y_step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, step, table, runs, length, w, y, y_step = args
            sums = _sums(builder, count, vectors)
            for one in chain(*sums):
                builder.store(_NONE, one)
            with cgutils.for_range(builder, runs) as run:
                offset = builder.load(_at(builder, _plus(builder, table, run.index, 8), _I64))
                begin = builder.add(x, offset)
                weights = _plus(builder, w, builder.mul(run.index, length), _BYTES * vectors)
                with cgutils.for_range(builder, length) as number:
                    here = _neighbours(builder, _plus(builder, begin, number.index, 4), step, count)
                    there = _plus(builder, weights, number.index, _BYTES * vectors)
                    factors = [_vector(builder, builder.add(there, _I64(_BYTES * v))) for v in range(vectors)]
                    for address, row in zip(here, sums):
                        value = _everywhere(builder, address)
                        for factor, one in zip(factors, row):
                            _multiply_add(builder, value, factor, one)
            for i, row in enumerate(sums):
                for v, one in enumerate(row):
                    place = builder.add(_plus(builder, y, y_step, i), _I64(_BYTES * v))
                    _keep_vector(builder, builder.load(one), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), generate

    return intrinsic(typed)


def _gradient_tile(count: int, vectors: int) -> Any:
    """out += for `count` weights side by side the sums over the outputs at one depth of all images of a piece."""

    def typed(typing: Any, x: Any, y: Any, piece: Any, out: Any, out_step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, y, piece, out, out_step = args
            x_image, x_row, x_step, y_image, y_row, y_step, images, high, wide = (
                builder.load(_at(builder, builder.add(piece, _I64(8 * word)), _I64))
                for word in (X_N, X_H, X_W, Y_N, Y_H, Y_W, IMAGES, HIGH, WIDE)
            )
            sums = _sums(builder, count, vectors)
            places = [
                [builder.add(_plus(builder, out, out_step, i), _I64(_BYTES * v)) for v in range(vectors)]
                for i in range(count)
            ]
            for place, one in zip(chain(*places), chain(*sums)):
                builder.store(_vector(builder, place), one)
            with (
                cgutils.for_range(builder, images) as image,
                cgutils.for_range(builder, high) as row,
            ):
                here = builder.add(x, builder.mul(image.index, x_image))
                here = builder.add(here, builder.mul(row.index, x_row))
                there = builder.add(y, builder.mul(image.index, y_image))
                there = builder.add(there, builder.mul(row.index, y_row))
                with cgutils.for_range(builder, wide) as column:
                    mine = builder.add(there, builder.mul(column.index, y_step))
                    factors = [_vector(builder, builder.add(mine, _I64(_BYTES * v))) for v in range(vectors)]
                    first = builder.add(here, builder.mul(column.index, x_step))
                    for i, of_weight in enumerate(sums):
                        value = _everywhere(builder, builder.add(first, _I64(4 * i)))
                        for factor, one in zip(factors, of_weight):
                            _multiply_add(builder, value, factor, one)
            for place, one in zip(chain(*places), chain(*sums)):
                _keep_vector(builder, builder.load(one), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return intrinsic(typed)


def _by_count(make: Callable[[int, int], Any], vectors: int, arguments: int) -> Any:
    """A function that takes how many neighbours there are, and then what a tile takes."""
    names = ", ".join(f"a{i}" for i in range(arguments))
    space: dict[str, Any] = {f"tile{n}": make(n, vectors) for n in range(1, TILE + 1)}
    cases = "".join(f"    if count == {n}:\n        tile{n}({names})\n" for n in range(1, TILE + 1))
    exec(f"def choose(count, {names}):\n{cases}", space)  # our own text: numbered names only
    return njit(**OPTIONS)(space["choose"])


_forward_1, _forward_2 = (_by_count(_forward_tile, vectors, 8) for vectors in (1, 2))
_gradient_1, _gradient_2 = (_by_count(_gradient_tile, vectors, 5) for vectors in (1, 2))

# ---------------------------------------------------------------------- pieces


def _setting(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _at(builder, args[0], _I64))
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
    at = n0 * _word(plan, OUT_BYTES) + first_d * _word(plan, OUT_BYTES + 1) + first_h * _word(plan, OUT_BYTES + 2)
    _say(room, Y_FIRST, at)
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
    count, bytes_ = _word(plan, MADE), _word(room, VECTORS) * _BYTES
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
            _forward_1(count, x, step, table, _word(plan, RUNS), _word(plan, LENGTH), w, y, y_step)
        else:
            _forward_2(count, x, step, table, _word(plan, RUNS), _word(plan, LENGTH), w, y, y_step)
        x += count * step
        y += count * y_step


@njit(**OPTIONS)
def _weights(x: int, dy: int, out: int, plan: int, room: int, run: int, single: bool) -> None:
    """The weights of one run, tile by tile."""
    length, out_step = _word(plan, LENGTH), _word(room, VECTORS) * _BYTES
    tiles = (length + TILE - 1) // TILE
    x += _word(room, OFFSETS + run)
    out += run * length * out_step
    for i in range(tiles):
        count = length // tiles + (1 if i < length % tiles else 0)
        if single:
            _gradient_1(count, x, dy, room, out, out_step)
        else:
            _gradient_2(count, x, dy, room, out, out_step)
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
            _packed_strides(room, _word(room, VECTORS) * _BYTES)
        weights, vectors, done = w, _word(room, VECTORS), 0
        while done < vectors:
            taken = min(2, vectors - done)
            for n in range(_word(room, IMAGES)):
                for d in range(_word(room, DEEP)):
                    for h in range(_word(room, HIGH)):
                        here = met + n * _word(room, X_N) + d * _word(room, X_D) + h * _word(room, X_H)
                        there = into + n * _word(room, Y_N) + d * _word(room, Y_D) + h * _word(room, Y_H)
                        _row(here, weights, there + done * _BYTES, plan, room, taken == 1)
            weights += _word(plan, RUNS) * _word(plan, LENGTH) * taken * _BYTES
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
                    _weights(here, there + done * _BYTES, out + done * _BYTES, plan, room, run, single)
    return 0
