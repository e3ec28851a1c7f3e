"""The sending half of a socket: whole frames, from many threads, in order.

The frame that is being sent stands first in what is owed (`_owed`), and whoever holds the lock pays in that order, so a
frame is never cut by another, nor does it stay half sent. Two ways in: `send` waits for the peer, until a deadline;
`post` never waits, for threads that others wait for: what the socket does not take at once is copied, and a writer
thread (started when first needed) sends it.

An exception from a signal's handler (Ctrl-C) comes between any call and the use of what it returned. So taking the
lock, and noting what the kernel took, are one call into C each; the rest of an interrupted frame is owed.
"""

from __future__ import annotations

import array
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue

import numpy as np

from sparkflow_runtime.transport.shared import Segment
from sparkflow_runtime.wire import pool
from sparkflow_runtime.wire.errors import DeadlineExceededError
from sparkflow_runtime.wire.frames import Buffer

_IOV_MAX = 1024
_JOIN_BYTES = 128 << 10  # below it one copy is cheaper than handing the kernel a list
_PART_BYTES = 16 << 20  # of a frame that is copied while its peer may read
_SLICE_S = 0.2  # the kernel returns from a blocked send after this, so deadlines and the monitor see progress
_NOSIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_FAREWELL_S = 0.2
_DONTWAIT = socket.MSG_DONTWAIT | _NOSIGNAL


class NotBegunError(DeadlineExceededError):
    """Not a byte of the frame has left, nor will."""


class BacklogError(Exception):
    """So much waits to be sent already that no more is kept."""


class _Frame:
    """What is to be sent, and how much of it the kernel has taken, call by call. copies: how many of the buffers, the
    first ones, are copies and not the caller's arrays. kept: all are."""

    __slots__ = ("buffers", "copies", "kept", "nbytes", "segment", "taken")

    def __init__(self, buffers: Sequence[Buffer], nbytes: int, segment: Segment | None, kept: bool = False):
        self.buffers = [_joined(buffers, nbytes)] if kept or nbytes <= _JOIN_BYTES else list(buffers)
        self.nbytes, self.segment, self.kept, self.copies = nbytes, segment, kept, int(kept)
        self.taken: list[int] = []

    def left(self) -> tuple[list[Buffer], int]:
        """(the buffers, how many bytes) still to be sent."""
        if self.segment is not None and self.taken:
            self.segment.sent()
        todo, sent = self.buffers[:], sum(self.taken)
        return todo[_skip(todo, 0, sent) :], self.nbytes - sent

    def keep(self, most_bytes: float = float("inf")) -> bool:
        """Copy what is left, or the next `most_bytes` of it; whether all of it is a copy now."""
        if not self.kept:
            todo, nbytes = self.left()
            own = max(0, self.copies - len(self.buffers) + len(todo))
            part, rest = _divided(todo[own:], most_bytes)
            buffers = [*todo[:own], _joined(part, sum(map(_size, part))), *rest]
            self.buffers, self.nbytes, self.taken, self.copies, self.kept = buffers, nbytes, [], own + 1, not rest
        return self.kept


class Sender:
    """bytes_sent, frames_sent: what the socket took. Raises OSError where the connection is gone."""

    def __init__(self, sock: socket.socket, name: str, max_owed_bytes: int):
        """max_owed_bytes: of frames that `post` keeps for a peer that does not read them."""
        self._sock, self._name, self._max_owed_bytes = sock, name, max_owed_bytes
        self._lock = threading.Lock()
        self._owed: deque[_Frame] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._starting = threading.Lock()
        self.bytes_sent = self.frames_sent = 0
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval(_SLICE_S))

    def send(
        self, buffers: Sequence[Buffer], nbytes: int, deadline: float | None = None, segment: Segment | None = None
    ) -> None:
        """Returns when the kernel has the frame. Raises DeadlineExceededError at `deadline` (time.monotonic), of class
        NotBegunError where the frame will not be sent.

        segment: holds the frame's payload; its descriptor travels with the first byte, if it has not yet.
        """
        frame = _Frame(buffers, nbytes, segment)
        if deadline is None:
            with self._lock:
                self._begin(frame, None)
            return
        held: list[bool] = []
        try:
            held.extend(map(self._lock.acquire, (True,), (max(0.0, deadline - time.monotonic()),)))
            if not held[0]:
                raise NotBegunError("another thread's message was still being sent")
            self._begin(frame, deadline)
        finally:
            if held and held[0]:
                self._lock.release()

    def send_or_post(
        self, buffers: Sequence[Buffer], nbytes: int, deadline: float, segment: Segment | None = None
    ) -> bool:
        """As `send` until the deadline, then as `post`: whether that was needed for all of it."""
        try:
            self.send(buffers, nbytes, deadline, segment)
        except NotBegunError:
            self.post(buffers, nbytes, segment)
            return True
        except DeadlineExceededError:
            pass  # the rest is owed
        return False

    def _begin(self, frame: _Frame, deadline: float | None) -> None:
        """`send` of a frame, with the lock held."""
        try:
            if self._owed and not self._pay(deadline):
                raise NotBegunError("the peer did not read what was sent before")
            self._owed.appendleft(frame)
            if not self._send(frame, deadline, _NOSIGNAL):
                begun = DeadlineExceededError if frame.taken else NotBegunError
                raise begun("the peer did not read it")
            self._owed.popleft()
        except OSError:
            self._owed.clear()
            raise
        except BaseException:
            self._leave(frame)
            raise
        self.frames_sent += 1

    def _leave(self, frame: _Frame) -> None:
        """The rest of what has begun is owed; what has not is nobody's."""
        if self._owed and self._owed[0] is frame:
            if frame.taken:
                frame.keep()
                self._wake_writer()
            else:
                self._owed.popleft()

    def post(self, buffers: Sequence[Buffer], nbytes: int, segment: Segment | None = None) -> None:
        """Never blocks; what the socket does not take now is copied and sent by the writer thread.

        Raises BacklogError where so much is waiting that this frame would pass the limit.
        """
        if self._owed:
            waiting = sum(frame.nbytes for frame in list(self._owed) if frame.kept)
            if waiting + nbytes > self._max_owed_bytes:
                raise BacklogError(f"{waiting} bytes wait for it, and at most {self._max_owed_bytes} may")
        self.frames_sent += 1
        held: list[bool] = []
        try:
            if not self._owed:
                held.extend(map(self._lock.acquire, (False,)))
            if self._owed or not (held and held[0]):  # the writer may have paid since the first look
                self._owed.append(_Frame(buffers, nbytes, segment, kept=True))
            else:
                self._post(_Frame(buffers, nbytes, segment))
        finally:
            if held and held[0]:
                self._lock.release()
        if self._owed:
            self._wake_writer()

    def _post(self, frame: _Frame) -> None:
        self._owed.appendleft(frame)  # before what comes meanwhile
        try:
            while not self._send(frame, 0.0, _DONTWAIT):
                if frame.keep(_PART_BYTES):  # part by part: a peer that reads meanwhile is to see that this end lives
                    return
            self._owed.popleft()
        except OSError:
            raise
        except BaseException:
            self._leave(frame)
            raise

    def offer(self, frame: bytes) -> None:
        """Sends a small frame if nobody is sending: bytes under way say as much as a heartbeat. What is owed and nobody
        sends is what Ctrl-C has interrupted."""
        if self._lock.locked():
            return
        if self._owed:
            self._wake_writer()
        else:
            self.post([frame], len(frame))

    def farewell(self, frame: bytes) -> None:
        """The last frame, and what is owed before it, if that can go within a moment."""
        deadline = time.monotonic() + _FAREWELL_S
        if self._lock.acquire(timeout=_FAREWELL_S):
            try:
                if self._pay(deadline):
                    self._send(_Frame([frame], len(frame), None), 0.0, _DONTWAIT)
            finally:
                self._lock.release()

    @property
    def busy(self) -> bool:
        return self._lock.locked() or bool(self._owed)

    def stop(self) -> None:
        """After the socket's shutdown: waits for a sender to notice, and ends the writer."""
        with self._lock:
            self._owed.clear()
        self._wake.put(False)

    def _send(self, frame: _Frame, deadline: float | None, flags: int) -> bool:
        """Sends what is left of a frame; False at the deadline (0.0: at the first byte that would wait). The lock is
        held."""
        at, segment, taken = 0, frame.segment, frame.taken
        todo, left = frame.left() if taken else (frame.buffers[:], frame.nbytes)
        while left:
            try:
                beside = () if segment is None else _descriptor(segment)
                taken.extend(map(self._sock.sendmsg, (todo[at : at + _IOV_MAX],), (beside,), (flags,)))
                sent = taken[-1]
                if segment is not None:
                    segment.sent()
            except BlockingIOError:
                sent = 0
            self.bytes_sent += sent
            left -= sent
            if left:
                at = _skip(todo, at, sent)
                if deadline is not None and time.monotonic() >= deadline and not (deadline == 0.0 and sent):
                    return False
        return True

    def _pay(self, deadline: float | None) -> bool:
        """Sends what is owed; False where the deadline came first. The lock is held."""
        while self._owed:
            if not self._send(self._owed[0], deadline, _NOSIGNAL):
                return False
            self._owed.popleft()
        return True

    def _wake_writer(self) -> None:
        if self._writer is None:
            self._start_writer()
        self._wake.put(True)

    def _start_writer(self) -> None:
        """Unless another thread does. Ctrl-C may come before there is one, which the next call then starts, or before
        that is noted: two do no harm."""
        held: list[bool] = []
        try:
            held.extend(map(self._starting.acquire, (False,)))
            if held[0] and self._writer is None:
                writer = threading.Thread(target=self._run_writer, name=f"sparkflow-write {self._name}", daemon=True)
                writer.start()
                self._writer = writer
        finally:
            if held and held[0]:
                self._starting.release()

    def _run_writer(self) -> None:
        while self._wake.get():
            try:
                with self._lock:
                    self._pay(None)
            except OSError:
                break  # the reader sees the same end and names it
        self._wake.put(False)  # for a second one


def _divided(buffers: Sequence[Buffer], at_bytes: float) -> tuple[list[Buffer], list[Buffer]]:
    """The first so many bytes, and the rest."""
    first: list[Buffer] = []
    rest = deque(buffers)
    while rest and at_bytes > 0:
        buffer = rest.popleft()
        if _size(buffer) > at_bytes:
            view = _bytes_view(buffer)
            buffer, more = view[: int(at_bytes)], view[int(at_bytes) :]
            rest.appendleft(more)
        first.append(buffer)
        at_bytes -= _size(buffer)
    return first, list(rest)


def _joined(buffers: Sequence[Buffer], nbytes: int) -> Buffer:
    """One copy of them all. What is large is copied without the GIL: a reader's reply of gigabytes that its peer does
    not read at once would otherwise keep every thread still, heartbeats included."""
    if nbytes <= _JOIN_BYTES:
        return b"".join(buffers)
    block, at = pool.empty(nbytes), 0
    for buffer in filter(_size, buffers):
        source = np.frombuffer(_bytes_view(buffer), np.uint8)
        np.copyto(block[at : at + source.size], source)
        at += source.size
    return block


_Ancillary = Sequence[tuple[int, int, array.array]]


def _descriptor(segment: Segment) -> _Ancillary:
    """What goes beside the next byte: a descriptor that the receiver does not have."""
    if segment.fd < 0:
        return ()
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [segment.fd]))]


def timeval(duration_s: float) -> bytes:
    """What SO_SNDTIMEO and SO_RCVTIMEO take."""
    return struct.pack("@ll", *divmod(int(duration_s * 1e6), 1_000_000))


def _skip(todo: list[Buffer], at: int, sent: int) -> int:
    """The index of the first buffer not wholly sent, which is cut to what is left of it."""
    while sent and sent >= (size := _size(todo[at])):
        sent -= size
        at += 1
    if sent:
        todo[at] = _bytes_view(todo[at])[sent:]
    return at


def _size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, np.ndarray | memoryview) else len(buffer)


def _bytes_view(buffer: Buffer) -> memoryview:
    return buffer.reshape(-1).view(np.uint8).data if isinstance(buffer, np.ndarray) else memoryview(buffer)
