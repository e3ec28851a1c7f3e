"""The sessions of clients in other processes, for which this Server is the master.

A step that waits for nothing and was quick before runs on the thread that read its request, which saves it two
hand-overs between threads; every other one has a thread of its own, so that what a client asks at once runs at once,
and a client that dies is noticed whatever its steps do. How many threads there may be counts for each client.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from sparkflow_runtime.dialling import PATIENCE_S
from sparkflow_runtime.hosting import Host
from sparkflow_runtime.runners import Runners
from sparkflow_runtime.transport.base import Channel, Reply
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.errors import (
    AlreadyExistsError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    to_dict,
)
from sparkflow_runtime.wire.protos import ConfigProto, GraphDef, RunMetadata, RunOptions
from sparkflow_runtime.wire.sessions import PartialRequest, Signature, StepRequest, handle_of

if TYPE_CHECKING:
    from sparkflow_runtime.local_session import RuntimeSession
    from sparkflow_runtime.master.compiled import Compiled
    from sparkflow_runtime.partial import PartialRun

_QUICK_S, _SMALL_BYTES = 500e-6, 256 << 10  # of a step that may run on the reader's thread

_log = logging.getLogger(__name__)


class Master(Host, Protocol):
    """What clients need of their Server."""

    joined: Event  # it knows the other tasks

    def reset_cluster(self, containers: list[str], filters: Any = ()) -> None: ...


class Clients:
    """One session a channel."""

    def __init__(self, server: Master):
        self._server = server
        self._sessions: dict[Channel, ClientSession] = {}
        self._runners = Runners(f"sparkflow-clients {server.name}")

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[Any], reply: Reply | None) -> None:
        if method == sessions.STEP and reply is not None:
            self._of(channel).step(StepRequest.decode(meta), tensors, reply)
        elif method == sessions.CANCEL:
            self._of(channel).cancel(sessions.decode_cancel(meta))
        elif reply is None:
            raise InvalidArgumentError(f"{self._server.name}: method {method} was pushed by {channel}; it is a call")
        elif method == sessions.OPEN and self._server.joined.is_set():
            self._open(channel, meta, reply)
        elif method == sessions.OPEN:
            self._later(reply, lambda: self._open_when_joined(channel, meta, reply))
        elif method == sessions.RESET_ALL:
            containers, filters = json.loads(meta)
            self._later(reply, lambda: self._reset(containers, filters, reply))
        else:
            session = self._of(channel)
            session.later(reply, lambda: session.control(method, meta, tensors, reply))

    def _of(self, channel: Channel) -> ClientSession:
        session = self._sessions.get(channel)
        if session is None:
            raise FailedPreconditionError(f"{self._server.name}: {channel} has opened no session")
        return session

    def _open_when_joined(self, channel: Channel, meta: bytes, reply: Reply) -> None:
        if not self._server.joined.wait(PATIENCE_S):
            raise UnavailableError(f"{self._server.name} has not been told its cluster in {PATIENCE_S:g} s")
        self._open(channel, meta, reply)

    def _open(self, channel: Channel, meta: bytes, reply: Reply) -> None:
        if channel in self._sessions:
            raise AlreadyExistsError(f"{self._server.name}: {channel} has a session already")
        from sparkflow_runtime.local_session import RuntimeSession  # a parameter server is nobody's master

        runners = Runners(f"sparkflow-client-steps {self._server.name}")
        later = partial(self._later, runners=runners)
        session = ClientSession(RuntimeSession(self._server, ConfigProto.FromString(meta)), later, runners.let_go)
        self._sessions[channel] = session
        call = partial(channel.call_async, sessions.CALL)
        self._server.worker.resources.callers[session.runtime.session_id] = call
        if channel.error is not None:  # it waited for this server to be told its cluster, and has gone meanwhile
            self.lost(channel)
            return
        _log.info("%s: session for %s", self._server.name, channel)
        reply(sessions.encode_devices(session.runtime.devices()))

    def _reset(self, containers: list[str], filters: list[str], reply: Reply) -> None:
        self._server.reset_cluster(containers, filters)
        reply()

    def _later(self, reply: Reply, work: Callable[[], None], runners: Runners | None = None) -> None:
        """Do it in a thread of its own; what it raises is the reply."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                if not isinstance(error, OpError):
                    _log.exception("%s: a client's request failed", self._server.name)
                reply(error=error)

        (runners or self._runners).submit(run)

    def lost(self, channel: Channel) -> None:
        """The client has closed its session, or has died. Called by the thread that read what it said, which ends: all
        others may be busy with its steps."""
        session = self._sessions.pop(channel, None)
        if session is not None:
            _log.info("%s: the session for %s ends", self._server.name, channel)
            self._server.worker.resources.callers.pop(session.runtime.session_id, None)
            session.close()

    def close(self) -> None:
        for channel in list(self._sessions):
            session = self._sessions.pop(channel, None)
            if session is not None:
                session.close()


class ClientSession:
    """A client's session. `later(reply, work)` has the work done in another thread; ended: called when it is over."""

    def __init__(
        self, runtime: RuntimeSession, later: Callable[[Reply, Callable[[], None]], None], ended: Callable[[], None]
    ):
        self.runtime, self.later, self._ended = runtime, later, ended
        self._lock = Lock()
        self._signatures: OrderedDict[int, _Known] = OrderedDict()
        self._steps: dict[int, int] = {}  # the client's number of a step -> the master's
        self._partial: dict[str, PartialRun] = {}

    def close(self) -> None:
        self.runtime.close()
        self._partial.clear()
        self._ended()

    # ------------------------------------------------------------------ steps

    def step(self, request: StepRequest, feeds: list[Any], reply: Reply) -> None:
        known = self._known(request)
        if known is None:
            reply(sessions.UNKNOWN_SIGNATURE)
        elif known.quick and not request.options and (compiled := self._straight(known)) is not None:
            run = self.runtime.run_compiled
            self._answer(known, lambda: run(compiled, feeds), reply)
        elif request.options:
            options = RunOptions.FromString(request.options)
            self._begin(request.step, reply, lambda step_id: self._run_with(known, feeds, options, reply, step_id))
        else:
            self._begin(request.step, reply, lambda step_id: self._run(known, feeds, reply, step_id))

    def _known(self, request: StepRequest) -> _Known | None:
        found = self._signatures.get(request.number)
        if found is None and request.signature:
            found = _Known(Signature.decode(request.signature))
            self._signatures[request.number] = found
            if len(self._signatures) > sessions.MAX_SIGNATURES:
                self._signatures.popitem(last=False)
        return found

    def _begin(self, step: int, reply: Reply, work: Callable[[int], None]) -> None:
        step_id = self._steps[step] = self.runtime.new_step_id()

        def run() -> None:
            try:
                work(step_id)
            finally:
                self._steps.pop(step, None)

        self.later(reply, run)

    def _straight(self, known: _Known) -> Compiled | None:
        """What a signature is compiled to, where a step of that runs here and waits for nothing. The session keeps it
        for as long as it has room."""
        found = known.compiled()
        if found is None:
            found = self.runtime.compiled(known.signature)
            if found is None:
                return None
            known.compiled = ref(found)
        return found if self.runtime.is_straight(found) else None

    def _run(self, known: _Known, feeds: list[Any], reply: Reply, step_id: int) -> None:
        self._answer(known, lambda: self.runtime.run_values(known.signature, feeds, step_id), reply)

    @staticmethod
    def _answer(known: _Known, run: Callable[[], list[Any]], reply: Reply) -> None:
        begun_s = time.perf_counter()
        values = run()
        known.took(time.perf_counter() - begun_s, values)
        reply(b"", values)

    def _run_with(self, known: _Known, feeds: list[Any], options: RunOptions, reply: Reply, step_id: int) -> None:
        names, metadata = known.signature, RunMetadata()
        values = self.runtime.run(
            dict(zip(names.feeds, feeds, strict=True)), names.fetches, names.targets, options, metadata, step_id
        )
        reply(metadata.SerializeToString(), values)

    def cancel(self, step: int) -> None:
        step_id, error = self._steps.get(step), CancelledError("The client gave the step up")
        if step_id is not None:
            self.runtime.cancel(step_id, error)
        elif self._partial and (run := self._partial.pop(handle_of(step), None)) is not None:
            run.cancel(error)

    # ------------------------------------------------------------------ what runs no step, or in pieces

    def control(self, method: int, meta: bytes, tensors: list[Any], reply: Reply) -> None:
        if method == sessions.EXTEND:
            self.runtime.extend(GraphDef.FromString(tensors[0].tobytes()), meta == sessions.AGAIN)
            reply()
        elif method == sessions.BEGIN_PARTIAL:
            request = PartialRequest.decode(meta)
            self._partial[request.handle] = self.runtime.begin_partial(*request.signature, request.handle)
            reply()
        else:
            self._advance(PartialRequest.decode(meta), tensors, reply)

    def _advance(self, request: PartialRequest, feeds: list[Any], reply: Reply) -> None:
        run = self._partial.get(request.handle)
        if run is None:
            raise InvalidArgumentError(f"No partial run {request.handle!r}: it is finished, or nobody began it")
        names, values, failed = request.signature, [], None
        try:
            values = run.advance(dict(zip(names.feeds, feeds, strict=True)), names.fetches, names.targets)
        except OpError as error:
            failed = to_dict(error)
        if run.finished:
            self._partial.pop(request.handle, None)
        fields = {"finished": run.finished, **({} if failed is None else {"error": failed})}
        reply(json.dumps(fields).encode(), values)


class _Known:
    """A signature, and whether its last step was quick and small. compiled: gives what it was compiled to, or None."""

    __slots__ = ("compiled", "quick", "signature")

    def __init__(self, signature: Signature):
        self.signature, self.quick = signature, False
        self.compiled: Callable[[], Compiled | None] = lambda: None

    def took(self, took_s: float, values: list[Any]) -> None:
        self.quick = took_s < _QUICK_S and sum([getattr(v, "nbytes", 0) for v in values]) < _SMALL_BYTES
