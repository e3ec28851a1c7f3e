"""The tiles of direct convolution, in LLVM's terms: outputs that stay in registers while all of their taps are added.

A tile is a few neighbours in a row (up to TILE) by one or two vectors of channels. Its inner loop multiplies numbers of
the input, one a neighbour, with a vector of weights: as many multiplications as the processor can do, and no matrix of
columns in between. numba cannot promise that the sums stay in registers, so they are not left to it.

Addresses and strides are in bytes; conv_direct_layout.py says what lies in a piece.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from sparkflow_runtime.kernels.conv_direct_layout import HIGH, IMAGES, WIDE, X_H, X_N, X_W, Y_H, Y_N, Y_W, lanes, tile
from sparkflow_runtime.kernels.machine_build import OPTIONS
from sparkflow_runtime.kernels.vectors import I64, Vectors, at, neighbours, plus

LANES, TILE = lanes(), tile()
_VECTOR = Vectors(LANES)
BYTES = _VECTOR.bytes


def _sums(builder: Any, rows: int, vectors: int) -> list[list[Any]]:
    return [[cgutils.alloca_once(builder, _VECTOR.kind) for _ in range(vectors)] for _ in range(rows)]


def _forward_tile(count: int, vectors: int) -> Any:
    """y = for `count` neighbours of a row the sums over `runs` runs of `length` numbers side by side; the weights of
    all runs lie one after the other, `w_step` apart."""

    def typed(
        typing: Any, x: Any, step: Any, table: Any, runs: Any, length: Any, w: Any, w_step: Any, y: Any, y_step: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, step, table, runs, length, w, w_step, y, y_step = args
            sums = _sums(builder, count, vectors)
            for one in chain(*sums):
                builder.store(_VECTOR.zero, one)
            with cgutils.for_range(builder, runs) as run:
                offset = builder.load(at(builder, plus(builder, table, run.index, 8), I64))
                begin = builder.add(x, offset)
                weights = builder.add(w, builder.mul(builder.mul(run.index, length), w_step))
                with cgutils.for_range(builder, length) as number:
                    here = neighbours(builder, plus(builder, begin, number.index, 4), step, count)
                    there = builder.add(weights, builder.mul(number.index, w_step))
                    factors = [_VECTOR.load(builder, builder.add(there, I64(BYTES * v))) for v in range(vectors)]
                    for address, row in zip(here, sums):
                        value = _VECTOR.everywhere(builder, address)
                        for factor, one in zip(factors, row):
                            _VECTOR.multiply_add(builder, value, factor, one)
            for i, row in enumerate(sums):
                for v, one in enumerate(row):
                    place = builder.add(plus(builder, y, y_step, i), I64(BYTES * v))
                    _VECTOR.store(builder, builder.load(one), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return intrinsic(typed)


def _gradient_tile(count: int, vectors: int) -> Any:
    """out += for `count` weights side by side the sums over the outputs at one depth of all images of a piece."""

    def typed(typing: Any, x: Any, y: Any, piece: Any, out: Any, out_step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, y, piece, out, out_step = args
            x_image, x_row, x_step, y_image, y_row, y_step, images, high, wide = (
                builder.load(at(builder, builder.add(piece, I64(8 * word)), I64))
                for word in (X_N, X_H, X_W, Y_N, Y_H, Y_W, IMAGES, HIGH, WIDE)
            )
            sums = _sums(builder, count, vectors)
            places = [
                [builder.add(plus(builder, out, out_step, i), I64(BYTES * v)) for v in range(vectors)]
                for i in range(count)
            ]
            for place, one in zip(chain(*places), chain(*sums)):
                builder.store(_VECTOR.load(builder, place), one)
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
                    factors = [_VECTOR.load(builder, builder.add(mine, I64(BYTES * v))) for v in range(vectors)]
                    first = builder.add(here, builder.mul(column.index, x_step))
                    for i, of_weight in enumerate(sums):
                        value = _VECTOR.everywhere(builder, builder.add(first, I64(4 * i)))
                        for factor, one in zip(factors, of_weight):
                            _VECTOR.multiply_add(builder, value, factor, one)
            for place, one in zip(chain(*places), chain(*sums)):
                _VECTOR.store(builder, builder.load(one), place)
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


forward_1, forward_2 = (_by_count(_forward_tile, vectors, 9) for vectors in (1, 2))
gradient_1, gradient_2 = (_by_count(_gradient_tile, vectors, 5) for vectors in (1, 2))
