"""The scheme ucx://host:port: the same channels over UCX (RDMA, shared memory, TCP), by way of the package ucxx.

An endpoint is made to look like the part of a stream socket that channels use, so handshake, frames, keepalive and
counters are those of TCP. Bytes travel as messages: the first 8 bytes of one say how many bytes there are in all; what
does not fit behind them comes as a second message, straight into the receiver's buffer. ucxx runs on an event loop of
its own thread, and callers wait for it. UCX has no TLS: its listener asks for a secret, whatever the address.

Loaded when the scheme is first used. UCX chooses its transports itself; its variables (UCX_TLS, UCX_NET_DEVICES) say
otherwise.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from sparkflow_runtime.transport import addresses
from sparkflow_runtime.transport.base import Channel, Handler, Listener, Options
from sparkflow_runtime.transport.sockets import SocketListener, Sockets
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
    UnimplementedError,
)

_FIRST_BYTES = 16 << 10  # of the first message
_CHUNK_BYTES = 8 << 20
_LENGTH = struct.Struct("<Q")
_DONTWAIT_S = 0.0


class Ucx:
    """The transport of the scheme."""

    def dial(
        self, url: str, handler: Handler, secret: bytes | None, identity: str, timeout_s: float, options: Options
    ) -> Channel:
        host, port = addresses.host_port(url)
        deadline, library = time.monotonic() + timeout_s, _library()
        try:
            endpoint = _Loop.run(library.create_endpoint(host, port, connect_timeout=timeout_s), timeout_s)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{url}: no connection in {timeout_s:g} s. Does the process there run?"
            ) from None
        except Exception as e:
            raise UnavailableError(f"{url}: {type(e).__name__}: {e}") from None
        return Sockets.greet(UcxSocket(endpoint, url, url), url, handler, secret, identity, deadline, options)

    def listen(self, url: str, handler: Handler, secret: bytes | None, identity: str, options: Options) -> Listener:
        if not secret:
            raise InvalidArgumentError(f"{url} without a job secret: UCX listens at every interface. Give the secret")
        host, port = addresses.host_port(url)
        return SocketListener(_Accepting(_library(), host, port), handler, secret, identity, options)


class _Loop:
    """The event loop of this process that ucxx works on."""

    _lock = threading.Lock()
    _loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def start(cls) -> asyncio.AbstractEventLoop:
        with cls._lock:
            if cls._loop is None:
                cls._loop = asyncio.new_event_loop()
                threading.Thread(target=cls._loop.run_forever, name="sparkflow-ucx", daemon=True).start()
            return cls._loop

    @classmethod
    def submit(cls, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, cls.start())

    @classmethod
    def run(cls, work: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
        future = cls.submit(work)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError from None

    @classmethod
    def call(cls, function: Callable[[], Any]) -> Any:
        """In the loop's thread."""

        async def work() -> Any:
            return function()

        return cls.submit(work()).result()


class UcxSocket(addresses.Named):
    """An endpoint as a stream. One thread may send while another receives."""

    family = None

    def __init__(self, endpoint: Any, url: str, peer_url: str):
        self._endpoint, self.url, self.peer_url = endpoint, url, peer_url
        self._send_s: float | None = None
        self._receive_s: float | None = None
        self._sending: concurrent.futures.Future[Any] | None = None
        self._claimed = 0  # bytes being sent that the caller was not yet told of
        self._receiving: concurrent.futures.Future[Any] | None = None
        self._first = np.empty(_FIRST_BYTES, np.uint8)
        self._rest: memoryview = memoryview(b"")  # received, not yet taken
        self._ended = False

    # ---- as socket.socket has them

    def settimeout(self, timeout_s: float | None) -> None:
        self._send_s = self._receive_s = timeout_s

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            seconds, microseconds = struct.unpack("@ll", value)
            name = "_send_s" if option == socket.SO_SNDTIMEO else "_receive_s"
            setattr(self, name, seconds + microseconds / 1e6)

    def shutdown(self, how: int) -> None:
        if not self._ended:
            self._ended = True
            endpoint = self._endpoint
            _Loop.start().call_soon_threadsafe(lambda: asyncio.ensure_future(_close(endpoint)))

    def close(self) -> None:
        self.shutdown(0)

    def sendall(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            try:
                at += self.sendmsg([memoryview(data)[at:]])
            except BlockingIOError:
                raise TimeoutError from None

    def sendmsg(self, buffers: Sequence[Any], ancillary: Any = (), flags: int = 0) -> int:
        """As TlsSocket.sendmsg: what was begun is said to be sent but for its last byte, until it has been."""
        if self._sending is None:
            data = _first_bytes(buffers)
            self._claimed = len(data)
            self._sending = _Loop.submit(self._send(data))
        wait_s = _DONTWAIT_S if flags & socket.MSG_DONTWAIT else self._send_s
        try:
            self._sending.result(wait_s)
        except concurrent.futures.TimeoutError:
            if self._claimed <= 1:
                raise BlockingIOError from None
            said, self._claimed = self._claimed - 1, 1
            return said
        except Exception as e:
            raise ConnectionResetError(f"{type(e).__name__}: {e}") from None
        said, self._claimed, self._sending = self._claimed, 0, None
        return said

    async def _send(self, data: np.ndarray) -> None:
        here = min(_FIRST_BYTES - _LENGTH.size, len(data))
        first = np.frombuffer(_LENGTH.pack(len(data)) + data[:here].tobytes(), np.uint8)
        await self._endpoint.send(first)
        if here < len(data):
            await self._endpoint.send(data[here:])

    def recv(self, nbytes: int) -> bytes:
        buffer = bytearray(nbytes)
        try:
            return bytes(buffer[: self.recv_into(memoryview(buffer))])
        except BlockingIOError:
            raise TimeoutError from None

    def recv_into(self, view: memoryview, nbytes: int = 0, flags: int = 0) -> int:
        """At least a byte; 0 at the end. Raises BlockingIOError after the time set."""
        if not self._rest:
            if self._receiving is None:
                self._receiving = _Loop.submit(self._receive())
            try:
                self._rest = self._receiving.result(self._receive_s)
            except concurrent.futures.TimeoutError:
                if self._ended:
                    return 0
                raise BlockingIOError from None
            except Exception:
                return 0  # UCX tells the end of a peer as an error of one kind or another
            self._receiving = None
        got = min(len(view), len(self._rest))
        view[:got] = self._rest[:got]
        self._rest = self._rest[got:]
        return got

    async def _receive(self) -> memoryview:
        await self._endpoint.recv(self._first)
        (nbytes,) = _LENGTH.unpack(self._first[: _LENGTH.size].tobytes())
        if not 0 < nbytes <= _CHUNK_BYTES:
            raise ConnectionError(f"a message of {nbytes} bytes")
        here = min(nbytes, _FIRST_BYTES - _LENGTH.size)
        whole = np.empty(nbytes, np.uint8)
        whole[:here] = self._first[_LENGTH.size : _LENGTH.size + here]
        if here < nbytes:
            await self._endpoint.recv(whole[here:])
        return whole.data


class _Accepting(addresses.Named):
    """A listener as a socket that accepts."""

    family = None

    def __init__(self, library: Any, host: str, port: int):
        self._accepted: SimpleQueue[Any] = SimpleQueue()

        async def arrived(endpoint: Any) -> None:
            self._accepted.put(endpoint)

        try:
            self._listener = _Loop.call(lambda: library.create_listener(arrived, port))
        except Exception as e:
            raise UnavailableError(f"Cannot listen at ucx://{host}:{port}: {type(e).__name__}: {e}") from None
        self.url = f"ucx://{host}:{self._listener.port}"

    def accept(self) -> tuple[UcxSocket, None]:
        endpoint = self._accepted.get()
        if endpoint is None:
            raise ConnectionAbortedError
        return UcxSocket(endpoint, self.url, f"{self.url} (dialler {endpoint.uid:#x})"), None

    def shutdown(self, how: int) -> None:
        self._accepted.put(None)

    def close(self) -> None:
        _Loop.call(self._listener.close)


def _library() -> Any:
    _Loop.start()
    try:
        return importlib.import_module("ucxx")
    except ImportError as e:
        raise UnimplementedError(
            f"ucx:// needs the package ucxx ({e}): install ucxx-cu12 or ucxx-cu13, or ucxx of conda's channel rapidsai"
        ) from None


def _first_bytes(buffers: Sequence[Any]) -> np.ndarray:
    parts, size = [], 0
    for buffer in buffers:
        flat = buffer.reshape(-1).view(np.uint8) if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
        parts.append(flat[: _CHUNK_BYTES - size])
        size += len(parts[-1])
        if size >= _CHUNK_BYTES:
            break
    return np.concatenate(parts)  # a copy: the caller's arrays are its own again before UCX has sent them


async def _close(endpoint: Any) -> None:
    try:
        await endpoint.close()
    except Exception:
        endpoint.abort()
