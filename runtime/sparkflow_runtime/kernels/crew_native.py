"""What the threads of a crew run: machine code from end to end, so that handing over work needs neither GIL nor kernel.

A job is a table of blocks. Its ticket is one word (job number, how many blocks, which is next): whoever moves it on by
one has taken a block. So a thread that the machine has no time for is never waited for, unless it has begun a block.
A thread without work looks for some while it lets others run, and sleeps on a semaphore when there was none for long.
Where other processes keep the processors busy, a thread may lose its processor in the middle of a block, and the caller
waits for milliseconds. After such a wait jobs are done alone, for longer the more often that happens.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from sparkflow_runtime.kernels.crew_layout import (
    ARGS,
    ASLEEP,
    BLOCK_BYTES,
    BUSY,
    CLOCK,
    DATA,
    DONE,
    ENTRY_ARGUMENTS,
    FUNCTION,
    GOOD,
    KIND,
    LEVEL,
    LOOP,
    NOW,
    PATIENCE_NS,
    POST,
    SEMAPHORE,
    SIZES,
    STEPS,
    TABLE,
    TICKET,
    UNTIL,
    WAIT,
    YIELD,
)
from sparkflow_runtime.kernels.machine_build import get64, pointer

SHORT_NS = 50_000  # a wait that is never held against the machine
PAUSE_NS, MOST_LEVELS = 5_000_000, 6  # how long jobs are done alone: twice as long after each long wait, up to 0.3 s
PARTS = 4
MANY = 32  # short waits after which that time is halved again
_I64, _I32 = ir.IntType(64), ir.IntType(32)
_HEAD = object.__basicsize__

# ---------------------------------------------------------------------- words that several threads write


def _word(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


def _at(arguments: int, generate: Any) -> Any:
    """An intrinsic of an address and further ints that gives an int."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return generate(builder, _word(builder, args[0]), *args[1:])

    signature = types.int64(*[types.int64] * arguments)
    if arguments == 1:
        return intrinsic(lambda typingctx, a: (signature, code))
    if arguments == 2:
        return intrinsic(lambda typingctx, a, b: (signature, code))
    return intrinsic(lambda typingctx, a, b, c: (signature, code))


def _exchange(builder: Any, word: Any, old: Any, new: Any) -> Any:
    pair = builder.cmpxchg(word, old, new, "seq_cst", "seq_cst")
    return builder.zext(builder.extract_value(pair, 1), _I64)


seen = _at(1, lambda builder, word: builder.load_atomic(word, "seq_cst", 8))
added = _at(2, lambda builder, word, by: builder.atomic_rmw("add", word, by, "seq_cst"))  # gives the old value
swapped = _at(2, lambda builder, word, new: builder.atomic_rmw("xchg", word, new, "seq_cst"))
exchanged = _at(3, _exchange)  # whether the word was `old`, and now is `new`

# ---------------------------------------------------------------------- functions by address


def _call(builder: Any, address: Any, result: Any, args: Any) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), args)


def _of_libc(typingctx: Any, function: Any, first: Any, second: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(_call(builder, args[0], _I32, args[1:]), _I64)

    return types.int64(*[types.int64] * 3), generate


def _of_loop(typingctx: Any, function: Any, arrays: Any, sizes: Any, steps: Any, data: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _call(builder, args[0], ir.VoidType(), [_word(builder, a) for a in args[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def _of_entry(typingctx: Any, function: Any, args: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        words = _word(builder, given[1])
        found = [builder.load(builder.gep(words, [ir.Constant(_I64, i)])) for i in range(ENTRY_ARGUMENTS)]
        return _call(builder, given[0], _I64, found)

    return types.int64(*[types.int64] * 2), generate


call_libc: Any = intrinsic(_of_libc)  # of two ints; a function of fewer does not look at the others
call_loop: Any = intrinsic(_of_loop)
call_entry: Any = intrinsic(_of_entry)  # of the ints that lie at an address; likewise

# ---------------------------------------------------------------------- the work


@numba.njit
def _do(block: int) -> None:
    args = block + ARGS
    if get64(block + KIND) == LOOP:
        call_loop(get64(block + FUNCTION), args, block + SIZES, block + STEPS, get64(block + DATA))
    else:
        call_entry(get64(block + FUNCTION), args)


@numba.njit
def _open(ticket: int) -> bool:
    return (ticket & 0xFFFF) < ((ticket >> 16) & 0xFFFF)


@numba.njit
def _taken(state: int) -> int:
    """The address of a block that is now ours; 0 where none is left."""
    while True:
        ticket = seen(state + TICKET)
        if not _open(ticket):
            return 0
        table = seen(state + TABLE)  # of this job where the next line succeeds: another job has another ticket
        if exchanged(state + TICKET, ticket, ticket + 1):
            return table + (ticket & 0xFFFF) * BLOCK_BYTES


@numba.njit
def _now(state: int, room: int) -> int:
    """In ns. room: 16 bytes for a timespec."""
    call_libc(get64(state + CLOCK), 1, room)
    return get64(room) * 1_000_000_000 + get64(room + 8)


def serve(state: int, room: int) -> int:
    """A thread's life. room: 16 bytes of its own."""
    since = _now(state, room)
    while True:
        block, worked = _taken(state), False
        while block != 0:
            _do(block)
            added(state + DONE, 1)
            block, worked = _taken(state), True
        if worked:
            since = _now(state, room)
        elif _now(state, room) - since > get64(state + PATIENCE_NS):
            added(state + ASLEEP, 1)
            if not _open(seen(state + TICKET)):
                call_libc(get64(state + WAIT), state + SEMAPHORE, 0)
            since = _now(state, room)
        else:
            call_libc(get64(state + YIELD), 0, 0)
    return 0


@numba.njit
def _run(state: int, table: int, count: int) -> None:
    """Do all blocks, the caller its part. Alone where another thread has the crew, or the machine is too busy."""
    if not exchanged(state + BUSY, 0, 1):
        _alone(table, count)
        return
    begin = _now(state, state + NOW)
    if begin < seen(state + UNTIL):
        swapped(state + BUSY, 0)
        _alone(table, count)
        return
    _hand_over(state, table, count)
    block = _taken(state)
    while block != 0:
        _do(block)
        added(state + DONE, 1)
        block = _taken(state)
    if seen(state + DONE) < count:
        _wait(state, count, begin)
    swapped(state + BUSY, 0)


@numba.njit
def _alone(table: int, count: int) -> None:
    for i in range(count):
        _do(table + i * BLOCK_BYTES)


@numba.njit
def _wait(state: int, count: int, begin: int) -> None:
    """For blocks that others have begun. After a wait that was longer than all the caller did, jobs are done alone."""
    ours, looked = _now(state, state + NOW), 0
    while seen(state + DONE) < count:
        looked += 1
        if looked > 100:
            call_libc(get64(state + YIELD), 0, 0)
    end, level, good = _now(state, state + NOW), seen(state + LEVEL), seen(state + GOOD) + 1
    if end - ours > ours - begin + SHORT_NS:
        level, good = min(level + 1, MOST_LEVELS), 0
        swapped(state + UNTIL, end + (PAUSE_NS << level))
    elif good >= MANY:
        level, good = max(level - 1, 0), 0
    swapped(state + LEVEL, level)
    swapped(state + GOOD, good)


@numba.njit
def _hand_over(state: int, table: int, count: int) -> None:
    """Publish the job, and wake as many as it has use for."""
    swapped(state + DONE, 0)
    swapped(state + TABLE, table)
    job = ((seen(state + TICKET) >> 32) + 1) & 0x7FFFFFFF
    swapped(state + TICKET, (job << 32) | (count << 16))
    if seen(state + ASLEEP) > 0:
        asleep = swapped(state + ASLEEP, 0)
        wanted = min(asleep, count - 1)
        if wanted < asleep:
            added(state + ASLEEP, asleep - wanted)
        for _ in range(wanted):
            call_libc(get64(state + POST), state + SEMAPHORE, 0)


def run(state: int, table: int, count: int) -> int:
    _run(state, table, count)
    return 0


def in_turn(table: int, count: int) -> int:
    """Do all blocks in the calling thread, one after the other."""
    _alone(table, count)
    return 0


def add(state: int, table: int, function: int, data: int, held: int, value: int, items: int, size: int) -> int:
    """held += value by add's inner loop, in blocks; both in one piece, of items of `size` bytes. table: room."""
    length = max(-(-items // PARTS), 1024) // 64 * 64 + 64  # whole vector registers: no item changes its place in one
    count = 0
    for first in range(0, items, length):
        block = table + count * BLOCK_BYTES
        words = numba.carray(pointer(block), BLOCK_BYTES // 8, np.int64)
        words[KIND // 8], words[FUNCTION // 8], words[DATA // 8] = LOOP, function, data
        args, steps = words[ARGS // 8 :], words[STEPS // 8 :]
        args[0] = args[2] = get64(held + _HEAD) + first * size
        args[1] = get64(value + _HEAD) + first * size
        words[SIZES // 8] = min(length, items - first)
        steps[0] = steps[1] = steps[2] = size
        count += 1
    _run(state, table, count)
    return 0


def multiply(state: int, table: int, function: int, data: int, a: int, b: int, out: int, length: int) -> int:
    """out = a @ b by matmul's inner loop, in blocks of `length` of the rows of out, or of its columns where it has more
    of them. a, b, out: the ids of matrices of one type, which may be views. table: room for MOST_BLOCKS blocks."""
    m, n = get64(get64(out + _HEAD + 16)), get64(get64(out + _HEAD + 16) + 8)
    size, by_rows, count = max(m, n), m >= n, 0
    for first in range(0, size, length):
        block, part = table + count * BLOCK_BYTES, min(length, size - first)
        words = numba.carray(pointer(block), BLOCK_BYTES // 8, np.int64)
        words[KIND // 8], words[FUNCTION // 8], words[DATA // 8] = LOOP, function, data
        args, sizes, steps = words[ARGS // 8 :], words[SIZES // 8 :], words[STEPS // 8 :]
        sizes[0], sizes[1], sizes[2], sizes[3] = 1, m, get64(get64(a + _HEAD + 16) + 8), n
        for i in range(3):
            array = a if i == 0 else b if i == 1 else out
            strides = get64(array + _HEAD + 24)
            args[i], steps[i] = get64(array + _HEAD), 0
            steps[3 + 2 * i], steps[4 + 2 * i] = get64(strides), get64(strides + 8)
        if by_rows:
            sizes[1] = part
            args[0] += first * steps[3]
            args[2] += first * steps[7]
        else:
            sizes[3] = part
            args[1] += first * steps[6]
            args[2] += first * steps[8]
        count += 1
    _run(state, table, count)
    return 0
