"""The receiving half of a socket: one frame after the other.

Small frames come whole out of one read-ahead buffer, several to a system call; a large payload is received straight
into the array that its tensors are views of, and one in shared memory is mapped.
"""

from __future__ import annotations

import socket

import numpy as np

from sparkflow_runtime.transport import pool, shared
from sparkflow_runtime.transport.sending import timeval
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import DataLossError, ResourceExhaustedError

_AHEAD_BYTES = 32 << 10
_CHUNK_BYTES = 1 << 20  # of one system call
_FDS_BYTES = socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0
_Message = tuple[frames.Header, bytes, list[np.ndarray]]


class Receiver:
    """bytes_received: so far. Not for several threads."""

    def __init__(self, sock: socket.socket, max_payload_bytes: int, slice_s: float, by_memory: bool = False):
        """slice_s: how often at least a receive under way shows its progress. by_memory: whether payloads may come in
        shared memory."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval(slice_s))
        self._sock, self._max_payload_bytes = sock, max_payload_bytes
        self._ahead = memoryview(bytearray(_AHEAD_BYTES))
        self._at = self._end = 0
        self.bytes_received = 0
        self._fds: list[int] = []
        self._borrower = shared.Borrower(max_payload_bytes) if by_memory else None

    @property
    def bytes_borrowed(self) -> int:
        return self._borrower.bytes_borrowed if self._borrower else 0

    def forget(self, segment: int) -> None:
        if self._borrower is not None:
            self._borrower.forget(segment)

    def close(self) -> None:
        shared.close_fds(self._fds)
        if self._borrower is not None:
            self._borrower.close()

    def receive(self) -> _Message:
        """The next frame. Raises EOFError at the stream's end, DataLossError or InvalidArgumentError on a bad frame."""
        header = frames.parse_header(self._take(frames.HEADER_BYTES), self._max_payload_bytes)
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

    def _borrow(self, header: frames.Header) -> np.ndarray:
        place = frames.parse_place(self._take(frames.PLACE_BYTES))
        if self._borrower is None:
            raise DataLossError("Frame header: a payload in shared memory, and this connection carries none")
        return self._borrower.take(place, header.payload_bytes, self._fds)

    def _take(self, nbytes: int) -> memoryview:
        """The next bytes, valid until the next call."""
        if nbytes > _AHEAD_BYTES:
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
            room = self._ahead[self._end :] if self._end else self._ahead
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
            if len(self._fds) > shared.MAX_SEGMENTS:
                raise DataLossError(f"{len(self._fds)} descriptors came and no frame names them")
            return self._received(got)

    def _received(self, got: int) -> int:
        if not got:
            raise EOFError
        self.bytes_received += got
        return got


def _empty(nbytes: int) -> np.ndarray:
    try:
        return pool.empty(nbytes)
    except (MemoryError, OSError) as e:
        raise ResourceExhaustedError(f"no memory for a payload of {nbytes} bytes: {e}") from None
