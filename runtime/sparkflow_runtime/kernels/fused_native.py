"""The interpreter of fused programs: machine code that runs numpy's own inner loops on blocks that stay in the cache.

It is compiled once for all programs (by numba, in the background, cached on disk) and never for a graph: a program is
a table of numbers. A ufunc's inner loop is a C function of (pointers, count, strides, data) whose address stands in the
ufunc object; `ufuncobject.h` makes both public. So a program's steps run the same machine code as the kernels, which is
why the bits are the same, and a block is a whole number of vector registers, so that no element changes its place in one.

Arrays come as the addresses of two tuples. Their layout is that of CPython's and numpy's public headers; `check` reads
some arrays through it before it is trusted.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

HEAD, TUPLE = object.__basicsize__, tuple.__basicsize__
BLOCK = 1024  # elements
# columns of a program's table of operands
KIND, ITEM, VALUE, DTYPE, SCALAR, FULL = range(6)
INPUT, CONST, REGISTER, OUTPUT = range(4)
# columns of its table of steps
LOOP, DATA, COUNT, FIRST = range(4)  # FIRST.. FIRST+2: the arguments, then the result
RESULT = FIRST + 3
SELECT, WIDEN, COPY = -1, -2, -3  # in place of a loop's address
TAKEN, REFUSED = 0, 1


def loop_of(ufunc: np.ufunc, types: str) -> tuple[int, int]:
    """(address, data) of a ufunc's inner loop for 'ff->f'. Raises KeyError where it has none."""
    if types not in ufunc.types:
        raise KeyError(types)
    at = ufunc.types.index(types)
    base, word = id(ufunc) + HEAD, ctypes.sizeof(ctypes.c_void_p)
    functions = ctypes.c_void_p.from_address(base + 16).value or 0
    data = ctypes.c_void_p.from_address(base + 16 + word).value
    loop = ctypes.c_void_p.from_address(functions + at * word).value or 0
    return loop, (ctypes.c_void_p.from_address(data + at * word).value or 0) if data else 0


def build() -> Any:
    """The interpreter: run(inputs, outputs, operands, steps, registers) -> TAKEN or REFUSED, inputs and outputs being
    the id of a tuple. Imports numba."""
    import numba
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    i64, i32, i8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)

    def reader(kind: ir.IntType) -> Any:
        def typed(typingctx: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
                return value if kind.width == 64 else builder.zext(value, i64)

            return types.int64(types.int64), generate

        return intrinsic(typed)

    def writer(kind: ir.IntType) -> Any:
        def typed(typingctx: Any, address: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = args[1] if kind.width == 64 else builder.trunc(args[1], kind)
                builder.store(value, builder.inttoptr(args[0], kind.as_pointer()))
                return context.get_dummy_value()

            return types.void(types.int64, types.int64), generate

        return intrinsic(typed)

    @intrinsic
    def call_loop(typingctx: Any, loop: Any, pointers: Any, count: Any, strides: Any, data: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = i64.as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [word, word, word, word])
            function = builder.inttoptr(args[0], kind.as_pointer())
            builder.call(function, [builder.inttoptr(a, word) for a in args[1:]])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    get64, get32, get8 = reader(i64), reader(i32), reader(i8)
    put64, put32, put8 = writer(i64), writer(i32), writer(i8)

    @numba.njit(inline="always")
    def copied(target: int, source: int, item: int) -> None:
        if item == 4:
            put32(target, get32(source))
        elif item == 8:
            put64(target, get64(source))
        else:
            put8(target, get8(source))

    @numba.njit(["int64(int64, int64, int64[:,::1], int64[:,::1], int64, int64)"], nogil=True, cache=False)
    def run(
        inputs: int, outputs: int, operands: np.ndarray, steps: np.ndarray, registers: int, array_type: int
    ) -> int:
        # the result's shape is the first output's
        first = get64(outputs + TUPLE)
        rank, dims = get32(first + HEAD + 8), get64(first + HEAD + 16)
        total = 1
        for d in range(rank):
            total *= get64(dims + 8 * d)
        size = min(total, BLOCK)
        many = len(operands)
        # address, stride and, for an operand that repeats, its period (0: none) and how often each element does
        table = np.empty((5, many), np.int64)
        address, stride, period, inner, where = table[0], table[1], table[2], table[3], table[4]
        scratch = np.empty((registers + 1) * size * 8 + 64, np.uint8)
        free = (scratch.ctypes.data + 63) // 64 * 64
        expanded = 0
        for k in range(many):
            kind, item = operands[k, KIND], operands[k, ITEM]
            stride[k], period[k], inner[k] = item, 0, 1
            if kind == REGISTER:
                address[k] = free + operands[k, VALUE] * size * 8
            elif kind == CONST:
                address[k], stride[k] = operands[k, VALUE], 0
            elif kind == OUTPUT:
                address[k] = get64(get64(outputs + TUPLE + 8 * operands[k, VALUE]) + HEAD)
            else:
                one = get64(inputs + TUPLE + 8 * operands[k, VALUE])
                kind_of = get64(one + HEAD - 8)
                if kind_of == operands[k, SCALAR]:
                    if operands[k, FULL] and rank:
                        return REFUSED
                    address[k], stride[k] = one + HEAD, 0
                    continue
                if kind_of != array_type or get64(one + HEAD + 40) != operands[k, DTYPE]:
                    return REFUSED
                if get32(one + HEAD + 48) & 0x101 != 0x101:  # C-contiguous and aligned
                    return REFUSED
                address[k] = get64(one + HEAD)
                own_rank, own = get32(one + HEAD + 8), get64(one + HEAD + 16)
                if own_rank > rank or (operands[k, FULL] and own_rank != rank):
                    return REFUSED
                lead = rank - own_rank
                low, high = 0, own_rank  # the axes in [low, high) are the result's, the others have size 1
                count = 1
                for d in range(own_rank):
                    count *= get64(own + 8 * d)
                if operands[k, FULL] and count != total:
                    return REFUSED
                if count == 1:
                    stride[k] = 0
                    if total != 1:
                        continue
                while low < high and get64(own + 8 * low) == 1 and get64(dims + 8 * (lead + low)) != 1:
                    low += 1
                while high > low and get64(own + 8 * (high - 1)) == 1 and get64(dims + 8 * (lead + high - 1)) != 1:
                    high -= 1
                for d in range(low, high):
                    if get64(own + 8 * d) != get64(dims + 8 * (lead + d)):
                        return REFUSED
                if count == total:
                    continue
                for d in range(lead + high, rank):
                    inner[k] *= get64(dims + 8 * d)
                period[k] = count
                expanded += 1
        spread = np.empty(expanded * size * 8 + 64, np.uint8)
        at = (spread.ctypes.data + 63) // 64 * 64
        for k in range(many):
            where[k] = address[k]
            if period[k]:
                where[k] = at
                at += size * 8
        work = np.empty(9, np.int64)  # pointers, strides, count
        pointers, strides, counted = work.ctypes.data, work.ctypes.data + 32, work.ctypes.data + 64
        for start in range(0, total, BLOCK):
            n = min(BLOCK, total - start)
            put64(counted, n)
            for k in range(many):
                kind, item = operands[k, KIND], operands[k, ITEM]
                if period[k]:
                    row, left = (start // inner[k]) % period[k], inner[k] - start % inner[k]
                    for i in range(n):
                        copied(where[k] + i * item, address[k] + row * item, item)
                        left -= 1
                        if left == 0:
                            left = inner[k]
                            row += 1
                            if row == period[k]:
                                row = 0
                elif kind == OUTPUT or (kind == INPUT and stride[k]):
                    where[k] = address[k] + start * item
            for s in range(len(steps)):
                loop, args, out = steps[s, LOOP], steps[s, COUNT], steps[s, RESULT]
                if loop > 0:
                    for j in range(args):
                        k = steps[s, FIRST + j]
                        put64(pointers + 8 * j, where[k])
                        put64(strides + 8 * j, stride[k])
                    put64(pointers + 8 * args, where[out])
                    put64(strides + 8 * args, stride[out])
                    call_loop(loop, pointers, counted, strides, steps[s, DATA])
                    continue
                a, to, item = steps[s, FIRST], where[out], operands[out, ITEM]
                if loop == SELECT:
                    b, c = steps[s, FIRST + 1], steps[s, FIRST + 2]
                    for i in range(n):
                        if get8(where[a] + i * stride[a]):
                            copied(to + i * item, where[b] + i * stride[b], item)
                        else:
                            copied(to + i * item, where[c] + i * stride[c], item)
                elif loop == WIDEN:
                    one = 0x3F800000 if item == 4 else 0x3FF0000000000000
                    for i in range(n):
                        value = one if get8(where[a] + i * stride[a]) else 0
                        if item == 4:
                            put32(to + i * 4, value)
                        else:
                            put64(to + i * 8, value)
                else:
                    for i in range(n):
                        copied(to + i * item, where[a] + i * stride[a], item)
        scratch[0] = spread[0] = 0  # used to the end: numba frees an array after its last use
        work[0] = 0
        return TAKEN

    return run
