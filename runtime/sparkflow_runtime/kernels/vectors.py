"""Vectors of float32 in machine code that is written as LLVM's instructions; addresses are numbers of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir

I64, I32, F32 = ir.IntType(64), ir.IntType(32), ir.FloatType()


def at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def plus(builder: Any, address: Any, count: Any, by: int) -> Any:
    """address + count * by"""
    return builder.add(address, builder.mul(count, I64(by)))


def neighbours(builder: Any, first: Any, step: Any, count: int) -> list[Any]:
    """first + i * step, where two of three are an addition of their own: there are not registers enough for all."""
    twice = builder.mul(step, I64(2))
    found: list[Any] = []
    for i in range(count):
        third = plus(builder, first, step, i - i % 3) if i % 3 == 0 else found[-(i % 3)]
        found.append(third if i % 3 == 0 else builder.add(third, step if i % 3 == 1 else twice))
    return found


@dataclass(frozen=True)
class Vectors:
    """Those of so many lanes."""

    lanes: int

    @cached_property
    def kind(self) -> Any:
        return ir.VectorType(F32, self.lanes)

    @property
    def bytes(self) -> int:
        return 4 * self.lanes

    @property
    def zero(self) -> Any:
        return ir.Constant(self.kind, None)

    def load(self, builder: Any, address: Any) -> Any:
        loaded = builder.load(at(builder, address, self.kind))
        loaded.align = 4
        return loaded

    def store(self, builder: Any, value: Any, address: Any) -> None:
        builder.store(value, at(builder, address, self.kind)).align = 4

    def everywhere(self, builder: Any, address: Any) -> Any:
        """The number at an address, in all lanes."""
        nothing = ir.Constant(self.kind, ir.Undefined)
        first = builder.insert_element(nothing, builder.load(at(builder, address, F32)), I32(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(I32, self.lanes), None))

    def multiply_add(self, builder: Any, a: Any, b: Any, sums: Any) -> None:
        """sums += a * b, rounded once; sums is a register's place."""
        name, module = f"llvm.fma.v{self.lanes}f32", builder.module
        known = module.globals.get(name) or ir.Function(module, ir.FunctionType(self.kind, [self.kind] * 3), name)
        builder.store(builder.call(known, [a, b, builder.load(sums)]), sums)
