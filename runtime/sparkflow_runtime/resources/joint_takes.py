"""Many accumulators at once: rows that one replica gives all of them, and a take that waits for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.resources.accumulators import Accumulator, Done, SparseAccumulator, Take, deliver
from sparkflow_runtime.wire.errors import AbortedError, OpError


class Together(NamedTuple):
    """Rows of many tables that one replica gave at once, which nobody writes to any more."""

    ids: np.ndarray  # of all, one table's after the other's, as uint64
    rows: np.ndarray  # a vector, likewise
    parts: np.ndarray  # a column for each table: distinct_loops.lay_out
    shapes: Sequence[tuple[int, ...]]  # of a row of each


class Part:
    """What one table's accumulator got of them: a contribution, (indices, values), whose arrays are made when somebody
    asks for them. Tables whose averages are taken together need none (kernels/joint_takes.py)."""

    __slots__ = ("table", "together")

    def __init__(self, together: Together, table: int):
        self.together, self.table = together, table

    def __iter__(self) -> Iterator[np.ndarray]:
        ids, rows, parts, shapes = self.together
        _, begin, count, at, width, end = parts[:, self.table].tolist()
        yield ids[begin:end].view(np.int64)
        yield rows[at : at + count * width].reshape(count, *shapes[self.table])


def add_parts(accumulators: Sequence[SparseAccumulator], local_step: int, together: Together, rank: int) -> None:
    """As apply_rows, of all of them, of rows that have been checked, and no index is there twice. The accumulators'
    shapes are known."""
    ready: list[tuple[Take, list[Any]]] = []
    for table, accumulator in enumerate(accumulators):
        with accumulator._lock:
            if local_step < accumulator.step:
                continue
            accumulator._held.append((rank, Part(together, table)))
            if accumulator._takes and len(accumulator._held) >= accumulator._takes[0].required:
                ready += accumulator._advance()
    deliver(ready)


class JointTake:
    """A take of several accumulators, done when all of them are: done(None, their contributions as they came, each in
    the order of the sum), once.

    Whoever makes the last one ready runs `done`. It ends with the error of the first that fails, and the others then
    wait for nothing. What it was given it lets go when it is over.
    """

    def __init__(self, accumulators: Sequence[Accumulator], required: int, done: Done, step: Any = None):
        accumulators[0].check_required(required)
        self._accumulators, self._done, self._lock = accumulators, done, Lock()
        self._found: list[Any] = [None] * len(accumulators)
        self._left, self._over, self._token = len(accumulators), False, 0
        self._step = step
        self._takes = [Take(required, None, None, self, i) for i in range(len(accumulators))]
        try:
            self._begin()
        except BaseException as error:  # Ctrl-C: it would take the next averages for nobody
            self.failed(AbortedError(f"Interrupted by {type(error).__name__}"))
            raise

    def _begin(self) -> None:
        for accumulator, take in zip(self._accumulators, self._takes):
            accumulator.park(take)
        if self._step is not None and not self._over:
            self._token = self._step.on_cancel(self._cancel, self._describe)
            if self._over:  # completed meanwhile, and saw no token
                self._step.off_cancel(self._token)

    def taken(self, contributions: Sequence[tuple[int, Sequence[Any]]]) -> None:
        """Of some of them, by their numbers."""
        with self._lock:
            if self._over:  # another has failed since theirs were ready
                return
            for number, found in contributions:
                self._found[number] = found
            self._left -= len(contributions)
            if self._left:
                return
            self._over = True
        self._end(None)

    def failed(self, error: OpError) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
        for accumulator, take in zip(self._accumulators, self._takes):
            accumulator.withdraw(take, error, describe=False)
        self._end(error)

    def _end(self, error: OpError | None) -> None:
        if self._token:
            self._step.off_cancel(self._token)
        found, self._found, self._takes = self._found, [], []  # the takes hold this
        self._done(error, found if error is None else ())

    def _describe(self) -> str:
        """The first that waits, for all."""
        return next((a.describe() for a, take in zip(self._accumulators, self._takes) if not take.over), "")

    def _cancel(self, error: OpError) -> None:
        """One of those that wait is described; the others mostly wait for the same replicas."""
        for accumulator, take in zip(self._accumulators, self._takes):
            if not (take.over or self._over):
                accumulator.withdraw(take, error)
