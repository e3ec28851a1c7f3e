"""Readers: they take names of files from a queue and give records, one or many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparkflow_runtime.records.files import RecordFile, open_stream, opened
from sparkflow_runtime.records.framing import HEADER
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

Record = tuple[bytes, bytes]  # key, value
Done = Callable[..., None]


class Names(Protocol):
    """The queue that gives the names."""

    def dequeue(self, done: Done, step: Any) -> None: ...

    def try_dequeue(self) -> list[Any] | None: ...


class ReaderSpec(NamedTuple):
    """What the node says. numbers: of FixedLengthRecordReader record, header, footer and hop bytes, of TextLineReader
    the lines to skip."""

    kind: str
    numbers: tuple[int, ...] = ()
    compression: str = ""


class Reader:
    """Thread-safe. A read that finds no open file waits for a name from the queue, with the queue's own cancelling and
    closing; several may wait at once. One of no records gives none, at once."""

    def __init__(self, name: str, spec: ReaderSpec):
        self.name, self.spec = name, spec
        self._lock = Lock()
        self._files: deque[Iterator[Record]] = deque()
        self.records_produced = self.work_units_completed = 0

    def read(self, queue: Names, most: int | None, done: Done, step: Any) -> None:
        """Calls done(None, (key, value)), or with `most` done(None, (keys, values)): 1 to `most` of one file."""
        if most is not None and most < 1:
            done(None, _arrays([], single=False))
            return
        while True:
            try:
                found = self._take(most or 1)
            except Exception as error:  # this may be the thread of whoever brought the name
                done(error, None)
                return
            if found:
                done(None, _arrays(found, most is None))
                return
            waiting = _Waiting(lambda: self.read(queue, most, done, step))
            queue.dequeue(partial(self._opened, waiting, done), step)
            if not waiting.came_at_once():
                return

    def try_read(self, queue: Names, most: int | None) -> tuple[Any, Any] | None:
        """The same without waiting: None where there is neither an open file with a record nor a name."""
        if most is not None and most < 1:
            return _arrays([], single=False)
        while True:
            found = self._take(most or 1)
            if found:
                return _arrays(found, most is None)
            names = queue.try_dequeue()
            if names is None:
                return None
            self._open(names)

    def _take(self, most: int) -> list[Record]:
        with self._lock:
            while self._files:
                try:
                    found = list(islice(self._files[0], most))
                except OpError:
                    self._files.popleft()  # the rest of a damaged file is given up, with the error
                    raise
                if found:
                    self.records_produced += len(found)
                    return found
                self._files.popleft()
                self.work_units_completed += 1
        return []

    def _opened(self, waiting: _Waiting, done: Done, error: OpError | None, names: Any) -> None:
        if error is not None:
            waiting.ended = True
            done(error, None)
            return
        self._open(names)
        waiting.goes_on()

    def _open(self, names: Any) -> None:
        name = np.asarray(names[0], object).item()
        with self._lock:
            self._files.append(_FORMATS[self.spec.kind](name if isinstance(name, bytes) else name.encode(), self.spec))

    def reset(self) -> None:
        with self._lock:
            self._files.clear()
            self.records_produced = self.work_units_completed = 0


class _Waiting:
    """Whether the name came inside the call that asked for it (then the asker's loop goes on) or later (then whoever
    brought it reads)."""

    def __init__(self, resume: Callable[[], None]):
        self._resume, self._lock = resume, Lock()
        self._asked = self._came = self.ended = False

    def goes_on(self) -> None:
        with self._lock:
            self._came = True
            late = self._asked
        if late:
            self._resume()

    def came_at_once(self) -> bool:
        with self._lock:
            self._asked = True
            return self._came and not self.ended


def _arrays(found: list[Record], single: bool) -> tuple[Any, Any]:
    if single:
        return _scalar(found[0][0]), _scalar(found[0][1])
    keys, values = np.empty(len(found), object), np.empty(len(found), object)
    if found:
        keys[:], values[:] = zip(*found)
    return keys, values


def _scalar(value: bytes) -> np.ndarray:
    out = np.empty((), object)
    out[()] = value
    return out


# ---------------------------------------------------------------------- formats


def _tfrecords(name: bytes, spec: ReaderSpec) -> Iterator[Record]:
    with RecordFile(name.decode(), spec.compression) as file:
        for block in file.blocks():
            begins = (block.starts + (block.offset - HEADER)).tolist()
            for begin, record in zip(begins, block.records()):
                yield b"%s:%d" % (name, begin), record


def _whole_file(name: bytes, spec: ReaderSpec) -> Iterator[Record]:
    with open_stream(name.decode(), "rb") as file:
        yield name, file.read()


def _lines(name: bytes, spec: ReaderSpec) -> Iterator[Record]:
    with open_stream(name.decode(), "rb") as file:
        for number, line in enumerate(file, 1):
            if number > spec.numbers[0]:
                yield b"%s:%d" % (name, number), line.removesuffix(b"\n").removesuffix(b"\r")


def _fixed_length(name: bytes, spec: ReaderSpec) -> Iterator[Record]:
    record, header, footer, hop = spec.numbers
    with opened(name.decode(), spec.compression) as file:
        data = file.read()
    for number, at in enumerate(range(header, len(data) - footer - record + 1, hop or record)):
        yield b"%s:%d" % (name, number), data[at : at + record]


def _identity(name: bytes, spec: ReaderSpec) -> Iterator[Record]:
    yield name, name


_FORMATS: dict[str, Callable[[bytes, ReaderSpec], Iterator[Record]]] = {
    "TFRecordReader": _tfrecords,
    "WholeFileReader": _whole_file,
    "TextLineReader": _lines,
    "FixedLengthRecordReader": _fixed_length,
    "IdentityReader": _identity,
}


def check_spec(spec: ReaderSpec) -> None:
    """Raises InvalidArgumentError."""
    if spec.kind == "FixedLengthRecordReader" and (spec.numbers[0] <= 0 or min(spec.numbers) < 0):
        raise InvalidArgumentError(
            "FixedLengthRecordReader: record_bytes must be more than 0 and header, footer and hop bytes not less, got "
            f"{spec.numbers}"
        )
    if spec.kind == "TextLineReader" and spec.numbers[0] < 0:
        raise InvalidArgumentError(f"TextLineReader: skip_header_lines must not be less than 0, got {spec.numbers[0]}")
