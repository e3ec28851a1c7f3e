"""Collectives as rings: what one member sends and keeps when a chunk arrives. Pure decisions, no thread, no clock.

A tensor is cut into one segment a rank and each segment into chunks, which travel from every rank to the next. To
reduce, segment s starts at rank s + 1, gathers one addend at every rank, and is complete at rank s (n - 1 hops); to
gather, it starts at rank s and is copied at every rank (n - 1 hops more). So every rank sends each byte twice at most,
whatever n is (Patarasuk and Yuan 2009), and the order of the addends depends on the segment alone: the sum has the
same bits on every rank and in every run.

A rank sends a new chunk of its own when one has arrived, after the first `WINDOW`: what is under way stays small enough
for the processor's caches, and nobody sends to one who does not keep up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.wire import pool
from sparkflow_runtime.wire.errors import InvalidArgumentError

CHUNK_BYTES = 4 << 20
WINDOW = 2
_MAPPED_BYTES = 32 << 20  # larger blocks are new ones each time (see memory.py)
REDUCE, GATHER = 0, 1  # phases of a chunk

MERGE: dict[str, Callable[..., Any]] = {"Add": np.add, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}
FINAL = ("Id", "Div")


class Chunk(NamedTuple):
    """Which part of the tensor: phase, segment and number; elements: of the whole segment (or its empty rows)."""

    phase: int
    segment: int
    number: int
    elements: int


Send = Callable[[Chunk, np.ndarray], None]
Codec = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]  # as it travels, and back


@dataclass(frozen=True)
class Place:
    """This member's rank among `size`."""

    rank: int
    size: int

    def before(self, segment: int) -> bool:
        """Whether the next rank is the one where `segment` starts: it need not be sent there."""
        return (self.rank + 1) % self.size == segment


class Ring:
    """One collective of one member. `begin` and `receive` send what is to be sent; `result` is set when it is done.

    what: it does, the same for all members: kind, dtype, shape, and the dtype that travels where that is another."""

    def __init__(
        self, place: Place, send: Send, kind: str, dtype: np.dtype, shape: Sequence[object], codec: Codec | None = None
    ):
        self.place, self._send = place, send
        codec = codec if dtype == np.float32 else None
        self._pack, self._unpack = codec or (_same, _same)
        self.what = _what(kind, dtype, tuple(shape), codec)
        self._own: deque[tuple[Chunk, np.ndarray]] = deque()
        self._left = 0
        self.result: Any = None
        self.done = False

    def begin(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what it sends first")

    def receive(self, chunk: Chunk, data: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what becomes of a chunk")

    def _start_sending(self, own: Sequence[tuple[Chunk, np.ndarray]]) -> None:
        self._own.extend(own)
        for _ in range(WINDOW):
            self._send_own()

    def _send_own(self) -> None:
        if self._own:
            chunk, data = self._own.popleft()
            self._send(chunk, self._pack(data))


def merging(merge_op: str, final_op: str) -> tuple[Callable[..., Any], bool]:
    """What adds up, and whether the mean is wanted. Raises InvalidArgumentError on other names."""
    if merge_op not in MERGE or final_op not in FINAL:
        raise InvalidArgumentError(
            f"merge_op {merge_op!r} and final_op {final_op!r}: expected one of {sorted(MERGE)} and of {FINAL}"
        )
    return MERGE[merge_op], final_op == "Div"


def divide(out: np.ndarray, count: int) -> None:
    """The sum of so many, in place, to their mean."""
    size, whole = np.asarray(count, out.dtype), out.dtype.kind in "iu"
    if whole:
        out -= np.fmod(out, size)  # towards zero, as TensorFlow's Div
    (np.floor_divide if whole else np.divide)(out, size, out=out, casting="same_kind")


class Reduce(Ring):
    """All-reduce, or reduce-scatter where `scatter` is set: the result is then this rank's part of the first axis.

    x: of one shape and dtype on every rank. Raises InvalidArgumentError on other names of merge_op and final_op, and
    where the first axis cannot be divided among the ranks.
    """

    def __init__(
        self,
        place: Place,
        send: Send,
        x: np.ndarray,
        merge_op: str = "Add",
        final_op: str = "Id",
        scatter: bool = False,
        codec: Codec | None = None,
    ):
        kind = f"{'reduce-scatter' if scatter else 'all-reduce'} ({merge_op}, {final_op})"
        super().__init__(place, send, kind, x.dtype, x.shape, codec)
        self._merge, self._mean, self._scatter = *merging(merge_op, final_op), scatter
        if scatter and (not x.ndim or x.shape[0] % place.size):
            raise InvalidArgumentError(f"Cannot divide shape {x.shape} along its first axis among {place.size} ranks")
        self._x = np.ascontiguousarray(x).reshape(-1)
        n = place.size
        self._bounds = [len(self._x) * i // n for i in range(n + 1)]
        self._shape = (x.shape[0] // n, *x.shape[1:]) if scatter else x.shape
        start = self._bounds[place.rank] if scatter else 0
        stop = self._bounds[place.rank + 1] if scatter else len(self._x)
        self._out, self._offset = _empty((stop - start,), x.dtype), start

    def begin(self) -> None:
        rank, n = self.place.rank, self.place.size
        # To scatter, all that passes here counts, of other ranks' parts as well: they need this rank's addend.
        own = (rank - 1) % n if self._scatter and n > 1 else -1
        self._left = sum(len(self._cuts(s)) for s in range(n) if s != own)
        if n == 1:
            for chunk, data in self._chunks(0, REDUCE):
                self._complete(chunk, data.copy())
            return
        self._start_sending(self._chunks((rank - 1) % n, REDUCE))

    def receive(self, chunk: Chunk, data: np.ndarray) -> None:
        span = self._span(chunk, data)
        check_dtype(self._unpack(data[:0]), self._x.dtype)
        if chunk.phase == GATHER:
            self._out[span] = self._unpack(data)
            if not self.place.before(chunk.segment):
                self._send(chunk, data)
            self._done_with_one()
            return
        self._send_own()
        mine, theirs = self._x[span], self._unpack(data)
        if chunk.segment == self.place.rank:
            self._complete(chunk, theirs, mine)
        else:
            self._send(chunk, self._pack(self._merge(theirs, mine, out=theirs)))
            if self._scatter:
                self._done_with_one()

    def _complete(self, chunk: Chunk, theirs: np.ndarray, mine: np.ndarray | None = None) -> None:
        """The last addend has come: keep the sum, and let it go round."""
        out = self._out[self._span(chunk, theirs, self._offset)]
        if mine is None:
            out[:] = theirs
        else:
            self._merge(theirs, mine, out=out)
        if self._mean:
            divide(out, self.place.size)
        if not self._scatter and self.place.size > 1:
            packed = self._pack(out)
            if packed is not out:
                out[:] = self._unpack(packed)  # the same bits as everybody else's
            self._send(chunk._replace(phase=GATHER), packed)
        self._done_with_one()

    def _done_with_one(self) -> None:
        self._left -= 1
        if not self._left:
            self.result, self.done = self._out.reshape(self._shape), True

    def _cuts(self, segment: int) -> list[tuple[int, int]]:
        """The chunks of a segment as spans of the whole; one at least, so that an empty tensor has a message too."""
        start, stop = self._bounds[segment : segment + 2]
        return cut(start, stop, self._x.itemsize)

    def _chunks(self, segment: int, phase: int) -> list[tuple[Chunk, np.ndarray]]:
        elements = self._bounds[segment + 1] - self._bounds[segment]
        spans = enumerate(self._cuts(segment))
        return [(Chunk(phase, segment, i, elements), self._x[a:b]) for i, (a, b) in spans]

    def _span(self, chunk: Chunk, data: np.ndarray, offset: int = 0) -> slice:
        """Where the chunk lies. Raises InvalidArgumentError where its sender has a tensor of another size."""
        cuts = self._cuts(chunk.segment) if 0 <= chunk.segment < self.place.size else []
        expected = self._bounds[chunk.segment + 1] - self._bounds[chunk.segment] if cuts else -1
        if chunk.elements != expected or chunk.number >= len(cuts):
            raise InvalidArgumentError(
                f"The ranks' tensors differ in size: segment {chunk.segment} has {chunk.elements} elements there and "
                f"{expected} here"
            )
        start, stop = cuts[chunk.number]
        if len(data) != stop - start:
            raise InvalidArgumentError(f"Chunk {chunk}: {len(data)} elements, expected {stop - start}")
        return slice(start - offset, stop - offset)


class Gather(Ring):
    """All-gather along the first axis, on which alone the ranks may differ."""

    def __init__(self, place: Place, send: Send, x: np.ndarray, codec: Codec | None = None):
        super().__init__(place, send, "all-gather", x.dtype, ("any", *x.shape[1:]), codec)
        if not x.ndim:
            raise InvalidArgumentError("Cannot gather scalars: they have no first axis. Give each the shape [1]")
        self._x = np.ascontiguousarray(x)
        self._empty_rows = not prod(x.shape[1:])  # then a chunk counts rows, which no element tells
        self._rows = [0] * place.size
        self._blocks: list[np.ndarray | None] = [None] * place.size
        self._todo = [1] * place.size
        self._out = _empty((place.size, *x.shape), x.dtype)

    def begin(self) -> None:
        rank = self.place.rank
        self._left = self.place.size
        count = len(self._x) if self._empty_rows else self._x.size
        block = self._block(rank, count)
        block[:] = self._x.reshape(-1)
        if self._pack is not _same:
            block[:] = self._unpack(self._pack(block))
        spans = cut(0, self._x.size, self._x.itemsize)
        self._todo[rank] = 0
        self._finish_block()
        if self.place.size > 1:
            self._start_sending([(Chunk(GATHER, rank, i, count), block[a:b]) for i, (a, b) in enumerate(spans)])

    def receive(self, chunk: Chunk, data: np.ndarray) -> None:
        values = self._unpack(data)
        check_dtype(values, self._x.dtype)
        block = self._block(chunk.segment, chunk.elements)
        start, stop = cut(0, block.size, block.itemsize)[chunk.number]
        if len(values) != stop - start:
            raise InvalidArgumentError(f"Chunk {chunk}: {len(values)} elements, expected {stop - start}")
        block[start:stop] = values
        if not self.place.before(chunk.segment):
            self._send(chunk, data)
        self._send_own()
        self._todo[chunk.segment] -= 1
        if not self._todo[chunk.segment]:
            self._finish_block()

    def _block(self, segment: int, count: int) -> np.ndarray:
        """A flat array for the rank's rows, within the result while all have as many as this one."""
        inner = prod(self._x.shape[1:]) or 1
        if count % inner:
            raise InvalidArgumentError(
                f"Rank {segment} gives {count} elements, which are no rows of shape {self._x.shape[1:]}"
            )
        rows, found = count // inner, self._blocks[segment]
        if found is None:
            elements = 0 if self._empty_rows else count
            same = rows == len(self._x)
            found = self._out[segment].reshape(-1) if same else np.empty(elements, self._x.dtype)
            self._blocks[segment], self._rows[segment] = found, rows
            self._todo[segment] = len(cut(0, elements, self._x.itemsize))
        if self._rows[segment] != rows:
            raise InvalidArgumentError(f"Rank {segment} gives {rows} rows, and gave {self._rows[segment]} before")
        return found

    def _finish_block(self) -> None:
        self._left -= 1
        if self._left:
            return
        while self._own:  # the others gave less, and there is no chunk of theirs left to wait for
            self._send_own()
        shape = (sum(self._rows), *self._x.shape[1:])
        same = all(rows == len(self._x) for rows in self._rows)
        whole = self._out if same else np.concatenate([b for b in self._blocks if b is not None])
        self.result, self.done = whole.reshape(shape), True


class Broadcast(Ring):
    """From the rank that gives `x` along the ring to all that give None.

    shape, dtype: of the tensor, as the receivers know them. Raises InvalidArgumentError where another is sent.
    """

    def __init__(
        self,
        place: Place,
        send: Send,
        x: np.ndarray | None,
        shape: Sequence[int] = (),
        dtype: Any = None,
        codec: Codec | None = None,
    ):
        dtype = x.dtype if x is not None else np.dtype(dtype)
        self._shape = x.shape if x is not None else tuple(shape)
        super().__init__(place, send, "broadcast", dtype, self._shape, codec)
        self._out = _empty((prod(self._shape),), dtype)
        if x is not None:
            self._out[:] = x.reshape(-1)
        self._source = x is not None

    def begin(self) -> None:
        spans = cut(0, self._out.size, self._out.itemsize)
        self._left = len(spans)
        if not self._source:
            return
        own = []
        for i, (a, b) in enumerate(spans):
            if self._pack is not _same:
                self._out[a:b] = self._unpack(self._pack(self._out[a:b]))
            own.append((Chunk(GATHER, self.place.rank, i, self._out.size), self._out[a:b]))
        for chunk, data in own if self.place.size > 1 else ():
            self._send(chunk, self._pack(data))
        self._finish(len(spans))

    def receive(self, chunk: Chunk, data: np.ndarray) -> None:
        if self._source:
            raise InvalidArgumentError(f"Ranks {chunk.segment} and {self.place.rank} both broadcast")
        values = self._unpack(data)
        check_dtype(values, self._out.dtype)
        if chunk.elements != self._out.size:
            raise InvalidArgumentError(
                f"Rank {chunk.segment} broadcasts {chunk.elements} elements, this rank waits for shape {self._shape}"
            )
        start, stop = cut(0, self._out.size, self._out.itemsize)[chunk.number]
        self._out[start:stop] = values
        if not self.place.before(chunk.segment):
            self._send(chunk, data)
        self._finish(1)

    def _finish(self, chunks: int) -> None:
        self._left -= chunks
        if not self._left:
            self.result, self.done = self._out.reshape(self._shape), True


@lru_cache(maxsize=256)
def _what(kind: str, dtype: np.dtype, shape: tuple[object, ...], codec: Codec | None) -> str:
    carried = f" as {codec[0](np.empty(0, np.float32)).dtype}" if codec else ""
    return f"{kind} of {dtype} [{', '.join(map(str, shape))}]{carried}"


def cut(start: int, stop: int, item_bytes: int) -> list[tuple[int, int]]:
    """[start, stop) in chunks of at most CHUNK_BYTES; one empty span where there is nothing."""
    step = max(CHUNK_BYTES // item_bytes, 1)
    return [(a, min(a + step, stop)) for a in range(start, stop, step)] or [(start, stop)]


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """For the result; where the allocator would map it anew, and the kernel clear it, where an earlier one was."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes <= _MAPPED_BYTES:
        return np.empty(shape, dtype)
    return pool.empty(nbytes).view(dtype).reshape(shape)


def check_dtype(data: np.ndarray, expected: np.dtype) -> None:
    if data.dtype != expected:
        raise InvalidArgumentError(f"The ranks' tensors differ in dtype: {data.dtype} there, {expected} here")


def _same(data: np.ndarray) -> np.ndarray:
    return data
