"""Another task of the cluster, as masters in this process see it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.afterwards import AFTERWARDS
from sparkflow_runtime.dialling import PATIENCE_S
from sparkflow_runtime.served import SERVERS
from sparkflow_runtime.transport.base import Channel
from sparkflow_runtime.wire import waiting
from sparkflow_runtime.wire.bundles import Bundle, copies, decode_table, encode_table, tensors_of
from sparkflow_runtime.wire.cluster import numbered
from sparkflow_runtime.wire.errors import AbortedError, DeadlineExceededError, OpError, UnavailableError, to_dict
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.serialized import serialized
from sparkflow_runtime.wire.tasks import (
    ABORT,
    DEREGISTER,
    FORGET,
    GPUS,
    REGISTER,
    RESET,
    RUN,
    RUN_META,
    STEP_META,
    WAITS,
    are_of_one_life,
)

if TYPE_CHECKING:
    from sparkflow_runtime.server import Server

_REGISTER_TIMEOUT_S = 120.0
_log = logging.getLogger(__name__)


class _Handle:
    """Of a part that a task compiles (see master.compiled.Pending)."""

    def __init__(self, task: str, nodes: int, answer: Future[int]):
        self._task, self._nodes, self._answer = task, nodes, answer
        self.done = answer.done

    def __call__(self) -> int:
        try:
            with waiting.wait(_REGISTER_TIMEOUT_S) as most_s:
                return self._answer.result(most_s)
        except TimeoutError:
            when = waiting.told() if waiting.is_over() else f"in {_REGISTER_TIMEOUT_S:g} s"
            raise DeadlineExceededError(
                f"{self._task} did not take its part of the graph, {self._nodes} nodes, {when}. Look for an earlier "
                "error in its log"
            ) from None


class RemoteTask:
    """A task, over the channel that a server has to it (see master.Task). patience_s: see Server.tasks."""

    def __init__(self, server: Server, name: str, patience_s: float = PATIENCE_S):
        self._server, self.name, self._patience_s = server, name, patience_s
        self._gpus: int | None = None
        self._first = 0  # handle that it gave
        AFTERWARDS.begin()  # see `forget`

    @property
    def is_here(self) -> bool:
        address = numbered(self._server.cluster.addresses()[self.name])
        return any(s.name == self.name and s.told == address for s in list(SERVERS.values()))

    def register(
        self, session: str, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str], trace: bool = False
    ) -> _Handle:
        meta = {"session": session, "feeds": list(feeds), "fetches": list(fetches), "trace": trace}
        meta |= {"cluster": self._server.cluster.as_dict(), "process": self._server.process}
        body = np.frombuffer(serialized(graph), np.uint8)
        answer: Future[int] = Future()

        def untold() -> None:
            if over:
                self._server.untold.setdefault(self.name, []).extend(over)

        def replied(error: OpError | None, reply: bytes, tensors: list[Any]) -> None:
            if error is not None:
                untold()
                answer.set_exception(error)
            else:
                self._take(int(STEP_META.unpack(reply)[0]), answer)

        channel = self._channel()
        over = meta["over"] = self._server.untold.pop(self.name, [])
        try:
            deadline = time.monotonic() + _REGISTER_TIMEOUT_S
            channel.call_async(REGISTER, json.dumps(meta).encode(), [body], replied, deadline)
        except OpError:
            untold()
            raise
        return _Handle(self.name, len(graph.node), answer)

    def _channel(self) -> Channel:
        """Waits for a task that has not come yet."""
        if (found := self._server.open_channel(self.name)) is not None:
            return found
        with waiting.wait(self._patience_s) as most_s:
            try:
                return self._server.channel(self.name, most_s)
            except UnavailableError as error:
                if most_s < self._patience_s:
                    raise DeadlineExceededError(error.message) from None
                raise

    def _take(self, handle: int, answer: Future[int]) -> None:
        """Only if nothing is lost of what the session had made there before."""
        self._first = self._first or handle
        if are_of_one_life(handle, self._first):
            answer.set_result(handle)
            return
        self.forget(handle)
        answer.set_exception(AbortedError(
            f"{self.name} was restarted or reset, and what this session had there is lost. Make a new one"
        ))  # fmt: skip

    def start(
        self,
        handle: int,
        step_id: int,
        feeds: list[Any],
        done: Callable[..., None],
        bundles: Sequence[Bundle] = (),
        deadline: float | None = None,
    ) -> Callable[[float], None] | None:
        def replied(error: OpError | None, meta: bytes, tensors: list[Any]) -> None:
            fetched = tensors
            try:
                fetched, parting = decode_table(meta, tensors)
                for bundle, own in parting:
                    self._server.worker.rendezvous.deliver(step_id, bundle, own)
            except OpError as problem:
                error = error or problem
            done(error, fetched)

        meta, tensors = RUN_META.pack(handle, step_id) + encode_table(bundles), [*feeds, *tensors_of(bundles)]
        channel = self._server.open_channel(self.name)
        if channel is not None:
            try:
                return partial(channel.take_answer, channel.call_async(RUN, meta, tensors, replied, deadline))
            except DeadlineExceededError as error:  # the rest of it may arrive, when nobody waits for the step any more
                self.abort(step_id, error)
                raise
        kept, own = copies(tensors), (self.name, step_id)
        self._server.held_back.add(own)

        def send(channel: Channel) -> None:
            if own in self._server.held_back:
                self._server.held_back.discard(own)  # one that is aborted now is told so behind this
                channel.call_async(RUN, meta, kept, replied)
            else:
                done(AbortedError(f"Step {step_id} was aborted before it began"), None)

        def failed(error: OpError) -> None:
            self._server.held_back.discard(own)
            done(error, None)

        self._server.outbox.put(self.name, send, failed)
        return None

    def done_with(self, step_id: int, abort: Callable[[OpError], None]) -> Callable[[], None]:
        channel = self._server.open_channel(self.name)
        if channel is None:
            abort(UnavailableError(f"{self.name} was lost, and what it did in step {step_id} may be lost with it"))
            return lambda: None
        return self._server.finished_parts.note(channel, step_id, abort)

    def abort(self, step_id: int, error: OpError) -> None:
        self._server.held_back.discard((self.name, step_id))
        channel = self._server.open_channel(self.name)
        if channel is not None:
            told = STEP_META.pack(step_id) + json.dumps(to_dict(error)).encode()
            _quietly(lambda: channel.push(ABORT, told, waits=False))  # the step's own message may be on its way yet

    def waits(self, step_id: int, said: Callable[[str], None]) -> None:
        def replied(error: OpError | None, meta: bytes, tensors: list[Any]) -> None:
            said(meta.decode(errors="replace") if error is None else error.message)

        channel = self._server.open_channel(self.name)
        if channel is not None:
            _quietly(lambda: channel.call_async(WAITS, STEP_META.pack(step_id), (), replied))

    def gpus(self) -> int:
        if self._gpus is None:
            channel = self._channel()
            with waiting.wait(_REGISTER_TIMEOUT_S) as most_s:
                answer, _ = channel.call(GPUS, b"", (), most_s)
            self._gpus = int(STEP_META.unpack(answer)[0])
        return self._gpus

    def deregister(self, session: str) -> None:
        channel = self._server.open_channel(self.name)
        if channel is None or not _quietly(lambda: channel.push(DEREGISTER, session.encode(), waits=False)):
            self._server.untold.setdefault(self.name, []).append(session)  # it hears that with what is registered next

    def forget(self, handle: int) -> None:
        """By a finalizer, too."""
        AFTERWARDS.later(lambda: self._forget(handle))

    def _forget(self, handle: int) -> None:
        channel = self._server.open_channel(self.name)
        if channel is not None:
            _quietly(lambda: channel.push(FORGET, STEP_META.pack(handle), waits=False))

    def reset(self, containers: list[str]) -> None:
        """Have the task drop these containers (all) and every session's parts."""
        self._server.channel(self.name).call(RESET, json.dumps(containers).encode(), (), _REGISTER_TIMEOUT_S)


def _quietly(send: Callable[[], object]) -> bool:
    """For messages to a peer that may be gone: its channel's end is told to whoever waits for it. False: not sent."""
    try:
        send()
    except OpError as error:
        _log.debug("not sent: %s", error)
        return False
    return True
