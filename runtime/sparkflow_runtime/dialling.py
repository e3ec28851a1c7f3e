"""How one finds a Server: over which socket, with which secret, and how long one waits for it to be there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence

from sparkflow_runtime.transport.addresses import resolve
from sparkflow_runtime.transport.base import Channel, Handler, Listener, Options, dial, listen
from sparkflow_runtime.wire.errors import DeadlineExceededError, OpError, UnauthenticatedError, UnavailableError
from sparkflow_runtime.wire.tasks import TRAFFIC

SECRET_VARIABLE = "SPARKFLOW_SECRET"
PATIENCE_S = 20.0  # tasks of one job start at about the same time, but not at the same moment
_TELL_S, _RETRY_S, _ANSWER_S = 2.0, 0.1, 10.0
_PORTS = 5  # that are tried

_log = logging.getLogger(__name__)


def near_url(address: str) -> str:
    """Where the Server that is bound to this TCP address, a number, is found by processes of its own host (an abstract
    socket)."""
    return f"unix://@sparkflow-{address}"


class _Several(Listener):
    """As one."""

    def __init__(self, listeners: Sequence[Listener]):
        self._listeners, self.url = listeners, listeners[0].url

    def start(self) -> None:
        for listener in self._listeners:
            listener.start()

    def channels(self) -> list[Channel]:
        return [channel for listener in self._listeners for channel in listener.channels()]

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()


def listen_near(
    address: str,
    handler: Handler,
    secret: bytes | None,
    identity: str,
    options: Options,
    aliases: Sequence[str] = (),
) -> tuple[Listener, Listener]:
    """By TCP and under the name of that address, both yet to be started. Of free ports (0) one whose name is free, too:
    a server that ends may let go of its name a moment after its port.

    aliases: hosts under whose names processes of this host look for it, too; those that are taken are left out."""
    refused: list[Listener] = []  # held until the end, so that the next port is another one
    try:
        while True:
            far = listen(f"tcp://{address}", handler, secret, identity, options, False)
            bound = far.url.removeprefix("tcp://")
            try:
                near = listen(near_url(bound), handler, secret, identity, options, False)
            except UnavailableError:
                refused.append(far)
                if not address.endswith(":0") or len(refused) == _PORTS:
                    raise
                continue
            more = [near]
            for host in aliases:
                with contextlib.suppress(UnavailableError):
                    name = near_url(f"{host}:{bound.rpartition(':')[2]}")
                    more.append(listen(name, handler, secret, identity, options, False))
            return far, _Several(more) if aliases else near
    finally:
        for far in refused:
            far.close()


def dial_near(
    address: str,
    handler: Handler,
    secret: bytes | None,
    identity: str,
    options: Options,
    patience_s: float | None = None,
) -> Channel:
    """Over a unix socket when the Server is on this host (half the latency of loopback TCP), over TCP otherwise.
    patience_s: for how long at most one that does not answer is waited for."""
    timeout_s = _ANSWER_S if patience_s is None else min(_ANSWER_S, patience_s)
    try:
        return dial(near_url(_as_number(address)), handler, secret, identity, timeout_s, options)
    except UnavailableError as error:
        _log.debug("%s; using TCP", error)
    return dial(f"tcp://{address}", handler, secret, identity, timeout_s, options)


def _as_number(address: str) -> str:
    """As a Server prints it that was told this address. Raises UnavailableError where the host has none."""
    family, found = resolve(f"tcp://{address}")[0]
    return "[{}]:{}".format(*found) if family == socket.AF_INET6 else "{}:{}".format(*found)


def patiently(connect: Callable[[], Channel], who: str, patience_s: float = PATIENCE_S) -> Channel:
    """What `connect()` gives, tried until `who` is there. Raises UnavailableError when it is not in time, and at once
    what `connect` raises for another reason, UnauthenticatedError above all."""
    begun, told = time.monotonic(), False
    while True:
        try:
            return connect()
        except UnauthenticatedError as error:
            raise UnauthenticatedError(f"{who}: {error.message}") from None
        except (UnavailableError, DeadlineExceededError) as error:
            waited_s = time.monotonic() - begun
            if waited_s > _TELL_S and not told:
                told = True
                _log.warning("%s is not there yet, trying for %g s: %s", who, round(patience_s, 2), error)
            if waited_s + _RETRY_S > patience_s:
                raise UnavailableError(
                    f"{who}: no Server answers after {round(patience_s, 2):g} s ({error.message})"
                ) from None
        time.sleep(_RETRY_S)


def unreachable(connect: Callable[[str], object], tasks: Iterable[str]) -> dict[str, str]:
    """Those of these tasks that cannot be reached now, with the reason."""
    away = {}
    for task in tasks:
        try:
            connect(task)
        except OpError as error:
            away[task] = error.message
    return away


def secret_of_environment() -> bytes | None:
    return os.environ.get(SECRET_VARIABLE, "").encode() or None


def traffic_of(address: str, secret: bytes | None) -> dict[str, dict[str, int]]:
    """What the process of the server at 'host:port' has exchanged with each peer (transport/peers)."""
    channel = dial(f"tcp://{address}", None, secret)
    try:
        found: dict[str, dict[str, int]] = json.loads(channel.call(TRAFFIC, timeout_s=10.0)[0])
        return found
    finally:
        channel.close()
