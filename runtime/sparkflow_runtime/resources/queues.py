"""Queue: rows handed from step to step, with waiting that never holds a thread.

An operation that cannot proceed is parked in its line, enqueues and closes in one, dequeues in the other, and is
completed by whichever thread makes room or brings rows. Lines are strictly first come, first served. A dequeue takes
its rows all at once, so a cancelled one loses none; only one that asks for more than the queue can ever hold collects
them in pieces, and gives them back if it ends early.

`done(error, outputs)` and the step's hooks are called outside the lock: they may run other steps, which may come back.

`try_*` complete an operation that nobody is ahead of and that has its rows or its room, without a waiter and its line:
most operations of a queue that is neither empty nor full. They return None where that is not so, and have done nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from sparkflow_runtime.resources.convoys import take
from sparkflow_runtime.resources.queue_elements import Elements, QueueSpec
from sparkflow_runtime.resources.queue_stores import Block
from sparkflow_runtime.resources.row_copies import copied
from sparkflow_runtime.resources.shuffle_rows import ShuffleLoops
from sparkflow_runtime.wire.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
)

Done = Callable[[OpError | None, Sequence[Any]], None]
_UNLIMITED = 2**31 - 1
_NOT_WATCHED = object()


class _Waiter:
    """An operation in a line. `over` is set once, under the queue's lock, by whoever completes it."""

    __slots__ = ("done", "over", "step", "token")

    def __init__(self, done: Done, step: Any):
        self.done, self.step = done, step
        self.over, self.token = False, _NOT_WATCHED


class _Put(_Waiter):
    __slots__ = ("left", "owned", "rows")

    def __init__(self, rows: Block, owned: bool, done: Done, step: Any):
        super().__init__(done, step)
        self.rows, self.owned, self.left = rows, owned, len(rows[0])

    def next(self, n: int) -> Block:
        """The first n rows that are left."""
        head, self.left = self.rows, self.left - n
        if self.left:
            head, self.rows = [c[:n] for c in head], [c[n:] for c in head]
        return head

    def own(self) -> None:
        if not self.owned:
            self.rows, self.owned = [copied(c) for c in self.rows], True


class _Close(_Waiter):
    __slots__ = ()


class _Get(_Waiter):
    __slots__ = ("got", "left", "requested", "single", "up_to")

    def __init__(self, requested: int, single: bool, up_to: bool, done: Done, step: Any):
        super().__init__(done, step)
        self.requested = self.left = requested
        self.single, self.up_to = single, up_to
        self.got: list[Block] = []


class Queue:
    """A queue of rows in the order of its kind; thread-safe. The module docstring says how it waits.

    loops: compiled ones for a shuffling queue, numpy's by default.
    """

    def __init__(self, name: str, spec: QueueSpec, loops: ShuffleLoops | None = None):
        self.name, self.spec = name, spec
        self._capacity = spec.capacity if spec.capacity >= 0 else _UNLIMITED
        self._floor = spec.min_after_dequeue
        if self._floor and self._floor >= self._capacity:
            raise InvalidArgumentError(
                f"{self}: min_after_dequeue {self._floor} must be less than its capacity {self._capacity}, else "
                "none gets out"
            )
        self._store = spec.store(loops)
        self._elements = Elements(str(self), spec, copies=self._store.keeps)
        self._lock = Lock()
        self._puts: deque[_Waiter] = deque()
        self._gets: deque[_Get] = deque()
        self._closed = False

    # ------------------------------------------------------------------ operations

    @property
    def size(self) -> int:
        return self._store.size

    @property
    def closed(self) -> bool:
        return self._closed

    def __str__(self) -> str:
        return f"{self.spec.kind} '{self.name}'"

    def describe(self) -> str:
        """For errors: which queue, how full, who waits."""
        with self._lock:
            state = "closed" if self._closed else "open"
            limit = "none" if self.spec.capacity < 0 else self._capacity
            floor = f", min_after_dequeue {self._floor}" if self._floor else ""
            return (
                f"{self} is {state}: size {self.size}, capacity {limit}{floor}, "
                f"{len(self._puts)} enqueues and {len(self._gets)} dequeues waiting"
            )

    def enqueue(self, components: Sequence[Any], done: Done, step: Any = None) -> None:
        """Put one element in. Raises InvalidArgumentError where its dtypes or shapes are not the queue's."""
        self._put(self._elements.one(components), done, step)

    def try_enqueue(self, components: Sequence[Any]) -> tuple[()] | None:
        return self._try_put(self._elements.one(components))

    def enqueue_many(self, components: Sequence[Any], done: Done, step: Any = None) -> None:
        """Put rows in, in pieces where there is not room for all. components: arrays of the same first size."""
        self._put(self._elements.rows(components), done, step)

    def try_enqueue_many(self, components: Sequence[Any]) -> tuple[()] | None:
        return self._try_put(self._elements.rows(components))

    def dequeue(self, done: Done, step: Any = None) -> None:
        """Take one element: one array a component."""
        self._submit(_Get(1, True, False, done, step), self._gets)

    def try_dequeue(self) -> list[Any] | None:
        block = self._try_take(1)
        return None if block is None else self._elements.single(block)

    def dequeue_many(self, n: int, done: Done, step: Any = None, up_to: bool = False) -> None:
        """Take n elements, stacked; with up_to, what is left once the queue is closed. OutOfRangeError when
        that is too few. A priority queue never gives less, as TensorFlow's does not."""
        self._check_many(n)
        if not n:  # which needs no turn behind those that wait
            done(None, self._elements.none)
            return
        up_to = up_to and self.spec.kind != "PriorityQueue"
        self._submit(_Get(n, False, up_to, done, step), self._gets)

    def try_dequeue_many(self, n: int) -> list[Any] | None:
        self._check_many(n)
        return self._try_take(n) if n else self._elements.none

    def _check_many(self, n: int) -> None:
        if n < 0:
            raise InvalidArgumentError(f"{self}: cannot dequeue {n} elements, n must be 0 or more")
        if self.spec.shapes is None:
            raise InvalidArgumentError(
                f"{self}: dequeue_many and dequeue_up_to need components with specified shapes; give `shapes` "
                "when you make it"
            )

    def close(self, cancel_pending: bool = False, done: Done | None = None, step: Any = None) -> None:
        """No more enqueues: after those that wait already, or at once, cancelling them, with cancel_pending."""
        done = done or _ignore
        if not cancel_pending:
            self._submit(_Close(done, step), self._puts)
            return
        with self._lock:
            self._closed = True
            ready: list[Any] = []
            while self._puts:
                put = self._puts.popleft()
                cancelled = CancelledError(f"{self}: the enqueue was cancelled, since the queue was closed")
                self._finish(ready, put, None if isinstance(put, _Close) else cancelled)
            self._advance(ready)
        _deliver(ready)
        done(None, ())

    # ------------------------------------------------------------------ elements

    def _put(self, rows: Block, done: Done, step: Any) -> None:
        if not len(rows[0]):
            done(None, ())
            return
        owned = self._store.keeps or self.spec.shapes is None
        self._submit(_Put(self._elements.kept(rows), owned, done, step), self._puts)

    def _outputs(self, get: _Get, block: Block) -> list[Any]:
        if get.got:
            block = self._store.join([*get.got, block])
        return self._elements.single(block) if get.single else block

    # ------------------------------------------------------------------ at once

    def _has_room(self, n: int) -> bool:
        """For n rows, with nobody ahead."""
        return not self._puts and not self._closed and n <= self._capacity - self._store.size

    def _try_put(self, rows: Block) -> tuple[()] | None:
        n = len(rows[0])
        if not n:
            return ()
        if not self._has_room(n):  # a look without the lock, before the copy
            return None
        rows = self._elements.kept(rows)
        ready: list[Any] = []
        held: list[bool] = []
        try:
            take(self._lock, held)
            if not self._has_room(n):
                return None
            self._store.put(rows)
            if self._gets:
                self._advance(ready)
        finally:
            if True in held:
                self._lock.release()
        _deliver(ready)
        return ()

    def _try_take(self, n: int) -> Block | None:
        ready: list[Any] = []
        held: list[bool] = []
        try:
            take(self._lock, held)
            if self._gets or n > (self.size if self._closed else self.size - self._floor):
                return None
            block = self._taken(n)
            if self._puts:
                self._advance(ready)
        finally:
            if True in held:
                self._lock.release()
        _deliver(ready)
        return block

    # ------------------------------------------------------------------ lines

    def _submit(self, waiter: _Waiter, line: deque[Any]) -> None:
        ready: list[Any] = []
        held: list[bool] = []
        try:
            take(self._lock, held)
            line.append(waiter)
            self._advance(ready)
            parked = not waiter.over
            if parked and isinstance(waiter, _Put):
                waiter.own()
        finally:
            if True in held:
                self._lock.release()
        _deliver(ready)
        if parked and waiter.step is not None:
            self._watch(waiter, line)

    def _watch(self, waiter: _Waiter, line: deque[Any]) -> None:
        token = waiter.step.on_cancel(lambda error: self._withdraw(waiter, line, error), self.describe)
        held: list[bool] = []
        try:
            take(self._lock, held)
            waiter.token = token
            over = waiter.over
        finally:
            if True in held:
                self._lock.release()
        if over:  # completed before it was watched: its completer saw no token
            waiter.step.off_cancel(token)

    def _withdraw(self, waiter: _Waiter, line: deque[Any], error: OpError) -> None:
        """The waiter's step was cancelled: take it out of its line, as if it had never come."""
        if isinstance(error, DeadlineExceededError) and str(self) not in error.message:
            error.message = f"{error.message}. {self.describe()}"
        with self._lock:
            if waiter.over:
                return
            waiter.over = True
            line.remove(waiter)
            if isinstance(waiter, _Get):
                self._give_back(waiter)
            ready: list[Any] = []
            self._advance(ready)
        _deliver(ready)
        waiter.done(error, ())

    def _give_back(self, get: _Get) -> None:
        for block in reversed(get.got):
            self._store.put_back(block)
        get.got.clear()

    @staticmethod
    def _finish(ready: list[Any], waiter: _Waiter, error: OpError | None, outputs: Sequence[Any] = ()) -> None:
        waiter.over = True
        ready.append((waiter, error, outputs))

    def _advance(self, ready: list[Any]) -> None:
        """Complete what can be completed, now that a line or the rows have changed. The caller holds the lock."""
        while (self._puts and self._advance_puts(ready)) or (self._gets and self._advance_gets(ready)):
            pass

    def _advance_puts(self, ready: list[Any]) -> bool:
        moved = False
        while self._puts:
            put = self._puts[0]
            if isinstance(put, _Close):
                twice = CancelledError(f"Queue '{self.name}' is already closed.")
                self._finish(ready, put, twice if self._closed else None)
                self._closed = True
            elif isinstance(put, _Put):
                if put.left and self._closed:
                    self._finish(ready, put, CancelledError(f"{self} is closed."))
                else:
                    n = min(put.left, self._capacity - self.size)
                    if n > 0:
                        self._store.put(put.next(n))
                        moved = True
                    if put.left:
                        break
                    self._finish(ready, put, None)
            self._puts.popleft()
            moved = True
        return moved

    def _advance_gets(self, ready: list[Any]) -> bool:
        moved = False
        while self._gets:
            get = self._gets[0]
            free = max(0, self.size if self._closed else self.size - self._floor)
            if get.left <= free:
                self._finish(ready, get, None, self._outputs(get, self._taken(get.left)))
            elif self._closed:
                self._give_back(get)
                self._end(ready, get)
            else:
                if free and get.left > self._capacity - self._floor:
                    get.got.append(self._taken(free))
                    get.left -= free
                    moved = True
                break
            self._gets.popleft()
            moved = True
        return moved

    def _taken(self, n: int) -> Block:
        return self._store.take(n) if n else self._elements.none

    def _end(self, ready: list[Any], get: _Get) -> None:
        """The queue is closed and has less than `get` asks for."""
        if get.up_to and self.size:
            self._finish(ready, get, None, self._outputs(get, self._taken(self.size)))
            return
        text = f"{self} is closed and has insufficient elements (requested {get.requested}, current size {self.size})"
        self._finish(ready, get, OutOfRangeError(text))


def _deliver(ready: list[tuple[_Waiter, OpError | None, Sequence[Any]]]) -> None:
    for waiter, error, outputs in ready:
        if waiter.token is not _NOT_WATCHED:
            waiter.step.off_cancel(waiter.token)
        waiter.done(error, outputs)


def _ignore(error: OpError | None, outputs: Sequence[Any]) -> None:
    """The `done` of a close that nobody waits for."""
