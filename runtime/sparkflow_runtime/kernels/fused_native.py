"""The interpreter of fused programs: machine code that runs numpy's own inner loops on blocks that stay in the cache.

It is compiled once for all programs (machine_build.py, in the background, kept on disk) and never for a graph: a
program is a table of numbers. A ufunc's inner loop is a C function of (pointers, count, strides, data) whose address
stands in the ufunc object; `ufuncobject.h` makes both public. So a program's steps run the same machine code as the
kernels, which is why the bits are the same; and a block is a whole number of vector registers, so that no element
changes its place in one.

Arrays come as the ids of two tuples. Their layout is that of CPython's and numpy's public headers; `fused_machine`
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
    WORK,
)
from sparkflow_runtime.kernels.machine_build import get8, get32, get64, pointer

_I64, _I32, _I8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
# where an operand lies; of one that repeats how often; of one in rows apart from each other their length (INNER) and
# the bytes from one to the next, below 0 (PERIOD); of others PERIOD is 0; where what repeats is written out (ROOM)
ADDRESS, STRIDE, PERIOD, INNER, ROOM = range(5)


def writer(kind: ir.IntType) -> Any:
    def typed(typingctx: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = args[1] if kind.width == 64 else builder.trunc(args[1], kind)
            builder.store(value, builder.inttoptr(args[0], kind.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(typed)


def _call_loop(typingctx: Any, loop: Any, pointers: Any, count: Any, strides: Any, data: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = _I64.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [word, word, word, word])
        function = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(a, word) for a in args[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


call_loop: Any = intrinsic(_call_loop)
put64 = writer(_I64)


@numba.njit(nogil=True)
def _runs(target: np.ndarray, source: np.ndarray, start: int, inner: int) -> None:
    """target[i] = source[(start + i) // inner % len(source)], run by run. Unsigned: else each index is asked whether it
    is below 0."""
    n, period, at = np.uint64(len(target)), np.uint64(len(source)), np.uint64(0)
    row, left = np.uint64((start // inner) % len(source)), np.uint64(inner - start % inner)
    while at < n:
        if inner == 1:
            run = min(period - row, n - at)
            for i in range(run):
                target[at + i] = source[row + i]
            row = np.uint64(0)
        else:
            run, held = min(left, n - at), source[row]
            for i in range(run):
                target[at + i] = held
            row, left = row + np.uint64(1), np.uint64(inner)
            if row == period:
                row = np.uint64(0)
        at += run


@numba.njit(nogil=True)
def _chosen(target: np.ndarray, condition: np.ndarray, yes: np.ndarray, no: np.ndarray, by: int, step: int) -> None:
    """by, step: 0 where `yes` or `no` is one element for all, else 1. Both are read before one is chosen: what may or
    may not be read cannot be taken by the vector."""
    n = np.uint64(len(target))
    if by == 1 and step == 1:
        for i in range(n):
            one, other = yes[i], no[i]
            target[i] = one if condition[i] else other
    elif by == 1:
        rest = no[0]
        for i in range(n):
            one = yes[i]
            target[i] = one if condition[i] else rest
    elif step == 1:
        same = yes[0]
        for i in range(n):
            other = no[i]
            target[i] = same if condition[i] else other
    else:
        same, rest = yes[0], no[0]
        for i in range(n):
            target[i] = same if condition[i] else rest


@numba.njit(nogil=True)
def _sizes(array: int) -> tuple[int, int, int]:
    """(rank, address of the sizes, number of elements) of the ndarray at an address."""
    rank, dims, total = get32(array + HEAD + 8), get64(array + HEAD + 16), 1
    for d in range(rank):
        total *= get64(dims + 8 * d)
    return rank, dims, total


@numba.njit(nogil=True)
def _bound(one: int, operand: np.ndarray, array_type: int, result: int, at: np.ndarray) -> bool:
    """Whether an input is taken; `at` then has its ADDRESS to INNER. result: an array of the result's shape."""
    rank, dims, total = _sizes(result)
    kind = get64(one + HEAD - 8)
    if kind == operand[SCALAR]:
        at[ADDRESS], at[STRIDE] = one + HEAD, 0
        return rank == 0 or not operand[FULL]
    if kind != array_type or get64(one + HEAD + 40) != operand[DTYPE]:
        return False
    own_rank, own, count = _sizes(one)
    flags, strides = get32(one + HEAD + 48), get64(one + HEAD + 24)
    still = 0  # axes along which nothing moves: all, of one value that was broadcast
    for d in range(own_rank):
        still += get64(strides + 8 * d) == 0
    contiguous, lead = flags & 1, rank - own_rank
    if not flags & 0x100 or lead < 0:  # 0x100: aligned
        return False
    if not contiguous and still < own_rank:
        return _bound_rows(one, operand[ITEM], dims, rank, at)
    if operand[FULL] and (lead or count != total):
        return False
    at[ADDRESS] = get64(one + HEAD)
    low, high = 0, own_rank  # the axes in [low, high) are the result's; the others have size 1
    while low < high and get64(own + 8 * low) == 1 and get64(dims + 8 * (lead + low)) != 1:
        low += 1
    while high > low and get64(own + 8 * (high - 1)) == 1 and get64(dims + 8 * (lead + high - 1)) != 1:
        high -= 1
    for d in range(low, high):
        if get64(own + 8 * d) != get64(dims + 8 * (lead + d)):
            return False
    if count == 1 or not contiguous:
        at[STRIDE] = 0
    elif count != total:
        at[PERIOD] = count
        for d in range(lead + high, rank):
            at[INNER] *= get64(dims + 8 * d)
    return True


@numba.njit(nogil=True)
def _bound_rows(one: int, item: int, dims: int, rank: int, at: np.ndarray) -> bool:
    """An input of the result's shape whose rows are in one piece each and equally far apart: a slice by columns. Rows
    are whole vector registers, so that a ufunc's loop has each element where it has it row by row."""
    strides, own, last = get64(one + HEAD + 24), get64(one + HEAD + 16), rank - 1
    if get32(one + HEAD + 8) != rank or rank < 2 or get64(strides + 8 * last) != item:
        return False
    if get64(own + 8 * last) * item % 64:
        return False
    for d in range(rank):
        if get64(own + 8 * d) != get64(dims + 8 * d):
            return False
        if 0 < d < last and get64(strides + 8 * (d - 1)) != get64(strides + 8 * d) * get64(own + 8 * d):
            return False
    at[ADDRESS], at[INNER] = get64(one + HEAD), get64(own + 8 * last)
    at[PERIOD] = -get64(strides + 8 * (last - 1))
    return bool(at[PERIOD] < 0)


@numba.njit(nogil=True)
def _gathered(target: int, source: int, item: int, start: int, n: int, step: int, length: int) -> None:
    """n elements from `start` on of rows of `length` that begin `step` bytes apart."""
    done, row, column = 0, start // length, start % length
    while done < n:
        run = min(length - column, n - done)
        _copied(target + done * item, source + row * step + column * item, item, run, item)
        done, row, column = done + run, row + 1, 0


@numba.njit(nogil=True)
def _spread(target: int, source: int, item: int, start: int, n: int, period: int, inner: int) -> None:
    """n elements from `start` on of an operand of `period` elements, each `inner` times, over and over."""
    to, of = pointer(target), pointer(source)
    if item == 4:
        _runs(numba.carray(to, n, np.uint32), numba.carray(of, period, np.uint32), start, inner)
    elif item == 8:
        _runs(numba.carray(to, n, np.uint64), numba.carray(of, period, np.uint64), start, inner)
    elif item == 2:
        _runs(numba.carray(to, n, np.uint16), numba.carray(of, period, np.uint16), start, inner)
    else:
        _runs(numba.carray(to, n, np.uint8), numba.carray(of, period, np.uint8), start, inner)


@numba.njit(nogil=True)
def _copied(target: int, source: int, item: int, n: int, stride: int) -> None:
    """n elements, or one of them n times where the stride is 0."""
    _spread(target, source, item, 0, n, n if stride else 1, 1 if stride else n)


@numba.njit(nogil=True)
def _select(step: np.ndarray, n: int, item: int, where: np.ndarray, stride: np.ndarray) -> None:
    a, b, c = step[FIRST], step[FIRST + 1], step[FIRST + 2]
    if stride[a] == 0:  # all of one side
        k = b if get8(where[a]) else c
        _copied(where[step[RESULT]], where[k], item, n, stride[k])
        return
    by, more = min(stride[b], 1), min(stride[c], 1)
    to, yes, no = pointer(where[step[RESULT]]), pointer(where[b]), pointer(where[c])
    condition = numba.carray(pointer(where[a]), n, np.uint8)
    if item == 4:
        u4 = np.uint32
        _chosen(numba.carray(to, n, u4), condition, numba.carray(yes, n, u4), numba.carray(no, n, u4), by, more)
    elif item == 8:
        u8 = np.uint64
        _chosen(numba.carray(to, n, u8), condition, numba.carray(yes, n, u8), numba.carray(no, n, u8), by, more)
    else:
        u1 = np.uint8
        _chosen(numba.carray(to, n, u1), condition, numba.carray(yes, n, u1), numba.carray(no, n, u1), by, more)


@numba.njit(nogil=True)
def _special(step: np.ndarray, n: int, item: int, where: np.ndarray, stride: np.ndarray) -> None:
    """The steps that are no ufunc."""
    a, to = where[step[FIRST]], where[step[RESULT]]
    if step[LOOP] == SELECT:
        _select(step, n, item, where, stride)
    elif step[LOOP] == COPY:
        _copied(to, a, item, n, stride[step[FIRST]])
    else:
        moves = stride[step[FIRST]]
        flags = numba.carray(pointer(a), n if moves else 1, np.uint8)
        if item == 4:
            _widened(numba.carray(pointer(to), n, np.float32), flags, moves)
        else:
            _widened(numba.carray(pointer(to), n, np.float64), flags, moves)


@numba.njit(nogil=True)
def _widened(target: np.ndarray, flags: np.ndarray, moves: int) -> None:
    if moves:
        for i in range(len(target)):
            target[i] = flags[i]
    else:
        for i in range(len(target)):
            target[i] = flags[0]


@numba.njit(nogil=True)
def _block(steps: np.ndarray, operands: np.ndarray, n: int, where: np.ndarray, stride: np.ndarray, work: int) -> None:
    """All steps on n elements. work: room for the pointers, strides and count that a loop is given."""
    strides, counted = work + 32, work + 64
    put64(counted, n)
    for s in range(len(steps)):
        step = steps[s]
        if step[LOOP] < 0:
            _special(step, n, operands[step[RESULT], ITEM], where, stride)
            continue
        count = step[COUNT]
        for j in range(count + 1):
            k = step[RESULT] if j == count else step[FIRST + j]
            put64(work + 8 * j, where[k])
            put64(strides + 8 * j, stride[k])
        call_loop(step[LOOP], work, counted, strides, step[DATA])


@numba.njit(nogil=True)
def _bound_all(inputs: int, outputs: int, operands: np.ndarray, array_type: int, at: np.ndarray) -> int:
    """Where every operand lies; how many blocks of room are needed for operands that repeat, or -1 where an input is
    not taken."""
    first, spread = get64(outputs + TUPLE), 0
    for k in range(len(operands)):
        kind, value = operands[k, KIND], operands[k, VALUE]
        at[k, STRIDE], at[k, PERIOD], at[k, INNER] = operands[k, ITEM], 0, 1
        if kind == CONST:
            at[k, ADDRESS], at[k, STRIDE] = value, 0
        elif kind == OUTPUT:
            at[k, ADDRESS] = get64(get64(outputs + TUPLE + 8 * value) + HEAD)
        elif kind == INPUT and not _bound(get64(inputs + TUPLE + 8 * value), operands[k], array_type, first, at[k]):
            return -1
        spread += at[k, PERIOD] != 0
    return spread


@numba.njit(nogil=True)
def _is_short(at: np.ndarray) -> bool:
    """Whether an operand is a row over and over, that a block has as a whole."""
    return bool(0 < at[PERIOD] <= BLOCK and at[INNER] == 1)


def run(
    inputs: int,
    outputs: int,
    tables: int,
    many: int,
    calls: int,
    registers: int,
    array_type: int,
    room: int,
    begin: int,
    end: int,
) -> int:
    """TAKEN or REFUSED. Inputs and outputs are the ids of tuples, tables is the address of both tables, one after the
    other, and then come their rows; room: memory that is ours until the end, as much as `room_bytes` says.
    begin, end: of the elements that are wanted; begin is a multiple of BLOCK, and end too or as many as there are, or
    more."""
    operands = numba.carray(pointer(tables), (many, FULL + 1), np.int64)
    steps = numba.carray(pointer(tables + operands.nbytes), (calls, RESULT + 1), np.int64)
    total = min(_sizes(get64(outputs + TUPLE))[2], end)
    size = 8 * min(total, BLOCK)
    work = (room + 63) // 64 * 64
    at = numba.carray(pointer(work + WORK), (many, 5), np.int64)
    rows = numba.carray(pointer(work + WORK + at.nbytes), (2, many), np.int64)
    where, stride = rows[0], rows[1]
    if _bound_all(inputs, outputs, operands, array_type, at) < 0:
        return REFUSED
    first = (work + WORK + at.nbytes + rows.nbytes + 63) // 64 * 64
    free = first + registers * size
    for k in range(many):
        where[k], stride[k] = at[k, ADDRESS], at[k, STRIDE]
        if operands[k, KIND] == REGISTER:
            where[k] = first + operands[k, VALUE] * size
        elif at[k, PERIOD]:
            at[k, ROOM], free = free, free + 2 * size
            where[k] = at[k, ROOM]
            if _is_short(at[k]):  # once for all blocks, which begin at different places of it
                item, period = operands[k, ITEM], at[k, PERIOD]
                _spread(at[k, ROOM], at[k, ADDRESS], item, 0, min(total, BLOCK + period), period, 1)
    for start in range(begin, total, BLOCK):
        n = min(BLOCK, total - start)
        for k in range(many):
            kind, item = operands[k, KIND], operands[k, ITEM]
            if at[k, PERIOD] < 0:
                _gathered(where[k], at[k, ADDRESS], item, start, n, -at[k, PERIOD], at[k, INNER])
            elif at[k, PERIOD] and _is_short(at[k]):
                where[k] = at[k, ROOM] + start % at[k, PERIOD] * item
            elif at[k, PERIOD] and at[k, INNER] == 1 and start % at[k, PERIOD] + n <= at[k, PERIOD]:
                where[k] = at[k, ADDRESS] + start % at[k, PERIOD] * item
            elif at[k, PERIOD]:
                where[k] = at[k, ROOM]
                _spread(where[k], at[k, ADDRESS], item, start, n, at[k, PERIOD], at[k, INNER])
            elif kind == OUTPUT or (kind == INPUT and stride[k]):
                where[k] = at[k, ADDRESS] + start * item
        _block(steps, operands, n, where, stride, work)
    return TAKEN
