"""The maps of Winograd's way as LLVM's instructions: the channels of a vector go through them in registers, once.

Left to the compiler, each map along an axis is a pass over the first cache with as many stores as sums: two to three
times as slow (measured). The maps themselves are those of conv_tiles.py, applied to vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_I32, _I64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_READ, _KEEP, _DATA = _I32(0), _I32(3), _I32(1)
_PREFETCH = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), _I32, _I32, _I32])


class _Vector:
    """A value that emits what is computed with it; sums and products are rounded one by one, as numpy's."""

    __array_ufunc__ = None  # a numpy number times this is left to this

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    def __add__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, factor: Any) -> _Vector:
        kind = self.value.type
        return _Vector(self.builder, self.builder.fmul(self.value, ir.Constant(kind, [float(factor)] * kind.count)))

    __rmul__ = __mul__


def tile_map(one: Callable[..., Sequence[Any]], edge: int, lanes: int) -> Any:
    """numba's function (x, at, row, cell, y, to, to_row, to_cell, far): `one` along both axes of edge x edge cells, the
    second axis first. A cell is `lanes` numbers side by side, the first one at x's number `at`; the results go to y.
    All are read before one is written. far: how far behind each cell lies one that is wanted soon; 0 for none."""
    emit = _emission(one, edge, ir.VectorType(_FLOAT, lanes))

    def typed(
        typing: Any, x: Any, at: Any, row: Any, cell: Any, y: Any, to: Any, to_row: Any, to_cell: Any, far: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *places, far = args
            return emit(context, builder, signature.args, places, far, lambda made: made)

        numbers = [types.int64] * 3
        return types.void(x, *numbers, y, *numbers, types.int64), generate

    return intrinsic(typed)


def tile_map_biased(one: Callable[..., Sequence[Any]], edge: int, lanes: int, relu: bool) -> Any:
    """The same, and then the bias of each channel is added, from the bias' number `bias_at` on. relu: what is not above
    0 becomes 0."""
    vector = ir.VectorType(_FLOAT, lanes)
    emit = _emission(one, edge, vector)

    def typed(
        typing: Any,
        x: Any,
        at: Any,
        row: Any,
        cell: Any,
        y: Any,
        to: Any,
        to_row: Any,
        to_cell: Any,
        bias: Any,
        bias_at: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *places, bias, bias_at = args
            first = builder.gep(context.make_array(signature.args[8])(context, builder, bias).data, [bias_at])
            added, zero = _load(builder, first, vector), ir.Constant(vector, [0.0] * lanes)

            def finish(made: _Vector) -> _Vector:
                made = made + added
                if not relu:
                    return made
                below = builder.fcmp_ordered("<=", made.value, zero)  # not so for NaN, which stays
                return _Vector(builder, builder.select(below, zero, made.value))

            return emit(context, builder, signature.args, places, None, finish)

        numbers = [types.int64] * 3
        return types.void(x, *numbers, y, *numbers, bias, types.int64), generate

    return intrinsic(typed)


def _load(builder: Any, address: Any, vector: Any) -> _Vector:
    value = builder.load(builder.bitcast(address, vector.as_pointer()))
    value.align = 4
    return _Vector(builder, value)


def _emission(one: Callable[..., Sequence[Any]], edge: int, vector: Any) -> Callable[..., Any]:
    def emit(
        context: Any, builder: Any, kinds: Any, places: Any, far: Any, finish: Callable[[_Vector], _Vector]
    ) -> Any:
        x, at, row, cell, y, to, to_row, to_cell = places

        def place(first: Any, i: int, row: Any, j: int, cell: Any) -> Any:
            return builder.gep(first, [builder.add(builder.mul(row, _I64(i)), builder.mul(cell, _I64(j)))])

        source = builder.gep(context.make_array(kinds[0])(context, builder, x).data, [at])
        target = builder.gep(context.make_array(kinds[4])(context, builder, y).data, [to])
        cells = [[place(source, i, row, j, cell) for j in range(edge)] for i in range(edge)]
        if far is not None:
            with builder.if_then(builder.icmp_signed("!=", far, _I64(0))):
                byte = ir.IntType(8).as_pointer()
                fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], _PREFETCH)
                for address in chain(*cells):
                    builder.call(fetch, [builder.bitcast(builder.gep(address, [far]), byte), _READ, _KEEP, _DATA])
        rows = [one(*[_load(builder, address, vector) for address in of_row]) for of_row in cells]
        for j, column in enumerate(zip(*rows)):
            for i, made in enumerate(one(*column)):
                there = builder.bitcast(place(target, i, to_row, j, to_cell), vector.as_pointer())
                builder.store(finish(made).value, there).align = 4
        return context.get_dummy_value()

    return emit


def vector_copy(lanes: int) -> Any:
    """numba's function (x, at, y, to): as many numbers from x's number `at` on to y's number `to`."""
    vector = ir.VectorType(_FLOAT, lanes)

    def typed(typing: Any, x: Any, at: Any, y: Any, to: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x, at, y, to = args
            source = builder.gep(context.make_array(signature.args[0])(context, builder, x).data, [at])
            target = builder.gep(context.make_array(signature.args[2])(context, builder, y).data, [to])
            value = _load(builder, source, vector).value
            builder.store(value, builder.bitcast(target, vector.as_pointer())).align = 4
            return context.get_dummy_value()

        return types.void(x, types.int64, y, types.int64), generate

    return intrinsic(typed)
