"""Progress for a person: a bar on a terminal and in a notebook, plain lines in a log.

Where nobody has configured logging, what the job has to say goes to stderr, for as long as the training lasts.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_EVERY_S = 5.0

log = logging.getLogger("sparkflow")


class Display(Protocol):
    def update(self, examples: int, total: int, rate: float, loss: float, epoch: int) -> None:
        """total: 0 while it is not known."""

    def close(self) -> None: ...


class _Bar:
    def __init__(self, console: Console, title: str):
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, refresh_per_second=5, expand=True)
        self._task = self._progress.add_task(title, total=None, figures="starting")
        before = (sys.stderr, sys.stdout)
        self._progress.start()  # from here on sys.stderr writes above the bar; handlers keep the stream they were given
        above = [(old, new) for old, new in zip(before, (sys.stderr, sys.stdout)) if new is not old]
        self._moved = [(h, *pair) for h in _stream_handlers() for pair in above if h.stream is pair[0]]
        for handler, _, new in self._moved:
            handler.setStream(new)

    def update(self, examples: int, total: int, rate: float, loss: float, epoch: int) -> None:
        figures = f"epoch {epoch + 1} {examples:,} rows {rate:,.0f}/s loss {loss:.4f}"
        self._progress.update(self._task, completed=examples, total=total or None, figures=figures)

    def close(self) -> None:
        for handler, old, new in self._moved:
            if handler.stream is new:
                handler.setStream(old)
        self._progress.refresh()  # with the last figures: in a notebook, stop() does not
        self._progress.stop()


def _stream_handlers() -> list[Any]:
    handlers = [*logging.getLogger().handlers, *log.handlers]
    return [h for h in handlers if isinstance(h, logging.StreamHandler) and not isinstance(h, logging.FileHandler)]


class _Lines:
    def __init__(self, title: str):
        self._title, self._last_s = title, time.monotonic()
        self._unsaid: tuple[Any, ...] | None = None
        self._seen = 0

    def update(self, examples: int, total: int, rate: float, loss: float, epoch: int) -> None:
        if examples == self._seen:
            return
        self._seen = examples
        share = f" ({100 * examples / total:.0f} %)" if total else ""
        self._unsaid = (self._title, epoch + 1, examples, share, rate, loss)
        if time.monotonic() - self._last_s >= _LINE_EVERY_S:
            self._say()

    def _say(self) -> None:
        if self._unsaid is not None:
            log.info("%s: epoch %d, %d examples%s, %.0f/s, loss %.4f", *self._unsaid)
        self._last_s, self._unsaid = time.monotonic(), None

    def close(self) -> None:
        self._say()


@contextmanager
def display(title: str) -> Iterator[Display]:
    """A bar where somebody watches, lines otherwise."""
    console = Console(stderr=True)
    with _EAR:
        shown = _Bar(console, title) if _watched(console) else _Lines(title)
        try:
            yield shown
        finally:
            shown.close()


def _watched(console: Console) -> bool:
    """Whether a bar is seen there: without ipywidgets a notebook shows none."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


class _Ear:
    """A handler on stderr while nobody else listens: of all trainings that other threads of this process run, too."""

    def __init__(self) -> None:
        self._lock, self._trainings = threading.Lock(), 0
        self._handler: logging.Handler | None = None
        self._level = logging.NOTSET

    def __enter__(self) -> None:
        with self._lock:
            self._trainings += 1
            if log.hasHandlers():
                return
            self._handler, self._level = logging.StreamHandler(), log.level
            self._handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            log.addHandler(self._handler)
            log.setLevel(min(log.level or logging.INFO, logging.INFO))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._trainings -= 1
            if self._handler is not None and not self._trainings:
                log.removeHandler(self._handler)
                log.setLevel(self._level)
                self._handler = None


_EAR = _Ear()


class Tally:
    """What all workers have reported, added up."""

    def __init__(self) -> None:
        self._by_rank: dict[int, dict[str, Any]] = {}
        self._first: tuple[float, int] | None = None

    def add(self, rank: int, fields: dict[str, Any]) -> None:
        self._by_rank[rank] = fields
        if self._first is None:
            self._first = time.monotonic(), self.examples

    @property
    def examples(self) -> int:
        return sum(f["examples"] for f in self._by_rank.values())

    def show(self, display: Display) -> None:
        if not self._by_rank or self._first is None:
            return
        reports = list(self._by_rank.values())
        elapsed = max(time.monotonic() - self._first[0], 1e-3)
        rate = (self.examples - self._first[1]) / elapsed
        loss = sum(f["loss"] for f in reports) / len(reports)
        total = sum(f["total"] for f in reports) if all(f["total"] for f in reports) else 0
        display.update(self.examples, total, rate, loss, min(f["epoch"] for f in reports))
