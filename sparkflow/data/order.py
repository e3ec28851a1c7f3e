"""Rows in another order or number. Behind an error they go on as TensorFlow's do (lasting.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, count, islice
from typing import Any

import numpy as np

from sparkflow.data.lasting import Lasting, lasting, lose
from sparkflow_runtime.kernels.philox import Words
from sparkflow_runtime.wire.errors import OutOfRangeError

Rows = Iterable[Any]
_DRAWS = 1024  # random numbers that are drawn at once
_WHOLE = 1 << 62  # more rows than there are


def mapped(call: Callable[[Any], Any], source: Rows) -> Rows:
    """What call makes of each. What it says is out of range ends them."""

    def called(row: Any) -> Any:
        try:
            return call(row)
        except OutOfRangeError as error:
            raise StopIteration from error

    return Lasting(lambda: map(called, source))


def repeated(begin: Callable[[], Rows], times: int) -> Rows:
    """What begin gives, again and again; for ever where times is negative, but for rows that are none."""
    left, current, failed, empty = times, None, False, True
    whole = False  # whether all rows of the time before could be made
    given, gone = count(1), 0  # rows of this time, and those of them that could not be made

    def rows() -> Iterator[Any]:
        nonlocal left, current, failed, empty, whole, given, gone
        while left:
            if current is None:
                current, failed, empty, given, gone = begin(), False, True, count(1), 0
            try:
                if whole:
                    for row in current:
                        empty = False
                        yield row
                else:
                    yield from compress(current, given)  # which counts them
            except Exception:
                failed = True
                raise
            none = empty if whole else next(given) == gone + 1
            if none and (left < 0 or not (failed or gone)):
                left = 0
                return
            current, left, whole = None, left - 1, not (failed or gone)

    def lost() -> None:
        nonlocal gone
        gone += 1
        lose(current or ())

    return Lasting(rows, lost)


def shuffled(source: Rows, size: int, words: Words) -> Rows:
    """Each drawn from the next `size` ones, by TensorFlow's rule: the held ones lie in a ring, what is drawn gives its
    place to the first of them, and the place of that goes to the next row."""
    held: list[Any] = []
    places: list[int] = []  # of what is drawn next, the last one first
    first, open_ = 0, False  # of the ring; whether its place waits for a row

    def drawn() -> int:
        if not places:
            ring = np.arange(first, first + _DRAWS) + words.take(_DRAWS) % size
            places.extend((ring % size)[::-1].tolist())
        return places.pop()

    def rows() -> Iterator[Any]:
        nonlocal first, open_
        waiting = iter(source)
        held.extend(islice(waiting, size - len(held)))
        if len(held) == size:
            if not open_:
                i, open_ = drawn(), True
                row, held[i] = held[i], held[first]
                yield row
            for row in waiting:
                held[first] = row
                first = first + 1 if first + 1 < size else 0
                i = places.pop() if places else drawn()
                row, held[i] = held[i], held[first]
                yield row
        rest = held[first + 1 :] + held[:first] if open_ else held.copy()
        words.back(len(places))
        held.clear()
        places.clear()
        first, open_, number = 0, False, np.arange(len(rest))
        others = number + words.take(len(rest)) % np.maximum(len(rest) - number, 1)
        for i, other in enumerate(others.tolist()):
            row, rest[other] = rest[other], rest[i]
            yield row

    return Lasting(rows, lambda: lose(source))


def taken(source: Rows, number: int) -> Rows:
    """The first ones that can be made."""
    if not isinstance(source, Lasting):
        return _taken_of_whole(iter(source), number)
    left = number

    def rows() -> Iterator[Any]:
        nonlocal left
        if left <= 0:
            return
        for row in source:
            left -= 1
            yield row
            if not left:
                return

    def lost() -> None:
        nonlocal left
        left += 1
        lose(source)

    return Lasting(rows, lost)


def _taken_of_whole(source: Iterator[Any], number: int) -> Rows:
    """Of rows that do not fail before something is made of them."""
    rows: Iterator[Any] = islice(source, number)
    more = 0

    def left() -> Iterator[Any]:
        nonlocal rows, more
        rows, more = chain(rows, islice(source, more)) if more else rows, 0
        return rows

    def lost() -> None:
        nonlocal more
        more += 1

    return Lasting(left, lost)


def skipped(source: Rows, number: int) -> Rows:
    """Without the first ones; where one of them fails, as many from there on again."""
    if not isinstance(source, Lasting):
        return islice(source, number, None)
    left = number

    def rows() -> Iterator[Any]:
        nonlocal left
        waiting = iter(source)
        _drop(waiting, left)
        left = 0
        yield from waiting

    return Lasting(rows, lambda: lose(source))


def _drop(rows: Iterator[Any], number: int) -> None:
    deque(islice(rows, number), maxlen=0)


def sharded(source: Rows, number: int, first: int) -> Rows:
    """Every so many-th one, counting those that were seen to be made."""
    if not isinstance(source, Lasting):
        return islice(source, first, None, number)
    at = 0

    def rows() -> Iterator[Any]:
        nonlocal at
        waiting = iter(source)
        while True:
            _drop(waiting, (first - at) % number)
            at = first
            for row in waiting:
                at += 1
                yield row
                break
            else:
                return

    return Lasting(rows, lambda: lose(source))


def joined(begins: Sequence[Callable[[], Rows]]) -> Rows:
    """One after the other; each begins when it is reached."""
    waiting = deque(begins)
    current: Rows | None = None

    def rows() -> Iterator[Any]:
        nonlocal current
        while waiting or current is not None:
            current = waiting.popleft()() if current is None else current
            yield from current
            current = None

    return Lasting(rows)


def side_by_side(sources: Sequence[Rows]) -> Rows:
    """A row of all, as long as the shortest. Where one fails the others go on by one, too."""
    sources = list(map(lasting, sources))
    over = not sources

    def rows() -> Iterator[Any]:
        nonlocal over
        if over:
            return
        done = count()  # how many have given one
        try:
            together = zip(*(x for source in sources for x in (source, done)))
            if len(sources) == 2:
                yield from ([*one, *other] for one, _, other, _ in together)  # quicker by half
            else:
                yield from ([x for row in all[::2] for x in row] for all in together)
        except Exception:
            for source in sources[next(done) % len(sources) + 1 :]:
                over |= _at_end(source)
            raise
        over = True

    return Lasting(rows)


def _at_end(source: Rows) -> bool:
    """Whether there is no next one, which is taken."""
    try:
        return next(iter(source), None) is None
    except Exception:
        return False


def in_turn(
    waiting: Rows, opened: Callable[[Any], Rows], cycle_length: int, block_length: int = 1, parallel: bool = False
) -> Rows:
    """Blocks of so many rows of what `opened` makes of cycle_length ones at a time; who has no more makes room.

    parallel: an error takes the place of a row, or of all rows of what cannot be opened, as TensorFlow has it there.
    """
    waiting = lasting(waiting)
    block_length = _WHOLE if cycle_length == 1 else block_length
    slots: list[Rows | None] = [None] * cycle_length
    at = given = 0  # in this slot so many of its block
    over = False  # nothing waits any more

    def fill() -> None:
        """What is next to be opened comes into this slot."""
        nonlocal over
        try:
            for row in waiting:
                slots[at] = lasting(opened(row))
                return
            over = True
        except Exception:
            if parallel:
                slots[at] = iter(())
            raise

    def rows() -> Iterator[Any]:
        nonlocal at, given
        try:
            idle = 0
            while idle < cycle_length or not over:
                if slots[at] is None and not over:
                    fill()
                current = slots[at]
                if current is not None:
                    idle = 0
                    for row in islice(current, block_length - given):
                        given += 1
                        yield row
                    if given < block_length:
                        slots[at] = None
                else:
                    idle += 1
                at, given = (at + 1) % cycle_length, 0
        except Exception:
            given += parallel
            if given == block_length:
                at, given = (at + 1) % cycle_length, 0
            raise

    return Lasting(rows)
