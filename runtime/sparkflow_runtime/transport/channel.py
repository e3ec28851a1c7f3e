"""A channel over a connected, proved stream socket: a reader thread, pending calls, replies."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.transport import forks, keepalive, peers, shared, taking_turns
from sparkflow_runtime.transport.addresses import Named
from sparkflow_runtime.transport.base import Channel, Done, Handler, Options
from sparkflow_runtime.transport.calls import Reply, Waiter, error_meta, read_error
from sparkflow_runtime.transport.handshake import Peer
from sparkflow_runtime.transport.receiving import Message, Receiver
from sparkflow_runtime.transport.sending import BacklogError, Sender
from sparkflow_runtime.transport.taking_turns import TakingTurns
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    OpError,
    UnavailableError,
)

log = logging.getLogger(__name__)
_HEARTBEAT = bytes(frames.encode(frames.HEARTBEAT, 0, 0)[0])
_MAX_REASON_CHARS = 16 << 10
_HEAR_S = 0.2
_READERS: set[int] = set()  # idents of reader threads: what they send must not wait


class SocketChannel(Channel):
    def __init__(self, sock: socket.socket, address: str, peer: Peer, handler: Handler, options: Options):
        self.peer, self.address = peer.identity, address
        self.keepalive_s = options.keepalive_s
        self.beat_s = keepalive.beat_s(options.keepalive_s, peer.keepalive_s)
        self._sock, self._handler = sock, handler
        self._sender = Sender(sock, str(self), options.max_owed_bytes)
        by_memory = sock.family == socket.AF_UNIX and shared.AVAILABLE
        self._pending: dict[int, tuple[int, Done]] = {}
        plain = taking_turns.AVAILABLE and isinstance(sock, socket.socket)
        self._turns = TakingTurns(sock) if plain else None
        self._receiver = Receiver(sock, options.max_payload_bytes, self.beat_s, by_memory)
        self._lender = shared.Lender(options.shared_bytes) if by_memory and options.shared_bytes else None
        self._ids = itertools.count(1)
        self._frames_received = 0
        self._asked: set[int] = set()  # the peer's calls that have no answer yet
        self._handling = False
        self._error: OpError | None = None
        self._reason = ""
        self._ending = threading.Lock()
        self._reader = threading.Thread(target=self._run, name=f"sparkflow-read {self}", daemon=True)

    def start(self) -> None:
        keepalive.MONITOR.watch(self)
        peers.begin(self)
        forks.own(self)
        try:
            self._reader.start()
        except RuntimeError:  # no thread to be had
            keepalive.MONITOR.forget(self)
            peers.end(self)
            raise

    # ---- sending

    def call(
        self, method: int, meta: bytes = b"", tensors: Sequence[Any] = (), timeout_s: float | None = None
    ) -> tuple[bytes, list[np.ndarray]]:
        if threading.get_ident() == self._reader.ident:
            raise FailedPreconditionError(
                f"call of method {method} on the reader thread of {self}: its reply could not be read. Use call_async"
            )
        start = time.monotonic()
        deadline = None if timeout_s is None else start + timeout_s
        waiter = Waiter()
        call_id = self._request(method, meta, tensors, waiter, deadline)
        if self._turns is not None:
            try:
                if (message := self._turns.answer(self._receiver, call_id, self._pending, deadline)) is not None:
                    return self._answered(message)
            except BaseException:  # Ctrl-C: nobody waits for it any more
                self._pending.pop(call_id, None)
                raise
        if not waiter.wait(deadline):
            if self._pending.pop(call_id, None) is not None:
                raise self._late(method, start, "no reply")
            waiter.wait(None)  # the reply came at the same moment
        if waiter.error is not None:
            raise waiter.error
        return waiter.meta, waiter.tensors

    def _answered(self, message: Message) -> tuple[bytes, list[np.ndarray]]:
        """What a caller has read, which only one may at a time."""
        header, meta, tensors = message
        self._frames_received += 1
        self._pending.pop(header.call_id, None)
        if header.kind == frames.ERROR:
            raise read_error(meta, header.method)
        return meta, tensors

    def call_async(
        self, method: int, meta: bytes, tensors: Sequence[Any], done: Done, deadline: float | None = None
    ) -> int:
        return self._request(method, meta, tensors, done, deadline)

    def take_answer(self, call_id: int, until: float) -> None:
        if self._turns is None:
            return
        try:
            message = self._turns.answer(self._receiver, call_id, self._pending, until)
            if message is not None:
                self._frames_received += 1
                header, meta, tensors = message
                error = read_error(meta, header.method) if header.kind == frames.ERROR else None
                self._complete(call_id, error, meta if error is None else b"", tensors)
        except BaseException:  # Ctrl-C: nobody waits for it any more
            self._pending.pop(call_id, None)
            raise

    def push(
        self,
        method: int,
        meta: bytes = b"",
        tensors: Sequence[Any] = (),
        waits: bool | float = True,
        deadline: float | None = None,
    ) -> None:
        self._send(frames.encode(frames.PUSH, method, 0, meta, tensors), method, deadline, waits)

    def _request(self, method: int, meta: bytes, tensors: Sequence[Any], done: Done, deadline: float | None) -> int:
        call_id = next(self._ids)
        buffers = frames.encode(frames.REQUEST, method, call_id, meta, tensors)
        self._pending[call_id] = method, done
        try:
            self._send(buffers, method, deadline)
        except BaseException as error:
            unanswered = self._pending.pop(call_id, None) is not None
            if unanswered or not isinstance(error, Exception):  # Ctrl-C: whatever has come of the call
                raise
        return call_id  # where the channel ended meanwhile, `done` has been told

    def _send(
        self, buffers: list[frames.Buffer], method: int, deadline: float | None, waits: bool | float = True
    ) -> None:
        if self._error is not None:
            raise self._gone(method)
        nbytes, start = frames.frame_bytes(buffers), time.monotonic()
        segment, posted = None, False
        try:
            if self._lender is not None and nbytes >= shared.MIN_BYTES:
                head, segment = self._place(self._lender, buffers, nbytes)
                self._forget_dropped(self._lender)
                if segment is not None:
                    buffers, nbytes = head, sum(map(len, head))
            if not waits or threading.get_ident() in _READERS:
                self._sender.post(buffers, nbytes, segment)
                posted = True
            elif waits is not True:
                posted = self._sender.send_or_post(buffers, nbytes, start + waits, segment)
            else:
                self._sender.send(buffers, nbytes, deadline, segment)
        except OSError as e:
            self._hear_why()
            raise self._gone(method, f"connection lost while sending: {e}") from e
        except BacklogError as e:
            self.close(f"the peer does not read: {e}")
            raise self._gone(method) from e
        except DeadlineExceededError as e:
            raise self._late(method, start, f"{nbytes} bytes not sent, {e}") from None
        finally:
            if segment is not None and not (segment.named or posted):
                self._lender.give_up(segment)  # type: ignore[union-attr]

    def _hear_why(self) -> None:
        """A peer that has ended the connection said why, and the reader is about to read it."""
        until = time.monotonic() + _HEAR_S
        while self._error is None and threading.get_ident() not in _READERS and time.monotonic() < until:
            time.sleep(_HEAR_S / 50)

    @staticmethod
    def _place(
        lender: shared.Lender, buffers: list[frames.Buffer], nbytes: int
    ) -> tuple[list[frames.Buffer], shared.Segment | None]:
        """The frame with its payload in shared memory, if it is large and finds room there."""
        head, payload = frames.split(buffers)
        payload_bytes = nbytes - sum(map(len, head))
        segment = lender.place(payload, payload_bytes) if payload_bytes >= shared.MIN_BYTES else None
        if segment is not None:
            head = frames.with_payload_at(head, frames.Place(segment.number, segment.fd >= 0))
        return head, segment

    def _gone(self, method: int, otherwise: str = "") -> UnavailableError:
        return UnavailableError(f"{self._named(method)} to {self}: {self._reason or otherwise}")

    def _named(self, method: int) -> str:
        word = getattr(self._handler, "methods", {}).get(method)
        return f"Method {method}" if word is None else f"Method {method} ({word})"

    def _late(self, method: int, start: float, what: str) -> DeadlineExceededError:
        took = f"{what} in {time.monotonic() - start:.3g} s"
        return DeadlineExceededError(f"{self._named(method)} to {self}: {took}. Look for an earlier error there")

    def _forget_dropped(self, lender: shared.Lender) -> None:
        """Before what they were dropped for is sent: rather twice, by two threads, than by one that is late."""
        while lender.dropped:
            with contextlib.suppress(IndexError, ValueError):  # another thread was faster
                segment = lender.dropped[0]
                self._sender.post([bytes(frames.encode(frames.FORGET, 0, segment.number)[0])], frames.HEADER_BYTES)
                lender.dropped.remove(segment)

    def answer(
        self, call_id: int, method: int, meta: bytes, tensors: Sequence[Any], error: BaseException | None
    ) -> None:
        """Sends a reply; a connection that is gone is no error here."""
        if error is None:
            try:
                buffers = frames.encode(frames.REPLY, method, call_id, meta, tensors)
            except Exception as e:
                error = e
        if error is not None:
            buffers = frames.encode(frames.ERROR, method, call_id, error_meta(error))
        with contextlib.suppress(UnavailableError):
            self._send(buffers, method, None)
        self._asked.discard(call_id)

    # ---- receiving

    def _run(self) -> None:
        _READERS.add(threading.get_ident())
        try:
            while True:
                self._turn()
                if self._turns is not None:
                    self._turns.make_room(self._receiver)
        except EOFError:
            self._end("the peer closed the connection or died")
        except _Goodbye as e:
            self._end(f"closed by the peer: {e}")
        except OSError as e:
            self._end(f"connection lost: {e}")
        except BaseException as e:
            if self._error is None:
                log.error("Frame from %s refused, closing the connection: %s", self, e)
            self.close(f"bad frame: {e}")
        finally:
            self._finish()

    def _turn(self) -> None:
        """One message; its tensors are let go before the next is waited for."""
        header, meta, tensors = self._receiver.receive()
        self._frames_received += 1
        self._handling = True
        try:
            self._dispatch(header, meta, tensors)
        finally:
            self._handling = False

    def _dispatch(self, header: frames.Header, meta: bytes, tensors: list[np.ndarray]) -> None:
        kind, method, call_id = header[:3]
        if kind == frames.REPLY:
            self._complete(call_id, None, meta, tensors)
        elif kind == frames.REQUEST:
            reply = Reply(self, call_id, method)
            self._asked.add(call_id)
            try:
                self._handler.on_message(self, method, meta, tensors, reply)
            except Exception as e:
                reply.fail(e)
        elif kind == frames.PUSH:
            try:
                self._handler.on_message(self, method, meta, tensors, None)
            except Exception:
                log.exception("Push of method %d from %s failed", method, self)
        elif kind == frames.ERROR:
            self._complete(call_id, read_error(meta, method), b"", [])
        elif kind == frames.FORGET:
            self._receiver.forget(call_id)
        elif kind == frames.GOODBYE:
            raise _Goodbye(meta.decode(errors="replace")[:_MAX_REASON_CHARS])

    def _complete(self, call_id: int, error: OpError | None, meta: bytes, tensors: list[np.ndarray]) -> None:
        method, done = self._pending.pop(call_id, (0, None))
        if done is None:
            return  # its caller gave up
        try:
            done(error, meta, tensors)
        except Exception:
            log.exception("The callback for method %d to %s failed", method, self)

    # ---- ending

    @property
    def error(self) -> OpError | None:
        return self._error

    @property
    def owes(self) -> bool:
        return self._error is None and bool(self._asked or self._sender.busy)

    @property
    def counters(self) -> dict[str, int]:
        return {
            "frames_sent": self._sender.frames_sent,
            "frames_received": self._frames_received,
            "bytes_sent": self._sender.bytes_sent,
            "bytes_received": self._receiver.bytes_received,
            "bytes_lent": self._lender.bytes_lent if self._lender else 0,
            "bytes_borrowed": self._receiver.bytes_borrowed,
        }

    def close(self, reason: str = "closed by this side") -> None:
        self._end(reason, tell_peer=True)
        self._fail_pending()

    def _end(self, reason: str, tell_peer: bool = False) -> None:
        """Gives the channel its one reason to end, and wakes whoever reads or sends."""
        with self._ending:
            if self._error is not None:
                return
            self._reason, self._error = reason, UnavailableError(f"{self}: {reason}")
        goodbye = reason[:_MAX_REASON_CHARS].encode(errors="replace")
        with contextlib.suppress(OSError):
            if tell_peer:
                self._sender.farewell(b"".join(frames.encode(frames.GOODBYE, 0, 0, goodbye)))
            self._sock.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        self._reason = "the connection is that of the process that this one was forked from"
        self._error = UnavailableError(f"{self}: {self._reason}")
        if not isinstance(self._sock, Named):
            self._sock.close()

    def _fail_pending(self) -> None:
        for call_id, (method, _) in self._pending.copy().items():
            self._complete(call_id, self._gone(method), b"", [])

    def _finish(self) -> None:
        keepalive.MONITOR.forget(self)
        peers.end(self)
        self._sender.stop()
        if self._turns is not None:
            self._turns.end()
        self._sock.close()
        self._receiver.close()
        if self._lender is not None:
            self._lender.close()
        self._fail_pending()
        _READERS.discard(threading.get_ident())
        try:
            self._handler.on_close(self, self._error or UnavailableError(f"{self}: closed"))
        except Exception:
            log.exception("on_close of %s failed", self)

    # ---- what the monitor sees

    def activity(self) -> tuple[int, int, bool, bool]:
        return self._receiver.bytes_received, self._sender.bytes_sent, self._sender.busy, not self._handling

    def heartbeat(self) -> None:
        with contextlib.suppress(OSError):
            self._sender.offer(_HEARTBEAT)
            if self._lender is not None:
                self._lender.trim(time.monotonic())
                self._forget_dropped(self._lender)

    def silent(self, silent_s: float) -> None:
        self._end(
            f"silent for {silent_s:.1f} s (keepalive {self.keepalive_s:g} s). It is stopped, cut off, or busy without "
            "letting its other threads run"
        )


class _Goodbye(Exception):
    pass
