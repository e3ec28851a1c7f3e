"""Rows that go on behind an error, as TensorFlow's iterators do: the failed element is missing, the next one comes.

A generator that an exception has passed through is over. So what it has to remember (numbers, held rows, sources) is in
variables around it, and `iter` of a Lasting begins another generator from there; nothing of that costs a row anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Pair = tuple[Any, Exception | None]  # an element, or what came instead of it


class Lasting:
    """begin(): an iterator of the rows that are left. lost(): told that a row, once it was given, could not be made.

    `iter` gives the iterator that goes on: after an error ask for it again, not for the next row of the one before.
    begin is called again at the end, too, and finds nothing then.
    """

    __slots__ = ("_begin", "_lost", "_rows")

    def __init__(self, begin: Callable[[], Iterator[Any]], lost: Callable[[], None] | None = None):
        self._begin, self._lost = begin, lost
        self._rows: Any = None

    def __iter__(self) -> Iterator[Any]:
        if getattr(self._rows, "gi_frame", None) is None:  # one of C (map, chain) has no memory of its own
            self._rows = self._begin()
        rows: Iterator[Any] = self._rows
        return rows

    def lose(self) -> None:
        if self._lost is not None:
            self._lost()

    def close(self) -> None:
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()


def lasting(rows: Iterable[Any]) -> Iterable[Any]:
    """What may be iterated again to go on: not a list, which would begin anew."""
    return rows if isinstance(rows, Lasting) else iter(rows)


def lose(rows: Iterable[Any]) -> None:
    if isinstance(rows, Lasting):
        rows.lose()


def pairs(source: Iterable[Any]) -> Iterator[Pair]:
    """The rows, and the errors between them."""
    while True:
        try:
            for row in source:
                yield row, None
            return
        except Exception as error:
            failed = error
        yield None, failed
