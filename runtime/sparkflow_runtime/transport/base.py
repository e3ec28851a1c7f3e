"""What a transport is, before any of them: channels, listeners, handlers, and the look-up by URL scheme.

The contract, for every scheme:

- A channel joins two processes that proved to each other that they hold the job's secret. Once it stands, both ends
  are equal: either may call, push and close.
- Messages that one thread sends on one channel arrive, and are handled, in the order it sent them. Replies come in
  any order.
- When `call`, `call_async`, `push` or `reply` returns, the arrays given to it are the caller's again. The arrays
  that arrive are the receiver's: nobody else writes to them.
- A handler is called on the channel's reader thread, one message at a time, and must not block there: nothing else
  arrives on that channel meanwhile. It hands work to a thread of its own and keeps `reply`. Sending never blocks on
  a reader thread (what the peer does not take at once is copied and sent later), and may block elsewhere while the
  peer is slow.
- A channel ends once, for one reason, which every pending call gets as UnavailableError and `on_close` gets last of
  all.
- A process that comes to the end of its program answers first what it was asked, if that takes but a moment.
- A peer that says nothing for `keepalive_s` (a heartbeat counts) is dead, and its channel ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.transport.tls import Tls
from sparkflow_runtime.wire import frames
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError, UnimplementedError

Reply = Callable[..., None]
Done = Callable[[OpError | None, bytes, list[np.ndarray]], None]


@dataclass(frozen=True)
class Options:
    """keepalive_s: silence after which the peer is dead; handshake_s: time to prove the secret.

    max_payload_bytes: of one arriving frame. max_owed_bytes: of replies that wait for a peer that does not read them,
    beyond which the channel ends (senders that may block wait instead). shared_bytes: of shared memory that one end of
    a channel on this host keeps for its large payloads, 0 for none. tls: of TCP connections (default: as the
    environment says, see `tls`).
    """

    keepalive_s: float = 10.0
    handshake_s: float = 10.0
    max_payload_bytes: int = frames.MAX_PAYLOAD_BYTES
    max_owed_bytes: int = 4 << 30
    shared_bytes: int = 512 << 20
    tls: Tls | None = field(default_factory=Tls.from_environment)

    def __post_init__(self) -> None:
        positive = 0 < self.handshake_s < 1e6 and self.max_payload_bytes > 0 and self.shared_bytes >= 0
        if not (0.1 <= self.keepalive_s < 1e6 and positive):
            raise InvalidArgumentError(f"{self}: expected keepalive_s of at least 0.1, and the others above 0")


class Handler(Protocol):
    """Who is told of what arrives on a channel. It may be called before `dial` has returned that channel.

    It may have names for methods, for errors: `methods`, number -> word.
    """

    def on_message(
        self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Reply | None
    ) -> None:
        """A push where `reply` is None, else a call.

        reply(meta=b"", tensors=(), error=None): once, from any thread, now or later. It does not raise when the channel
        has ended (on_close says so) nor when its tensors cannot be sent (the caller gets that error).
        An exception raised here is the reply to a call, and is logged for a push.
        """

    def on_close(self, channel: Channel, error: OpError) -> None:
        """The channel ended, whoever ended it. Called once, after the last on_message."""


class NoHandler:
    """For an end that only calls: refuses every call by name."""

    def __init__(self, methods: Mapping[int, str] | None = None):
        self.methods = methods or {}

    def on_message(
        self, channel: Channel, method: int, meta: bytes, tensors: list[np.ndarray], reply: Reply | None
    ) -> None:
        raise UnimplementedError(f"Method {method} from {channel}: this end takes no messages")

    def on_close(self, channel: Channel, error: OpError) -> None:
        pass


class Channel(ABC):
    """One connection.

    peer: the identity that the other side stated and proved with the secret, such as "/job:ps/replica:0/task:1";
    may be "". address: where it is, as a URL; for a log.
    """

    peer: str
    address: str

    @abstractmethod
    def call(
        self, method: int, meta: bytes = b"", tensors: Sequence[Any] = (), timeout_s: float | None = None
    ) -> tuple[bytes, list[np.ndarray]]:
        """The reply's (meta, tensors).

        Raises the error the handler replied with; DeadlineExceededError after `timeout_s`; UnavailableError when the
        channel ended; FailedPreconditionError on the channel's own reader thread, where it would wait for itself.
        """

    @abstractmethod
    def call_async(
        self, method: int, meta: bytes, tensors: Sequence[Any], done: Done, deadline: float | None = None
    ) -> int:
        """done(error, meta, tensors), once, on the reader thread (the closing one, that of `take_answer`): it must not
        block. Returns the call's number.

        Raises, and never calls `done`, where the request could not be sent: DeadlineExceededError where it was not by
        `deadline` (time.monotonic), and what had begun to leave may still arrive.
        """

    def take_answer(self, call_id: int, until: float) -> None:
        """For a thread that only waits for that answer: it may read it, and call `done`, itself, and comes back then or
        at `until` (time.monotonic) or before. It must hold nothing that a handler needs."""
        return

    @abstractmethod
    def push(
        self,
        method: int,
        meta: bytes = b"",
        tensors: Sequence[Any] = (),
        waits: bool | float = True,
        deadline: float | None = None,
    ) -> None:
        """One way, no answer. waits: may wait, until `deadline`, for a peer that does not read; else what does not go
        now, or in so many seconds, is copied and sent later, as it always is on a reader thread. Raises
        UnavailableError when the channel has ended, DeadlineExceededError as `call_async`."""

    @abstractmethod
    def close(self, reason: str = "closed by this side") -> None:
        """Ends the channel at both ends, with `reason`; nothing happens if it has ended."""

    @property
    @abstractmethod
    def error(self) -> OpError | None:
        """Why the channel ended; None while it stands."""

    @property
    @abstractmethod
    def owes(self) -> bool:
        """Whether calls of the peer have no answer yet, or what was to be sent has not left."""

    @property
    @abstractmethod
    def counters(self) -> dict[str, int]:
        """frames_sent, frames_received, bytes_sent, bytes_received (heartbeats are counted too), and beside them
        bytes_lent and bytes_borrowed through shared memory."""

    def __str__(self) -> str:
        return f"{self.peer or 'unnamed peer'} at {self.address}"


class Listener(ABC):
    """Accepts channels until closed. url: what a peer can dial, with the port that was bound."""

    url: str

    @abstractmethod
    def start(self) -> None:
        """Begins to accept, once; who dialled before waits until then."""

    @abstractmethod
    def channels(self) -> list[Channel]:
        """Those that it accepted and that somebody uses; some may have ended."""

    @abstractmethod
    def close(self) -> None:
        """Accepts no more, and closes the channels it accepted."""


class Transport(Protocol):
    """What `register_scheme` takes."""

    def dial(
        self, url: str, handler: Handler, secret: bytes | None, identity: str, timeout_s: float, options: Options
    ) -> Channel: ...

    def listen(self, url: str, handler: Handler, secret: bytes | None, identity: str, options: Options) -> Listener: ...


_SCHEMES: dict[str, Transport] = {}
_LAZY = {"ucx": ("sparkflow_runtime.transport.ucx", "Ucx")}  # (module, class), loaded when first asked for


def register_scheme(scheme: str, transport: Transport) -> None:
    _SCHEMES[scheme] = transport


def _transport(url: str) -> Transport:
    scheme, found, _ = url.partition("://")
    if scheme in _LAZY and scheme not in _SCHEMES:
        module, name = _LAZY[scheme]
        register_scheme(scheme, getattr(import_module(module), name)())
    if not found or scheme not in _SCHEMES:
        known = ", ".join(f"{s}://" for s in sorted({*_SCHEMES, *_LAZY}))
        raise InvalidArgumentError(f"Address {url!r}: no transport for it; known are {known}")
    return _SCHEMES[scheme]


def dial(
    url: str,
    handler: Handler | None = None,
    secret: bytes | None = None,
    identity: str = "",
    timeout_s: float = 10.0,
    options: Options | None = None,
) -> Channel:
    """A channel to the listener at `url`, both ends proved.

    secret: the job's; None only on this host. identity: who this end is, told to the peer.
    Raises UnavailableError where nobody listens, DeadlineExceededError where nobody answers in `timeout_s`,
    UnauthenticatedError where the secrets differ, InvalidArgumentError on a bad `url`.
    """
    return _transport(url).dial(url, handler or NoHandler(), secret, identity, timeout_s, options or Options())


def listen(
    url: str,
    handler: Handler | None = None,
    secret: bytes | None = None,
    identity: str = "",
    options: Options | None = None,
    start: bool = True,
) -> Listener:
    """Listens at `url` (tcp port 0: any free one) and gives every accepted channel to `handler`. start: accept at once,
    and not from the listener's `start()` on.

    Raises InvalidArgumentError where `secret` is None and others than this host could dial, UnavailableError where
    the address cannot be bound.
    """
    listener = _transport(url).listen(url, handler or NoHandler(), secret, identity, options or Options())
    try:
        if start:
            listener.start()
    except BaseException:  # Ctrl-C, too: it comes while a thread starts, and nobody else has the listener to close it
        listener.close()
        raise
    return listener
