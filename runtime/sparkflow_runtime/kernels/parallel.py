"""A few threads for kernels that work block by block: products, convolutions and pools.

A kernel hands in a list of blocks that depends on shapes alone; which thread computes a block never changes its bits.
While the threads work, BLAS computes each product in the thread that asks for it: its own threads beside ours would
wait for each other by spinning, which on a busy machine costs many times the product (seen: 15 ms become 300). The
same befalls BLAS's threads alone when another process keeps a processor busy (a training step of 2 ms took 10 to 90),
so a step whose plan multiplies runs with BLAS `alone` from end to end, and products are shared out here: `product`, by
the crew (crew.py) where it is there.
The threads are as many as BLAS had before, so what the user allows BLAS holds for both; SPARKFLOW_KERNEL_THREADS lowers
it.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from sparkflow_runtime.kernels import blas
from sparkflow_runtime.kernels.crew import ROOM_BYTES, Crew, crew, in_blocks

_SWITCH = "SPARKFLOW_KERNEL_THREADS"
Block = TypeVar("Block")


class _Blas:
    """BLAS's number of threads, set to 1 from the first `alone` to the end of the last.

    An interrupt (Ctrl-C) may come between any two of its calls: what it leaves undone, the next one does.
    """

    def __init__(self) -> None:
        self.lock, self.threads, self.reduced = threading.Lock(), 1, False
        self.users: set[Alone] = set()
        self.whole = 0  # what it had before it left processors to other tasks of the host, if it does

    @lru_cache(1)  # noqa: B019 - there is one _Blas
    def libraries(self) -> list[blas.Library]:
        return blas.libraries()

    def enter(self, user: Alone) -> int:
        """How many threads BLAS had."""
        with self.lock:
            is_first = not self.users
            self.users.add(user)
            if is_first:
                if not self.reduced:
                    self.threads = self._count()
                if self.threads > 1:
                    self.reduced = True
                    self._set(1)
            return self.threads

    def leave(self, user: Alone) -> None:
        """Nothing where it has not entered."""
        with self.lock:
            self.users.discard(user)
            if self.reduced and not self.users:
                self._set(self.threads)
                self.reduced = False

    def allowed(self) -> int:
        """How many threads BLAS has, or had before it was told to be alone."""
        return self.threads if self.users else self._count()

    def _count(self) -> int:
        return max([lib.get_num_threads() for lib in self.libraries()]) if self.libraries() else _processors()

    def _set(self, threads: int) -> None:
        for lib in self.libraries():
            lib.set_num_threads(threads)


def _processors() -> int:
    return len(os.sched_getaffinity(0))


@lru_cache(1)
def _most() -> int:
    value = os.environ.get(_SWITCH, "")
    return int(value) if value.isdigit() and int(value) else _processors()


@lru_cache(1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_most(), "sparkflow-kernel", initializer=_as_in_steps)


def _as_in_steps() -> None:
    np.seterr(all="ignore")  # of this thread: log(0) is -inf and no warning


_blas = _Blas()


class Alone:
    """`with Alone() as threads`: BLAS computes in the thread that asks; it had so many. A generator would take twice as
    long, and each run of a step is inside of one."""

    __slots__ = ()

    def __enter__(self) -> int:
        return _blas.enter(self)

    def __exit__(self, *_: object) -> None:
        _blas.leave(self)


blas_alone = Alone


def blas_in_use() -> bool:
    """Whether it computes in the thread that asks, by `blas_alone`."""
    return bool(_blas.users)


def leave_to_others(whole: int) -> None:
    """BLAS has fewer than these threads since other tasks of the host multiply too; 0: for another reason."""
    _blas.whole = max(_blas.whole, whole) if whole else 0


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has none of its parent's threads


def share(work: Callable[[Sequence[Block]], None], blocks: Sequence[Block], multiplies: bool = True) -> None:
    """work(a run of the blocks) for all of them, in as many threads as there are; the caller does its part.

    `work` must release the GIL where it spends its time and must not call `share`. Raises what `work` raises.
    multiplies: whether it uses BLAS. What fills new memory does not, and takes processors too that BLAS leaves to other
    tasks of the host: while variables are made those mostly wait.
    """
    if len(blocks) < 2 or _most() < 2:
        work(blocks)
        return
    with blas_alone() if multiplies else nullcontext(_blas.whole or _blas.allowed()) as allowed:
        parts = min(_most(), allowed, len(blocks))
        if parts < 2:
            work(blocks)
            return
        length = -(-len(blocks) // (4 * parts))
        left = deque(blocks[at : at + length] for at in range(0, len(blocks), length))

        def drain() -> None:
            while left:
                try:
                    mine = left.popleft()
                except IndexError:  # another thread was faster
                    return
                work(mine)

        others: list[Future[None]] = []
        try:
            for _ in range(parts - 1):
                others.append(_pool().submit(drain))  # those that are there, if it is interrupted
            drain()
        finally:
            left.clear()
            # a thread that the machine had no time for is not waited for; of one that works nobody may be ahead
            started = [other for other in others if not other.cancel()]
            failures = [other.exception() for other in started]
            work = _nothing  # what was cancelled still lies in the pool, and with it would the arrays
        for failure in failures:
            if failure is not None:
                raise failure


def _nothing(blocks: Sequence[Any]) -> None: ...


def allowed() -> int:
    """How many threads a step of this process may keep busy."""
    return min(_most(), _blas.allowed())


def filling() -> int:
    """How many threads may fill new memory: those too that BLAS leaves to other tasks of the host (see `share`)."""
    return min(_most(), _blas.whole or _blas.allowed())


def crew_for(work: int) -> Crew | None:
    """The crew, where it is there, may be used, and `work` (about as many multiplications) pays for the call."""
    return crew if work >= SHARED and crew.ready(allowed()) else None


# Multiplications from which a second thread pays: about 25 us of one for the crew, 100 us for threads of Python.
SHARED, _SHARED_SLOWLY = 1 << 21, 1 << 23
PER_ITEM = 32  # multiplications in the time of one addition


# A few rows by a turned matrix, as in the gradient of a loop: BLAS packs the large matrix again and again by its
# columns, and by its rows when asked for the turned product (32 x 512 by 512 x 192: 66 us, turned and copied 42).
_FEW_ROWS, _LONG = 64, 256


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b of two float matrices of one type; big ones in blocks of rows or columns that depend on shapes alone."""
    (m, k), n = a.shape, b.shape[1]
    if k == 1:  # BLAS takes six times as long
        return np.multiply(a, b, order="C")
    if m * k * n < SHARED or max(m, n) < 64:
        return np.matmul(a, b)
    if m <= _FEW_ROWS and k >= _LONG and n >= 2 * m and b.flags.f_contiguous and not a.flags.f_contiguous:
        return np.ascontiguousarray(product(b.T, a.T).T)
    length, alone = _length(m, n), min(_most(), _blas.allowed()) < 2
    if alone:
        kind = (m, k, n), a.flags.f_contiguous, b.flags.f_contiguous, a.dtype
        # A product that comes once is not worth the question; one by itself, turned, BLAS sums up in another way.
        if next(_uses(*kind)) and _whole_is_same(*kind) and not np.may_share_memory(a, b):
            return np.matmul(a, b)
    mates = None if alone else crew_for(m * k * n)
    if mates is None and not alone and m * k * n >= _SHARED_SLOWLY:
        return _product(a, b, length)
    with nullcontext() if blas_in_use() else blas_alone():
        out = np.empty((m, n), a.dtype)
        room = scratch_at("crew", ROOM_BYTES)
        if mates is not None and mates.multiply(a, b, out, length, room):
            return out
        return in_blocks(a, b, length)


_TILE = 12  # rows: where whole tiles of them make a block, BLAS sums up as in the whole product (see _whole_is_same)


def _length(m: int, n: int) -> int:
    """Of the blocks of rows, or of columns where there are more of them, that make up an m x n product."""
    size = max(m, n)
    length = -(-size // (2 if size < 512 else 4))
    return -(-length // _TILE) * _TILE if m >= n else length


_CHECKED = 1 << 22  # items of a matrix up to which it pays to ask


@lru_cache(256)
def _uses(sizes: tuple[int, int, int], turned_a: bool, turned_b: bool, dtype: Any) -> Iterator[int]:
    """Counts the products of a kind."""
    return itertools.count()


@lru_cache(256)
def _whole_is_same(sizes: tuple[int, int, int], turned_a: bool, turned_b: bool, dtype: Any) -> bool:
    """Whether this processor's BLAS gives a product of these sizes the bits that its blocks have. It does where their
    rows end with a tile (of 12, on processors with AVX2), and one call then saves a single thread a seventh of the
    time."""
    m, k, n = sizes
    if max(m * k, k * n, m * n) > _CHECKED:
        return False
    drawn = np.random.default_rng(0)
    a, b = (
        drawn.random(shape[::-1] if turned else shape, dtype) - dtype.type(0.5)  # all digits, or sums come out exact
        for shape, turned in (((m, k), turned_a), ((k, n), turned_b))
    )
    a, b = a.T if turned_a else a, b.T if turned_b else b
    blocks = in_blocks(a, b, _length(m, n))
    return np.matmul(a, b).tobytes() == blocks.tobytes()


_COPIED, _COPIED_AT_ONCE = 1 << 24, 1 << 21  # bytes


def add_into(held: np.ndarray, value: np.ndarray) -> None:
    """held += value, of one shape and type; large ones in blocks."""
    mates = crew_for(held.size * PER_ITEM)
    if mates is None or not mates.add(held, value, scratch_at("crew", ROOM_BYTES)):
        np.add(held, value, out=held)


def copy_into(held: np.ndarray, value: np.ndarray) -> None:
    """held[...] = value, of one shape and type; large ones by as many threads as there are, which memory alone feeds
    twice as fast as one."""
    if held.nbytes < _COPIED or not (held.flags.c_contiguous and value.flags.c_contiguous):
        np.copyto(held, value, casting="no")
        return
    to, of = held.reshape(-1), value.reshape(-1)

    def work(mine: Sequence[tuple[int, int]]) -> None:
        (first, _), (last, count) = mine[0], mine[-1]
        np.copyto(to[first : last + count], of[first : last + count], casting="no")

    share(work, runs(held.size, _COPIED_AT_ONCE // held.itemsize), multiplies=False)


def _product(a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
    """What in_blocks gives, by threads of Python."""
    m, n = len(a), b.shape[1]
    out, rows = np.empty((m, n), a.dtype), m >= n
    blocks = runs(max(m, n), length)

    def work(mine: Sequence[tuple[int, int]]) -> None:
        for first, count in mine:
            part = slice(first, first + count)
            if rows:
                np.matmul(a[part], b, out=out[part])
            else:
                np.matmul(a, b[:, part], out=out[:, part])

    share(work, blocks)
    return out


_COPIED_BYTES = 1 << 20  # of a block: new pages cost more than the copy, and each thread gets its own


def copied(value: Any, dtype: Any, new: Callable[[tuple[int, ...], Any], np.ndarray] = np.empty) -> np.ndarray:
    """An array of its own, row-major, in several threads where it is large. new: gives its memory."""
    value = np.asarray(value)
    out = new(value.shape, dtype)
    if out.nbytes <= _COPIED_BYTES:
        out[...] = value
        return out

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, rows in blocks:
            out[first : first + rows] = value[first : first + rows]

    share(work, runs(len(out), max(1, _COPIED_BYTES * len(out) // out.nbytes)), multiplies=False)
    return out


def runs(count: int, length: int, first: int = 0) -> list[tuple[int, int]]:
    """(first, count) of the runs, at most `length` long, that make up `count` things."""
    return [(first + at, min(length, count - at)) for at in range(0, count, max(1, length))]


_local = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Uninitialised memory that this thread reuses under `name`: valid until the next call with that name."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    held = _local.__dict__.get(name)
    if held is None or held.size < size:
        held = _local.__dict__[name] = np.empty(size, np.uint8)
    return held[:size].view(dtype).reshape(shape)


def scratch_at(name: str, size: int) -> int:
    """The address of `size` bytes of such memory."""
    key = f"{name} at"
    held = _local.__dict__.get(key)
    if held is None or held[0] < size:
        memory = np.empty(size, np.uint8)
        held = _local.__dict__[key] = (size, memory.ctypes.data, memory)
    return int(held[1])
