"""The feeder: what rows it gives to which step, from any start, whatever the partition's size."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparkflow_connectors.feeding import DROP, JOIN, PAD, Doors, Feeder, Mark, Start
from sparkflow_connectors.layout import Block, Piece
from sparkflow_connectors.partition import OwnPartition
from sparkflow_runtime.wire.errors import CancelledError, InvalidArgumentError
from tests.connectors.test_windows import LAYOUT, PLAN, ids, pieces

END, BEGIN = -1, Start(0, 0)


class Drawn:
    """A queue of row numbers of bounded size in the place of the in-graph one."""

    def __init__(self) -> None:
        self._rows: queue.Queue[int] = queue.Queue(PLAN.queue_rows)
        self.closed = False

    def enqueue(self, rows: Block) -> None:
        assert len(rows[0]) <= PLAN.push_rows
        for i in ids(rows):
            if self.closed:
                raise CancelledError("closed")
            self._rows.put(i)

    def close(self) -> None:
        self._rows.put(END)

    def take(self, n: int) -> list[int]:
        return [self._rows.get(timeout=10) for _ in range(n)]

    def left(self) -> list[int]:
        return [self._rows.get_nowait() for _ in range(self._rows.qsize())]


@contextmanager
def feeding(
    rows: int, uneven: str, epochs: int, start: Start = BEGIN, source: Iterator[Piece] | None = None
) -> Iterator[tuple[Feeder, Drawn]]:
    drawn = Drawn()
    partition = OwnPartition(PLAN, LAYOUT, pieces(rows) if source is None else source)
    feeder = Feeder(PLAN, partition, Doors(drawn.enqueue, drawn.close), uneven, epochs, start, keep=True)
    feeder.start()
    try:
        yield feeder, drawn
    finally:
        drawn.closed = True
        feeder.stop()
        while feeder.is_alive():
            drawn.left()
            feeder.join(0.01)
        partition.close()


def epochs_of(rows: int, uneven: str, epochs: int, steps: int, start: Start = BEGIN) -> list[list[int]]:
    """What each epoch's steps get: `steps` of them, as if another worker had so many."""
    size, found = PLAN.batch_size, []
    with feeding(rows, uneven, epochs, start) as (feeder, drawn):
        feeder.wait(start.step)
        assert feeder.same_rows()
        feeder.go(start.epoch, start.step)
        for epoch in range(start.epoch, epochs):
            first = epoch == start.epoch
            got = []
            for step in range(start.step if first else 0, steps):
                own = feeder.wait(step + 1)
                left = PLAN.batch_size if own is None else (feeder.rows or 0) - step * size
                if uneven == JOIN:
                    got += drawn.take(max(min(left, size), 0))
                    continue
                if left <= 0 and first:
                    feeder.more()
                got += drawn.take(size)
            found.append(got)
            if first:
                if uneven == DROP:
                    feeder.cut()
                    while not feeder.resting.wait(0.01):
                        drawn.left()
                    drawn.left()
                feeder.epoch_over(steps)
        assert drawn.take(1) == [END]
    return found


def train_rows(rows: int) -> int:
    return rows - PLAN.held(rows)


@pytest.mark.parametrize("rows", [3, 8, 64, 130, 500])
def test_join_uses_each_row_once_in_each_epoch(rows: int) -> None:
    epochs = epochs_of(rows, JOIN, 3, steps=70)
    assert all(sorted(e) == sorted(epochs[0]) and len(set(e)) == train_rows(rows) for e in epochs)
    assert rows < 8 or len({tuple(e) for e in epochs}) == 3


@pytest.mark.parametrize("rows", [3, 64, 130, 500])
def test_pad_goes_on_with_the_first_rows_of_the_epoch(rows: int) -> None:
    for got in epochs_of(rows, PAD, 3, steps=70):
        n = train_rows(rows)
        assert len(set(got[:n])) == n and len(got) == 70 * PLAN.batch_size
        assert got[n:] == [got[i % n] for i in range(n, len(got))]


@pytest.mark.parametrize("steps", [1, 11, 16])
def test_drop_leaves_no_row_to_the_next_epoch(steps: int) -> None:
    epochs = epochs_of(150, DROP, 3, steps)
    assert [len(set(e)) for e in epochs] == [steps * PLAN.batch_size] * 3


@pytest.mark.parametrize("uneven", [PAD, JOIN])
@pytest.mark.parametrize(("epoch", "step"), [(0, 1), (0, 8), (0, 16), (0, 17), (0, 20), (1, 0), (1, 9), (2, 19)])
def test_a_resumed_worker_gets_the_rows_that_it_would_have_had(uneven: str, epoch: int, step: int) -> None:
    whole = epochs_of(150, uneven, 3, 20)
    with feeding(150, uneven, 3) as (feeder, _):
        feeder.wait(0)
        feeder.go(0, 0)
        while feeder.rows is None:
            _.take(1)
        mark = feeder.mark(epoch, step)
    found = epochs_of(150, uneven, 3, 20, Start(epoch, step, mark))
    assert found[0] == whole[epoch][step * PLAN.batch_size :] and found[1:] == whole[epoch + 1 :]


@pytest.mark.parametrize("epoch", [0, 1])
def test_rows_in_another_order_are_noticed_and_the_epoch_begins_again(epoch: int) -> None:
    with feeding(150, JOIN, 2, Start(epoch, 3, Mark(128, 12345))) as (feeder, drawn):
        feeder.wait(3)
        assert not feeder.same_rows()
        feeder.go(epoch, 0)
        assert len(set(drawn.take(135))) == 135


def mark_of(rows: int, epoch: int, step: int, start: Start = BEGIN) -> Mark:
    """By which the first `rows` rows are known again there, in a training that began at `start`."""
    with feeding(rows, JOIN, 3, start) as (feeder, drawn):
        feeder.wait(start.step)
        feeder.go(start.epoch, start.step)
        while feeder.rows is None:
            drawn.take(1)
        return feeder.mark(epoch, step)


def goes_on(rows: int, start: Start) -> bool:
    with feeding(rows, JOIN, 3, start) as (feeder, _):
        feeder.wait(start.step)
        return feeder.same_rows()


@pytest.mark.parametrize("before", [128, 150], ids=["whole windows", "a part of one"])
def test_a_table_that_has_grown_has_another_order_in_later_epochs(before: int) -> None:
    """Also where the training has been resumed in that epoch before."""
    first = mark_of(before, 1, 3)
    assert mark_of(before, 1, 3, Start(1, 3, first)) == first
    assert goes_on(before, Start(1, 3, first)) and not goes_on(200, Start(1, 3, first))


def test_rows_that_were_added_are_used_in_the_first_epoch() -> None:
    assert goes_on(200, Start(0, 3, mark_of(128, 0, 3)))


def test_a_place_that_was_saved_after_its_mark_is_gone_on_from() -> None:
    """An asynchronous worker makes steps while its chief saves, the mark on one server and the place on another."""
    assert goes_on(200, Start(0, 18, mark_of(200, 0, 3)))


def test_rows_of_a_worker_that_had_none_are_new() -> None:
    nothing = mark_of(0, 0, 3)
    assert goes_on(0, Start(0, 3, nothing)) and not goes_on(100, Start(0, 3, nothing))


def test_a_failing_source_is_raised_by_the_next_step() -> None:
    def broken() -> Iterator[Piece]:
        yield from pieces(100)
        raise InvalidArgumentError("Column 'a' is null at row 100")

    with feeding(0, JOIN, 1, source=broken()) as (feeder, drawn):
        assert feeder.wait(0) is None
        feeder.go(0, 0)
        drawn.take(40)
        with pytest.raises(InvalidArgumentError, match="null at row 100"):
            feeder.wait(9)


def test_an_error_of_the_source_after_the_session_has_ended() -> None:
    """Another error has ended it: the thread ends too, and does not raise another one."""

    def broken() -> Iterator[Piece]:
        raise InvalidArgumentError("damaged")
        yield from ()

    def close() -> None:
        raise CancelledError("Session has been closed.")

    partition = OwnPartition(PLAN, LAYOUT, broken())
    feeder = Feeder(PLAN, partition, Doors(lambda rows: None, close), PAD, 1, BEGIN, keep=False)
    feeder.run()
    assert isinstance(feeder.error, InvalidArgumentError)
    partition.close()


@pytest.mark.parametrize("kind", [TypeError, KeyError, MemoryError])
def test_whatever_ends_the_reading_reaches_who_waits_for_rows(kind: type[Exception]) -> None:
    def broken() -> Iterator[Piece]:
        yield from pieces(100)
        raise kind("row 100")

    with feeding(0, JOIN, 1, source=broken()) as (feeder, drawn):
        feeder.wait(0)
        feeder.go(0, 0)
        drawn.take(40)
        with pytest.raises(kind, match="row 100"):
            feeder.wait(9)


def test_a_slow_consumer_holds_the_source() -> None:
    asked = []

    def counted() -> Iterator[Piece]:
        for i, piece in enumerate(pieces(5000)):
            asked.append(i)
            yield piece

    with feeding(0, JOIN, 1, source=counted()) as (feeder, drawn):
        feeder.wait(0)
        feeder.go(0, 0)
        drawn.take(8)
        feeder.join(0.3)
        assert 10 * len(asked) <= PLAN.queue_rows + 3 * PLAN.window_rows


def test_a_worker_without_rows() -> None:
    with feeding(0, PAD, 2) as (feeder, drawn):
        assert feeder.wait(0) == 0
        feeder.go(0, 0)
        feeder.epoch_over(4)
        assert drawn.take(1) == [END]
        assert [a.shape for a in feeder.filler()] == [(8,), (8, 2), (8,)]
