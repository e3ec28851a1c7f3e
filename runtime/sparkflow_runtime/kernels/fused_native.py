"""The interpreter of fused programs: machine code that runs numpy's own inner loops on blocks that stay in the cache.

It is compiled once for all programs (by numba, in the background, cached on disk) and never for a graph: a program is
a table of numbers. A ufunc's inner loop is a C function of (pointers, count, strides, data) whose address stands in the
ufunc object; `ufuncobject.h` makes both public. So a program's steps run the same machine code as the kernels, which is
why the bits are the same, and a block is a whole number of vector registers, so that no element changes its place in one.

Arrays come as the addresses of two tuples. Their layout is that of CPython's and numpy's public headers; `fused_machine`
runs a program and compares before it trusts this.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from sparkflow_runtime.kernels.fused_layout import (
    BLOCK,
    CONST,
    COPY,
    COUNT,
    DATA,
    DTYPE,
    FIRST,
    FULL,
    HEAD,
    INPUT,
    ITEM,
    KIND,
    LOOP,
    OUTPUT,
    REFUSED,
    REGISTER,
    RESULT,
    SCALAR,
    SELECT,
    TAKEN,
    TUPLE,
    VALUE,
    WIDEN,
)

_I64, _I32, _I8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_SIGNATURE = "int64(int64, int64, int64[:,::1], int64[:,::1], int64, int64)"



def reader(kind: ir.IntType) -> Any:
    def typed(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
            return value if kind.width == 64 else builder.zext(value, _I64)

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
        word = _I64.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [word, word, word, word])
        function = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(a, word) for a in args[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate

get64, get32, get8 = reader(_I64), reader(_I32), reader(_I8)
put64, put32, put8 = writer(_I64), writer(_I32), writer(_I8)

@numba.njit(nogil=True)
def copied(target: int, source: int, item: int) -> None:
    if item == 4:
        put32(target, get32(source))
    elif item == 8:
        put64(target, get64(source))
    else:
        put8(target, get8(source))

def _run(
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
            address[k] = get64(one + HEAD)
            own_rank, own = get32(one + HEAD + 8), get64(one + HEAD + 16)
            flags, steps_at = get32(one + HEAD + 48), get64(one + HEAD + 24)
            still = 0  # axes along which nothing moves: all of a value that was broadcast
            for d in range(own_rank):
                still += get64(steps_at + 8 * d) == 0
            if not flags & 0x100 or not (flags & 1 or still == own_rank):  # aligned; C-contiguous
                return REFUSED
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
            if not flags & 1:
                stride[k] = 0
                continue
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


def build() -> Any:
    """The interpreter: run(inputs, outputs, operands, steps, registers, array type) -> TAKEN or REFUSED, where inputs
    and outputs are the ids of tuples."""
    try:
        return numba.njit([_SIGNATURE], nogil=True, cache=True)(_run)
    except RuntimeError:  # no place for a cache: compile for this process alone
        return numba.njit([_SIGNATURE], nogil=True)(_run)
