"""How workers find out together, while they train, when an epoch ends."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from sparkflow_connectors.feeding import DROP, JOIN, PAD, own_steps
from sparkflow_connectors.pace import UNKNOWN, Board, Kind, Pace
from sparkflow_runtime.wire.errors import InvalidArgumentError

SIZE, AHEAD = 4, 8


class Rows:
    """A feeder of so many rows, that knows their number AHEAD rows before their end."""

    def __init__(self, rows: int, uneven: str):
        self._all, self._uneven = rows, uneven
        self.rows: int | None = None

    def wait(self, step: int) -> int | None:
        if (step + 1) * SIZE + AHEAD > self._all:
            self.rows = self._all
        return None if self.rows is None else own_steps(self.rows, SIZE, self._uneven)

    def same_rows(self) -> bool:
        return True


def run(counts: list[int], uneven: str, epochs: int = 2) -> tuple[list[list[int]], list[list[Kind]]]:
    """Steps of each epoch, and what was done in them, by worker. A step is a barrier, as synchronous training is."""
    board = np.full((len(counts), 2), UNKNOWN, np.int64)
    barrier = threading.Barrier(len(counts))
    steps: list[list[int]] = [[] for _ in counts]
    kinds: list[list[Kind]] = [[] for _ in counts]
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        feeder: Any = Rows(counts[rank], uneven)

        def post(rows: int, same: bool) -> None:
            board[rank] = rows, same

        pace = Pace(feeder, Board(post, board.copy), uneven, SIZE, together=True)
        try:
            pace.begin(0, lambda: barrier.wait(10) and None)
            for _ in range(epochs):
                step = 0
                while not pace.over(step):
                    step += 1
                    kinds[rank].append(pace.kind(step))
                    barrier.wait(10)
                steps[rank].append(step)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return steps, kinds


CASES = [[20, 20], [20, 3], [3, 20], [41, 40, 39], [100, 0], [0, 100, 50], [1, 1], [8, 9], [16, 12, 1]]


@pytest.mark.parametrize("counts", CASES)
@pytest.mark.parametrize("uneven", [PAD, JOIN])
def test_all_workers_make_as_many_steps_as_the_largest_needs(counts: list[int], uneven: str) -> None:
    steps, kinds = run(counts, uneven)
    assert steps == [[-(-max(counts) // SIZE)] * 2] * len(counts)
    for n, done in zip(counts, kinds):
        own = -(-n // SIZE)
        first = done[: len(done) // 2]
        assert set(first[own:]) <= {Kind.IDLE if uneven == JOIN or not n else Kind.AGAIN}
        assert (Kind.REST in first) == (uneven == JOIN and n % SIZE > 0)


@pytest.mark.parametrize("counts", [c for c in CASES if min(c) >= SIZE])
def test_drop_ends_with_the_first(counts: list[int]) -> None:
    steps, kinds = run(counts, DROP)
    assert steps == [[min(counts) // SIZE] * 2] * len(counts)
    assert {k for done in kinds for k in done} == {Kind.OWN}


@pytest.mark.parametrize(
    ("counts", "uneven", "message"),
    [
        ([0, 0], PAD, "is empty"),
        ([1, 0], JOIN, "more workers"),
        ([9, 3], DROP, r"partitions \[1\] have no full batch of 4 rows \(rows by worker: 9, 3\)"),
    ],
)
def test_too_few_rows_are_refused(counts: list[int], uneven: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(counts, uneven)


@pytest.mark.parametrize("uneven", [PAD, JOIN, DROP])
def test_a_worker_by_itself_makes_its_own_steps(uneven: str) -> None:
    pace = Pace(Rows(10, uneven), Board(lambda rows, same: None, lambda: np.zeros((2, 2))), uneven, SIZE, False)  # type: ignore[arg-type]
    steps = 0
    while not pace.over(steps):
        steps += 1
    assert steps == (2 if uneven == DROP else 3)
