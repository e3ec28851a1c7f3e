"""Large payloads between processes of one host: written once into shared memory instead of twice through a socket.

The sender owns anonymous files (memfd): it writes a payload into one and sends a frame that names it; the first time
the file's descriptor travels with that frame (SCM_RIGHTS). The receiver maps it, and its tensors are views of it. A
mark behind the payload says who has the segment: the sender sets it before it lends, the receiver clears it when no
view lives any more, and the sender then writes the next payload there. So nothing has a name that could outlive both
processes: whichever is killed, the kernel frees the pages when the last mapping goes.

A file is sealed against changes of its size before it is sent, since reading a mapping of a file that was cut short
kills the reader; the receiver checks that.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.transport.fork_copies import ForkCopies
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import DataLossError, ResourceExhaustedError
from sparkflow_runtime.wire.pool import size_class

AVAILABLE = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")
MIN_BYTES = 256 << 10  # smaller payloads are through the socket, and in the processor's cache, sooner
MAX_SEGMENTS = 64  # of one channel and direction
PROCESS_BYTES = 4 << 30  # of all segments that this process owns
IDLE_S = 10.0  # after which a free segment is given back
_SMALLEST_BYTES = 1 << 20
_MARK_BYTES = mmap.PAGESIZE  # behind the payload: one byte of it is the mark
_WASTE = 4  # a free segment up to so many times too large is taken rather than a new one made
_FREE, _LENT = 0, 1


class Segment:
    """One file of shared memory, as its owner sees it. fd: to be sent with the first frame that names it, then -1.
    named: whether the frame that it was lent for has begun to leave."""

    fd, named = -1, True
    _copy: Callable[[np.ndarray, np.ndarray], None] = staticmethod(np.copyto)

    def __init__(self, number: int, size: int):
        self.number, self.size, self.used_at = number, size, 0.0
        self.fd = os.memfd_create("sparkflow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size + _MARK_BYTES)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
            self._memory = mmap.mmap(self.fd, size + _MARK_BYTES)
        except BaseException:
            self.sent()
            raise
        _owned[id(self)] = size
        self._bytes = np.frombuffer(self._memory, np.uint8)

    @property
    def free(self) -> bool:
        """The receiver may be done with it before the thread that has sent the frame knows that it has."""
        return self.named and self._memory[self.size] == _FREE

    def lend(self) -> None:
        self.used_at, self.named = time.monotonic(), False
        self._memory[self.size] = _LENT

    def take_back(self) -> None:
        """The frame that would have named it did not leave."""
        self._memory[self.size] = _FREE
        self.named = True

    def write(self, buffers: Sequence[frames.Buffer]) -> None:
        at = 0
        for buffer in buffers:
            source = (
                buffer.reshape(-1).view(np.uint8) if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, "u1")
            )
            self._copy(self._bytes[at : at + source.size], source)
            at += source.size

    def sent(self) -> None:
        """The receiver will have the descriptor."""
        fd, self.fd = self.fd, -1  # a signal's exception after the close must not have it closed again
        self.named = True
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        _owned.pop(id(self), None)
        self.sent()


def copy_by(copy: Callable[[np.ndarray, np.ndarray], None]) -> None:
    """copy(to, of) from now on writes payloads, of uint8 in one piece: this room starts no threads to share that."""
    Segment._copy = staticmethod(copy)


_owned: dict[int, int] = {}  # segment -> its bytes, of the whole process


class Lender:
    """The segments of one sending end. Thread-safe.

    limit_bytes: of all of them together. What finds no room goes through the socket: a receiver that keeps what it
    got holds up nobody.
    """

    def __init__(self, limit_bytes: int):
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._segments: dict[int, Segment] = {}
        self._dropped: deque[Segment] = deque()
        self._next = 0
        self.bytes_lent = 0

    def place(self, payload: Sequence[frames.Buffer], nbytes: int) -> Segment | None:
        """A segment that holds the payload, now lent; None where there is no room."""
        with self._lock:
            segment = self._find(nbytes) or self._make(nbytes)
            if segment is None:
                return None
            segment.lend()
            self.bytes_lent += nbytes
        try:
            segment.write(payload)
        except BaseException:  # interrupted: it is nobody's
            self.give_up(segment)
            raise
        return segment

    @property
    def dropped(self) -> deque[Segment]:
        """Those that the receiver is to be told to forget; an interrupt loses none."""
        return self._dropped

    def give_up(self, segment: Segment) -> None:
        """After `place`: its frame did not leave. One that the receiver never heard of is no longer kept."""
        with self._lock:
            if segment.fd >= 0:
                self._segments.pop(segment.number, None)
            segment.take_back()

    def trim(self, now: float) -> None:
        """Drop what was not used for IDLE_S."""
        if self._segments:
            with self._lock:
                idle = [s for s in self._segments.values() if s.free and now - s.used_at > IDLE_S]
                self._drop(idle)

    def _drop(self, segments: Sequence[Segment]) -> None:
        self._dropped.extend(map(self._segments.pop, [segment.number for segment in segments]))

    def close(self) -> None:
        with self._lock:
            self._segments.clear()
            self._limit_bytes = 0

    def _find(self, nbytes: int) -> Segment | None:
        fitting = [s for s in self._segments.values() if nbytes <= s.size <= _WASTE * nbytes and s.free]
        return min(fitting, key=lambda s: s.size, default=None)

    def _make(self, nbytes: int) -> Segment | None:
        size = size_class(max(nbytes, _SMALLEST_BYTES))
        if size > self._limit_bytes:
            return None
        while self._full(size):
            idle = next((s for s in self._segments.values() if s.free), None)
            if idle is None:
                return None
            self._drop([idle])
        try:
            segment = Segment(self._next, size)
        except OSError:  # no descriptor or no memory to be had: the socket needs neither
            return None
        self._next += 1
        self._segments[segment.number] = segment
        return segment

    def _full(self, more: int) -> bool:
        used = sum(s.size for s in self._segments.values())
        whole = sum(list(_owned.values()))
        too_much = used + more > self._limit_bytes or whole + more > PROCESS_BYTES
        return too_much or len(self._segments) >= MAX_SEGMENTS


class _Lease(weakref.ref):
    __slots__ = ("mark_at", "memory")
    memory: mmap.mmap
    mark_at: int


_leases: dict[int, _Lease] = {}
_forks = ForkCopies(lambda: [lease.memory for lease in list(_leases.values())], _leases.clear)
if AVAILABLE:
    _forks.register()


class Borrower:
    """The other end's segments, as the receiver maps them. Not for several threads."""

    def __init__(self, max_payload_bytes: int):
        self._max_bytes = size_class(max(max_payload_bytes, _SMALLEST_BYTES))
        self._mapped: dict[int, mmap.mmap] = {}
        self.bytes_borrowed = 0

    def take(self, place: frames.Place, nbytes: int, fds: list[int]) -> np.ndarray:
        """The payload that `place` names: uint8, [nbytes]. When its last view dies the segment is the sender's again.

        fds: the descriptors that came, of which a new segment takes the first. Raises DataLossError where the segment
        is unknown, of another size, or not sealed.
        """
        if place.new:  # the sender has none that is free
            _return_forgotten()
            self._map(place, fds)
        memory = self._mapped.get(place.segment)
        if memory is None or nbytes > len(memory) - _MARK_BYTES:
            raise DataLossError(
                f"Shared memory: {nbytes} bytes in segment {place.segment}, which is not that large here"
            )
        array = np.frombuffer(memory, np.uint8, nbytes)
        lease = _Lease(array.base, _return)
        lease.memory, lease.mark_at = memory, len(memory) - _MARK_BYTES
        _leases[id(lease)] = lease
        self.bytes_borrowed += nbytes
        return array

    def forget(self, segment: int) -> None:
        self._mapped.pop(segment, None)

    def close(self) -> None:
        """Views that live keep their memory."""
        self._mapped.clear()

    def _map(self, place: frames.Place, fds: list[int]) -> None:
        if not fds:
            raise ResourceExhaustedError(
                f"Shared memory: no descriptor came with segment {place.segment}. Allow this process more open files"
            )
        fd = fds.pop(0)
        try:
            size = os.fstat(fd).st_size - _MARK_BYTES
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if not sealed or not 0 < size <= self._max_bytes or len(self._mapped) >= MAX_SEGMENTS:
                raise DataLossError(
                    f"Shared memory: segment {place.segment} of {size} bytes, sealed {bool(sealed)}, number "
                    f"{len(self._mapped) + 1}; expected it sealed, {self._max_bytes} bytes and {MAX_SEGMENTS} at most"
                )
            self._mapped[place.segment] = mmap.mmap(fd, size + _MARK_BYTES)
        except OSError as e:
            raise ResourceExhaustedError(f"Shared memory: cannot map segment {place.segment}: {e}") from None
        finally:
            os.close(fd)


def _return(lease: _Lease) -> None:
    """In any thread, at any point: single stores, no lock. Once for each."""
    if _leases.pop(id(lease), None) is not None:
        _forks.when_copied(partial(lease.memory.__setitem__, lease.mark_at, _FREE))


def _return_forgotten() -> None:
    """Of those whose views are gone: what a signal's handler raises in `_return` (Ctrl-C), Python does not pass on."""
    for lease in list(_leases.values()):
        if lease() is None:
            _return(lease)


def received_fds(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    fds: list[int] = []
    for _, _, data in ancillary:
        whole = len(data) - len(data) % 4
        fds += np.frombuffer(data[:whole], np.int32).tolist()
    return fds


def close_fds(fds: list[Any]) -> None:
    while fds:
        os.close(fds.pop())
