"""A session whose master is a Server in another process: each run is one message there and one back."""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.client_functions import ClientFunctions
from sparkflow_runtime.dialling import PATIENCE_S, dial_near, patiently
from sparkflow_runtime.local_session import DeviceAttributes
from sparkflow_runtime.served import credentials
from sparkflow_runtime.transport.base import Channel, Handler, NoHandler
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.cluster import address_of
from sparkflow_runtime.wire.errors import CancelledError, DeadlineExceededError, OpError, UnavailableError, from_dict
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef, NodeDef, RunMetadata, RunOptions
from sparkflow_runtime.wire.serialized import serialized
from sparkflow_runtime.wire.sessions import PartialRequest, Signature, StepRequest, new_handle, number_of

_CONTROL_TIMEOUT_S = 120.0  # of what runs no step
_GRACE_S = 3.0  # for the master to say itself that a step's time is over, and who waits for whom
_numbers = itertools.count(1)


class RemoteSession:
    """What RuntimeSession is, over a channel of its own to the Server at `target`. Thread-safe.

    Raises UnavailableError where nobody answers at the target within 20 s (or the config's operation timeout),
    UnauthenticatedError where the secrets differ.
    """

    def __init__(self, target: str, config: ConfigProto | None = None):
        config = config or ConfigProto()
        self._target = target
        functions = ClientFunctions(address_of(target), config.isolate_session_state)
        self._channel = _dial(target, config.operation_timeout_in_ms / 1000 or PATIENCE_S, functions)
        self._timeout_s = config.operation_timeout_in_ms / 1000
        self._closed = False
        self._steps = itertools.count(1)
        self._lock = Lock()
        self._told: OrderedDict[Signature, int] = OrderedDict()  # signature -> its number
        self._signature_numbers = itertools.count(1)
        try:
            reply, _ = self._call(sessions.OPEN, config.SerializeToString())
        except BaseException:  # Ctrl-C, too: nobody else would end it
            self._channel.close("the session was not opened")
            raise
        self._devices = [DeviceAttributes(*row) for row in sessions.decode_devices(reply)]

    def extend(self, graph: GraphDef, again: bool = False) -> None:
        body = np.frombuffer(serialized(graph), np.uint8)
        self._call(sessions.EXTEND, sessions.AGAIN if again else b"", [body])

    def extend_unwritten(
        self, ops: Sequence[tuple[str, str, str]], write: Callable[[str, NodeDef], None], again: bool = False
    ) -> None:
        """The nodes (name, op, device); `write` makes an empty NodeDef the node of a name. All travel now. again: some
        may be there already, as when the answer to an earlier call was not waited for."""
        graph = GraphDef()
        for name, _, _ in ops:
            write(name, graph.node.add())
        self.extend(graph, again)

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: RunOptions | None = None,
        metadata: RunMetadata | None = None,
    ) -> list[Any]:
        """As RuntimeSession.run. An interrupted wait (Ctrl-C) cancels the step at the master."""
        signature = Signature(tuple(feeds), tuple(fetches), tuple(targets))
        return self._run(signature, list(feeds.values()), options, metadata)

    def prepare(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Callable[..., list[Any]]:
        """A function of the feed values: `f([array, ...], options, metadata) -> [value, ...]`."""
        signature, run = Signature(tuple(feeds), tuple(fetches), tuple(targets)), self._run
        told: list[int] = []  # its number, once the master has run it

        def call(
            values: list[Any], options: RunOptions | None = None, metadata: RunMetadata | None = None
        ) -> list[Any]:
            found = run(signature, values, options, metadata, *told)
            if not told:
                told[:] = [self._number(signature)[0]]
            return found

        return call

    def prepare_to_cancel(self, target: str) -> tuple[Callable[[], object], Callable[[], None]]:
        """As RuntimeSession.prepare_to_cancel."""
        signature, steps = Signature((), (), (target,)), [next(self._steps)]

        def run() -> None:
            try:
                self._run(signature, [], None, None, step=steps[0])
            finally:
                steps[0] = next(self._steps)

        return run, lambda: self._cancel(steps[0])

    def compile_ahead(self, wanted: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Nothing: the master compiles what it is asked to run."""

    def begin_partial(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> RemotePartialRun:
        signature, handle = Signature(tuple(feeds), tuple(fetches), tuple(targets)), new_handle()
        self._call(sessions.BEGIN_PARTIAL, PartialRequest(handle, signature).encode())
        return RemotePartialRun(self, handle)

    def devices(self) -> list[DeviceAttributes]:
        return list(self._devices)

    def close(self) -> None:
        """The end of the channel is the session's: its steps are cancelled, and its parts forgotten."""
        self._closed = True
        self._channel.close("the session was closed")

    # ------------------------------------------------------------------ steps

    def _run(
        self,
        signature: Signature,
        values: list[Any],
        options: RunOptions | None,
        metadata: RunMetadata | None,
        told: int = 0,
        step: int = 0,
    ) -> list[Any]:
        """told: the signature's number, where the master was told of it; should it have forgotten that, it says so.
        step: its own number, a new one if 0."""
        number, is_new = (told, False) if told else self._number(signature)
        asked = b"" if options is None else options.SerializeToString()
        request = StepRequest(number, step or next(self._steps), asked, signature.encode() if is_new else b"")
        own_s = self._timeout_s if options is None else options.timeout_in_ms / 1000 or self._timeout_s
        timeout_s = own_s + _GRACE_S if own_s else None
        reply, fetched = self._step(request, values, timeout_s)
        if reply == sessions.UNKNOWN_SIGNATURE:
            reply, fetched = self._step(request._replace(signature=signature.encode()), values, timeout_s)
        if metadata is not None and options is not None:
            metadata.ParseFromString(reply)
        return fetched

    def _number(self, signature: Signature) -> tuple[int, bool]:
        """The signature's number, and whether the server has yet to hear of it."""
        told = self._told
        number = told.get(signature)
        if number is not None:
            return number, False
        with self._lock:
            number = told.get(signature)
            if number is None:
                number = told[signature] = next(self._signature_numbers)
                if len(told) > sessions.MAX_SIGNATURES:
                    told.popitem(last=False)
        return number, True

    def _step(self, request: StepRequest, values: Sequence[Any], timeout_s: float | None) -> tuple[bytes, list[Any]]:
        try:
            return self._channel.call(sessions.STEP, request.encode(), values, timeout_s)
        except DeadlineExceededError:
            self._cancel(request.step)  # where the master itself has not spoken; it may again
            raise
        except OpError as error:
            raise self._told_why(error) from None
        except BaseException:
            self._cancel(request.step)
            raise

    def _cancel(self, step: int) -> None:
        try:
            self._channel.push(sessions.CANCEL, sessions.encode_cancel(step), waits=False)  # behind the step itself
        except OpError:
            return  # with the channel gone the session is ending anyway

    def _call(
        self, method: int, meta: bytes, tensors: Sequence[Any] = (), timeout_s: float | None = _CONTROL_TIMEOUT_S
    ) -> tuple[bytes, list[Any]]:
        try:
            return self._channel.call(method, meta, tensors, timeout_s)
        except OpError as error:
            raise self._told_why(error) from None

    def _told_why(self, error: OpError) -> OpError:
        """The error itself; where the channel is gone, what that means for the session."""
        ended = self._channel.error
        if ended is None or not isinstance(error, UnavailableError):
            return error
        if self._closed:
            return CancelledError("Session has been closed.")
        return UnavailableError(f"The session at {self._target} is lost: {ended.message}. Open another")


class RemotePartialRun:
    """As PartialRun, of a step that waits at the master."""

    def __init__(self, session: RemoteSession, handle: str):
        self._session, self.handle = session, handle
        self.finished = False

    def advance(self, feeds: Mapping[str, Any], fetches: Sequence[str], targets: Sequence[str]) -> list[Any]:
        request = PartialRequest(self.handle, Signature(tuple(feeds), tuple(fetches), tuple(targets)))
        try:
            reply, values = self._session._call(sessions.PARTIAL, request.encode(), list(feeds.values()), None)
        except OpError:
            raise
        except BaseException:  # Ctrl-C
            self._session._cancel(number_of(self.handle))
            self.finished = True
            raise
        fields = json.loads(reply)
        self.finished = bool(fields["finished"])
        if "error" in fields:
            raise from_dict(fields["error"])
        return values


def reset_remotely(target: str, containers: Sequence[str], filters: Sequence[str], timeout_s: float) -> None:
    """Have the Server at `target` drop these containers (all) in its cluster, and every session there. timeout_s: 0 as
    long as ever."""
    channel = _dial(target, timeout_s or PATIENCE_S)
    try:
        asked = json.dumps([list(containers), list(filters)]).encode()
        channel.call(sessions.RESET_ALL, asked, (), timeout_s or _CONTROL_TIMEOUT_S)
    finally:
        channel.close()


def _dial(target: str, patience_s: float, handler: Handler | None = None) -> Channel:
    """A channel to the Server at the target; one that is not there yet is waited for."""
    address = address_of(target)
    secret, options = credentials(address)
    identity = f"client {next(_numbers)} of process {os.getpid()} on {socket.gethostname()}"
    return patiently(
        lambda: dial_near(address, handler or NoHandler(sessions.NAMES), secret, identity, options, patience_s),
        f"Session target {target!r}",
        patience_s,
    )
