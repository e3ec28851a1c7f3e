"""A worker's partition: its first pass, which spools it, and what is read again afterwards.

The pass is made in the worker's own process where the rows come to it (Spark's tasks, files), and in the process that
has the rows where that is another one (Dask, local tables): then the spool's file is what joins the two, and the
worker follows the pass by lines of JSON that tell what was appended.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from sparkflow_connectors.layout import Block, Layout, Piece
from sparkflow_connectors.spool import Place, Spool
from sparkflow_connectors.windows import Plan, Window, Windows, later_epoch, taken
from sparkflow_runtime.wire.errors import UnavailableError, from_dict, to_dict

_LOOK_EVERY_S = 0.5


class Partition(Protocol):
    """A worker's rows. `windows` is gone through once, by one thread; what it has passed is in the spools.

    train: rows of the first epoch in its order, if it is kept. held: rows for validation.
    """

    train: Spool
    held: Spool

    def keep(self) -> None:
        """From now on `train` is written: it is needed again."""

    def windows(self) -> Iterator[Window]: ...

    def close(self) -> None: ...


class OwnPartition:
    """The pass is made here. pieces: the rows as they come."""

    def __init__(self, plan: Plan, layout: Layout, pieces: Iterable[Piece], directory: str | None = None):
        self.train, self.held = (Spool(layout, directory=directory) for _ in range(2))
        self._plan, self._kept = plan, False
        self._windows = Windows(plan, layout)(pieces)

    def keep(self) -> None:
        self._kept = True

    def windows(self) -> Iterator[Window]:
        for window in self._windows:
            if self._kept:
                _appended(self.train, window.train, self._plan.block_rows)
            _appended(self.held, [window.held], self._plan.window_rows)
            yield window

    def close(self) -> None:
        self.train.close()
        self.held.close()


def _appended(spool: Spool, parts: Iterable[Block], block_rows: int) -> list[Place]:
    """Write rows in blocks of about `block_rows`."""
    places = []
    for rows in parts:
        n = len(rows[0])
        cuts = np.linspace(0, n, max(round(n / block_rows), 1) + 1).astype(int).tolist()
        places += [spool.append([array[a:b] for array in rows]) for a, b in pairwise(cuts) if b > a]
    return places


# ---------------------------------------------------------------------- a pass that another process makes


class Handover:
    """The making side: runs the pass and tells of it in lines, which the other process reads."""

    def __init__(self, plan: Plan, layout: Layout, directory: str | None = None):
        self._train, self._held = (Spool(layout, directory=directory) for _ in range(2))
        self._plan, self._layout = plan, layout
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._over = threading.Event()
        self.fds = (self._train.fd, self._held.fd, self._reading)
        """What the other process is given: of the rows to train on, of the others, and of the lines."""

    def given(self) -> None:
        """The other process has its own end of the lines; this one's would keep them open after its death."""
        os.close(self._reading)

    def run(self, pieces: Iterable[Piece]) -> None:
        """The whole pass. What goes wrong in it is told to the other process, where it ends the training."""
        try:
            self._pass(pieces)
        except BrokenPipeError:
            pass  # the worker has ended: it says why
        except Exception as error:
            with suppress(BrokenPipeError):
                self._say({"error": to_dict(error)})
        finally:
            self._end_lines()

    def _end_lines(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def _pass(self, pieces: Iterable[Piece]) -> None:
        for window in Windows(self._plan, self._layout)(pieces):
            told = {"train": _appended(self._train, window.train, self._plan.block_rows)}
            told["held"] = _appended(self._held, [window.held], self._plan.window_rows)
            self._say({**told, "rows": window.rows, "crc": window.crc, "last": window.last})
        self._say({"end": True})

    def _say(self, fields: dict[str, Any]) -> None:
        """Raises BrokenPipeError when nobody reads on. What the other process forked may hold its end open for ever."""
        line, room = memoryview(json.dumps(fields).encode() + b"\n"), select.poll()
        room.register(self._writing, select.POLLOUT)
        while line:
            if self._over.is_set():
                raise BrokenPipeError
            if room.poll(1000 * _LOOK_EVERY_S):
                with suppress(BlockingIOError):  # there is less room than poll asks for
                    line = line[os.write(self._writing, line) :]

    def stop(self) -> None:
        """The other process is gone: `run` ends."""
        self._over.set()

    def close(self) -> None:
        self._end_lines()
        self._train.close()
        self._held.close()


class FollowedPartition:
    """The following side. fds: as `Handover.fds` has them."""

    def __init__(self, layout: Layout, fds: tuple[int, int, int]):
        self.train, self.held = Spool(layout, fds[0]), Spool(layout, fds[1])
        self._layout, self._lines = layout, os.fdopen(fds[2], "rb")

    def keep(self) -> None:
        pass  # it is in the file already

    def windows(self) -> Iterator[Window]:
        while line := self._lines.readline():
            told = json.loads(line)
            if "error" in told:
                raise from_dict(told["error"])
            if "end" in told:
                return
            yield self._window(told)
        raise UnavailableError("The process that reads this worker's rows ended before they were all read")

    def _window(self, told: dict[str, Any]) -> Window:
        first = len(self.train.places)
        for spool, places in ((self.train, told["train"]), (self.held, told["held"])):
            for place in places:
                spool.add(Place(*place))
        read = [self.train.read(i) for i in range(first, len(self.train.places))]
        return Window(read, self._layout.empty(0), told["rows"], told["crc"], told["last"])

    def close(self) -> None:
        self._lines.close()
        self.train.close()
        self.held.close()


# ---------------------------------------------------------------------- what is read again


def replay(spool: Spool, start: int) -> Iterator[Block]:
    """The spooled rows from row `start` on, in their order."""
    at = 0
    for number, place in enumerate(list(spool.places)):
        if at + place.rows > start:
            skip = max(start - at, 0)
            yield [array[skip:] for array in spool.read(number)]
        at += place.rows


def shuffled(spool: Spool, plan: Plan, epoch: int, start: int) -> Iterator[Block]:
    """The rows of an epoch after the first, from row `start` on, in its order. A block is valid until the next."""
    at, read, mixed = 0, spool.layout.empty(0), spool.layout.empty(0)
    for number, (group, rows) in enumerate(later_epoch(plan, epoch, [p.rows for p in spool.places])):
        if at + rows > start:
            if len(mixed[0]) < rows:
                read, mixed = spool.layout.empty(rows), spool.layout.empty(rows)
            first = 0
            for i in group:
                spool.read_to(i, read, first)
                first += spool.places[i].rows
            order = plan.random(epoch, number).permutation(rows)
            yield [array[max(start - at, 0) :] for array in taken(read, order, mixed)]
        at += rows
