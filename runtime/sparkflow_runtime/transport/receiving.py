"""The receiving half of a socket: one frame after the other.

Small frames come whole out of one read-ahead buffer, several to a system call; a large payload is received straight
into the array that its tensors are views of, and one in shared memory is mapped.
"""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any

import numpy as np

from sparkflow_runtime.transport import shared
from sparkflow_runtime.transport.sending import timeval
from sparkflow_runtime.wire import frames, pool
from sparkflow_runtime.wire.errors import DataLossError, ResourceExhaustedError

_AHEAD_BYTES = 32 << 10
ANSWER_BYTES = 256 << 10  # callers read their answers where these find room in so much
_LOOK_S = 400e-6  # a caller looks for an answer so long before it sleeps, where the last one was there by then
_CAN_LOOK = hasattr(os, "sched_yield") and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
_CHUNK_BYTES = 1 << 20  # of one system call
_FDS_BYTES = socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0
Message = tuple[frames.Header, bytes, list[np.ndarray]]


class Receiver:
    """bytes_received: so far. Not for several threads."""

    def __init__(
        self,
        sock: socket.socket,
        max_payload_bytes: int,
        slice_s: float,
        by_memory: bool = False,
    ):
        """slice_s: how often at least a receive under way shows its progress. by_memory: whether payloads may come in
        shared memory."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(slice_s))
        self._sock, self._max_payload_bytes = sock, max_payload_bytes
        self._array = np.empty(ANSWER_BYTES, np.uint8)  # beyond _AHEAD_BYTES only answers, and it costs nothing before
        self._ahead = self._array.data
        self._at = self._end = 0
        self._poll: Any = None
        self._answers_soon = False
        self._taken: list[Any] = []  # what calls into the kernel by `answer` gave, as long as `_end` does not count it
        self.bytes_received = 0
        self._fds: list[int] = []
        self._borrower = shared.Borrower(max_payload_bytes) if by_memory else None

    @property
    def bytes_borrowed(self) -> int:
        return self._borrower.bytes_borrowed if self._borrower else 0

    @property
    def is_empty(self) -> bool:
        """Whether no byte has come that no frame was made of."""
        return self._at == self._end and not self._taken

    def forget(self, segment: int) -> None:
        if self._borrower is not None:
            self._borrower.forget(segment)

    def close(self) -> None:
        shared.close_fds(self._fds)
        if self._borrower is not None:
            self._borrower.close()

    def receive(self) -> Message:
        """The next frame. Raises EOFError at the stream's end, DataLossError or InvalidArgumentError on a bad frame."""
        self._settle()
        _check_fds(self._fds)
        if self._end - self._at < frames.HEADER_BYTES:
            self._read_ahead(frames.HEADER_BYTES)
        header = self._header()
        whole = self._whole(header)
        if whole is not None:
            self._at += header.frame_bytes
            return whole
        self._at += frames.HEADER_BYTES
        meta = bytes(self._take(header.meta_bytes)) if header.meta_bytes else b""
        if not header.tensors:
            return header, meta, []
        table = bytes(self._take(header.table_bytes))
        if header.elsewhere:
            payload = self._borrow(header)
        else:
            payload = _empty(header.payload_bytes)
            if header.payload_bytes:
                self._fill(payload.data)
        return header, meta, frames.decode(header, meta, table, payload)

    def answer(self, call_id: int, deadline: float | None) -> Message | None:
        """The next frame, where that is the answer to this call and finds room in the read-ahead; None where it is not,
        at the deadline (time.monotonic) and at the stream's end, and `receive` then finds all that came.

        An exception from a signal's handler (Ctrl-C) may end it after any call: until a frame has been made of them,
        bytes that came are still in the buffer.
        """
        begun_s = time.monotonic()
        while True:
            self._settle()
            if self._end - self._at >= frames.HEADER_BYTES:
                header = self._header()
                whole = self._whole(header)
                if header.kind == frames.HEARTBEAT and whole is not None:
                    self._at += header.frame_bytes
                    continue
                if header.call_id != call_id or header.kind not in (frames.REPLY, frames.ERROR) or header.elsewhere:
                    return None
                if whole is not None:
                    self._at += header.frame_bytes
                    self._answers_soon = time.monotonic() - begun_s < _LOOK_S
                    return whole
            if self._answers_soon and _CAN_LOOK:
                self._look(begun_s + _LOOK_S)
            if not self._has_more(deadline):
                return None

    def _has_more(self, deadline: float | None) -> bool:
        """Whether more has come, in time, which `_settle` has yet to count. No byte changes its place."""
        if self._at == self._end:
            self._at = self._end = 0
        room = self._ahead[self._end :]
        if not room:
            return False
        if deadline is not None and not self.is_readable(deadline - time.monotonic()):
            return False
        try:
            if self._borrower is None:
                self._taken.extend(map(self._sock.recv_into, (room,)))
            else:
                given = ([room],), (_FDS_BYTES,), (socket.MSG_CMSG_CLOEXEC,)
                self._taken.extend(map(self._sock.recvmsg_into, *given))
        except BlockingIOError:  # nothing in slice_s
            return True
        except OSError:
            return False  # `receive` will name it
        last = self._taken[-1]
        return bool(last if self._borrower is None else last[0])  # nothing: the stream's end

    def is_readable(self, timeout_s: float) -> bool:
        if self._poll is None:
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            self._poll = poll
        return timeout_s >= 0 and bool(self._poll.poll(1e3 * timeout_s))

    def _look(self, until: float) -> None:
        """Whether more has come, again and again: to sleep and be woken takes as long as a small step at the peer.
        Whoever else wants this processor goes first."""
        while not self.is_readable(0.0) and time.monotonic() < until:
            os.sched_yield()

    def _settle(self) -> None:
        taken = self._taken
        if not taken:
            return
        fds: list[int] = []
        if self._borrower is None:
            nbytes = sum(taken)
        else:
            nbytes = sum([one[0] for one in taken])
            for one in taken:
                fds += shared.received_fds(one[1])
        received, end, fds = self.bytes_received + nbytes, self._end + nbytes, self._fds + fds
        self.bytes_received, self._end, self._fds, self._taken = received, end, fds, []  # no call in between

    def _header(self) -> frames.Header:
        return frames.parse_header(self._ahead[self._at : self._at + frames.HEADER_BYTES], self._max_payload_bytes)

    def _whole(self, header: frames.Header) -> Message | None:
        """The frame of this header, which is next, if it lies in the buffer from end to end. It stays there."""
        meta_at = self._at + frames.HEADER_BYTES
        table_at = meta_at + header.meta_bytes
        payload_at = table_at + header.table_bytes
        end = payload_at + header.payload_bytes
        if end > self._end or header.elsewhere:
            return None
        meta = bytes(self._ahead[meta_at:table_at])
        if not header.tensors:
            return header, meta, []
        payload = self._array[payload_at:end].copy()
        return header, meta, frames.decode(header, meta, bytes(self._ahead[table_at:payload_at]), payload)

    def _borrow(self, header: frames.Header) -> np.ndarray:
        place = frames.parse_place(self._take(frames.PLACE_BYTES))
        if self._borrower is None:
            raise DataLossError("Frame header: a payload in shared memory, and this connection carries none")
        return self._borrower.take(place, header.payload_bytes, self._fds)

    def _take(self, nbytes: int) -> memoryview:
        """The next bytes, valid until the next call."""
        if nbytes > len(self._ahead):
            view = memoryview(bytearray(nbytes))
            self._fill(view)
            return view
        if self._end - self._at < nbytes:
            self._read_ahead(nbytes)
        start = self._at
        self._at = start + nbytes
        return self._ahead[start : self._at]

    def _read_ahead(self, nbytes: int) -> None:
        have = self._end - self._at
        if have:
            self._ahead[:have] = self._ahead[self._at : self._end]
        self._at, self._end = 0, have
        while self._end < nbytes:
            room = self._ahead[self._end : max(nbytes, _AHEAD_BYTES)]
            self._end += self._recv(room, 0) if self._borrower is None else self._recv_with_fds(room)

    def _fill(self, view: memoryview) -> None:
        got = min(len(view), self._end - self._at)
        view[:got] = self._ahead[self._at : self._at + got]
        self._at += got
        while got < len(view):
            got += self._recv(view[got : got + _CHUNK_BYTES], socket.MSG_WAITALL)

    def _recv(self, view: memoryview, flags: int) -> int:
        while True:
            try:
                return self._received(self._sock.recv_into(view, 0, flags))
            except BlockingIOError:  # nothing in slice_s
                continue

    def _recv_with_fds(self, view: memoryview) -> int:
        """Descriptors come with the first byte of a frame, so never within a payload."""
        while True:
            try:
                got, ancillary, _, _ = self._sock.recvmsg_into([view], _FDS_BYTES, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                continue
            if ancillary:
                self._fds += shared.received_fds(ancillary)
                _check_fds(self._fds)
            return self._received(got)

    def _received(self, got: int) -> int:
        if not got:
            raise EOFError
        self.bytes_received += got
        return got


def _check_fds(fds: list[int]) -> None:
    if len(fds) > shared.MAX_SEGMENTS:
        raise DataLossError(f"{len(fds)} descriptors came and no frame names them")


def _empty(nbytes: int) -> np.ndarray:
    try:
        return pool.empty(nbytes)
    except (MemoryError, OSError) as e:
        raise ResourceExhaustedError(f"no memory for a payload of {nbytes} bytes: {e}") from None
