"""What an output of a pool sees, as LLVM's instructions: its channels go through all taps of the window as vectors, in
registers, a few vectors' width at a time.

Left to the compiler, a loop over the few channels of a cell is scalar code or a pass over the first cache for each tap:
two to six times as slow (measured). A function is for some outputs of a row that see as many taps: where the first tap
that lies inside begins in the array, then for depth, height and width how many lie inside and how far from one to the
next, and where the first output lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I64 = ir.IntType(64)
_BYTES = 64  # of the widest vectors
_NUMBERS = 11  # that a function takes


@dataclass(frozen=True)
class _Lanes:
    """Vectors of some channels, from the number `first` of them on."""

    builder: Any
    number: Any  # LLVM's type of one
    count: int
    first: Any

    @property
    def kind(self) -> Any:
        return ir.VectorType(self.number, self.count)

    def all(self, value: Any) -> Any:
        """A constant number in each lane."""
        return ir.Constant(self.kind, [value] * self.count)

    def spread(self, value: Any) -> Any:
        nothing = ir.Constant(self.kind, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.count), None)
        return self.builder.shuffle_vector(one, nothing, places)

    def load(self, data: Any, at: Any) -> Any:
        value = self.builder.load(self._place(data, at))
        value.align = self._bytes
        return value

    def store(self, value: Any, data: Any, at: Any) -> None:
        self.builder.store(value, self._place(data, at)).align = self._bytes

    def register(self, value: Any) -> Any:
        held = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, held)
        return held

    def larger(self, new: Any, old: Any) -> Any:
        """The larger one; old where they are equal or one is NaN: one instruction."""
        return self.builder.select(self.builder.fcmp_ordered(">", new, old), new, old)

    def nan(self, value: Any) -> Any:
        """Which are."""
        return self.builder.fcmp_unordered("uno", value, value)

    @property
    def _bytes(self) -> int:
        return 4 if self.number == ir.FloatType() else 8

    def _place(self, data: Any, at: Any) -> Any:
        place = self.builder.gep(data, [self.builder.add(at, self.first)])
        return self.builder.bitcast(place, self.kind.as_pointer())


def _chunks(builder: Any, number: Any, channels: Any, body: Callable[[_Lanes], None]) -> None:
    """body for all channels: by vectors as wide as there are, what is left by narrower ones."""
    done: Any = _I64(0)
    widest = _BYTES // (4 if number == ir.FloatType() else 8)
    for count in (widest, widest // 2, widest // 4, 1):
        many = builder.sdiv(builder.sub(channels, done), _I64(count))
        with cgutils.for_range(builder, many) as loop:
            body(_Lanes(builder, number, count, builder.add(done, builder.mul(loop.index, _I64(count)))))
        done = builder.add(done, builder.mul(many, _I64(count)))


def _each_tap(builder: Any, at: Any, taps: Any, visit: Callable[[Any], None]) -> None:
    """visit(where its cell begins) for each tap, first to last. Rows of two and three taps are no loops."""
    deep, deep_step, high, high_step, wide, wide_step = taps

    def rows(row: Callable[[Any], None]) -> None:
        with cgutils.for_range(builder, deep) as d, cgutils.for_range(builder, high) as h:
            down = builder.add(builder.mul(d.index, deep_step), builder.mul(h.index, high_step))
            row(builder.add(at, down))

    def side_by_side(first: Any, count: int) -> None:
        for i in range(count):
            visit(builder.add(first, builder.mul(_I64(i), wide_step)))

    def loop(first: Any) -> None:
        with cgutils.for_range(builder, wide) as w:
            visit(builder.add(first, builder.mul(w.index, wide_step)))

    with builder.if_else(builder.icmp_signed("==", wide, _I64(2))) as (two, more):
        with two, builder.if_else(builder.icmp_signed("==", high, _I64(2))) as (four, others):
            with four, cgutils.for_range(builder, deep) as d:
                first = builder.add(at, builder.mul(d.index, deep_step))
                side_by_side(first, 2)
                side_by_side(builder.add(first, high_step), 2)
            with others:
                rows(lambda first: side_by_side(first, 2))
        with more, builder.if_else(builder.icmp_signed("==", wide, _I64(3))) as (three, any_number):
            with three:
                rows(lambda first: side_by_side(first, 3))
            with any_number:
                rows(loop)


def _window_function(name: str, arrays: int, emit: Callable[..., None]) -> Any:
    """A function of so many arrays and of numbers: how many outputs, how far apart two of them begin in the input,
    then where the first one does, its taps, where it lies itself, and the channels.

    It is a function of its own in LLVM, to be kept small: inlined, and with its loops unrolled, it would compute the
    addresses of taps ahead that are not there (three times as slow, measured)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args[:arrays]
        data = [context.make_array(kind)(context, builder, a).data for kind, a in zip(kinds, args)]
        given, number = [*data, *args[arrays:]], context.get_data_type(kinds[0].dtype)
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        own = ir.Function(builder.module, kind, builder.module.get_unique_name(f"{name}_{number}"))
        own.linkage = "internal"
        for attribute in ("noinline", "optsize", "nounwind"):
            own.attributes.add(attribute)
        _fill(own, arrays, number, emit)
        builder.call(own, given)
        return context.get_dummy_value()

    def signature(given: tuple[Any, ...]) -> Any:
        return types.void(*given[:arrays], *[types.int64] * _NUMBERS), generate

    names = ", ".join(f"a{i}" for i in range(arrays + _NUMBERS))
    space: dict[str, Any] = {"signature": signature}
    exec(f"def typed(typing, {names}):\n    return signature(({names},))\n", space)  # numba counts its parameters
    return intrinsic(space["typed"])


def _fill(own: Any, arrays: int, number: Any, emit: Callable[..., None]) -> None:
    builder = ir.IRBuilder(own.append_basic_block("entry"))
    data, (outputs, step, at, *taps, o, channels) = own.args[:arrays], own.args[arrays:]
    with cgutils.for_range(builder, outputs) as loop:
        here = builder.add(at, builder.mul(loop.index, step))
        there = builder.add(o, builder.mul(loop.index, channels))
        _chunks(builder, number, channels, lambda lanes: emit(lanes, data, (here, *taps, there)))
    builder.ret_void()


def _most(lanes: _Lanes, x: Any, at: Any, taps: Any, first: Any) -> Any:
    """The largest of `first` and of the cells; NaN where one is. That is found beside the maxima, each of which waits
    for the one before it."""
    builder = lanes.builder
    best, wrong = lanes.register(first), lanes.register(lanes.nan(first))

    def meet(here: Any) -> None:
        value = lanes.load(x, here)
        builder.store(lanes.larger(value, builder.load(best)), best)
        builder.store(builder.or_(lanes.nan(value), builder.load(wrong)), wrong)

    _each_tap(builder, at, taps, meet)
    return builder.select(builder.load(wrong), lanes.all(float("nan")), builder.load(best))


def largest() -> Any:
    """(x, y, ..., o, channels): y's numbers from o on become what is the largest of them and of the cells."""

    def emit(lanes: _Lanes, data: Any, numbers: Any) -> None:
        (x, y), (at, *taps, o) = data, numbers
        lanes.store(_most(lanes, x, at, taps, lanes.load(y, o)), y, o)

    return _window_function("largest", 2, emit)


def give_to_largest(once: bool) -> Any:
    """(x, dy, dx, ..., o, channels): dy's number goes to the first of the cells that is the largest. once: these cells
    are in no other window, so that the others of them become 0."""

    def emit(lanes: _Lanes, data: Any, numbers: Any) -> None:
        (x, dy, dx), (at, *taps, o), builder = data, numbers, lanes.builder
        most, zero = _most(lanes, x, at, taps, lanes.all(float("-inf"))), lanes.all(0.0)
        left = lanes.register(builder.fadd(zero, lanes.load(dy, o)))  # as where it is added to what has been cleared

        def give(here: Any) -> None:
            value, mine = lanes.load(x, here), builder.load(left)
            found = builder.or_(builder.fcmp_ordered("==", value, most), lanes.nan(value))
            part = builder.select(found, mine, zero)
            builder.store(builder.select(found, zero, mine), left)
            lanes.store(part if once else builder.fadd(lanes.load(dx, here), part), dx, here)

        _each_tap(builder, at, taps, give)

    return _window_function("put_to_largest" if once else "give_to_largest", 3, emit)


def mean() -> Any:
    """(x, y, ..., o, channels): y's numbers from o on become the mean of the cells."""

    def emit(lanes: _Lanes, data: Any, numbers: Any) -> None:
        (x, y), (at, *taps, o), builder = data, numbers, lanes.builder
        total = lanes.register(lanes.all(0.0))

        def add(here: Any) -> None:
            builder.store(builder.fadd(builder.load(total), lanes.load(x, here)), total)

        _each_tap(builder, at, taps, add)
        lanes.store(builder.fdiv(builder.load(total), _cells(lanes, taps)), y, o)

    return _window_function("mean", 2, emit)


def give_shares() -> Any:
    """(dy, dx, ..., o, channels): each of the cells in dx gets its share of dy's number."""

    def emit(lanes: _Lanes, data: Any, numbers: Any) -> None:
        (dy, dx), (at, *taps, o), builder = data, numbers, lanes.builder
        share = builder.fdiv(lanes.load(dy, o), _cells(lanes, taps))
        _each_tap(builder, at, taps, lambda here: lanes.store(builder.fadd(lanes.load(dx, here), share), dx, here))

    return _window_function("give_shares", 2, emit)


def _cells(lanes: _Lanes, taps: Any) -> Any:
    deep, _, high, _, wide, _ = taps
    count = lanes.builder.mul(lanes.builder.mul(deep, high), wide)
    return lanes.spread(lanes.builder.sitofp(count, lanes.number))
