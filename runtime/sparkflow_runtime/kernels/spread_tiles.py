"""The tiles of products of spread rows (spread_native.py), in LLVM's terms: sums that stay in registers.

Addresses and steps are in bytes. The loops of the two kinds of tiles multiply a number, in all lanes, by a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from sparkflow_runtime.kernels.conv_direct_layout import lanes
from sparkflow_runtime.kernels.machine_build import OPTIONS
from sparkflow_runtime.kernels.spread_layout import LANES, LINE, TURNED
from sparkflow_runtime.kernels.vectors import I32, I64, Vectors, neighbours, plus

# Processors with vectors of 16 lanes have 32 registers of these; others have half as many, of half of that.
WIDE = lanes() == 16
TILE, NARROW = (14, 14) if WIDE else (6, 12)  # rows of a tile: their sums fit into the registers beside what is added
DEEP = 8 if WIDE else 6  # the same of pairs of registers
ACROSS = 2 * 4 * lanes()  # bytes of such a pair


def _tile(count: int, wide: int, more: bool) -> Any:
    """y = for `count` rows of x, `step` apart, their product with the vector of `wide` columns at w, whose rows are
    `w_step` apart; more: y +="""
    vector = Vectors(wide)

    def typed(typing: Any, x: Any, step: Any, length: Any, w: Any, w_step: Any, y: Any, y_step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, step, length, w, w_step, y, y_step = args
            sums = [cgutils.alloca_once(builder, vector.kind) for _ in range(count)]
            places = [plus(builder, y, y_step, i) for i in range(count)]
            for place, one in zip(places, sums):
                builder.store(vector.load(builder, place) if more else vector.zero, one)
            with cgutils.for_range(builder, length) as number:
                here = neighbours(builder, plus(builder, x, number.index, 4), step, count)
                factor = vector.load(builder, builder.add(w, builder.mul(number.index, w_step)))
                for address, one in zip(here, sums):
                    vector.multiply_add(builder, vector.everywhere(builder, address), factor, one)
            for place, one in zip(places, sums):
                vector.store(builder, builder.load(one), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return intrinsic(typed)


def _turned_tile(count: int) -> Any:
    """out = for `count` neighbouring columns of x their product with two registers of columns of y (`ACROSS` bytes),
    both over all rows."""
    vector = Vectors(lanes())

    def typed(typing: Any, x: Any, step: Any, y: Any, y_step: Any, rows: Any, out: Any, out_step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, step, y, y_step, rows, out, out_step = args
            sums = [[cgutils.alloca_once(builder, vector.kind) for _ in range(2)] for _ in range(count)]
            for pair in sums:
                for one in pair:
                    builder.store(vector.zero, one)
            with cgutils.for_range(builder, rows) as row:
                here = builder.add(x, builder.mul(row.index, step))
                there = builder.add(y, builder.mul(row.index, y_step))
                factors = [vector.load(builder, builder.add(there, I64(vector.bytes * v))) for v in range(2)]
                for i, pair in enumerate(sums):
                    value = vector.everywhere(builder, builder.add(here, I64(4 * i)))
                    for factor, one in zip(factors, pair):
                        vector.multiply_add(builder, value, factor, one)
            for i, pair in enumerate(sums):
                for v, one in enumerate(pair):
                    place = builder.add(plus(builder, out, out_step, i), I64(vector.bytes * v))
                    vector.store(builder, builder.load(one), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return intrinsic(typed)


def _sum_at(builder: Any, vectors: int, to: Any, *addresses: Any) -> None:
    """So many vectors from `to` on become the sums of those from the addresses on."""
    vector = Vectors(LANES)
    for at in (I64(LINE * v) for v in range(vectors)):
        first, *others = (vector.load(builder, builder.add(a, at)) for a in addresses)
        for other in others:
            first = builder.fadd(first, other)
        vector.store(builder, first, builder.add(to, at))


def _adding(typing: Any, z: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _sum_at(builder, 1, args[0], *args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2), generate


def _adding_two(typing: Any, z: Any, p: Any, q: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _sum_at(builder, 1, args[0], *args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


def _summing(typing: Any, to: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _sum_at(builder, 2, *args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


def _moving(typing: Any, to: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = Vectors(LANES)
        vector.store(builder, vector.load(builder, args[1]), args[0])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2), generate


def _turning(typing: Any, w: Any, step: Any, left: Any, to: Any, to_step: Any) -> Any:
    """Rows of a block become columns. left: rows that there are, if fewer than the block has; what stands for the
    others is any numbers."""
    vector = Vectors(TURNED)
    half = TURNED // 2
    picks = [
        ir.Constant(ir.VectorType(I32, TURNED), [i for k in range(half) for i in (k + at, k + at + TURNED)])
        for at in (0, half)
    ]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        w, step, left, to, to_step = args
        last = builder.sub(left, I64(1))
        rows = []
        for i in range(TURNED):
            there = builder.icmp_signed("<", I64(i), left)
            rows.append(vector.load(builder, builder.add(w, builder.mul(builder.select(there, I64(i), last), step))))
        for _ in range(3):  # each time, rows that are half the block apart are woven into one another
            pairs = zip(rows[:half], rows[half:])
            rows = [builder.shuffle_vector(a, b, pick) for a, b in pairs for pick in picks]
        for i, row in enumerate(rows):
            vector.store(builder, row, plus(builder, to, to_step, i))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def _by_count(make: Callable[[int], Any], most: int) -> Any:
    """A function that takes how many rows or columns there are, and then what a tile takes."""
    names = ", ".join(f"a{i}" for i in range(7))
    space: dict[str, Any] = {f"tile{n}": make(n) for n in range(1, most + 1)}
    cases = "".join(f"    if count == {n}:\n        tile{n}({names})\n" for n in range(1, most + 1))
    exec(f"def choose(count, {names}):\n{cases}", space)  # our own text: numbered names only
    return njit(**OPTIONS)(space["choose"])


multiply = _by_count(lambda count: _tile(count, LANES, False), TILE)
add_wide = _by_count(lambda count: _tile(count, LANES, True), TILE)
add_narrow = _by_count(lambda count: _tile(count, TURNED, True), NARROW)
turned = _by_count(_turned_tile, DEEP)
add: Any = intrinsic(_adding)
add_two: Any = intrinsic(_adding_two)
sum_to: Any = intrinsic(_summing)
move: Any = intrinsic(_moving)
turn: Any = intrinsic(_turning)
