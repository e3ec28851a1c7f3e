"""How many steps an epoch has, where workers find out while they train.

In synchronous training all workers must make the same number of steps, and each knows how many rows it has only when
it has read them. It writes that on a board that all see, before it sends the gradient of the last step that it has rows
for; that step is over for nobody before every gradient is there. So after each step whoever has no rows for another one
finds on the board all that the decision needs, and everybody decides alike, in the same step: nothing else is waited
for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sparkflow_connectors.feeding import DROP, JOIN, PAD, Feeder, own_steps
from sparkflow_runtime.wire.errors import InvalidArgumentError

UNKNOWN = -1
NO_FULL_BATCH = "uneven='drop' leaves out batches that are not full"  # errors of tasks arrive as their words


class Kind(Enum):
    """What a worker does in a step."""

    OWN = "trains on a full batch of its own rows"
    REST = "trains on the rows that are left, fewer than a batch"
    AGAIN = "trains on the first rows of its epoch again"
    IDLE = "sends gradients of zero"


@dataclass(frozen=True)
class Board:
    """What all workers see. post(rows, same): this worker's rows to train on, or UNKNOWN, and whether they begin as
    they did before; read(): [workers, 2] of these."""

    post: Callable[[int, bool], None]
    read: Callable[[], np.ndarray]


class Pace:
    """The steps of a worker. together: all workers make the same number (synchronous training of several). any_rows:
    see `check_rows`."""

    def __init__(
        self, feeder: Feeder, board: Board, uneven: str, batch_size: int, together: bool, any_rows: bool = False
    ):
        self._feeder, self._board, self._uneven, self._size = feeder, board, uneven, batch_size
        self._together, self._any_rows, self._posted = together, any_rows, False
        self._steps: int | None = None  # of an epoch, once it is agreed

    @property
    def steps(self) -> int | None:
        """Of an epoch, as far as it is known."""
        return self._steps

    def begin(self, step: int, meet: Callable[[], None]) -> bool:
        """Before the first step: tell the others what is known; whether all workers' rows begin as they did before.

        meet: returns when all workers have called it. Raises InvalidArgumentError where there are too few rows.
        """
        self._own(step, tell=False)
        self._post()
        meet()
        table = self._board.read()
        rows = table[:, 0].tolist()
        check_rows(rows, self._uneven, self._size, self._together, self._any_rows)
        if self._together and UNKNOWN not in rows:
            self._steps = self._common([own_steps(n, self._size, self._uneven) for n in rows])
        return bool(table[:, 1].all())

    def _own(self, step: int, tell: bool = True) -> int | None:
        own = self._feeder.wait(step)
        if own is not None and tell and not self._posted:
            self._post()
        return own

    def _post(self) -> None:
        rows = self._feeder.rows
        self._posted = rows is not None
        self._board.post(UNKNOWN if rows is None else rows, self._feeder.same_rows())

    def over(self, step: int) -> bool:
        """Whether the epoch ends after `step` steps. Asked before each step."""
        if self._steps is None:
            self._steps = self._agreed(step)
        return self._steps is not None and step >= self._steps

    def _agreed(self, step: int) -> int | None:
        own = self._own(step + 1)
        if not self._together:
            return own
        if self._uneven != DROP and (own is None or step < own):
            return None
        rows = self._board.read()[:, 0]
        known = [own_steps(int(n), self._size, self._uneven) for n in rows if n != UNKNOWN]
        decided = known if self._uneven == DROP else len(known) == len(rows)
        return self._common(known) if decided and self._common(known) <= step else None

    def _common(self, steps: Sequence[int]) -> int:
        return min(steps) if self._uneven == DROP else max(steps)

    def kind(self, step: int) -> Kind:
        """What to do in step `step`, the first one being 1."""
        rows = self._feeder.rows
        if rows is None or step * self._size <= rows:
            return Kind.OWN
        left = rows - (step - 1) * self._size
        if self._uneven == JOIN:
            return Kind.REST if left > 0 else Kind.IDLE
        if not rows:
            return Kind.IDLE
        return Kind.OWN if left > 0 else Kind.AGAIN  # the feeder fills the last batch up


def check_rows(
    rows: Sequence[int], uneven: str = PAD, batch_size: int = 1, together: bool = False, any_rows: bool = False
) -> None:
    """Raises InvalidArgumentError where there are too few rows to train on.

    rows: of each worker, by rank; UNKNOWN where there are more than a batch, and it has not read them all. any_rows:
    fewer rows than workers are no mistake.
    """
    if UNKNOWN not in rows and sum(rows) == 0:
        raise InvalidArgumentError("The table is empty: there is no row to train on")
    if UNKNOWN not in rows and sum(rows) < len(rows) and not any_rows:
        raise InvalidArgumentError(f"There are more workers ({len(rows)}) than rows ({sum(rows)}); use fewer workers")
    short = [rank for rank, n in enumerate(rows) if UNKNOWN != n < batch_size]
    if uneven == DROP and short and (together or len(short) == len(rows)):
        said = ", ".join("more" if n == UNKNOWN else str(n) for n in rows)
        raise InvalidArgumentError(
            f"{NO_FULL_BATCH}, and partitions {short} have no full batch of "
            f"{batch_size} rows (rows by worker: {said}). Repartition the table, use smaller batches, or another policy"
        )
