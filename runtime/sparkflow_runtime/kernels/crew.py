"""A crew of threads for work that takes microseconds: products and updates, shared out in blocks.

Its threads run machine code from end to end (crew_native.py), so that handing over a block costs a microsecond where a
thread of Python costs fifty. What a block computes, and which blocks there are, depends on shapes alone; so the bits do
not depend on whether there is a crew, nor on its size. Until its code is there, or where it may not have two threads,
callers do without.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.compiled import Native
from sparkflow_runtime.kernels.fused_layout import loop_of

_log = logging.getLogger(__name__)
_PATIENCE_NS = 100_000  # how long a thread looks for work before it sleeps: longer than what lies between two products
_MODULE = "sparkflow_runtime.kernels.crew_native"
_LIBC = {
    layout.YIELD: "sched_yield",
    layout.WAIT: "sem_wait",
    layout.POST: "sem_post",
    layout.CLOCK: "clock_gettime",
}


def _for_ever(memory: np.ndarray) -> np.ndarray:
    """Memory that is never freed: threads look at it to the end of the process, after Python's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return memory


class Crew(Native):
    """One for the process. `helpers`: threads beside the caller's."""

    def __init__(self) -> None:
        name, where = "The code of the kernels' threads", f"{__name__}:crew"
        super().__init__(name, where, _MODULE, serve=2, run=3, multiply=8, add=8, in_turn=2)
        self._loops: dict[Any, tuple[int, int]] = {}
        self._additions: dict[Any, tuple[int, int]] = {}
        self._begin_anew()

    def _begin_anew(self) -> None:
        """No threads yet. In a fork, too: it has none of its parent's."""
        self._lock, self.helpers = Lock(), 0
        memory = _for_ever(np.zeros(layout.STATE_BYTES + layout.LINE, np.uint8))
        self._state = -(-memory.ctypes.data // layout.LINE) * layout.LINE
        libc, words = ctypes.CDLL(None), (ctypes.c_int64 * (layout.STATE_BYTES // 8)).from_address(self._state)
        for at, name in _LIBC.items():
            words[at // 8] = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
        words[layout.PATIENCE_NS // 8] = _PATIENCE_NS
        libc.sem_init(ctypes.c_void_p(self._state + layout.SEMAPHORE), 0, 0)

    def _works(self, functions: list[Callable[..., int]]) -> bool:
        loops = {np.dtype(t): loop_of(np.matmul, f"{t}{t}->{t}") for t in "fd"}
        if not _gives_the_same_bits(functions[2], self._state, loops):
            _log.warning("Products use slower threads: this numpy's loops are not laid out as expected")
            return False
        self._additions = {np.dtype(t): loop_of(np.add, f"{t}{t}->{t}") for t in "fd"}
        self._loops = loops
        return True

    # ------------------------------------------------------------------ work

    def ready(self, threads: int) -> bool:
        """Whether there is a crew that may use this many threads, the caller's own among them."""
        if threads < 2 or not self.functions:
            return False
        if self.helpers == 0:
            self._start(threads - 1)
        return self.helpers < threads

    def _start(self, helpers: int) -> None:
        with self._lock:
            if self.helpers:
                return
            for _ in range(helpers):
                room = _for_ever(np.zeros(2, np.int64))
                arguments = (self._state, room.ctypes.data)
                Thread(target=self.functions[0], args=arguments, name="sparkflow-crew", daemon=True).start()
            self.helpers = helpers

    def run(self, table: np.ndarray) -> None:
        """Do the blocks that are the rows of a table (crew_layout.py); `ready` has been asked."""
        self.functions[1](self._state, table.ctypes.data, len(table))

    def in_turn(self, table: np.ndarray) -> None:
        """Do the blocks that are the rows of a table in this thread, one after the other, without the GIL."""
        self.functions[4](table.ctypes.data, len(table))

    def loop(self, address: int, arrays: Sequence[np.ndarray], parts: Sequence[tuple[int, int]]) -> bool:
        """A loop's machine code (Compiled.entry) over (first, count) of each part; its last two arguments are where a
        part begins and ends. False where nothing was done; `ready` has been asked."""
        held = [id(a) for a in arrays]
        if len(held) + 2 > layout.ENTRY_ARGUMENTS:
            return False
        table, first = np.zeros((len(parts), layout.BLOCK_BYTES // 8), np.int64), layout.ARGS // 8
        table[:, layout.KIND // 8], table[:, layout.FUNCTION // 8] = layout.ENTRY, address
        table[:, first : first + len(held)] = held
        ends = table[:, first + len(held) : first + len(held) + 2]
        ends[:] = parts
        ends[:, 1] += ends[:, 0]
        self.run(table)
        return True

    def multiply(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, length: int, room: int) -> bool:
        """out = a @ b in blocks of `length` of out's rows, or of its columns where it has more of them. False where
        nothing was done. room: the address of ROOM_BYTES."""
        found = self.matmul_loop(a, b)
        if found is None:
            return False
        self.functions[2](self._state, room, *found, id(a), id(b), id(out), length)
        return True

    def matmul_loop(self, *arrays: np.ndarray) -> tuple[int, int] | None:
        """(address, data) of matmul's loop for arrays of one type, as a table takes it; None where it has none."""
        found = self._loops.get(arrays[0].dtype)
        return found if found is not None and all(x.flags.aligned for x in arrays) else None

    def add(self, held: np.ndarray, value: np.ndarray, room: int) -> bool:
        """held += value, of one shape and type. False where nothing was done. room: the address of ROOM_BYTES."""
        found = self._additions.get(held.dtype)
        ready = held.flags.c_contiguous and value.flags.c_contiguous and held.flags.aligned and value.flags.aligned
        if found is None or not ready:
            return False
        self.functions[3](self._state, room, *found, id(held), id(value), held.size, held.itemsize)
        return True


Call = tuple[int, Sequence[int]]  # where machine code begins, and its ints: ids of arrays, addresses and numbers


def table_of(calls: Sequence[Call]) -> np.ndarray:
    """A table of blocks that are these calls; argument i of one is its row's word ARGS // 8 + i."""
    words = layout.BLOCK_BYTES // 8
    before = layout.ARGS // 8 - 2
    rows = [(layout.ENTRY, code, *(0,) * before, *args) for code, args in calls]
    return np.array([(*row, *(0,) * (words - len(row))) for row in rows], np.int64)


ROOM_BYTES = layout.BLOCK_BYTES * layout.MOST_BLOCKS
crew = Crew()
registry.prepares(crew.prepare, "MatMul")
os.register_at_fork(after_in_child=crew._begin_anew)


def _gives_the_same_bits(multiply: Callable[..., int], state: int, loops: dict[Any, tuple[int, int]]) -> bool:
    """Whether products by rows and by columns, of matrices and of turned ones, are those of np.matmul's blocks."""
    room = np.zeros(ROOM_BYTES, np.uint8)
    for dtype, found in loops.items():
        for shape, turned in (((150, 70), False), (((70, 150)), True)):
            a = np.linspace(-1, 1, 150 * 20, dtype=dtype).reshape(20, 150).T[: shape[0]]
            b = np.linspace(-2, 1, 20 * shape[1], dtype=dtype).reshape(20, shape[1])
            a = np.ascontiguousarray(a) if turned else a
            out = np.empty((len(a), shape[1]), dtype)
            multiply(state, room.ctypes.data, *found, id(a), id(b), id(out), 64)
            if out.tobytes() != in_blocks(a, b, 64).tobytes():
                return False
    return True


def in_blocks(a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
    """What `multiply` gives, by numpy."""
    m, n = len(a), b.shape[1]
    out = np.empty((m, n), a.dtype)
    for first in range(0, max(m, n), length):
        part = slice(first, first + length)
        if m >= n:
            np.matmul(a[part], b, out=out[part])
        else:
            np.matmul(a, b[:, part], out=out[:, part])
    return out
