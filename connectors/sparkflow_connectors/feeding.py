"""Rows into the in-graph queue, while they are read and while steps are made of them.

A thread takes the partition's windows as they come and pushes their rows into the queue, whose capacity holds it back;
what holds it back holds back whoever sends the rows. Later epochs come from the spool. How many rows there are is known
when the last window is there, and not before: `Feeder.wait` gives a step its rows or tells how many steps there are.

| uneven | the last batch of a worker | a worker whose rows are used up before another's |
|---|---|---|
| pad | is filled with the first rows of its epoch | goes on with them, in full batches |
| join | is as small as it is | takes part in the others' updates with gradients of zero |
| drop | is left out if it is not full | ends the epoch for all; the others' rows that are left are not used in it |
"""

from __future__ import annotations

import bisect
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkflow_connectors.layout import Block
from sparkflow_connectors.partition import Partition, replay, shuffled
from sparkflow_connectors.windows import Plan, Window
from sparkflow_runtime.wire.errors import CancelledError

UNEVEN = PAD, DROP, JOIN = "pad", "drop", "join"


class Mark(NamedTuple):
    """A point of the first pass by which its rows are known again. train: rows of the epoch before it; crc: of all rows
    of the table before it."""

    train: int
    crc: int


class Start(NamedTuple):
    """Where a worker goes on. mark: what its first pass must have been up to there, where that is known."""

    epoch: int
    step: int
    mark: Mark | None = None


def own_steps(rows: int, batch_size: int, uneven: str) -> int:
    """Steps of an epoch of so many rows, for a worker by itself."""
    return rows // batch_size if uneven == DROP else -(-rows // batch_size)


@dataclass(frozen=True)
class Doors:
    """How rows get into the queue, and how it is closed."""

    enqueue: Callable[[Block], object]
    close: Callable[[], object]


class Feeder(threading.Thread):
    """Feeds the epochs from a start on, then closes the queue.

    keep: rows are needed again after the first pass, even if there is one epoch. A training calls, in this
    order: `start`, `wait` (how many steps are known), `go`; then `wait` before each step of the first epoch, `more` for
    batches beyond its own rows, `epoch_over`; `stop` at the end.
    """

    def __init__(
        self, plan: Plan, partition: Partition, doors: Doors, uneven: str, epochs: int, start: Start, keep: bool = False
    ):
        super().__init__(name="feeder", daemon=True)
        self._plan, self._partition, self._doors = plan, partition, doors
        self._uneven, self._epochs, self._begin = uneven, epochs, start
        # More windows than one may have to be read before it is known where to begin.
        resumed = start[:2] != (0, 0)
        self._kept = keep or epochs > 1 or resumed or plan.validation > 0.5
        self._windows = partition.windows()
        self._pending: Window | None = None  # read, not fed
        self._pending_at = 0  # its first row
        self._changed = threading.Condition()
        self._orders: queue.SimpleQueue[tuple[str, int, int] | None] = queue.SimpleQueue()
        self._seen, self._marks, self._head = 0, list[Mark](), partition.train.layout.empty(0)
        self._at_start = False  # what had to be read before it is known where to begin is read
        self._cut, self.resting = False, threading.Event()
        self.rows: int | None = None  # to train on in an epoch, once they are all read
        self.error: BaseException | None = None

    # ------------------------------------------------------------------ what the training asks

    def wait(self, step: int) -> int | None:
        """Until the first pass has rows for step `step` and one more, or has read all; in that case this worker's own
        steps of an epoch. Raises what ended the pass."""
        if self.rows is None or not self._at_start:
            enough = (step + 1) * self._plan.batch_size
            with self._changed:
                self._changed.wait_for(lambda: self.error or self._has(enough))
        if self.error is not None:
            raise self.error
        return None if self.rows is None else own_steps(self.rows, self._plan.batch_size, self._uneven)

    def _has(self, rows: int) -> bool:
        return self._at_start and (self.rows is not None or self._seen >= rows)

    def mark(self, epoch: int, step: int) -> Mark:
        """By which the rows before that step are known again: the window that has the last of them. Where rows are used
        again, and in an epoch after the first, whose order mixes all rows, the last window."""
        marks = self._marks or [Mark(0, 0)]
        row = marks[-1].train if epoch else min(step * self._plan.batch_size, marks[-1].train)
        return marks[bisect.bisect_left(marks, row, key=lambda m: m.train)]

    def same_rows(self) -> bool:
        """Whether the pass up to the start has given the rows that it gave before. To be asked after `wait`."""
        epoch, step, wanted = self._begin
        if wanted is None or (epoch, step) == (0, 0):
            return True
        marks = self._marks or [Mark(0, 0)]
        # Not "the last one that these steps need": of an asynchronous worker the place may be saved after the mark.
        return wanted in (marks[-1:] if epoch else marks)

    def go(self, epoch: int, step: int) -> None:
        """Begin to feed there."""
        self._orders.put(("go", epoch, step))

    def more(self) -> None:
        """One batch more in the first epoch, after its own rows."""
        self._orders.put(("more", 0, 0))

    def epoch_over(self, steps: int) -> None:
        """The first epoch fed is over. steps: of each of the others (with `join`, of this worker)."""
        self._orders.put(("over", steps, 0))

    def cut(self) -> None:
        """Feed no more in this epoch, but read on; `resting` is set when that is so."""
        self._cut = True

    def stop(self) -> None:
        self._cut = True
        self._orders.put(None)

    def filler(self) -> Block:
        """A batch to put in the place of rows where a worker has none: the table's first rows, again and again."""
        size = self._plan.batch_size
        head = self._head
        if not len(head[0]):
            return self._partition.train.layout.zeros(size)
        return [array.take(range(size), axis=0, mode="wrap") for array in head]

    # ------------------------------------------------------------------ the thread

    def run(self) -> None:
        try:
            self._read_up_to_the_start()
            with self._changed:
                self._at_start = True
                self._changed.notify_all()
            self._feed_epochs()
            self._doors.close()
        except (CancelledError, _Stopped):
            pass  # training ended first (early stopping, or an error that is reported where it arose)
        except Exception as error:  # whatever it is, a step waits for the rows
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.error = error
            self._changed.notify_all()
        with suppress(CancelledError):  # another error has ended the session
            self._doors.close()

    def _read_up_to_the_start(self) -> None:
        """The first pass as far as its rows were used before, and those of the step that comes next."""
        epoch, step, mark = self._begin
        if epoch >= self._epochs:
            return
        if self._kept:
            self._partition.keep()
        if epoch:
            self._read_the_rest()
        wanted = max((step + 1) * self._plan.batch_size, mark.train if mark is not None else 0)
        while self._seen < wanted and self.rows is None:
            self._read()

    def _read(self) -> Window | None:
        """The next window of the pass."""
        self._pending_at, self._pending = self._seen, next(self._windows, None)
        window = self._pending
        with self._changed:
            if window is not None:
                train = sum(len(block[0]) for block in window.train)
                for block in window.train:
                    self._remember(block)
                self._seen += train
                self._marks.append(Mark(self._seen, window.crc))
            if window is None or window.last:
                self.rows = self._seen
            self._changed.notify_all()
        return window

    def _remember(self, block: Block) -> None:
        """The first rows of all, for one batch."""
        have = len(self._head[0])
        if have < self._plan.batch_size:
            more = [a[: self._plan.batch_size - have] for a in block]
            self._head = [np.concatenate(both) for both in zip(self._head, more)]

    def _feed_epochs(self) -> None:
        _, epoch, step = self._order()
        steps = -1
        for number in range(epoch, self._epochs):
            first = step * self._plan.batch_size if number == epoch else 0
            steps = self._first_epoch(number, first) if number == epoch else self._feed(number, steps)

    def _order(self) -> tuple[str, int, int]:
        found = self._orders.get()
        if found is None:
            raise _Stopped
        return found

    def _first_epoch(self, epoch: int, first: int) -> int:
        """Feed it as far as this worker's own rows go, then as it is told; the steps of each later epoch."""
        if epoch:
            self._read_the_rest()
        size, at = self._plan.batch_size, first
        at = self._push(self._own_rows(epoch, first), at)
        self._read_the_rest()
        fill = -at % size if self._uneven == PAD and self._seen else 0
        self.resting.set()
        while True:
            at = self._push(self._again(epoch, at, fill), at)
            what, steps, _ = self._order()
            if what == "over":
                self._cut = False
                return steps
            fill = size

    def _own_rows(self, epoch: int, first: int) -> Iterator[Block]:
        return self._as_read(first) if epoch == 0 else shuffled(self._partition.train, self._plan, epoch, first)

    def _as_read(self, first: int) -> Iterator[Block]:
        """The first pass from row `first` on: what was passed already, then what comes."""
        if first < self._pending_at:
            yield from _up_to(replay(self._partition.train, first), self._pending_at - first)
            first = self._pending_at
        while self._pending is not None:
            skip = max(first - self._pending_at, 0)
            for block in self._pending.train:
                n = len(block[0])
                if skip < n:
                    yield [array[skip:] for array in block]
                skip = max(skip - n, 0)
            self._read()

    def _read_the_rest(self) -> None:
        while self.rows is None or self._pending is not None:
            self._read()

    def _again(self, epoch: int, at: int, count: int) -> Iterator[Block]:
        """`count` rows beyond the epoch's end: its first ones again. at: the row of the epoch that comes next."""
        while count > 0 and self._seen:
            start = at % self._seen
            got = min(count, self._seen - start)
            yield from _up_to(self._once_more(epoch, start, got), got)
            at, count = at + got, count - got

    def _once_more(self, epoch: int, start: int, count: int) -> Iterator[Block]:
        train = self._partition.train
        if epoch:
            return shuffled(train, self._plan, epoch, start)
        if start + count <= len(self._head[0]):
            return iter([[array[start:] for array in self._head]])
        return replay(train, start)

    def _feed(self, epoch: int, steps: int) -> int:
        """A later epoch, whose steps are known; the same number."""
        end = self._seen if self._uneven == JOIN else steps * self._plan.batch_size
        at = self._push(_up_to(self._own_rows(epoch, 0), end), 0)
        if self._uneven == PAD:
            self._push(self._again(epoch, at, end - at), at)
        return steps

    def _push(self, blocks: Iterator[Block], at: int) -> int:
        """Into the queue, in parts that end where batches do. at: the first row's place in the epoch, and after it."""
        span = self._plan.push_rows
        for block in blocks:
            n, start = len(block[0]), 0
            while start < n and not self._cut:
                stop = min(n, start + span - (at + start) % span)
                self._doors.enqueue([array[start:stop] for array in block])
                start = stop
            at += start
            if self._cut:
                break
        return at


class _Stopped(Exception):
    """Nobody wants rows any more."""


def _up_to(blocks: Iterator[Block], count: int) -> Iterator[Block]:
    """The first `count` rows."""
    for block in blocks:
        if count <= 0:
            return
        yield [array[:count] for array in block]
        count -= len(block[0])
