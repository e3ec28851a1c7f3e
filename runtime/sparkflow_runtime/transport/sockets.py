"""The schemes tcp:// and unix://: dialling, listening, and what a new connection goes through."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
import time
import weakref
from typing import Any

from sparkflow_runtime.transport import addresses, forks, handshake
from sparkflow_runtime.transport.base import Channel, Handler, Listener, Options, register_scheme
from sparkflow_runtime.transport.channel import SocketChannel
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)

log = logging.getLogger(__name__)
_BACKLOG = 1024
# Between hosts TCP sizes its buffers itself, and better. On one host what it picks outgrows the processor's caches.
_UNIX_BUFFER_BYTES, _LOOPBACK_BUFFER_BYTES = 4 << 20, 256 << 10
_MAX_STRANGERS = 512  # connections that have not proved the secret yet
_ACCEPT_PAUSE_S, _ACCEPT_TELL_S = 0.1, 60.0  # when the process has no file descriptors left
_LEAVE_S = 1.0  # for the thread that accepts to see that its socket is closed
_NOT_ACCEPTED = "Accepting at %s: %s. Peers that dial wait; it is tried on, and said again in %g s"


class Sockets:
    """The transport of both schemes."""

    def dial(
        self, url: str, handler: Handler, secret: bytes | None, identity: str, timeout_s: float, options: Options
    ) -> Channel:
        deadline = time.monotonic() + timeout_s
        return self.greet(_connect(url, secret, deadline, timeout_s), url, handler, secret, identity, deadline, options)

    @staticmethod
    def greet(
        sock: Any, url: str, handler: Handler, secret: bytes | None, identity: str, deadline: float, options: Options
    ) -> Channel:
        try:
            until = min(deadline, time.monotonic() + options.handshake_s)
            secured, binding = _secure(sock, options, False, until)
            peer = handshake.dial(secured, secret or b"", identity, options.keepalive_s, until, binding)
            return _open(secured, url, peer, handler, options)
        except BaseException as e:
            sock.close()
            raise _named(e, url) from None

    def listen(self, url: str, handler: Handler, secret: bytes | None, identity: str, options: Options) -> Listener:
        family, address = addresses.resolve(url)[0]
        _check_secret(url, secret, family, address)
        handshake.check_identity(identity)
        return SocketListener(_bind(url, family, address), handler, secret or b"", identity, options)


class SocketListener(Listener):
    """One thread accepts; each connection proves itself on its own thread, so a silent one holds up nobody."""

    def __init__(self, sock: Any, handler: Handler, secret: bytes, identity: str, options: Options):
        self._sock, self._handler, self._options = sock, handler, options
        self._secret, self._identity = secret, identity
        self.url = addresses.url_of(sock)
        self._strangers: dict[Any, None] = {}  # the oldest first
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._accepts: threading.Thread | None = None
        self._channels: weakref.WeakSet[SocketChannel] = weakref.WeakSet()

        forks.own(self)

    def start(self) -> None:
        self._accepts = threading.Thread(target=self._run, name=f"sparkflow-accept {self.url}", daemon=True)
        self._accepts.start()

    def leave(self) -> None:
        self._guard, self._closed = threading.Lock(), threading.Event()
        self._closed.set()
        if not isinstance(self._sock, addresses.Named):
            self._sock.close()

    def channels(self) -> list[Channel]:
        with self._guard:
            return list(self._channels)

    def close(self) -> None:
        with self._guard:
            if self._closed.is_set():
                return
            self._closed.set()
            channels = list(self._channels)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._sock.close()
        if self._accepts is not None and self._accepts is not threading.current_thread():
            self._accepts.join(_LEAVE_S)  # until then the address is taken, however closed the socket
        if self.url.startswith("unix:///"):
            with contextlib.suppress(OSError):
                os.unlink(self.url.removeprefix("unix://"))
        for channel in channels:
            channel.close("the listener was closed")

    def _run(self) -> None:
        silent_until = 0.0
        while not self._closed.is_set():
            try:
                sock, _ = self._sock.accept()
            except OSError as e:
                if not self._closed.is_set() and e.errno != errno.ECONNABORTED:
                    if time.monotonic() >= silent_until:  # what is full may stay so for hours
                        log.error(_NOT_ACCEPTED, self.url, e, _ACCEPT_TELL_S)
                        silent_until = time.monotonic() + _ACCEPT_TELL_S
                    self._closed.wait(_ACCEPT_PAUSE_S)
                continue
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        with self._guard:
            self._strangers[sock] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > _MAX_STRANGERS else None
            self._strangers.pop(oldest, None)
        if oldest is not None:  # not this one: a peer proves itself at once, and gets in whoever holds the others
            log.error("%s: more than %d connections have yet to prove the secret; ends one", self.url, _MAX_STRANGERS)
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread sees that
        name = f"sparkflow-handshake {self.url}"
        try:
            threading.Thread(target=self._prove, args=(sock,), name=name, daemon=True).start()
        except RuntimeError as e:  # no thread to be had
            self._refuse(sock, "?", e)

    def _prove(self, sock: socket.socket) -> None:
        who = "?"
        try:
            who, address = addresses.dialler(sock), addresses.peer_url(sock)
            options, deadline = self._options, time.monotonic() + self._options.handshake_s
            secured, binding = _secure(sock, options, True, deadline)
            peer = handshake.accept(secured, self._secret, self._identity, options.keepalive_s, deadline, binding)
            with self._guard:
                if self._closed.is_set():
                    raise UnavailableError("the listener was closed")
                self._strangers.pop(sock, None)
                self._channels.add(_open(secured, address, peer, self._handler, options))
        except Exception as e:
            self._refuse(sock, who, e)

    def _refuse(self, sock: socket.socket, who: str, error: Exception) -> None:
        level = logging.DEBUG if self._closed.is_set() else logging.WARNING  # peers end at about the same time
        log.log(level, "Refused the connection from %s at %s: %s", who, self.url, error)
        with self._guard:
            self._strangers.pop(sock, None)
        sock.close()


def _secure(sock: Any, options: Options, listening: bool, deadline: float) -> tuple[Any, bytes]:
    """The socket below the handshake, with TLS where that is wanted, and what binds the proofs to it."""
    if options.tls is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return sock, b""
    from sparkflow_runtime.transport.tls_socket import secure  # Python's ssl is dear to import

    secured = secure(sock, options.tls, listening, deadline)
    return secured, secured.binding


def _open(sock: Any, address: str, peer: handshake.Peer, handler: Handler, options: Options) -> SocketChannel:
    if sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)
    elif sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if addresses.is_local(sock.family, sock.getpeername()):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOOPBACK_BUFFER_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LOOPBACK_BUFFER_BYTES)
    sock.settimeout(None)
    channel = SocketChannel(sock, address, peer, handler, options)
    channel.start()
    return channel


def _check_secret(url: str, secret: bytes | None, family: int, address: addresses.Address) -> None:
    if not secret and not addresses.is_local(family, address):
        raise InvalidArgumentError(
            f"{url} without a job secret: anyone on that network could speak. "
            "Give the job's secret (to tasks begun by hand, by the environment's SPARKFLOW_SECRET, the same for all), "
            "or stay on this host with 127.0.0.1 or unix://"
        )


def _connect(url: str, secret: bytes | None, deadline: float, timeout_s: float) -> socket.socket:
    error: Exception | None = None
    found = addresses.resolve(url)
    for tried, (family, address) in enumerate(found):  # one that nothing comes back from leaves time for the others
        _check_secret(url, secret, family, address)
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as e:
            raise ResourceExhaustedError(
                f"{url}: no connection can be made: {e}. Allow this process more open files"
            ) from None
        try:
            sock.settimeout(max((deadline - time.monotonic()) / (len(found) - tried), 1e-3))
            sock.connect(address)
            return sock
        except OSError as e:
            sock.close()
            error = e
    if isinstance(error, TimeoutError):
        raise DeadlineExceededError(
            f"{url}: no connection in {timeout_s:g} s. Check that host, its network, its firewall"
        )
    raise UnavailableError(f"{url}: {error}. Check that the process there runs and listens at that address")


def _bind(url: str, family: int, address: addresses.Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_UNIX:
            _remove_stale(address)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        if family == socket.AF_UNIX and not address.startswith(b"\0"):  # type: ignore[union-attr]
            os.chmod(address, 0o600)  # type: ignore[arg-type]
        sock.listen(_BACKLOG)
    except OSError as e:
        sock.close()
        hint = "This host has no such address; 0.0.0.0 stands for all that it has" * (e.errno == errno.EADDRNOTAVAIL)
        raise UnavailableError(f"Cannot listen at {url}: {e}. {hint or 'Port 0 takes any free one'}") from None
    return sock


def _remove_stale(address: addresses.Address) -> None:
    """A socket file that nobody listens at is left over from a process that died."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            if not address.startswith(b"\0"):  # type: ignore[union-attr]
                os.unlink(address)  # type: ignore[arg-type]
        except OSError:
            pass


def _named(error: BaseException, url: str) -> BaseException:
    """The error with the address in front of it."""
    if isinstance(error, OpError):
        return type(error)(f"{url}: {error.message}")
    if type(error).__module__ == "ssl" and "EOF" not in type(error).__name__:
        # with TLS 1.3 a listener says only here that it does not accept the dialler
        text = f"{url}: the listener refused this end's TLS: {error}. It wants a certificate of its authority"
        return UnauthenticatedError(text)
    if isinstance(error, OSError):
        return UnavailableError(f"{url}: the connection was lost in the handshake: {error}")
    if isinstance(error, RuntimeError):
        return ResourceExhaustedError(f"{url}: nobody can read the connection: {error}")  # no thread to be had
    return error


for _scheme in ("tcp", "unix"):
    register_scheme(_scheme, Sockets())
