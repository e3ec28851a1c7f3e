"""TLS below the handshake of `handshake` and the frames (see tls.py for what it is to prove).

The cipher works on memory, under a lock, and the socket is read and written outside of it: one thread may wait in a
receive while another sends, which an OpenSSL connection of its own does not allow.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import time
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.transport.tls import VARIABLE, Tls
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
)

_CHUNK_BYTES = 256 << 10
_CIPHER_BYTES = 256 << 10


@lru_cache(maxsize=8)
def contexts(tls: Tls) -> tuple[ssl.SSLContext, ssl.SSLContext, bytes]:
    """(listener's, dialler's, digest of the own certificate)."""
    try:
        with open(tls.certificate) as f:
            pem = f.read()
        start, end = pem.index(ssl.PEM_HEADER), pem.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[start:end])).digest()
        listening, dialling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        dialling.check_hostname = False  # tasks have addresses, not names; the secret says who is of the job
        for context in (listening, dialling):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(tls.certificate, tls.key)
            if tls.ca:
                context.load_verify_locations(tls.ca)
        dialling.verify_mode = ssl.CERT_REQUIRED if tls.ca else ssl.CERT_NONE
        listening.verify_mode = ssl.CERT_REQUIRED if tls.mutual else ssl.CERT_NONE
    except (OSError, ValueError) as e:
        raise InvalidArgumentError(f"TLS: cannot use {tls}: {e}") from None
    return listening, dialling, digest


def secure(sock: socket.socket, tls: Tls, listening: bool, deadline: float) -> TlsSocket:
    """The socket with TLS agreed. Raises DeadlineExceededError; UnavailableError where the connection ends, and
    UnauthenticatedError where the peer has no TLS, or none that this end accepts: trying again would not help."""
    server, client, digest = contexts(tls)
    wrapped = TlsSocket(sock, server if listening else client, listening)
    try:
        wrapped.agree(deadline)
    except TimeoutError:
        raise DeadlineExceededError("TLS: the peer did not answer in time") from None
    except (ssl.SSLError, EOFError, ConnectionError) as e:
        ended = not isinstance(e, ssl.SSLError) or isinstance(e, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        raise (UnavailableError if ended else UnauthenticatedError)(
            f"TLS was not agreed: {str(e) or 'the peer closed the connection'}. Both ends need TLS (the environment's "
            f"{VARIABLE}CERTIFICATE, or Options.tls), and certificates that the other's authority signed"
        ) from None
    wrapped.binding = digest if listening else hashlib.sha256(wrapped.peer_certificate()).digest()
    return wrapped


class TlsSocket:
    """The part of socket.socket that channels use. binding: what both ends know of this connection and no other has."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, listening: bool):
        self._raw, self.family = raw, raw.family
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=listening)
        self._lock = Lock()
        self._cipher = memoryview(bytearray(_CIPHER_BYTES))
        self._unsent = memoryview(b"")
        self._claimed = 0  # bytes of the caller's that are in `_unsent` and not yet said to be sent
        self.binding = b""
        for name in ("settimeout", "setsockopt", "getpeername", "getsockname", "shutdown", "close", "fileno"):
            setattr(self, name, getattr(raw, name))

    def agree(self, deadline: float) -> None:
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._raw.settimeout(left_s)
            try:
                self._object.do_handshake()
                self._raw.sendall(self._outgoing.read())
                return
            except ssl.SSLWantReadError:
                self._raw.sendall(self._outgoing.read())
                if not self._feed():
                    raise EOFError from None
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._raw.sendall(self._outgoing.read())  # the alert that tells the peer why
                raise

    def peer_certificate(self) -> bytes:
        return self._object.getpeercert(binary_form=True) or b""

    # ---- receiving

    def _feed(self) -> bool:
        got = self._raw.recv_into(self._cipher)
        with self._lock:
            self._incoming.write(self._cipher[:got])
        return bool(got)

    def recv_into(self, view: memoryview, nbytes: int = 0, flags: int = 0) -> int:
        """At least a byte; 0 at the end. Raises BlockingIOError or TimeoutError as the socket does."""
        while True:
            with self._lock:
                try:
                    return int(self._object.read(len(view), view))
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return 0
            if not self._feed():
                return 0

    def recv(self, nbytes: int) -> bytes:
        buffer = bytearray(nbytes)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    # ---- sending: one thread at a time

    def sendall(self, data: bytes) -> None:
        self._raw.sendall(self._encrypted(data))

    def sendmsg(self, buffers: Sequence[Any], ancillary: Any = (), flags: int = 0) -> int:
        """How many of the first bytes are on their way. Raises BlockingIOError where none could be.

        What is encrypted must be sent, whatever the caller does next: so once a part has been encrypted it is said to
        be sent but for its last byte, with which the caller comes back until the socket has taken it all. What is
        interrupted between (Ctrl-C) may have sent a part that nobody knows of: that ends the connection.
        """
        try:
            return self._sendmsg(buffers, flags)
        except BlockingIOError:
            raise
        except BaseException:
            with contextlib.suppress(OSError):
                self._raw.shutdown(socket.SHUT_RDWR)
            raise

    def _sendmsg(self, buffers: Sequence[Any], flags: int) -> int:
        if not self._claimed:
            data = _first_bytes(buffers)
            self._unsent, self._claimed = memoryview(self._encrypted(data)), len(data)
        while self._unsent:
            try:
                sent = self._raw.send(self._unsent, flags)
            except BlockingIOError:
                if self._claimed <= 1:
                    raise
                said, self._claimed = self._claimed - 1, 1
                return said
            self._unsent = self._unsent[sent:]
        said, self._claimed = self._claimed, 0
        return said

    def _encrypted(self, data: bytes) -> bytes:
        with self._lock:
            self._object.write(data)
            return self._outgoing.read()


def _first_bytes(buffers: Sequence[Any]) -> bytes:
    parts, size = [], 0
    for buffer in buffers:
        view = buffer.reshape(-1).view(np.uint8).data if isinstance(buffer, np.ndarray) else memoryview(buffer)
        parts.append(view[: _CHUNK_BYTES - size])
        size += len(parts[-1])
        if size >= _CHUNK_BYTES:
            break
    return b"".join(parts)
